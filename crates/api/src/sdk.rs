//! Endpoints that SDKs call with a project token: capture, flag evaluation, remote config and the
//! browser SDK's own scripts.

pub(crate) mod capture;
pub(crate) mod evaluation;
pub(crate) mod paths;
pub(crate) mod remote_config;
pub(crate) mod static_files;
pub(crate) mod tokens;
