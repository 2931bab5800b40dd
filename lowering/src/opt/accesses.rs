//! `check-accesses`: says which accesses to global memory move many more bytes than they use.

use gluon_lang::diag::{Code, Diagnostic, Diagnostics};
use gluon_lang::entity::Inst;
use gluon_lang::ir::Func;

use crate::analysis::axis::Axes;
use crate::analysis::coalescing::{self, AccessCost};

/// An access that moves this many times the bytes that it uses is reported.
const MAX_EXCESS: u32 = 4;

/// Warns, or where the kernel denies it reports an error.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let has_accesses = |inst: &Inst| crate::analysis::access::pointers(func, *inst).is_some();
    let accesses: Vec<Inst> = func.walk().into_iter().filter(has_accesses).collect();
    if accesses.is_empty() {
        return;
    }
    let axes = Axes::of(func);
    for inst in accesses {
        if let Some(cost) = coalescing::cost(func, &axes, inst)
            && cost.excess() >= MAX_EXCESS
        {
            let d = report(func, inst, cost);
            found.push(if func.contracts.denies_uncoalesced {
                d
            } else {
                d.warning()
            });
        }
    }
}

fn report(func: &Func, inst: Inst, cost: AccessCost) -> Diagnostic {
    let message = format!(
        "this `{}` moves {} bytes for each {} that a warp uses",
        func.op(inst).rules().mnemonic(),
        cost.moved_bytes(),
        cost.used_bytes
    );
    let AccessCost {
        vector_bytes,
        sectors,
        ..
    } = cost;
    Diagnostic::error(Code::UncoalescedAccess, func.place(inst), message)
        .note(format!("each thread accesses {vector_bytes} bytes at once, and a warp touches {sectors} sectors of 32 bytes"))
        .help("let neighbouring lanes access neighbouring elements: take the layout `Coalesced`, or convert to another one after the load or before the store")
}

#[cfg(test)]
mod tests {
    use crate::test::apply;

    const TEXT: &str = "
        #b = Blocked([1], [32], [4], [0])
        kernel @k(%x: ptr<f32> {divisor=16}) warps(4) stage(resolved) {
          %i = arange {start=0, end=128} : tensor<128xi32, #b>
          %by = constant {value=STRIDE} : tensor<128xi32, #b>
          %far = binary %i, %by {op=mul} : tensor<128xi32, #b>
          %s = splat %x : tensor<128xptr<f32>, #b>
          %p = ptr_add %s, %far : tensor<128xptr<f32>, #b>
          %v = constant {value=1.0} : tensor<128xf32, #b>
          store %p, %v
          return
        }";

    #[track_caller]
    fn check(stride: u32, deny: bool, expected: &str) {
        let head = if deny {
            "warps(4) deny(uncoalesced)"
        } else {
            "warps(4)"
        };
        let text = TEXT
            .replace("STRIDE", &stride.to_string())
            .replace("warps(4)", head);
        let (_, found) = apply("check-accesses", &text);
        let found = found.to_string();
        let first = found.lines().next().unwrap_or("");
        assert_eq!(first, expected);
    }

    #[test]
    fn a_stride_wastes_sectors() {
        check(1, true, "");
        check(
            16,
            false,
            "warning[TK0029]: this `store` moves 1024 bytes for each 128 that a warp uses",
        );
        check(
            16,
            true,
            "error[TK0029]: this `store` moves 1024 bytes for each 128 that a warp uses",
        );
    }
}
