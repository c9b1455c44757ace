//! The template of all tables; a topology fills in the engines.

use super::{COMMON_PROPERTIES, property_column};
use crate::settings::Topology;

/// Blocks whose tokens a table without replicas remembers; replicated ones remember as many by default.
const REMEMBERED_BLOCKS: u32 = 1_000;

pub(crate) const EVENTS_TABLE: &str = "events";

pub(super) struct Table {
    pub name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    indexes: &'static [&'static str],
    /// Of rows with one key, the one with the greatest of this counts.
    version: &'static str,
    partition: Option<&'static str>,
    order: &'static str,
    /// By which rows are spread over shards; without it, every shard has all rows.
    sharding: Option<&'static str>,
}

/// Days and months of times that ClickHouse's dates do not reach are those of the nearest that they do,
/// which also bounds the number of partitions.
const MONTH: &str = "toYYYYMM(least(greatest(timestamp, toDateTime64('2000-01-01 00:00:00', 6, 'UTC')), \
     toDateTime64('2099-12-31 00:00:00', 6, 'UTC')))";
const EVENT_KEY: &str = "project_id, event, \
     toDate(least(greatest(timestamp, toDateTime64('1970-01-02 00:00:00', 6, 'UTC')), \
     toDateTime64('2149-01-01 00:00:00', 6, 'UTC'))), distinct_no, uuid";

/// A time as the partitions of events see it.
pub(crate) fn within_months(time: &str) -> String {
    format!(
        "least(greatest({time}, toDateTime64('2000-01-01 00:00:00', 6, 'UTC')), \
         toDateTime64('2099-12-31 00:00:00', 6, 'UTC'))"
    )
}

pub(super) const EVENTS: Table = Table {
    name: EVENTS_TABLE,
    columns: &[
        ("project_id", "Int64"),
        ("uuid", "UUID"),
        ("event", "LowCardinality(String)"),
        ("distinct_no", "UInt32"),
        ("distinct_id", "String"),
        ("timestamp", "DateTime64(6, 'UTC')"),
        ("created_at", "DateTime64(6, 'UTC')"),
        ("position", "UInt64"),
        ("elements_chain", "String"),
        // Empty where the event belongs to no group of the type.
        ("group_0", "String"),
        ("group_1", "String"),
        ("group_2", "String"),
        ("group_3", "String"),
        ("group_4", "String"),
        ("historical", "Bool"),
        // The properties without a column of their own.
        ("rest", "Map(LowCardinality(String), String)"),
    ],
    indexes: &[
        "by_uuid uuid TYPE bloom_filter GRANULARITY 4",
        "by_timestamp timestamp TYPE minmax GRANULARITY 1",
        "by_position position TYPE minmax GRANULARITY 1",
    ],
    version: "position",
    partition: Some(MONTH),
    order: EVENT_KEY,
    sharding: Some("sipHash64(project_id, distinct_no)"),
};

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "schema_versions",
        columns: &[("version", "UInt32")],
        indexes: &[],
        version: "version",
        partition: None,
        order: "version",
        sharding: None,
    },
    EVENTS,
    Table {
        name: "distinct_ids",
        columns: &[
            ("project_id", "Int64"),
            ("distinct_no", "UInt32"),
            ("distinct_id", "String"),
            ("has_person", "Bool"),
            ("person_no", "UInt32"),
            // Of the person, or the one that the distinct id has as long as it has none.
            ("person_id", "UUID"),
            ("position", "UInt64"),
        ],
        indexes: &[],
        version: "position",
        partition: None,
        order: "project_id, distinct_no",
        sharding: None,
    },
    Table {
        name: "persons",
        columns: &[
            ("project_id", "Int64"),
            ("person_no", "UInt32"),
            ("person_id", "UUID"),
            ("created_at", "DateTime64(6, 'UTC')"),
            ("is_identified", "Bool"),
            ("is_deleted", "Bool"),
            ("properties", "Map(LowCardinality(String), String)"),
            ("position", "UInt64"),
        ],
        indexes: &[],
        version: "position",
        partition: None,
        order: "project_id, person_no",
        sharding: None,
    },
    Table {
        name: "groups",
        columns: &[
            ("project_id", "Int64"),
            ("type", "UInt8"),
            ("key", "String"),
            ("created_at", "DateTime64(6, 'UTC')"),
            ("is_deleted", "Bool"),
            ("properties", "Map(LowCardinality(String), String)"),
            ("position", "UInt64"),
        ],
        indexes: &[],
        version: "position",
        partition: None,
        order: "project_id, type, key",
        sharding: None,
    },
    Table {
        name: "cohort_members",
        columns: &[
            ("project_id", "Int64"),
            ("cohort_id", "Int64"),
            // A calculation of the cohort; static cohorts have one version for good.
            ("version", "Int64"),
            ("person_no", "UInt32"),
            ("is_deleted", "Bool"),
            ("position", "UInt64"),
        ],
        indexes: &[],
        version: "position",
        partition: None,
        order: "project_id, cohort_id, version, person_no",
        sharding: None,
    },
    Table {
        name: "lanes",
        columns: &[
            ("lane", "UInt16"),
            // Rises when the lane is filled anew.
            ("generation", "UInt32"),
            ("journal", "String"),
            // The first journal position whose rows are not here.
            ("position", "UInt64"),
        ],
        indexes: &[],
        version: "position",
        partition: None,
        order: "lane, generation",
        sharding: None,
    },
    Table {
        name: "deletions",
        columns: &[
            ("lane", "UInt16"),
            ("project_id", "Int64"),
            // As JSON.
            ("selection", "String"),
            // Rows at this journal position or later are not deleted.
            ("before", "UInt64"),
        ],
        indexes: &[],
        version: "before",
        partition: None,
        order: "lane, project_id, selection, before",
        sharding: None,
    },
];

impl Table {
    /// The statements that create the table.
    pub fn create(&self, topology: &Topology) -> Vec<String> {
        let Self { name, version, order, .. } = self;
        let on_cluster =
            topology.cluster().map_or(String::new(), |cluster| format!(" ON CLUSTER `{cluster}`"));
        let is_sharded = self.sharding.is_some() && matches!(topology, Topology::Sharded { .. });
        let local = if is_sharded { format!("{name}_local") } else { (*name).to_owned() };
        let engine = match topology {
            Topology::Single => format!("ReplacingMergeTree({version})"),
            _ if is_sharded => format!(
                "ReplicatedReplacingMergeTree('/clickhouse/tables/{{shard}}/{{database}}/{{table}}', \
                 '{{replica}}', {version})"
            ),
            // Replicas of all shards are replicas of one table.
            _ => format!(
                "ReplicatedReplacingMergeTree('/clickhouse/tables/all/{{database}}/{{table}}', \
                 '{{shard}}-{{replica}}', {version})"
            ),
        };
        let columns = self.columns.iter().map(|(name, ty)| format!("`{name}` {ty}"));
        let properties = COMMON_PROPERTIES.iter().filter(|_| *name == EVENTS.name);
        let columns: Vec<String> =
            columns.chain(properties.map(|name| property_column(name))).collect();
        let indexes = self.indexes.iter().map(|index| format!(", INDEX {index}"));
        let columns = columns.join(", ") + &indexes.collect::<String>();
        let partition =
            self.partition.map_or(String::new(), |month| format!(" PARTITION BY {month}"));
        let settings = match topology {
            Topology::Single => {
                format!(" SETTINGS non_replicated_deduplication_window = {REMEMBERED_BLOCKS}")
            }
            Topology::Replicated { .. } | Topology::Sharded { .. } => {
                format!(" SETTINGS replicated_deduplication_window = {REMEMBERED_BLOCKS}")
            }
        };
        let mut statements = vec![format!(
            "CREATE TABLE IF NOT EXISTS {local}{on_cluster} ({columns}) ENGINE = \
             {engine}{partition} ORDER BY ({order}){settings}"
        )];
        if let (true, Some(sharding), Some(cluster)) =
            (is_sharded, self.sharding, topology.cluster())
        {
            statements.push(format!(
                "CREATE TABLE IF NOT EXISTS {name}{on_cluster} AS {local} ENGINE = \
                 Distributed('{cluster}', currentDatabase(), '{local}', {sharding})"
            ));
        }
        statements
    }
}
