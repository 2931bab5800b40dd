//! Python's numbers as the bits of a kernel's scalar.

use std::fmt::Display;

use half::{bf16, f16};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use tilekit_launch::DataType;

use crate::refusal::Refusal;

/// The bits of `value` as a scalar of type `wanted`, in the low bytes.
pub(crate) fn bits(value: &Bound<'_, PyAny>, wanted: DataType) -> Result<u64, Refusal> {
    let is_plain = value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>();
    // A tensor of one element would be fetched from the GPU, behind all outstanding work there.
    if !is_plain && value.hasattr(intern!(value.py(), "__dlpack__"))? {
        return Err(Refusal::Type(format!(
            "is a tensor ({}); it must be a number of type {wanted}: pass its `.item()`",
            value.get_type().name()?
        )));
    }
    match wanted.integers() {
        Some(range) => integer(value, wanted, range),
        None => float(value, wanted),
    }
}

fn integer(
    value: &Bound<'_, PyAny>,
    wanted: DataType,
    (least, most): (i64, i64),
) -> Result<u64, Refusal> {
    let index = whole(value, wanted)?;
    if wanted == DataType::U64 {
        let bits = index.extract::<u64>();
        return bits.map_err(|_| Refusal::Value(beyond(&index, wanted, "0 to 2^64 - 1")));
    }
    let bits = index.extract::<i64>().ok();
    let bits = bits.and_then(|number| of_integer(number, (least, most)));
    bits.ok_or_else(|| Refusal::Value(beyond(&index, wanted, &format!("{least} to {most}"))))
}

/// The bits of a number of this range.
fn of_integer(number: i64, (least, most): (i64, i64)) -> Option<u64> {
    (least..=most)
        .contains(&number)
        .then_some(number.cast_unsigned())
}

fn whole<'py>(value: &Bound<'py, PyAny>, wanted: DataType) -> Result<Bound<'py, PyAny>, Refusal> {
    if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyBool>() {
        return Ok(value.clone());
    }
    let index = value.call_method0(intern!(value.py(), "__index__"));
    index.map_err(|_| other(value, &format!("a whole number of type {wanted}")))
}

fn float(value: &Bound<'_, PyAny>, wanted: DataType) -> Result<u64, Refusal> {
    if !matches!(
        wanted,
        DataType::F16 | DataType::Bf16 | DataType::F32 | DataType::F64
    ) {
        // Python has no numbers of these types.
        let index = whole(value, wanted)
            .map_err(|_| other(value, &format!("the bits of an {wanted}, as an int")))?;
        let bits = index.extract::<u8>();
        return bits
            .map(u64::from)
            .map_err(|_| Refusal::Value(beyond(&index, wanted, "bits, 0 to 255")));
    }
    let number = value
        .extract::<f64>()
        .map_err(|_| other(value, &format!("a number of type {wanted}")))?;
    of_float(number, wanted)
}

/// The bits of `number` as a float of type `wanted`.
fn of_float(number: f64, wanted: DataType) -> Result<u64, Refusal> {
    let (bits, is_finite) = match wanted {
        DataType::F16 => {
            let nearest = f16::from_f32(rounded_to_odd(number));
            (nearest.to_bits().into(), nearest.is_finite())
        }
        DataType::Bf16 => {
            let nearest = bf16::from_f32(rounded_to_odd(number));
            (nearest.to_bits().into(), nearest.is_finite())
        }
        DataType::F32 => (
            (number as f32).to_bits().into(),
            (number as f32).is_finite(),
        ),
        _ => (number.to_bits(), true),
    };
    if number.is_finite() && !is_finite {
        return Err(Refusal::Value(format!(
            "is {number}, which {wanted} cannot hold"
        )));
    }
    Ok(bits)
}

/// One of the two neighbouring binary32 numbers: where it is not exact, the one whose last bit is set. No 16-bit float, and no middle of two, has that bit, so that what is rounded next is rounded
/// as if it were exact. `from_f64` of `half` rounds to binary32 first, or drops 32 bits, and takes what is just above a tie for one.
fn rounded_to_odd(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near).to_bits() == number.to_bits() || !near.is_finite() {
        return near;
    }
    let is_above = f64::from(near).abs() > number.abs();
    f32::from_bits((near.to_bits() - u32::from(is_above)) | 1)
}

/// The bits of a number that is no object of Python as a scalar of type `wanted`, in the low bytes.
pub(crate) fn of_number(number: Number, wanted: DataType) -> Result<u64, Refusal> {
    let is_float = matches!(
        wanted,
        DataType::F16 | DataType::Bf16 | DataType::F32 | DataType::F64
    );
    // Numbers of 64 bits without a sign come as those with one; types that frameworks have no numbers of come as their bits.
    let range = match wanted {
        DataType::U64 => (0, i64::MAX),
        _ => wanted.integers().unwrap_or((0, 255)),
    };
    match number {
        Number::Integer(number) if is_float => of_float(number as f64, wanted),
        Number::Float(number) if is_float => of_float(number, wanted),
        Number::Integer(number) => of_integer(number, range).ok_or_else(|| {
            Refusal::Value(beyond(
                &number,
                wanted,
                &format!("{} to {}", range.0, range.1),
            ))
        }),
        Number::Float(number) => Err(Refusal::Type(format!(
            "is the float {number}; it must be a whole number of type {wanted}"
        ))),
    }
}

/// A number that is no object of Python.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

fn beyond(value: &dyn Display, wanted: DataType, range: &str) -> String {
    format!("is {value}, which {wanted} cannot hold: it must be {range}")
}

fn other(value: &Bound<'_, PyAny>, wanted: &str) -> Refusal {
    let found = value.get_type();
    Refusal::Type(format!("is of type {found}; it must be {wanted}"))
}
