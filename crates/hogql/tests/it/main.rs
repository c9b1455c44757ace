mod functions;
mod hostile;
mod mutations;
mod parse;
mod placeholders;
mod resolve;
mod round_trip;
mod samples;
