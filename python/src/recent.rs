//! Calls that were checked before: one with tensors of the same shapes, strides and types is launched without checking them again.

#![allow(unsafe_code, reason = "arrays behind pointers of DLPack")]

use std::sync::{Mutex, TryLockError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use tilekit_launch::{Manifest, Prepared, Role};

use crate::arguments::FEW;
use crate::refusal::raised;
use crate::scalar;
use crate::stream;
use crate::tensor::{DlTensor, Exchange};

/// Calls that a kernel remembers.
const CALLS: usize = 4;

/// The last calls of a kernel that differ.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    /// A call that is being launched is taken out: others then check what they pass.
    kept: [Option<Box<Known>>; CALLS],
    /// Which is replaced next.
    next: usize,
}

/// A call.
struct Known {
    prepared: Prepared<'static>,
    /// Of all tensors one after the other: type, GPU, rank, extents, strides.
    key: Vec<i64>,
    exchange: &'static Exchange,
    device: i32,
    how: How,
}

/// What a caller says beside the arguments and the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) grid: Option<[i64; 3]>,
    pub(crate) overlaps: bool,
}

/// The arguments of a call whose tensors have the C exchange API of one framework, and memory.
pub(crate) struct Seen {
    tensors: SmallVec<[DlTensor; FEW]>,
    /// Addresses and numbers, in the order of the arguments.
    pub(crate) values: SmallVec<[u64; FEW]>,
    exchange: &'static Exchange,
    device: i32,
}

impl Seen {
    /// These arguments; none if this is no such call, or one that is refused: whoever checks it says why.
    pub(crate) fn read(table: &Manifest, arguments: &Bound<'_, PyTuple>) -> Option<Seen> {
        let mut tensors: SmallVec<[DlTensor; FEW]> = SmallVec::new();
        let mut values = SmallVec::new();
        let mut first: Option<&'static Exchange> = None;
        for (at, parameter) in table.arguments().enumerate() {
            let argument = arguments.get_borrowed_item(at).ok()?;
            if let Role::Scalar { data_type, .. } = parameter.role {
                values.push(scalar::bits(&argument, data_type).ok()?);
                continue;
            }
            let exchange = Exchange::known(&argument)?;
            if **first.get_or_insert(exchange) != *exchange {
                return None;
            }
            let lent = exchange.borrowed(&argument).ok()?;
            (!lent.data.is_null()).then_some(())?;
            values.push((lent.data as u64).wrapping_add(lent.byte_offset));
            tensors.push(lent);
        }
        (arguments.len() == values.len()).then_some(())?;
        Some(Seen {
            device: tensors.first().map(|lent| lent.device.id)?,
            tensors,
            values,
            exchange: first?,
        })
    }

    /// What must be the same for a launch that is not checked again; none where strides are left out.
    fn key(&self) -> Option<Vec<i64>> {
        let mut key = Vec::new();
        for lent in &self.tensors {
            key.extend(lent.head());
            let [shape, strides] = lent.extents()?;
            key.extend(shape);
            key.extend(strides);
        }
        Some(key)
    }

    fn has_key(&self, mut key: &[i64]) -> bool {
        for lent in &self.tensors {
            let head = lent.head();
            let (Some(found), Some([shape, strides])) =
                (key.split_off(..head.len()), lent.extents())
            else {
                return false;
            };
            if found != head
                || key.split_off(..shape.len()) != Some(shape)
                || key.split_off(..strides.len()) != Some(strides)
            {
                return false;
            }
        }
        key.is_empty()
    }
}

impl Recent {
    /// Launches what was seen if a call like it was checked before; whether it did.
    ///
    /// # Errors
    /// What the driver refuses.
    pub(crate) fn launch(
        &self,
        py: Python<'_>,
        seen: &Seen,
        named: Option<usize>,
        how: How,
    ) -> PyResult<bool> {
        let Some((at, mut known)) = self.take(seen, how) else {
            return Ok(false);
        };
        let handle = match named {
            Some(handle) => handle,
            None => seen.exchange.stream(py, seen.device)?,
        };
        let values = &seen.values;
        let launched = py.detach(|| {
            // SAFETY: as in `Kernel::launch`.
            let queue = unsafe { stream::queue(known.device, handle, how.overlaps) }?;
            let launched = known.prepared.launch(&queue, values);
            self.put(at, known);
            launched
        });
        launched.map_err(|error| raised(&error))
    }

    /// The call that is like this one. A lock that somebody else holds is not waited for.
    fn take(&self, seen: &Seen, how: How) -> Option<(usize, Box<Known>)> {
        let mut calls = match self.0.try_lock() {
            Ok(calls) => calls,
            Err(TryLockError::Poisoned(calls)) => calls.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let is_alike = |known: &Known| {
            known.device == seen.device
                && known.how == how
                && known.exchange == seen.exchange
                && seen.has_key(&known.key)
        };
        let mut numbered = calls.kept.iter_mut().enumerate();
        numbered.find_map(|(at, slot)| Some((at, slot.take_if(|known| is_alike(known))?)))
    }

    fn put(&self, at: usize, known: Box<Known>) {
        let mut calls = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        calls.kept[at] = Some(known);
    }

    /// Keeps a call that was checked and launched.
    pub(crate) fn keep(&self, prepared: Prepared<'static>, seen: &Seen, how: How) {
        let Some(key) = seen.key() else { return };
        let known = Box::new(Known {
            prepared,
            key,
            exchange: seen.exchange,
            device: seen.device,
            how,
        });
        let mut calls = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = calls.next;
        calls.next = (at + 1) % CALLS;
        calls.kept[at] = Some(known);
    }
}
