//! Element types as Rust types, and the host numbers that mix with them.

use std::fmt;

use half::{bf16, f16};

use super::kernel_param::KernelParam;
use super::narrow::{E2m1, E4m3, E4m3b15, E5m2, E8m0};
use super::{PeerMap, Ptr, Scalar};
use ir::elem::DType;
use ir::ops::create::Const;

/// A Rust type that can be one element of a kernel's scalars and tensors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of kernels",
    note = "element types are bool, i8 to i64, u8 to u64, f16, bf16, f32, f64, E4m3, E5m2, E4m3b15, E2m1 and E8m0"
)]
pub trait Element:
    Copy
    + PartialEq
    + fmt::Debug
    + fmt::Display
    + 'static
    + KernelParam<Handle = Scalar<Self>>
    + HostNumber
    + HostValue<Self>
{
    /// The element type in the tile IR.
    const DTYPE: DType;

    /// This value as a constant of the tile IR.
    fn constant(self) -> Const;
}

/// Elements that can be added and multiplied: integers, and floats of 16 bits or more.
#[diagnostic::on_unimplemented(
    message = "there is no arithmetic on `{Self}` in a kernel",
    note = "floats of a byte or less are converted first: `x.cast::<f32>()`; booleans have `&`, `|`, `^`, `!`, `reduce_or` and `reduce_and`, and are counted after `x.cast::<i32>()`"
)]
pub trait Numeric: Element {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The largest value; for floats, the largest finite one.
    const MAX: Self;
    /// The smallest value; for floats, the smallest finite one.
    const MIN: Self;
}

/// Elements with bitwise operations: integers and booleans.
#[diagnostic::on_unimplemented(message = "there are no bitwise operations on `{Self}` in a kernel")]
pub trait Bits: Element {}

/// Integers of 8 to 64 bits.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an integer type of kernels")]
pub trait Int: Numeric + Bits {}

/// Integers that can move a pointer or count a loop: `i32`, `i64`, `u32` and `u64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an index",
    note = "an index is an i32, i64, u32 or u64: cast first"
)]
pub trait Index: Int {}

/// Floats with arithmetic: `f16`, `bf16`, `f32` and `f64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a float type with arithmetic",
    note = "these are f16, bf16, f32 and f64; floats of a byte or less are converted first: `x.cast::<f32>()`"
)]
pub trait Float: Numeric {
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity: what a masked load gives for a maximum.
    const NEG_INFINITY: Self;
    /// Not a number.
    const NAN: Self;
    /// The difference between 1 and the next larger number.
    const EPSILON: Self;
}

/// A host value that can stand where an element of type `T` is wanted. Integers must fit, or the kernel is refused.
#[diagnostic::on_unimplemented(
    message = "a host `{Self}` cannot become an element of type `{T}`",
    note = "integers mix with integers and floats, floats with floats, and a `bool` with booleans"
)]
pub trait HostValue<T: Element>: Copy {
    /// The value before it is fitted to `T`.
    fn constant(self) -> Const;
}

/// A host type with numbers that mix with values of a kernel. It has no parameter, so that rustc can tell these types from
/// handles in every crate.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a host number")]
pub trait HostNumber: Copy {}

macro_rules! host_numbers {
    ($($ty:ty)*) => {$( impl HostNumber for $ty {} )*};
}

host_numbers!(bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f16 bf16 f32 f64 E4m3 E5m2 E4m3b15 E2m1 E8m0);

/// A host integer that can size a tensor or bound a loop.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a host integer")]
pub trait HostInt: Copy {
    /// The loop index of a `range` over these: `i32`, unless the host type says otherwise.
    type Index: Index;
    /// The value.
    fn to_i128(self) -> i128;
}

/// Integers of which every value is also a `T`: they are widened where a `T` is wanted, for index arithmetic.
#[diagnostic::on_unimplemented(
    message = "elements of type `{Self}` and `{T}` do not mix",
    label = "this is a value of `{Self}`",
    note = "cast one side: `x.cast::<{T}>()`; only i32 and u32 widen by themselves, on the right of a 64-bit integer; a literal without another type is an f64 or i32: write `1.0_f32`"
)]
pub trait WidensTo<T: Element>: Element {}

impl<T: Element> WidensTo<T> for T {}
impl WidensTo<i64> for i32 {}
impl WidensTo<i64> for u32 {}
impl WidensTo<u64> for u32 {}

macro_rules! elements {
    ($($ty:ty = $dtype:ident, $value:ident => $constant:expr;)*) => {$(
        impl KernelParam for $ty {
            type Handle = Scalar<$ty>;
        }
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            fn constant(self) -> Const {
                let $value = self;
                $constant
            }
        }
    )*};
}

elements! {
    bool = I1, v => Const::Int(v.into());
    i8 = I8, v => Const::Int(v.into());
    i16 = I16, v => Const::Int(v.into());
    i32 = I32, v => Const::Int(v.into());
    i64 = I64, v => Const::Int(v.into());
    u8 = U8, v => Const::Int(v.into());
    u16 = U16, v => Const::Int(v.into());
    u32 = U32, v => Const::Int(v.into());
    u64 = U64, v => Const::Int(v.into());
    f16 = F16, v => Const::float(v.to_f64());
    bf16 = Bf16, v => Const::float(v.to_f64());
    f32 = F32, v => Const::float(v.into());
    f64 = F64, v => Const::float(v);
    E4m3 = E4m3, v => Const::float(v.to_f32().into());
    E5m2 = E5m2, v => Const::float(v.to_f32().into());
    E4m3b15 = E4m3b15, v => Const::float(v.to_f64());
    E2m1 = E2m1, v => Const::float(v.to_f64());
    E8m0 = E8m0, v => Const::float(v.to_f64());
}

impl<T: Element> KernelParam for PeerMap<T> {
    type Handle = PeerMap<T>;
}

impl<T: Element> KernelParam for Ptr<T> {
    type Handle = Ptr<T>;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Numeric for $ty {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MAX: Self = <$ty>::MAX;
            const MIN: Self = <$ty>::MIN;
        }
        impl Bits for $ty {}
        impl Int for $ty {}
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Bits for bool {}

impl Index for i32 {}
impl Index for i64 {}
impl Index for u32 {}
impl Index for u64 {}

macro_rules! floats {
    ($($ty:ty { $zero:expr, $one:expr };)*) => {$(
        impl Numeric for $ty {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const MAX: Self = <$ty>::MAX;
            const MIN: Self = <$ty>::MIN;
        }
        impl Float for $ty {
            const INFINITY: Self = <$ty>::INFINITY;
            const NEG_INFINITY: Self = <$ty>::NEG_INFINITY;
            const NAN: Self = <$ty>::NAN;
            const EPSILON: Self = <$ty>::EPSILON;
        }
        impl<T: Float> HostValue<T> for $ty {
            fn constant(self) -> Const {
                Element::constant(self)
            }
        }
    )*};
}

floats! {
    f16 { f16::ZERO, f16::ONE };
    bf16 { bf16::ZERO, bf16::ONE };
    f32 { 0.0, 1.0 };
    f64 { 0.0, 1.0 };
}

macro_rules! host_values {
    ($($host:ty as $element:ty),* $(,)?) => {$(
        impl HostValue<$element> for $host {
            fn constant(self) -> Const {
                Element::constant(self)
            }
        }
    )*};
}

host_values!(
    bool as bool,
    E4m3 as E4m3,
    E5m2 as E5m2,
    E4m3b15 as E4m3b15,
    E2m1 as E2m1,
    E8m0 as E8m0,
);

macro_rules! host_ints {
    ($($ty:ty => $index:ty),* $(,)?) => {$(
        impl<T: Numeric> HostValue<T> for $ty {
            fn constant(self) -> Const {
                Const::Int(self.to_i128())
            }
        }
        impl HostInt for $ty {
            type Index = $index;
            fn to_i128(self) -> i128 {
                self as i128
            }
        }
    )*};
}

host_ints!(
    i8 => i32,
    i16 => i32,
    i32 => i32,
    i64 => i64,
    isize => i32,
    u8 => i32,
    u16 => i32,
    u32 => u32,
    u64 => u64,
    usize => i32,
);
