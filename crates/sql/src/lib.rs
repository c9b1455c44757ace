//! x
mod aggregates;
mod apply;
mod error;
mod steps;
mod stop;
