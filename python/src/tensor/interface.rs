//! `__cuda_array_interface__`, version 3: a dictionary with address, shape and type. It knows no bf16 and no fp8.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tilekit_launch::DataType;

use super::held::{Held, MOST_RANK, Origin};
use crate::refusal::{Refusal, raised};

/// The memory that this dictionary describes. It does not say on which GPU that is; the driver knows.
pub(super) fn lend<'py>(interface: &Bound<'py, PyAny>) -> Result<Held<'py>, Refusal> {
    let py = interface.py();
    let Ok(table) = interface.cast::<PyDict>() else {
        return Err(broken(&format!("is of type {}", interface.get_type())));
    };
    if let Some(mask) = entry(table, intern!(py, "mask"))? {
        let found = mask.get_type();
        return Err(Refusal::Value(format!(
            "has a mask ({found}); a kernel takes all elements: pass an array without one"
        )));
    }
    let (address, is_readonly): (u64, bool) = wanted(table, intern!(py, "data"))?;
    let shape: Vec<i64> = wanted(table, intern!(py, "shape"))?;
    let kind: String = wanted(table, intern!(py, "typestr"))?;
    let data_type = type_of(&kind).ok_or_else(|| {
        Refusal::Type(format!(
            "has elements of `{kind}` by its `__cuda_array_interface__`, which no kernel takes"
        ))
    })?;
    let strides = match entry(table, intern!(py, "strides"))? {
        Some(strides) => Some(in_elements(&strides, data_type)?),
        None => None,
    };
    let rank = shape.len();
    let strides_count = strides.as_ref().map_or(rank, Vec::len);
    if rank > MOST_RANK || strides_count != rank {
        return Err(Refusal::Value(format!(
            "has {rank} dimensions and {strides_count} strides; there must be as many, and up to {MOST_RANK}"
        )));
    }
    let mut held = Held {
        address,
        data_type,
        rank,
        shape: [0; MOST_RANK],
        strides: [0; MOST_RANK],
        has_strides: strides.is_some(),
        device: device_of(address)?,
        is_readonly,
        origin: stream_of(table)?,
        owner: None,
    };
    held.shape[..rank].copy_from_slice(&shape);
    if let Some(strides) = strides {
        held.strides[..rank].copy_from_slice(&strides);
    }
    Ok(held)
}

/// An entry; none where it is absent or `None`.
fn entry<'py>(
    table: &Bound<'py, PyDict>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(table.get_item(name)?.filter(|value| !value.is_none()))
}

fn wanted<'py, T>(table: &Bound<'py, PyDict>, name: &Bound<'py, PyString>) -> Result<T, Refusal>
where
    for<'a> T: FromPyObject<'a, 'py>,
{
    let found = entry(table, name)?;
    let Some(found) = found else {
        return Err(broken(&format!("has no `{name}`")));
    };
    found
        .extract()
        .map_err(|_| broken(&format!("has {found} for `{name}`")))
}

#[cold]
fn broken(what: &str) -> Refusal {
    Refusal::Type(format!(
        "has a `__cuda_array_interface__` that {what}; it must be a dict with shape, typestr, data and strides, as version 3 has them"
    ))
}

fn type_of(kind: &str) -> Option<DataType> {
    Some(match kind.strip_prefix(['<', '|', '='])? {
        "b1" => DataType::I1,
        "i1" => DataType::I8,
        "i2" => DataType::I16,
        "i4" => DataType::I32,
        "i8" => DataType::I64,
        "u1" => DataType::U8,
        "u2" => DataType::U16,
        "u4" => DataType::U32,
        "u8" => DataType::U64,
        "f2" => DataType::F16,
        "f4" => DataType::F32,
        "f8" => DataType::F64,
        _ => return None,
    })
}

/// Strides are in bytes there, and in elements here.
fn in_elements(strides: &Bound<'_, PyAny>, data_type: DataType) -> Result<Vec<i64>, Refusal> {
    let bytes: Vec<i64> = strides
        .extract()
        .map_err(|_| broken(&format!("has {strides} for `strides`")))?;
    let size = i64::from(data_type.bytes());
    if let Some(stride) = bytes.iter().find(|stride| *stride % size != 0) {
        return Err(Refusal::Value(format!(
            "has a stride of {stride} bytes; it must be a multiple of the {size} of an element"
        )));
    }
    Ok(bytes.iter().map(|stride| stride / size).collect())
}

/// An array without elements has no address.
fn device_of(address: u64) -> Result<Option<i32>, Refusal> {
    if address == 0 {
        return Ok(None);
    }
    let device = tilekit_launch::device_of(address);
    device
        .map(Some)
        .map_err(|error| Refusal::Raised(raised(&error)))
}

/// The stream on which the array may be used; without, it may be used on any.
fn stream_of(table: &Bound<'_, PyDict>) -> Result<Origin, Refusal> {
    let Some(stream) = entry(table, intern!(table.py(), "stream"))? else {
        return Ok(Origin::Told);
    };
    match stream.extract::<usize>() {
        Ok(0) => Err(Refusal::Value(
            "has stream 0 in its `__cuda_array_interface__`, which version 3 forbids; it must be 1 (legacy default), 2 (default \
             of the thread) or a handle"
                .to_owned(),
        )),
        Ok(handle) => Ok(Origin::Stream(Some(handle))),
        Err(_) => Err(broken(&format!("has {stream} for `stream`"))),
    }
}
