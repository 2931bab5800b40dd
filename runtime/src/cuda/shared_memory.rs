//! Memory of a GPU that processes hand to each other: by the driver's virtual memory calls, as a file descriptor.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use machine::driver::{Access, DeviceAddress, Location, SharedHandle, SharedProperties};

use super::{Context, CudaFailure};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: u32 = 1;

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_ALLOCATION_TYPE_PINNED`
const DEVICE: i32 = 1;
const PINNED: i32 = 1;

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_WRITE: i32 = 3;

/// Memory of this GPU or of another one, at an address of this one; it lives as long as a process has it.
pub(crate) struct SharedMemory {
    context: Arc<Context>,
    handle: SharedHandle,
    address: DeviceAddress,
    /// A multiple of what the driver maps at a time.
    bytes: usize,
}

impl SharedMemory {
    /// At least `bytes` of undefined content, which other processes can [import](SharedMemory::import).
    pub(crate) fn allocate(
        context: &Arc<Context>,
        bytes: usize,
    ) -> Result<SharedMemory, CudaFailure> {
        let (bytes, properties) = SharedMemory::rounded(context, bytes)?;
        let (driver, mut handle) = (context.driver, 0);
        // SAFETY: writes one handle; a context is current.
        let code =
            unsafe { (driver.cuMemCreate)(&raw mut handle, bytes, &raw const properties, 0) };
        driver.check("cuMemCreate", code)?;
        SharedMemory::map(context, handle, bytes)
    }

    /// What another process has exported, of as many bytes as it allocated.
    pub(crate) fn import(
        context: &Arc<Context>,
        exported: &OwnedFd,
        bytes: usize,
    ) -> Result<SharedMemory, CudaFailure> {
        let (bytes, _) = SharedMemory::rounded(context, bytes)?;
        let (driver, mut handle) = (context.driver, 0);
        let number = std::ptr::without_provenance_mut::<c_void>(exported.as_raw_fd() as usize);
        // SAFETY: writes one handle; the descriptor is open, and travels as a number of the size of a pointer.
        let code = unsafe {
            (driver.cuMemImportFromShareableHandle)(&raw mut handle, number, FILE_DESCRIPTOR)
        };
        driver.check("cuMemImportFromShareableHandle", code)?;
        SharedMemory::map(context, handle, bytes)
    }

    /// A descriptor of it for another process.
    pub(crate) fn export(&self) -> Result<OwnedFd, CudaFailure> {
        self.context.bind()?;
        let (driver, mut exported) = (self.context.driver, RawFd::from(-1_i32));
        // SAFETY: writes one descriptor; the handle lives.
        let code = unsafe {
            (driver.cuMemExportToShareableHandle)(
                (&raw mut exported).cast(),
                self.handle,
                FILE_DESCRIPTOR,
                0,
            )
        };
        driver.check("cuMemExportToShareableHandle", code)?;
        // SAFETY: the driver has opened it for the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(exported) })
    }

    /// The address, as kernels see it.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Whole pages, and what they are.
    fn rounded(context: &Context, bytes: usize) -> Result<(usize, SharedProperties), CudaFailure> {
        context.bind()?;
        let properties = SharedProperties {
            kind: PINNED,
            handle: FILE_DESCRIPTOR as i32,
            location: here(context),
            metadata: std::ptr::null_mut(),
            flags: [0; 8],
        };
        let (driver, mut page) = (context.driver, 0);
        // SAFETY: writes one integer. 0 asks for the least.
        let code = unsafe {
            (driver.cuMemGetAllocationGranularity)(&raw mut page, &raw const properties, 0)
        };
        driver.check("cuMemGetAllocationGranularity", code)?;
        Ok((bytes.max(1).next_multiple_of(page.max(1)), properties))
    }

    /// Puts memory, which is given up when this is dropped, at an address where kernels of this GPU may access it.
    fn map(
        context: &Arc<Context>,
        handle: SharedHandle,
        bytes: usize,
    ) -> Result<SharedMemory, CudaFailure> {
        let mut memory = SharedMemory {
            context: Arc::clone(context),
            handle,
            address: 0,
            bytes,
        };
        let driver = context.driver;
        // SAFETY: writes one address; any will do.
        let code = unsafe { (driver.cuMemAddressReserve)(&raw mut memory.address, bytes, 0, 0, 0) };
        driver.check("cuMemAddressReserve", code)?;
        // SAFETY: the range was just reserved, and the memory has as many bytes.
        let code = unsafe { (driver.cuMemMap)(memory.address, bytes, 0, handle, 0) };
        driver.check("cuMemMap", code)?;
        let access = Access {
            location: here(context),
            rights: READ_WRITE,
        };
        // SAFETY: the range was just mapped; one description.
        let code = unsafe { (driver.cuMemSetAccess)(memory.address, bytes, &raw const access, 1) };
        driver.check("cuMemSetAccess", code)?;
        Ok(memory)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let driver = self.context.driver;
        // Kernels in flight may still access it.
        if self.context.is_abandoned() || self.context.synchronize().is_err() {
            return;
        }
        if self.address != 0 {
            // SAFETY: reserved once and freed once. What was not mapped is not unmapped, which the driver refuses.
            let _ = unsafe { (driver.cuMemUnmap)(self.address, self.bytes) };
            // SAFETY: as above.
            let _ = unsafe { (driver.cuMemAddressFree)(self.address, self.bytes) };
        }
        // SAFETY: created or imported once, released once.
        let _ = unsafe { (driver.cuMemRelease)(self.handle) };
    }
}

/// The GPU of a context, as a place.
fn here(context: &Context) -> Location {
    Location {
        kind: DEVICE,
        ordinal: context.ordinal() as i32,
    }
}
