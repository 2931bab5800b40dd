//! One function for every integer type.

/// An [`Exec`] for each integer type.
macro_rules! each_integer {
    ($ty:expr, |$a:ident $(, $b:ident $(, $c:ident)?)?| $($body:tt)*) => {
        match $ty {
            Type::U16 | Type::B16 => Some(lanes!(|$a: u16 $(, $b: u16 $(, $c: u16)?)?| -> u16 { $($body)* })),
            Type::S16 => Some(lanes!(|$a: i16 $(, $b: i16 $(, $c: i16)?)?| -> i16 { $($body)* })),
            Type::U32 | Type::B32 => Some(lanes!(|$a: u32 $(, $b: u32 $(, $c: u32)?)?| -> u32 { $($body)* })),
            Type::S32 => Some(lanes!(|$a: i32 $(, $b: i32 $(, $c: i32)?)?| -> i32 { $($body)* })),
            Type::U64 | Type::B64 => Some(lanes!(|$a: u64 $(, $b: u64 $(, $c: u64)?)?| -> u64 { $($body)* })),
            Type::S64 => Some(lanes!(|$a: i64 $(, $b: i64 $(, $c: i64)?)?| -> i64 { $($body)* })),
            _ => None,
        }
    };
}

pub(super) use each_integer;
