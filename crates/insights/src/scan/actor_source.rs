//! Actors: what a query counts as one (a person, a group, a session, or the value of an
//! expression).

use warehouse::ColumnKey;

use crate::columns::interner::StringInterner;
use crate::hogql::Scalar;

/// Actor number of an event that has no actor.
pub(crate) const NO_ACTOR: u32 = u32::MAX;

/// Where the actor of an event comes from. Actors other than persons are numbered by an interner.
#[derive(Debug)]
pub(crate) enum ActorSource {
    Persons,
    /// The string in a column: a group's key, or a session id.
    Column(ColumnKey, StringInterner),
    Expression(Scalar, StringInterner),
}

impl ActorSource {
    pub fn column(key: ColumnKey) -> Self {
        Self::Column(key, StringInterner::default())
    }

    pub fn groups(index: usize) -> Self {
        Self::column(ColumnKey::Group(index))
    }

    pub fn sessions() -> Self {
        Self::column(ColumnKey::Property("$session_id".into()))
    }

    /// Groups of a type if one is given, otherwise persons.
    pub fn of(group: Option<usize>) -> Self {
        group.map_or(Self::Persons, Self::groups)
    }

    /// The string that identifies an actor; empty for persons.
    pub fn text(&self, actor: u32) -> String {
        match self {
            Self::Persons => String::new(),
            Self::Column(_, texts) | Self::Expression(_, texts) => texts.get(actor),
        }
    }

    /// Columns that a scan must read to find the actor.
    pub fn keys(&self) -> &[ColumnKey] {
        match self {
            Self::Persons => &[],
            Self::Column(key, _) => std::slice::from_ref(key),
            Self::Expression(scalar, _) => scalar.keys(),
        }
    }
}
