//! `__dlpack__`: a tensor lent in a capsule.

#![allow(
    unsafe_code,
    reason = "structures of DLPack, behind pointers of capsules"
)]

use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::abi::{self, Managed, ManagedVersioned};
use super::held::{Held, Origin, Place};
use crate::refusal::Refusal;
use crate::stream;

/// What a capsule with a version is called until somebody takes what is in it.
const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// The memory of `tensor`, which has `__dlpack__`. `stream` is that which the caller names.
pub(super) fn lend<'py>(
    tensor: &Bound<'py, PyAny>,
    place: Place,
    stream: Option<usize>,
) -> Result<Held<'py>, Refusal> {
    let py = tensor.py();
    let device = tensor.call_method0(intern!(py, "__dlpack_device__"))?;
    let (kind, id) = device.extract::<(i32, i32)>().map_err(|_| {
        Refusal::Type(format!(
            "is on device {device} by its `__dlpack_device__`, which is no pair of numbers"
        ))
    })?;
    super::held::expect(place, kind)?;
    let own = match (stream, place) {
        (None, Place::Gpu) => stream::of_framework(tensor, id)?,
        _ => None,
    };
    // Who says on which stream he works has nothing to wait for: the launch is put there. -1 asks for no waiting.
    // Memory of the CPU has no stream.
    let (told, origin) = match (place, stream, own) {
        (Place::Host, ..) => (None, Origin::Told),
        (_, None, None) => (Some(stream::LEGACY as i64), Origin::Told),
        (_, _, own) => (Some(-1), Origin::Stream(own)),
    };
    let capsule = ask(tensor, told)?;
    // SAFETY: a capsule of this name has a pointer to this structure, and owns it until it is renamed; the tensor keeps the
    // capsule for as long as it is used.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), VERSIONED.as_ptr()) == 1 {
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), VERSIONED.as_ptr());
            let managed = &*pointer.cast::<ManagedVersioned>();
            if managed.version.major != abi::MAJOR {
                return Err(Refusal::Value(format!(
                    "comes as DLPack {}.{}; this release reads {}.{}",
                    managed.version.major,
                    managed.version.minor,
                    abi::MAJOR,
                    abi::MINOR
                )));
            }
            let mut held = Held::of_dlpack(&managed.tensor, place, origin)?;
            held.is_readonly = managed.flags & abi::READ_ONLY != 0;
            held.owner = Some(capsule);
            return Ok(held);
        }
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), UNVERSIONED.as_ptr()) == 1 {
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), UNVERSIONED.as_ptr());
            let mut held = Held::of_dlpack(&(*pointer.cast::<Managed>()).tensor, place, origin)?;
            held.owner = Some(capsule);
            return Ok(held);
        }
    }
    Err(not_lent(&capsule))
}

/// Calls `__dlpack__`; frameworks of before DLPack 1.0 know of no `max_version`.
fn ask<'py>(tensor: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let method = tensor.getattr(intern!(py, "__dlpack__"))?;
    let named = PyDict::new(py);
    named.set_item(intern!(py, "stream"), stream)?;
    named.set_item(intern!(py, "max_version"), (abi::MAJOR, abi::MINOR))?;
    match method.call((), Some(&named)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            named.del_item(intern!(py, "max_version"))?;
            method.call((), Some(&named))
        }
        answer => answer,
    }
}

#[cold]
fn not_lent(capsule: &Bound<'_, PyAny>) -> Refusal {
    // SAFETY: a name is asked of a capsule alone; it ends with a null and lives as long as the capsule.
    let name = unsafe {
        if ffi::PyCapsule_CheckExact(capsule.as_ptr()) == 0 {
            let found = capsule.get_type();
            return Refusal::Type(format!(
                "gives {found} by `__dlpack__`; it must be a capsule"
            ));
        }
        let name = ffi::PyCapsule_GetName(capsule.as_ptr());
        if name.is_null() {
            c"".to_owned()
        } else {
            CStr::from_ptr(name).to_owned()
        }
    };
    let name = name.to_string_lossy();
    if name.starts_with("used_") {
        return Refusal::Value(format!(
            "gives a capsule that was consumed already (`{name}`): its memory may be freed; pass the tensor itself"
        ));
    }
    Refusal::Value(format!(
        "gives a capsule called `{name}`; it must be `dltensor_versioned` or `dltensor`"
    ))
}
