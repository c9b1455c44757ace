//! The schema: every topology's statements, changes, and columns of properties.

use clickhouse::{EventFilter, PROMOTED_MAX, Reader, Schema, Topology};
use serde_json::json;
use testing::clickhouse::Database;

use crate::support::{PROJECT, Store, client, row, writer};

fn topologies() -> [Topology; 3] {
    let cluster = || "main".to_owned();
    [
        Topology::Single,
        Topology::Replicated { cluster: cluster() },
        Topology::Sharded { cluster: cluster() },
    ]
}

#[test]
fn clickhouse_parses_the_statements_of_every_topology() {
    let Some(database) = Database::new() else { return };
    for topology in topologies() {
        for statement in Schema::statements(&topology) {
            let tree = database.sql(&format!("EXPLAIN AST {statement}"));
            assert!(tree.starts_with("CreateQuery"), "{tree}");
            assert_eq!(statement.contains("ON CLUSTER `main`"), topology != Topology::Single);
        }
    }
    let sharded = Schema::statements(&topologies()[2]);
    let distributed: Vec<_> =
        sharded.iter().filter(|text| text.contains("ENGINE = Distributed")).collect();
    assert_eq!(distributed.len(), 1, "only events are spread over shards");
}

/// Until somebody has checked whose events they are, queries do not read tables that can be read.
#[test]
fn a_locked_reader_reads_nothing_although_the_schema_is_prepared() {
    let Some(database) = Database::new() else { return };
    let schema = Schema::unprepared(client(&database.url));
    let reader = Reader::new(schema.clone()).locked();
    schema.prepare().unwrap();
    schema.client().ping().unwrap();
    assert!(reader.clone().span(PROJECT).is_err() && reader.is_locked());
    reader.unlock();
    assert_eq!(reader.span(PROJECT).unwrap(), None);
}

#[test]
fn opening_twice_changes_nothing_and_a_newer_schema_is_refused() {
    let Some(database) = Database::new() else { return };
    let tables = || {
        database.sql(
            "SELECT groupArray(create_table_query) FROM system.tables \
         WHERE database = currentDatabase()",
        )
    };
    Schema::open(client(&database.url)).unwrap();
    let before = tables();
    let schema = Schema::open(client(&database.url)).unwrap();
    assert_eq!(tables(), before);
    assert!(schema.promoted().contains("$current_url"));
    database.sql("INSERT INTO schema_versions VALUES (1000)");
    let error = Schema::open(client(&database.url)).unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
}

#[test]
fn a_property_reads_the_same_before_and_after_it_gets_a_column() {
    let Some(mut store) = Store::open() else { return };
    let properties = json!({"plan": "pro", "paid": null, "n": 1.50, "odd`name": true});
    let old = row(1, properties.clone());
    store.append(std::slice::from_ref(&old));
    store.writer.flush().unwrap();
    // A writer that does not know of the columns.
    let stale = writer(&store.schema, crate::support::JOURNAL);
    stale.append(&[row(2, properties.clone()).as_new().unwrap()], 3).unwrap();
    let other = Schema::open(store.schema.client().clone()).unwrap();
    assert_eq!(other.promote(["plan", "paid", "n", "odd`name", "$current_url"]).unwrap(), 3);
    stale.flush().unwrap();
    store.reopen();
    store.append(&[row(3, properties)]);
    store.writer.flush().unwrap();
    let all = store.all();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|row| row.properties == all[0].properties), "{all:?}");
    let values = store.reader.values(PROJECT, &EventFilter::default(), "plan", 10).unwrap();
    assert_eq!((values[0].json.as_str(), values[0].events), ("\"pro\"", 3));
    let column = store.database.sql("SELECT groupArray(`p.plan`) FROM events FINAL");
    assert_eq!(column, "['tpro','tpro','tpro']");
}

#[test]
fn properties_get_columns_by_use_and_up_to_a_bound() {
    let Some(store) = Store::open() else { return };
    let names: Vec<String> = (0..200).map(|no| format!("many_{no}")).collect();
    store.schema.promote(names.iter().map(String::as_str)).unwrap();
    assert_eq!(store.schema.promoted().len(), PROMOTED_MAX);
    let Some(store) = Store::open() else { return };
    let rows: Vec<_> = (0..10_000)
        .map(|no| match no % 50 {
            0 => row(no, json!({"often": no, "rare": 1})),
            _ => row(no, json!({"always": no})),
        })
        .collect();
    store.append(&rows);
    store.writer.flush().unwrap();
    let before = store.schema.promoted().len();
    store.writer.tidy().unwrap();
    let promoted = store.schema.promoted();
    assert!(promoted.contains("always") && promoted.contains("often"), "{promoted:?}");
    assert_eq!(promoted.len(), before + 3);
    assert_eq!(store.writer.size().rows, 10_000);
}
