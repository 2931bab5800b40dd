//! `+ - * / % & | ^ << >>`, their assigning forms, `-` and `!`.

use std::ops;

use half::{bf16, f16};

use super::mix::{Mix, Operand, ScalarOperand, WithScalar};
use super::trace::{self, here};
use super::{Bits, Element, Handle, HostNumber, HostValue, Int, Numeric, Scalar, Tensor};
use ir::elem::Elem;
use ir::ops::arith::{BinaryOp, Precision, UnaryOp};

#[inline]
#[track_caller]
fn binary<A: Mix<B>, B>(op: BinaryOp, lhs: A, rhs: B) -> A::Output {
    let (lhs, rhs) = lhs.raws(rhs);
    let elem = Elem::Data(<A::Elem as Element>::DTYPE);
    A::Output::from_value(trace::binary(op, lhs, rhs, elem, here()))
}

macro_rules! operator {
    ($trait:ident::$method:ident, $assign:ident::$assign_method:ident, $op:ident, $bound:ident, $($host:ty)*) => {
        impl<T: $bound, R: Operand<T>> ops::$trait<R> for Tensor<T> {
            type Output = Tensor<T>;
            #[inline]
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor<T> {
                binary(BinaryOp::$op, self, rhs)
            }
        }

        impl<T: $bound, R: WithScalar<T>> ops::$trait<R> for Scalar<T> {
            type Output = R::Output;
            #[inline]
            #[track_caller]
            fn $method(self, rhs: R) -> R::Output {
                binary(BinaryOp::$op, self, rhs)
            }
        }

        impl<T: $bound, R: Operand<T>> ops::$assign<R> for Tensor<T> {
            #[inline]
            #[track_caller]
            fn $assign_method(&mut self, rhs: R) {
                *self = binary(BinaryOp::$op, *self, rhs);
            }
        }

        impl<T: $bound, R: ScalarOperand<T>> ops::$assign<R> for Scalar<T> {
            #[inline]
            #[track_caller]
            fn $assign_method(&mut self, rhs: R) {
                let (lhs, rhs) = (self.raw(), rhs.into_raw());
                *self = Scalar::wrap(trace::binary(BinaryOp::$op, lhs, rhs, Elem::Data(T::DTYPE), here()));
            }
        }

        $(
            impl<T: $bound> ops::$trait<Tensor<T>> for $host
            where
                $host: HostValue<T>,
            {
                type Output = Tensor<T>;
                #[inline]
                #[track_caller]
                fn $method(self, rhs: Tensor<T>) -> Tensor<T> {
                    binary(BinaryOp::$op, self, rhs)
                }
            }

            impl<T: $bound> ops::$trait<Scalar<T>> for $host
            where
                $host: HostValue<T>,
            {
                type Output = Scalar<T>;
                #[inline]
                #[track_caller]
                fn $method(self, rhs: Scalar<T>) -> Scalar<T> {
                    binary(BinaryOp::$op, self, rhs)
                }
            }
        )*

        impl<T: $bound, H: HostNumber + HostValue<T>> ops::$trait<Tensor<T>> for LeftLiteral<H> {
            type Output = Tensor<T>;
            #[inline]
            #[track_caller]
            fn $method(self, rhs: Tensor<T>) -> Tensor<T> {
                binary(BinaryOp::$op, self.0, rhs)
            }
        }

        impl<T: $bound, H: HostNumber + HostValue<T>> ops::$trait<Scalar<T>> for LeftLiteral<H> {
            type Output = Scalar<T>;
            #[inline]
            #[track_caller]
            fn $method(self, rhs: Scalar<T>) -> Scalar<T> {
                binary(BinaryOp::$op, self.0, rhs)
            }
        }
    };
}

/// An unsuffixed literal on the left of an operator in a kernel: `1.0 - x`. It takes the type that the right side wants,
/// as a literal does, and lets rustc see at once what the result is.
#[derive(Clone, Copy, Debug)]
pub struct LeftLiteral<H>(pub H);

macro_rules! literal_of_host {
    ($($trait:ident::$method:ident)*) => {$(
        impl<H: HostNumber + ops::$trait<H, Output = H>> ops::$trait<H> for LeftLiteral<H> {
            type Output = H;
            #[inline]
            fn $method(self, rhs: H) -> H {
                ops::$trait::$method(self.0, rhs)
            }
        }
    )*};
}

literal_of_host!(Add::add Sub::sub Mul::mul Div::div Rem::rem BitAnd::bitand BitOr::bitor BitXor::bitxor);

macro_rules! shift_of_host {
    ($($trait:ident::$method:ident)*) => {$(
        impl<H: HostNumber + ops::$trait<R, Output = H>, R: HostNumber> ops::$trait<R> for LeftLiteral<H> {
            type Output = H;
            #[inline]
            fn $method(self, rhs: R) -> H {
                ops::$trait::$method(self.0, rhs)
            }
        }
    )*};
}

shift_of_host!(Shl::shl Shr::shr);

operator!(Add::add, AddAssign::add_assign, Add, Numeric, i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);
operator!(Sub::sub, SubAssign::sub_assign, Sub, Numeric, i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);
operator!(Mul::mul, MulAssign::mul_assign, Mul, Numeric, i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);
operator!(Div::div, DivAssign::div_assign, Div, Numeric, i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);
operator!(Rem::rem, RemAssign::rem_assign, Rem, Numeric, i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);
operator!(BitAnd::bitand, BitAndAssign::bitand_assign, And, Bits, bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
operator!(BitOr::bitor, BitOrAssign::bitor_assign, Or, Bits, bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
operator!(BitXor::bitxor, BitXorAssign::bitxor_assign, Xor, Bits, bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
operator!(Shl::shl, ShlAssign::shl_assign, Shl, Int, i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
operator!(Shr::shr, ShrAssign::shr_assign, Shr, Int, i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! unary_operator {
    ($($handle:ident)*) => {$(
        impl<T: Numeric> ops::Neg for $handle<T> {
            type Output = $handle<T>;
            #[inline]
            #[track_caller]
            fn neg(self) -> $handle<T> {
                $handle::wrap(trace::unary(UnaryOp::Neg, Precision::Default, self.value(), here()))
            }
        }

        impl<T: Bits> ops::Not for $handle<T> {
            type Output = $handle<T>;
            #[inline]
            #[track_caller]
            fn not(self) -> $handle<T> {
                $handle::wrap(trace::unary(UnaryOp::Not, Precision::Default, self.value(), here()))
            }
        }
    )*};
}

unary_operator!(Scalar Tensor);
