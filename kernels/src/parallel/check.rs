//! Checks of a call, and its matrices as the kernels take them.

use tilekit::prelude::*;
use tilekit::{Buffer, TensorView, World};

use crate::overlap::{Elements, Overlap, is_same_view};
use crate::products::check::Taken;
use crate::products::check_matrices::{check_result, check_room};
use crate::products::dense::ManyTile;
use crate::products::factor::{Operand, ResultOf, unit};
use crate::products::few_tiles::FewTile;
use crate::products::form::{Form, Side};
use crate::products::matrix::Matrix;
use crate::products::need::Need;
use crate::products::operands::InRows;
use crate::products::{Products, Result};

use super::mail::MOST_RANKS;
use super::options::Options;
use super::plan::{Planned, ReducePlan, Summed};
use crate::products::workspace::Role;

/// A matrix of a rank.
pub type View<'a, T> = TensorView<'a, T>;

/// What is fused with a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// An all-gather of the rows of A in front.
    Gather,
    /// A reduce-scatter of the rows of C behind.
    Scatter,
    /// An all-reduce of C behind.
    Reduce,
}

fn expect(
    holds: bool,
    argument: &'static str,
    found: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<()> {
    crate::error::expect(holds, ["product over ranks", argument], found, expected)
}

/// A call that has been checked.
pub(super) struct Checked {
    kind: Kind,
    pub(super) ranks: usize,
    /// Rows of a rank, N and K. Of a sum on all ranks whose rows are not divided evenly there are more of them than rows.
    pub(super) size: [usize; 3],
    /// Rows of A.
    rows: usize,
    /// A and B of each rank.
    factors: Vec<[Matrix; 2]>,
    taken: Vec<[Taken; 2]>,
    results: Vec<Matrix>,
    residuals: Option<Vec<Matrix>>,
    multiprocessors: usize,
}

/// The matrix of each rank, all of one shape.
fn matrices<T: DeviceElement>(
    ranks: usize,
    name: &'static str,
    views: &[View<'_, T>],
) -> Result<Vec<Matrix>> {
    let found = || format!("{} matrices", views.len());
    let expected = format!("{ranks}: one for each rank");
    expect(views.len() == ranks, name, found, expected)?;
    let all: Vec<Matrix> = views
        .iter()
        .map(|view| Matrix::of(name, view))
        .collect::<Result<_>>()?;
    for (rank, matrix) in all.iter().enumerate() {
        let (batches, shape, first) = (matrix.batches[0], matrix.shape, all[0].shape);
        let found = || format!("{batches} matrices on rank {rank}");
        expect(batches == 1, name, found, "one on each rank")?;
        let found = || format!("shape {shape:?} on rank {rank}");
        let expected = format!("{first:?}, as on rank 0");
        expect(shape == first, name, found, expected)?;
    }
    Ok(all)
}

/// As many rows for each rank.
fn expect_division(rows: usize, ranks: usize) -> Result<()> {
    let found = || format!("{rows} rows");
    let expected = format!("a multiple of {ranks}: as many for each rank");
    expect(rows.is_multiple_of(ranks), "a", found, expected)
}

/// One of the plans of a call.
pub(super) fn expect_plan(plans: &[ReducePlan], plan: &ReducePlan) -> Result<()> {
    let found = || plan.to_string();
    let known: Vec<String> = plans.iter().map(ReducePlan::to_string).collect();
    let expected = format!("one of {}", known.join("; "));
    expect(plans.contains(plan), "plan", found, expected)
}

/// C is stored while other CTAs still read A and B, of this rank or for others. A residual may be C itself, whose elements are read by those threads that store them.
fn check_memory<T: DeviceElement>(
    rank: usize,
    [a, b]: [&View<'_, T>; 2],
    c: &View<'_, T>,
    [residual, bias]: [Option<&View<'_, T>>; 2],
) -> Result<()> {
    let stored = Elements::of(c);
    let of_residual = residual.filter(|residual| !is_same_view(residual, c));
    let read = [
        ("a", Some(a)),
        ("b", Some(b)),
        ("options.residual", of_residual),
        ("options.bias", bias),
    ];
    for (name, view) in read {
        let is_apart = |view| stored.overlap(&Elements::of(view)) == Overlap::None;
        let found = || format!("memory of {name} on rank {rank}");
        expect(view.is_none_or(is_apart), "c", found, "memory of its own")?;
    }
    Ok(())
}

/// The residual of each rank.
fn check_options<T: DeviceElement>(
    options: &Options<'_, T>,
    results: &[Matrix],
) -> Result<Option<Vec<Matrix>>> {
    let (ranks, [_, n]) = (results.len(), results[0].shape);
    if let Some(bias) = options.bias {
        let found = || format!("{} buffers", bias.len());
        let expected = format!("{ranks}: one for each rank");
        expect(bias.len() == ranks, "options.bias", found, expected)?;
        for (rank, bias) in bias.iter().enumerate() {
            let found = || format!("{} numbers on rank {rank}", bias.len());
            let expected = format!("{n}: one for each column of c");
            expect(bias.len() == n, "options.bias", found, expected)?;
        }
    }
    let Some(residual) = options.residual else {
        return Ok(None);
    };
    let residuals = matrices(ranks, "options.residual", residual)?;
    for residual in &residuals {
        check_room("options.residual", *residual, size_of::<T>())?;
    }
    let (shape, wanted) = (residuals[0].shape, results[0].shape);
    let found = || format!("shape {shape:?}");
    let expected = format!("{wanted:?}, as c");
    expect(shape == wanted, "options.residual", found, expected)?;
    Ok(Some(residuals))
}

impl Checked {
    pub(super) fn of<T: Operand + ResultOf<T, Addend = T>>(
        world: &World,
        kind: Kind,
        [a, b]: [&[View<'_, T>]; 2],
        c: &[View<'_, T>],
        options: &Options<'_, T>,
    ) -> Result<Checked> {
        let ranks = world.ranks();
        let found = || format!("{ranks} ranks");
        expect(
            ranks <= MOST_RANKS,
            "world",
            found,
            format!("at most {MOST_RANKS}"),
        )?;
        let bytes = size_of::<T>();
        let found = || format!("elements of {bytes} bytes");
        expect(bytes == 2, "a", found, "bf16 or f16")?;
        let (of_a, of_b) = (matrices(ranks, "a", a)?, matrices(ranks, "b", b)?);
        let results = matrices(ranks, "c", c)?;
        let [rows, k] = of_a[0].shape;
        let [depth, n] = of_b[0].shape;
        let found = || format!("{depth} rows");
        expect(depth == k, "b", found, format!("{k}, the columns of a"))?;
        let (m, of_c) = match kind {
            Kind::Gather => (rows, [ranks * rows, n]),
            Kind::Reduce => (rows.div_ceil(ranks), [rows, n]),
            Kind::Scatter => {
                expect_division(rows, ranks)?;
                (rows / ranks, [rows / ranks, n])
            }
        };
        let found = || format!("shape {:?}", results[0].shape);
        let expected = match kind {
            Kind::Gather => format!("{of_c:?}: the rows of a of all ranks, the columns of b"),
            Kind::Scatter => format!("{of_c:?}: rows of a for each rank, the columns of b"),
            Kind::Reduce => format!("{of_c:?}: the rows of a, the columns of b"),
        };
        expect(results[0].shape == of_c, "c", found, expected)?;
        for result in &results {
            check_result("c", *result, bytes)?;
        }
        let residuals = check_options(options, &results)?;
        for rank in 0..ranks {
            let residual = options.residual.map(|residual| &residual[rank]);
            let bias = options.bias.map(|bias| bias[rank].view([n]));
            check_memory(
                rank,
                [&a[rank], &b[rank]],
                &c[rank],
                [residual, bias.as_ref()],
            )?;
        }
        let factors = of_a.into_iter().zip(of_b);
        let factors: Vec<[Matrix; 2]> = factors.map(|(a, b)| [a, b.transposed()]).collect();
        let taken = factors.iter().map(|factors| kind.taken(*factors, m, bytes));
        let multiprocessors = world.devices().iter();
        let multiprocessors = multiprocessors.map(|device| device.facts().multiprocessors as usize);
        let mut call = Checked {
            kind,
            ranks,
            // Nothing along K is a step of zeros.
            size: [m, n, k.max(1)],
            rows,
            taken: taken.collect(),
            factors,
            results,
            residuals,
            multiprocessors: multiprocessors.min().unwrap_or(1),
        };
        call.take_alike(bytes);
        Ok(call)
    }

    /// One kernel runs on all ranks, and so a side that lies otherwise on one of them is copied everywhere.
    fn take_alike(&mut self, element_bytes: usize) {
        for side in 0..2 {
            let first = self.taken[0][side].side();
            if self.taken.iter().any(|taken| taken[side].side() != first) {
                for (taken, factors) in self.taken.iter_mut().zip(&self.factors) {
                    taken[side] = Taken::along_k(factors[side], element_bytes);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 || self.size[1] == 0
    }

    /// Of kernels that divide the rows.
    fn sides(&self) -> [Side; 2] {
        let [a, b] = self.taken[0].map(Taken::side);
        [
            Side {
                is_batched: self.kind != Kind::Gather,
                is_mn_major: a.is_mn_major && self.is_even(),
                is_settled: false,
            },
            b,
        ]
    }

    /// Whether all ranks have as many rows; else A and C are copied to where there is room for more.
    fn is_even(&self) -> bool {
        self.kind != Kind::Reduce || self.rows == self.ranks * self.size[0]
    }

    pub(super) fn form<E>(&self, tile: ManyTile, epilogue: E) -> Form<ManyTile, E> {
        let mut form = Form::new(tile, epilogue);
        form.sides = self.sides();
        form
    }

    /// The same of a tile that has columns of C as rows, of one product.
    pub(super) fn turned_form<E>(&self, tile: FewTile, epilogue: E) -> Form<FewTile, E> {
        let mut form = Form::new(tile, epilogue);
        form.sides = self.taken[0].map(Taken::side);
        form.turned()
    }

    /// Rows, N and K of the sum.
    pub(super) fn whole(&self) -> [usize; 3] {
        let [_, n, k] = self.size;
        [self.rows, n, k]
    }

    /// The ways to reduce it, the fastest first.
    pub(super) fn reduce_plans(&self) -> Vec<ReducePlan> {
        let summed = Summed {
            size: self.whole(),
            ranks: self.ranks,
            is_mn_major: self.taken[0].map(|taken| taken.side().is_mn_major),
            multiprocessors: self.multiprocessors,
        };
        summed.plans()
    }

    /// How it is computed.
    pub(super) fn plan(&self) -> Planned {
        let is_mn_major = self.sides().map(|side| side.is_mn_major);
        let need = Need {
            batches: self.ranks,
            is_mn_major,
            ..Need::of_16_bits(self.size)
        };
        Planned::best(self.kind, &need, self.multiprocessors)
    }

    /// The matrices where kernels take them, copied where they lie otherwise.
    pub(super) fn place<T: Operand + ResultOf<T, Addend = T>>(
        &self,
        world: &World,
        products: &[Products],
        [a, b]: [&[View<'_, T>]; 2],
        c: &[View<'_, T>],
        (options, stores_by_tma): (&Options<'_, T>, bool),
    ) -> Result<Placed<'_, T>> {
        let mut placed = Placed {
            call: self,
            factors: Vec::with_capacity(self.ranks),
            results: Vec::with_capacity(self.ranks),
            residuals: Vec::new(),
        };
        let more_rows = (stores_by_tma && !self.is_even()).then(|| self.ranks * self.size[0]);
        // TMA stores write whole units.
        let ends_early = stores_by_tma && !self.size[1].is_multiple_of(unit::<T>());
        for (rank, products) in products.iter().enumerate() {
            let (stream, [of_a, of_b]) = (world.stream(rank), self.factors[rank]);
            let [a_taken, b_taken] = self.taken[rank];
            let (a, own) = ((Role::X, a[rank].source()), of_a);
            let a = match more_rows {
                Some(rows) => products.longer(stream, a, own, (rows, true))?,
                None => products.factor(stream, a, (own, a_taken))?,
            };
            let b = products.factor(stream, (Role::Y, b[rank].source()), (of_b, b_taken))?;
            let (c, own) = ((Role::Result, c[rank].source()), self.results[rank]);
            placed.factors.push([a, b]);
            placed.results.push(match more_rows {
                Some(rows) => products.longer(stream, c, own, (rows, false))?,
                None if ends_early => products.apart(stream, c, own, false)?,
                None => products.placed(stream, c, own, false)?,
            });
            if let (Some(views), Some(matrices)) = (options.residual, &self.residuals) {
                let (residual, own) = ((Role::Source, views[rank].source()), matrices[rank]);
                placed.residuals.push(match more_rows {
                    Some(rows) => products.longer(stream, residual, own, (rows, true))?,
                    None => products.placed(stream, residual, own, true)?,
                });
            }
        }
        Ok(placed)
    }
}

impl Kind {
    /// Where A and B of a rank are taken from.
    fn taken(self, [a, b]: [Matrix; 2], m: usize, element_bytes: usize) -> [Taken; 2] {
        let along_k = |matrix: Matrix| {
            if matrix.shape[1] == 0 {
                return Taken::of(matrix, element_bytes);
            }
            Taken::along_k(matrix, element_bytes)
        };
        let a = match (self, Taken::of(a, element_bytes)) {
            // Pieces are sent along K.
            (Kind::Gather, _) => along_k(a),
            // The rows of a rank begin anywhere in those of all.
            (_, taken) if taken.side().is_mn_major && !m.is_multiple_of(16 / element_bytes) => {
                along_k(a)
            }
            (_, taken) => taken,
        };
        [a, Taken::of(b, element_bytes)]
    }
}

/// The matrices of a call as kernels take them.
pub(super) struct Placed<'c, T> {
    call: &'c Checked,
    factors: Vec<[InRows<T>; 2]>,
    results: Vec<InRows<T>>,
    residuals: Vec<InRows<T>>,
}

impl<T: Operand + ResultOf<T, Addend = T>> Placed<'_, T> {
    /// A and B of a rank.
    pub(super) fn factors<'a>(
        &'a self,
        rank: usize,
        [a, b]: [&'a [View<'_, T>]; 2],
    ) -> [View<'a, T>; 2] {
        let [of_a, of_b] = &self.factors[rank];
        [of_a.view(a[rank].source()), of_b.view(b[rank].source())]
    }

    /// The same where the rows of A are those of all ranks.
    pub(super) fn factors_by_ranks<'a>(
        &'a self,
        rank: usize,
        both: [&'a [View<'_, T>]; 2],
    ) -> [View<'a, T>; 2] {
        let [a, b] = self.factors(rank, both);
        match self.call.kind {
            Kind::Gather => [a, b],
            Kind::Scatter | Kind::Reduce => [self.by_ranks(&self.factors[rank][0], a), b],
        }
    }

    /// What is added to the result of each rank, with its pitch and the bias: the result itself for what is not there, which nothing reads.
    pub(super) fn added_on_ranks<'a>(
        &'a self,
        c: &'a [View<'_, T>],
        options: &Options<'a, T>,
    ) -> Vec<(View<'a, T>, i32, &'a Buffer<T>)> {
        let of_rank = |rank: usize| {
            let (view, place) = match (options.residual, self.residuals.get(rank)) {
                (Some(views), Some(residual)) => {
                    (residual.view(views[rank].source()), residual.place)
                }
                _ => self.whole_result(rank, c),
            };
            let bias = options.bias.map_or(c[rank].source(), |bias| bias[rank]);
            (view, place.strides[0] as i32, bias)
        };
        (0..self.call.ranks).map(of_rank).collect()
    }

    /// C of a rank, and how it lies.
    pub(super) fn whole_result<'a>(
        &'a self,
        rank: usize,
        c: &'a [View<'_, T>],
    ) -> (View<'a, T>, Matrix) {
        let result = &self.results[rank];
        (result.view(c[rank].source()), result.place)
    }

    /// The rows of A as a matrix for each rank.
    fn by_ranks<'a>(&self, of_a: &InRows<T>, a: View<'a, T>) -> View<'a, T> {
        let (ranks, [m, _, _]) = (self.call.ranks, self.call.size);
        let ([outer, inner], [pitch, _]) = (of_a.place.shape, of_a.place.strides);
        let offset = of_a.place.offset;
        let view = if self.call.sides()[0].is_mn_major {
            a.with_shape([ranks, outer, m]).with_strides([m, pitch, 1])
        } else {
            let view = a.with_shape([ranks, m, inner]);
            view.with_strides([m * pitch, pitch, 1])
        };
        view.with_offset(offset)
    }

    /// C of a rank, as a matrix for each rank whose rows it has.
    pub(super) fn result<'a>(&'a self, rank: usize, c: &'a [View<'_, T>]) -> View<'a, T> {
        let result = &self.results[rank];
        let ([rows, n], [pitch, _]) = (result.place.shape, result.place.strides);
        let m = self.call.size[0];
        let view = result.view(c[rank].source()).with_shape([rows / m, m, n]);
        let view = view.with_strides([m * pitch, pitch, 1]);
        view.with_offset(result.place.offset)
    }

    /// Copies results to where they belong.
    pub(super) fn finish(
        &self,
        world: &World,
        products: &[Products],
        c: &[View<'_, T>],
    ) -> Result<()> {
        for (rank, products) in products.iter().enumerate() {
            let own = (c[rank].source(), self.call.results[rank]);
            products.copy_back(world.stream(rank), &self.results[rank], own)?;
        }
        Ok(())
    }
}
