//! Kernels and memory of all ranks, which calls make as they need them and leave to the next.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tilekit::prelude::*;
use tilekit::{CompiledKernel, Symmetric, World, WorldKernel};

use crate::products::Result;
use crate::products::dense::ManyTile;
use crate::products::epilogue::Plain;
use crate::products::form::Form;

use super::check::Kind;
use super::plan::Shared;

/// A kernel of element types.
type Which = (TypeId, Kind, Form<ManyTile, Plain>);

/// What calls have needed so far.
#[derive(Default)]
pub(super) struct Memory {
    kernels: Mutex<HashMap<Which, Box<dyn Any + Send>>>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// By element type, what is sent to a rank.
    elements: HashMap<TypeId, Box<dyn Any + Send>>,
    flags: Option<Arc<Symmetric<i32>>>,
    launches: Option<Arc<Symmetric<u64>>>,
}

/// The memory of a call.
pub(super) struct Parts<T> {
    pub(super) elements: Arc<Symmetric<T>>,
    pub(super) flags: Arc<Symmetric<i32>>,
    pub(super) launches: Arc<Symmetric<u64>>,
}

impl Memory {
    /// Memory of so much or more. What is there is replaced by more where it is not enough, once nothing uses it any more.
    pub(super) fn of<T: DeviceElement>(&self, world: &World, needed: Shared) -> Result<Parts<T>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let elements = made.elements.get(&TypeId::of::<T>());
        let elements = elements.and_then(|known| known.downcast_ref::<Arc<Symmetric<T>>>());
        let elements = enough(world, elements.cloned(), needed.elements)?;
        let kept = Box::new(Arc::clone(&elements));
        made.elements.insert(TypeId::of::<T>(), kept);
        let flags = enough(world, made.flags.take(), needed.flags)?;
        made.flags = Some(Arc::clone(&flags));
        let launches = enough(world, made.launches.take(), 1)?;
        made.launches = Some(Arc::clone(&launches));
        Ok(Parts {
            elements,
            flags,
            launches,
        })
    }

    /// A kernel on all ranks, loaded at its first use.
    pub(super) fn kernel<H: 'static, T: 'static>(
        &self,
        world: &World,
        (kind, form): (Kind, Form<ManyTile, Plain>),
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<Arc<WorldKernel<H>>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let which = (TypeId::of::<T>(), kind, form);
        let known = kernels.get(&which).and_then(|kernel| kernel.downcast_ref());
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let loaded = Arc::new(world.load(&compile()?)?);
        kernels.insert(which, Box::new(Arc::clone(&loaded)));
        Ok(loaded)
    }
}

/// So many elements on each rank or more: those that are known, or new ones of zeros.
fn enough<T: DeviceElement>(
    world: &World,
    known: Option<Arc<Symmetric<T>>>,
    elements: usize,
) -> Result<Arc<Symmetric<T>>> {
    if let Some(known) = known.filter(|known| known.len() >= elements) {
        return Ok(known);
    }
    // Launches in flight may use what is replaced.
    world.synchronize()?;
    Ok(Arc::new(world.symmetric(elements.max(1))?))
}
