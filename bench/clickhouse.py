"""The baseline of the query benchmark: ClickHouse in this process (chDB), two threads.

Reads one JSON object per line and writes one per line. {"run": text} returns {}; {"sql": text} returns
{"ms": ..., "columns": [...], "rows": [...]}, with the time until the result is there as text. A failed
statement returns {"error": text}.
"""

import json
import sys
import time

from chdb import session

directory = sys.argv[1]
base = session.Session(directory)
base.query("SET max_threads = 2")


def answer(request):
    if "run" in request:
        base.query(request["run"])
        return {}
    started = time.perf_counter()
    text = str(base.query(request["sql"] + " SETTINGS max_threads = 2", "JSONCompact"))
    elapsed = (time.perf_counter() - started) * 1e3
    result = json.loads(text)
    columns = [column["name"] for column in result["meta"]]
    return {"ms": elapsed, "columns": columns, "rows": result["data"]}


for line in sys.stdin:
    try:
        answered = answer(json.loads(line))
    except Exception as error:
        answered = {"error": str(error)}
    print(json.dumps(answered), flush=True)
