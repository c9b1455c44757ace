//! What all management endpoints share: transport, pagination, validation, authorization order.

pub mod authorization_order;
pub mod client_scenarios;
pub mod concurrent_writes;
pub mod field_types;
pub mod invalid_requests;
pub mod pagination;
pub mod schemathesis;
pub mod third_party_clients;
pub mod transport;
pub mod web_interface;
