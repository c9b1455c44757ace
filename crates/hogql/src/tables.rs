//! The tables, their columns, and the fields that lead from one to another.

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

/// A field that is a row of another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// One or none.
    Person,
    /// From an event: exactly one. From a person: one for each distinct id.
    DistinctId,
    /// By the event's session id: one or none.
    Session,
    /// By the event's key for the type of group with this index: one or none.
    Group(u8),
}

/// Stands in every table but is no column of `*`: a statement may read it, not choose it.
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

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Stored columns, in the order of `*`.
    pub const fn columns(self) -> &'static [(&'static str, Holds)] {
        match self {
            Self::Events => EVENTS,
            Self::Persons => PERSONS,
            Self::PersonDistinctIds => PERSON_DISTINCT_IDS,
            Self::Groups => GROUPS,
            Self::CohortPeople | Self::StaticCohortPeople => COHORT_PEOPLE,
            Self::Sessions => SESSIONS,
        }
    }

    pub fn column(self, name: &str) -> Option<(&'static str, Type)> {
        if name == PROJECT_COLUMN {
            return Some((PROJECT_COLUMN, Kind::Int(64).into()));
        }
        let found = self.columns().iter().find(|(column, _)| *column == name);
        found.map(|(column, holds)| (*column, holds.ty(self)))
    }

    /// Where a field leads, apart from groups by the names of their types.
    pub fn link(self, name: &str) -> Option<Link> {
        match (self, name) {
            // No snapshot of the person is kept with an event: `poe` is the person.
            (Self::Events, "person" | "poe") => Some(Link::Person),
            (Self::Events, "pdi") | (Self::Persons, "pdi") => Some(Link::DistinctId),
            (Self::Events, "session") => Some(Link::Session),
            (Self::Events, "group_0") => Some(Link::Group(0)),
            (Self::Events, "group_1") => Some(Link::Group(1)),
            (Self::Events, "group_2") => Some(Link::Group(2)),
            (Self::Events, "group_3") => Some(Link::Group(3)),
            (Self::Events, "group_4") => Some(Link::Group(4)),
            (Self::PersonDistinctIds | Self::CohortPeople | Self::StaticCohortPeople, "person") => {
                Some(Link::Person)
            }
            _ => None,
        }
    }

    /// What else `*` gives: names and the fields behind them.
    pub const fn star_fields(self) -> &'static [(&'static str, [&'static str; 2])] {
        match self {
            Self::Events => &[
                ("person_created_at", ["person", "created_at"]),
                ("person_properties", ["person", "properties"]),
            ],
            _ => &[],
        }
    }

    /// The column that a range of dates filters.
    pub const fn time_column(self) -> Option<&'static str> {
        match self {
            Self::Events => Some("timestamp"),
            Self::Sessions => Some("$start_timestamp"),
            Self::Persons | Self::Groups => Some("created_at"),
            Self::PersonDistinctIds | Self::CohortPeople | Self::StaticCohortPeople => None,
        }
    }
}

impl Link {
    pub const fn table(self) -> Table {
        match self {
            Self::Person => Table::Persons,
            Self::DistinctId => Table::PersonDistinctIds,
            Self::Session => Table::Sessions,
            Self::Group(_) => Table::Groups,
        }
    }

    /// Whether a column behind it may be missing: an event without profile, session or group.
    pub fn may_miss(self, column: &str) -> bool {
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

/// What a stored column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Text,
    MaybeText,
    Texts,
    Uuid,
    Time,
    MaybeTime,
    Bool,
    Int,
    Count,
    MaybeFloat,
    Properties,
}

impl Holds {
    fn ty(self, table: Table) -> Type {
        match self {
            Self::Text => Kind::Text.into(),
            Self::MaybeText => Type::from(Kind::Text).or_null(true),
            Self::Texts => Type::array(Kind::Text.into()),
            Self::Uuid => Kind::Uuid.into(),
            Self::Time => Kind::TIMESTAMP.into(),
            Self::MaybeTime => Type::from(Kind::TIMESTAMP).or_null(true),
            Self::Bool => Kind::Bool.into(),
            Self::Int => Kind::Int(64).into(),
            Self::Count => Kind::UInt(64).into(),
            Self::MaybeFloat => Type::from(Kind::Float).or_null(true),
            Self::Properties => {
                let owner = match table {
                    Table::Events => Some(PropertyOwner::Event),
                    Table::Persons => Some(PropertyOwner::Person),
                    // Of which type a row's group is, only the row says.
                    _ => None,
                };
                Kind::Json(owner).into()
            }
        }
    }
}

const EVENTS: &[(&str, Holds)] = &[
    ("uuid", Holds::Uuid),
    ("event", Holds::Text),
    ("properties", Holds::Properties),
    ("timestamp", Holds::Time),
    ("distinct_id", Holds::Text),
    ("elements_chain", Holds::Text),
    ("created_at", Holds::Time),
    ("$session_id", Holds::MaybeText),
    ("$window_id", Holds::MaybeText),
    ("person_mode", Holds::Text),
    ("$group_0", Holds::Text),
    ("$group_1", Holds::Text),
    ("$group_2", Holds::Text),
    ("$group_3", Holds::Text),
    ("$group_4", Holds::Text),
    ("elements_chain_href", Holds::Text),
    ("elements_chain_texts", Holds::Texts),
    ("elements_chain_ids", Holds::Texts),
    ("elements_chain_elements", Holds::Texts),
    ("person_id", Holds::Uuid),
];

const PERSONS: &[(&str, Holds)] = &[
    ("id", Holds::Uuid),
    ("created_at", Holds::Time),
    ("properties", Holds::Properties),
    ("is_identified", Holds::Bool),
    ("last_seen_at", Holds::MaybeTime),
    ("distinct_ids", Holds::Texts),
];

const PERSON_DISTINCT_IDS: &[(&str, Holds)] =
    &[("distinct_id", Holds::Text), ("person_id", Holds::Uuid)];

const GROUPS: &[(&str, Holds)] = &[
    ("index", Holds::Int),
    ("key", Holds::Text),
    ("created_at", Holds::Time),
    ("updated_at", Holds::Time),
    ("properties", Holds::Properties),
];

const COHORT_PEOPLE: &[(&str, Holds)] = &[("person_id", Holds::Uuid), ("cohort_id", Holds::Int)];

const SESSIONS: &[(&str, Holds)] = &[
    ("session_id", Holds::Text),
    ("distinct_id", Holds::Text),
    ("$start_timestamp", Holds::Time),
    ("$end_timestamp", Holds::Time),
    ("max_inserted_at", Holds::Time),
    ("$num_uniq_urls", Holds::Count),
    ("$urls", Holds::Texts),
    ("$entry_current_url", Holds::MaybeText),
    ("$entry_pathname", Holds::MaybeText),
    ("$entry_hostname", Holds::MaybeText),
    ("$end_current_url", Holds::MaybeText),
    ("$end_pathname", Holds::MaybeText),
    ("$exit_current_url", Holds::MaybeText),
    ("$exit_pathname", Holds::MaybeText),
    ("$entry_utm_source", Holds::MaybeText),
    ("$entry_utm_campaign", Holds::MaybeText),
    ("$entry_utm_medium", Holds::MaybeText),
    ("$entry_utm_term", Holds::MaybeText),
    ("$entry_utm_content", Holds::MaybeText),
    ("$entry_referring_domain", Holds::MaybeText),
    ("$entry_gclid", Holds::MaybeText),
    ("$entry_fbclid", Holds::MaybeText),
    ("$entry_gad_source", Holds::MaybeText),
    ("$pageview_count", Holds::Count),
    ("$autocapture_count", Holds::Count),
    ("$screen_count", Holds::Count),
    ("$channel_type", Holds::MaybeText),
    ("$session_duration", Holds::Count),
    ("$is_bounce", Holds::Bool),
    ("$last_external_click_url", Holds::MaybeText),
    ("$vitals_lcp", Holds::MaybeFloat),
];
