//! CUPTI: hardware counters of single launches, by its range profiler.
//!
//! A [`Plan`] says what is counted and in how many passes; a [`Session`] counts: between [`start`](Session::start) and [`stop`](Session::stop) the caller
//! launches everything once, and does so again until [`is_done`](Session::is_done). Each kernel is counted by itself, from its beginning to its end: CUPTI
//! waits between two. It repeats nothing by itself, so that no memory is saved and restored.
//!
//! There is one client of CUPTI in a process at a time, and none while `ncu` or `nsys` watches it.

mod failure;
mod functions;
mod lines;
mod metrics;
mod parameters;
mod plan;
mod sampling;
mod session;

pub use failure::{Failure, PERMISSION_HELP, is_allowed};
pub use functions::{Cupti, LIBRARY_VARIABLE, find};
pub use metrics::{METRICS, Metric, STALLS, stall_metric};
pub use plan::Plan;
pub use sampling::{Sampled, Samples, sample};
pub use session::Session;
