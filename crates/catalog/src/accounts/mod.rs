//! Who may log in: users, their organizations, memberships, roles, API keys and sessions.

pub(crate) mod bootstrap;
pub(crate) mod keys;
pub(crate) mod members;
pub(crate) mod organizations;
pub(crate) mod roles;
mod sessions;
pub(crate) mod setup_links;
pub(crate) mod users;
mod visible_projects;

use crate::db::handle;

handle! {
    /// The first start of an instance.
    Bootstrap
}
handle! {
    /// Personal API keys.
    Keys
}
handle! {
    /// Memberships of organizations.
    Members
}
handle! {
    /// Organizations.
    Organizations
}
handle! {
    /// Roles of an organization, and who has them.
    Roles
}
handle! {
    /// Browser sessions.
    Sessions
}
handle! {
    /// Links by which people set a password.
    SetupLinks
}
handle! {
    /// User accounts, and the projects they may enter.
    Users
}
