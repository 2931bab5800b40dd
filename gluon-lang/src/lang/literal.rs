//! Literals beyond i32 beside values of the kernel and of the host.

use std::ops;

use super::{HostNumber, HostValue, KernelEq, KernelOrd, LeftLiteral, Numeric};
use ir::ops::create::Const;

/// An integer literal that is no i32, in an operator: `found & 0xffff_ffff`, `v + (1 << 40)`. It takes the type of the value
/// beside it, which must hold it.
#[derive(Clone, Copy, Debug)]
pub struct WideLiteral(pub i128);

impl HostNumber for WideLiteral {}

impl<T: Numeric> HostValue<T> for WideLiteral {
    fn constant(self) -> Const {
        Const::Int(self.0)
    }
}

macro_rules! host_operators {
    ($ty:ty: $($trait:ident::$method:ident, $assign:ident::$assign_method:ident;)*) => {$(
        impl ops::$trait<WideLiteral> for $ty {
            type Output = $ty;
            #[inline]
            #[track_caller]
            fn $method(self, rhs: WideLiteral) -> $ty {
                ops::$trait::$method(self, <$ty>::from(rhs))
            }
        }

        impl ops::$assign<WideLiteral> for $ty {
            #[inline]
            #[track_caller]
            fn $assign_method(&mut self, rhs: WideLiteral) {
                ops::$assign::$assign_method(self, <$ty>::from(rhs));
            }
        }

        impl ops::$trait<$ty> for LeftLiteral<WideLiteral> {
            type Output = $ty;
            #[inline]
            #[track_caller]
            fn $method(self, rhs: $ty) -> $ty {
                ops::$trait::$method(<$ty>::from(self.0), rhs)
            }
        }
    )*};
}

macro_rules! comparisons {
    ($ty:ty: $($trait:ident { $($method:ident $host_method:ident;)* })*) => {$(
        impl $trait<WideLiteral> for $ty {
            type Out = bool;
            $(
                #[inline]
                fn $method(&self, rhs: &WideLiteral) -> bool {
                    self.$host_method(&<$ty>::from(*rhs))
                }
            )*
        }

        impl $trait<$ty> for WideLiteral {
            type Out = bool;
            $(
                #[inline]
                fn $method(&self, rhs: &$ty) -> bool {
                    <$ty>::from(*self).$host_method(rhs)
                }
            )*
        }
    )*};
}

macro_rules! hosts {
    ($($ty:ty)*) => {$(
        impl From<WideLiteral> for $ty {
            #[track_caller]
            fn from(literal: WideLiteral) -> $ty {
                let WideLiteral(value) = literal;
                <$ty>::try_from(value)
                    .unwrap_or_else(|_| panic!("the literal {value} does not fit {}", stringify!($ty)))
            }
        }

        comparisons! {
            $ty:
            KernelEq { equal eq; unequal ne; }
            KernelOrd { less lt; at_most le; greater gt; at_least ge; }
        }

        host_operators! {
            $ty:
            Add::add, AddAssign::add_assign;
            Sub::sub, SubAssign::sub_assign;
            Mul::mul, MulAssign::mul_assign;
            Div::div, DivAssign::div_assign;
            Rem::rem, RemAssign::rem_assign;
            BitAnd::bitand, BitAndAssign::bitand_assign;
            BitOr::bitor, BitOrAssign::bitor_assign;
            BitXor::bitxor, BitXorAssign::bitxor_assign;
        }
    )*};
}

hosts!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
