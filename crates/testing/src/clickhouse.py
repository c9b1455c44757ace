"""Creates tables in ClickHouse (chDB), and prints the rows or the error of each query.

Reads batches from stdin: [{"setup": [statement, ...], "zone": name, "queries": [[tables, text], ...]}, ...],
where tables are [[name, text], ...].
"""

import json
import sys

from chdb import session

# The arithmetic optimization turns max(x - 12) into max(x) - 12, which differs for no rows.
SETTINGS = (
    "join_use_nulls = 1, max_threads = 1, compile_expressions = 0, "
    "compile_aggregate_expressions = 0, "
    "optimize_arithmetic_operations_in_aggregate_functions = 0, "
    "output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 0"
)

clickhouse = session.Session()


def run(tables, text, zone, optimize=True):
    settings = f"{SETTINGS}, session_timezone = '{zone}'"
    if not optimize:
        settings += ", query_plan_enable_optimizations = 0"
    try:
        for name, select in tables:
            clickhouse.query(
                f"create or replace table {name} engine = Memory as {select} settings {settings}"
            )
        rows = str(clickhouse.query(f"{text} format JSONCompactEachRow settings {settings}"))
        return {"rows": [json.loads(line) for line in rows.splitlines() if line]}
    except Exception as refusal:
        # The optimizer does not terminate on some plans.
        if "TOO_MANY_QUERY_PLAN_OPTIMIZATIONS" in str(refusal) and optimize:
            return run(tables, text, zone, optimize=False)
        return {"refusal": str(refusal)[:300]}


results = []
for batch in json.load(sys.stdin):
    for statement in batch["setup"]:
        clickhouse.query(statement)
    results.append([run(*query, batch["zone"]) for query in batch["queries"]])
json.dump(results, sys.stdout)
