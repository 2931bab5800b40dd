//! Entries of loaded code, and their launches.

use std::sync::{Arc, OnceLock};

use ::launch::nvtx;
use library::schedule::Resident;

use crate::backend::{AnyFunction, Backend, On};
use crate::cuda::Context;
use crate::device::{Device, EntryFacts};
use crate::emulated::EmulatedDevice;
use crate::error::{Error, Result};
use crate::kept;
use crate::launch::{EntryShape, Grid, ParameterBlock};
use crate::ptxas::EntryReport;
use crate::stream::Stream;

/// An entry, ready to be launched.
pub struct Entry {
    pub(super) device: Device,
    pub(super) shape: EntryShape,
    pub(super) assembly: Option<EntryReport>,
    pub(super) function: AnyFunction,
    /// The most CTAs of a cooperative launch, found once: none on the emulator, which holds any number, and for other launches.
    pub(super) most_ctas: Option<u64>,
    /// Asked of the driver once, for persistent kernels ask before each launch.
    pub(super) active_clusters: OnceLock<u32>,
}

impl Entry {
    pub(crate) fn function(&self) -> &AnyFunction {
        &self.function
    }

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
            On::Cuda(function) => Ok(function.facts()?),
            On::Emulator(_) => Err(Error::NotEmulated {
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
            On::Cuda(function) => {
                Ok(function.ctas_per_multiprocessor(self.shape.threads.iter().product())?)
            }
            On::Emulator(_) => Err(Error::NotEmulated {
                what: "machine code",
            }),
        }
    }

    /// How many clusters of this entry's size the device holds at a time; CTAs, where it has none. A persistent kernel
    /// launches as many.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] on the emulator, which runs any number at a time.
    pub fn max_active_clusters(&self) -> Result<u32> {
        match &self.function {
            On::Cuda(function) => {
                if let Some(&clusters) = self.active_clusters.get() {
                    return Ok(clusters);
                }
                let EntryShape {
                    threads, cluster, ..
                } = self.shape;
                let clusters = function.max_active_clusters(threads, cluster)?;
                Ok(*self.active_clusters.get_or_init(|| clusters))
            }
            On::Emulator(_) => Err(Error::NotEmulated {
                what: "machine code",
            }),
        }
    }

    /// The CTAs of this entry that the device runs at a time: what a persistent kernel's grid is made from.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] on the emulator, which runs any number at a time.
    pub fn resident(&self) -> Result<Resident> {
        let cluster: u32 = self.shape.cluster.iter().product();
        let ctas = self.max_active_clusters()? * cluster;
        Ok(Resident {
            ctas: ctas as usize,
            cluster: cluster as usize,
        })
    }

    /// The same entry, but a launch may start before the one in front of it on the stream has ended (programmatic
    /// dependent launch, CUDA C++ Programming Guide). Its code must wait for that one by `griddepcontrol.wait` before it
    /// touches what that one writes, or writes what that one reads. On the emulator launches follow each other.
    #[must_use]
    pub fn overlapping(&self) -> Arc<Entry> {
        Arc::new(Entry {
            device: self.device.clone(),
            shape: EntryShape {
                overlaps_previous: true,
                ..self.shape.clone()
            },
            assembly: self.assembly.clone(),
            function: self.function.clone(),
            most_ctas: self.most_ctas,
            active_clusters: self.active_clusters.clone(),
        })
    }

    /// Launches with packed parameters. Typed launchers do this for you.
    ///
    /// # Errors
    /// [`Error::BadGrid`], [`Error::ClusterGrid`], [`Error::ParameterMismatch`], [`Error::DeviceMismatch`], or the
    /// device's answer.
    pub fn launch(&self, stream: &Stream, grid: Grid, parameters: &ParameterBlock) -> Result<()> {
        self.check(grid, parameters)?;
        self.launch_checked(stream, grid, parameters)
    }

    /// Size of each parameter that the loaded code has, bytes.
    pub fn parameter_bytes(&self) -> &[u32] {
        match &self.function {
            On::Cuda(function) => function.parameter_bytes(),
            On::Emulator(entry) => entry.parameter_bytes(),
        }
    }

    /// Whether the grid can be, and the arguments are as many and as large as the loaded code's parameters.
    pub(crate) fn check(&self, grid: Grid, parameters: &ParameterBlock) -> Result<()> {
        self.shape.check_grid(grid, self.device.target())?;
        self.check_residency(grid)?;
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

    /// A CTA that waits for another one which is not resident waits for ever.
    fn check_residency(&self, grid: Grid) -> Result<()> {
        match self.most_ctas {
            Some(resident) if grid.ctas() > resident => Err(Error::GridNotResident {
                kernel: self.shape.name.clone(),
                ctas: grid.ctas(),
                resident,
            }),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn launch_checked(
        &self,
        stream: &Stream,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<()> {
        let both = stream.with("a kernel", &self.device, &self.function)?;
        let shape = &self.shape;
        let in_flight = stream.in_flight();
        let overlaps = in_flight.next(&shape.name, shape.overlaps_previous, parameters)?;
        let _range = nvtx::range(&shape.name);
        match both {
            On::Cuda((stream, function)) => {
                kept::note(|| function.code());
                Context::launch(stream, function, &self.shape, grid, parameters)
            }
            On::Emulator((stream, function)) => {
                // One with nothing to overlap is a launch like any other.
                let shape = EntryShape {
                    overlaps_previous: overlaps,
                    ..shape.clone()
                };
                EmulatedDevice::launch(stream, function, &shape, grid, parameters)
            }
        }
    }
}
