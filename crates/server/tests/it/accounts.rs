//! Users, sessions, keys, organizations, projects and roles.

pub mod activity_log;
pub mod current_user;
pub mod members;
pub mod organizations;
pub mod personal_keys;
pub mod privilege_escalation;
pub mod projects;
pub mod roles;
pub mod sessions;
pub mod setup_links;
pub mod test_users;
