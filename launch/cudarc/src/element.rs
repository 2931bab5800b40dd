//! Types that slices of cudarc hold, and what kernels take them for.

use tilekit_launch::{Bf16, E2m1, E4m3, E4m3b15, E5m2, E8m0, Element, F16};

/// A type of a slice's elements: numbers of Rust, those of the crate half, and those of `tilekit_launch`.
pub trait Held: sealed::Sealed + 'static {
    /// What kernels take it for, with the same bytes.
    type Element: Element;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

macro_rules! held {
    ($($name:ty as $element:ty,)*) => {
        $(
            impl sealed::Sealed for $name {}

            impl Held for $name {
                type Element = $element;
            }

            const _: () = assert!(size_of::<$name>() == size_of::<$element>());
        )*
    };
}

held! {
    i8 as i8,
    i16 as i16,
    i32 as i32,
    i64 as i64,
    u8 as u8,
    u16 as u16,
    u32 as u32,
    u64 as u64,
    f32 as f32,
    f64 as f64,
    half::f16 as F16,
    half::bf16 as Bf16,
    F16 as F16,
    Bf16 as Bf16,
    E4m3 as E4m3,
    E5m2 as E5m2,
    E4m3b15 as E4m3b15,
    E2m1 as E2m1,
    E8m0 as E8m0,
}
