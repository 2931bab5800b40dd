//! Products of integers, with and without a sum.

use super::each_integer::each_integer;
use crate::lanes::{Exec, lanes};
use crate::program::File;
use ptx::{BinaryOp, TernaryOp, Type};

/// Products, or a half of them.
pub(super) fn multiply(op: BinaryOp, ty: Type) -> Option<Exec> {
    match op {
        BinaryOp::MulLo => each_integer!(ty, |a, b| a.wrapping_mul(b)),
        BinaryOp::MulHi => Some(match ty {
            Type::U16 => {
                lanes!(|a: u16, b: u16| -> u16 { (u32::from(a) * u32::from(b) >> 16) as u16 })
            }
            Type::S16 => {
                lanes!(|a: i16, b: i16| -> i16 { (i32::from(a) * i32::from(b) >> 16) as i16 })
            }
            Type::U32 => {
                lanes!(|a: u32, b: u32| -> u32 { (u64::from(a) * u64::from(b) >> 32) as u32 })
            }
            Type::S32 => {
                lanes!(|a: i32, b: i32| -> i32 { (i64::from(a) * i64::from(b) >> 32) as i32 })
            }
            Type::U64 => {
                lanes!(|a: u64, b: u64| -> u64 { (u128::from(a) * u128::from(b) >> 64) as u64 })
            }
            Type::S64 => {
                lanes!(|a: i64, b: i64| -> i64 { (i128::from(a) * i128::from(b) >> 64) as i64 })
            }
            _ => return None,
        }),
        BinaryOp::MulWide => Some(match ty {
            Type::U16 => lanes!(|a: u16, b: u16| -> u32 { u32::from(a) * u32::from(b) }),
            Type::S16 => lanes!(|a: i16, b: i16| -> i32 { i32::from(a) * i32::from(b) }),
            Type::U32 => lanes!(|a: u32, b: u32| -> u64 { u64::from(a) * u64::from(b) }),
            Type::S32 => lanes!(|a: i32, b: i32| -> i64 { i64::from(a) * i64::from(b) }),
            _ => return None,
        }),
        _ => None,
    }
}

/// A product and a sum, and the sum of absolute differences.
pub(super) fn multiply_add(op: TernaryOp, ty: Type, sat: bool) -> Option<Exec> {
    match op {
        TernaryOp::MadLo => each_integer!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        TernaryOp::MadWide => Some(match ty {
            Type::U16 => lanes!(|a: u16, b: u16, c: u32| -> u32 {
                (u32::from(a) * u32::from(b)).wrapping_add(c)
            }),
            Type::S16 => lanes!(|a: i16, b: i16, c: i32| -> i32 {
                (i32::from(a) * i32::from(b)).wrapping_add(c)
            }),
            Type::U32 => lanes!(|a: u32, b: u32, c: u64| -> u64 {
                (u64::from(a) * u64::from(b)).wrapping_add(c)
            }),
            Type::S32 => lanes!(|a: i32, b: i32, c: i64| -> i64 {
                (i64::from(a) * i64::from(b)).wrapping_add(c)
            }),
            _ => return None,
        }),
        TernaryOp::MadHi if sat => Some(lanes!(|a: i32, b: i32, c: i32| -> i32 {
            ((i64::from(a) * i64::from(b) >> 32) as i32).saturating_add(c)
        })),
        TernaryOp::MadHi => Some(match ty {
            Type::U16 => lanes!(|a: u16, b: u16, c: u16| -> u16 {
                ((u32::from(a) * u32::from(b) >> 16) as u16).wrapping_add(c)
            }),
            Type::S16 => lanes!(|a: i16, b: i16, c: i16| -> i16 {
                ((i32::from(a) * i32::from(b) >> 16) as i16).wrapping_add(c)
            }),
            Type::U32 => lanes!(|a: u32, b: u32, c: u32| -> u32 {
                ((u64::from(a) * u64::from(b) >> 32) as u32).wrapping_add(c)
            }),
            Type::S32 => lanes!(|a: i32, b: i32, c: i32| -> i32 {
                ((i64::from(a) * i64::from(b) >> 32) as i32).wrapping_add(c)
            }),
            Type::U64 => lanes!(|a: u64, b: u64, c: u64| -> u64 {
                ((u128::from(a) * u128::from(b) >> 64) as u64).wrapping_add(c)
            }),
            Type::S64 => lanes!(|a: i64, b: i64, c: i64| -> i64 {
                ((i128::from(a) * i128::from(b) >> 64) as i64).wrapping_add(c)
            }),
            _ => return None,
        }),
        TernaryOp::Sad => each_integer!(ty, |a, b, c| c.wrapping_add(if a < b {
            b.wrapping_sub(a)
        } else {
            a.wrapping_sub(b)
        })),
        _ => None,
    }
}

/// Registers twice as wide.
pub(super) fn wide_file(ty: Type) -> File {
    if ty.bits() == 16 {
        File::Word
    } else {
        File::Double
    }
}

/// The bits twice as wide.
pub(super) fn wide_type(ty: Type) -> Type {
    if ty.bits() == 16 {
        Type::B32
    } else {
        Type::B64
    }
}
