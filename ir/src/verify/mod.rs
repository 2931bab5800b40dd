//! The verifier: what each stage guarantees, checked. It collects every mistake and never panics on a broken function.
//!
//! - Structure: a value is used where it is visible, every region has one terminator, at its end, of the right kind.
//! - Types: the results of every op are what the op says of its operands; tensors have legal shapes and layouts.
//! - Accumulators in flight keep their registers; `warp_specialize` stands once, and each partition has tiles of its own; to a barrier
//!   that partitions share as many threads arrive as it counts.
//! - Stage `Resolved` and later: no open layout, no `set_layout`; every layout fits its shape and the kernel's warps.

mod cut;
mod groups;
mod in_flight;
mod known;
mod named_barriers;
mod partitions;
mod shared;
mod structure;
mod tensors;
mod types;

pub use cut::check_even;
use known::KnownTypes;
pub use tensors::{MOST_TENSOR_ELEMENTS, check_map, check_tensor};

use crate::OpError;
use crate::{Func, SmemType, Stage};
use diag::{Code, Diagnostic, Diagnostics};

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
        if found.has_errors() {
            return found;
        }
        let insts = func.walk();
        types::check(func, &insts, stage, &mut self.known, &mut found);
        // These follow values through ops, of which only right ones say where.
        if !found.has_errors() {
            in_flight::check(func, &insts, &mut found);
            partitions::check(func, &insts, &mut found);
            named_barriers::check(func, &insts, &mut found);
        }
        found
    }

    /// Is this an allocation of shared memory, or a view of one, that may exist?
    pub fn check_smem(&mut self, ty: &SmemType, func: &Func) -> Result<(), OpError> {
        self.known.check_smem(ty, func)
    }
}

/// How many warps and CTAs run together.
fn check_size(func: &Func, found: &mut Diagnostics) {
    let most = func.target.cta.warps();
    if !(1..=most).contains(&func.warps) {
        let message = format!(
            "a kernel of {} warps: a CTA has 1 to {most} warps",
            func.warps
        );
        let d = Diagnostic::error(Code::WrongWarps, None, message);
        found.push(d.help(if func.warps == 0 {
            "take 1 warp or more".to_owned()
        } else {
            format!("take {most} at most")
        }));
    }
    let most = func.target.cta.shared_bytes;
    if func.shared_bytes > most {
        let d = Diagnostic::error(
            Code::SharedOverflow,
            None,
            format!("a kernel with `shared_bytes({})`", func.shared_bytes),
        );
        found.push(d.help(format!("a CTA has {}", target::bytes_with_kib(most))));
    }
    let ctas = func
        .cluster
        .iter()
        .fold(1_u32, |all, n| all.saturating_mul(*n));
    let (most, portable) = (func.target.cluster.ctas, func.target.cluster.portable_ctas);
    let [x, y, z] = func.cluster;
    if ctas == 0 {
        let message = format!("a cluster of {x}x{y}x{z} CTAs has none");
        let d = Diagnostic::error(Code::TooLarge, None, message);
        found.push(d.help("take 1 CTA or more along each dimension; without `cluster = ..` a kernel has no clusters"));
    } else if ctas > most {
        let d = Diagnostic::error(
            Code::TooLarge,
            None,
            format!(
                "a cluster of {x}x{y}x{z} CTAs: no GPC of an H200 has as many SMs for one cluster"
            ),
        );
        found.push(d.help(format!(
            "use 1 to {most} CTAs; up to {portable} run on every GPU of the architecture"
        )));
    }
}

/// What an SM has for one thread, and for several CTAs. ptxas warns of what it cannot do and leaves it out.
fn check_share_of_sm(func: &Func, found: &mut Diagnostics) {
    let registers = &func.target.registers;
    let (least, most) = (registers.least_budget, registers.per_thread);
    if let Some(cap) = func.max_registers
        && !(least..=most).contains(&cap)
    {
        found.push(Diagnostic::error(
            Code::RegisterBudget,
            None,
            format!("`max_registers = {cap}`: a thread has {least} to {most} registers"),
        ));
    }
    let threads = func.launch_warps().saturating_mul(32);
    let sm = &func.target.sm;
    let most = (sm.threads / threads.max(1)).min(sm.ctas);
    if let Some(ctas) = func.min_ctas_per_sm
        && (ctas == 0 || ctas > most)
    {
        let message = format!(
            "`min_ctas_per_sm = {ctas}` with {threads} threads each: an SM runs {} threads at once, and {} CTAs",
            sm.threads, sm.ctas
        );
        let d = Diagnostic::error(Code::WrongWarps, None, message);
        found.push(d.help(format!("say 1 to {most}, or give the kernel fewer warps")));
    }
}
