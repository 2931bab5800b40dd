//! Elements of matrices as numbers that products are made of.

use crate::numeric::format::Format;
use crate::numeric::half;
use crate::program::matrix::Element;
use std::sync::LazyLock;

/// Values of all 8-bit floats.
static E4M3: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|bits| Format::E4M3.widen(bits as u32) as f32));
static E5M2: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|bits| Format::E5M2.widen(bits as u32) as f32));

/// Widens packed elements; integers become floats, which hold them and their products exactly.
pub(crate) fn widen(element: Element, bytes: &[u8], out: &mut [f32]) {
    match element {
        Element::F16 => {
            let (chunks, _) = bytes.as_chunks::<2>();
            for (value, chunk) in out.iter_mut().zip(chunks) {
                *value = half::f16_to_f32(u16::from_le_bytes(*chunk));
            }
        }
        Element::Bf16 => {
            let (chunks, _) = bytes.as_chunks::<2>();
            for (value, chunk) in out.iter_mut().zip(chunks) {
                *value = half::bf16_to_f32(u16::from_le_bytes(*chunk));
            }
        }
        Element::Tf32 => {
            let (chunks, _) = bytes.as_chunks::<4>();
            for (value, chunk) in out.iter_mut().zip(chunks) {
                // The unit reads the upper 19 bits.
                *value = f32::from_bits(u32::from_le_bytes(*chunk) & !0x1fff);
            }
        }
        Element::E4m3 => out
            .iter_mut()
            .zip(bytes)
            .for_each(|(value, &byte)| *value = E4M3[usize::from(byte)]),
        Element::E5m2 => out
            .iter_mut()
            .zip(bytes)
            .for_each(|(value, &byte)| *value = E5M2[usize::from(byte)]),
        Element::S8 => out
            .iter_mut()
            .zip(bytes)
            .for_each(|(value, &byte)| *value = f32::from(byte as i8)),
        Element::U8 => out
            .iter_mut()
            .zip(bytes)
            .for_each(|(value, &byte)| *value = f32::from(byte)),
        Element::F64 => {
            let (chunks, _) = bytes.as_chunks::<8>();
            for (value, chunk) in out.iter_mut().zip(chunks) {
                *value = f64::from_le_bytes(*chunk) as f32;
            }
        }
    }
}
