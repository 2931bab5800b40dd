//! Device memory: allocated, filled, copied, freed.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use machine::driver::{DeviceAddress, Driver, StreamHandle};

use super::host_memory::HostMemory;
use super::stream::OwnedStream;
use super::{Context, CudaFailure, SharedMemory, Stream};
use crate::advice::{Advice, Near};
use crate::error::Error;

/// An allocation on the GPU, freed when dropped.
pub(crate) struct DeviceMemory {
    context: Arc<Context>,
    address: DeviceAddress,
    bytes: usize,
    /// The stream in whose order it is freed; without, freeing it waits for the device.
    in_order: Option<Arc<OwnedStream>>,
    /// What it is, if processes hand it to each other; that gives itself back.
    shared: Option<SharedMemory>,
}

/// `CU_MEM_ATTACH_GLOBAL`
const ATTACH_GLOBAL: u32 = 1;

/// `CU_DEVICE_CPU`
const HOST: i32 = -1;

impl DeviceMemory {
    /// Allocates `bytes`, whose content is undefined. Zero bytes allocate nothing and have address 0.
    pub(crate) fn allocate(context: &Arc<Context>, bytes: usize) -> Result<DeviceMemory, Error> {
        DeviceMemory::allocate_by(context, bytes, "cuMemAlloc", |address| {
            // SAFETY: writes one address; a context is current.
            unsafe { (context.driver.cuMemAlloc)(address, bytes) }
        })
    }

    /// Allocates unified memory, whose pages move to who uses them: there may be more of it than the GPU has.
    pub(crate) fn allocate_unified(
        context: &Arc<Context>,
        bytes: usize,
    ) -> Result<DeviceMemory, Error> {
        DeviceMemory::allocate_by(context, bytes, "cuMemAllocManaged", |address| {
            // SAFETY: as for `allocate`.
            unsafe { (context.driver.cuMemAllocManaged)(address, bytes, ATTACH_GLOBAL) }
        })
    }

    /// Allocates in stream order, from the pool of the device, and frees in the order of the same stream.
    pub(crate) fn allocate_in_order(stream: &Stream, bytes: usize) -> Result<DeviceMemory, Error> {
        let context = stream.context();
        if stream.is_capturing()? {
            return Err(Error::Capturing {
                what: "asked for memory",
            });
        }
        let mut memory = DeviceMemory::allocate_by(context, bytes, "cuMemAllocAsync", |address| {
            // SAFETY: as for `allocate`; the stream lives.
            unsafe { (context.driver.cuMemAllocAsync)(address, bytes, stream.raw()) }
        })?;
        memory.in_order = Some(Arc::clone(stream.owned()));
        Ok(memory)
    }

    fn allocate_by(
        context: &Arc<Context>,
        bytes: usize,
        function: &'static str,
        allocate: impl FnOnce(*mut DeviceAddress) -> u32,
    ) -> Result<DeviceMemory, Error> {
        context.bind()?;
        let mut address = 0;
        if bytes > 0 {
            let code = allocate(&raw mut address);
            let checked = context.driver.check(function, code);
            checked.map_err(|failure| describe_allocation(context, bytes, failure))?;
        }
        Ok(DeviceMemory {
            context: Arc::clone(context),
            address,
            bytes,
            in_order: None,
            shared: None,
        })
    }

    /// The first `bytes` of memory that processes hand to each other.
    pub(crate) fn of_shared(
        context: &Arc<Context>,
        shared: SharedMemory,
        bytes: usize,
    ) -> DeviceMemory {
        DeviceMemory {
            context: Arc::clone(context),
            address: shared.address(),
            bytes,
            in_order: None,
            shared: Some(shared),
        }
    }

    /// Moves the pages of unified memory, in stream order.
    pub(crate) fn prefetch(&self, near: Near, stream: &Stream) -> Result<(), CudaFailure> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.bind()?;
        let (driver, place) = (self.context.driver, self.number_of(near));
        // SAFETY: the allocation is unified, which the buffer has checked, and holds `bytes`; the stream lives.
        let code =
            unsafe { (driver.cuMemPrefetchAsync)(self.address, self.bytes, place, stream.raw()) };
        driver.check("cuMemPrefetchAsync", code)
    }

    /// Says how unified memory will be used.
    pub(crate) fn advise(&self, advice: Advice) -> Result<(), CudaFailure> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.bind()?;
        let driver = self.context.driver;
        // `CU_MEM_ADVISE_SET_READ_MOSTLY`, `.._SET_PREFERRED_LOCATION` and `.._SET_ACCESSED_BY`; the first takes no place.
        let (number, place) = match advice {
            Advice::ReadMostly => (1, self.number_of(Near::Device)),
            Advice::Prefer(near) => (3, self.number_of(near)),
            Advice::AccessedBy(near) => (5, self.number_of(near)),
        };
        // SAFETY: as for `prefetch`.
        let code = unsafe { (driver.cuMemAdvise)(self.address, self.bytes, number, place) };
        driver.check("cuMemAdvise", code)
    }

    /// What the driver calls a place.
    fn number_of(&self, near: Near) -> i32 {
        match near {
            Near::Device => self.context.ordinal() as i32,
            Near::Host => HOST,
        }
    }

    /// The address, as kernels see it.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Copies from the host. Everything on the device is finished before, and the copy is finished on return.
    ///
    /// # Panics
    /// If `source` has another length than the allocation: callers check lengths where they can name the buffer.
    pub(crate) fn write(&self, source: &[u8]) -> Result<(), CudaFailure> {
        assert_eq!(
            source.len(),
            self.bytes,
            "a copy is as long as its allocation"
        );
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.synchronize()?;
        let driver = self.context.driver;
        // SAFETY: `source` is readable and the allocation writable for `bytes`.
        let code =
            unsafe { (driver.cuMemcpyHtoD)(self.address, source.as_ptr().cast(), self.bytes) };
        driver.check("cuMemcpyHtoD", code)?;
        // From pageable memory the call may return while the last piece is still on its way to the device.
        self.context.synchronize()
    }

    /// Copies to the host and returns the bytes as initialised. Everything on the device is finished before.
    ///
    /// # Panics
    /// If `target` has another length than the allocation.
    pub(crate) fn read<'a>(
        &self,
        target: &'a mut [MaybeUninit<u8>],
    ) -> Result<&'a mut [u8], CudaFailure> {
        assert_eq!(
            target.len(),
            self.bytes,
            "a copy is as long as its allocation"
        );
        if self.bytes > 0 {
            self.context.synchronize()?;
            let driver = self.context.driver;
            // SAFETY: the allocation is readable and `target` writable for `bytes`; the call is synchronous.
            let code = unsafe {
                (driver.cuMemcpyDtoH)(target.as_mut_ptr().cast(), self.address, self.bytes)
            };
            driver.check("cuMemcpyDtoH", code)?;
        }
        // SAFETY: every byte was written above, or there are none.
        Ok(unsafe { target.assume_init_mut() })
    }

    /// Sets every byte. Everything on the device is finished before, and the fill is finished on return.
    pub(crate) fn fill_now(&self, byte: u8) -> Result<(), CudaFailure> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.synchronize()?;
        let driver = self.context.driver;
        // SAFETY: the allocation is writable for `bytes`; the null stream is the default one.
        let code =
            unsafe { (driver.cuMemsetD8Async)(self.address, byte, self.bytes, StreamHandle::NULL) };
        driver.check("cuMemsetD8Async", code)?;
        self.context.synchronize()
    }

    /// Sets every byte, in stream order.
    pub(crate) fn fill(&self, byte: u8, stream: &Stream) -> Result<(), CudaFailure> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: the allocation is writable for `bytes`. Dropping it while the fill runs is ordered by cuMemFree.
        let code =
            unsafe { (driver.cuMemsetD8Async)(self.address, byte, self.bytes, stream.raw()) };
        driver.check("cuMemsetD8Async", code)
    }

    /// Copies the whole of `source`, in stream order.
    ///
    /// # Panics
    /// If the two allocations differ in length.
    pub(crate) fn copy_from(
        &self,
        source: &DeviceMemory,
        stream: &Stream,
    ) -> Result<(), CudaFailure> {
        assert_eq!(
            source.bytes, self.bytes,
            "a copy is as long as its allocation"
        );
        if self.bytes == 0 {
            return Ok(());
        }
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: both allocations hold `bytes` and live on this device.
        let code = unsafe {
            (driver.cuMemcpyDtoDAsync)(self.address, source.address, self.bytes, stream.raw())
        };
        driver.check("cuMemcpyDtoDAsync", code)
    }
}

/// Copies between page-locked memory of the host and the GPU, which the host does not wait for.
impl DeviceMemory {
    /// Copies the whole of `source`, in stream order.
    ///
    /// # Panics
    /// If the two allocations differ in length, as for [`download`](DeviceMemory::download).
    pub(crate) fn upload(&self, source: &HostMemory, stream: &Stream) -> Result<(), CudaFailure> {
        let Some((host, driver)) = self.beside(source)? else {
            return Ok(());
        };
        // SAFETY: both hold `bytes`. Dropping either waits for the copy: cuMemFree does, and the host's memory waits for the context.
        let code =
            unsafe { (driver.cuMemcpyHtoDAsync)(self.address, host, self.bytes, stream.raw()) };
        driver.check("cuMemcpyHtoDAsync", code)
    }

    /// Copies all of it to `target`, in stream order.
    pub(crate) fn download(&self, target: &HostMemory, stream: &Stream) -> Result<(), CudaFailure> {
        let Some((host, driver)) = self.beside(target)? else {
            return Ok(());
        };
        // SAFETY: as for `upload`.
        let code =
            unsafe { (driver.cuMemcpyDtoHAsync)(host, self.address, self.bytes, stream.raw()) };
        driver.check("cuMemcpyDtoHAsync", code)
    }

    /// The memory of the host, where there is anything to copy; the context is current then.
    fn beside(
        &self,
        host: &HostMemory,
    ) -> Result<Option<(*mut c_void, &'static Driver)>, CudaFailure> {
        let (host, bytes) = host.whole();
        assert_eq!(bytes, self.bytes, "a copy is as long as its allocation");
        if bytes == 0 {
            return Ok(None);
        }
        self.context.bind()?;
        Ok(Some((host, self.context.driver)))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let is_given_back = self.bytes == 0 || self.shared.is_some();
        if is_given_back || self.context.is_abandoned() || self.context.bind().is_err() {
            return;
        }
        // A failure would repeat that of an earlier kernel, which the next synchronisation reports.
        if let Some(stream) = &self.in_order {
            // SAFETY: allocated once, freed once, behind what the stream was given.
            let _ = unsafe { (self.context.driver.cuMemFreeAsync)(self.address, stream.raw()) };
            return;
        }
        // SAFETY: allocated once, freed once. cuMemFree waits for work that is in flight on the device.
        let _ = unsafe { (self.context.driver.cuMemFree)(self.address) };
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY` says no numbers; they are what the reader needs.
fn describe_allocation(context: &Context, asked_bytes: usize, failure: CudaFailure) -> Error {
    match context.memory_bytes() {
        Ok((free_bytes, total_bytes)) if failure.code == 2 => Error::OutOfMemory {
            asked_bytes,
            free_bytes,
            total_bytes,
        },
        _ => Error::Cuda(failure),
    }
}
