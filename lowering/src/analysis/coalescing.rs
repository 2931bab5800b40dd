//! What an access to global memory costs: how wide each thread's accesses are, and how many bytes a warp moves for those
//! it uses.
//!
//! A warp's request moves whole sectors of 32 bytes (CUDA C++ best practices guide, coalesced access). Which lanes share a
//! sector follows from the layout and from what is known of the addresses; where nothing is known, each lane is counted
//! with a sector of its own.

use gluon_lang::entity::{Inst, Value};
use gluon_lang::ir::Func;
use gluon_lang::layout::{Axis, Dims, LinearLayout};

use super::access;
use super::axis::Axes;

/// Bytes that are moved together.
const SECTOR_BYTES: u32 = 32;

/// The widest access of one thread in bytes.
const MAX_ACCESS_BYTES: u32 = 16;

/// What one access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessCost {
    /// Bytes of each thread's widest single access.
    pub vector_bytes: u32,
    /// Sectors that a warp's request touches.
    pub sectors: u32,
    /// Bytes of them that the warp's lanes use, each counted once.
    pub used_bytes: u32,
}

impl AccessCost {
    /// Bytes moved for a warp's request.
    pub fn moved_bytes(self) -> u32 {
        self.sectors * SECTOR_BYTES
    }

    /// How many times the bytes used are moved.
    pub fn excess(self) -> u32 {
        self.moved_bytes() / self.used_bytes.max(1)
    }
}

/// The cost of the access that `inst` is; `None` if it goes through no tensor of pointers.
pub fn cost(func: &Func, axes: &Axes, inst: Inst) -> Option<AccessCost> {
    let pointers = access::pointers(func, inst)?;
    let facts = access::facts(func, axes, inst, pointers);
    let map = func
        .ty(pointers)
        .as_tensor()?
        .layout
        .linear(&facts.shape)
        .ok()?;
    let fastest = *facts.order().first()? as usize;
    let elem_bytes = facts.elem_bits / 8;
    let in_row = registers_in_row(&map, fastest);
    let vector_elements = in_row
        .min(facts.elements_at_once())
        .min(MAX_ACCESS_BYTES / elem_bytes);
    let vector_bytes = vector_elements * elem_bytes;
    let mut cost = AccessCost {
        vector_bytes,
        sectors: 1,
        used_bytes: vector_bytes,
    };
    for basis in map.basis_coords(Axis::Lane) {
        match step(axes, pointers, &basis, fastest, elem_bytes) {
            Step::Same => {}
            Step::Bytes(bytes) if bytes < SECTOR_BYTES => cost.used_bytes *= 2,
            Step::Bytes(_) | Step::Far => {
                cost.used_bytes *= 2;
                cost.sectors *= 2;
            }
        }
    }
    Some(cost)
}

/// How many registers of a thread follow one another along `dim`, as a power of two.
fn registers_in_row(map: &LinearLayout, dim: usize) -> u32 {
    let bases = map.basis_coords(Axis::Register);
    let moves_by = |size: u32| {
        let is_step = |basis: &Dims| {
            basis
                .iter()
                .enumerate()
                .all(|(d, &c)| c == if d == dim { size } else { 0 })
        };
        bases.iter().any(is_step)
    };
    let mut size = 1;
    while moves_by(size) {
        size *= 2;
    }
    size
}

/// How far apart two lanes access that differ in one bit.
enum Step {
    Same,
    Bytes(u32),
    Far,
}

fn step(axes: &Axes, pointers: Value, basis: &[u32], fastest: usize, elem_bytes: u32) -> Step {
    let Some((dim, &by)) = basis.iter().enumerate().find(|(_, c)| **c != 0) else {
        return Step::Same;
    };
    if by < axes.constancy(pointers, dim) {
        Step::Same
    } else if dim == fastest && by < axes.contiguity(pointers, dim) {
        Step::Bytes(by * elem_bytes)
    } else {
        Step::Far
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessCost, cost};
    use crate::analysis::access;
    use crate::analysis::axis::Axes;
    use crate::test::read;

    /// The cost of the only access of a kernel on 32 rows of 32 `f32`, the elements `row` and `column` apart.
    #[track_caller]
    fn check(layout: &str, row: u32, column: u32, expected: (u32, u32, u32)) {
        let func = read(&format!(
            "#b = Blocked({layout})
            #rows = Slice(1, Blocked({layout}))
            #cols = Slice(0, Blocked({layout}))
            kernel @k(%x: ptr<f32> {{divisor=16}}) warps(4) stage(resolved) {{
              %r = arange {{start=0, end=32}} : tensor<32xi32, #rows>
              %c = arange {{start=0, end=32}} : tensor<32xi32, #cols>
              %r2 = expand_dims %r {{axis=1}} : tensor<32x1xi32, #b>
              %c2 = expand_dims %c {{axis=0}} : tensor<1x32xi32, #b>
              %rs = constant {{value={row}}} : tensor<32x1xi32, #b>
              %cs = constant {{value={column}}} : tensor<1x32xi32, #b>
              %ro = binary %r2, %rs {{op=mul}} : tensor<32x1xi32, #b>
              %co = binary %c2, %cs {{op=mul}} : tensor<1x32xi32, #b>
              %rb = broadcast %ro : tensor<32x32xi32, #b>
              %cb = broadcast %co : tensor<32x32xi32, #b>
              %i = binary %rb, %cb {{op=add}} : tensor<32x32xi32, #b>
              %s = splat %x : tensor<32x32xptr<f32>, #b>
              %p = ptr_add %s, %i : tensor<32x32xptr<f32>, #b>
              %v = load %p : tensor<32x32xf32, #b>
              print [%v] {{prefix=\"v\"}}
              return
            }}"
        ));
        let axes = Axes::of(&func);
        let found = func
            .walk()
            .into_iter()
            .find(|inst| access::pointers(&func, *inst).is_some());
        let (vector_bytes, sectors, used_bytes) = expected;
        let expected = AccessCost {
            vector_bytes,
            sectors,
            used_bytes,
        };
        assert_eq!(
            found.and_then(|inst| cost(&func, &axes, inst)),
            Some(expected)
        );
    }

    #[test]
    fn rows_in_row_order() {
        // Four rows of 128 bytes: nothing moved that is not used.
        check("[1, 4], [4, 8], [4, 1], [1, 0]", 32, 1, (16, 16, 512));
        check("[1, 1], [1, 32], [4, 1], [1, 0]", 32, 1, (4, 4, 128));
    }

    #[test]
    fn columns_in_row_order_waste_most_of_each_sector() {
        check("[4, 1], [8, 4], [1, 4], [0, 1]", 32, 1, (4, 8, 128));
        check("[1, 1], [32, 1], [1, 4], [0, 1]", 32, 1, (4, 32, 128));
        check("[1, 4], [4, 8], [4, 1], [1, 0]", 64, 2, (4, 32, 128));
    }

    #[test]
    fn columns_in_column_order() {
        check("[4, 1], [8, 4], [1, 4], [0, 1]", 1, 32, (16, 16, 512));
    }
}
