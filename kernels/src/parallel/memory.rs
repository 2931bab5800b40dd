//! Kernels and memory of all ranks, which calls make as they need them and leave to the next.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tilekit::prelude::*;
use tilekit::{CompiledKernel, Peers, Symmetric, World, WorldKernel};

use crate::products::Result;

use super::across::SLOTS;
use super::plan::Shared;

/// A kernel, by the types that it is compiled for and the name of the rest.
type Which = (TypeId, String);

/// What calls have needed so far.
#[derive(Default)]
pub(crate) struct Memory {
    kernels: Mutex<HashMap<Which, Box<dyn Any + Send>>>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// By element type, what is sent to a rank.
    elements: HashMap<TypeId, Box<dyn Any + Send>>,
    flags: Option<Arc<Symmetric<i64>>>,
    packets: Option<Arc<Symmetric<u64>>>,
    launches: Option<Arc<Symmetric<u64>>>,
    counters: Option<Arc<Symmetric<i32>>>,
    /// By their number, rows of two chunks of each rank.
    rows: HashMap<usize, Arc<Vec<Vec<Buffer<f32>>>>>,
}

/// The memory of a call that sends packets.
pub(super) struct Packets {
    pub(super) packets: Arc<Symmetric<u64>>,
    pub(super) launches: Arc<Symmetric<u64>>,
}

/// The memory of a call.
pub(crate) struct Parts<T> {
    pub(crate) elements: Arc<Symmetric<T>>,
    pub(crate) flags: Arc<Symmetric<i64>>,
    pub(crate) launches: Arc<Symmetric<u64>>,
}

/// What a launch passes for a [`Mailbox`](super::mail::Mailbox).
pub(crate) type MailboxArguments<'m, W> = (
    &'m Buffer<i64>,
    Peers<'m, i64>,
    &'m Buffer<u64>,
    (i64, W),
    i32,
    i32,
);

impl<T> Parts<T> {
    /// Of this rank of so many, with the limit of waits and the word that says what it waited for.
    pub(crate) fn mailbox<W>(
        &self,
        [rank, ranks]: [usize; 2],
        limit: (i64, W),
    ) -> MailboxArguments<'_, W> {
        let (flags, flags_of) = (self.flags.part(rank), self.flags.peers(rank));
        let launches = self.launches.part(rank);
        (flags, flags_of, launches, limit, rank as i32, ranks as i32)
    }
}

impl Packets {
    /// Packets from one slot to the next, the same for all calls that share the memory.
    pub(super) fn slot_packets(&self) -> i64 {
        (self.packets.len() / SLOTS) as i64
    }
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
        Ok(Parts {
            elements,
            flags,
            launches: made.launches(world)?,
        })
    }

    /// The same of so many packets.
    pub(super) fn packets(&self, world: &World, needed: usize) -> Result<Packets> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let packets = enough(world, made.packets.take(), needed)?;
        made.packets = Some(Arc::clone(&packets));
        Ok(Packets {
            packets,
            launches: made.launches(world)?,
        })
    }

    /// A number of each rank that is 0 between launches, from which tiles are drawn.
    pub(crate) fn counters(&self, world: &World) -> Result<Arc<Symmetric<i32>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = enough(world, made.counters.take(), 1)?;
        made.counters = Some(Arc::clone(&counters));
        Ok(counters)
    }

    /// On each rank two buffers of so many numbers.
    pub(crate) fn rows(&self, world: &World, rows: usize) -> Result<Arc<Vec<Vec<Buffer<f32>>>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.rows.get(&rows) {
            return Ok(Arc::clone(known));
        }
        let of_rank = |device| (0..2).map(|_| Buffer::new(device, rows)).collect();
        let ranks = world.devices().iter().map(of_rank);
        let ranks = Arc::new(ranks.collect::<tilekit::Result<Vec<Vec<_>>>>()?);
        made.rows.insert(rows, Arc::clone(&ranks));
        Ok(ranks)
    }

    /// A kernel on all ranks, loaded at its first use.
    pub(crate) fn kernel<H: 'static>(
        &self,
        world: &World,
        which: Which,
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<Arc<WorldKernel<H>>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kernels.get(&which).and_then(|kernel| kernel.downcast_ref());
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let loaded = Arc::new(world.load(&compile()?)?);
        kernels.insert(which, Box::new(Arc::clone(&loaded)));
        Ok(loaded)
    }
}

impl Made {
    /// The number of launches so far, which all kernels count.
    fn launches(&mut self, world: &World) -> Result<Arc<Symmetric<u64>>> {
        let launches = enough(world, self.launches.take(), 1)?;
        self.launches = Some(Arc::clone(&launches));
        Ok(launches)
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
