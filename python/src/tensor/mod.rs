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
pub(crate) use abi::DlTensor;
pub(crate) use exchange::Exchange;
pub use held::Place;
pub(crate) use held::{Held, Origin};

/// The memory of `tensor`, for elements of type `wanted`; `stream` is that which the caller names.
pub(crate) fn borrow<'py>(
    tensor: &Bound<'py, PyAny>,
    wanted: DataType,
    place: Place,
    stream: Option<usize>,
) -> Result<Held<'py>, Refusal> {
    Ok(lent(tensor, wanted, place, stream)?.taken_for(wanted, place))
}

fn lent<'py>(
    tensor: &Bound<'py, PyAny>,
    wanted: DataType,
    place: Place,
    stream: Option<usize>,
) -> Result<Held<'py>, Refusal> {
    if let Some(exchange) = Exchange::of(tensor)? {
        return exchange.lend(tensor, place);
    }
    let py = tensor.py();
    if tensor.hasattr(intern!(py, "__dlpack__"))? {
        return capsule::lend(tensor, place, stream);
    }
    if place == Place::Gpu
        && let Some(interface) = tensor.getattr_opt(intern!(py, "__cuda_array_interface__"))?
    {
        return interface::lend(&interface);
    }
    Err(Refusal::Type(format!(
        "is of type {}; it must be a tensor of {wanted} {}",
        tensor.get_type(),
        match place {
            Place::Gpu => "on a GPU, which has `__dlpack__` or `__cuda_array_interface__`",
            Place::Host => "on the CPU, which has `__dlpack__`",
        }
    )))
}
