//! `check-accesses`: says which accesses to global memory move many more bytes than they use, and which accesses to shared
//! memory have lanes wait for one another.

use std::cell::OnceCell;

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;
use layout::convert::AccessKind;
use target::BANKS;

use crate::analysis::access::Accesses;
use crate::analysis::axis::Axes;
use crate::analysis::banks::{self, BankCost};
use crate::analysis::coalescing::{self, AccessCost};
use crate::analysis::roots::Roots;

/// An access that moves this many times the bytes that it uses, or takes this many times the wavefronts, is reported.
const MAX_EXCESS: u32 = 4;

/// Warns, or where the kernel denies it reports an error.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    check_global(func, found);
    for inst in func.walk() {
        let Some(cost) = banks::cost(func, inst) else {
            continue;
        };
        if func.contracts.denies_bank_conflicts && cost.conflicts > 0 {
            found.push(conflict(func, inst, cost));
        } else if cost.excess() >= MAX_EXCESS {
            found.push(conflict(func, inst, cost).warning());
        }
    }
}

fn check_global(func: &Func, found: &mut Diagnostics) {
    let has_accesses = |inst: &Inst| crate::analysis::access::pointers(func, *inst).is_some();
    let accesses: Vec<Inst> = func.walk().into_iter().filter(has_accesses).collect();
    if accesses.is_empty() {
        return;
    }
    let axes = Axes::of(func);
    let all = Accesses::new(func, &axes);
    let roots = OnceCell::new();
    let is_of_ranks = |inst: Inst| {
        let pointers = crate::analysis::access::pointers(func, inst);
        let roots = roots.get_or_init(|| Roots::of(func));
        pointers.is_some_and(|pointers| roots.is_of_ranks(pointers))
    };
    for inst in accesses {
        // What lies in memory of several ranks is contiguous in no layout.
        if let Some(cost) = coalescing::cost(&all, inst)
            && cost.excess() >= MAX_EXCESS
            && !is_of_ranks(inst)
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

fn conflict(func: &Func, inst: Inst, cost: BankCost) -> Diagnostic {
    let message = format!(
        "this `{}` takes {} wavefronts, and {} without bank conflicts",
        func.op(inst).rules().mnemonic(),
        cost.wavefronts,
        cost.wavefronts - cost.conflicts
    );
    let by = match cost.kind {
        AccessKind::Vector => "as a vector",
        AccessKind::Matrix | AccessKind::Transposed => "of matrices",
    };
    let note = format!(
        "each thread accesses {} bytes {by}, {} times; accesses of several lanes to different words of one of the {BANKS} banks are serialized",
        cost.thread_bytes, cost.accesses
    );
    Diagnostic::error(Code::BankConflict, func.place(inst), message)
        .note(note)
        .help("give the memory a swizzled (`Nvmma`, `Swizzled`) or padded (`Padded`) layout, or the tile a register layout whose lanes are contiguous in memory")
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
        sector_bytes,
        ..
    } = cost;
    Diagnostic::error(Code::UncoalescedAccess, func.place(inst), message)
        .note(format!("each thread accesses {vector_bytes} bytes at once, and a warp touches {sectors} sectors of {sector_bytes} bytes"))
        .help("give neighbouring lanes neighbouring elements: use the layout `Coalesced`, and convert after the load or before the store")
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

    /// The first line of what is said of writing a tile by columns into rows with a swizzle of so many phases.
    #[track_caller]
    fn check_banks(phases: u32, head: &str, expected: &str) {
        let text = format!(
            "
            #b = Blocked([1, 1], [32, 1], [1, 4], [0, 1])
            #s = Swizzled(1, 1, {phases}, [1, 0])
            kernel @k() warps(4){head} stage(resolved) {{
              %v = constant {{value=1.0}} : tensor<32x32xf32, #b>
              %m = smem_alloc : smem<32x32xf32, #s>
              smem_store %m, %v
              return
            }}"
        );
        let (_, found) = apply("check-accesses", &text);
        let found = found.to_string();
        assert_eq!(found.lines().next().unwrap_or(""), expected);
    }

    #[test]
    fn signals_to_several_ranks_are_no_uncoalesced_access() {
        let text = "
            #b = Blocked([1], [32], [1], [0])
            kernel @k(%table: ptr<u64>, %rank: i32) warps(1) deny(uncoalesced) stage(resolved) {
              %all = peer_table %table : ptr<u64>
              %s = splat %all : tensor<32xptr<u64>, #b>
              %i = arange {start=0, end=32} : tensor<32xi32, #b>
              %p = ptr_add %s, %i : tensor<32xptr<u64>, #b>
              %a = load %p : tensor<32xu64, #b>
              %q = cast %a : tensor<32xptr<i32>, #b>
              %r = splat %rank : tensor<32xi32, #b>
              %t = ptr_add %q, %r : tensor<32xptr<i32>, #b>
              atomic_store %t, %i {semantics=release, scope=sys}
              return
            }";
        assert!(apply("check-accesses", text).1.is_empty());
        // The same addresses, of which nothing is known.
        let of_numbers = text.replace("%s = splat %all", "%s = splat %table");
        let (_, found) = apply("check-accesses", &of_numbers);
        let found = found.to_string();
        assert!(found.starts_with("error[TK0029]"), "{found}");
    }

    #[test]
    fn lanes_wait_at_one_bank() {
        let said = |wavefronts: u32, level: &str| {
            format!(
                "{level}[TK0031]: this `smem_store` takes {wavefronts} wavefronts, and 8 without bank conflicts"
            )
        };
        check_banks(32, " deny(bank_conflicts)", "");
        check_banks(1, "", &said(256, "warning"));
        check_banks(1, " deny(bank_conflicts)", &said(256, "error"));
        // Two lanes at a time are worth no warning.
        check_banks(16, "", "");
        check_banks(16, " deny(bank_conflicts)", &said(16, "error"));
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

    /// Nothing is said of loads of `x[at]`, where `offsets` makes `%at` of the numbers `%i`.
    #[track_caller]
    fn check_silent(offsets: &str) {
        let text = format!(
            "
            #b = Blocked([1], [32], [4], [0])
            kernel @k(%x: ptr<f32> {{divisor=16}}, %n: i32) warps(4) deny(uncoalesced) stage(resolved) {{
              %i = arange {{start=0, end=128}} : tensor<128xi32, #b>
              {offsets}
              %s = splat %x : tensor<128xptr<f32>, #b>
              %p = ptr_add %s, %at : tensor<128xptr<f32>, #b>
              %v = load %p : tensor<128xf32, #b>
              print [%v] {{prefix=\"v\"}}
              return
            }}"
        );
        let (_, found) = apply("check-accesses", &text);
        assert!(found.is_empty(), "{found}");
    }

    #[test]
    fn reversed_lanes_and_broadcasts_waste_nothing() {
        check_silent(
            "%last = constant {value=127} : tensor<128xi32, #b>
              %at = binary %last, %i {op=sub} : tensor<128xi32, #b>",
        );
        check_silent(
            "%ns = splat %n : tensor<128xi32, #b>
              %at = binary %ns, %i {op=sub} : tensor<128xi32, #b>",
        );
        check_silent("%at = splat %n : tensor<128xi32, #b>");
        check_silent(
            "%five = constant {value=5} : tensor<128xi32, #b>
              %at = binary %i, %five {op=shr} : tensor<128xi32, #b>",
        );
    }
}
