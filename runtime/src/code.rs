//! Code on a device, and its entries.

use std::sync::Arc;
use std::time::Duration;

use crate::cuda;
use crate::device::{Backend, Device, EntryFacts};
use crate::emulated::{EmulatedCode, EmulatedDevice, EmulatedEntry};
use crate::error::{Error, Result};
use crate::launch::{Grid, ParameterBlock};
use crate::ptxas::{AssemblyReport, EntryReport};
use crate::stream::{Queue, Stream};
use crate::toolchain::Image;

/// A module that a device has loaded.
pub struct Code {
    device: Device,
    module: Loaded,
    assembly: Option<AssemblyReport>,
}

enum Loaded {
    Cuda(Arc<cuda::Module>),
    Emulated(EmulatedCode),
}

/// What a launch of an entry is bound to, beside its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryShape {
    /// The entry's name in the module.
    pub name: String,
    /// Threads in x, y and z of a CTA.
    pub threads: [u32; 3],
    /// CTAs of a cluster in x, y and z; all 1 for no cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per CTA, bytes.
    pub shared_bytes: u32,
    /// Whether it may start before the kernel in front of it has ended (programmatic dependent launch).
    pub overlaps_previous: bool,
}

/// An entry, ready to be launched.
pub struct Entry {
    device: Device,
    shape: EntryShape,
    assembly: Option<EntryReport>,
    function: Function,
}

enum Function {
    Cuda(cuda::Function),
    Emulated(EmulatedEntry),
}

impl Device {
    /// Loads a cubin, or PTX by the driver's compiler. The emulator reads PTX.
    ///
    /// # Errors
    /// [`Error::Jit`] with the compiler's log, [`Error::PtxText`] for text that the emulator cannot read, and
    /// [`Error::NotEmulated`] for a cubin there.
    pub fn load(&self, image: &Image) -> Result<Code> {
        match (self.backend(), image) {
            (Backend::Cuda(context), _) => {
                let assembly = match image {
                    Image::Cubin { assembled, .. } => Some(assembled.report.clone()),
                    Image::Ptx(_) => None,
                };
                let module = Loaded::Cuda(cuda::Module::load(context, image.bytes())?);
                Ok(Code {
                    device: self.clone(),
                    module,
                    assembly,
                })
            }
            (Backend::Emulator(emulator), Image::Ptx(text)) => {
                self.load_emulated(emulator, Arc::new(ptx::Module::parse(text)?))
            }
            (Backend::Emulator(_), Image::Cubin { .. }) => {
                Err(Error::NotEmulated { what: "a cubin" })
            }
        }
    }

    /// Loads PTX text: by ptxas where it is found, else by the driver's compiler.
    ///
    /// # Errors
    /// What ptxas, the driver or the emulator has against it.
    pub fn load_ptx(&self, text: &str) -> Result<Code> {
        match self.backend() {
            Backend::Cuda(_) => self.load(&self.toolchain().image(text)?),
            Backend::Emulator(_) => self.load(&Image::Ptx(text.to_string())),
        }
    }

    /// Loads a module whose text is `text`.
    pub(crate) fn load_module(&self, module: &Arc<ptx::Module>, text: &str) -> Result<Code> {
        match self.backend() {
            Backend::Cuda(_) => self.load_ptx(text),
            Backend::Emulator(emulator) => self.load_emulated(emulator, Arc::clone(module)),
        }
    }

    fn load_emulated(
        &self,
        emulator: &Arc<EmulatedDevice>,
        module: Arc<ptx::Module>,
    ) -> Result<Code> {
        let module = Loaded::Emulated(EmulatedCode::load(emulator, module)?);
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
    /// [`Error::NoSuchEntry`], or [`Error::TooMuchSharedMemory`].
    pub fn entry(&self, shape: EntryShape) -> Result<Arc<Entry>> {
        let function = match &self.module {
            Loaded::Cuda(module) => Function::Cuda(module.entry(&shape.name, shape.shared_bytes)?),
            Loaded::Emulated(code) => {
                Function::Emulated(code.entry(&shape.name, shape.shared_bytes)?)
            }
        };
        let assembly = self
            .assembly
            .as_ref()
            .and_then(|report| report.entry(&shape.name))
            .cloned();
        Ok(Arc::new(Entry {
            device: self.device.clone(),
            shape,
            assembly,
            function,
        }))
    }

    /// What the driver's compiler noted; empty for a cubin and on the emulator.
    pub fn log(&self) -> &[String] {
        match &self.module {
            Loaded::Cuda(module) => module.log(),
            Loaded::Emulated(_) => &[],
        }
    }

    /// How long a GPU took to load it, the driver's compiler included.
    pub fn load_time(&self) -> Option<Duration> {
        match &self.module {
            Loaded::Cuda(module) => Some(module.load_time()),
            Loaded::Emulated(_) => None,
        }
    }
}

impl Entry {
    /// What its launches are bound to.
    pub fn shape(&self) -> &EntryShape {
        &self.shape
    }

    /// The device that has it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What ptxas said of it, if it was assembled by ptxas.
    pub fn assembly(&self) -> Option<&EntryReport> {
        self.assembly.as_ref()
    }

    /// Registers and memory, as the driver has them for the loaded code.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] on the emulator, which executes PTX and has no registers to count.
    pub fn facts(&self) -> Result<EntryFacts> {
        match &self.function {
            Function::Cuda(function) => Ok(function.facts()?),
            Function::Emulated(_) => Err(Error::NotEmulated {
                what: "machine code",
            }),
        }
    }

    /// How many CTAs fit on one multiprocessor at a time.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] on the emulator.
    pub fn ctas_per_multiprocessor(&self) -> Result<u32> {
        match &self.function {
            Function::Cuda(function) => {
                Ok(function.ctas_per_multiprocessor(self.shape.threads.iter().product())?)
            }
            Function::Emulated(_) => Err(Error::NotEmulated {
                what: "machine code",
            }),
        }
    }

    /// How many clusters of this entry's size the device holds at a time.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] on the emulator.
    pub fn max_active_clusters(&self, stream: &Stream, grid: Grid) -> Result<u32> {
        stream.expect_own("a kernel", &self.device)?;
        match (&self.function, stream.queue()) {
            (Function::Cuda(function), Queue::Cuda(stream)) => {
                Ok(function.max_active_clusters(stream, &self.launch_shape(grid))?)
            }
            _ => Err(Error::NotEmulated {
                what: "machine code",
            }),
        }
    }

    /// Launches with packed parameters. Typed launchers do this for you.
    ///
    /// # Errors
    /// [`Error::BadGrid`], [`Error::ParameterMismatch`], [`Error::DeviceMismatch`], or the device's answer.
    pub fn launch(&self, stream: &Stream, grid: Grid, parameters: &ParameterBlock) -> Result<()> {
        self.check(grid, parameters)?;
        self.launch_checked(stream, grid, parameters)
    }

    /// Size of each parameter that the loaded code has, bytes.
    pub fn parameter_bytes(&self) -> &[u32] {
        match &self.function {
            Function::Cuda(function) => function.parameter_bytes(),
            Function::Emulated(entry) => entry.parameter_bytes(),
        }
    }

    /// Whether the grid can be, and the arguments are as many and as large as the loaded code's parameters.
    pub(crate) fn check(&self, grid: Grid, parameters: &ParameterBlock) -> Result<()> {
        grid.check(&self.shape.name)?;
        let wanted = self.parameter_bytes().iter();
        let given = parameters.places().iter().map(|place| &place.bytes);
        if given.clone().eq(wanted) {
            return Ok(());
        }
        Err(Error::ParameterMismatch {
            kernel: self.shape.name.clone(),
            wanted: self.parameter_bytes().to_vec(),
            given: given.copied().collect(),
        })
    }

    #[inline]
    pub(crate) fn launch_checked(
        &self,
        stream: &Stream,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<()> {
        stream.expect_own("a kernel", &self.device)?;
        match (&self.function, stream.queue()) {
            (Function::Cuda(function), Queue::Cuda(stream)) => {
                let shape = self.launch_shape(grid);
                function.launch(stream, &shape, parameters)
            }
            (Function::Emulated(entry), Queue::Immediate(stream)) if stream.is_capturing() => {
                let (entry, shape) = (entry.clone(), self.shape.clone());
                let parameters = parameters.clone();
                stream.run(move || entry.launch(&shape, grid, &parameters))
            }
            (Function::Emulated(entry), Queue::Immediate(_)) => {
                entry.launch(&self.shape, grid, parameters)
            }
            _ => unreachable!("a stream of the kernel's own device is of the kernel's kind"),
        }
    }

    fn launch_shape(&self, grid: Grid) -> cuda::LaunchShape {
        cuda::LaunchShape {
            grid: grid.0,
            threads: self.shape.threads,
            cluster: self.shape.cluster,
            overlaps_previous: self.shape.overlaps_previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::grid;

    const KERNEL: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n\
        .visible .entry k(.param .u32 n, .param .align 64 .b8 map[128], .param .u64 out)\n{ ret; }\n";

    /// A block of parameters of these sizes, each aligned to its own but the largest to 64.
    fn block(sizes: &[usize]) -> ParameterBlock {
        let mut block = ParameterBlock::new();
        for &bytes in sizes {
            block.push(&vec![0; bytes], bytes.min(64));
        }
        block
    }

    #[test]
    fn arguments_of_other_sizes_are_refused_before_the_device_sees_them() {
        for device in [Some(Device::emulator()), Device::cuda(0).ok()]
            .into_iter()
            .flatten()
        {
            let shape = EntryShape {
                name: "k".to_string(),
                threads: [32, 1, 1],
                cluster: [1; 3],
                shared_bytes: 0,
                overlaps_previous: false,
            };
            let stream = Stream::new(&device).unwrap();
            let entry = device.load_ptx(KERNEL).unwrap().entry(shape).unwrap();
            assert_eq!(entry.parameter_bytes(), [4, 128, 8]);
            entry
                .launch(&stream, grid(1u32), &block(&[4, 128, 8]))
                .unwrap();
            for wrong in [
                &[4, 128][..],
                &[4, 128, 4],
                &[4, 8, 128],
                &[4, 128, 8, 8],
                &[],
            ] {
                let refused = entry.launch(&stream, grid(1u32), &block(wrong));
                assert!(
                    matches!(refused, Err(Error::ParameterMismatch { .. })),
                    "{wrong:?}"
                );
            }
            stream.synchronize().unwrap();
        }
    }
}
