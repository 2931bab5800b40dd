//! Sorts along every axis of every layout, both ways, of one tensor and of several, with all or a few elements kept.

use ir::elem::DType;
use layout::relate;

use crate::family::{MATRICES, SOLIDS, VECTORS};
use crate::kernel::{Kernel, coordinates, from_bytes, noise, number, to_bytes};

/// What is sorted, and how.
#[derive(Clone, Copy)]
pub(crate) struct Sort {
    pub(crate) axis: usize,
    pub(crate) count: u32,
    pub(crate) is_descending: bool,
}

fn sorting(
    mut kernel: Kernel,
    layout: &str,
    shape: &[u32],
    dtypes: &[DType],
    sort: Sort,
) -> Kernel {
    let form = kernel.form("l", layout, shape);
    let mut kept = shape.to_vec();
    kept[sort.axis] = sort.count;
    // Where what is kept would lie elsewhere by the layout's name, it has a layout of its own.
    let own = relate::keep(&layout.parse().unwrap(), shape, &kept);
    let result = kernel.form("k", &own.to_string(), &kept);
    for (at, &dtype) in dtypes.iter().enumerate() {
        kernel.load(&format!("x{at}"), dtype, &form);
    }
    let list = |name: &str, end: &str| -> String {
        let names = (0..dtypes.len()).map(|at| format!("%{name}{at}{end}"));
        names.collect::<Vec<_>>().join(", ")
    };
    let types: Vec<String> = dtypes.iter().map(|d| result.of(d.name())).collect();
    let descending = if sort.is_descending {
        ", is_descending=true"
    } else {
        ""
    };
    kernel.line(&format!(
        "{} = sort [{}] {{axis={}, count={}{descending}}} : {}",
        list("r", ""),
        list("x", "_v"),
        sort.axis,
        sort.count,
        types.join(", ")
    ));
    for (at, &dtype) in dtypes.iter().enumerate() {
        kernel.store(&format!("out{at}"), dtype, &result, &format!("r{at}"));
    }
    kernel
}

#[track_caller]
fn check(layout: &str, warps: u32, shape: &[u32], dtypes: &[DType], sort: Sort) {
    check_kernel(Kernel::new(warps), layout, shape, dtypes, sort);
}

/// Has a kernel of some warps and CTAs sort, and compares with the host.
#[track_caller]
pub(crate) fn check_kernel(
    kernel: Kernel,
    layout: &str,
    shape: &[u32],
    dtypes: &[DType],
    sort: Sort,
) {
    let count = shape.iter().product::<u32>() as usize;
    let Sort {
        axis,
        count: kept,
        is_descending,
    } = sort;
    let number_of = |bits: u64, dtype: DType| {
        let shift = 64 - dtype.bits();
        if dtype.is_signed_int() {
            i128::from(((bits << shift) as i64) >> shift)
        } else {
            i128::from(bits)
        }
    };
    let data: Vec<Vec<u64>> = dtypes
        .iter()
        .enumerate()
        .map(|(at, dtype)| {
            // Of several operands, the first has many equal elements.
            let cut = if at + 1 < dtypes.len() { 5 } else { u64::MAX };
            let mask = u64::MAX >> (64 - dtype.bits());
            noise(count, 21 + at as u64)
                .iter()
                .map(|v| ((v >> 3) % cut) & mask)
                .collect()
        })
        .collect();
    let mut buffers: Vec<Vec<u8>> = data
        .iter()
        .zip(dtypes)
        .map(|(x, &d)| to_bytes(x, d))
        .collect();
    let left = count / shape[axis] as usize * kept as usize;
    buffers.extend(dtypes.iter().map(|d| vec![0; left * d.bytes() as usize]));
    let found = sorting(kernel, layout, shape, dtypes, sort).run(&buffers);

    let mut out_shape = shape.to_vec();
    out_shape[axis] = kept;
    let mut wanted = vec![vec![0; left]; dtypes.len()];
    for place in (0..left).filter(|&p| coordinates(p, &out_shape)[axis] == 0) {
        let line = |step: usize| {
            let mut coords = coordinates(place, &out_shape);
            coords[axis] = step;
            coords
        };
        let mut all: Vec<Vec<i128>> = (0..shape[axis] as usize)
            .map(|step| {
                let at = number(&line(step), shape);
                data.iter()
                    .zip(dtypes)
                    .map(|(x, &d)| number_of(x[at], d))
                    .collect()
            })
            .collect();
        all.sort_unstable();
        if is_descending {
            all.reverse();
        }
        for (step, tuple) in all.iter().take(kept as usize).enumerate() {
            for (operand, value) in tuple.iter().enumerate() {
                let mask = u64::MAX >> (64 - dtypes[operand].bits());
                wanted[operand][number(&line(step), &out_shape)] = *value as u64 & mask;
            }
        }
    }
    for (at, want) in wanted.iter().enumerate() {
        assert_eq!(
            &from_bytes(&found[dtypes.len() + at], dtypes[at]),
            want,
            "operand {at} of {shape:?} in {layout}, axis {axis}, {kept} kept, descending {is_descending}"
        );
    }
}

#[test]
fn matrices_along_both_axes() {
    let dtypes = [DType::I32, DType::U64, DType::I16, DType::U8, DType::I64];
    for (at, &(layout, warps)) in MATRICES.iter().enumerate() {
        for axis in [0, 1] {
            let shape = [[16, 32], [64, 16], [1, 64]][(at + axis) % 3];
            let dtype = dtypes[(at + axis) % dtypes.len()];
            for count in [shape[axis], (shape[axis] / 4).max(1), 1] {
                let is_descending = (at + count as usize) % 2 == 0;
                let sort = Sort {
                    axis,
                    count,
                    is_descending,
                };
                check(layout, warps, &shape, &[dtype], sort);
            }
        }
    }
}

#[test]
fn several_tensors_move_together() {
    for (at, &(layout, warps)) in MATRICES.iter().enumerate() {
        for (count, is_descending) in [(32, at % 2 == 0), (8, at % 2 == 1)] {
            let sort = Sort {
                axis: 1,
                count,
                is_descending,
            };
            check(layout, warps, &[8, 32], &[DType::I32, DType::U32], sort);
        }
    }
}

#[test]
fn vectors_and_solids() {
    for &(layout, warps) in VECTORS {
        for (length, count) in [(256, 256), (512, 16), (4, 2), (1, 1)] {
            let sort = Sort {
                axis: 0,
                count,
                is_descending: length == 512,
            };
            check(layout, warps, &[length], &[DType::I32], sort);
        }
    }
    for &(layout, warps) in SOLIDS {
        for axis in 0..3 {
            let sort = Sort {
                axis,
                count: 4,
                is_descending: axis == 1,
            };
            check(layout, warps, &[8, 16, 4], &[DType::U16, DType::I64], sort);
        }
    }
}

#[test]
fn extents_that_are_no_powers_of_two() {
    let dtypes = [DType::I32, DType::U64, DType::I16, DType::U8, DType::I64];
    for (at, &(layout, warps)) in MATRICES.iter().enumerate() {
        for (turn, shape) in [[48, 80], [96, 6], [5, 176], [40, 64]]
            .into_iter()
            .enumerate()
        {
            let axis = (at + turn) % 2;
            let dtype = dtypes[(at + turn) % dtypes.len()];
            for count in [shape[axis], 4, 1] {
                let sort = Sort {
                    axis,
                    count,
                    is_descending: (at + count as usize) % 2 == 0,
                };
                check(layout, warps, &shape, &[dtype], sort);
            }
        }
        let sort = Sort {
            axis: 1,
            count: [80, 64, 8, 2][at % 4],
            is_descending: at % 2 == 1,
        };
        check(layout, warps, &[6, 80], &[DType::I32, DType::U32], sort);
    }
    for &(layout, warps) in VECTORS {
        for length in [384, 96, 7, 3, 480] {
            let largest = 1 << u32::ilog2(length);
            for count in [length, largest, 1] {
                let sort = Sort {
                    axis: 0,
                    count,
                    is_descending: length % 32 == 0,
                };
                check(layout, warps, &[length], &[DType::I32], sort);
            }
        }
    }
    for &(layout, warps) in SOLIDS {
        for axis in 0..3 {
            let sort = Sort {
                axis,
                count: 2,
                is_descending: axis == 1,
            };
            check(layout, warps, &[6, 24, 3], &[DType::U16, DType::I64], sort);
        }
    }
}

#[test]
fn what_is_kept_need_not_lie_where_its_layout_says() {
    let layouts = [
        "Linear(register=[[2]], lane=[[4], [1], [16], [8], [32]], warp=[[128], [64]])",
        "Slice(0, Blocked([1, 1], [2, 16], [2, 2], [1, 0]))",
        "Blocked([4], [32], [4], [0])",
    ];
    for layout in layouts {
        for count in [1, 2, 8, 64, 128] {
            let sort = Sort {
                axis: 0,
                count,
                is_descending: count % 3 == 1,
            };
            check(layout, 4, &[256], &[DType::I32, DType::U16], sort);
        }
    }
}

#[test]
fn the_assembler_takes_every_kind() {
    for &(layout, warps) in MATRICES.iter().step_by(3) {
        let sort = Sort {
            axis: 1,
            count: 8,
            is_descending: true,
        };
        sorting(Kernel::new(warps), layout, &[16, 32], &[DType::I64], sort).assemble();
        sorting(
            Kernel::new(warps),
            layout,
            &[16, 32],
            &[DType::I8, DType::I32],
            sort,
        )
        .assemble();
        let all = Sort {
            axis: 1,
            count: 96,
            is_descending: false,
        };
        sorting(Kernel::new(warps), layout, &[6, 96], &[DType::I32], all).assemble();
    }
}
