mod fill;
mod hostile;
mod parse;
mod round_trip;
