pub mod activity;
pub mod concurrency;
pub mod keys;
pub mod lists;
pub mod people;
pub mod projects;
pub mod schema;
