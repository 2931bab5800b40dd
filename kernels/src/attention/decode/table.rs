//! The instances of attention to a cache, as data.

use tilekit::CompiledKernel;
use tilekit::prelude::*;

use super::kernel::decode;
use crate::attention::merge::splits::merge_splits;
use crate::attention::modifier::Modifier;
use crate::attention::plan::Tile;
use crate::attention::table::{Instance, Operand};
use crate::handles::handles;

/// The parameters of `decode`.
pub(super) type DecodeHandles<T, C> = handles! {
    q: TensorMap<T>,
    k v: TensorMap<C>,
    out: Ptr<T>,
    lse sums lse_of_splits: Ptr<f32>,
    counter lengths table: Ptr<i32>,
    sinks data key_scales value_scales: Ptr<f32>,
    batch kv_heads query_heads queries splits is_paged page_tokens table_row room pages has_sinks left right: Scalar<i32>,
    log2_scale score_scale: Scalar<f32>,
    out_strides keys_strides values_strides: [Scalar<i64>; 3],
};

/// The parameters of `merge_splits`.
pub(super) type MergeHandles<T> = handles! {
    sums lse_of_splits: Ptr<f32>,
    out: Ptr<T>,
    lse: Ptr<f32>,
    lengths: Ptr<i32>,
    room heads queries splits tokens left: Scalar<i32>,
    out_strides: [Scalar<i64>; 3],
};

/// An instance of `decode`, and the tokens of one of its TMA loads.
pub(super) struct CacheInstance<T, C> {
    pub(super) piece: usize,
    /// Whether the factors of elements are those of heads.
    pub(super) is_by_head: bool,
    pub(super) instance: Instance<DecodeHandles<T, C>>,
}

/// An instance with blocks of so many keys and so many rows for a token.
pub(in crate::attention) fn instance<H>(
    depths: [usize; 2],
    [keys, pack]: [usize; 2],
    compile: fn(&Compiler) -> tilekit::Result<CompiledKernel<H>>,
) -> Instance<H> {
    Instance {
        depths,
        tile: Tile {
            rows: crate::attention::mainloop::problem::ROWS,
            keys,
            pack,
        },
        is_causal: false,
        compile,
    }
}

macro_rules! caches {
    ($($d:literal, $dv:literal, $keys:literal: [$($piece:literal),*] x $packs:tt;)*) => {{
        let mut all = Vec::new();
        $($(caches!(@packs all, $d, $dv, $keys, $piece, $packs);)*)*
        all
    }};
    (@packs $all:ident, $d:literal, $dv:literal, $keys:literal, $piece:literal, [$($pack:literal),*]) => {$(
        caches!(@one $all, $d, $dv, $keys, $piece, $pack, T, false);
        if is_scaled::<T, C>() {
            caches!(@one $all, $d, $dv, $keys, $piece, $pack, f16, true);
        }
    )*};
    (@one $all:ident, $d:literal, $dv:literal, $keys:literal, $piece:literal, $pack:literal, $u:ident, $by_head:literal) => {
        $all.push(CacheInstance {
            piece: $piece,
            is_by_head: $by_head,
            instance: instance([$d, $dv], [$keys, $pack], |compiler| {
                decode::<T, $u, C, $d, $dv, $keys, $piece, $pack, $by_head, M>.compile(compiler)
            }),
        });
    };
}

/// An element type of a cache whose queries have type `T`: `T` itself, or a float of 8 bits, whose elements have factors.
pub trait CacheElement<T>: Element + DeviceElement {
    /// The largest finite number.
    #[doc(hidden)]
    const LARGEST: f32;
}

macro_rules! cache_elements {
    ($($c:ty: $largest:expr, for $($t:ty),*;)*) => {$($(
        impl CacheElement<$t> for $c {
            const LARGEST: f32 = $largest;
        }
    )*)*};
}

cache_elements! {
    bf16: f32::MAX, for bf16;
    f16: 65504.0, for f16;
    E4m3: 448.0, for bf16, f16;
    E5m2: 57344.0, for bf16, f16;
}

/// Whether a cache of `C` has factors, since its elements are not those of the queries.
pub(in crate::attention) fn is_scaled<T: Element, C: Element>() -> bool {
    C::DTYPE != T::DTYPE
}

/// The instances of `decode`: those with the most tokens a load first, then those that pack the fewest heads.
pub(super) fn caches<T: Operand, C: CacheElement<T>, M: Modifier>() -> Vec<CacheInstance<T, C>> {
    caches! {
        64, 64, 128: [128, 64, 32, 16] x [1, 8, 64];
        128, 128, 128: [128, 64, 32, 16] x [1, 8, 64];
        256, 256, 64: [64, 32, 16] x [1, 8, 64];
    }
}

macro_rules! merges {
    ($($dv:literal, $keys:literal;)*) => {
        vec![$(instance([$dv, $dv], [$keys, 1], |compiler| merge_splits::<T, $dv, $keys>.compile(compiler))),*]
    };
}

/// The instances of `merge_splits`.
pub(super) fn merges<T: Operand>() -> Vec<Instance<MergeHandles<T>>> {
    merges! {
        64, 128;
        128, 128;
        256, 64;
    }
}
