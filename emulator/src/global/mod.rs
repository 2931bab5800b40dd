//! Device memory: allocations at virtual addresses with gaps between them.

mod allocation;
mod bytes;
mod map;

pub(crate) use allocation::Allocation;
pub(crate) use map::AllocationMap;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first device address. It resembles real ones, and small integers are never valid pointers.
const FIRST_ADDRESS: u64 = 0x7000_0000_0000;
/// The addresses of each device, from the first on: those of devices that run as one lie apart.
const DEVICE_ADDRESSES: u64 = 1 << 40;
/// Devices whose addresses fit into the 47 bits that a GPU translates.
pub(crate) const MOST_DEVICES: usize = 16;
/// What allocations are aligned to; `cudaMalloc` promises 256.
const ALIGNMENT: u64 = 512;
/// Unused bytes after every allocation, at least, so that an overrun hits no neighbour.
const GUARD_BYTES: u64 = 64 * 1024;

/// An error of the host's own access to device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The limit of the device's memory is passed.
    OutOfMemory {
        /// Bytes requested.
        bytes: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// Not the address of an allocation, or a range that leaves it.
    OutOfBounds {
        /// First address of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
        /// Where the nearest allocation lies.
        nearest: String,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { bytes, available } => {
                write!(
                    f,
                    "out of device memory: {bytes} bytes asked for, {available} left"
                )
            }
            Self::OutOfBounds {
                address,
                bytes,
                nearest,
            } => {
                write!(
                    f,
                    "{bytes} bytes at {address:#x} are not inside an allocation; {nearest}"
                )
            }
        }
    }
}

impl std::error::Error for MemoryError {}

/// Device memory. Threads may use it at the same time; the bytes themselves follow no order but that of launches.
#[derive(Debug)]
pub struct GlobalMemory {
    state: Mutex<State>,
    limit_bytes: u64,
    device: u16,
    /// The first address that it has not.
    end_address: u64,
}

#[derive(Debug)]
struct State {
    map: Arc<AllocationMap>,
    next_address: u64,
    used_bytes: u64,
}

impl GlobalMemory {
    /// Memory of at most `limit_bytes` bytes.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            end_address: u64::MAX,
            ..Self::of_device(0, limit_bytes)
        }
    }

    /// Memory of the device of a rank, whose addresses are no other device's. Addresses are not used twice, so that it may run out of them.
    pub(crate) fn of_device(device: u16, limit_bytes: u64) -> Self {
        let state = State {
            map: Arc::new(AllocationMap::default()),
            next_address: FIRST_ADDRESS + u64::from(device) * DEVICE_ADDRESSES,
            used_bytes: 0,
        };
        Self {
            state: Mutex::new(state),
            limit_bytes,
            device,
            end_address: FIRST_ADDRESS + (u64::from(device) + 1) * DEVICE_ADDRESSES,
        }
    }

    /// The rank of the device whose memory it is, 0 for a device alone.
    pub(crate) fn device(&self) -> u16 {
        self.device
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic, so a poisoned lock is still sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes
    }

    /// Bytes that may be in use at once.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// New memory of `bytes` bytes, aligned to 512 bytes, that counts as uninitialised. Returns its address.
    pub fn alloc(&self, bytes: u64) -> Result<u64, MemoryError> {
        self.insert(bytes, None)
    }

    /// New memory of the host that kernels access too (mapped), of zeros. The host accesses elements of `element_bytes` bytes, a power of two.
    pub fn alloc_mapped(&self, bytes: u64, element_bytes: u32) -> Result<u64, MemoryError> {
        let address = self.insert(bytes, Some(element_bytes.min(4).ilog2()))?;
        self.fill(address, bytes, 0)?;
        Ok(address)
    }

    fn insert(&self, bytes: u64, host_granule_bits: Option<u32>) -> Result<u64, MemoryError> {
        let mut state = self.state();
        let addresses = self.end_address.saturating_sub(state.next_address);
        let available = (self.limit_bytes - state.used_bytes).min(addresses);
        if bytes > available {
            return Err(MemoryError::OutOfMemory { bytes, available });
        }
        let base = state.next_address;
        state.next_address = (base + bytes + GUARD_BYTES).next_multiple_of(ALIGNMENT);
        state.used_bytes += bytes;
        let allocation = Allocation::new((base, bytes), self.device, host_granule_bits);
        Arc::make_mut(&mut state.map).insert(Arc::new(allocation));
        Ok(base)
    }

    /// Frees an allocation by its address; kernels that use it later fault, and the report says that it was freed.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut state = self.state();
        match Arc::make_mut(&mut state.map).remove(address) {
            Some(allocation) => {
                state.used_bytes -= allocation.bytes;
                Ok(())
            }
            None => Err(MemoryError::OutOfBounds {
                address,
                bytes: 0,
                nearest: state.map.describe(address, 1),
            }),
        }
    }

    /// Copies bytes to the device and marks them as initialised.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.find(address, data.len() as u64)?;
        allocation.write(offset, data);
        Ok(())
    }

    /// Copies bytes from the device; bytes that nothing wrote read as zero.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.find(address, data.len() as u64)?;
        allocation.read(offset, data);
        Ok(())
    }

    /// Sets `bytes` bytes to `value` and marks them as initialised.
    pub fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        let (allocation, offset) = self.find(address, bytes)?;
        allocation.fill(offset, bytes as usize, value);
        Ok(())
    }

    /// Makes `bytes` bytes count as uninitialised again; their contents become 0xa5.
    pub fn poison(&self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let (allocation, offset) = self.find(address, bytes)?;
        allocation.fill(offset, bytes as usize, 0xa5);
        allocation.written.remove(offset, bytes as usize);
        Ok(())
    }

    /// Offset of the first of `bytes` bytes that neither the host nor a kernel has written.
    pub fn first_uninitialised(
        &self,
        address: u64,
        bytes: u64,
    ) -> Result<Option<u64>, MemoryError> {
        let (allocation, offset) = self.find(address, bytes)?;
        let missing = allocation.written.first_missing(offset, bytes as usize);
        Ok(missing.map(|byte| (byte - offset) as u64))
    }

    fn find(&self, address: u64, bytes: u64) -> Result<(Arc<Allocation>, usize), MemoryError> {
        let state = self.state();
        let found = state
            .map
            .find(address, bytes)
            .map(|index| Arc::clone(&state.map.list()[index]));
        match found {
            Some(allocation) => {
                let offset = (address - allocation.base) as usize;
                Ok((allocation, offset))
            }
            None => Err(MemoryError::OutOfBounds {
                address,
                bytes,
                nearest: state.map.describe(address, bytes),
            }),
        }
    }

    /// The allocations as a launch sees them.
    pub(crate) fn snapshot(&self) -> Arc<AllocationMap> {
        Arc::clone(&self.state().map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_are_read_back() {
        let memory = GlobalMemory::new(1 << 20);
        let address = memory.alloc(1000).unwrap();
        assert_eq!(address % 512, 0);
        let data: Vec<u8> = (0..=255).cycle().take(997).collect();
        for offset in 0..4 {
            memory
                .write(address + offset, &data[..997 - offset as usize])
                .unwrap();
            let mut back = vec![0; 997 - offset as usize];
            memory.read(address + offset, &mut back).unwrap();
            assert_eq!(back, data[..997 - offset as usize]);
        }
        memory.fill(address, 1000, 7).unwrap();
        assert_eq!(memory.first_uninitialised(address, 1000).unwrap(), None);
        memory.poison(address + 10, 5).unwrap();
        assert_eq!(memory.first_uninitialised(address, 1000).unwrap(), Some(10));
    }

    #[test]
    fn addresses_of_devices_that_run_as_one_lie_apart() {
        let of_rank = |rank| GlobalMemory::of_device(rank, u64::MAX);
        let (zero, one) = (of_rank(0), of_rank(1));
        assert_eq!(
            one.alloc(8).unwrap() - zero.alloc(8).unwrap(),
            DEVICE_ADDRESSES
        );
        // The next device has the addresses behind it.
        assert!(zero.alloc(DEVICE_ADDRESSES).is_err());
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let memory = GlobalMemory::new(4096);
        let address = memory.alloc(100).unwrap();
        assert!(memory.write(address + 1, &[0; 100]).is_err());
        assert!(memory.read(address - 1, &mut [0; 2]).is_err());
        assert_eq!(
            memory.alloc(4000),
            Err(MemoryError::OutOfMemory {
                bytes: 4000,
                available: 3996
            })
        );
        memory.free(address).unwrap();
        let error = memory.write(address, &[0]).unwrap_err().to_string();
        assert!(error.contains("freed"), "{error}");
        assert!(memory.free(address).is_err());
    }
}
