//! A GPU, its facts, and the context in which everything else is made.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use launch::driver::ContextHandle;
use target::{TARGETS, Target};

use super::{CudaFailure, DeviceFacts, Driver};
use crate::Error;

/// The primary context of one GPU, retained while this lives.
///
/// The primary context is the one that the CUDA runtime, candle and cudarc share, so pointers can be exchanged.
pub struct Context {
    /// The driver's functions.
    pub driver: &'static Driver,
    ordinal: usize,
    device: c_int,
    raw: ContextHandle,
    facts: DeviceFacts,
    target: &'static Target,
}

impl Context {
    /// Opens GPU number `ordinal`, which must have the compute capability of a [`Target`].
    pub fn open(ordinal: usize) -> Result<Arc<Context>, Error> {
        let driver = Driver::get()?;
        let device = driver.launcher.device(ordinal)?;
        let facts = read_facts(driver, device)?;
        let found = TARGETS
            .into_iter()
            .find(|target| target.compute_capability == facts.capability);
        let Some(target) = found else {
            return Err(Error::UnsupportedGpu {
                name: facts.name,
                capability: facts.capability,
            });
        };
        let raw = driver.launcher.retain_primary(device)?;
        Ok(Arc::new(Context {
            driver,
            ordinal,
            device,
            raw,
            facts,
            target,
        }))
    }

    /// Its number among the GPUs that the driver shows.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Its handle, for libraries that work on it while this lives.
    pub fn handle(&self) -> ContextHandle {
        self.raw
    }

    /// The architecture, with its limits.
    pub fn target(&self) -> &'static Target {
        self.target
    }

    /// What the driver says about it.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Makes this context the calling thread's, which most driver calls want.
    ///
    /// It is set every time and not remembered, because another library may have set its own in between.
    #[inline]
    pub fn bind(&self) -> Result<(), CudaFailure> {
        // SAFETY: the context is retained while `self` lives.
        unsafe { self.driver.launcher.set_current(self.raw) }
    }

    /// Waits for everything on the device, of all streams.
    pub fn synchronize(&self) -> Result<(), CudaFailure> {
        self.bind()?;
        // SAFETY: a context is current.
        let code = unsafe { (self.driver.cuCtxSynchronize)() };
        self.driver.check("cuCtxSynchronize", code)
    }

    /// Could kernels of this GPU access memory of the GPU of this number? It need not be open.
    pub fn can_access(&self, ordinal: usize) -> Result<bool, Error> {
        let peer = self.driver.launcher.device(ordinal)?;
        let mut can = 0;
        // SAFETY: writes one integer; both devices came from cuDeviceGet.
        let code = unsafe { (self.driver.cuDeviceCanAccessPeer)(&raw mut can, self.device, peer) };
        self.driver.check("cuDeviceCanAccessPeer", code)?;
        Ok(can != 0)
    }

    /// Maps all memory of another GPU into the addresses of this one, for good.
    pub fn enable_access(&self, peer: &Context) -> Result<(), CudaFailure> {
        self.bind()?;
        // SAFETY: a context is current; that of the peer is retained while `peer` lives, and memory of a peer that is gone is freed with it.
        let code = unsafe { (self.driver.cuCtxEnablePeerAccess)(peer.raw, 0) };
        if code == PEER_ACCESS_ALREADY_ENABLED {
            return Ok(());
        }
        self.driver.check("cuCtxEnablePeerAccess", code)
    }

    /// Leaves the GPU alone, in all of this process: a kernel runs there that never ends. What frees memory or code asks first, since that would wait
    /// for the kernel, or take away what it accesses.
    pub fn abandon(&self) {
        ABANDONED.fetch_or(self.bit(), Ordering::AcqRel);
    }

    /// Whether this process has given up a kernel on this GPU.
    pub fn is_abandoned(&self) -> bool {
        ABANDONED.load(Ordering::Acquire) & self.bit() != 0
    }

    /// Beyond 63 GPUs, the last one stands for the rest.
    fn bit(&self) -> u64 {
        1 << self.ordinal.min(63)
    }

    /// Free and total device memory, in bytes.
    pub fn memory_bytes(&self) -> Result<(usize, usize), CudaFailure> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers; a context is current.
        let code = unsafe { (self.driver.cuMemGetInfo)(&raw mut free, &raw mut total) };
        self.driver.check("cuMemGetInfo", code)?;
        Ok((free, total))
    }
}

/// A bit for each GPU that was given up.
static ABANDONED: AtomicU64 = AtomicU64::new(0);

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_abandoned() {
            return;
        }
        // A failure here would only say that the driver is shutting down.
        // SAFETY: retained once in `open`, released once here, after everything made in it (they hold an `Arc`).
        let _ = unsafe { (self.driver.cuDevicePrimaryCtxRelease)(self.device) };
    }
}

/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`
const PEER_ACCESS_ALREADY_ENABLED: u32 = 704;

fn read_facts(driver: &Driver, device: c_int) -> Result<DeviceFacts, CudaFailure> {
    let launcher = driver.launcher;
    let attribute = |number| launcher.device_attribute(device, number);
    let mut total_bytes = 0;
    // SAFETY: writes one integer; `device` came from cuDeviceGet.
    let code = unsafe { (driver.cuDeviceTotalMem)(&raw mut total_bytes, device) };
    driver.check("cuDeviceTotalMem", code)?;
    Ok(DeviceFacts {
        name: launcher.device_name(device)?,
        capability: launcher.capability(device)?,
        multiprocessors: launcher.multiprocessors(device)?,
        memory_bytes: total_bytes,
        l2_bytes: attribute(L2_CACHE_SIZE)? as usize,
        shared_bytes_per_cta: attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        clock_khz: attribute(CLOCK_RATE)?,
        memory_clock_khz: attribute(MEMORY_CLOCK_RATE)?,
        memory_bus_bits: attribute(GLOBAL_MEMORY_BUS_WIDTH)?,
        driver_version: Some(launcher.version()?),
    })
}

// Of `CUdevice_attribute`, without `CU_DEVICE_ATTRIBUTE_`.
const CLOCK_RATE: u32 = 13;
const MEMORY_CLOCK_RATE: u32 = 36;
const GLOBAL_MEMORY_BUS_WIDTH: u32 = 37;
const L2_CACHE_SIZE: u32 = 38;
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: u32 = 97;
