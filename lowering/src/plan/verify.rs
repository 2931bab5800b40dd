//! Checks the shared memory that is planned, before emission relies on it: a kernel at stage `Allocated` may have been edited
//! by hand.
//!
//! Each op must have the scratch that its emission needs; blocks that are needed at one moment, or by partitions that run
//! beside each other, must lie apart; and where bytes are used again, a barrier must stand between.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;
use ir::ops::Scratch;

use super::barriers;
use super::hazards::{Memory, Wanted};
use super::shared::{self, Need};
use crate::analysis::scratch::{BarrierScope, Scratches};
use crate::analysis::shared::Views;

/// Reports ops with too little scratch, bytes that two ops have at one moment, and bytes that are used again without a
/// barrier.
pub fn check(func: &Func) -> Diagnostics {
    let mut found = Diagnostics::default();
    let scratches = Scratches::of(func);
    let needs = shared::needs(func, &scratches, &mut found);
    for need in &needs {
        check_size(func, need, &mut found);
    }
    if found.has_errors() {
        return found;
    }
    check_overlaps(func, &needs, &mut found);
    if !found.has_errors() && func.shared_bytes > 0 {
        check_barriers(func, &scratches, &mut found);
    }
    found
}

/// The bytes that the kernel gives an op.
fn given(func: &Func, need: &Need) -> Scratch {
    let rules = func.op(need.inst).rules();
    let given = if need.is_scratch {
        rules.scratch()
    } else {
        rules.allocation()
    };
    given.unwrap_or_default()
}

fn what(func: &Func, need: &Need) -> String {
    let mnemonic = func.op(need.inst).rules().mnemonic();
    if need.is_scratch {
        format!("the scratch of `{mnemonic}`")
    } else {
        format!("this `{mnemonic}`")
    }
}

fn report(func: &Func, inst: Inst, message: String) -> Diagnostic {
    Diagnostic::error(Code::BrokenRule, func.place(inst), message)
        .help("assign other bytes, or start from stage `resolved`, where shared memory is allocated again")
}

fn check_size(func: &Func, need: &Need, found: &mut Diagnostics) {
    let (given, wanted, alignment) = (given(func, need), need.block.bytes, need.block.alignment);
    let what = what(func, need);
    let message = if given.bytes < wanted {
        format!(
            "{what} needs {wanted} bytes of shared memory, and has {}",
            given.bytes
        )
    } else if !given.start.is_multiple_of(alignment) {
        format!(
            "{what} must begin at a multiple of {alignment} bytes of shared memory, and begins at {}",
            given.start
        )
    } else if given.end() > func.shared_bytes {
        format!(
            "{what} ends at byte {} of shared memory, and the kernel has {} bytes",
            given.end(),
            func.shared_bytes
        )
    } else {
        return;
    };
    found.push(report(func, need.inst, message));
}

fn check_overlaps(func: &Func, needs: &[Need], found: &mut Diagnostics) {
    let mut placed: Vec<(Scratch, &Need)> =
        needs.iter().map(|need| (given(func, need), need)).collect();
    placed.sort_by_key(|(bytes, _)| bytes.start);
    for (at, (bytes, need)) in placed.iter().enumerate() {
        let later = placed[at + 1..].iter();
        let over = later.take_while(|(other, _)| other.start < bytes.end());
        for (other, user) in over.filter(|(_, user)| user.block.overlaps(&need.block)) {
            let message = format!(
                "{} has the bytes {other} of shared memory, and {} has {bytes} while both are live",
                what(func, user),
                what(func, need)
            );
            found.push(
                report(func, user.inst, message).related(func.place(need.inst), "the other one"),
            );
        }
    }
}

fn check_barriers(func: &Func, scratches: &Scratches, found: &mut Diagnostics) {
    let views = Views::of(func);
    let memory = Memory {
        func,
        views: &views,
        scratches,
    };
    let wanted = barriers::wanted(memory, found);
    // Bytes that other CTAs write are an exchange's own as long as the kernel runs, and mbarriers order it.
    let is_ordered = |inst: &Inst| {
        let need = scratches.need(*inst);
        need.is_written_by_peers() && need.scope == BarrierScope::None
    };
    for inst in func.walk().into_iter().filter(|inst| !is_ordered(inst)) {
        let Wanted { barrier, fence } = wanted[inst];
        let name = func.op(inst).rules().mnemonic();
        let lacks = match (barrier, fence) {
            (false, false) => continue,
            (true, false) => "a CTA barrier (`barrier`)",
            (false, true) => "a proxy fence (`fence_async_shared`)",
            (true, true) => "a proxy fence and a CTA barrier (`fence_async_shared`, `barrier`)",
        };
        let message = format!(
            "`{name}` accesses shared memory while another access to it may be outstanding: {lacks} is missing before it"
        );
        found.push(report(func, inst, message));
    }
}
