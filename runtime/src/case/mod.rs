//! Cases: a kernel's inputs, launch, expectation and worth, written once and run on the emulator and on a GPU.
//!
//! A case is a function that gets a [`Case`]. What its calls do depends on why it runs ([`Mode`]): to say which kernels it
//! launches, to check the result, or to time the launches.

mod bed;
mod beginning;
mod bench;
mod beside;
mod cache;
mod chain;
mod compare;
mod entry;
mod expect;
mod instance;
mod launch;
mod mapped;
mod outputs;
pub(crate) mod parallel;
mod prepare;
mod quiet;
mod random;
mod ranks;
mod ranks_chain;
mod ranks_end;
mod report;
mod shape;
mod sizes;
mod space;
mod tensor;
mod tolerance;
mod tune;

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

pub use bed::{Bed, Mode};
pub use bench::{
    BenchOptions, Conditions, Counters, Entrant, RanksContest, Series, StreamContest, Timing,
    WaitLine, Waits,
};
pub(crate) use bench::{Heats, probe};
pub use cache::CaseCache;
#[doc(hidden)]
pub use compare::Tally;
pub use compare::{Agreement, Mismatch, WrongElement, compare};
pub use entry::{CaseEntry, CaseOutcome};
pub use mapped::Mapped;
pub use random::Generator;
pub use ranks::Shared;
pub use report::{CaseReport, LaunchReport};
pub use shape::Shape;
pub use sizes::{SizeList, Sizes};
pub use space::{Candidate, Chosen, Point, Space};
pub use tensor::{Input, Output};
pub use tolerance::Tolerance;
pub(crate) use tune::{Pick, Ready};

use beginning::Beginning;
use beside::Beside;
use chain::Chain;
use outputs::Outputs;
use prepare::prepare;
use ranks_chain::RanksChain;

use crate::element::DeviceElement;
use crate::error::Result;
use crate::kernel::{Arguments, Instance, Kernel};
use crate::launch::Grid;
use crate::peer::Peer;
use crate::stream::Stream;
use crate::world::World;

/// What a case function returns; `?` passes every error of this crate on.
pub type CaseResult = Result<()>;

/// One run of a case at one choice of sizes.
pub struct Case {
    name: String,
    sizes: Sizes,
    mode: Mode,
    pick: Pick,
    stream: Option<Stream>,
    /// The devices, if it runs on several and has begun to.
    world: Option<Arc<World>>,
    tensor_bytes: usize,
    /// Kept, because launches are timed after the case function has dropped its own.
    inputs: Vec<Box<dyn Any>>,
    outputs: Outputs,
    chain: Chain,
    ranks_chain: RanksChain,
    /// The bytes at hand, if comparisons that end well are noted.
    compared: Option<Vec<u8>>,
    report: CaseReport,
}

impl Case {
    /// A run of the case `name`.
    ///
    /// # Errors
    /// The error of creating a stream on the device.
    pub fn new(name: &str, sizes: Sizes, mode: Mode) -> Result<Case> {
        Case::picking(name, sizes, mode, None)
    }

    /// The same, with this candidate of its space.
    pub(crate) fn picking(name: &str, sizes: Sizes, mode: Mode, pick: Pick) -> Result<Case> {
        let stream = match &mode {
            Mode::Describe => None,
            Mode::Check(bed)
            | Mode::Launch(bed)
            | Mode::Bench(bed, _)
            | Mode::Ready { bed, .. } => Some(Stream::new(&bed.device)?),
        };
        Ok(Case {
            name: name.to_string(),
            sizes,
            mode,
            pick,
            stream,
            world: None,
            tensor_bytes: 0,
            inputs: Vec::new(),
            outputs: Outputs::default(),
            chain: Chain::default(),
            ranks_chain: RanksChain::default(),
            compared: None,
            report: CaseReport::default(),
        })
    }

    /// What the run did, when the case function has returned.
    pub fn into_report(self) -> CaseReport {
        CaseReport {
            tensor_bytes: self.tensor_bytes,
            ..self.report
        }
    }

    /// The case's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of the size `name` in this run.
    ///
    /// # Panics
    /// If the case does not declare it: that is a mistake in the case itself, and the message says so.
    #[track_caller]
    pub fn size(&self, name: &str) -> usize {
        // No closure: the panic is at the author's line.
        let Some(value) = self.sizes.get(name) else {
            let known: Vec<&str> = self.sizes.iter().map(|(name, _)| name).collect();
            panic!(
                "case `{}` declares no size `{name}`; it declares {}: write `#[case(sizes({name} = [...]))]`",
                self.name,
                known.join(", ")
            )
        };
        value
    }

    /// An input of standard normals. An integer type gets them rounded.
    pub fn normal<T: DeviceElement>(&mut self, name: &str, shape: impl Into<Shape>) -> Input<T> {
        self.random(name, shape.into(), Generator::Normal)
    }

    /// An input uniform in `range`.
    pub fn uniform<T: DeviceElement>(
        &mut self,
        name: &str,
        shape: impl Into<Shape>,
        range: Range<f64>,
    ) -> Input<T> {
        self.random(name, shape.into(), Generator::Uniform(range))
    }

    /// An input of whole numbers, uniform in `range`.
    pub fn integers<T: DeviceElement>(
        &mut self,
        name: &str,
        shape: impl Into<Shape>,
        range: Range<i64>,
    ) -> Input<T> {
        self.random(name, shape.into(), Generator::Integers(range))
    }

    /// An input whose element at each place in memory is `element(place)`.
    pub fn input<T: DeviceElement>(
        &mut self,
        name: &str,
        shape: impl Into<Shape>,
        element: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Input<T> {
        let shape = shape.into();
        self.count_bytes::<T>(&shape);
        self.keep(Input::from_fn(name, shape, element))
    }

    /// An output, poisoned before the first launch that uses it.
    pub fn output<T: DeviceElement>(&mut self, name: &str, shape: impl Into<Shape>) -> Output<T> {
        let shape = shape.into();
        self.count_bytes::<T>(&shape);
        let (output, is_used) = self.tensor(name, shape, |shape| Output::<T>::new(name, shape));
        self.outputs.push(Arc::new(output.clone()));
        if let (true, Some(bed)) = (is_used, self.bed()) {
            // A device that cannot do so says so again at the launch.
            let _ = output.on_device(&bed.device).and_then(|copy| copy.poison());
        }
        output
    }

    /// Keeps what earlier launches have left in the outputs, if the next one is the first of those that are timed together.
    fn keep_outputs(&mut self) -> CaseResult {
        let begins = self.chain.is_empty() && self.ranks_chain.is_empty();
        if let (true, false, Mode::Bench(bed, _)) =
            (begins, self.report.launches.is_empty(), &self.mode)
        {
            self.outputs.keep(&bed.device)?;
        }
        Ok(())
    }

    /// Says how many bytes the work must move between memory and the GPU at least.
    pub fn moves_bytes(&mut self, bytes: usize) {
        self.report.moved_bytes = Some(bytes as u64);
    }

    /// Says how many floating-point operations the work takes.
    pub fn does_flops(&mut self, flops: usize) {
        self.report.flops = Some(flops as u64);
    }

    /// Says how many operations on elements of type `T` the work takes on tensor cores: `2·M·N·K` for a matrix product.
    pub fn does_tensor_flops<T: DeviceElement>(&mut self, flops: usize) {
        self.report.flops = Some(flops as u64);
        self.report.tensor_cores = Some(T::DTYPE);
    }

    /// Has `cargo tilekit bench` time `peer` beside the launches up to the next comparison. Its results are compared with the kernel's before
    /// anything is timed, unless the kernel does more ([`Gemm::timed_only`](crate::Gemm::timed_only)).
    ///
    /// ```
    /// # use tilekit::prelude::*;
    /// # fn matmul(case: &mut Case) -> CaseResult {
    /// let (m, n, k) = (case.size("m"), case.size("n"), case.size("k"));
    /// let (a, b) = (case.normal::<bf16>("a", [m, k]), case.normal::<bf16>("b", [n, k]));
    /// let c = case.output::<bf16>("c", [m, n]);
    /// case.does_tensor_flops::<bf16>(2 * m * n * k);
    /// case.peer(Peer::Cublas(Gemm::new(&a, &b, &c).transposed_b()));
    /// // case.launch(..)?; case.expect(..)
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer(&mut self, peer: Peer) {
        self.report.peers.push(peer.name().to_string());
        if self.timed().is_some() && matches!(self.mode, Mode::Bench(..)) {
            self.chain.beside.push(Beside::Peer(peer));
        }
    }

    /// Has `cargo tilekit bench` time another kernel beside the launches up to the next comparison, under the name `name`:
    /// another variant, or the same one launched otherwise. It writes the same outputs, and may differ by `tolerance`; `Absolute(f64::INFINITY)` is for one that does less, such as the same product without its epilogue.
    ///
    /// # Errors
    /// As for [`launch`](Case::launch), when it is timed.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a tuple of references reads best by value"
    )]
    pub fn rival<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &mut self,
        name: &str,
        tolerance: Tolerance,
        kernel: K,
        grid: impl Into<Grid>,
        arguments: A,
    ) -> CaseResult {
        self.report.peers.push(name.to_string());
        let Mode::Bench(bed, options) = &self.mode else {
            return Ok(());
        };
        if bed.device.is_modelling() {
            return Ok(());
        }
        let compiled = bed.compiler.compile(&Instance::of::<P, K>(kernel))?;
        let entry = compiled.load(&bed.device)?;
        let copies = self.copies(bed, *options)?;
        let copies = prepare(&compiled, &entry, grid.into(), copies, &|packing| {
            arguments.pack(packing)
        })?;
        self.chain.beside.push(Beside::Kernel {
            name: name.to_string(),
            tolerance,
            copies,
        });
        Ok(())
    }

    /// Launches `kernel` with `grid` CTAs and these arguments: `&Input`, `&Output` or `&Buffer` for a pointer, numbers
    /// for numbers.
    ///
    /// Launches between two comparisons (`expect` and its like) are one piece of work, which `cargo tilekit bench` times as
    /// a whole: at the comparison that follows, or at the end. A `&Buffer` of the case's own must live until then.
    ///
    /// # Errors
    /// What is wrong with the kernel, the launch or, on the emulator and in checks, with what the kernel did.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a tuple of references reads best by value"
    )]
    pub fn launch<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &mut self,
        kernel: K,
        grid: impl Into<Grid>,
        arguments: A,
    ) -> CaseResult {
        self.launch_instance(
            Instance::of::<P, K>(kernel),
            grid.into(),
            Beginning::AfterTheLast,
            &|packing| arguments.pack(packing),
        )
    }

    /// Memory of `len` elements that the host and a kernel access at the same time, for [`launch_beside_host`](Case::launch_beside_host).
    pub fn mapped<T: DeviceElement>(&mut self, len: usize) -> Mapped<T> {
        self.tensor_bytes = self
            .tensor_bytes
            .saturating_add(len.saturating_mul(size_of::<T>()));
        Mapped::new(len)
    }

    /// The same, and while the kernel runs, `host` does its part: it waits for flags of the kernel and answers them, through buffers of
    /// [`mapped`](Case::mapped). It is not timed, since what it takes depends on the host.
    ///
    /// # Errors
    /// As for [`launch`](Case::launch), and those of `host`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a tuple of references reads best by value"
    )]
    pub fn launch_beside_host<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &mut self,
        kernel: K,
        grid: impl Into<Grid>,
        arguments: A,
        host: impl Fn(&Stream) -> CaseResult,
    ) -> CaseResult {
        self.launch_instance(
            Instance::of::<P, K>(kernel),
            grid.into(),
            Beginning::BesideHost(&host),
            &|packing| arguments.pack(packing),
        )
    }

    /// The same, but the launch may start before the one in front of it has ended (programmatic dependent launch), which
    /// shows in chains of launches, and where one is timed back to back: `cargo tilekit bench` times it beside the same
    /// launches without overlap. See [`LoadedKernel::programmatic`](crate::LoadedKernel::programmatic).
    ///
    /// # Errors
    /// As for [`launch`](Case::launch), and [`Error::NeverWaits`](crate::Error::NeverWaits) for a kernel without `launch_wait()`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a tuple of references reads best by value"
    )]
    pub fn launch_programmatic<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &mut self,
        kernel: K,
        grid: impl Into<Grid>,
        arguments: A,
    ) -> CaseResult {
        let instance = Instance::of::<P, K>(kernel);
        let overlaps = Beginning::OverlapsTheLast;
        self.launch_instance(instance, grid.into(), overlaps, &|packing| {
            arguments.pack(packing)
        })
    }

    fn random<T: DeviceElement>(
        &mut self,
        name: &str,
        shape: Shape,
        generator: Generator,
    ) -> Input<T> {
        self.count_bytes::<T>(&shape);
        let bed = self.bed();
        let seed = bed.map_or(0, |bed| bed.seed);
        let cache = bed.and_then(|bed| bed.cache.clone());
        let make = |shape: Shape| Input::random(name, shape, generator, seed, cache);
        let input = self.tensor(name, shape, make).0;
        self.keep(input)
    }

    /// A tensor that candidates of one run share, so that each need not copy its own to the device; says whether another one had it before.
    /// What is made of a function of the case is not shared: that may depend on the candidate.
    fn tensor<S: Clone + Send + Sync + 'static>(
        &self,
        name: &str,
        shape: Shape,
        make: impl FnOnce(Shape) -> S,
    ) -> (S, bool) {
        let cache = match &self.mode {
            Mode::Ready { bed, .. } => bed.cache.as_ref(),
            _ => None,
        };
        let place = self.inputs.len() + self.outputs.iter().count();
        match cache {
            Some(cache) => cache.tensor((place, name, shape), make),
            None => (make(shape), false),
        }
    }

    fn keep<T: DeviceElement>(&mut self, input: Input<T>) -> Input<T> {
        self.inputs.push(Box::new(input.clone()));
        input
    }

    fn count_bytes<T>(&mut self, shape: &Shape) {
        self.tensor_bytes = self
            .tensor_bytes
            .saturating_add(shape.len().saturating_mul(size_of::<T>()));
    }

    fn bed(&self) -> Option<&Bed> {
        match &self.mode {
            Mode::Describe => None,
            Mode::Check(bed)
            | Mode::Launch(bed)
            | Mode::Bench(bed, _)
            | Mode::Ready { bed, .. } => Some(bed),
        }
    }
}
