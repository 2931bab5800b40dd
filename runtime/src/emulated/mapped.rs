//! Mapped memory of the emulator.

use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::Arc;

use emulator::{HostAccess, HostOrder};

use super::{EmulatedDevice, EmulatedMemory, OWN, Room};
use crate::error::{Error, Result};

/// An allocation that the host accesses beside launches, freed when dropped.
pub(crate) struct EmulatedMapped(EmulatedMemory);

impl EmulatedMapped {
    /// Allocates zeros, which the host accesses in elements of `element_bytes` bytes.
    pub(crate) fn allocate(
        device: &Arc<EmulatedDevice>,
        bytes: usize,
        element_bytes: usize,
    ) -> Result<EmulatedMapped, Error> {
        let element_bytes = element_bytes as u32;
        let memory = EmulatedMemory::allocate_by(device, bytes, |memory| {
            memory.alloc_mapped(bytes as u64, element_bytes)
        })?;
        Ok(EmulatedMapped(memory))
    }

    pub(crate) fn address(&self) -> u64 {
        self.0.address
    }

    /// Where it lies, for copies in stream order.
    pub(crate) fn room(&self) -> Room {
        self.0.room()
    }

    /// Copies bytes from `offset` out. The caller has checked that they are inside, as for the others.
    pub(crate) fn read<'a>(
        &self,
        offset: usize,
        target: &'a mut [MaybeUninit<u8>],
        line: &'static Location<'static>,
    ) -> Result<&'a mut [u8]> {
        let mut bytes = vec![0; target.len()];
        self.access(HostOrder::Read, offset, bytes.len(), line, &mut |memory| {
            memory
                .read(self.0.address + offset as u64, &mut bytes)
                .expect(OWN);
        })?;
        Ok(target.write_copy_of_slice(&bytes))
    }

    /// Copies bytes in, from `offset` on.
    pub(crate) fn write(
        &self,
        offset: usize,
        source: &[u8],
        line: &'static Location<'static>,
    ) -> Result<()> {
        self.store(HostOrder::Write, offset, source, line)
    }

    /// Loads four bytes, and acquires.
    pub(crate) fn acquire(&self, offset: usize, line: &'static Location<'static>) -> Result<u32> {
        let mut bytes = [0; 4];
        self.access(HostOrder::Acquire, offset, 4, line, &mut |memory| {
            memory
                .read(self.0.address + offset as u64, &mut bytes)
                .expect(OWN);
        })?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Stores four bytes, and releases.
    pub(crate) fn release(
        &self,
        offset: usize,
        value: u32,
        line: &'static Location<'static>,
    ) -> Result<()> {
        self.store(HostOrder::Release, offset, &value.to_le_bytes(), line)
    }

    fn store(
        &self,
        order: HostOrder,
        offset: usize,
        source: &[u8],
        line: &'static Location<'static>,
    ) -> Result<()> {
        self.access(order, offset, source.len(), line, &mut |memory| {
            memory
                .write(self.0.address + offset as u64, source)
                .expect(OWN);
        })
    }

    fn access(
        &self,
        order: HostOrder,
        offset: usize,
        bytes: usize,
        line: &'static Location<'static>,
        work: &mut dyn FnMut(&emulator::GlobalMemory),
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let access = HostAccess {
            address: self.0.address + offset as u64,
            bytes: bytes as u64,
            order,
            line,
        };
        let emulator = self.0.device.emulator();
        emulator.host_access(&access, &mut || work(emulator.memory()))?;
        Ok(())
    }
}
