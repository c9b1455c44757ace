//! The caller's access level to an object, and responses that carry it.

use model::{
    AccessLevel, ObjectKind, Privilege, Restriction, Rights, User, Visibilities, Visibility,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::caller::InProject;
use crate::{Error, Result};

/// An object's own fields and the caller's `user_access_level`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}WithAccess")]
pub struct WithAccess<T> {
    #[serde(flatten)]
    object: T,
    user_access_level: AccessLevel,
}

/// What the caller may do with a dashboard or an insight.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct EffectiveAccess {
    effective_restriction_level: Restriction,
    effective_privilege_level: Privilege,
    user_access_level: AccessLevel,
}

impl From<Rights> for EffectiveAccess {
    fn from(rights: Rights) -> Self {
        Self {
            effective_restriction_level: rights.restriction,
            effective_privilege_level: rights.privilege,
            user_access_level: rights.level,
        }
    }
}

/// An object with an author, to which access rules apply.
pub trait Authored {
    const KIND: ObjectKind;

    fn object_id(&self) -> i64;
    fn author(&self) -> Option<&User>;
}

/// Rejects (403) a level below `needed`.
pub fn require(level: AccessLevel, needed: AccessLevel) -> Result<()> {
    if level < needed {
        let detail = format!("You do not have {} access to this resource.", needed.as_str());
        return Err(Error::forbidden(detail));
    }
    Ok(())
}

impl<R, M> InProject<R, M> {
    /// The caller's level: manager for authors and administrators, else what access rules grant.
    pub fn level_of<T: Authored>(&self, object: &T) -> AccessLevel {
        let author = object.author().map(|author| author.id);
        self.viewer().level(T::KIND, object.object_id(), author)
    }

    pub fn with_access<T: Authored>(&self, object: T) -> WithAccess<T> {
        let user_access_level = self.level_of(&object);
        WithAccess { object, user_access_level }
    }

    /// Creating an object takes editor access to its kind.
    pub fn may_create(&self, kind: ObjectKind) -> Result<()> {
        require(self.viewer().level_of_kind(kind), AccessLevel::Editor)
    }

    pub fn visibility(&self, kind: ObjectKind) -> Visibility {
        self.viewer().visibility(kind)
    }

    /// Which objects the caller may see, for every kind that access rules cover.
    pub fn visibilities(&self) -> Visibilities {
        self.viewer().visibilities()
    }
}
