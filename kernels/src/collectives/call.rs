//! Collectives as a program calls them: checks, the choice of a kernel, workspaces, launches.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tilekit::prelude::*;
use tilekit::{CompiledKernel, Compiler, World, WorldKernel};

use super::check::{Call, OfRanks, check_plan};
use super::error::Result;
use super::exchange::Exchange;
use super::form::Form;
use super::one_shot::one_shot;
use super::packets::{PacketExchange, packets};
use super::plan::{Operation, Plan, Variant};
use super::sentinel::sentinel_sum;
use super::two_shot::two_shot;
use super::workspace::{PacketStaging, Staging};
use crate::handles::handles;
use crate::wait_limit::{DEFAULT_LIMIT, nanoseconds};

/// An element type of collectives: bf16, f16, f32.
pub trait Reduced: Float + DeviceElement + Send + Sync {}

impl Reduced for bf16 {}
impl Reduced for f16 {}
impl Reduced for f32 {}

/// The parameters of `one_shot`.
type OneShotHandles<T> = handles! {
    x out: Ptr<T>,
    exchange: Exchange<T>,
    len x_step out_step: Scalar<i64>,
};

/// The parameters of `two_shot`.
type TwoShotHandles<T> = handles! {
    x out: Ptr<T>,
    exchange: Exchange<T>,
    len: Scalar<i64>,
};

/// The parameters of `packets`.
type PacketHandles<T> = handles! {
    x out: Ptr<T>,
    exchange: PacketExchange,
    words x_step out_step: Scalar<i32>,
};

/// The parameters of `sentinel_sum`.
type SentinelHandles<T> = handles! {
    x out: Ptr<T>,
    exchange: PacketExchange,
    words x_step: Scalar<i32>,
};

/// So many elements in words of 32 bits.
fn words<T>(elements: i64) -> i32 {
    (elements * size_of::<T>() as i64 / 4) as i32
}

/// Collectives of a world: kernels that calls have needed so far, and the memory through which ranks transfer data to each other.
///
/// A call takes the tensors of all ranks, by rank, each in a buffer on the device of its rank, of any length. Element types are bf16, f16 and f32 ([`Reduced`]). Sums are
/// f32 in the order of ranks and rounded once, so that all ranks have the same bits, in every run.
///
/// Ranks store into staging memory of each other, and from there into results: a model chooses the kernel, [`plan`](Collectives::plan) says which and why. The number of the step
/// that slots of staging are in lies in memory of the devices, so that calls have no parameter that changes.
///
/// Calls are put on the [streams](World::stream) of the world and do not wait; [`World::synchronize`] does. Except for the first ones they may be recorded by [`World::capture`].
/// The first call that needs a kernel compiles it and loads it on all devices, and the first one of an element type allocates staging on each device: 17 MB for each rank;
/// packets of all types take 4 MB for each rank, and sums of few bytes 9 MB, or 17 MB in two steps.
///
/// ```
/// use std::sync::Arc;
///
/// use tilekit::prelude::*;
/// use tilekit::{EmulatorOptions, World};
/// use tilekit_kernels::collectives::Collectives;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let world = Arc::new(World::emulators(2, EmulatorOptions::default())?); // or World::cuda(2)?
/// let collectives = Collectives::new(&world);
/// let x = world.devices().iter().zip([1.0, 2.0]).map(|(device, x)| Buffer::from_slice(device, &[x; 300]));
/// let x = x.collect::<tilekit::Result<Vec<Buffer<f32>>>>()?;
/// let x = [&x[0], &x[1]];
/// collectives.all_reduce(&x, &x)?;
/// world.synchronize()?;
/// assert_eq!(x[1].to_vec()?, [3.0; 300]);
/// # Ok(())
/// # }
/// ```
pub struct Collectives {
    world: Arc<World>,
    limit: Duration,
    compiler: Compiler,
    /// By element types and the name of what a kernel is compiled for; workspaces by their types.
    kept: Mutex<HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>>>,
}

impl Collectives {
    /// Of all ranks of a world. Nothing is compiled or allocated yet.
    pub fn new(world: &Arc<World>) -> Collectives {
        Collectives {
            world: Arc::clone(world),
            limit: DEFAULT_LIMIT,
            compiler: Compiler::default(),
            kept: Mutex::default(),
        }
    }

    /// The same with another limit of time for a wait for other ranks, 5 s by default. A kernel whose wait reaches it ends with a trap, so that a rank that does not run or runs another call keeps
    /// no GPU: [`World::synchronize`] names the ranks that failed and what they waited for, slot `16 * CTA + rank` for a rank that has not sent.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Collectives {
        Collectives { limit, ..self }
    }

    /// The limit of waits of a rank, and the word that says what it waited for.
    pub(super) fn limit_of(&self, rank: usize) -> (i64, &MappedBuffer<i64>) {
        (nanoseconds(self.limit), self.world.late(rank))
    }

    pub(super) fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Multiprocessors of the rank that has the fewest.
    pub(super) fn multiprocessors(&self) -> usize {
        let devices = self.world.devices().iter();
        let of_ranks = devices.map(|device| device.facts().multiprocessors as usize);
        of_ranks.min().unwrap_or(0)
    }

    /// The world.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The sum of `x[n]` over all ranks, in `out[n]` of every rank, which may be its `x`.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names the argument and rank that do not fit; otherwise what the devices have against it.
    pub fn all_reduce<T: Reduced>(&self, x: OfRanks<'_, T>, out: OfRanks<'_, T>) -> Result<()> {
        self.call(Operation::AllReduce, x, out)
    }

    /// The sum of `x[ranks, n]` over all ranks, of which rank r gets row r in `out[n]`.
    ///
    /// # Errors
    /// As for [`all_reduce`](Collectives::all_reduce).
    pub fn reduce_scatter<T: Reduced>(&self, x: OfRanks<'_, T>, out: OfRanks<'_, T>) -> Result<()> {
        self.call(Operation::ReduceScatter, x, out)
    }

    /// `x[n]` of all ranks, in their order in `out[ranks, n]` of every rank.
    ///
    /// # Errors
    /// As for [`all_reduce`](Collectives::all_reduce).
    pub fn all_gather<T: Reduced>(&self, x: OfRanks<'_, T>, out: OfRanks<'_, T>) -> Result<()> {
        self.call(Operation::AllGather, x, out)
    }

    /// Row s of `x[ranks, n]` of rank r becomes row r of `out[ranks, n]` of rank s.
    ///
    /// # Errors
    /// As for [`all_reduce`](Collectives::all_reduce).
    pub fn all_to_all<T: Reduced>(&self, x: OfRanks<'_, T>, out: OfRanks<'_, T>) -> Result<()> {
        self.call(Operation::AllToAll, x, out)
    }

    /// How a call would be computed; none if there is nothing to do. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names the argument and rank that do not fit.
    pub fn plan<T: Reduced>(
        &self,
        operation: Operation,
        x: OfRanks<'_, T>,
        out: OfRanks<'_, T>,
    ) -> Result<Option<Plan>> {
        let call = Call::check(&self.world, operation, [x, out])?;
        Ok(call.need(self.multiprocessors()).plan())
    }

    /// The same as the call of `operation`, by a plan that the program has changed: to find out which one is the fastest.
    ///
    /// # Errors
    /// As for [`all_reduce`](Collectives::all_reduce), and for a plan that there is no kernel or no room for.
    pub fn call_planned<T: Reduced>(
        &self,
        operation: Operation,
        [x, out]: [OfRanks<'_, T>; 2],
        plan: &Plan,
    ) -> Result<()> {
        let call = Call::check(&self.world, operation, [x, out])?;
        let need = call.need(self.multiprocessors());
        check_plan(&need, plan)?;
        if need.plan().is_none() {
            return Ok(());
        }
        self.run(&call, plan)
    }

    fn call<T: Reduced>(
        &self,
        operation: Operation,
        x: OfRanks<'_, T>,
        out: OfRanks<'_, T>,
    ) -> Result<()> {
        let call = Call::check(&self.world, operation, [x, out])?;
        match call.need(self.multiprocessors()).plan() {
            Some(plan) => self.run(&call, &plan),
            None => Ok(()),
        }
    }

    fn run<T: Reduced>(&self, call: &Call<'_, T>, plan: &Plan) -> Result<()> {
        match (plan.variant, plan.form.warps) {
            (Variant::Packets, _) => self.packets::<T, 8>(call, plan),
            (Variant::Sentinel, _) => self.sentinel::<T, 8, false>(call, plan),
            (Variant::SentinelTwoShot, _) => self.sentinel::<T, 8, true>(call, plan),
            (Variant::TwoShot, _) => self.two_shot::<T, 16>(call, plan),
            (Variant::OneShot, 8) => self.one_shot_of::<T, 8>(call, plan),
            (Variant::OneShot, _) => self.one_shot_of::<T, 16>(call, plan),
        }
    }

    fn one_shot_of<T: Reduced, const WARPS: usize>(
        &self,
        call: &Call<'_, T>,
        plan: &Plan,
    ) -> Result<()> {
        if call.operation.sums() {
            self.one_shot::<T, WARPS, true>(call, plan)
        } else {
            self.one_shot::<T, WARPS, false>(call, plan)
        }
    }

    fn one_shot<T: Reduced, const WARPS: usize, const SUMS: bool>(
        &self,
        call: &Call<'_, T>,
        plan: &Plan,
    ) -> Result<()> {
        let name = format!("one_shot-{SUMS}");
        let compile = |form| fixed(one_shot::<T, WARPS, SUMS>, form).compile(&self.compiler);
        let kernel = self.kernel::<T, OneShotHandles<T>>(&name, plan.form, compile)?;
        let staging = self.staging::<T>()?;
        let [x_step, out_step] = call.steps();
        kernel.enqueue(&self.world, grid(plan.ctas), |rank| {
            let exchange = staging.of_rank(rank, self.limit_of(rank));
            (
                call.x[rank],
                call.out[rank],
                exchange,
                call.len as i64,
                x_step,
                out_step,
            )
        })?;
        Ok(())
    }

    fn two_shot<T: Reduced, const WARPS: usize>(
        &self,
        call: &Call<'_, T>,
        plan: &Plan,
    ) -> Result<()> {
        let compile = |form| fixed(two_shot::<T, WARPS>, form).compile(&self.compiler);
        let kernel = self.kernel::<T, TwoShotHandles<T>>("two_shot", plan.form, compile)?;
        let staging = self.staging::<T>()?;
        kernel.enqueue(&self.world, grid(plan.ctas), |rank| {
            let exchange = staging.of_rank(rank, self.limit_of(rank));
            (call.x[rank], call.out[rank], exchange, call.len as i64)
        })?;
        Ok(())
    }

    fn packets<T: Reduced, const WARPS: usize>(
        &self,
        call: &Call<'_, T>,
        plan: &Plan,
    ) -> Result<()> {
        let compile = |form| fixed(packets::<T, WARPS>, form).compile(&self.compiler);
        let kernel = self.kernel::<T, PacketHandles<T>>("packets", plan.form, compile)?;
        let key = (TypeId::of::<()>(), "packets".to_owned());
        let staging = self.kept(key, || PacketStaging::new(&self.world))?;
        let [x_step, out_step] = call.steps();
        kernel.enqueue(&self.world, grid(plan.ctas), |rank| {
            let own = [call.len as i64, x_step, out_step].map(words::<T>);
            let exchange = staging.of_rank(rank, self.limit_of(rank));
            (
                call.x[rank],
                call.out[rank],
                exchange,
                own[0],
                own[1],
                own[2],
            )
        })?;
        Ok(())
    }

    fn sentinel<T: Reduced, const WARPS: usize, const TWO_SHOT: bool>(
        &self,
        call: &Call<'_, T>,
        plan: &Plan,
    ) -> Result<()> {
        let compile =
            |form| fixed(sentinel_sum::<T, WARPS, TWO_SHOT>, form).compile(&self.compiler);
        let name = format!("sentinel-{TWO_SHOT}");
        let kernel = self.kernel::<T, SentinelHandles<T>>(&name, plan.form, compile)?;
        let make = || PacketStaging::of_sentinels(&self.world, TWO_SHOT);
        let staging = self.kept((TypeId::of::<()>(), name), make)?;
        let [x_step, _] = call.steps();
        kernel.enqueue(&self.world, grid(plan.ctas), |rank| {
            let own = [call.len as i64, x_step].map(words::<T>);
            let exchange = staging.of_rank(rank, self.limit_of(rank));
            (call.x[rank], call.out[rank], exchange, own[0], own[1])
        })?;
        Ok(())
    }

    pub(super) fn staging<T: Reduced>(&self) -> Result<Arc<Staging<T>>> {
        let key = (TypeId::of::<T>(), "staging".to_owned());
        self.kept(key, || Staging::new(&self.world))
    }

    /// A kernel on all devices, compiled and loaded at its first use.
    pub(super) fn kernel<T: Reduced, H: 'static>(
        &self,
        name: &str,
        form: Form,
        compile: impl FnOnce(Form) -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<Arc<WorldKernel<H>>> {
        self.kept((TypeId::of::<T>(), format!("{name}-{form}")), || {
            Ok(self.world.load(&compile(form)?)?)
        })
    }

    /// What is kept by this name, made at its first use.
    fn kept<V: Any + Send + Sync>(
        &self,
        key: (TypeId, String),
        make: impl FnOnce() -> Result<V>,
    ) -> Result<Arc<V>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.get(&key).map(Arc::clone)
            && let Ok(found) = found.downcast::<V>()
        {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        kept.insert(key, made.clone());
        Ok(made)
    }
}
