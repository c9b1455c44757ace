//! What only a journal on JetStream does: losing servers, losing messages, refusing to start.

mod faults;
mod losses;
mod owners;
mod reads;
mod requirements;
