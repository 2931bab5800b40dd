//! Elements of device buffers, as bytes.

#![allow(
    unsafe_code,
    reason = "numbers are viewed as the bytes that travel to the device"
)]

use std::fmt::Display;
use std::mem::MaybeUninit;

use gluon_lang::lang::{E2m1, E4m3, E4m3b15, E5m2, E8m0, Element};
use half::{bf16, f16};

use crate::case::{Tally, Tolerance};
use crate::number::{Number, Rounding};

mod sealed {
    pub trait Sealed {}
}

/// An element type as a device buffer holds it: every [`Element`] of kernels is one.
#[diagnostic::on_unimplemented(
    message = "a buffer cannot hold elements of type `{Self}`",
    note = "element types are bool, i8 to i64, u8 to u64, f16, bf16, f32, f64, E4m3, E5m2, E4m3b15, E2m1 and E8m0"
)]
pub trait DeviceElement: sealed::Sealed + Element + Rounding + Display + Send + Sync {
    /// The elements as they are in memory.
    fn bytes_of(elements: &[Self]) -> &[u8];

    /// `len` elements from bytes that `read` fills in.
    ///
    /// # Errors
    /// Those of `read`.
    fn collect<E>(
        len: usize,
        read: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<Vec<Self>, E>;

    /// The nearest elements. A number that an integer type cannot hold is made whole, and becomes 0 if it is still too
    /// large.
    ///
    /// This and [`tally`](DeviceElement::tally) are the loops over all elements of a case. They are methods of the
    /// element type so that they are compiled with this crate, which is optimised, and not with the crate of the case.
    #[doc(hidden)]
    fn nearest_all(numbers: &[Number]) -> Vec<Self>;

    /// Judges a piece of a result, which starts at place `start`.
    #[doc(hidden)]
    fn tally(start: usize, got: &[Self], want: &[Number], tolerance: Tolerance) -> Tally;
}

macro_rules! loops {
    () => {
        fn nearest_all(numbers: &[Number]) -> Vec<Self> {
            numbers
                .iter()
                .map(|number| nearest_or_zero(*number))
                .collect()
        }

        fn tally(start: usize, got: &[Self], want: &[Number], tolerance: Tolerance) -> Tally {
            Tally::of(start, got, want, tolerance)
        }
    };
}

fn nearest_or_zero<T: Rounding>(number: Number) -> T {
    T::nearest(number)
        .or_else(|| T::nearest(Number::Int(number.to_f64().round() as i128)))
        .or_else(|| T::nearest(Number::Int(0)))
        .expect("every element type holds 0")
}

macro_rules! plain_elements {
    ($($ty:ty),*) => {$(
        impl sealed::Sealed for $ty {}

        impl DeviceElement for $ty {
            fn bytes_of(elements: &[Self]) -> &[u8] {
                // SAFETY: a number has no padding, so all its bytes are initialised.
                unsafe {
                    std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements))
                }
            }

            fn collect<E>(
                len: usize,
                read: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
            ) -> Result<Vec<Self>, E> {
                let mut elements: Vec<Self> = Vec::with_capacity(len);
                let bytes = len * size_of::<Self>();
                // SAFETY: the vector has room for `len` elements, which are `bytes` bytes, none of them in use.
                let room = unsafe {
                    std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes)
                };
                let filled = read(room)?.len();
                assert_eq!(filled, bytes, "a read fills the whole target");
                // SAFETY: every byte is initialised, as the slice that came back shows, and every bit pattern is a number.
                unsafe { elements.set_len(len) };
                Ok(elements)
            }

            loops!();
        }
    )*};
}

plain_elements!(
    i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, E4m3, E5m2, E4m3b15, E2m1, E8m0
);

impl sealed::Sealed for bool {}

impl DeviceElement for bool {
    fn bytes_of(elements: &[Self]) -> &[u8] {
        // SAFETY: a `bool` is one initialised byte.
        unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) }
    }

    /// Any byte but 0 is true: a kernel may write what it likes, a Rust `bool` may not hold it.
    fn collect<E>(
        len: usize,
        read: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<Vec<Self>, E> {
        Ok(u8::collect(len, read)?
            .into_iter()
            .map(|byte| byte != 0)
            .collect())
    }

    loops!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: DeviceElement + PartialEq + std::fmt::Debug>(elements: &[T]) {
        let bytes = T::bytes_of(elements);
        assert_eq!(bytes.len(), size_of_val(elements));
        let back = T::collect(elements.len(), |room| {
            Ok::<_, ()>(room.write_copy_of_slice(bytes))
        });
        assert_eq!(back.unwrap(), elements);
    }

    #[test]
    fn elements_survive_as_bytes() {
        round_trip(&[1i8, -1, 0]);
        round_trip(&[f16::from_f32(1.5), f16::INFINITY]);
        round_trip(&[bf16::from_f32(-2.0)]);
        round_trip(&[E4m3::from_f32(1.5), E4m3::from_f32(-448.0)]);
        round_trip(&[E5m2::from_f32(0.25)]);
        round_trip(&[E4m3b15::from_f32(-1.875), E4m3b15::from_f32(0.25)]);
        round_trip(&[E2m1::from_f32(-6.0), E2m1::from_f32(0.5)]);
        round_trip(&[E8m0::from_f32(1e-38), E8m0::from_f32(64.0)]);
        round_trip(&[u64::MAX, 3]);
        round_trip(&[1.25f64]);
        round_trip::<f32>(&[]);
        round_trip(&[true, false]);
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        let read = bool::collect(3, |room| {
            Ok::<_, ()>(room.write_copy_of_slice(&[0, 1, 0xa5]))
        });
        assert_eq!(read.unwrap(), [false, true, true]);
    }

    #[test]
    fn a_failed_read_gives_its_error() {
        assert_eq!(f32::collect(2, |_| Err("gone")), Err("gone"));
    }
}
