//! What an access to shared memory costs a warp: how wide each thread's accesses are, and how often lanes wait for one
//! another at a bank.

use ir::Func;
use ir::entity::Inst;
use layout::convert::AccessKind;
use layout::local::Storage;

use super::access::shared;

/// What one access costs a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankCost {
    /// Vectors or matrices.
    pub kind: AccessKind,
    /// Bytes that a thread gets or gives by one instruction.
    pub thread_bytes: u32,
    /// Instructions.
    pub accesses: u32,
    /// How often the banks are gone through.
    pub wavefronts: u32,
    /// Wavefronts of these beyond those that the bytes need.
    pub conflicts: u32,
}

impl BankCost {
    /// How many times the wavefronts are taken that would do.
    pub fn excess(self) -> u32 {
        self.wavefronts / (self.wavefronts - self.conflicts).max(1)
    }
}

/// The cost of the access that `inst` is; `None` if it moves no tile between registers and its CTA's shared memory, or if
/// the kernel computes the places.
pub fn cost(func: &Func, inst: Inst) -> Option<BankCost> {
    let plan = shared::plan(func, inst).filter(|plan| !plan.is_remote)?;
    let (memory, local) = (func.ty(plan.view).as_smem()?, plan.local?);
    let storage = Storage::new(&memory.layout, &memory.alloc_shape, memory.elem.bytes()).ok()?;
    let cost = local.cost(&storage);
    Some(BankCost {
        kind: local.kind,
        thread_bytes: plan.access.bytes,
        accesses: cost.accesses,
        wavefronts: cost.wavefronts,
        conflicts: cost.conflicts,
    })
}

#[cfg(test)]
mod tests {
    use super::{BankCost, cost};
    use crate::test::read;

    /// The cost of writing 64 x 64 elements of a layout into shared memory of another one.
    #[track_caller]
    fn check(layout: &str, shared: &str, elem: &str) -> BankCost {
        let func = read(&format!(
            "#b = Blocked({layout})
            #s = {shared}
            kernel @k() warps(4) stage(resolved) {{
              %v = constant {{value=1.0}} : tensor<64x64x{elem}, #b>
              %m = smem_alloc init=%v : smem<64x64x{elem}, #s>
              smem_keep %m
              return
            }}"
        ));
        let found: Vec<BankCost> = func
            .walk()
            .into_iter()
            .filter_map(|inst| cost(&func, inst))
            .collect();
        let [cost] = found[..] else {
            panic!("one access, and not {found:?}")
        };
        cost
    }

    #[test]
    fn rows_of_vectors_need_no_swizzle_and_columns_do() {
        let rows = check(
            "[1, 4], [2, 16], [4, 1], [1, 0]",
            "Swizzled(1, 1, 1, [1, 0])",
            "f32",
        );
        assert_eq!(
            (rows.thread_bytes, rows.conflicts, rows.excess()),
            (16, 0, 1)
        );
        let columns = check(
            "[1, 1], [32, 1], [1, 4], [0, 1]",
            "Swizzled(1, 1, 1, [1, 0])",
            "f32",
        );
        assert_eq!((columns.thread_bytes, columns.accesses), (4, 32));
        assert_eq!((columns.wavefronts, columns.excess()), (32 * 32, 32));
        let swizzled = check(
            "[1, 1], [32, 1], [1, 4], [0, 1]",
            "Swizzled(1, 1, 32, [1, 0])",
            "f32",
        );
        assert_eq!((swizzled.conflicts, swizzled.excess()), (0, 1));
        let padded = check(
            "[1, 1], [32, 1], [1, 4], [0, 1]",
            "Padded([[64, 1]], [1, 0])",
            "f32",
        );
        assert_eq!((padded.conflicts, padded.excess()), (0, 1));
    }
}
