//! What a call passes, in the order of the kernel's arguments.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use tilekit_launch::{Argument, Manifest, Parameter, Role};

use crate::refusal::Refusal;
use crate::scalar;
use crate::stream::{self, LEGACY};
use crate::tensor::{self, Exchange, Held, Origin, Place};

/// Most kernels take fewer tensors and numbers: those lie on the stack.
pub(crate) const FEW: usize = 6;

/// The arguments of a call, borrowed.
pub struct Passed<'m, 'py> {
    manifest: &'m Manifest,
    values: SmallVec<[Value<'py>; FEW]>,
}

enum Value<'py> {
    Tensor(Held<'py>),
    Scalar(tilekit_launch::DataType, u64),
}

impl Value<'_> {
    fn argument(&self) -> Argument<'_> {
        match self {
            Value::Tensor(held) => Argument::Tensor(held.tensor()),
            Value::Scalar(data_type, bits) => Argument::Scalar(*data_type, *bits),
        }
    }
}

impl<'m, 'py> Passed<'m, 'py> {
    /// Borrows tensors at this place and reads numbers. `stream` is that which the caller names.
    ///
    /// # Errors
    /// What cannot be borrowed, or is no number of the wanted type.
    pub fn read(
        manifest: &'m Manifest,
        arguments: &Bound<'py, PyTuple>,
        place: Place,
        stream: Option<usize>,
    ) -> PyResult<Self> {
        let py = arguments.py();
        let wanted = manifest.arguments().count();
        if arguments.len() != wanted {
            return Err(PyTypeError::new_err(format!(
                "{}: {} arguments are passed; it takes {wanted}",
                manifest.signature(),
                arguments.len()
            )));
        }
        let mut values = SmallVec::new();
        for (at, parameter) in manifest.arguments().enumerate() {
            let argument = arguments.get_borrowed_item(at)?;
            let value = read(parameter, &argument, place, stream);
            values
                .push(value.map_err(|refusal| refusal.of_argument(py, manifest, &parameter.name))?);
        }
        Ok(Passed { manifest, values })
    }

    /// As a launch takes them.
    pub fn arguments(&self) -> SmallVec<[Argument<'_>; FEW]> {
        self.values.iter().map(Value::argument).collect()
    }

    fn tensors(&self) -> impl Iterator<Item = (&Parameter, &Held<'py>)> {
        let both = self.manifest.arguments().zip(&self.values);
        both.filter_map(|(parameter, value)| match value {
            Value::Tensor(held) => Some((parameter, held)),
            Value::Scalar(..) => None,
        })
    }

    /// The GPU of the first tensor with elements; the launch checks the others.
    pub(crate) fn device(&self) -> i32 {
        self.tensors()
            .find_map(|(_, held)| held.device())
            .unwrap_or(0)
    }

    /// Whether the stream that the caller names is of the tensors' GPU, as far as it says.
    pub(crate) fn check_stream(&self, stream: &Bound<'_, PyAny>, device: i32) -> PyResult<()> {
        let Some(of) = stream::device(stream).filter(|of| *of >= 0 && *of != device) else {
            return Ok(());
        };
        let Some((first, _)) = self.tensors().next() else {
            return Ok(());
        };
        Err(PyValueError::new_err(format!(
            "{}: stream is of GPU {of} and {} on GPU {device}; pass a stream of that GPU",
            self.manifest.signature(),
            first.name
        )))
    }

    /// The stream on which the tensors' frameworks work now.
    pub(crate) fn stream(&self, py: Python<'_>, device: i32) -> PyResult<usize> {
        let mut found: Option<(&Parameter, usize)> = None;
        let mut asked: Option<&'static Exchange> = None;
        for (parameter, held) in self.tensors() {
            let handle = match held.origin() {
                Origin::Exchange(exchange) if asked.is_some_and(|asked| asked == exchange) => {
                    continue;
                }
                Origin::Exchange(exchange) => {
                    asked = Some(exchange);
                    exchange.stream(py, device)?
                }
                Origin::Stream(Some(handle)) => handle,
                // The framework knows the stream: it orders outstanding work before it and expects the launch there.
                Origin::Told => LEGACY,
                Origin::Stream(None) => continue,
            };
            match found {
                Some((first, stream)) if !is_same(stream, handle) => {
                    return Err(self.unequal([first, parameter], [stream, handle]));
                }
                Some(_) => {}
                None => found = Some((parameter, handle)),
            }
        }
        Ok(found.map_or(LEGACY, |(_, stream)| stream))
    }

    #[cold]
    fn unequal(&self, [one, other]: [&Parameter; 2], [first, second]: [usize; 2]) -> PyErr {
        PyValueError::new_err(format!(
            "{}: {} is used on stream {first:#x} and {} on stream {second:#x}; pass `stream=` with the one to launch on, and \
             have it wait for the other",
            self.manifest.signature(),
            one.name,
            other.name
        ))
    }
}

/// 0 is another name of the legacy default stream.
fn is_same(one: usize, other: usize) -> bool {
    one == other || (one.max(other) == LEGACY)
}

fn read<'py>(
    parameter: &Parameter,
    argument: &Bound<'py, PyAny>,
    place: Place,
    stream: Option<usize>,
) -> Result<Value<'py>, Refusal> {
    let wanted = parameter.role.data_type();
    if matches!(parameter.role, Role::Scalar { .. }) {
        return Ok(Value::Scalar(wanted, scalar::bits(argument, wanted)?));
    }
    let held = tensor::borrow(argument, wanted, place, stream)?;
    refuse_unusable(&held, parameter)?;
    Ok(Value::Tensor(held))
}

/// Refuses a tensor without memory, and one that the kernel writes and may not.
pub(crate) fn refuse_unusable(held: &Held<'_>, parameter: &Parameter) -> Result<(), Refusal> {
    if held.is_without_memory() {
        return Err(Refusal::Value(
            "has elements and no memory: it was freed, or stands for a tensor that is not computed; pass one that has memory".to_owned(),
        ));
    }
    if held.is_readonly() && parameter.is_written {
        return Err(Refusal::Value(
            "is read-only, and the kernel writes to it: pass a tensor that may be written"
                .to_owned(),
        ));
    }
    Ok(())
}
