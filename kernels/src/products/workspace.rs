//! Workspaces of a stream: device memory for copies of matrices and parts of sums, as large as its calls have needed so far. Launches of the stream share them, since they run in order.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tilekit::prelude::*;
use tilekit::{Buffer, Device};

use super::error::Result;

/// What a workspace is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    X,
    Y,
    Result,
    Source,
    /// What lies under filters at each pixel of a convolution.
    Patches,
    /// Filters of groups that are merged, or with other channels.
    Filters,
    /// Scales of rows of A, and of columns of B.
    Scales,
    OtherScales,
    /// Stands for scales that are not used.
    Nothing,
    /// Parts of tiles that programs share, and how many of them are there.
    Parts,
    Counts,
}

/// Those of a stream by element type and role.
#[derive(Default)]
struct Workspaces(Mutex<HashMap<(TypeId, Role), Box<dyn Any + Send>>>);

/// Memory of a stream of so many elements or more.
pub(crate) fn workspace<T: DeviceElement>(
    stream: &Stream,
    role: Role,
    elements: usize,
) -> Result<Arc<Buffer<T>>> {
    made(stream, role, elements, Buffer::new)
}

/// The same of zeros, until launches write it.
pub(super) fn zeroed_workspace<T: DeviceElement>(
    stream: &Stream,
    role: Role,
    elements: usize,
) -> Result<Arc<Buffer<T>>> {
    made(stream, role, elements, Buffer::zeros)
}

fn made<T: DeviceElement>(
    stream: &Stream,
    role: Role,
    elements: usize,
    make: fn(&Device, usize) -> tilekit::Result<Buffer<T>>,
) -> Result<Arc<Buffer<T>>> {
    let local = stream.local::<Workspaces>();
    let mut workspaces = local.0.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (TypeId::of::<T>(), role);
    let known = workspaces.get(&key);
    let known = known.and_then(|known| known.downcast_ref::<Arc<Buffer<T>>>());
    if let Some(known) = known.filter(|known| known.len() >= elements) {
        return Ok(Arc::clone(known));
    }
    let made = Arc::new(make(stream.device(), elements)?);
    workspaces.insert(key, Box::new(Arc::clone(&made)));
    Ok(made)
}
