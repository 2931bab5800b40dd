//! The typed launcher: what compiles only if the arguments fit the kernel.

use std::marker::PhantomData;
use std::sync::Arc;

use library::schedule::Resident;

use super::{Arguments, Compiled, Packing};
use crate::code::{Entry, PreparedLaunch};
use crate::device::Device;
use crate::error::Result;
use crate::kept;
use crate::launch::{Grid, ParameterBlock};
use crate::stream::Stream;

/// A compiled kernel that remembers the handles `H` of its parameters.
#[derive(Debug)]
pub struct CompiledKernel<H> {
    compiled: Compiled,
    handles: PhantomData<fn(H)>,
}

/// A kernel on a device, ready to be launched.
pub struct LoadedKernel<H> {
    compiled: Compiled,
    entry: Arc<Entry>,
    handles: PhantomData<fn(H)>,
}

impl<H> Clone for CompiledKernel<H> {
    fn clone(&self) -> Self {
        CompiledKernel {
            compiled: self.compiled.clone(),
            handles: PhantomData,
        }
    }
}

impl<H> Clone for LoadedKernel<H> {
    fn clone(&self) -> Self {
        LoadedKernel {
            compiled: self.compiled.clone(),
            entry: Arc::clone(&self.entry),
            handles: PhantomData,
        }
    }
}

impl<H> CompiledKernel<H> {
    pub(super) fn new(compiled: Compiled) -> CompiledKernel<H> {
        CompiledKernel {
            compiled,
            handles: PhantomData,
        }
    }

    /// PTX, launch information and timings.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// Puts the code on `device`.
    ///
    /// # Errors
    /// What ptxas or the driver has against the code.
    pub fn load(self, device: &Device) -> Result<LoadedKernel<H>> {
        let entry = self.compiled.load(device)?;
        Ok(LoadedKernel {
            compiled: self.compiled,
            entry,
            handles: PhantomData,
        })
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a tuple of references reads best by value"
)]
impl<H> LoadedKernel<H> {
    /// Launches `grid` CTAs. Packing and checking take some tens of nanoseconds and allocate nothing.
    ///
    /// # Errors
    /// [`Error::Misaligned`](crate::Error::Misaligned) or [`Error::NotMultiple`](crate::Error::NotMultiple) for an
    /// argument that breaks what the kernel was compiled for, or what the device has against the launch. On a GPU a
    /// failure of the kernel itself shows at the next synchronisation; on the emulator it is returned here.
    #[inline]
    pub fn launch(
        &self,
        stream: &Stream,
        grid: impl Into<Grid>,
        arguments: impl Arguments<H>,
    ) -> Result<()> {
        let mut parameters = ParameterBlock::new();
        self.pack(&arguments, &mut parameters)?;
        self.entry.launch(stream, grid.into(), &parameters)
    }

    /// The same launch, packed and checked once to be repeated. It keeps the memory of its buffers.
    ///
    /// # Errors
    /// As for [`launch`](LoadedKernel::launch).
    pub fn prepare(
        &self,
        grid: impl Into<Grid>,
        arguments: impl Arguments<H>,
    ) -> Result<PreparedLaunch> {
        let mut parameters = ParameterBlock::new();
        let (packed, kept) = kept::collect(|| self.pack(&arguments, &mut parameters));
        packed?;
        let launch = PreparedLaunch::new(&self.entry, grid.into(), parameters)?;
        Ok(launch.keeping(kept))
    }

    /// The same kernel, but its launches may start before the one in front of them on the stream has ended
    /// (programmatic dependent launch): what comes before `launch_wait()` in the kernel then runs beside the end of the
    /// other. It still sees all that the other wrote. On the emulator launches follow each other.
    ///
    /// # Errors
    /// [`Error::NeverWaits`](crate::Error::NeverWaits) for a kernel without `launch_wait()`, which would race.
    pub fn programmatic(&self) -> Result<LoadedKernel<H>> {
        self.compiled.check_waits()?;
        Ok(LoadedKernel {
            compiled: self.compiled.clone(),
            entry: self.entry.overlapping(),
            handles: PhantomData,
        })
    }

    /// The CTAs of this kernel that the device runs at a time: a persistent kernel is launched with
    /// `kernel.resident()?.programs(tiles)` programs.
    ///
    /// # Errors
    /// [`Error::NotEmulated`](crate::Error::NotEmulated) on the emulator, which runs any number at a time.
    pub fn resident(&self) -> Result<Resident> {
        self.entry.resident()
    }

    /// The entry, for its facts and for untyped launches.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// PTX, launch information and timings.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// Packs in place: a block is half a kilobyte, which is not worth moving for each launch.
    #[inline]
    pub(crate) fn pack(
        &self,
        arguments: &impl Arguments<H>,
        parameters: &mut ParameterBlock,
    ) -> Result<()> {
        let info = self.compiled.info();
        let device = self.entry.device();
        arguments.pack(&mut Packing::new(
            device,
            &info.entry,
            &info.params,
            parameters,
        ))?;
        self.compiled.check_promises(parameters)
    }
}
