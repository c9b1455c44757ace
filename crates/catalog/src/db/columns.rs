//! Conversions between Rust types and columns.

use model::person::{DistinctNo, PersonNo};
use model::{
    ActionId, AnnotationId, ButtonId, CohortId, DashboardId, FlagId, InsightId, MembershipLevel,
    NoteId, OrganizationId, ProjectId, TileId, Timestamp, UserId,
};
use sqlx::Row as _;
use uuid::Uuid;

use super::{Row, Value};
use crate::{Error, Result};

/// A type that a column can be read into.
pub(crate) trait Column: Sized {
    fn read(row: &Row, name: &str) -> Result<Self>;
}

impl Row {
    pub(crate) fn get<T: Column>(&self, name: &str) -> Result<T> {
        T::read(self, name)
    }

    /// A JSON column, deserialized.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, name: &'static str) -> Result<T> {
        let text: String = self.get(name)?;
        serde_json::from_str(&text).map_err(|why| Error::corrupt(name, why))
    }

    /// A nullable JSON column, deserialized.
    pub(crate) fn optional_json<T: serde::de::DeserializeOwned>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>> {
        let text: Option<String> = self.get(name)?;
        let read = |text: String| serde_json::from_str(&text);
        text.map(read).transpose().map_err(|why| Error::corrupt(name, why))
    }
}

macro_rules! stored_as {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn read(row: &Row, name: &str) -> Result<Self> {
                Ok(match row {
                    Row::Sqlite(row) => row.try_get(name)?,
                    Row::Postgres(row) => row.try_get(name)?,
                    Row::Inline(row) => row.get(name)?,
                })
            }
        }
    )*};
}
stored_as!(i64, String, bool, Vec<u8>, Option<i64>, Option<String>, Option<bool>, Option<Vec<u8>>);

macro_rules! read_from {
    ($($type:ty: $stored:ty, $read:expr);* $(;)?) => {$(
        impl Column for $type {
            fn read(row: &Row, name: &str) -> Result<Self> {
                let read: fn($stored) -> Result<Self> = $read;
                read(row.get::<$stored>(name)?)
            }
        }
        impl Column for Option<$type> {
            fn read(row: &Row, name: &str) -> Result<Self> {
                let read: fn($stored) -> Result<$type> = $read;
                row.get::<Option<$stored>>(name)?.map(read).transpose()
            }
        }
    )*};
}

fn uuid(text: String) -> Result<Uuid> {
    Uuid::parse_str(&text).map_err(|why| Error::corrupt("uuid", why))
}

fn number(stored: i64) -> Result<u32> {
    u32::try_from(stored).map_err(|why| Error::corrupt("number", why))
}

read_from! {
    Timestamp: i64, |micros| Ok(Timestamp::from_micros(micros));
    ProjectId: i64, |id| Ok(ProjectId(id));
    UserId: i64, |id| Ok(UserId(id));
    ActionId: i64, |id| Ok(ActionId(id));
    AnnotationId: i64, |id| Ok(AnnotationId(id));
    FlagId: i64, |id| Ok(FlagId(id));
    CohortId: i64, |id| Ok(CohortId(id));
    DistinctNo: i64, |no| number(no).map(DistinctNo);
    PersonNo: i64, |no| number(no).map(PersonNo);
    DashboardId: i64, |id| Ok(DashboardId(id));
    TileId: i64, |id| Ok(TileId(id));
    NoteId: i64, |id| Ok(NoteId(id));
    ButtonId: i64, |id| Ok(ButtonId(id));
    InsightId: i64, |id| Ok(InsightId(id));
    Uuid: String, uuid;
    MembershipLevel: i64, |level| MembershipLevel::try_from(level).map_err(|why| Error::corrupt("level", why));
    OrganizationId: String, |text| uuid(text).map(OrganizationId);
}

macro_rules! value_from {
    ($($type:ty => $kind:ident, $as:expr);* $(;)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                let convert: fn($type) -> _ = $as;
                Self::$kind(Some(convert(value)))
            }
        }
        impl From<Option<$type>> for Value {
            fn from(value: Option<$type>) -> Self {
                let convert: fn($type) -> _ = $as;
                Self::$kind(value.map(convert))
            }
        }
    )*};
}

value_from! {
    i64 => Int, |value| value;
    bool => Bool, |value| value;
    String => Text, |value| value;
    &str => Text, str::to_owned;
    Vec<u8> => Bytes, |value| value;
    Timestamp => Int, Timestamp::as_micros;
    ProjectId => Int, |id| id.0;
    UserId => Int, |id| id.0;
    ActionId => Int, |id| id.0;
    AnnotationId => Int, |id| id.0;
    FlagId => Int, |id| id.0;
    CohortId => Int, |id| id.0;
    DistinctNo => Int, |no| i64::from(no.0);
    PersonNo => Int, |no| i64::from(no.0);
    DashboardId => Int, |id| id.0;
    TileId => Int, |id| id.0;
    NoteId => Int, |id| id.0;
    ButtonId => Int, |id| id.0;
    InsightId => Int, |id| id.0;
    Uuid => Text, |id| id.to_string();
    OrganizationId => Text, |id| id.0.to_string();
    serde_json::Value => Text, |json| json.to_string();
}
