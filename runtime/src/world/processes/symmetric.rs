//! Memory that every process has, as long as in the others, and that all of their GPUs access.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use gluon_lang::lang::PeerMap;

use super::ProcessWorld;
use crate::backend::On;
use crate::buffer::Buffer;
use crate::cuda::{Context, DeviceMemory, SharedMemory};
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::kernel::{Argument, Packing};

/// `len` elements of `T` of each process, which the GPUs of all may access; zeros at first. It is made by all ranks in one order, and dropped by each when it likes: memory of a rank
/// that has dropped it stays until all have.
pub struct ProcessSymmetric<T> {
    /// The addresses of all parts, as this GPU sees them.
    table: Buffer<u64>,
    part: Buffer<T>,
    /// The parts of the other ranks.
    others: Vec<Buffer<T>>,
}

/// The parts of all ranks, as a launch passes them for a `PeerMap<T>`.
#[derive(Clone, Copy)]
pub struct ProcessPeers<'a, T> {
    of: &'a ProcessSymmetric<T>,
}

impl ProcessWorld {
    /// `len` elements on each rank, whose every byte is 0. All ranks make it together; when it returns, the memory of all is zero.
    ///
    /// # Errors
    /// [`Error::Ranks`] for ranks that make memory of other lengths or types, and with a rank whose process has ended or has not come; what the driver has against it.
    pub fn symmetric<T: DeviceElement>(&self, len: usize) -> Result<ProcessSymmetric<T>> {
        let On::Cuda(context) = self.device.backend() else {
            unreachable!("a world of processes has GPUs");
        };
        let what = format!("symmetric memory of {len} elements of {}", T::DTYPE);
        let own = SharedMemory::allocate(context, len * size_of::<T>())?;
        let exported = own.export()?;
        let part: Buffer<T> = self.buffer(context, own, len);
        part.fill_bytes(0)?;
        let mut others = Vec::with_capacity(self.ranks - 1);
        let mut addresses = Vec::with_capacity(self.ranks);
        for (offer, along) in self.links.exchange(&what, Some(&exported))? {
            if offer.rank == self.rank {
                addresses.push(part.address());
                continue;
            }
            let imported = imported(context, (offer.rank, along), len * size_of::<T>())?;
            let other = self.buffer(context, imported, len);
            addresses.push(other.address());
            others.push(other);
        }
        Ok(ProcessSymmetric {
            table: Buffer::from_slice(&self.device, &addresses)?,
            part,
            others,
        })
    }

    fn buffer<T: DeviceElement>(
        &self,
        context: &Arc<Context>,
        memory: SharedMemory,
        len: usize,
    ) -> Buffer<T> {
        let memory = DeviceMemory::of_shared(context, memory, len * size_of::<T>());
        Buffer::of_memory(&self.device, On::Cuda(memory), len)
    }
}

/// The memory of a rank, at an address of this process.
fn imported(
    context: &Arc<Context>,
    (rank, along): (usize, Option<OwnedFd>),
    bytes: usize,
) -> Result<SharedMemory> {
    let exported = along.ok_or_else(|| Error::Ranks {
        message: format!("rank {rank} has sent no memory"),
    })?;
    Ok(SharedMemory::import(context, &exported, bytes)?)
}

impl<T: DeviceElement> ProcessSymmetric<T> {
    /// Elements of one part.
    pub fn len(&self) -> usize {
        self.part.len()
    }

    /// Whether the parts have no elements.
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// The part of this rank.
    pub fn part(&self) -> &Buffer<T> {
        &self.part
    }

    /// The parts of all, for a launch.
    pub fn peers(&self) -> ProcessPeers<'_, T> {
        ProcessPeers { of: self }
    }
}

impl<T: DeviceElement> Argument<PeerMap<T>> for ProcessPeers<'_, T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        let ProcessSymmetric {
            table,
            part,
            others,
        } = self.of;
        packing.expect_own(table.device())?;
        table.note_use();
        part.note_use();
        others.iter().for_each(Buffer::note_use);
        packing.push_buffer(table.address(), (table.len() * size_of::<u64>()) as u64);
        Ok(())
    }
}
