"""The reference for queries: ClickHouse inside of this process, two threads, its best layout.

Reads a line of JSON, writes a line of JSON. {"load": file, "columns": [[name, type], ...]} fills the
table; {"sql": text} answers {"ms": ..., "rows": [...]}.
"""

import json
import sys
import time

from chdb import session

folder = sys.argv[1]
base = session.Session(folder)
base.query("SET max_threads = 2")


def ask(sql):
    return base.query(sql + " SETTINGS max_threads = 2", "JSONCompact")


for line in sys.stdin:
    wanted = json.loads(line)
    begun = time.perf_counter()
    rows = []
    if "load" in wanted:
        columns = wanted["columns"]
        typed = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        base.query("CREATE DATABASE IF NOT EXISTS bench")
        base.query(
            f"CREATE TABLE bench.events ({typed}) ENGINE = MergeTree ORDER BY (event, timestamp)"
        )
        base.query(
            f"INSERT INTO bench.events SELECT * FROM file('{wanted['load']}', TabSeparated)"
            " SETTINGS max_threads = 2, max_insert_threads = 1"
        )
        base.query("OPTIMIZE TABLE bench.events FINAL")
    else:
        rows = json.loads(str(ask(wanted["sql"])))["data"]
    took = (time.perf_counter() - begun) * 1e3
    print(json.dumps({"ms": took, "rows": rows}), flush=True)
