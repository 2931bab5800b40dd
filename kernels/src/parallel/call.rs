//! Products over several ranks as a program calls them: checks, memory that all ranks access, launches on all of them.

use std::time::Duration;

use tilekit::prelude::*;
use tilekit::{Compiler, World};

use crate::patience::{DEFAULT_LIMIT, nanoseconds};
use crate::products::factor::{Operand, ResultOf};
use crate::products::{Products, Result};

use super::check::{Checked, Kind, View};
use super::gather::gather_product;
use super::launch::{GatherHandles, ScatterHandles, parts};
use super::memory::{Memory, Which};
use super::plan::Planned;
use super::reduce::product_reduce;
use super::scatter::product_scatter;

/// Matrix products over the ranks of a [`World`], fused with a collective: the kernels and the memory of all ranks that calls have needed so far.
///
/// Matrices are given by rank: `a[r]` is on the device of rank r. They have any strides, as in [`Products`], whose element types of 16 bits there are; sums are f32. A matrix that a
/// tensor map does not take is copied. Launches go to the [streams](World::stream) of the world and are not waited for: [`World::synchronize`] does that.
///
/// Every rank has the same shapes. Nothing in a launch depends on the number of the call, so that calls are captured and replayed; the first call of a shape compiles, loads and allocates,
/// and waits for the devices. A wait for other ranks has a [limit](Parallel::with_limit).
///
/// Launches over one allocation are counted in 31 bits, and nothing stops the count: after 2³¹ of them, 20 hours of launches of 33 µs, waits hold nothing any more. A new `Parallel` begins anew.
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
    pub(crate) memory: Memory,
}

impl<'w> Parallel<'w> {
    /// On the ranks of `world`. Nothing is compiled yet.
    pub fn new(world: &'w World) -> Parallel<'w> {
        Parallel {
            world,
            limit: DEFAULT_LIMIT,
            compiler: Compiler::default(),
            of_ranks: world.devices().iter().map(Products::new).collect(),
            memory: Memory::default(),
        }
    }

    /// The same with another limit of time for a wait for other ranks, 5 s by default. A kernel whose wait reaches it ends with a trap, so that a rank that does not run keeps no GPU:
    /// [`World::synchronize`] names the ranks that failed and what they waited for, slot r for rank r that has not begun the launch, a slot from 16 on for a part that has not been sent,
    /// and by how many launches it is behind.
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
    pub fn gather_multiply<T: Operand + ResultOf<T>>(
        &self,
        a: &[View<'_, T>],
        b: &[View<'_, T>],
        c: &[View<'_, T>],
    ) -> Result<()> {
        let call = Checked::of(self.world, Kind::Gather, [a, b], c)?;
        if call.is_empty() {
            return Ok(());
        }
        let Planned { tile, ctas, pause } = call.plan();
        let [m, n, k] = call.size.map(|extent| extent as i32);
        let placed = call.place(self.world, &self.of_ranks, [a, b], c)?;
        let needed = Kind::Gather.shared(tile, call.ranks, call.size);
        let memory = self.memory.of::<T>(self.world, needed)?;
        let form = call.form(tile);
        let compile = || fixed(gather_product::<T>, form).compile(&self.compiler);
        let kernel = self.memory.kernel::<GatherHandles<T>, T>(
            self.world,
            Which::Product(Kind::Gather, form),
            compile,
        )?;
        kernel.enqueue(self.world, ctas, |rank| {
            let [of_a, of_b] = placed.factors(rank, [a, b]);
            let [pieces, _] = placed.factors(rank, [a, b]);
            let (shared, flags, launches) = parts(&memory, rank);
            (
                of_a,
                pieces,
                of_b,
                placed.result(rank, c),
                shared.0,
                shared.1,
                flags.0,
                flags.1,
                launches,
                nanoseconds(self.limit),
                self.world.late(rank),
                rank as i32,
                call.ranks as i32,
                m,
                n,
                k,
                pause,
            )
        })?;
        placed.finish(self.world, &self.of_ranks, c)
    }

    /// `C[M, N] = Σ A[P * M, K] · B[K, N]` over P ranks, each of which has its own A and B and gets M rows of the sum, in the order of ranks.
    ///
    /// Sums pass from rank to rank in a fixed order, so that results are bit-identical in every run, and are rounded to the element type at each.
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn multiply_scatter<T: Operand + ResultOf<T>>(
        &self,
        a: &[View<'_, T>],
        b: &[View<'_, T>],
        c: &[View<'_, T>],
    ) -> Result<()> {
        self.add(Kind::Scatter, [a, b], c)
    }

    /// `C[P * M, N] = Σ A[P * M, K] · B[K, N]` over P ranks, each of which has its own A and B and gets the whole sum: the same bits on all of them.
    ///
    /// Sums are added as by [`multiply_scatter`](Parallel::multiply_scatter).
    ///
    /// # Errors
    /// As for [`gather_multiply`](Parallel::gather_multiply).
    pub fn multiply_reduce<T: Operand + ResultOf<T>>(
        &self,
        a: &[View<'_, T>],
        b: &[View<'_, T>],
        c: &[View<'_, T>],
    ) -> Result<()> {
        self.add(Kind::Reduce, [a, b], c)
    }

    fn add<T: Operand + ResultOf<T>>(
        &self,
        kind: Kind,
        [a, b]: [&[View<'_, T>]; 2],
        c: &[View<'_, T>],
    ) -> Result<()> {
        let call = Checked::of(self.world, kind, [a, b], c)?;
        if call.is_empty() {
            return Ok(());
        }
        let Planned { tile, ctas, pause } = call.plan();
        let [m, n, k] = call.size.map(|extent| extent as i32);
        let placed = call.place(self.world, &self.of_ranks, [a, b], c)?;
        let needed = kind.shared(tile, call.ranks, call.size);
        let memory = self.memory.of::<T>(self.world, needed)?;
        let form = call.form(tile);
        let compile = || match kind {
            Kind::Reduce => fixed(product_reduce::<T>, form).compile(&self.compiler),
            _ => fixed(product_scatter::<T>, form).compile(&self.compiler),
        };
        let which = Which::Product(kind, form);
        let kernel = self
            .memory
            .kernel::<ScatterHandles<T>, T>(self.world, which, compile)?;
        kernel.enqueue(self.world, ctas, |rank| {
            let [of_a, of_b] = placed.factors(rank, [a, b]);
            let (shared, flags, launches) = parts(&memory, rank);
            (
                of_a,
                of_b,
                placed.result(rank, c),
                shared.0,
                shared.1,
                flags.0,
                flags.1,
                launches,
                nanoseconds(self.limit),
                self.world.late(rank),
                rank as i32,
                call.ranks as i32,
                m,
                n,
                k,
                pause,
            )
        })?;
        placed.finish(self.world, &self.of_ranks, c)
    }
}
