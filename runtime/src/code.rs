//! Code on a device, and its entries.

use std::sync::Arc;
use std::time::Duration;

use library::schedule::Resident;
use target::Target;

use crate::backend::{AnyFunction, Backend, On};
use crate::cuda::{self, Context};
use crate::device::{Device, EntryFacts};
use crate::emulated::{EmulatedCode, EmulatedDevice};
use crate::error::{Error, Result};
use crate::launch::{Grid, ParameterBlock};
use crate::ptxas::{AssemblyReport, EntryReport};
use crate::stream::Stream;
use crate::toolchain::Image;

/// A module that a device has loaded.
pub struct Code {
    device: Device,
    module: Loaded,
    assembly: Option<AssemblyReport>,
}

type Loaded = On<Arc<cuda::Module>, EmulatedCode>;

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
    /// Whether its CTAs wait for one another, so that a launch must have no more than the device holds at a time (cooperative launch).
    pub is_cooperative: bool,
}

impl EntryShape {
    fn check_cluster(&self, target: &'static Target) -> Result<()> {
        let ctas = self
            .cluster
            .iter()
            .fold(1u32, |ctas, &count| ctas.saturating_mul(count));
        if (1..=target.cluster.ctas).contains(&ctas) {
            return Ok(());
        }
        Err(Error::ClusterTooLarge {
            kernel: self.name.clone(),
            cluster: self.cluster,
            target,
        })
    }

    fn check_grid(&self, grid: Grid, target: &Target) -> Result<()> {
        let counts = grid.check(&self.name, target)?;
        for (at, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let (count, cluster) = (counts[at], self.cluster[at]);
            if !count.is_multiple_of(cluster) {
                return Err(Error::ClusterGrid {
                    kernel: self.name.clone(),
                    axis,
                    count,
                    cluster,
                });
            }
        }
        Ok(())
    }
}

/// An entry, ready to be launched.
pub struct Entry {
    device: Device,
    shape: EntryShape,
    assembly: Option<EntryReport>,
    function: AnyFunction,
    /// The most CTAs of a cooperative launch, found once: none on the emulator, which holds any number, and for other launches.
    most_ctas: Option<u64>,
}

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
                let function = module.entry(&shape.name, shape.shared_bytes)?;
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
                Ok(function.max_active_clusters(self.shape.threads, self.shape.cluster)?)
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
        match both {
            On::Cuda((stream, function)) => {
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
                is_cooperative: false,
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
    fn shape(cluster: [u32; 3]) -> EntryShape {
        EntryShape {
            name: "k".to_string(),
            threads: [32, 1, 1],
            cluster,
            shared_bytes: 0,
            overlaps_previous: false,
            is_cooperative: false,
        }
    }

    #[test]
    fn a_cluster_must_divide_the_grid_and_fit() {
        for device in [Some(Device::emulator()), Device::cuda(0).ok()]
            .into_iter()
            .flatten()
        {
            let code = device.load_ptx(KERNEL).unwrap();
            let stream = Stream::new(&device).unwrap();
            let entry = code.entry(shape([2, 1, 1])).unwrap();
            let launch = |grid: Grid| entry.launch(&stream, grid, &block(&[4, 128, 8]));
            launch(grid([4, 3])).unwrap();
            let line = launch(grid([3, 2])).unwrap_err().to_string();
            assert!(line.contains("3 CTAs along x"), "{line}");
            stream.synchronize().unwrap();
            for wrong in [[32, 1, 1], [4, 4, 2], [0, 1, 1], [u32::MAX, 2, 2]] {
                let refused = code.entry(shape(wrong)).map(drop);
                assert!(
                    matches!(refused, Err(Error::ClusterTooLarge { .. })),
                    "{wrong:?}"
                );
            }
        }
    }

    #[test]
    fn how_many_clusters_fit_is_for_a_gpu_to_say() {
        let count = |device: &Device| {
            let code = device.load_ptx(KERNEL).unwrap();
            code.entry(shape([2, 1, 1])).unwrap().max_active_clusters()
        };
        assert!(matches!(
            count(&Device::emulator()),
            Err(Error::NotEmulated { .. })
        ));
        let resident = |device: &Device| {
            let code = device.load_ptx(KERNEL).unwrap();
            code.entry(shape([2, 1, 1])).unwrap().resident()
        };
        assert!(matches!(
            resident(&Device::emulator()),
            Err(Error::NotEmulated { .. })
        ));
        if let Ok(device) = Device::cuda(0) {
            let clusters = count(&device).unwrap();
            assert!(clusters >= device.facts().multiprocessors / 2);
            let Resident { ctas, cluster } = resident(&device).unwrap();
            assert_eq!((ctas, cluster), (clusters as usize * 2, 2));
        }
    }

    #[test]
    fn a_cooperative_grid_must_be_resident() {
        for device in [Some(Device::emulator()), Device::cuda(0).ok()]
            .into_iter()
            .flatten()
        {
            let stream = Stream::new(&device).unwrap();
            let cooperative = EntryShape {
                is_cooperative: true,
                ..shape([1; 3])
            };
            let entry = device.load_ptx(KERNEL).unwrap().entry(cooperative).unwrap();
            let launch = |ctas: usize| entry.launch(&stream, grid(ctas), &block(&[4, 128, 8]));
            launch(7).unwrap();
            if device.is_cuda() {
                let most = entry.resident().unwrap().ctas;
                launch(most).unwrap();
                let refused = launch(most + 1).unwrap_err();
                assert!(
                    matches!(refused, Error::GridNotResident { ctas, resident, .. }
                        if (ctas, resident) == (most as u64 + 1, most as u64)),
                    "{refused}"
                );
            }
            stream.synchronize().unwrap();
        }
    }

    #[test]
    fn an_overlapping_entry_is_launched_like_any_other() {
        for device in [Some(Device::emulator()), Device::cuda(0).ok()]
            .into_iter()
            .flatten()
        {
            let code = device.load_ptx(KERNEL).unwrap();
            let stream = Stream::new(&device).unwrap();
            let entry = code.entry(shape([1; 3])).unwrap().overlapping();
            assert!(entry.shape().overlaps_previous);
            for _ in 0..3 {
                entry
                    .launch(&stream, grid(2u32), &block(&[4, 128, 8]))
                    .unwrap();
            }
            let graph = stream
                .capture(|| entry.launch(&stream, grid(2u32), &block(&[4, 128, 8])))
                .unwrap();
            stream.replay(&graph).unwrap();
            stream.synchronize().unwrap();
        }
    }
}
