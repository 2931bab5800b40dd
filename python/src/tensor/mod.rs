//! Tensors of any framework as memory of a GPU, for one call.

mod abi;
mod capsule;
mod exchange;
mod held;
mod interface;

use pyo3::intern;
use pyo3::prelude::*;
use tilekit_launch::DataType;

use crate::refusal::Refusal;
pub(crate) use exchange::Exchange;
pub(crate) use held::{Held, Origin};

/// The memory of `tensor`, for elements of type `wanted`; `stream` is that which the caller names.
pub(crate) fn borrow<'py>(
    tensor: &Bound<'py, PyAny>,
    wanted: DataType,
    stream: Option<usize>,
) -> Result<Held<'py>, Refusal> {
    let mut held = lent(tensor, wanted, stream)?;
    // No framework has these types; their tensors are of bytes.
    if held.data_type == DataType::U8 && matches!(wanted, DataType::E4m3b15 | DataType::E2m1) {
        held.data_type = wanted;
    }
    Ok(held)
}

fn lent<'py>(
    tensor: &Bound<'py, PyAny>,
    wanted: DataType,
    stream: Option<usize>,
) -> Result<Held<'py>, Refusal> {
    if let Some(exchange) = Exchange::of(tensor)? {
        return exchange.lend(tensor);
    }
    let py = tensor.py();
    if tensor.hasattr(intern!(py, "__dlpack__"))? {
        return capsule::lend(tensor, stream);
    }
    if let Some(interface) = tensor.getattr_opt(intern!(py, "__cuda_array_interface__"))? {
        return interface::lend(&interface);
    }
    Err(Refusal::Type(format!(
        "is of type {}; it must be a tensor of {wanted} on a GPU, which has `__dlpack__` or `__cuda_array_interface__`",
        tensor.get_type()
    )))
}
