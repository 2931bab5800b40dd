//! Code on a device, and its entries.

mod entry;
mod prepared;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use entry::Entry;
pub use prepared::PreparedLaunch;

use crate::backend::On;
use crate::cuda;
use crate::device::Device;
use crate::emulated::{EmulatedCode, EmulatedDevice};
use crate::error::{Error, Result};
use crate::launch::EntryShape;
use crate::ptxas::AssemblyReport;
use crate::toolchain::Image;

/// A module that a device has loaded.
pub struct Code {
    device: Device,
    module: Loaded,
    assembly: Option<AssemblyReport>,
}

type Loaded = On<Arc<cuda::Module>, EmulatedCode>;

impl Device {
    /// Loads a cubin, or PTX by the driver's compiler. The emulator reads PTX.
    ///
    /// # Errors
    /// [`Error::Jit`] with the compiler's log, [`Error::PtxText`] for text that the emulator cannot read, and
    /// [`Error::NotEmulated`] for a cubin there.
    pub fn load(&self, image: &Image) -> Result<Code> {
        match (self.backend(), image) {
            (On::Cuda(context), _) => {
                let assembly = match image {
                    Image::Cubin { assembled, .. } => Some(assembled.report.clone()),
                    Image::Ptx(_) => None,
                };
                let module = On::Cuda(cuda::Module::load(context, image.bytes())?);
                Ok(Code {
                    device: self.clone(),
                    module,
                    assembly,
                })
            }
            (On::Emulator(emulator), Image::Ptx(text)) => {
                self.load_emulated(emulator, Arc::new(ptx::Module::parse(text)?))
            }
            (On::Emulator(_), Image::Cubin { .. }) => Err(Error::NotEmulated { what: "a cubin" }),
        }
    }

    /// Loads PTX text: by ptxas where it is found, else by the driver's compiler.
    ///
    /// # Errors
    /// What ptxas, the driver or the emulator has against it.
    pub fn load_ptx(&self, text: &str) -> Result<Code> {
        match self.backend() {
            On::Cuda(_) => self.load(&self.toolchain().image(text)?),
            On::Emulator(_) => self.load(&Image::Ptx(text.to_string())),
        }
    }

    /// Loads a module whose text is `text`.
    pub(crate) fn load_module(&self, module: &Arc<ptx::Module>, text: &str) -> Result<Code> {
        match self.backend() {
            On::Cuda(_) => self.load_ptx(text),
            On::Emulator(emulator) => self.load_emulated(emulator, Arc::clone(module)),
        }
    }

    fn load_emulated(
        &self,
        emulator: &Arc<EmulatedDevice>,
        module: Arc<ptx::Module>,
    ) -> Result<Code> {
        let module = On::Emulator(EmulatedCode::load(emulator, module)?);
        Ok(Code {
            device: self.clone(),
            module,
            assembly: None,
        })
    }
}

impl Code {
    /// The entry that `shape` names.
    ///
    /// # Errors
    /// [`Error::NoSuchEntry`], [`Error::TooMuchSharedMemory`], [`Error::ClusterTooLarge`], or [`Error::DoesNotFit`] for
    /// what the GPU could never start.
    pub fn entry(&self, shape: EntryShape) -> Result<Arc<Entry>> {
        shape.check_cluster(self.device.target())?;
        let function = match &self.module {
            On::Cuda(module) => {
                let function = module.entry(&shape.name, shape.shared_bytes, shape.parameters)?;
                function.expect_room(shape.threads, shape.cluster)?;
                On::Cuda(function)
            }
            On::Emulator(code) => On::Emulator(code.entry(&shape.name, shape.shared_bytes)?),
        };
        let assembly = self
            .assembly
            .as_ref()
            .and_then(|report| report.entry(&shape.name))
            .cloned();
        let is_limited = shape.is_cooperative && self.device.is_cuda();
        let mut entry = Entry {
            device: self.device.clone(),
            shape,
            assembly,
            function,
            most_ctas: None,
            active_clusters: OnceLock::new(),
        };
        if is_limited {
            entry.most_ctas = Some(entry.resident()?.ctas as u64);
        }
        Ok(Arc::new(entry))
    }

    /// What the driver's compiler noted; empty for a cubin and on the emulator.
    pub fn log(&self) -> &[String] {
        match &self.module {
            On::Cuda(module) => module.log(),
            On::Emulator(_) => &[],
        }
    }

    /// How long a GPU took to load it, the driver's compiler included.
    pub fn load_time(&self) -> Option<Duration> {
        match &self.module {
            On::Cuda(module) => Some(module.load_time()),
            On::Emulator(_) => None,
        }
    }
}
