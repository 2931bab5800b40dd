//! Products of f32 by three products of tf32, with both operands in shared memory.

use std::ops::Range;

use gluon_lang::lang::prelude::*;

use crate::pipeline::Payload;

/// A tile of f32 in shared memory as two tiles of tf32, whose sum it is to 22 bits or more: what `wgmma_tf32x3` multiplies.
///
/// Where TMA loads f32, threads split it in between: they read the loaded tile and [store](Tf32Parts::store) the parts, which takes
/// twice its bytes. As stages of a [`Pipeline`](crate::pipeline::Pipeline) the parts are filled by
/// [`Producers::Stores`](crate::pipeline::Producers::Stores), so that `commit` fences what the tensor cores read.
#[derive(Clone, Copy, Aggregate)]
pub struct Tf32Parts {
    /// The nearest tf32 of each element.
    pub big: Smem<f32>,
    /// What is left of it, as tf32.
    pub small: Smem<f32>,
}

impl Tf32Parts {
    /// Allocates both parts of tiles of `shape`. Rows are along K: operands of 32 bits are K-major.
    #[track_caller]
    pub fn alloc<const RANK: usize>(shape: [usize; RANK], layout: impl Into<SharedLayout>) -> Self {
        let layout = layout.into();
        Tf32Parts {
            big: Smem::alloc(shape, layout.clone()),
            small: Smem::alloc(shape, layout),
        }
    }

    /// Splits a tensor and stores both parts. The small part of infinities and NaN is 0.
    #[track_caller]
    pub fn store(self, x: Tensor<f32>) {
        let (big, small) = x.tf32_parts();
        self.big.store(big);
        self.small.store(small);
    }

    /// The elements `range` of dimension `axis`, of both.
    #[must_use]
    #[track_caller]
    pub fn slice(self, axis: usize, range: Range<usize>) -> Self {
        Tf32Parts {
            big: self.big.slice(axis, range.clone()),
            small: self.small.slice(axis, range),
        }
    }

    /// Both transposed, for operand B stored as `[N, K]`.
    #[must_use]
    #[track_caller]
    pub fn transpose(self) -> Self {
        Tf32Parts {
            big: self.big.transpose(),
            small: self.small.transpose(),
        }
    }
}

impl Payload for Tf32Parts {
    type Stage = Tf32Parts;

    #[track_caller]
    fn stages(self) -> usize {
        (self.big, self.small).stages()
    }

    #[track_caller]
    fn stage(self, index: Scalar<i32>) -> Tf32Parts {
        let (big, small) = (self.big, self.small).stage(index);
        Tf32Parts { big, small }
    }

    #[track_caller]
    fn stage_bytes(self) -> usize {
        (self.big, self.small).stage_bytes()
    }
}

/// `sums + a · b` of f32 by three products of tf32 (`tf32x3`): large times large, added to small times large and large times
/// small, the small ones first. What is left out, small times small, is 2^-22 of a product at most, so that the error is near that of f32: less than 1e-6
/// of the sum of the products' magnitudes.
///
/// `a` is `[M, K]` and `b` is `[K, N]`. `sums` has a layout `Wgmma` whose k is 8. The products are waited for, and added to `sums` by f32
/// additions: the tensor cores round each sum towards 0, which over many steps along K would cost what the small parts gain. Use steps of
/// 32 or 64 along K, and two warpgroups, so that one multiplies while the other adds.
///
/// A row or column with an infinity comes out as NaN, unlike that of [`mma_v2_tf32x3`]: an infinity times a small part of 0 is NaN.
#[track_caller]
pub fn wgmma_tf32x3(a: Tf32Parts, b: Tf32Parts, sums: Tensor<f32>) -> Tensor<f32> {
    let products = Accumulator::from_tensor(zeros_like(sums)).tf32();
    let products = products.mma(a.small, b.big);
    let products = products.mma(a.big, b.small);
    sums + products.mma(a.big, b.big).wait_all()
}
