//! One file a verb.

mod bench;
mod build;
mod check;
mod doubt;
mod export;
mod inspect;
mod limits;
mod list;
mod meant;
mod mutate;
mod prove;
mod replace;
mod run;
mod snapshot;
mod timings;
mod trace;
mod tune;
mod values;

pub(super) use bench::bench;
pub(super) use build::build;
pub(super) use check::{check, check_variant};
pub(super) use export::export;
pub(super) use inspect::inspect;
pub(super) use limits::measure as measure_limits;
pub(super) use list::list;
pub(super) use mutate::{mutate, trial};
pub(super) use replace::replace;
pub(super) use run::{Runner, Shown, run, test};
pub(super) use snapshot::{differences, explain_losses, snapshot};
pub(super) use timings::timings;
pub(super) use trace::trace;
pub(super) use tune::{share, tune};
pub(super) use values::values;
