//! HTTP plumbing that every resource shares: request bodies, parameters, pages, errors, CSV,
//! OpenAPI, CORS, metrics. Knows nothing of credentials or of a resource.

pub(crate) mod body;
pub(crate) mod body_reader;
pub(crate) mod client_address;
pub(crate) mod compress;
pub(crate) mod cors;
pub(crate) mod csv;
pub(crate) mod embedded_file;
pub(crate) mod error;
pub(crate) mod metrics;
pub(crate) mod normalize;
pub(crate) mod observe;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod pipe_table;
pub(crate) mod public_error;
pub(crate) mod response_budget;
