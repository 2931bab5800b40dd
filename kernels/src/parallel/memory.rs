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

/// A kernel, without its element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Which {
    /// Of products.
    Product(Kind, Form<ManyTile, Plain>),
    /// Of ring attention, by its number in the table of instances.
    Attention(usize),
}

/// What calls have needed so far.
#[derive(Default)]
pub(crate) struct Memory {
    kernels: Mutex<HashMap<(TypeId, Which), Box<dyn Any + Send>>>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// By element type, what is sent to a rank.
    elements: HashMap<TypeId, Box<dyn Any + Send>>,
    flags: Option<Arc<Symmetric<i32>>>,
    launches: Option<Arc<Symmetric<u64>>>,
    counters: Option<Arc<Symmetric<i32>>>,
}

/// The memory of a call.
pub(crate) struct Parts<T> {
    pub(crate) elements: Arc<Symmetric<T>>,
    pub(crate) flags: Arc<Symmetric<i32>>,
    pub(crate) launches: Arc<Symmetric<u64>>,
}

impl Memory {
    /// Memory of so much or more. What is there is replaced by more where it is not enough, once nothing uses it any more.
    pub(crate) fn of<T: DeviceElement>(&self, world: &World, needed: Shared) -> Result<Parts<T>> {
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

    /// A number of each rank that is 0 between launches, from which tiles are drawn.
    pub(crate) fn counters(&self, world: &World) -> Result<Arc<Symmetric<i32>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = enough(world, made.counters.take(), 1)?;
        made.counters = Some(Arc::clone(&counters));
        Ok(counters)
    }

    /// A kernel on all ranks, loaded at its first use.
    pub(crate) fn kernel<H: 'static, T: 'static>(
        &self,
        world: &World,
        which: Which,
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<Arc<WorldKernel<H>>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let which = (TypeId::of::<T>(), which);
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
