"""ClickHouse's HTTP interface over chDB, for tests; tools/with-clickhouse starts it.

It answers one query at a time, accepts every user, compresses nothing, and creates databases that
requests name. Prints its port when it listens.
"""

import re
import signal
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

# What a request's URL says besides settings and `param_*`.
RESERVED = {
    "buffer_size",
    "database",
    "default_format",
    "password",
    "query",
    "query_id",
    "readonly",
    "user",
    "wait_end_of_query",
}
BODY_BYTES_MAX = 1 << 30
# ClickHouse's statuses of codes; all others are 500.
STATUSES = {
    404: (46, 47, 50, 60, 81, 115),
    403: (192, 193, 516),
    400: (6, 26, 27, 36, 38, 41, 53, 62, 69, 456, 457),
    408: (159,),
    413: (307, 396),
    501: (48,),
}
STATUS_OF_CODE = {code: status for status, codes in STATUSES.items() for code in codes}
READS = re.compile(r"\s*\(*\s*(select|with|explain|show|describe|desc|exists)\b", re.IGNORECASE)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
INSERT_WITH_DATA = re.compile(r"(\s*insert\b.*)(\bformat\s+\w+\s*)\Z", re.IGNORECASE | re.DOTALL)

clickhouse = session.Session(sys.argv[1])
one_at_a_time = threading.Lock()


class Refused(Exception):
    def __init__(self, code, name, text):
        super().__init__(f"Code: {code}. DB::Exception: {text}. ({name})")


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def changed(settings):
    """The settings that were set, to restore them also after a setting that is refused."""
    for name, value in settings.items():
        if not IDENTIFIER.match(name):
            raise Refused(115, "UNKNOWN_SETTING", f"Unknown setting {quoted(name)}")
        clickhouse.query(f"SET {name} = {quoted(value)}")
        yield name


def run(fields, body):
    settings = {name: value for name, value in fields.items() if name not in RESERVED}
    parameters = {
        name[len("param_") :]: settings.pop(name)
        for name in list(settings)
        if name.startswith("param_")
    }
    query = fields.get("query", "")
    if not query:
        query, body = body.decode(), b""
    if fields.get("readonly", "0") != "0" and not READS.match(query):
        raise Refused(164, "READONLY", "Cannot execute query in readonly mode")
    database = fields.get("database", "default")
    if not IDENTIFIER.match(database):
        raise Refused(81, "UNKNOWN_DATABASE", f"Database {quoted(database)} does not exist")
    restored = []
    try:
        clickhouse.query(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        clickhouse.query(f"USE `{database}`")
        for name in changed(settings):
            restored.append(name)
        default_format = fields.get("default_format", "TabSeparated")
        if insert := INSERT_WITH_DATA.match(query):
            with open(sys.argv[1] + ".body", "wb") as file:
                file.write(body)
            infile = f"FROM INFILE {quoted(file.name)} COMPRESSION 'none' "
            query = insert.group(1) + infile + insert.group(2)
        elif body:
            query += "\n" + body.decode()
        result = clickhouse.query(query, default_format, params=parameters or None)
        return (result.bytes(), result.rows_read()) if result else (b"", 0)
    finally:
        for name in restored:
            clickhouse.query(f"SET {name} = DEFAULT")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes, which Nagle's algorithm would delay.
    disable_nagle_algorithm = True

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            length = int(self.headers.get("Content-Length") or 0)
            return self.rfile.read(length) if length <= BODY_BYTES_MAX else None
        parts, length = [], 0
        while size := int(self.rfile.readline().split(b";")[0], 16):
            length += size
            if length > BODY_BYTES_MAX:
                return None
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def handle_query(self):
        url = urlsplit(self.path)
        body = self.body()
        if body is None:
            self.close_connection = True
            return self.answer(413, b"the body is too large\n")
        if url.path == "/ping":
            return self.answer(200, b"Ok.\n")
        fields = dict(parse_qsl(url.query, keep_blank_values=True))
        if "query" not in fields and not body:
            return self.answer(200, b"Ok.\n")
        if self.command == "GET":
            fields["readonly"] = "1"
        query_id = fields.get("query_id") or str(uuid.uuid4())
        headers = [("X-ClickHouse-Query-Id", query_id)]
        try:
            with one_at_a_time:
                result = run(fields, body)
        except Exception as why:
            # chDB wraps some errors in themselves.
            text = re.sub(r"(Code: \d+\. DB::Exception: )\1", r"\1", str(why))
            code = re.search(r"Code: (\d+)\. ", text)
            code = int(code.group(1)) if code else 1002
            headers.append(("X-ClickHouse-Exception-Code", str(code)))
            return self.answer(STATUS_OF_CODE.get(code, 500), text.encode() + b"\n", headers)
        result, rows = result
        headers.append(("X-ClickHouse-Summary", f'{{"read_rows":"{rows}"}}'))
        return self.answer(200, result, headers)

    do_GET = do_POST = handle_query

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
