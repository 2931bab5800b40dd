//! The verifier: what each stage guarantees, checked. It collects every mistake and never panics on a broken function.
//!
//! - Structure: a value is used where it is visible, every region has one terminator, at its end, of the right kind.
//! - Types: the results of every op are what the op says of its operands; tensors have legal shapes and layouts.
//! - Accumulators in flight keep their registers; warps part once, and each partition has tiles of its own; to a barrier
//!   that partitions share come as many threads as it counts.
//! - Stage `Resolved` and later: no open layout, no `set_layout`; every layout fits its shape and the kernel's warps.

mod in_flight;
mod known;
mod named_barriers;
mod partitions;
mod shared;
mod structure;
mod types;

use known::KnownTypes;
pub(crate) use types::{check_map, check_tensor};

use crate::diag::{Code, Diagnostic, Diagnostics, OpError};
use crate::entity::Inst;
use crate::ir::{Func, MAX_REGISTERS, SmemType, Stage};

/// The most CTAs of a cluster: what a GPC of `sm_90` holds (CUDA C++ Programming Guide, "Thread Block Clusters").
const MAX_CLUSTER: u32 = 16;

/// Threads and CTAs that an SM runs at once (CUDA C++ Programming Guide, compute capability 9.0).
const THREADS_OF_SM: u32 = 2048;
const CTAS_OF_SM: u32 = 32;
/// The lowest cap on registers that ptxas follows.
const MIN_CAP: u32 = 24;

/// Everything that is wrong with `func` at `stage`.
pub fn verify(func: &Func, stage: Stage) -> Diagnostics {
    Verifier::default().verify(func, stage)
}

/// The verifier, with what it remembers for the next time: a kernel is verified at each stage.
#[derive(Debug, Default)]
pub struct Verifier {
    known: KnownTypes,
}

impl Verifier {
    /// Everything that is wrong with `func` at `stage`.
    pub fn verify(&mut self, func: &Func, stage: Stage) -> Diagnostics {
        let mut found = Diagnostics::default();
        check_size(func, &mut found);
        check_share_of_sm(func, &mut found);
        structure::check(func, &mut found);
        if !found.has_errors() {
            let insts = func.walk();
            types::check(func, &insts, stage, &mut self.known, &mut found);
            in_flight::check(func, &insts, &mut found);
            partitions::check(func, &insts, &mut found);
            named_barriers::check(func, &insts, &mut found);
        }
        found
    }

    /// Is this an allocation of shared memory, or a view of one, that may exist?
    pub(crate) fn check_smem(&mut self, ty: &SmemType, ctas: u32) -> Result<(), OpError> {
        self.known.check_smem(ty, ctas)
    }
}

/// How many warps and CTAs run together.
fn check_size(func: &Func, found: &mut Diagnostics) {
    if !func.warps.is_power_of_two() || func.warps > 32 {
        found.push(Diagnostic::error(
            Code::WrongWarps,
            None,
            format!(
                "a kernel of {} warps: the hardware runs 1, 2, 4, 8, 16 or 32 in a CTA",
                func.warps
            ),
        ));
    }
    let ctas = func
        .cluster
        .iter()
        .fold(1_u32, |all, n| all.saturating_mul(*n));
    if ctas == 0 || ctas > MAX_CLUSTER {
        let [x, y, z] = func.cluster;
        let d = Diagnostic::error(
            Code::TooLarge,
            None,
            format!("a cluster of {x}x{y}x{z} CTAs: no GPC of an H200 holds it"),
        );
        found.push(d.help(format!(
            "take 1 to {MAX_CLUSTER} CTAs; up to 8 fit everywhere"
        )));
    }
}

/// What an SM has for one thread, and for several CTAs. ptxas warns of what it cannot do and leaves it out.
fn check_share_of_sm(func: &Func, found: &mut Diagnostics) {
    if let Some(cap) = func.max_registers
        && !(MIN_CAP..=MAX_REGISTERS).contains(&cap)
    {
        found.push(Diagnostic::error(
            Code::RegisterBudget,
            None,
            format!("`max_registers = {cap}`: a thread has {MIN_CAP} to {MAX_REGISTERS} registers"),
        ));
    }
    let threads = func.launch_warps().saturating_mul(32);
    let most = (THREADS_OF_SM / threads.max(1)).min(CTAS_OF_SM);
    if let Some(ctas) = func.min_ctas_per_sm
        && (ctas == 0 || ctas > most)
    {
        let message = format!(
            "`min_ctas_per_sm = {ctas}` with {threads} threads each: an SM runs {THREADS_OF_SM} threads at once, and {CTAS_OF_SM} CTAs"
        );
        let d = Diagnostic::error(Code::WrongWarps, None, message);
        found.push(d.help(format!("say 1 to {most}, or give the kernel fewer warps")));
    }
}

/// A broken rule at an instruction.
fn broken(func: &Func, inst: Inst, message: String) -> Diagnostic {
    Diagnostic::error(Code::BrokenRule, func.place(inst), message)
}
