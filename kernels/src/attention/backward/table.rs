//! The instances of the backward pass, as data.

use tilekit::CompiledKernel;
use tilekit::prelude::*;

use super::kernel::backward;
use super::listed_kernel::backward_blocks;
use super::passes::{backward_begin, backward_end};
use crate::attention::modifier::Differentiable;
use crate::attention::plan::Tile;
use crate::attention::table::{Instance, Operand};
use crate::handles::handles;

/// The parameters of `backward`.
pub(super) type GradientHandles<T> = handles! {
    q k v dout dk dv: TensorMap<T>,
    log2_sum delta: Ptr<f32>,
    parts: Ptr<bf16>,
    sums: Ptr<f32>,
    turns: Ptr<i32>,
    out dout_rows: TensorMap<T>,
    lse: Ptr<f32>,
    dq: Ptr<T>,
    progress query_offsets key_offsets: Ptr<i32>,
    data: Ptr<f32>,
    query_heads queries keys is_ragged left right chunk block_stride: Scalar<i32>,
    sections: [Scalar<i32>; 4],
    row_stride: Scalar<i32>,
    log2_scale score_scale scale: Scalar<f32>,
    dq_strides: [Scalar<i64>; 3],
    seed: Scalar<i64>,
    dropped: Scalar<i32>,
};

/// The parameters of `backward_blocks`.
pub(super) type ListedHandles<T> = handles! {
    q k v dout dk dv: TensorMap<T>,
    log2_sum delta: Ptr<f32>,
    parts: Ptr<bf16>,
    sums: Ptr<f32>,
    turns starts partial blocks ranks: Ptr<i32>,
    data: Ptr<f32>,
    query_heads queries keys left right block_stride section lead: Scalar<i32>,
    list_batch list_block list_head list_parts list_ctas: Scalar<i32>,
    log2_scale score_scale scale: Scalar<f32>,
};

/// The parameters of `backward_begin`.
pub(super) type BeginHandles<T> = handles! {
    out dout: Ptr<T>,
    lse delta log2_sum: Ptr<f32>,
    parts: Ptr<bf16>,
    sums: Ptr<f32>,
    turns progress query_offsets: Ptr<i32>,
    queries is_ragged row_stride block_stride heads counts: Scalar<i32>,
    scale: Scalar<f32>,
    out_strides dout_strides: [Scalar<i64>; 3],
};

/// The parameters of `backward_end`.
pub(super) type EndHandles<T> = handles! {
    sums: Ptr<f32>,
    dq: Ptr<T>,
    query_offsets: Ptr<i32>,
    queries is_ragged block_stride heads first_line: Scalar<i32>,
    scale: Scalar<f32>,
    strides: [Scalar<i64>; 3],
};

/// The kernels before and after the main loop, for given depths.
pub(super) struct Passes<T> {
    pub(super) depths: [usize; 2],
    /// Queries of a block.
    pub(super) queries: usize,
    pub(super) begin: Instance<BeginHandles<T>>,
    pub(super) end: Instance<EndHandles<T>>,
}

/// An instance of the main loop.
pub(super) struct GradientInstance<H> {
    pub(super) depths: [usize; 2],
    pub(super) is_ordered: bool,
    pub(super) instance: Instance<H>,
}

/// An instance of a kernel that has no tile of queries.
fn instance<H>(
    depths: [usize; 2],
    compile: fn(&Compiler) -> tilekit::Result<CompiledKernel<H>>,
) -> Instance<H> {
    Instance {
        depths,
        tile: Tile {
            rows: 1,
            keys: 0,
            pack: 1,
        },
        is_causal: false,
        compile,
    }
}

macro_rules! passes {
    ($($d:literal, $dv:literal, $queries:literal;)*) => {
        vec![$(Passes {
            depths: [$d, $dv],
            queries: $queries,
            begin: instance([$d, $dv], |compiler| backward_begin::<T, $d, $dv, $queries>.compile(compiler)),
            end: instance([$d, $dv], |compiler| backward_end::<T, $d, $queries>.compile(compiler)),
        }),*]
    };
}

pub(super) fn passes<T: Operand>() -> Vec<Passes<T>> {
    passes! {
        64, 64, 128;
        64, 64, 64;
        96, 96, 64;
        128, 128, 64;
        192, 128, 64;
        256, 256, 64;
    }
}

macro_rules! gradients {
    ($kernel:ident: $($d:literal, $dv:literal, $ordered:literal;)*) => {
        vec![$(GradientInstance {
            depths: [$d, $dv],
            is_ordered: $ordered,
            instance: instance([$d, $dv], |compiler| {
                $kernel::<T, $d, $dv, $ordered, M>.compile(compiler)
            }),
        }),*]
    };
}

/// The depths at which a main loop is built, in any order of terms and in a fixed one.
macro_rules! built {
    ($kernel:ident) => {
        gradients! {
            $kernel:
            64, 64, false;
            64, 64, true;
            96, 96, false;
            96, 96, true;
            128, 128, false;
            128, 128, true;
            192, 128, false;
            192, 128, true;
            256, 256, false;
            256, 256, true;
        }
    };
}

pub(super) fn gradients<T: Operand, M: Differentiable>() -> Vec<GradientInstance<GradientHandles<T>>>
{
    built!(backward)
}

/// Those of block-sparse masks.
pub(super) fn gradients_of_blocks<T: Operand, M: Differentiable>()
-> Vec<GradientInstance<ListedHandles<T>>> {
    built!(backward_blocks)
}

/// The row of a call, and its number.
pub(super) fn instance_of<H>(
    table: Vec<GradientInstance<H>>,
    depths: [usize; 2],
    is_ordered: bool,
) -> (usize, Instance<H>) {
    let mut rows = table.into_iter().enumerate();
    let (index, row) = rows
        .find(|(_, row)| row.depths == depths && row.is_ordered == is_ordered)
        .expect("the check of a call knows the depths of this table");
    (index, row.instance)
}
