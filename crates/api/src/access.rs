//! An object together with what its reader may do to it.

use model::{AccessLevel, Level, User};
use schemars::JsonSchema;
use serde::Serialize;

use crate::caller::InProject;

/// The object's own fields, and `user_access_level` beside them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}WithAccess")]
pub struct WithAccess<T> {
    #[serde(flatten)]
    object: T,
    user_access_level: AccessLevel,
}

/// An object that remembers who made it.
pub trait Authored {
    fn author(&self) -> Option<&User>;
}

impl<R, M> InProject<R, M> {
    /// Authors and administrators manage what others only edit.
    pub fn with_access<T: Authored>(&self, object: T) -> WithAccess<T> {
        let own = object.author().is_some_and(|author| author.id == self.user.user.id);
        let user_access_level = match own || self.level >= Level::Admin {
            true => AccessLevel::Manager,
            false => AccessLevel::Editor,
        };
        WithAccess { object, user_access_level }
    }
}
