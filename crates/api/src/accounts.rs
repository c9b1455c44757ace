//! Users, their sessions and keys, and the organizations and projects they belong to.

pub(crate) mod keys;
pub(crate) mod members;
pub(crate) mod organizations;
pub(crate) mod projects;
pub(crate) mod roles;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod users;
