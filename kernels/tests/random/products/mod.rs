//! Products of random shapes, places, types and options.

mod dense;
mod ending;
mod grouped;
mod options;
mod place;
mod problem;
mod scaled;
mod sparse;
mod weight_only;

pub(crate) use options::activate;
