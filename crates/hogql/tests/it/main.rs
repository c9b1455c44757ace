mod fill;
mod functions;
mod hostile;
mod parse;
mod resolve;
mod round_trip;
