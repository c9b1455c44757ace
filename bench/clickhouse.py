"""The baseline of the query benchmark: ClickHouse in this process (chDB), two threads, MergeTree
ordered by event and timestamp.

Reads one JSON object per line and writes one per line. {"load": file, "columns": [[name, type], ...]}
loads the table; {"sql": text} returns {"ms": ..., "rows": [...]}.
"""

import json
import sys
import time

from chdb import session

directory = sys.argv[1]
base = session.Session(directory)
base.query("SET max_threads = 2")


def query(sql):
    return base.query(sql + " SETTINGS max_threads = 2", "JSONCompact")


for line in sys.stdin:
    request = json.loads(line)
    started = time.perf_counter()
    rows = []
    if "load" in request:
        columns = request["columns"]
        typed = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        base.query("CREATE DATABASE IF NOT EXISTS bench")
        base.query(
            f"CREATE TABLE bench.events ({typed}) ENGINE = MergeTree ORDER BY (event, timestamp)"
        )
        base.query(
            f"INSERT INTO bench.events SELECT * FROM file('{request['load']}', TabSeparated)"
            " SETTINGS max_threads = 2, max_insert_threads = 1"
        )
        base.query("OPTIMIZE TABLE bench.events FINAL")
    else:
        rows = json.loads(str(query(request["sql"])))["data"]
    elapsed = (time.perf_counter() - started) * 1e3
    print(json.dumps({"ms": elapsed, "rows": rows}), flush=True)
