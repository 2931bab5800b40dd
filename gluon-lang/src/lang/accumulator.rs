//! Accumulators of `wgmma`.

use std::fmt;
use std::marker::PhantomData;

use super::trace::{self, here};
use super::{Carry, Element, HostInt, IntoDims, Scalar, Smem, Tensor, Walker};
use ir::entity::Value;
use ir::ops::wgmma::InputPrecision;
use layout::Wgmma;

/// The accumulator of asynchronous products on the tensor cores (PTX ISA 9.7.15, `wgmma`). Before a wait it offers no arithmetic and no
/// store.
///
/// It belongs to whole warpgroups, four warps each: of a kernel, or of a partition of
/// [`warp_specialize`](super::warp_specialize). A thread holds M · N / threads sums in 32-bit registers, two f16 to a register.
///
/// ```text
/// let mut acc = Accumulator::<f32>::zeros([128, 256], Wgmma::new([8, 1], [64, 256, 16]));
/// for i in range(0, steps) {
///     acc = acc.mma(a.index(i), b.index(i).transpose());
/// }
/// let sums = acc.wait_all();
/// ```
///
/// It is updated in place: an operation consumes it and returns the new one.
#[must_use = "an operation gives the accumulator back, and the old one is gone"]
pub struct Accumulator<T> {
    value: Value,
    precision: InputPrecision,
    promote_every: u32,
    of: PhantomData<*const T>,
}

impl<T> fmt::Debug for Accumulator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accumulator({})", self.value)
    }
}

/// Element types whose products the tensor cores add into `Sum`: f16 into f16 or f32, bf16 into f32, f32 (as tf32) into
/// f32, 8-bit floats into f16 or f32, 8-bit integers into i32.
#[diagnostic::on_unimplemented(
    message = "the tensor cores do not multiply `{Self}` by `{Rhs}` into `{Sum}`",
    note = "they multiply f16 into f16 or f32, bf16 into f32, f32 (as tf32) into f32, 8-bit floats into f16 or f32, and 8-bit integers into i32"
)]
pub trait WgmmaOperand<Rhs, Sum>: Element {}

/// Types of operand A: a view of shared memory, or a tensor in the layout
/// [`DotOperand`](layout::DotOperand) of the accumulator's.
pub trait OperandA {
    /// Its element type.
    type Elem: Element;
    /// The value in the kernel being traced.
    fn operand(self) -> Value;
}

impl<T: Element> OperandA for Smem<T> {
    type Elem = T;
    fn operand(self) -> Value {
        self.value()
    }
}

impl<T: Element> OperandA for Tensor<T> {
    type Elem = T;
    fn operand(self) -> Value {
        self.value()
    }
}

impl<T> Accumulator<T> {
    /// A second handle of it, for a value that both arms of a branch carry.
    fn same(&self) -> Self {
        Self {
            of: PhantomData,
            ..*self
        }
    }
}

impl<T: Element> Accumulator<T> {
    fn wrap(value: Value) -> Self {
        Self {
            value,
            precision: InputPrecision::Own,
            promote_every: 0,
            of: PhantomData,
        }
    }

    fn with_value(mut self, value: Value) -> Self {
        self.value = value;
        self
    }

    /// An accumulator `[M, N]` of zeros. M is a multiple of the instruction's rows times the warpgroups of `layout` along M, N of its
    /// columns times those along N; the k of the layout is that of the instruction for the operands' type (TK0005).
    #[inline]
    #[track_caller]
    pub fn zeros(shape: impl IntoDims, layout: Wgmma) -> Self {
        let shape = shape.into_dims();
        Self::wrap(trace::accumulator_zeros(
            shape,
            T::DTYPE.into(),
            layout,
            here(),
        ))
    }

    /// An accumulator with the elements of a tensor, whose layout is a `Wgmma`.
    ///
    /// A product that counts them as zero, by [`mma_if`](Accumulator::mma_if) with `scalar(false)`, begins in the tensor's registers where that is read no more. So ptxas cannot start it ahead of
    /// what reads the tensor, for which there may be no registers.
    #[inline]
    #[track_caller]
    pub fn from_tensor(init: Tensor<T>) -> Self {
        Self::wrap(trace::accumulator_of(init.value(), here()))
    }

    /// Starts `self + a · b`: a group of its own (PTX `wgmma.mma_async` and `wgmma.commit_group`). `a` is `[M, K]` and `b` is `[K, N]`, K
    /// a multiple of the instruction's.
    ///
    /// Tiles of shared memory have a layout that the tensor cores read, as [`Nvmma`](layout::Nvmma) is; a transposed view is read in
    /// place. Operands of 16 bits may be K-major or MN-major, all others are K-major. Operand A in registers has the layout
    /// [`DotOperand`](layout::DotOperand) 0 of the accumulator's, its k width the elements that fill 32 bits.
    ///
    /// Both tiles must not change until the group is complete: see [`wait`](Accumulator::wait). The compiler inserts the proxy fence for
    /// stores of the same partition.
    #[inline]
    #[track_caller]
    pub fn mma<A, B>(self, a: A, b: Smem<B>) -> Self
    where
        A: OperandA,
        A::Elem: WgmmaOperand<B, T>,
    {
        self.start(None, [a.operand(), b.value()], None)
    }

    /// [`mma`](Accumulator::mma) where `keep` holds; where it does not, the accumulator counts as zero.
    #[inline]
    #[track_caller]
    pub fn mma_if<A, B>(self, keep: Scalar<bool>, a: A, b: Smem<B>) -> Self
    where
        A: OperandA,
        A::Elem: WgmmaOperand<B, T>,
    {
        self.start(Some(keep.value()), [a.operand(), b.value()], None)
    }

    /// Starts `self + a · b` with a 2:4 sparse operand A, at twice the rate (PTX `wgmma.mma_async.sp`, ISA 9.7.15.6). Of
    /// `[M, K]`, `a` has the kept half of each row, `[M, K / 2]`: two of four elements side by side, or one of two that have
    /// 4 bytes. `b` is `[K, N]` as in [`mma`](Accumulator::mma), K a multiple of 64 bytes; the k of the accumulator's layout
    /// counts kept elements, so that it is the same as of a dense product.
    ///
    /// `metadata` says which elements were kept: 4 bits for each group, and so `[M, K / 16]`, or `[M, K / 8]` for elements
    /// of 4 bytes, in the layout [`sparse_metadata`](super::sparse_metadata). On the host, `tilekit::sparse::Compressed`
    /// makes both of a matrix.
    #[inline]
    #[track_caller]
    pub fn mma_sparse<A, B>(self, a: A, metadata: Tensor<u16>, b: Smem<B>) -> Self
    where
        A: OperandA,
        A::Elem: WgmmaOperand<B, T>,
    {
        self.start(None, [a.operand(), b.value()], Some(metadata.value()))
    }

    /// [`mma_sparse`](Accumulator::mma_sparse) where `keep` holds; where it does not, the accumulator counts as zero.
    #[inline]
    #[track_caller]
    pub fn mma_sparse_if<A, B>(
        self,
        keep: Scalar<bool>,
        a: A,
        metadata: Tensor<u16>,
        b: Smem<B>,
    ) -> Self
    where
        A: OperandA,
        A::Elem: WgmmaOperand<B, T>,
    {
        let metadata = Some(metadata.value());
        self.start(Some(keep.value()), [a.operand(), b.value()], metadata)
    }

    #[track_caller]
    fn start(self, keep: Option<Value>, operands: [Value; 2], metadata: Option<Value>) -> Self {
        let settings = (self.precision, self.promote_every);
        let value = trace::wgmma(self.value, operands, metadata, keep, settings, here());
        self.with_value(value)
    }

    /// Waits until at most `pending` groups of this warpgroup are in flight, 0 to 7 (PTX `wgmma.wait_group`). This warpgroup may then
    /// overwrite the tiles that completed groups read; other warpgroups must be signalled.
    #[inline]
    #[track_caller]
    pub fn wait(self, pending: impl HostInt) -> Self {
        let value = self.waited(pending, false);
        self.with_value(value)
    }

    /// Waits until no group is in flight, and returns the accumulator as a tensor of its layout.
    #[inline]
    #[track_caller]
    pub fn wait_all(self) -> Tensor<T> {
        Tensor::wrap(self.waited(0, true))
    }

    /// Returns the accumulator as a tensor while `later` groups, committed after its own, may still be in flight.
    #[inline]
    #[track_caller]
    pub fn wait_older_than(self, later: impl HostInt) -> Tensor<T> {
        Tensor::wrap(self.waited(later, true))
    }

    /// Replaces it in place, behind a `&mut` or in an array: `sums[i].update(|acc| acc.mma(a, b))`.
    #[inline]
    pub fn update(&mut self, next: impl FnOnce(Self) -> Self) {
        *self = next(self.same());
    }

    #[track_caller]
    fn waited(&self, pending: impl HostInt, is_done: bool) -> Value {
        let at = here();
        let pending = trace::count_of(pending.to_i128(), "the groups that stay in flight", at);
        trace::wgmma_wait(self.value, pending, is_done, at)
    }

    /// The value in the kernel being traced.
    pub fn value(&self) -> Value {
        self.value
    }
}

impl Accumulator<f32> {
    /// Multiplies f32 operands as tf32, truncated to their upper 19 bits.
    pub fn tf32(mut self) -> Self {
        self.precision = InputPrecision::Tf32;
        self
    }

    /// Promotes products of 8-bit floats: partial sums of `elements` of K, a multiple of the instruction's K, are added in full f32
    /// precision, since the tensor cores keep some 14 bits of a sum. Each product is then waited for where it is started.
    #[track_caller]
    pub fn promote_every(mut self, elements: impl HostInt) -> Self {
        let what = "the elements between two promotions";
        self.promote_every = trace::count_of(elements.to_i128(), what, here());
        self
    }
}

impl<T> Carry for Accumulator<T> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.value(&mut self.value);
    }
    fn fork(&self) -> Option<Self> {
        Some(self.same())
    }
}
