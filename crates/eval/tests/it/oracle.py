"""Evaluates each expression of a JSON list on stdin with ClickHouse; prints results and errors as JSON."""

import json
import sys

from chdb import session

clickhouse = session.Session()
results = []
for expression in json.load(sys.stdin):
    try:
        output = clickhouse.query(
            f"select {expression} as x format JSONCompactEachRow settings "
            "session_timezone = 'Europe/Berlin', "
            "output_format_json_quote_64bit_integers = 0, "
            "output_format_json_quote_denormals = 0"
        )
        results.append({"result": json.loads(str(output))[0]})
    except Exception as error:
        results.append({"error": str(error)[:300]})
json.dump(results, sys.stdout)
