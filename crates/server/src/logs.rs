//! Logging to standard error. Standard output carries only what a command prints.

use std::io::{self, IsTerminal as _};
use std::panic;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::values::LogFormat;

pub(crate) fn init(format: LogFormat, filter: Targets) {
    let layer = fmt::layer().with_writer(io::stderr);
    let layer = match format {
        LogFormat::Pretty => layer.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(layer).init();
    // Panics in the configured format, so that log collectors can parse them.
    panic::set_hook(Box::new(|info| {
        let location = info.location().map(ToString::to_string);
        tracing::error!(panic.location = location, "panicked");
    }));
}
