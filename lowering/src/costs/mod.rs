//! What the accesses and conversions of a kernel cost, and what its author can do about it: the lines of
//! `cargo tilekit inspect`, and what a test of the author's can ask for.

mod advice;

#[cfg(test)]
mod tests;

use std::fmt;

use diag::Diagnostics;
use diag::Place;
use ir::Func;
use ir::entity::Inst;
use layout::convert::AccessKind;

use crate::analysis::access::{AccessPlan, Accesses};
use crate::analysis::axis::Axes;
use crate::analysis::banks::{self, BankCost};
use crate::analysis::coalescing::{self, AccessCost};
use crate::analysis::conversions::{self, ConversionCost};
use crate::options::Options;
use crate::pipeline::{StopAt, run_to};

/// The pass that looks at accesses: before it they are not yet those that will be emitted.
const CHECKED: &str = "check-accesses";

/// One access to memory or conversion of a kernel.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The op's name.
    pub mnemonic: &'static str,
    /// Where the author wrote it.
    pub place: Option<Place>,
    /// What it costs a warp.
    pub cost: Cost,
    /// What keeps an access from being wider or whole, and what the author can do about it; one line each.
    pub advice: Vec<String>,
}

/// What an op costs a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// An access to global memory through pointers.
    Global(AccessPlan, AccessCost),
    /// A move of a tile between registers and shared memory.
    Shared(AccessPlan, BankCost),
    /// A conversion between layouts.
    Conversion(ConversionCost),
}

/// The accesses and conversions of a traced kernel that are left after the passes, in the order of its text.
///
/// # Errors
/// What is wrong with the kernel.
pub fn of(traced: &Func) -> Result<Vec<Entry>, Diagnostics> {
    let func = checked(traced.clone())?;
    let axes = Axes::of(&func);
    let accesses = Accesses::new(&func, &axes);
    let found = costs(&accesses);
    let entry = |(inst, cost): (Inst, Cost)| Entry {
        mnemonic: func.op(inst).rules().mnemonic(),
        place: func.place(inst),
        cost,
        advice: advice::of(traced, &accesses, inst),
    };
    Ok(found.into_iter().map(entry).collect())
}

fn checked(func: Func) -> Result<Func, Diagnostics> {
    let stop = StopAt::Pass(CHECKED.to_owned());
    Ok(run_to(func, &stop, &Options::default())?.func)
}

/// Every instruction that has a cost.
fn costs(accesses: &Accesses<'_>) -> Vec<(Inst, Cost)> {
    let insts = accesses.func().walk().into_iter();
    insts
        .filter_map(|inst| Some((inst, cost(accesses, inst)?)))
        .collect()
}

fn cost(accesses: &Accesses<'_>, inst: Inst) -> Option<Cost> {
    let func = accesses.func();
    if let Some(cost) = coalescing::cost(accesses, inst) {
        return Some(Cost::Global(accesses.plan(inst)?, cost));
    }
    if let Some(cost) = banks::cost(func, inst) {
        return Some(Cost::Shared(accesses.plan(inst)?, cost));
    }
    conversions::cost(func, inst).map(Cost::Conversion)
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mnemonic)?;
        if let Some(place) = &self.place {
            write!(f, " at {}:{}", place.file, place.line)?;
        }
        write!(f, ": {}", self.cost)?;
        self.advice
            .iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cost::Global(_, cost) => write!(
                f,
                "{} bytes a thread, {} sectors a warp, {} of {} bytes used",
                cost.vector_bytes,
                cost.sectors,
                cost.used_bytes,
                cost.moved_bytes()
            ),
            Cost::Shared(_, cost) => {
                let kind = match cost.kind {
                    AccessKind::Vector => "",
                    AccessKind::Matrix => " in matrices",
                    AccessKind::Transposed => " in transposed matrices",
                };
                write!(
                    f,
                    "{} bytes a thread{kind}, {} times, {} wavefronts a warp, {} of them by bank conflicts",
                    cost.thread_bytes, cost.accesses, cost.wavefronts, cost.conflicts
                )
            }
            Cost::Conversion(cost) => cost.fmt(f),
        }
    }
}
