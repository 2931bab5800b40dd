//! What the macros expand to. Nothing here is meant to be written by hand, except by code that extends the language:
//! [`KernelEntry`] is what tools iterate over, [`KernelFn`] what they trace, [`Carry`] what a derive implements.

use std::marker::PhantomData;

pub use inventory;

use crate::lang::here;
pub use crate::lang::{
    Again, Branch, Carrier, Carry, Decided, Ended, EndlessLoop, ExitTarget, Frame, FunctionScope,
    GenericArg, HostCarrier, HostEnd, HostState, InAggregates, Inside, IntoLoop, KernelEntry,
    KernelEq, KernelFn, KernelHead, KernelInstance, KernelOrd, KernelParam, LeftLiteral, Logic,
    NextParam, Param, ParamHandle, ParamHead, ParamStruct, Parts, Printed, Promises, Question,
    Signature, Traced, Walker, Watcher, WhileLoop, WideLiteral,
};
use crate::lang::{
    BlockLayout, Element, HostInt, HostNumber, IntoDims, Pointers, Ptr, Scalar, Smem, Tensor,
    TensorMap,
};
pub use ir::Contracts;
use ir::TensorMapMode;

/// The kernel function says who it is, before anything else.
#[track_caller]
pub fn begin_kernel(head: &KernelHead, generics: &[GenericArg]) {
    crate::lang::begin_kernel(head, generics, here());
}

/// The kernel function says how its launches follow from their tensors.
#[track_caller]
pub fn set_signature(signature: Signature) {
    crate::lang::set_signature(signature, here());
}

/// A number of the instance in a rule of the signature. What has more than 64 bits becomes the largest, which no launch keeps.
pub fn constant(number: impl HostInt) -> i64 {
    i64::try_from(number.to_i128()).unwrap_or(i64::MAX)
}

/// What a parameter can be that is `#[readonly]`.
#[diagnostic::on_unimplemented(
    message = "only a `Ptr` can be `#[readonly]`, or an array of them, not `{Self}`",
    label = "passed by value, so the kernel reads its own copy anyway"
)]
pub trait Readable {}

impl<T> Readable for Ptr<T> {}
impl<T, const N: usize> Readable for [Ptr<T>; N] {}

/// What a parameter can be of which launches promise a divisor.
#[diagnostic::on_unimplemented(
    message = "only a number or a `Ptr` can be promised to be a multiple, or an array of them, not `{Self}`",
    note = "of a struct of parameters, `#[multiple_of(..)]` and `#[align(..)]` stand at its fields"
)]
pub trait Divisible {}

impl<T: Element> Divisible for T {}
impl<T> Divisible for Scalar<T> {}
impl<T> Divisible for Ptr<T> {}
impl<T: Divisible, const N: usize> Divisible for [T; N] {}

/// What `#[multiple_of(..)]` and `#[align(..)]` say of a parameter.
pub fn only_numbers_are_multiples<P: Divisible>() {}

/// What `#[readonly]` says of a parameter.
pub fn only_pointers_are_readonly<P: Readable>() {}

/// What `#[block(..)]` says of a parameter.
#[track_caller]
pub fn set_block<T: Element>(map: TensorMap<T>, block: impl IntoDims, layout: impl BlockLayout) {
    crate::lang::set_block(map, TensorMapMode::Tiled, block, layout);
}

/// What `#[im2col(..)]` says of a parameter.
#[track_caller]
pub fn set_im2col<T: Element>(
    map: TensorMap<T>,
    rank: u32,
    block: impl IntoDims,
    layout: impl BlockLayout,
) {
    crate::lang::set_block(map, TensorMapMode::Im2col { rank }, block, layout);
}

/// What an attribute of a kernel can say for a count: `warps`, `max_registers` and `min_ctas_per_sm`.
#[diagnostic::on_unimplemented(
    message = "an attribute of a kernel is a host integer, not `{Self}`",
    label = "not known while the kernel is traced",
    note = "an expression of constants, const generics and the `#[fixed]` parameter is: `warps = tile.warps()`"
)]
pub trait HeadCount {
    /// The value.
    fn said(self) -> i128;
}

/// What `cluster = ..` can say: CTAs along x, or along the first dimensions of a grid.
#[diagnostic::on_unimplemented(
    message = "a cluster is a host integer or up to three of them, not `{Self}`",
    label = "no size of a cluster that is known while the kernel is traced",
    note = "an expression of constants, const generics and the `#[fixed]` parameter is: `cluster = tile.ctas`, `cluster = [2, 1, 1]`"
)]
pub trait HeadCluster {
    /// CTAs in x, y and z; what is not said is 1.
    fn said(self) -> [i128; 3];
}

macro_rules! said_by_integers {
    ($($ty:ty)*) => {$(
        impl HeadCount for $ty {
            fn said(self) -> i128 {
                self.to_i128()
            }
        }

        impl HeadCluster for $ty {
            fn said(self) -> [i128; 3] {
                [self.to_i128(), 1, 1]
            }
        }
    )*};
}

said_by_integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! said_by_arrays {
    ($($rank:literal)*) => {$(
        impl<H: HostInt> HeadCluster for [H; $rank] {
            fn said(self) -> [i128; 3] {
                std::array::from_fn(|axis| self.get(axis).map_or(1, |extent| extent.to_i128()))
            }
        }
    )*};
}

said_by_arrays!(1 2 3);

/// A number that the attribute of a kernel says.
pub fn count(number: impl HeadCount) -> i128 {
    number.said()
}

/// The shape of a cluster.
pub fn cluster(shape: impl HeadCluster) -> [i128; 3] {
    shape.said()
}

/// A const generic argument.
pub fn const_arg(value: impl std::fmt::Display) -> GenericArg {
    crate::lang::const_arg(value)
}

/// A type argument.
pub fn type_arg<T: ?Sized>() -> GenericArg {
    crate::lang::type_arg::<T>()
}

/// Enters a device function; the call's place is that of this call's caller.
#[track_caller]
pub fn enter(function: &str) -> Frame {
    crate::lang::enter(function, here())
}

/// How many regions of the kernel are open.
#[track_caller]
pub fn depth() -> usize {
    crate::lang::depth(here())
}

/// A `break`, `continue` or `return` of the author's, to where `depth` regions were open.
#[track_caller]
pub fn leaving(what: &str, depth: usize) {
    crate::lang::leaving(what, depth, here());
}

/// A `?` of the author's, in a function that was entered with `depth` regions open.
#[track_caller]
pub fn question<T: Question>(value: T, depth: usize) -> T {
    if value.leaves() {
        crate::lang::leaving("?", depth, here());
    }
    value
}

/// After an `if` of which no arm goes on, if there can be a `K`.
#[inline]
pub fn left<K>(left: K) -> K {
    left
}

/// A variable that a function was lent, or captures.
pub struct Lent<'a, T: ?Sized>(pub &'a mut T);

/// Handing on what a kernel can carry.
pub trait AddCarried {
    /// Shows it to the carrier.
    fn add_lent(&mut self, carrier: &mut Carrier<'_>, name: &'static str);
}

/// Anything else: a function that is left under a runtime condition cannot change it.
pub trait AddOther {
    /// Nothing.
    fn add_lent(&mut self, _: &mut Carrier<'_>, _: &'static str) {}
}

impl<T: Carry + ?Sized> AddCarried for &mut Lent<'_, T> {
    fn add_lent(&mut self, carrier: &mut Carrier<'_>, name: &'static str) {
        carrier.add(name, &mut *self.0);
    }
}

impl<T: ?Sized> AddOther for Lent<'_, T> {}

/// What `as` converts.
#[diagnostic::on_unimplemented(
    message = "`as` converts host numbers, not `{Self}`",
    label = "a value of the kernel",
    note = "`x.cast::<f32>()` converts it, and `x.bitcast::<u32>()` keeps its bits"
)]
pub trait HostCast {}

/// A value that the author converts with `as`.
pub struct Casted<'a, T>(pub &'a T);

/// Checks a value of the kernel: it is none of the host's.
pub trait CheckKernelCast {
    /// What is checked.
    type Checked;
    /// Fails to compile.
    fn check(&self)
    where
        Self::Checked: HostCast;
}

/// Anything else is left to rustc.
pub trait CheckHostCast {
    /// Nothing.
    fn check(&self) {}
}

impl<T> CheckKernelCast for Casted<'_, Scalar<T>> {
    type Checked = Scalar<T>;
    fn check(&self)
    where
        Scalar<T>: HostCast,
    {
    }
}

impl<T> CheckKernelCast for Casted<'_, Tensor<T>> {
    type Checked = Tensor<T>;
    fn check(&self)
    where
        Tensor<T>: HostCast,
    {
    }
}

impl<T> CheckHostCast for &Casted<'_, T> {}

/// What a `match` can compare with numbers.
#[diagnostic::on_unimplemented(
    message = "a `match` compares one number with its patterns, not a `{Self}`",
    label = "this is not one number",
    note = "where a tensor decides for each element, use `select(condition, yes, no)` or a mask; a rank-0 tensor becomes a scalar by `.scalar()`"
)]
pub trait Matched<M> {
    /// What patterns are compared with.
    type Number: Copy;
    /// The type of the patterns.
    type Host;
    /// The number.
    fn number(&self) -> Self::Number;
}

/// The `M` of a host number.
pub struct OfHost;

/// The `M` of a reference to one.
pub struct OfReference;

/// The `M` of a number of the kernel.
pub struct OfKernel;

impl<T: HostNumber> Matched<OfHost> for T {
    type Number = T;
    type Host = T;
    #[inline]
    fn number(&self) -> T {
        *self
    }
}

impl<T: HostNumber> Matched<OfReference> for &T {
    type Number = T;
    type Host = T;
    #[inline]
    fn number(&self) -> T {
        **self
    }
}

impl<T: Element> Matched<OfKernel> for Scalar<T> {
    type Number = Scalar<T>;
    type Host = T;
    #[inline]
    fn number(&self) -> Scalar<T> {
        *self
    }
}

/// The number of a `match`.
#[inline]
pub fn matched<M, T: Matched<M>>(value: &T) -> T::Number {
    value.number()
}

/// A number of the type of the patterns. Never called: rustc checks by it that a `match` is exhaustive.
pub fn number_of<M, T: Matched<M>>(_: &T) -> T::Host {
    unreachable!("patterns are only checked")
}

/// A guard of which rustc knows nothing.
pub fn guard() -> bool {
    true
}

/// What the host can assert.
#[diagnostic::on_unimplemented(
    message = "a host assertion runs while the kernel is traced, when a `{Self}` has no value yet",
    label = "this is known at run time",
    note = "`device_assert(condition, \"message\")` asserts when the kernel runs"
)]
pub trait HostCondition {
    /// Does it hold?
    fn holds(self) -> bool;
}

impl HostCondition for bool {
    #[inline]
    fn holds(self) -> bool {
        self
    }
}

impl HostCondition for &bool {
    #[inline]
    fn holds(self) -> bool {
        *self
    }
}

/// The condition of an `assert!` of the host.
#[inline]
pub fn holds(condition: impl HostCondition) -> bool {
    condition.holds()
}

/// Runs the body of a device function, which may give away what the function was lent.
#[inline]
pub fn body<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// The value of the second arm of an `if`, which has the type of the first.
#[inline]
pub fn as_other_arm<T>(_: &Option<T>, value: T) -> T {
    value
}

/// What an arm of an `if` gives where both arms assign variables that had no value before: its own value, and theirs.
pub struct WithLets<V, L> {
    /// The value of the arm.
    pub value: V,
    /// The variables: [`Lets`], or `()`.
    pub lets: L,
}

/// A variable that gets its value in the arms of an `if`, and those after it.
pub struct Lets<T, R> {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub value: T,
    /// The other variables.
    pub rest: R,
}

impl<V: Carry, L: Carry> Carry for WithLets<V, L> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        self.value.walk(walker);
        self.lets.walk(walker);
    }
    fn fork(&self) -> Option<Self> {
        let (value, lets) = (self.value.fork()?, self.lets.fork()?);
        Some(WithLets { value, lets })
    }
}

impl<T: Carry, R: Carry> Carry for Lets<T, R> {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.field(self.name, &mut self.value);
        self.rest.walk(walker);
    }
    fn fork(&self) -> Option<Self> {
        let (value, rest) = (self.value.fork()?, self.rest.fork()?);
        let name = self.name;
        Some(Lets { name, value, rest })
    }
}

/// The value of the second arm, which has the type of the first.
#[inline]
pub fn as_other_value<V, L>(_: &Option<WithLets<V, L>>, value: V) -> V {
    value
}

/// The types of the variables that the first arm gives.
#[inline]
pub fn lets_of<V, L>(_: &Option<WithLets<V, L>>) -> PhantomData<L> {
    PhantomData
}

/// The types of the variables after the first.
#[inline]
pub fn rest_of<T, R>(_: PhantomData<Lets<T, R>>) -> PhantomData<R> {
    PhantomData
}

/// A variable as the second arm assigns it, which has the type that the first arm gives it.
#[inline]
pub fn as_other_let<T, R>(_: PhantomData<Lets<T, R>>, value: T) -> T {
    value
}

/// The type of a variable that a closure changes.
#[inline]
pub fn type_of<T>(_: &T) -> PhantomData<T> {
    PhantomData
}

/// A variable that a closure borrows, of the type that it has where the closure stands.
#[inline]
pub fn lent<T>(_: PhantomData<T>, variable: &mut T) -> &mut T {
    variable
}

/// Starts a `while` whose condition has the type of this closure's result. The closure is never called.
#[track_caller]
pub fn while_loop<C: WhileLoop>(_: impl FnOnce() -> C) -> C::State {
    C::start()
}

/// Says by the type of a closure's result whose a `loop` is. The closure is never called.
pub fn tell<C>(_: &mut Option<PhantomData<C>>, _: impl FnOnce() -> C) {}

/// Starts a `loop`.
#[track_caller]
pub fn endless_loop<C: EndlessLoop>(_: &Option<PhantomData<C>>) -> C::State {
    C::start()
}

/// A `static_assert!` that does not hold.
#[track_caller]
pub fn static_assert_failed(message: &str) {
    crate::lang::static_assert_failed(message, here());
}

/// A `static_print!`.
#[track_caller]
pub fn static_print(text: String) {
    crate::lang::static_print(text, here());
}

/// A variable that a loop or branch mentions and that is not `mut` itself. It may be a `&mut`, through which the region
/// would change what no carrier sees.
pub struct Watched<'a, T: ?Sized>(pub &'a T);

/// Watching a `&mut` to something that a kernel can carry.
pub trait WatchReference {
    /// Shows it to the carrier, which refuses a change.
    fn watch<C: Watcher>(&self, carrier: &mut C, name: &'static str);
}

/// Watching what a kernel can carry, in which there may be cells.
pub trait WatchCells {
    /// Shows what the cells hold to the carrier, which refuses a change.
    fn watch<C: Watcher>(&self, carrier: &mut C, name: &'static str);
}

/// Anything else cannot change, or is not a kernel's.
pub trait WatchOther {
    /// Nothing.
    fn watch<C>(&self, _: &mut C, _: &'static str) {}
}

impl<T: Carry> WatchReference for &Watched<'_, &mut T> {
    fn watch<C: Watcher>(&self, carrier: &mut C, name: &'static str) {
        if let Some(mut copy) = T::fork(self.0) {
            carrier.watch(name, &mut copy);
        }
    }
}

impl<T: Carry> WatchCells for &&Watched<'_, T> {
    fn watch<C: Watcher>(&self, carrier: &mut C, name: &'static str) {
        carrier.look(name, self.0);
    }
}

impl<T: ?Sized> WatchOther for Watched<'_, T> {}

/// A variable of a `let`, which gives its name to the value it holds, if it holds one.
pub struct Named<'a, T>(pub &'a T);

/// Naming a value of the kernel.
pub trait NameHandle {
    /// Gives the value the name.
    fn name(&self, name: &str);
}

/// Naming anything else does nothing.
pub trait NameOther {
    /// Nothing.
    fn name(&self, _: &str) {}
}

impl<T> NameOther for &Named<'_, T> {}

macro_rules! named_handles {
    ($($handle:ident)*) => {$(
        impl<T: Element> NameHandle for Named<'_, $handle<T>> {
            fn name(&self, name: &str) {
                crate::lang::name_value(self.0.value(), name);
            }
        }
    )*};
}

named_handles!(Scalar Tensor Ptr Pointers Smem TensorMap);
