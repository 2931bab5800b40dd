//! Memory that every rank has, as long as on the others, and that all ranks access.

use std::sync::Arc;

use gluon_lang::lang::PeerMap;

use super::World;
use crate::backend::On;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::Result;
use crate::kept;
use crate::kernel::{Argument, Packing};

/// `len` elements of `T` on each rank, all of which every rank may access; zeros at first.
///
/// A kernel takes its own part as a `Ptr<T>` ([`part`](Symmetric::part)), and those of all as a `PeerMap<T>` ([`peers`](Symmetric::peers)).
pub struct Symmetric<T> {
    /// What is given back before the memory is freed.
    opened: Arc<Vec<Opened>>,
    parts: Vec<Buffer<T>>,
    /// On each rank, the addresses of all parts.
    tables: Vec<Buffer<u64>>,
}

/// Memory of a device that the other ranks may access, until this is dropped, which waits for them.
struct Opened {
    device: Device,
    rank: usize,
    ranks: usize,
    address: u64,
    /// All of the world.
    devices: Vec<Device>,
}

impl Opened {
    /// The ranks that get access, which are all but its own.
    fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.rank;
        (0..self.ranks).filter(move |rank| *rank != own)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        match self.device.backend() {
            On::Emulator(device) => self
                .others()
                .for_each(|rank| device.close_to(rank, self.address)),
            // Kernels of other ranks may still access it, and freeing it waits for its own GPU alone. One that failed is of no more use, and says so elsewhere.
            On::Cuda(_) => self
                .others()
                .filter_map(|rank| self.devices.get(rank))
                .filter(|device| !device.is_abandoned())
                .for_each(|device| drop(device.synchronize())),
        }
    }
}

/// The parts of all ranks, as one rank's launch passes them for a `PeerMap<T>`.
#[derive(Clone, Copy)]
pub struct Peers<'a, T> {
    of: &'a Symmetric<T>,
    rank: usize,
}

impl World {
    /// `len` elements on each rank, whose every byte is 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the bytes requested and free on one of the devices.
    pub fn symmetric<T: DeviceElement>(&self, len: usize) -> Result<Symmetric<T>> {
        let devices = self.devices().iter();
        let zeros = |device| Buffer::zeros(device, len);
        let parts: Vec<Buffer<T>> = devices.clone().map(zeros).collect::<Result<_>>()?;
        let opened = parts.iter().enumerate();
        let opened: Vec<Opened> = opened
            .filter(|(_, part)| !part.is_empty())
            .map(|(rank, part)| self.open(rank, part))
            .collect::<Result<_>>()?;
        let addresses: Vec<u64> = parts.iter().map(Buffer::address).collect();
        let tables = devices.map(|device| Buffer::from_slice(device, &addresses));
        Ok(Symmetric {
            tables: tables.collect::<Result<_>>()?,
            parts,
            opened: Arc::new(opened),
        })
    }

    /// Lets all ranks access memory of one. On GPUs they already do.
    fn open<T: DeviceElement>(&self, rank: usize, part: &Buffer<T>) -> Result<Opened> {
        let opened = Opened {
            device: part.device().clone(),
            rank,
            ranks: self.ranks(),
            address: part.address(),
            devices: self.devices().to_vec(),
        };
        if let On::Emulator(device) = part.device().backend() {
            let bytes = (part.len() * size_of::<T>()) as u64;
            for other in opened.others() {
                device.open_to(other, part.address(), bytes)?;
            }
        }
        Ok(opened)
    }
}

impl<T: DeviceElement> Symmetric<T> {
    /// Elements of one part.
    pub fn len(&self) -> usize {
        self.parts.first().map_or(0, Buffer::len)
    }

    /// Whether the parts have no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn part(&self, rank: usize) -> &Buffer<T> {
        &self.parts[rank]
    }

    /// On a rank, the addresses of all parts.
    pub(crate) fn table(&self, rank: usize) -> &Buffer<u64> {
        &self.tables[rank]
    }

    /// The parts of all, for a launch of a rank.
    pub fn peers(&self, rank: usize) -> Peers<'_, T> {
        Peers { of: self, rank }
    }
}

impl<T: DeviceElement> Argument<PeerMap<T>> for Peers<'_, T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        let table = &self.of.tables[self.rank];
        packing.expect_own(table.device())?;
        table.note_use();
        // Before the parts: in this order it is given back.
        let opened = &self.of.opened;
        kept::note(|| Arc::<Vec<Opened>>::clone(opened));
        self.of.parts.iter().for_each(Buffer::note_use);
        packing.push_buffer(table.address(), (table.len() * size_of::<u64>()) as u64);
        Ok(())
    }
}
