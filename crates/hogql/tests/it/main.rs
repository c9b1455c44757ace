mod fill;
mod functions;
mod hostile;
mod mutations;
mod parse;
mod resolve;
mod round_trip;
mod samples;
