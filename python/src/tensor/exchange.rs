//! The C exchange API of DLPack 1.3: a table of functions on the type of a tensor, by which it is borrowed without an object.

#![allow(unsafe_code, reason = "foreign functions of DLPack")]

use std::sync::OnceLock;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::abi::{self, DlTensor, ExchangeApi, ExchangeHeader};
use super::held::{Held, Origin, Place};
use crate::refusal::Refusal;

/// The exchange API of one type, and what else is asked of its tensors.
pub(crate) struct Exchange {
    /// The type, kept alive so that no other takes its address.
    class: Py<PyType>,
    /// The address of its table, which lives as long as the process.
    table: usize,
    borrow: abi::Borrow,
    work_stream: abi::WorkStream,
    /// Whether its tensors may take part in automatic differentiation.
    has_gradients: bool,
}

impl PartialEq for Exchange {
    /// Types of one framework share their functions.
    fn eq(&self, other: &Exchange) -> bool {
        self.table == other.table
    }
}

/// Types that are remembered. Others are asked at each call.
const TYPES: usize = 16;

/// Filled from the front.
static KNOWN: [OnceLock<Exchange>; TYPES] = [const { OnceLock::new() }; TYPES];

impl Exchange {
    /// That of the type of `tensor`, where it has one that this crate can read.
    pub(crate) fn of(tensor: &Bound<'_, PyAny>) -> PyResult<Option<&'static Exchange>> {
        if let Some(found) = Exchange::known(tensor) {
            return Ok(Some(found));
        }
        let Some(found) = Exchange::of_type(&tensor.get_type())? else {
            return Ok(None);
        };
        Ok(remember(found))
    }

    /// That of the type of `tensor`, where it was asked before.
    #[inline]
    pub(crate) fn known(tensor: &Bound<'_, PyAny>) -> Option<&'static Exchange> {
        let class = tensor.get_type_ptr();
        let mut known = KNOWN.iter().map_while(OnceLock::get);
        known.find(|known| known.class.as_ptr().cast() == class)
    }

    fn of_type(class: &Bound<'_, PyType>) -> PyResult<Option<Exchange>> {
        let py = class.py();
        let Some(capsule) = class.getattr_opt(intern!(py, "__dlpack_c_exchange_api__"))? else {
            return Ok(None);
        };
        // SAFETY: the name is that which the protocol gives the capsule; null sets an exception.
        let header = unsafe {
            pyo3::ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr())
        };
        if header.is_null() {
            return Err(PyErr::fetch(py));
        }
        let Some(api) = readable(header.cast()) else {
            return Ok(None);
        };
        let (Some(borrow), Some(work_stream)) = (api.borrow, api.work_stream) else {
            return Ok(None);
        };
        Ok(Some(Exchange {
            class: class.clone().unbind(),
            table: std::ptr::from_ref(api) as usize,
            borrow,
            work_stream,
            has_gradients: class.hasattr(intern!(py, "requires_grad"))?,
        }))
    }

    /// The memory of `tensor`, which is of this type.
    pub(super) fn lend<'py>(
        &'static self,
        tensor: &Bound<'py, PyAny>,
        place: Place,
    ) -> Result<Held<'py>, Refusal> {
        let lent = self.borrowed(tensor)?;
        // SAFETY: its arrays are as the protocol has them. They live as long as the tensor is not changed, and are copied now.
        unsafe { Held::of_dlpack(&lent, place, Origin::Exchange(self)) }
    }

    /// What the framework says of `tensor`, which is of this type: its arrays live as long as the tensor is not changed.
    pub(crate) fn borrowed(&self, tensor: &Bound<'_, PyAny>) -> Result<DlTensor, Refusal> {
        if self.has_gradients {
            refuse_gradients(tensor)?;
        }
        let mut lent = std::mem::MaybeUninit::<DlTensor>::uninit();
        // SAFETY: the tensor is of the type that has this API; it fills the structure or sets an exception.
        let code = unsafe { (self.borrow)(tensor.as_ptr().cast(), lent.as_mut_ptr()) };
        if code != 0 {
            return Err(Refusal::Raised(PyErr::fetch(tensor.py())));
        }
        // SAFETY: filled, as the code says.
        Ok(unsafe { lent.assume_init() })
    }

    /// The stream on which the framework works now on GPU number `device`.
    pub(crate) fn stream(&self, py: Python<'_>, device: i32) -> PyResult<usize> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes one handle, or sets an exception.
        let code = unsafe { (self.work_stream)(abi::CUDA, device, &raw mut stream) };
        if code == 0 {
            Ok(stream as usize)
        } else {
            Err(PyErr::fetch(py))
        }
    }
}

/// Keeps it; none if there is no room, for a table of so many types is nobody's program.
fn remember(mut found: Exchange) -> Option<&'static Exchange> {
    for slot in &KNOWN {
        match slot.set(found) {
            Ok(()) => return slot.get(),
            Err(back) => found = back,
        }
    }
    None
}

/// The table of the major version that this crate reads: tables of newer ones name those of older ones.
fn readable(mut header: *const ExchangeHeader) -> Option<&'static ExchangeApi> {
    while !header.is_null() {
        // SAFETY: a table's header is the same in all versions, and tables live as long as the process (dlpack.h).
        let found = unsafe { &*header };
        if found.version.major == abi::MAJOR {
            // SAFETY: of this major version a table is an `ExchangeApi`.
            return Some(unsafe { &*header.cast::<ExchangeApi>() });
        }
        header = found.previous;
    }
    None
}

/// A launch is invisible to automatic differentiation: a tensor that takes part in it would silently lose its gradient.
fn refuse_gradients(tensor: &Bound<'_, PyAny>) -> Result<(), Refusal> {
    let py = tensor.py();
    if !tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
        return Ok(());
    }
    let torch = py.import(intern!(py, "torch"))?;
    if !torch
        .call_method0(intern!(py, "is_grad_enabled"))?
        .is_truthy()?
    {
        return Ok(());
    }
    Err(Refusal::Value(
        "requires a gradient, and the kernel has no backward pass: pass its `.detach()`, or launch inside of a \
         `torch.autograd.Function` or of `torch.no_grad()`"
            .to_owned(),
    ))
}
