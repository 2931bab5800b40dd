//! Products as a program calls them: the choice of an instance, copies where strides ask for them, launches.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tilekit::prelude::*;
use tilekit::{Buffer, CompiledKernel, Compiler, Device, LoadedKernel};

use super::alternating::alternating;
use super::check::{Call, CallPlan, View};
use super::check_matrices::{check_room, check_shapes};
use super::cluster_tiles::cluster_tiles;
use super::cooperative::cooperative;
use super::dense::dense;
use super::dispatch::{Choice, Dispatch};
use super::division::Division;
use super::epilogue::{Author, Epilogue, Place, Plain};
use super::epilogue_arguments::{Beside, EpilogueArguments};
use super::epilogue_kind::Finishing;
use super::error::{Result, expect};
use super::every_other_row::every_other_row;
use super::factor::{Operand, ResultOf, Stored};
use super::few_tiles::few_tiles;
use super::given::Given;
use super::instances::Instance;
use super::kept_kernels::Which;
use super::launch::{
    ClusterHandles, EveryOtherHandles, FewHandles, Launch, ManyHandles, PersistentHandles,
    SplitHandles,
};
use super::matrix::Matrix;
use super::need::Need;
use super::one_wave::one_wave;
use super::operands::{added, no_addends};
use super::options::{Options, Precision};
use super::output_handles::{GivenOutputs, OutputHandles};
use super::plan::Plan;
use super::precise::precise;
use super::precise_parts::precise_parts;
use super::split_k::{SplitTile, split_k};
use super::workspace::{Role, workspace, zeroed_workspace};

/// Matrix products on a device: the kernels that calls have needed so far.
///
/// `C[M, N] = A[M, K] · B[K, N]`, each a view with any strides: row-major, column-major, a part of another matrix. Views of three dimensions are batches
/// of products, of which an operand of two dimensions is the same in all. [`Operand`] and [`ResultOf`] say which element types there are. Sums are f32,
/// of i8 i32, which wrap where they leave its range, as they can where K is 131072 or more; results are rounded once; f32 is multiplied as tf32, or by three products of it ([`Precision`]).
/// [`call`](Products::call) adds scales, a bias, another matrix and an activation ([`Options`]), and
/// [`call_with`](Products::call_with) has a closure of the author's in the kernel instead.
///
/// [`Dispatch`] chooses the kernel: by records of `cargo tilekit tune` for this kind of GPU, else by a model. Most kernels take operands whose rows or columns are contiguous, with a pitch of a multiple of 16 bytes: along K, or of
/// 16-bit types along any dimension. One takes matrices of 16-bit types whose rows or columns begin anywhere, where they are; it is chosen where each element is read few times. Otherwise an operand that
/// lies in another way is copied first, and a result whose rows do is written to a workspace and copied. A column-major C costs no copy: its transpose is computed.
/// [`plan`](Products::plan) says all that and launches nothing.
///
/// The first call that needs a kernel compiles and loads it. The first one of a stream that copies or divides K among CTAs, and each that needs more than those before, allocates a workspace, which waits
/// for the device. Neither may happen while a graph is captured. A workspace is freed with its stream. A graph uses the workspaces of the stream that it was captured on: it is not replayed beside other work of
/// that stream, or beside itself. Threads may share a stream: calls that use workspaces put their launches on it one call after the other.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::products::Products;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::auto(); // a GPU where there is one, else the emulator
/// let stream = Stream::new(&device)?;
/// let products = Products::new(&device);
///
/// let (m, n, k) = (40, 24, 16);
/// let a = Buffer::from_slice(&device, &vec![bf16::ONE; m * k])?;
/// let b = Buffer::from_slice(&device, &vec![bf16::ONE; k * n])?;
/// let (a, b) = (a.view([m, k]), b.view([k, n]));
/// let c: Buffer<bf16> = products.multiply(&stream, &a, &b)?;
/// stream.synchronize()?;
/// assert!(c.to_vec()?.iter().all(|&x| x == bf16::from_f32(16.0)));
/// # Ok(())
/// # }
/// ```
pub struct Products {
    device: Device,
    compiler: Compiler,
    pub(super) kernels: Mutex<HashMap<(TypeId, Which), Box<dyn Any + Send>>>,
    dispatch: Arc<Dispatch>,
    plans: Mutex<HashMap<Need, Choice>>,
}

/// Sizes whose plans are kept. The model takes some microseconds, a look at the table a tenth of one.
const KEPT_PLANS: usize = 4096;

impl Products {
    /// On `device`, by the [records](Dispatch::of) that ship for it. Nothing is compiled yet.
    pub fn new(device: &Device) -> Products {
        Products::with_dispatch(device, Dispatch::of(device))
    }

    /// The same by other records: those of a program's own sizes, which `cargo tilekit tune --export` writes.
    pub fn with_dispatch(device: &Device, dispatch: impl Into<Arc<Dispatch>>) -> Products {
        Products {
            device: device.clone(),
            compiler: Compiler::default(),
            kernels: Mutex::default(),
            dispatch: dispatch.into(),
            plans: Mutex::default(),
        }
    }

    /// `A[M, K] · B[K, N]`, into a new buffer of `[M, N]` without gaps, one after the other for a batch.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn multiply<T: Operand, O: ResultOf<T>>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
    ) -> Result<Buffer<O>> {
        let [x, y] = [Matrix::of("a", a)?, Matrix::of("b", b)?];
        let [m, n] = [x.shape[0], y.shape[1]];
        let counts = [x.batches[0], y.batches[0]];
        // One matrix for all of none is multiplied by none.
        let batches = if counts.contains(&0) {
            0
        } else {
            counts[0].max(counts[1])
        };
        let each = m.saturating_mul(n);
        let result = Matrix {
            shape: [m, n],
            strides: [n, 1],
            offset: 0,
            batches: [batches, each],
        };
        // What is refused is not allocated.
        check_shapes([x, y.transposed()], result)?;
        check_room("c", result, size_of::<O>())?;
        let elements = batches.saturating_mul(each);
        let c = Buffer::new(&self.device, elements)?;
        self.multiply_into(stream, a, b, &c.view([batches, m, n]))?;
        Ok(c)
    }

    /// `C[M, N] = A[M, K] · B[K, N]`. Zeros where K is 0. No element of C is one of A or B.
    ///
    /// # Errors
    /// As for [`multiply`](Products::multiply).
    pub fn multiply_into<T: Operand, O: ResultOf<T>>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
    ) -> Result<()> {
        self.run(
            stream,
            [a, b],
            c,
            &Options::default(),
            (Plain, Beside::NOTHING),
        )
    }

    /// `C = activation(alpha · scales of A · scales of B · A·B + bias + beta · source)`: what the options say. Sums of i8 are exact in f32 below 2²⁴.
    ///
    /// # Errors
    /// As for [`multiply`](Products::multiply).
    pub fn call<T: Operand, O: ResultOf<T>>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<()> {
        if options.are_plain() {
            return self.run(stream, [a, b], c, options, (Plain, Beside::NOTHING));
        }
        let ending = (options.epilogue(), Beside::NOTHING);
        self.run(stream, [a, b], c, options, ending)
    }

    /// `C` is what `epilogue` makes of the sums of products and of their [`Place`], by which it reads what the options have: it is traced as part of the
    /// kernel, once for each set of numbers that options have, and reading what they do not have is an error at its line. It captures nothing, and the options have no activation. A column-major C is written to a workspace and copied.
    ///
    /// A C of half as many columns as B has a result for each pair of columns, which [`Place::pairs`] takes apart: `silu(gate) * up` of columns of gates and of what they gate in turn. [`storing`](Products::storing) stores more than C.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::products::{Axis, Options, Products};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let products = Products::new(&device);
    /// let ones = Buffer::from_slice(&device, &[bf16::ONE; 64])?;
    /// let bias = Buffer::from_slice(&device, &[bf16::from_f32(-3.0); 8])?;
    /// let c = Buffer::<bf16>::zeros(&device, 64)?;
    /// let options = Options { bias: Some((&bias, Axis::Columns)), ..Options::default() };
    /// // The square of each result.
    /// products.call_with(&stream, &ones.view([8, 8]), &ones.view([8, 8]), &c.view([8, 8]), &options, |sums, at| {
    ///     let x = sums + at.bias(Axis::Columns);
    ///     x * x
    /// })?;
    /// stream.synchronize()?;
    /// assert!(c.to_vec()?.iter().all(|&x| x == bf16::from_f32(25.0)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`multiply`](Products::multiply).
    pub fn call_with<T: Operand, O: ResultOf<T>, F>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
        epilogue: F,
    ) -> Result<()>
    where
        F: Fn(Tensor<f32>, Place<O>) -> Tensor<f32> + Copy + Send + Sync + 'static,
    {
        check_no_activation(options)?;
        let epilogue = capturing_nothing(Author::new(epilogue))?;
        let (product, halves) = product_of(b, c)?;
        let given = Given {
            halves,
            ..options.given(product.shape)
        };
        let ending = (epilogue.of_call(given), Beside::NOTHING);
        self.run(stream, [a, b], c, options, ending)
    }

    /// How [`call`](Products::call) would compute it, and why so. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan<T: Operand, O: ResultOf<T>>(
        &self,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<CallPlan> {
        let call = Call::check([a, b], c, options, (true, false))?;
        let finishing = if options.are_plain() {
            Finishing::Nothing
        } else {
            Epilogue::<O>::finishing(&options.epilogue())
        };
        let call = call.with_epilogue(finishing, GivenOutputs::NONE);
        Ok(call.plan(&self.dispatch, options))
    }

    pub(super) fn run<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
        &self,
        stream: &Stream,
        [a, b]: [&View<'_, T>; 2],
        c: &View<'_, O>,
        options: &Options<'_, O>,
        ending: (E, Beside<'_>),
    ) -> Result<()> {
        let _turn = stream.turn();
        self.run_in_turn(stream, [a, b], c, options, ending)
    }

    /// [`call`](Products::call) for what holds the [turn](Stream::turn) of the stream.
    pub(crate) fn call_in_turn<T: Operand, O: ResultOf<T>>(
        &self,
        stream: &Stream,
        [a, b]: [&View<'_, T>; 2],
        c: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<()> {
        if options.are_plain() {
            return self.run_in_turn(stream, [a, b], c, options, (Plain, Beside::NOTHING));
        }
        let ending = (options.epilogue(), Beside::NOTHING);
        self.run_in_turn(stream, [a, b], c, options, ending)
    }

    fn run_in_turn<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
        &self,
        stream: &Stream,
        [a, b]: [&View<'_, T>; 2],
        c: &View<'_, O>,
        options: &Options<'_, O>,
        (epilogue, beside): (E, Beside<'_>),
    ) -> Result<()> {
        let turned = epilogue.transposed();
        let call = Call::check([a, b], c, options, (turned.is_some(), epilogue.halves()))?;
        let call = call.with_epilogue(epilogue.finishing(), beside.given);
        if call.is_empty() {
            return Ok(());
        }
        if call.size[2] == 0 && epilogue.is_plain() {
            return self.copy(stream, None, (c.source(), call.result));
        }
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let scales = [options.a_scales, options.b_scales].map(|scales| scales.unwrap_or(&nothing));
        let (x, y, x_scales, y_scales, epilogue) = match turned.filter(|_| call.is_transposed) {
            Some(turned) => (b, a, scales[1], scales[0], turned),
            None => (a, b, scales[0], scales[1], epilogue),
        };
        let of_nothing = no_addends::<O>(stream)?;
        let no_addends = of_nothing.as_deref().or(O::addends(c.source()));
        let no_addends = no_addends.expect("results of other types have a workspace");
        if let Some(plan) = self.in_place(&call) {
            let matrices = (x.source(), y.source(), c.source());
            let numbers = (options, [x_scales, y_scales], beside, no_addends);
            return self.launch_in_place(stream, (&call, plan), matrices, numbers, epilogue);
        }
        let [(of_x, x_taken), (of_y, y_taken)] =
            [0, 1].map(|side| (call.factors[side], call.taken[side]));
        let [of_x, of_y] = self.both_factors(
            stream,
            [(x.source(), of_x, x_taken), (y.source(), of_y, y_taken)],
        )?;
        let need = call.need();
        let of_c = (Role::Result, c.source());
        let result = if call.is_apart(self.planned(need).plan.instance) {
            self.apart(stream, of_c, call.result, false)?
        } else {
            self.placed(stream, of_c, call.result, false)?
        };
        let source = self.source(
            stream,
            (c.source(), options),
            (call.result, call.source),
            &result,
        )?;
        let launch = Launch {
            need,
            factors: [of_x.mapped(x.source()), of_y.mapped(y.source())].map(|factor| match options
                .precision
            {
                Precision::Tf32 => T::loaded(factor),
                Precision::Tf32x3 => factor,
            }),
            sides: call.sides(options.are_settled),
            result: (result.view(c.source()), result.place),
            data: EpilogueArguments {
                source: added((&source, options), (&result, c.source()), no_addends),
                bias: options.bias.map_or(no_addends, |(bias, _)| bias),
                scales: [x_scales, y_scales],
                alpha_beta: [options.alpha, options.beta],
                outputs: beside.outputs,
            },
        };
        self.launch(stream, &launch, epilogue)?;
        self.copy_back(stream, &result, (c.source(), call.result))
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    fn launch<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
        &self,
        stream: &Stream,
        launch: &Launch<'_, T, O>,
        epilogue: E,
    ) -> Result<()> {
        let plan = self.planned(launch.need).plan;
        let types = TypeId::of::<(T, O, E)>();
        // A settled operand is loaded before the launch in front has ended.
        let overlaps = plan.overlaps(&launch.need) || launch.is_settled();
        let which = Which::Product(launch.form(plan.instance, ()), epilogue.name(), overlaps);
        match plan.instance {
            Instance::Many(tile) => {
                let form = launch.form(tile, epilogue);
                let compile = || fixed(dense::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel = self.loaded::<ManyHandles<T, O, E::Outputs>>((types, which), load)?;
                kernel.launch(stream, plan.grid, launch.of_many())?;
            }
            Instance::Wave(tile) => {
                let form = launch.form(tile, epilogue);
                let compile = || fixed(one_wave::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel = self.loaded::<ManyHandles<T, O, E::Outputs>>((types, which), load)?;
                kernel.launch(stream, plan.grid, launch.of_many())?;
            }
            Instance::Few(tile) => {
                let form = launch.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let compile = || fixed(few_tiles::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel = self.loaded::<FewHandles<T, O, E::Outputs>>((types, which), load)?;
                kernel.launch(stream, plan.grid, launch.of_few(tile.turned))?;
            }
            Instance::Split(tile) => {
                let form = launch.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let compile = || fixed(split_k::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel =
                    self.loaded::<SplitHandles<T, O, T::Sum, E::Outputs>>((types, which), load)?;
                launch_parts(stream, (&plan, tile, tile.turned), &kernel, launch)?;
            }
            Instance::Precise(tile) => {
                let form = launch.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let compile = || fixed(precise::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel = self.loaded::<FewHandles<T, O, E::Outputs>>((types, which), load)?;
                kernel.launch(stream, plan.grid, launch.of_few(tile.turned))?;
            }
            Instance::PreciseParts(tile) => {
                let form = launch.form(tile, epilogue);
                let compile = || fixed(precise_parts::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel =
                    self.loaded::<SplitHandles<T, O, T::Sum, E::Outputs>>((types, which), load)?;
                let tile = (&plan, tile.exchange(), tile.turned);
                launch_parts(stream, tile, &kernel, launch)?;
            }
            Instance::Cluster(tile) => {
                let tile = tile.fitted_beside(epilogue.is_plain(), size_of::<T>());
                let form = launch.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let compile = || fixed(cluster_tiles::<T, O, E>, form).compile(&self.compiler);
                let load = || self.load(compile()?, overlaps);
                let kernel =
                    self.loaded::<ClusterHandles<T, O, E::Outputs>>((types, which), load)?;
                kernel.launch(stream, plan.grid, launch.of_cluster(tile.turned))?;
            }
            Instance::Persistent(tile) => {
                let form = launch.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                if tile.every_other_row {
                    let compile =
                        || fixed(every_other_row::<T, O, E>, form).compile(&self.compiler);
                    let load = || self.load(compile()?, overlaps);
                    let kernel =
                        self.loaded::<EveryOtherHandles<T, O, E::Outputs>>((types, which), load)?;
                    kernel.launch(stream, plan.grid, launch.of_every_other(tile))?;
                    return Ok(());
                }
                let compile = || match tile.groups {
                    1 => fixed(alternating::<T, O, E>, form).compile(&self.compiler),
                    _ => fixed(cooperative::<T, O, E>, form).compile(&self.compiler),
                };
                let load = || self.load(compile()?, overlaps);
                let kernel =
                    self.loaded::<PersistentHandles<T, O, E::Outputs>>((types, which), load)?;
                kernel.launch(stream, plan.grid, launch.of_persistent(tile.turned))?;
            }
            Instance::Any(_) | Instance::Copied(_) => {
                unreachable!("matrices are not copied for it")
            }
        }
        Ok(())
    }

    /// Loads a kernel whose launches overlap with those in front, or do not.
    fn load<H: 'static>(
        &self,
        kernel: CompiledKernel<H>,
        overlaps: bool,
    ) -> tilekit::Result<LoadedKernel<H>> {
        let loaded = kernel.load(&self.device)?;
        if overlaps {
            loaded.programmatic()
        } else {
            Ok(loaded)
        }
    }

    /// The choice for a product: that of the calls before, or a new one.
    pub(crate) fn planned(&self, need: Need) -> Choice {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&planned) = plans.get(&need) {
            return planned;
        }
        let plan = self
            .dispatch
            .choose(&need)
            .expect("a call that is checked has a plan");
        if plans.len() == KEPT_PLANS {
            plans.clear();
        }
        plans.insert(need, plan);
        plan
    }
}

/// The matrix of all columns of a product, and whether C has half of them.
pub(super) fn product_of<T: Operand, O: Stored>(
    b: &View<'_, T>,
    c: &View<'_, O>,
) -> Result<(Matrix, bool)> {
    let (result, columns) = (Matrix::of("c", c)?, Matrix::of("b", b)?.shape[1]);
    let halves = columns > 0 && result.shape[1] * 2 == columns;
    let product = if halves { result.doubled() } else { result };
    Ok((product, halves))
}

/// An epilogue says itself what happens to sums.
pub(super) fn check_no_activation<O: Stored>(options: &Options<'_, O>) -> Result<()> {
    let activation = options.activation;
    expect(
        activation == super::Activation::None,
        "options.activation",
        || format!("{activation:?} beside an epilogue"),
        "none: the epilogue says what happens to sums",
    )
}

/// The epilogue of a closure, of which there is none if it captures values.
pub(super) fn capturing_nothing<E>(epilogue: Option<E>) -> Result<E> {
    let found = || "a closure that captures values".to_owned();
    let expected = "one that captures nothing: numbers of the call are in the options";
    expect(epilogue.is_some(), "epilogue", found, expected)?;
    Ok(epilogue.expect("it captures nothing"))
}

/// Launches a kernel whose programs share the steps along K through memory.
fn launch_parts<T: Operand, O: ResultOf<T>, X: OutputHandles>(
    stream: &Stream,
    (plan, tile, is_turned): (&Plan, SplitTile, bool),
    kernel: &LoadedKernel<SplitHandles<T, O, T::Sum, X>>,
    launch: &Launch<'_, T, O>,
) -> Result<()> {
    let divided = Division::of(plan.instance, &launch.need);
    let divided = divided.expect("the plan of a kernel that divides K");
    // Programs of a tile wait for each other, and GPCs of another GPU may hold fewer clusters.
    let held = match kernel.resident() {
        Ok(resident) => resident.ctas,
        Err(tilekit::Error::NotEmulated { .. }) => usize::MAX,
        Err(error) => return Err(error.into()),
    };
    let divided = divided.resident_at_a_time(held, &launch.need);
    let [sums, counts] = tile.workspace([divided.tiles, divided.parts]);
    let sums = workspace::<T::Sum>(stream, Role::Parts, sums)?;
    let counts = zeroed_workspace::<u32>(stream, Role::Counts, counts)?;
    let arguments = launch.of_split((divided, is_turned), &sums, &counts);
    kernel.launch(stream, [divided.programs(), 1, 1], arguments)?;
    Ok(())
}
