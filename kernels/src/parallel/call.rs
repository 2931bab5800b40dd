//! Products over several ranks as a program calls them: checks, memory that all ranks access, launches on all of them.

use std::any::TypeId;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tilekit::prelude::*;
use tilekit::{Compiler, World};

use crate::attention::Attention;
use crate::products::epilogue::{Epilogue, Plain};
use crate::products::factor::{Operand, ResultOf};
use crate::products::few_tiles::FewTile;
use crate::products::output_handles::NoOutputs;
use crate::products::{Products, Result};
use crate::wait_limit::{DEFAULT_LIMIT, nanoseconds};

use super::check::{Checked, Kind, View, expect_plan};
use super::gather::gather_product;
use super::launch::{GatherHandles, OfRank, OneShotHandles, ScatterHandles, arguments};
use super::memory::Memory;
use super::one_shot::{OneShotForm, product_one_shot};
use super::options::Options;
use super::plan::{Planned, ReducePlan, Variant, packets};
use super::scatter::product_scatter;

/// A matrix of each rank.
type OfRanks<'a, T> = &'a [View<'a, T>];

/// A and B, C, and what is added.
type Matrices<'a, 'o, T> = ([OfRanks<'a, T>; 2], OfRanks<'a, T>, &'a Options<'o, T>);

/// Matrix products over the ranks of a [`World`], fused with a collective: the kernels and the memory of all ranks that calls have needed so far.
///
/// Matrices are given by rank: `a[r]` is on the device of rank r. They have any strides, as in [`Products`], whose element types of 16 bits there are; sums are f32. A matrix that a
/// tensor map does not take is copied. Launches go to the [streams](World::stream) of the world and are not waited for: [`World::synchronize`] does that.
///
/// Every rank has the same shapes. Nothing in a launch depends on the number of the call, so that calls are captured and replayed; the first call of a shape compiles, loads and allocates,
/// and waits for the devices. A wait for other ranks has a [limit](Parallel::with_limit). [`Options`] add a bias, a residual and an activation.
/// Threads may share it: calls put their launches on the streams one call after the other.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit::{EmulatorOptions, World};
/// use tilekit_kernels::parallel::Parallel;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let world = World::emulators(2, EmulatorOptions::default())?; // or World::cuda(2)
/// let parallel = Parallel::new(&world);
/// let (m, n, k) = (16, 24, 40);
/// let ones = |count: usize| -> tilekit::Result<Vec<Buffer<bf16>>> {
///     world.devices().iter().map(|device| Buffer::from_slice(device, &vec![bf16::ONE; count])).collect()
/// };
/// // Each rank has some columns of A and rows of B, and gets half of the rows of their product.
/// let (a, b, c) = (ones(m * k)?, ones(k * n)?, ones(m / 2 * n)?);
/// let of_a: Vec<_> = a.iter().map(|a| a.view([m, k])).collect();
/// let of_b: Vec<_> = b.iter().map(|b| b.view([k, n])).collect();
/// let of_c: Vec<_> = c.iter().map(|c| c.view([m / 2, n])).collect();
/// parallel.multiply_scatter(&of_a, &of_b, &of_c)?;
/// world.synchronize()?;
/// assert!(c[1].to_vec()?.iter().all(|&x| x == bf16::from_f32(80.0)));
/// # Ok(())
/// # }
/// ```
pub struct Parallel<'w> {
    pub(crate) world: &'w World,
    pub(crate) limit: Duration,
    pub(crate) compiler: Compiler,
    /// For each rank what copies its matrices.
    of_ranks: Vec<Products>,
    /// For each rank attention to keys that have been gathered.
    pub(crate) attention: Vec<Attention>,
    pub(crate) memory: Memory,
    turn: Mutex<()>,
}

impl<'w> Parallel<'w> {
    /// On the ranks of `world`. Nothing is compiled yet.
    pub fn new(world: &'w World) -> Parallel<'w> {
        Parallel {
            world,
            limit: DEFAULT_LIMIT,
            compiler: Compiler::default(),
            of_ranks: world.devices().iter().map(Products::new).collect(),
            attention: world.devices().iter().map(Attention::new).collect(),
            memory: Memory::default(),
            turn: Mutex::default(),
        }
    }

    /// The same with another limit of time for a wait for other ranks, 5 s by default. A kernel whose wait reaches it ends with a trap, so that a rank that does not run keeps no GPU:
    /// [`World::synchronize`] names the ranks that failed and what they waited for, slot r for rank r that has not begun the launch or, of few rows, has not sent its part, a slot from 16 on for another part that has not been sent,
    /// and by how many launches it is behind.
    ///
    /// A launch waits for the launch before it on the other ranks, so that the limit has to be longer than the longest launch.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Parallel<'w> {
        Parallel { limit, ..self }
    }

    /// `C[P * M, N] = A[P * M, K] · B[K, N]`, where each of P ranks has M rows of A, in the order of ranks, its own B, and gets all rows of its own C.
    ///
    /// Other ranks' rows are received while those are multiplied that are there.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit; otherwise what the devices have against it.
    pub fn gather_multiply<T: Operand + ResultOf<T, Addend = T>>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
    ) -> Result<()> {
        self.gather_multiply_with(a, b, c, &Options::default())
    }

    /// The same, finished as the options say.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn gather_multiply_with<T: Operand + ResultOf<T, Addend = T>>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        let call = Checked::of(self.world, Kind::Gather, [a, b], c, options)?;
        let matrices = ([a, b], c, options);
        if call.is_empty() {
            return Ok(());
        }
        if options.are_plain() {
            self.gather(&call, matrices, Plain)
        } else {
            self.gather(&call, matrices, options.epilogue())
        }
    }

    /// `C[M, N] = Σ A[P * M, K] · B[K, N]` over P ranks, each of which has its own A and B and gets M rows of the sum, in the order of ranks.
    ///
    /// Sums pass from rank to rank in a fixed order, so that results are bit-identical in every run, and are rounded to the element type at each.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn multiply_scatter<T: Operand + ResultOf<T, Addend = T>>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
    ) -> Result<()> {
        self.multiply_scatter_with(a, b, c, &Options::default())
    }

    /// The same, where the rank that gets a row finishes it as its options say.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn multiply_scatter_with<T: Operand + ResultOf<T, Addend = T>>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        let call = Checked::of(self.world, Kind::Scatter, [a, b], c, options)?;
        let matrices = ([a, b], c, options);
        if call.is_empty() {
            return Ok(());
        }
        let planned = call.plan();
        if options.are_plain() {
            self.add::<T, _, false>(&call, planned, matrices, Plain)
        } else {
            self.add::<T, _, false>(&call, planned, matrices, options.epilogue())
        }
    }

    /// `C[M, N] = Σ A[M, K] · B[K, N]` over P ranks, each of which has its own A and B and gets the whole sum: the same bits on all of them, in every run.
    ///
    /// [`reduce_plans`](Parallel::reduce_plans) says which kernel it is. Of few rows each rank sends what it has, rounded to the element type, to all others at once, or piece by piece to the rank that adds it and sends the sum, rounded once more, to the others; all add in f32 in the order of ranks; more of
    /// them are added as by [`multiply_scatter`](Parallel::multiply_scatter), for which A and C are copied where their rows are no multiple of P.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn multiply_reduce<T: Operand + ResultOf<T, Addend = T> + Float>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
    ) -> Result<()> {
        self.multiply_reduce_with(a, b, c, &Options::default())
    }

    /// The same, finished as the options say, which are the same on all ranks.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn multiply_reduce_with<T: Operand + ResultOf<T, Addend = T> + Float>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        let call = Checked::of(self.world, Kind::Reduce, [a, b], c, options)?;
        match call.reduce_plans().first() {
            Some(plan) if !call.is_empty() => self.reduce(&call, plan, ([a, b], c, options)),
            _ => Ok(()),
        }
    }

    /// How [`multiply_reduce`](Parallel::multiply_reduce) would compute a call: all ways that there are, the one that it takes first; none if there is nothing to do. Nothing is compiled or launched.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn reduce_plans<T: Operand + ResultOf<T, Addend = T>>(
        &self,
        a: OfRanks<'_, T>,
        b: OfRanks<'_, T>,
        c: OfRanks<'_, T>,
    ) -> Result<Vec<ReducePlan>> {
        let call = Checked::of(self.world, Kind::Reduce, [a, b], c, &Options::default())?;
        if call.is_empty() {
            return Ok(Vec::new());
        }
        Ok(call.reduce_plans())
    }

    /// [`multiply_reduce_with`](Parallel::multiply_reduce_with) by one of the [plans](Parallel::reduce_plans): to find out which is the fastest.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply), and for a plan that is not one of them.
    pub fn multiply_reduce_planned<T: Operand + ResultOf<T, Addend = T> + Float>(
        &self,
        [a, b]: [OfRanks<'_, T>; 2],
        c: OfRanks<'_, T>,
        options: &Options<'_, T>,
        plan: &ReducePlan,
    ) -> Result<()> {
        let call = Checked::of(self.world, Kind::Reduce, [a, b], c, options)?;
        if call.is_empty() {
            return Ok(());
        }
        expect_plan(&call.reduce_plans(), plan)?;
        self.reduce(&call, plan, ([a, b], c, options))
    }

    fn reduce<T: Operand + ResultOf<T, Addend = T> + Float>(
        &self,
        call: &Checked,
        plan: &ReducePlan,
        matrices: Matrices<'_, '_, T>,
    ) -> Result<()> {
        let options = matrices.2;
        match plan.variant {
            Variant::OneShot(tile) if options.are_plain() => {
                self.one_shot(call, (tile, plan.ctas), matrices, Plain)
            }
            Variant::OneShot(tile) => {
                self.one_shot(call, (tile, plan.ctas), matrices, options.epilogue())
            }
            Variant::TwoShot(..) if options.are_plain() => {
                self.add::<T, _, true>(call, call.plan(), matrices, Plain)
            }
            Variant::TwoShot(..) => {
                self.add::<T, _, true>(call, call.plan(), matrices, options.epilogue())
            }
        }
    }

    /// Held while the launches of a call, which share copies and memory of all ranks, are put on the streams.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gather<T: Operand + ResultOf<T, Addend = T>, E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        call: &Checked,
        ([a, b], c, options): Matrices<'_, '_, T>,
        epilogue: E,
    ) -> Result<()> {
        let Planned {
            tile, ctas, pause, ..
        } = call.plan();
        let _turn = self.turn();
        let placed = call.place(self.world, &self.of_ranks, [a, b], c, (options, true))?;
        let needed = Kind::Gather.shared(tile, call.ranks, call.size);
        let memory = self.memory.of::<T>(self.world, needed)?;
        let form = call.form(tile, epilogue);
        let compile = || fixed(gather_product::<T, E>, form).compile(&self.compiler);
        let which = (TypeId::of::<(T, E)>(), format!("gather {form}"));
        let kernel = self
            .memory
            .kernel::<GatherHandles<T>>(self.world, which, compile)?;
        let added = placed.added_on_ranks(c, options);
        kernel.enqueue(self.world, ctas, |rank| {
            let [of_a, of_b] = placed.factors(rank, [a, b]);
            let [pieces, _] = placed.factors(rank, [a, b]);
            let (source, pitch, bias) = &added[rank];
            let of_rank = self.of_rank(call, rank, pause);
            let of_c = placed.result(rank, c);
            arguments!(
                [of_a, pieces, of_b, of_c],
                (source, *pitch, *bias),
                &memory,
                of_rank
            )
        })?;
        placed.finish(self.world, &self.of_ranks, c)
    }

    fn add<
        T: Operand + ResultOf<T, Addend = T>,
        E: Epilogue<T, Outputs = NoOutputs>,
        const TO_ALL: bool,
    >(
        &self,
        call: &Checked,
        planned: Planned,
        ([a, b], c, options): Matrices<'_, '_, T>,
        epilogue: E,
    ) -> Result<()> {
        let Planned {
            tile, ctas, pause, ..
        } = planned;
        let _turn = self.turn();
        let placed = call.place(self.world, &self.of_ranks, [a, b], c, (options, true))?;
        let kind = if TO_ALL { Kind::Reduce } else { Kind::Scatter };
        let needed = kind.shared(tile, call.ranks, call.size);
        let memory = self.memory.of::<T>(self.world, needed)?;
        let form = call.form(tile, epilogue);
        let compile = || fixed(product_scatter::<T, E, TO_ALL>, form).compile(&self.compiler);
        let which = (TypeId::of::<(T, E)>(), format!("{kind:?} {form}"));
        let kernel = self
            .memory
            .kernel::<ScatterHandles<T>>(self.world, which, compile)?;
        let added = placed.added_on_ranks(c, options);
        kernel.enqueue(self.world, ctas, |rank| {
            let [of_a, of_b] = placed.factors_by_ranks(rank, [a, b]);
            let (source, pitch, bias) = &added[rank];
            let of_rank = self.of_rank(call, rank, pause);
            let of_c = placed.result(rank, c);
            arguments!(
                [of_a, of_b, of_c],
                (source, *pitch, *bias),
                &memory,
                of_rank
            )
        })?;
        placed.finish(self.world, &self.of_ranks, c)
    }

    fn one_shot<
        T: Operand + ResultOf<T, Addend = T> + Float,
        E: Epilogue<T, Outputs = NoOutputs>,
    >(
        &self,
        call: &Checked,
        (tile, ctas): (FewTile, usize),
        ([a, b], c, options): Matrices<'_, '_, T>,
        epilogue: E,
    ) -> Result<()> {
        let _turn = self.turn();
        let placed = call.place(self.world, &self.of_ranks, [a, b], c, (options, false))?;
        let [m, n, k] = call.whole();
        let memory = self
            .memory
            .packets(self.world, packets(tile, call.ranks, [m, n]))?;
        let slot_packets = memory.slot_packets();
        let form = OneShotForm {
            product: call.turned_form(tile, epilogue),
            ranks: call.ranks,
        };
        let compile = || fixed(product_one_shot::<T, E>, form).compile(&self.compiler);
        let which = (TypeId::of::<(T, E)>(), format!("one shot {form}"));
        let kernel = self
            .memory
            .kernel::<OneShotHandles<T>>(self.world, which, compile)?;
        let [m, n, k] = [m, n, k].map(|extent| extent as i32);
        let results: Vec<_> = (0..call.ranks)
            .map(|rank| placed.whole_result(rank, c))
            .collect();
        let added = placed.added_on_ranks(c, options);
        kernel.enqueue(self.world, ctas, |rank| {
            let [of_a, of_b] = placed.factors(rank, [a, b]);
            let (source, pitch, bias) = &added[rank];
            let (out, place) = &results[rank];
            (
                of_b,
                of_a,
                out,
                place.strides[0] as i32,
                (source, *pitch, *bias),
                memory.packets.part(rank),
                memory.packets.peers(rank),
                slot_packets,
                memory.launches.part(rank),
                self.limit_of(rank),
                rank as i32,
                m,
                n,
                k,
            )
        })?;
        placed.finish(self.world, &self.of_ranks, c)
    }

    /// The limit of waits of a rank, and the word that says what it waited for.
    pub(crate) fn limit_of(&self, rank: usize) -> (i64, &'w MappedBuffer<i64>) {
        (nanoseconds(self.limit), self.world.late(rank))
    }

    fn of_rank(&self, call: &Checked, rank: usize, pause: i32) -> OfRank<&'w MappedBuffer<i64>> {
        OfRank {
            rank,
            ranks: call.ranks,
            size: call.size,
            limit: self.limit_of(rank),
            pause,
        }
    }
}
