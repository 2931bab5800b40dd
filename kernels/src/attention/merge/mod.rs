//! Results of parts of the keys, merged by their LSE: those of the splits of a call ([`splits`]), and those of calls ([`results`]).

mod call;
pub mod results;
#[cfg(not(test))]
mod results_cases;
pub mod splits;

pub use call::PartialResult;
