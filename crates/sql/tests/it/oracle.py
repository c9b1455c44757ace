"""Loads tables into ClickHouse and answers each query of a list, or says why it refuses.

On stdin: {"setup": [statement, ...], "queries": [text, ...]}
"""

import json
import sys

from chdb import session

SETTINGS = (
    "join_use_nulls = 1, session_timezone = 'UTC', "
    "output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 0"
)

ours = session.Session()
asked = json.load(sys.stdin)
for statement in asked["setup"]:
    ours.query(statement)
answers = []
for text in asked["queries"]:
    try:
        found = str(ours.query(f"{text} format JSONCompactEachRow settings {SETTINGS}"))
        answers.append({"rows": [json.loads(line) for line in found.splitlines() if line]})
    except Exception as refusal:
        answers.append({"refusal": str(refusal)[:300]})
json.dump(answers, sys.stdout)
