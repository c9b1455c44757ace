"""Loads tables into ClickHouse and answers each query of a list, or says why it refuses.

On stdin: [{"setup": [statement, ...], "zone": name, "queries": [[tables, text], ...]}, ...],
where tables are [[name, text], ...]
"""

import json
import sys

from chdb import session

SETTINGS = (
    "join_use_nulls = 1, max_threads = 1, compile_expressions = 0, "
    "compile_aggregate_expressions = 0, "
    "output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 0"
)

ours = session.Session()


def answer(tables, text, zone, plain=False):
    settings = f"{SETTINGS}, session_timezone = '{zone}'"
    if plain:
        settings += ", query_plan_enable_optimizations = 0"
    try:
        for name, made in tables:
            ours.query(
                f"create or replace table {name} engine = Memory as {made} settings {settings}"
            )
        found = str(ours.query(f"{text} format JSONCompactEachRow settings {settings}"))
        return {"rows": [json.loads(line) for line in found.splitlines() if line]}
    except Exception as refusal:
        # Some plans it optimises in circles, and gives up.
        if "TOO_MANY_QUERY_PLAN_OPTIMIZATIONS" in str(refusal) and not plain:
            return answer(tables, text, zone, plain=True)
        return {"refusal": str(refusal)[:300]}


answers = []
for lot in json.load(sys.stdin):
    for statement in lot["setup"]:
        ours.query(statement)
    answers.append([answer(*query, lot["zone"]) for query in lot["queries"]])
json.dump(answers, sys.stdout)
