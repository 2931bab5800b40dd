//! Elements of device buffers, as bytes.

#![allow(
    unsafe_code,
    reason = "numbers are viewed as the bytes that travel to the device"
)]

use std::mem::MaybeUninit;

use std::fmt::Display;

use half::{bf16, f16};

use crate::number::Rounding;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that a device buffer can hold. It is as large on the device as in Rust.
pub trait Element: sealed::Sealed + Rounding + Copy + Display + Send + Sync + 'static {
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
}

macro_rules! plain_elements {
    ($($ty:ty),*) => {$(
        impl sealed::Sealed for $ty {}

        impl Element for $ty {
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
        }
    )*};
}

plain_elements!(i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64);

impl sealed::Sealed for bool {}

impl Element for bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Element + PartialEq + std::fmt::Debug>(elements: &[T]) {
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
