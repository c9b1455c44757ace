//! How far a caller may go with an object, and an object together with that.

use model::{AccessLevel, ObjectKind, Privilege, Restriction, Rights, Sight, Sights, User};
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::caller::InProject;
use crate::{Error, Result};

/// The object's own fields, and `user_access_level` beside them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}WithAccess")]
pub struct WithAccess<T> {
    #[serde(flatten)]
    object: T,
    user_access_level: AccessLevel,
}

/// What the caller may do with a dashboard or an insight.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct Effective {
    effective_restriction_level: Restriction,
    effective_privilege_level: Privilege,
    user_access_level: AccessLevel,
}

impl From<Rights> for Effective {
    fn from(rights: Rights) -> Self {
        Self {
            effective_restriction_level: rights.restriction,
            effective_privilege_level: rights.privilege,
            user_access_level: rights.level,
        }
    }
}

/// An object that remembers who made it, and that rules may be about.
pub trait Authored {
    const KIND: ObjectKind;

    fn number(&self) -> i64;
    fn author(&self) -> Option<&User>;
}

/// Refuses whoever may not go as far as this.
pub fn require(level: AccessLevel, needed: AccessLevel) -> Result<()> {
    if level < needed {
        let detail = format!("You do not have {} access to this resource.", needed.as_str());
        return Err(Error::forbidden(detail));
    }
    Ok(())
}

impl<R, M> InProject<R, M> {
    /// Authors and administrators manage what others do as rules let them.
    pub fn level_of<T: Authored>(&self, object: &T) -> AccessLevel {
        let author = object.author().map(|author| author.id);
        self.viewer().level(T::KIND, object.number(), author)
    }

    pub fn with_access<T: Authored>(&self, object: T) -> WithAccess<T> {
        let user_access_level = self.level_of(&object);
        WithAccess { object, user_access_level }
    }

    /// Whoever may edit all objects of a kind may make one.
    pub fn may_create(&self, kind: ObjectKind) -> Result<()> {
        require(self.viewer().level_of_kind(kind), AccessLevel::Editor)
    }

    pub fn sight(&self, kind: ObjectKind) -> Sight {
        self.viewer().sight(kind)
    }

    /// What the caller sees of every kind that rules may be about.
    pub fn sights(&self) -> Sights {
        self.viewer().sights()
    }
}
