//! Element types of operands and results, and what the kernels do with each.

use tilekit::prelude::*;
use tilekit::{Buffer, L2Promotion, TensorSource, TensorView};

/// Multiprocessors of an H200, for which the model is fitted.
pub const MULTIPROCESSORS: usize = 132;

/// Rows of one `wgmma`.
pub(crate) const INSTRUCTION_ROWS: usize = 64;

/// Bytes of K in a stage: the widest row that is swizzled.
pub(crate) const STAGE_BYTES: usize = 128;

/// Threads of a warpgroup.
pub(crate) const WARPGROUP_THREADS: usize = 128;

/// Elements that share a scale: along a row of A or of a result, of columns of B and along K.
pub(crate) const BLOCK: usize = 128;

/// Bytes that the mbarriers of a kernel take at most.
pub(crate) const MBARRIER_BYTES: usize = 1024;

/// Rows of 128 bytes after which a swizzle of 128 bytes repeats: boxes have multiples of it.
pub(crate) const SWIZZLED_ROWS: usize = 8;

/// Bytes of which tensor maps want addresses and pitches to be multiples.
pub(crate) const UNIT_BYTES: usize = 16;

/// How much L2 fetches at a time of what tensor maps of operands load: lines, whose other parts the next steps read. Two lines at a time cross the fabric between the halves of L2 for nothing (`bench/results/products/memory.md`).
pub(super) const FETCHED: L2Promotion = L2Promotion::Bytes128;

/// Elements of K in a stage.
pub(crate) const fn depth<T>() -> usize {
    STAGE_BYTES / size_of::<T>()
}

/// Elements of which addresses and pitches are multiples.
pub(crate) const fn unit<T>() -> usize {
    UNIT_BYTES / size_of::<T>()
}

/// An element type of matrices, which are copied by their bits.
pub trait Stored: DeviceElement {
    /// An integer of as many bits.
    #[doc(hidden)]
    type Bits: Int;

    /// The type of what is added to results of this type, a bias and a source: their own, of 8-bit floats bf16.
    type Addend: Numeric + Stored<Addend = Self::Addend>;

    /// Results as what is added to others, if that is of their own type.
    #[doc(hidden)]
    fn addends(results: &Buffer<Self>) -> Option<&Buffer<Self::Addend>>;
}

macro_rules! stored {
    ($($element:ty: $bits:ty;)*) => {$(
        impl Stored for $element {
            type Bits = $bits;
            type Addend = Self;

            fn addends(results: &Buffer<Self>) -> Option<&Buffer<Self>> {
                Some(results)
            }
        }
    )*};
}

stored! {
    bf16: u16;
    f16: u16;
    f32: u32;
    i32: u32;
    i8: u8;
}

macro_rules! stored_by_byte {
    ($($element:ty)*) => {$(
        impl Stored for $element {
            type Bits = u8;
            type Addend = bf16;

            fn addends(_: &Buffer<Self>) -> Option<&Buffer<bf16>> {
                None
            }
        }
    )*};
}

stored_by_byte! { E4m3 E5m2 }

/// An element type of operands: bf16, f16, f32 (multiplied as tf32, or by three products of it: [`Precision`](super::Precision)), [`E4m3`], [`E5m2`], i8.
pub trait Operand: WgmmaOperand<Self, Self::Sum> + Stored {
    /// What products are added in: f32, or i32 for integers.
    type Sum: Numeric + DeviceElement;

    /// An accumulator of zeros whose layout is that of instructions of `columns`.
    #[doc(hidden)]
    #[track_caller]
    fn zeros(shape: [usize; 2], columns: usize) -> Accumulator<Self::Sum> {
        let sums = Wgmma::new([4, 1], [64, columns, 32 / size_of::<Self>()]);
        Accumulator::zeros(shape, sums)
    }

    /// The view whose TMA loads give the tensor cores what they multiply.
    #[doc(hidden)]
    fn loaded<S: TensorSource<Self>>(view: TensorView<'_, Self, S>) -> TensorView<'_, Self, S> {
        view
    }

    /// A tile of f32, which kernels for f32 alone multiply.
    #[doc(hidden)]
    #[track_caller]
    fn as_f32(tile: Smem<Self>) -> Smem<f32> {
        static_assert!(Self::DTYPE == f32::DTYPE, "only f32 is split into parts");
        tile.reinterpret::<f32>([1, 1], Swizzled::plain([1, 0]))
    }
}

impl Operand for bf16 {
    type Sum = f32;
}

impl Operand for f16 {
    type Sum = f32;
}

impl Operand for E4m3 {
    type Sum = f32;
}

impl Operand for E5m2 {
    type Sum = f32;
}

impl Operand for i8 {
    type Sum = i32;
}

/// The tensor cores read 19 bits of an f32, to which TMA rounds.
impl Operand for f32 {
    type Sum = f32;

    #[track_caller]
    fn zeros(shape: [usize; 2], columns: usize) -> Accumulator<f32> {
        let sums = Wgmma::new([4, 1], [64, columns, 32 / size_of::<f32>()]);
        Accumulator::zeros(shape, sums).tf32()
    }

    fn loaded<S: TensorSource<f32>>(view: TensorView<'_, f32, S>) -> TensorView<'_, f32, S> {
        view.rounded_to_tf32()
    }

    fn as_f32(tile: Smem<f32>) -> Smem<f32> {
        tile
    }
}

/// An element type of results of operands of type `T`: bf16 and f16 of their own type and f32, 8-bit floats of bf16, f16 and f32, i8 of i32 and, scaled, of
/// bf16, f16 and f32, f32 of f32; and of all floats of 16 and 8 bits [`E4m3`] and [`E5m2`], whose largest numbers stand for what is beyond them.
pub trait ResultOf<T>: Stored {}

macro_rules! results {
    ($($operand:ty => $($result:ty)*;)*) => {$($(impl ResultOf<$operand> for $result {})*)*};
}

results! {
    bf16 => bf16 f32 E4m3 E5m2;
    f16 => f16 f32 E4m3 E5m2;
    E4m3 => bf16 f16 f32 E4m3 E5m2;
    E5m2 => bf16 f16 f32 E4m3 E5m2;
    i8 => i32 bf16 f16 f32;
    f32 => f32;
}
