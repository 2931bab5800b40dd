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
    if !func.warps.is_power_of_two() || func.warps > most {
        let d = Diagnostic::error(
            Code::WrongWarps,
            None,
            format!(
                "a kernel of {} warps: tiles are shared among {} warps of a CTA",
                func.warps,
                powers_of_two(most)
            ),
        );
        found.push(d.help(other_warps(func.warps, most)));
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
    if ctas == 0 || ctas > most {
        let [x, y, z] = func.cluster;
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

/// What a kernel of so many warps could have instead.
fn other_warps(warps: u32, most: u32) -> String {
    let below = 1 << warps.max(1).ilog2();
    let rest = warps - warps.min(below);
    match (warps, rest) {
        (0, _) => "take 1 warp or more".to_owned(),
        _ if warps > most => format!("take {most} at most"),
        (4.., 1 | 2 | 4 | 8) => format!(
            "take {below} or {}, or have a CTA of {warps} in parts: {below} of the kernel's own and workers of {rest}, by `warp_specialize`",
            2 * below
        ),
        _ => format!("take {below} or {}", 2 * below),
    }
}

/// The powers of two up to `most`, for a message: `1, 2 or 4`.
fn powers_of_two(most: u32) -> String {
    let list: Vec<String> = (0..=most.max(1).ilog2())
        .map(|bit| (1_u32 << bit).to_string())
        .collect();
    match list.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => list.concat(),
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
