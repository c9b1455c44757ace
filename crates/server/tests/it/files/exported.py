"""Converts a JSON export to Parquet files with the schemas that other programs write."""
import json
import sys
import uuid

import polars

source, directory = sys.argv[1:]
lines = [json.loads(line) for line in open(source)]


def table(lines):
    def texts(name):
        return [line.get(name) for line in lines]

    def objects(name):
        return [json.dumps(line[name]) if name in line else None for line in lines]

    return polars.DataFrame({
        "uuid": polars.Series(texts("uuid"), dtype=polars.String),
        "event": texts("event"),
        "distinct_id": texts("distinct_id"),
        "person_id": polars.Series(texts("person_id"), dtype=polars.String),
        "properties": objects("properties"),
        "person_properties": polars.Series(objects("person_properties"), dtype=polars.String),
        "elements_chain": polars.Series(texts("elements_chain"), dtype=polars.String),
        "timestamp": polars.Series(texts("timestamp"), dtype=polars.String),
        # Not of interest, and of a type that no event has.
        "_inserted_at": [[1, 2]] * len(lines),
    })


def times(unit):
    instant = polars.col("timestamp").str.to_datetime(time_unit=unit, time_zone="UTC")
    return lambda table: table.with_columns(instant)


shapes = {
    "as-exported": ("zstd", times("us")),
    "snappy-ms": ("snappy", times("ms")),
    "gzip-ns": ("gzip", times("ns")),
    "lz4-text": ("lz4", lambda table: table),
    "plain-bytes": ("uncompressed", lambda table: times("us")(table).with_columns(
        polars.Series("uuid", [uuid.UUID(one).bytes for one in table["uuid"]]),
        polars.col("properties").cast(polars.Binary),
    )),
    "dictionaries": ("zstd", lambda table: times("us")(table).with_columns(
        polars.col("event", "distinct_id").cast(polars.Categorical),
    )),
}
if "uuid" not in lines[0]:
    table(lines).drop("uuid").write_parquet(f"{directory}/nameless.parquet", row_group_size=3_000)
else:
    share = -(-len(lines) // len(shapes))
    for n, (name, (compression, shape)) in enumerate(shapes.items()):
        part = shape(table(lines[n * share : (n + 1) * share]))
        part.write_parquet(f"{directory}/{name}.parquet", compression=compression, row_group_size=4)
