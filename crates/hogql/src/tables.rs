//! The tables, their columns, and the lazy joins between them.

use model::definition::PropertyOwner;

use crate::types::{Kind, Type};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    Events,
    Persons,
    PersonDistinctIds,
    Groups,
    CohortPeople,
    StaticCohortPeople,
    Sessions,
}

/// A field that refers to a row of another table, as PostHog's lazy joins do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LazyJoin {
    /// At most one row.
    Person,
    /// From an event: exactly one row. From a person: one row per distinct id.
    DistinctId,
    /// By the event's session id: at most one row.
    Session,
    /// By the event's key for the group type at this index: at most one row.
    Group(u8),
}

/// In every table, but not part of `*`. A statement can read it; it cannot select another project.
pub(crate) const PROJECT_COLUMN: &str = "team_id";

impl Table {
    pub const ALL: [Self; 7] = [
        Self::Events,
        Self::Persons,
        Self::PersonDistinctIds,
        Self::Groups,
        Self::CohortPeople,
        Self::StaticCohortPeople,
        Self::Sessions,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Persons => "persons",
            Self::PersonDistinctIds => "person_distinct_ids",
            Self::Groups => "groups",
            Self::CohortPeople => "cohort_people",
            Self::StaticCohortPeople => "static_cohort_people",
            Self::Sessions => "sessions",
        }
    }

    /// Finds a table by its name. PostHog's `raw_` tables hold every version of a row; here a row has
    /// one, so they are the same tables.
    pub fn named(name: &str) -> Option<Self> {
        let by_name = |name: &str| Self::ALL.into_iter().find(|table| table.name() == name);
        let raw = || by_name(name.strip_prefix("raw_")?).filter(|table| *table != Self::Events);
        by_name(name).or_else(raw)
    }

    /// Columns of the `raw_` tables that say which version of a row it is: the only one.
    pub(crate) fn constant(self, name: &str) -> Option<u64> {
        match (self, name) {
            (Self::Persons | Self::PersonDistinctIds, "is_deleted" | "version") => Some(0),
            (Self::CohortPeople, "version") => Some(0),
            (Self::CohortPeople, "sign") => Some(1),
            _ => None,
        }
    }

    /// The column that another name refers to.
    fn alias(self, name: &str) -> Option<&'static str> {
        match self {
            Self::Sessions => {
                SESSION_ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, column)| *column)
            }
            _ => None,
        }
    }

    /// Stored columns, in the order of `*`.
    pub const fn columns(self) -> &'static [(&'static str, ColumnType)] {
        match self {
            Self::Events => EVENTS,
            Self::Persons => PERSONS,
            Self::PersonDistinctIds => PERSON_DISTINCT_IDS,
            Self::Groups => GROUPS,
            Self::CohortPeople | Self::StaticCohortPeople => COHORT_PEOPLE,
            Self::Sessions => SESSIONS,
        }
    }

    /// The columns that tell rows apart.
    pub const fn key(self) -> &'static [&'static str] {
        match self {
            Self::Events => &["uuid"],
            Self::Persons => &["id"],
            Self::PersonDistinctIds => &["distinct_id"],
            Self::Groups => &["index", "key"],
            Self::CohortPeople | Self::StaticCohortPeople => &["person_id", "cohort_id"],
            Self::Sessions => &["session_id"],
        }
    }

    pub fn column(self, name: &str) -> Option<(&'static str, Type)> {
        if name == PROJECT_COLUMN {
            return Some((PROJECT_COLUMN, Kind::Int(64).into()));
        }
        let name = self.alias(name).unwrap_or(name);
        let column_type = self.columns().iter().find(|(column, _)| *column == name);
        column_type.map(|(column, holds)| (*column, holds.ty(self)))
    }

    /// Fields that are functions of a column; they are not part of `*`.
    pub fn derived(self) -> impl Iterator<Item = &'static DerivedField> {
        DERIVED.iter().filter(move |field| field.table == self)
    }

    /// The lazy join of a field, except groups by the name of their type.
    pub fn link(self, name: &str) -> Option<LazyJoin> {
        self.links().iter().find(|(field, _)| *field == name).map(|(_, join)| *join)
    }

    /// Fields that refer to a row of another table.
    pub const fn links(self) -> &'static [(&'static str, LazyJoin)] {
        match self {
            Self::Events => &[
                ("person", LazyJoin::Person),
                // Events store no snapshot of the person: `poe` (person on events) is the person.
                ("poe", LazyJoin::Person),
                ("pdi", LazyJoin::DistinctId),
                ("session", LazyJoin::Session),
                ("group_0", LazyJoin::Group(0)),
                ("group_1", LazyJoin::Group(1)),
                ("group_2", LazyJoin::Group(2)),
                ("group_3", LazyJoin::Group(3)),
                ("group_4", LazyJoin::Group(4)),
                // Nor of the groups (`goe`, groups on events).
                ("goe_0", LazyJoin::Group(0)),
                ("goe_1", LazyJoin::Group(1)),
                ("goe_2", LazyJoin::Group(2)),
                ("goe_3", LazyJoin::Group(3)),
                ("goe_4", LazyJoin::Group(4)),
            ],
            Self::Persons => &[("pdi", LazyJoin::DistinctId)],
            Self::PersonDistinctIds | Self::CohortPeople | Self::StaticCohortPeople => {
                &[("person", LazyJoin::Person)]
            }
            Self::Groups | Self::Sessions => &[],
        }
    }

    /// Further columns of `*`: names and the fields they refer to.
    pub const fn star_fields(self) -> &'static [(&'static str, [&'static str; 2])] {
        match self {
            Self::Events => &[
                ("person_created_at", ["person", "created_at"]),
                ("person_properties", ["person", "properties"]),
            ],
            _ => &[],
        }
    }

    /// The column that a date range filters.
    pub const fn time_column(self) -> Option<&'static str> {
        match self {
            Self::Events => Some("timestamp"),
            Self::Sessions => Some("$start_timestamp"),
            Self::Persons | Self::Groups => Some("created_at"),
            Self::PersonDistinctIds | Self::CohortPeople | Self::StaticCohortPeople => None,
        }
    }
}

impl LazyJoin {
    pub const fn table(self) -> Table {
        match self {
            Self::Person => Table::Persons,
            Self::DistinctId => Table::PersonDistinctIds,
            Self::Session => Table::Sessions,
            Self::Group(_) => Table::Groups,
        }
    }

    /// Whether a column of the joined row is nullable: an event may lack a profile, session or group.
    pub fn is_nullable(self, column: &str) -> bool {
        match self {
            Self::Person => column != "id",
            Self::DistinctId => false,
            Self::Session | Self::Group(_) => true,
        }
    }

    pub(crate) const fn owner(self) -> Option<PropertyOwner> {
        match self {
            Self::Person => Some(PropertyOwner::Person),
            Self::Group(index) => Some(PropertyOwner::Group(index)),
            Self::DistinctId | Self::Session => None,
        }
    }
}

/// A field that is a function of a column, or of a property in it.
#[derive(Clone, Copy, Debug)]
pub struct DerivedField {
    pub table: Table,
    pub name: &'static str,
    pub function: &'static str,
    pub column: &'static str,
    pub property: Option<&'static str>,
}

/// The type of a stored column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    String,
    NullableString,
    Strings,
    Uuid,
    Timestamp,
    NullableTimestamp,
    Bool,
    Int,
    Count,
    NullableFloat,
    Properties,
}

impl ColumnType {
    fn ty(self, table: Table) -> Type {
        match self {
            Self::String => Kind::String.into(),
            Self::NullableString => Type::from(Kind::String).or_null(true),
            Self::Strings => Type::array(Kind::String.into()),
            Self::Uuid => Kind::Uuid.into(),
            Self::Timestamp => Kind::TIMESTAMP.into(),
            Self::NullableTimestamp => Type::from(Kind::TIMESTAMP).or_null(true),
            Self::Bool => Kind::Bool.into(),
            Self::Int => Kind::Int(64).into(),
            Self::Count => Kind::UInt(64).into(),
            Self::NullableFloat => Type::from(Kind::Float).or_null(true),
            Self::Properties => {
                let owner = match table {
                    Table::Events => Some(PropertyOwner::Event),
                    Table::Persons => Some(PropertyOwner::Person),
                    // The group type differs by row.
                    _ => None,
                };
                Kind::Json(owner).into()
            }
        }
    }
}

const EVENTS: &[(&str, ColumnType)] = &[
    ("uuid", ColumnType::Uuid),
    ("event", ColumnType::String),
    ("properties", ColumnType::Properties),
    ("timestamp", ColumnType::Timestamp),
    ("distinct_id", ColumnType::String),
    ("elements_chain", ColumnType::String),
    ("created_at", ColumnType::Timestamp),
    ("$session_id", ColumnType::NullableString),
    ("$window_id", ColumnType::NullableString),
    ("person_mode", ColumnType::String),
    ("$group_0", ColumnType::String),
    ("$group_1", ColumnType::String),
    ("$group_2", ColumnType::String),
    ("$group_3", ColumnType::String),
    ("$group_4", ColumnType::String),
    ("elements_chain_href", ColumnType::String),
    ("elements_chain_texts", ColumnType::Strings),
    ("elements_chain_ids", ColumnType::Strings),
    ("elements_chain_elements", ColumnType::Strings),
    ("person_id", ColumnType::Uuid),
];

const PERSONS: &[(&str, ColumnType)] = &[
    ("id", ColumnType::Uuid),
    ("created_at", ColumnType::Timestamp),
    ("properties", ColumnType::Properties),
    ("is_identified", ColumnType::Bool),
    ("last_seen_at", ColumnType::NullableTimestamp),
    ("distinct_ids", ColumnType::Strings),
];

const PERSON_DISTINCT_IDS: &[(&str, ColumnType)] =
    &[("distinct_id", ColumnType::String), ("person_id", ColumnType::Uuid)];

const GROUPS: &[(&str, ColumnType)] = &[
    ("index", ColumnType::Int),
    ("key", ColumnType::String),
    ("created_at", ColumnType::Timestamp),
    ("updated_at", ColumnType::Timestamp),
    ("properties", ColumnType::Properties),
];

const COHORT_PEOPLE: &[(&str, ColumnType)] =
    &[("person_id", ColumnType::Uuid), ("cohort_id", ColumnType::Int)];

const SESSIONS: &[(&str, ColumnType)] = &[
    ("session_id", ColumnType::String),
    ("distinct_id", ColumnType::String),
    ("person_id", ColumnType::Uuid),
    ("$start_timestamp", ColumnType::Timestamp),
    ("$end_timestamp", ColumnType::Timestamp),
    ("max_inserted_at", ColumnType::Timestamp),
    ("$num_uniq_urls", ColumnType::Count),
    ("$urls", ColumnType::Strings),
    ("$entry_current_url", ColumnType::NullableString),
    ("$entry_pathname", ColumnType::NullableString),
    ("$entry_hostname", ColumnType::NullableString),
    ("$end_current_url", ColumnType::NullableString),
    ("$end_pathname", ColumnType::NullableString),
    ("$exit_current_url", ColumnType::NullableString),
    ("$exit_pathname", ColumnType::NullableString),
    ("$entry_utm_source", ColumnType::NullableString),
    ("$entry_utm_campaign", ColumnType::NullableString),
    ("$entry_utm_medium", ColumnType::NullableString),
    ("$entry_utm_term", ColumnType::NullableString),
    ("$entry_utm_content", ColumnType::NullableString),
    ("$entry_referring_domain", ColumnType::NullableString),
    ("$entry_gclid", ColumnType::NullableString),
    ("$entry_fbclid", ColumnType::NullableString),
    ("$entry_gad_source", ColumnType::NullableString),
    ("$pageview_count", ColumnType::Count),
    ("$autocapture_count", ColumnType::Count),
    ("$screen_count", ColumnType::Count),
    ("$channel_type", ColumnType::NullableString),
    ("$session_duration", ColumnType::Count),
    ("$is_bounce", ColumnType::Bool),
    ("$last_external_click_url", ColumnType::NullableString),
    ("$vitals_lcp", ColumnType::NullableFloat),
];

const fn derived(
    table: Table,
    name: &'static str,
    function: &'static str,
    column: &'static str,
) -> DerivedField {
    DerivedField { table, name, function, column, property: None }
}

const fn of_agent(name: &'static str, function: &'static str) -> DerivedField {
    let property = Some("$raw_user_agent");
    DerivedField { property, ..derived(Table::Events, name, function, "properties") }
}

const DERIVED: &[DerivedField] = &[
    of_agent("$virt_is_bot", "isLikelyBot"),
    of_agent("$virt_traffic_type", "getTrafficType"),
    of_agent("$virt_traffic_category", "getTrafficCategory"),
    of_agent("$virt_bot_name", "getBotName"),
    of_agent("$virt_bot_operator", "getBotOperator"),
    derived(Table::Events, "$session_id_uuid", "toUUID", "$session_id"),
    derived(Table::Sessions, "$end_hostname", "domain", "$end_current_url"),
    derived(Table::Sessions, "$entry_has_gclid", "notEmpty", "$entry_gclid"),
    derived(Table::Sessions, "$entry_has_fbclid", "notEmpty", "$entry_fbclid"),
];

/// Older names of session columns, and those of PostHog's `raw_sessions`.
const SESSION_ALIASES: &[(&str, &str)] = &[
    ("id", "session_id"),
    ("session_id_v7", "session_id"),
    ("duration", "$session_duration"),
    ("session_timestamp", "$start_timestamp"),
    ("min_timestamp", "$start_timestamp"),
    ("max_timestamp", "$end_timestamp"),
    ("urls", "$urls"),
    ("entry_url", "$entry_current_url"),
    ("end_url", "$end_current_url"),
    ("exit_url", "$exit_current_url"),
    ("last_external_click_url", "$last_external_click_url"),
    ("initial_referring_domain", "$entry_referring_domain"),
    ("initial_utm_source", "$entry_utm_source"),
    ("initial_utm_campaign", "$entry_utm_campaign"),
    ("initial_utm_medium", "$entry_utm_medium"),
    ("initial_utm_term", "$entry_utm_term"),
    ("initial_utm_content", "$entry_utm_content"),
    ("initial_gclid", "$entry_gclid"),
    ("initial_gad_source", "$entry_gad_source"),
    ("initial_fbclid", "$entry_fbclid"),
    ("pageview_count", "$pageview_count"),
    ("autocapture_count", "$autocapture_count"),
    ("vitals_lcp", "$vitals_lcp"),
];
