//! Devices: a GPU or the emulator.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ptx::{EncodedTensorMap, TensorMap};
use target::Target;

use crate::backend::{AnyDevice, AnyMapped, AnyMemory, Backend, On};
use crate::cuda;
use crate::emulated::{EmulatedDevice, EmulatorOptions};
use crate::error::{Error, Result};
use crate::toolchain::Toolchain;

pub use machine::driver::DeviceFacts;

/// Something that runs kernels. Cloning it gives another name for the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: AnyDevice,
    why_emulator: Option<Error>,
    toolchain: OnceLock<Toolchain>,
}

impl Device {
    /// GPU number `ordinal`, counted from 0 among those that `CUDA_VISIBLE_DEVICES` shows.
    ///
    /// # Errors
    /// No driver, a driver that is too old, no such GPU, or one whose compute capability is not that of a
    /// [`Target`].
    pub fn cuda(ordinal: usize) -> Result<Device> {
        Ok(Device::new(On::Cuda(cuda::Context::open(ordinal)?), None))
    }

    /// The emulator, with memory of its own.
    pub fn emulator() -> Device {
        Device::emulator_with(EmulatorOptions::default())
    }

    /// The emulator under the schedule of this seed; 0 is round robin. A kernel whose result
    /// depends on the seed has a race.
    pub fn emulator_with_seed(seed: u64) -> Device {
        Device::emulator_with(EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        })
    }

    /// The emulator with this order of warps, these checks and this limit.
    pub fn emulator_with(options: EmulatorOptions) -> Device {
        Device::new(On::Emulator(Arc::new(EmulatedDevice::new(options))), None)
    }

    /// GPU 0 if it can be used, else the emulator; [`why_emulator`](Device::why_emulator) then says why.
    pub fn auto() -> Device {
        Device::auto_with(EmulatorOptions::default())
    }

    /// The same with these options of the emulator.
    pub fn auto_with(options: EmulatorOptions) -> Device {
        Device::cuda(0).unwrap_or_else(|why| {
            let emulator = EmulatedDevice::new(options);
            Device::new(On::Emulator(Arc::new(emulator)), Some(why))
        })
    }

    pub(crate) fn of_backend(backend: AnyDevice) -> Device {
        Device::new(backend, None)
    }

    fn new(backend: AnyDevice, why_emulator: Option<Error>) -> Device {
        Device(Arc::new(Inner {
            backend,
            why_emulator,
            toolchain: OnceLock::new(),
        }))
    }

    /// Whether it is a GPU.
    pub fn is_cuda(&self) -> bool {
        matches!(self.backend(), On::Cuda(_))
    }

    /// Its number among the GPUs that the driver shows; none for the emulator.
    pub(crate) fn ordinal(&self) -> Option<usize> {
        match self.backend() {
            On::Cuda(context) => Some(context.ordinal()),
            On::Emulator(_) => None,
        }
    }

    /// Why [`auto`](Device::auto) did not choose a GPU.
    pub fn why_emulator(&self) -> Option<&Error> {
        self.0.why_emulator.as_ref()
    }

    /// What assembles PTX for it, looked for on the first call.
    pub fn toolchain(&self) -> &Toolchain {
        self.0
            .toolchain
            .get_or_init(|| Toolchain::find(self.facts().driver_version))
    }

    /// Facts about it.
    pub fn facts(&self) -> &DeviceFacts {
        match self.backend() {
            On::Cuda(context) => context.facts(),
            On::Emulator(emulator) => emulator.facts(),
        }
    }

    /// Waits for everything on the device, of all streams. On the emulator that is launches beside the host
    /// ([`MappedBuffer`](crate::MappedBuffer)).
    ///
    /// # Errors
    /// What a kernel that ran since the last wait ended with.
    pub fn synchronize(&self) -> Result<()> {
        match self.backend() {
            On::Cuda(context) => Backend::synchronize(&**context),
            On::Emulator(emulator) => emulator.synchronize(),
        }
    }

    /// Free and total memory, in bytes.
    pub fn memory_bytes(&self) -> Result<(usize, usize)> {
        match self.backend() {
            On::Cuda(context) => Backend::memory_bytes(&**context),
            On::Emulator(emulator) => emulator.memory_bytes(),
        }
    }

    /// What the last launch on the emulator did, in counts; none on a GPU, and before any.
    pub fn emulator_stats(&self) -> Option<emulator::Stats> {
        match self.backend() {
            On::Cuda(_) => None,
            On::Emulator(emulator) => emulator.stats(),
        }
    }

    /// Is it the emulator as a model of an H200's time, where a few CTAs stand for all of a launch and results are not whole?
    pub fn is_modelling(&self) -> bool {
        match self.backend() {
            On::Cuda(_) => false,
            On::Emulator(emulator) => emulator.is_modelling(),
        }
    }

    /// The machine whose limits hold there.
    pub(crate) fn target(&self) -> &'static Target {
        match self.backend() {
            On::Cuda(context) => context.target(),
            On::Emulator(emulator) => emulator.target(),
        }
    }

    /// Makes its context the calling thread's, which a library that launches there wants.
    pub(crate) fn bind(&self) -> Result<()> {
        match self.backend() {
            On::Cuda(context) => Ok(context.bind()?),
            On::Emulator(_) => Ok(()),
        }
    }

    /// Whether kernels of it could access memory of the GPU of this number.
    pub(crate) fn can_access(&self, peer: usize) -> Result<bool> {
        match self.backend() {
            On::Cuda(context) => Ok(context.can_access(peer)?),
            On::Emulator(_) => Ok(false),
        }
    }

    /// Leaves it alone: a kernel runs there that nobody waits for. Memory and code are not freed any more, which would wait for it.
    pub(crate) fn abandon(&self) {
        if let On::Cuda(context) = self.backend() {
            context.abandon();
        }
    }

    /// Whether a kernel runs there that nobody waits for.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self.backend(), On::Cuda(context) if context.is_abandoned())
    }

    /// The bytes of a tensor map whose rules have been checked.
    pub(crate) fn encode_tensor_map(&self, map: &TensorMap) -> Result<EncodedTensorMap> {
        match self.backend() {
            On::Cuda(context) => context.encode_tensor_map(map),
            On::Emulator(emulator) => emulator.encode_tensor_map(map),
        }
    }

    pub(crate) fn backend(&self) -> &AnyDevice {
        &self.0.backend
    }

    pub(crate) fn allocate_mapped(&self, bytes: usize, element_bytes: usize) -> Result<AnyMapped> {
        Ok(match self.backend() {
            On::Cuda(context) => On::Cuda(context.allocate_mapped(bytes, element_bytes)?),
            On::Emulator(emulator) => On::Emulator(emulator.allocate_mapped(bytes, element_bytes)?),
        })
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<AnyMemory> {
        Ok(match self.backend() {
            On::Cuda(context) => On::Cuda(context.allocate(bytes)?),
            On::Emulator(emulator) => On::Emulator(emulator.allocate(bytes)?),
        })
    }
}

/// Whether two names are of one device.
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        match (self.backend(), other.backend()) {
            // A GPU that is opened twice has one primary context and one memory.
            (On::Cuda(this), On::Cuda(that)) => this.ordinal() == that.ordinal(),
            (On::Emulator(this), On::Emulator(that)) => Arc::ptr_eq(this, that),
            _ => false,
        }
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.facts().name)
    }
}

/// Every device of this machine that tests run on: the emulator, and a GPU where there is one.
#[cfg(test)]
pub(crate) fn devices() -> Vec<Device> {
    [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
        .collect()
}

/// What the driver says of loaded code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFacts {
    /// Registers per thread at entry.
    pub registers: u32,
    /// Local memory per thread, bytes; above 0 for spills.
    pub local_bytes: u32,
    /// Statically allocated shared memory per CTA, bytes.
    pub static_shared_bytes: u32,
    /// The most threads that a CTA of this code may have.
    pub max_threads: u32,
}
