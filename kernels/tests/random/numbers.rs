//! Elements of tensors.

use tilekit::prelude::*;

/// An element of a test's tensors.
pub(crate) trait Number: DeviceElement {
    /// Rounded to it.
    fn of(number: f64) -> Self;
    fn back(self) -> f64;
    /// What lies beside the elements of a tensor, and would be seen in whatever is computed from it.
    fn beside() -> Self;
    /// The largest relative error of rounding to it; integers are exact.
    const ROUNDING: f64;
}

macro_rules! floats {
    ($($element:ty: $bits:expr;)*) => {$(
        impl Number for $element {
            fn of(number: f64) -> Self {
                <$element>::from_f64(number)
            }
            fn back(self) -> f64 {
                self.to_f64()
            }
            fn beside() -> Self {
                <$element>::from_f64(f64::NAN)
            }
            const ROUNDING: f64 = 1.0 / (1_u64 << $bits) as f64;
        }
    )*};
}

floats! {
    bf16: 8;
    f16: 11;
    E4m3: 4;
    E5m2: 3;
}

macro_rules! natives {
    ($($element:ty: $rounding:expr, $beside:expr;)*) => {$(
        impl Number for $element {
            fn of(number: f64) -> Self {
                number as $element
            }
            fn back(self) -> f64 {
                self as f64
            }
            fn beside() -> Self {
                $beside
            }
            const ROUNDING: f64 = $rounding;
        }
    )*};
}

natives! {
    f32: 1.0 / (1_u64 << 24) as f64, f32::NAN;
    i32: 0.0, 1 << 20;
    i8: 0.0, 101;
    u8: 0.0, 255;
}

/// Numbers without a pattern, each of 64 bits.
pub(crate) fn noise(len: usize, seed: u64) -> impl Iterator<Item = u64> {
    (0..len as u64).map(move |at| {
        let bits = (at + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^ (bits >> 32)
    })
}

/// Whole numbers from -2 to 2, whose products and sums are exact.
pub(crate) fn small<T: Number>(len: usize, seed: u64) -> Vec<T> {
    noise(len, seed)
        .map(|bits| T::of((bits % 5) as f64 - 2.0))
        .collect()
}

/// Numbers between -1 and 1.
pub(crate) fn fractions<T: Number>(len: usize, seed: u64) -> Vec<T> {
    noise(len, seed)
        .map(|bits| T::of((bits >> 40) as f64 / f64::from(1 << 23) - 1.0))
        .collect()
}

/// Factors between 1/2 and 2 that are exact in all types.
pub(crate) fn factors(len: usize, seed: u64) -> Vec<f32> {
    noise(len, seed)
        .map(|bits| [0.5, 1.0, 1.5, 2.0][(bits % 4) as usize])
        .collect()
}
