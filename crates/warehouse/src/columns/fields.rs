//! The columns of an event row and their names in segments.

use crate::columns::GROUP_TYPES;

/// Prefix of property columns, so that a property cannot collide with another column.
pub(crate) const PROPERTY_PREFIX: &str = "p.";

/// Bound of property columns. Further properties, the rarest ones, share `properties_rest`.
pub(crate) const PROPERTY_COLUMNS_MAX: usize = 512;

/// A property on fewer than one in this many rows is stored in `properties_rest`.
pub(crate) const RARE_ONE_IN: usize = 1_000;

/// A dictionary-encoded column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Field {
    Event,
    DistinctId,
    ElementsChain,
    Group(usize),
    Property(Box<str>),
    /// JSON array of the properties that are null in the row.
    Nulls,
    /// JSON object of the properties without a column of their own.
    Rest,
}

/// A fixed-width integer column that every row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntColumn {
    Timestamp,
    CreatedAt,
    Position,
}

impl Field {
    pub(crate) fn name(&self) -> String {
        match self {
            Field::Event => "event".into(),
            Field::DistinctId => "distinct_id".into(),
            Field::ElementsChain => "elements_chain".into(),
            Field::Group(index) => format!("group_{index}"),
            Field::Property(name) => format!("{PROPERTY_PREFIX}{name}"),
            Field::Nulls => "properties_null".into(),
            Field::Rest => "properties_rest".into(),
        }
    }

    /// The columns that are not properties, except `Nulls` and `Rest`, which are written last.
    pub(crate) fn of_every_event() -> impl Iterator<Item = Field> {
        [Field::Event, Field::DistinctId, Field::ElementsChain]
            .into_iter()
            .chain((0..GROUP_TYPES).map(Field::Group))
    }

    pub(crate) fn required(&self) -> bool {
        matches!(self, Field::Event | Field::DistinctId)
    }
}

impl IntColumn {
    pub const ALL: [IntColumn; 3] =
        [IntColumn::Timestamp, IntColumn::CreatedAt, IntColumn::Position];

    pub fn name(self) -> &'static str {
        match self {
            IntColumn::Timestamp => "timestamp",
            IntColumn::CreatedAt => "created_at",
            IntColumn::Position => "position",
        }
    }
}
