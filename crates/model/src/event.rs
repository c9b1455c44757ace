//! The stages of an event, each made only by the one before.
