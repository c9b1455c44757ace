//! Dashboards, their tiles, permissions and sharing.

pub mod crud;
pub mod permissions;
pub mod sharing;
pub mod tile_results;
pub mod tiles;
