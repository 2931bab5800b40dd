//! Code on a device, and its entries.

use std::sync::Arc;
use std::time::Duration;

use crate::cuda;
use crate::device::{Backend, Device, EntryFacts, ParameterPlace};
use crate::error::{Error, Result};
use crate::launch::{Grid, ParameterBlock};
use crate::stream::{Queue, Stream};
use crate::toolchain::Image;

/// A module that a device has loaded.
pub struct Code {
    device: Device,
    module: Loaded,
}

enum Loaded {
    Cuda(Arc<cuda::Module>),
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
    function: Function,
}

enum Function {
    Cuda(cuda::Function),
}

impl Device {
    /// Loads a cubin, or PTX by the driver's compiler.
    ///
    /// # Errors
    /// [`Error::Jit`] with the compiler's log.
    pub fn load(&self, image: &Image) -> Result<Code> {
        let module = match self.backend() {
            Backend::Cuda(context) => Loaded::Cuda(cuda::Module::load(context, image.bytes())?),
        };
        Ok(Code {
            device: self.clone(),
            module,
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
        };
        Ok(Arc::new(Entry {
            device: self.device.clone(),
            shape,
            function,
        }))
    }

    /// What the driver's compiler noted; empty if the code was a cubin.
    pub fn log(&self) -> &[String] {
        match &self.module {
            Loaded::Cuda(module) => module.log(),
        }
    }

    /// How long loading took, the driver's compiler included.
    pub fn load_time(&self) -> Duration {
        match &self.module {
            Loaded::Cuda(module) => module.load_time(),
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

    /// Registers and memory, as the driver has them for the loaded code.
    pub fn facts(&self) -> Result<EntryFacts> {
        match &self.function {
            Function::Cuda(function) => Ok(function.facts()?),
        }
    }

    /// How many CTAs fit on one multiprocessor at a time.
    pub fn ctas_per_multiprocessor(&self) -> Result<u32> {
        match &self.function {
            Function::Cuda(function) => {
                Ok(function.ctas_per_multiprocessor(self.shape.threads.iter().product())?)
            }
        }
    }

    /// How many clusters of this entry's size the device holds at a time.
    pub fn max_active_clusters(&self, stream: &Stream, grid: Grid) -> Result<u32> {
        match (&self.function, stream.queue()) {
            (Function::Cuda(function), Queue::Cuda(stream)) => {
                Ok(function.max_active_clusters(stream, &self.launch_shape(grid))?)
            }
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

    /// Where the loaded code reads each parameter.
    pub fn parameters(&self) -> &[ParameterPlace] {
        match &self.function {
            Function::Cuda(function) => function.parameters(),
        }
    }

    /// Whether the grid can be, and every parameter lies where the loaded code reads it.
    pub(crate) fn check(&self, grid: Grid, parameters: &ParameterBlock) -> Result<()> {
        grid.check(&self.shape.name)?;
        let wanted = self.parameters();
        let ends = parameters.offsets().iter().skip(1).copied();
        let ends = ends.chain([parameters.bytes().len() as u32]);
        let fits =
            parameters.len() == wanted.len()
                && parameters.offsets().iter().zip(ends).zip(wanted).all(
                    |((&start, end), place)| start == place.offset && end - start >= place.bytes,
                );
        if fits {
            return Ok(());
        }
        Err(Error::ParameterMismatch {
            kernel: self.shape.name.clone(),
            wanted: wanted.to_vec(),
            given: parameters.offsets().to_vec(),
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
                let parameters = cuda::Parameters {
                    bytes: parameters.bytes(),
                    offsets: parameters.offsets(),
                };
                function.launch(stream, &shape, parameters)
            }
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
