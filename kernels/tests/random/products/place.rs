//! Shapes of products, and where their matrices lie, drawn at random.

use proptest::prelude::*;

use crate::broken::{Broken, Views};
use crate::calls::{extent, is_on_gpu};
use crate::tensor::MemoryLayout;

/// The memory layout of a matrix, or of each of a batch.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) layout: MemoryLayout<3>,
    /// Of a batch there is one matrix for all.
    pub(super) is_shared: bool,
}

impl Place {
    pub(super) fn any() -> impl Strategy<Value = Place> {
        let order = prop_oneof![Just([0, 1, 2]), Just([0, 2, 1])];
        let step = prop_oneof![9 => Just(1_usize), 1 => Just(2_usize)];
        let gap = prop_oneof![3 => Just(0_usize), 1 => 1..20_usize, 1 => (1..5_usize).prop_map(|eights| 8 * eights)];
        let offset = prop_oneof![3 => Just(0_usize), 1 => 1..20_usize, 1 => Just(16_usize)];
        let is_shared = prop_oneof![9 => Just(false), 1 => Just(true)];
        (order, step, gap, offset, is_shared).prop_map(|(order, step, gap, offset, is_shared)| {
            Place {
                layout: MemoryLayout {
                    order,
                    step,
                    gap,
                    offset,
                },
                is_shared,
            }
        })
    }
}

/// M, N and K of a product that is short enough for the host, or of each of a few.
pub(super) fn size() -> impl Strategy<Value = [usize; 3]> {
    let [most, products] = if is_on_gpu() {
        [20_000, 1 << 24]
    } else {
        [400, 1 << 20]
    };
    let size = [extent(most), extent(most), extent(most)];
    size.prop_filter("too long on the host", move |size| {
        let each: usize = size.iter().map(|extent| extent.max(&1)).product();
        each.max(8 * each / size.iter().min().unwrap().max(&1)) <= products
    })
}

/// So many matrices, the last of which is the result, and so many lists behind them. Others have their rows and columns; a batch may have one of all.
pub(super) fn matrices(broken: Option<Broken>, [matrices, lists]: [usize; 2]) -> Views {
    Views {
        broken,
        count: matrices + lists,
        results: matrices - 1..matrices,
        is_fixed: |dimension, rank| dimension + 2 >= rank,
    }
}
