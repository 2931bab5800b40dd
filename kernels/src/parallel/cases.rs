//! Cases of products over several ranks, against f64.

use tilekit::prelude::*;
use tilekit::{TensorSource, TensorView};

use crate::products::dense::ManyTile;
use crate::products::epilogue::Plain;
use crate::products::factor::{Operand, ResultOf, unit};
use crate::products::form::{Form, Side};

use super::check::Kind;
use super::gather::gather_product;
use super::reduce::product_reduce;
use super::scatter::product_scatter;

/// What a case multiplies on each rank, and what it gets.
struct OfRanks<T> {
    /// Rows of a rank, N and K.
    size: [usize; 3],
    ranks: usize,
    a: Vec<Input<T>>,
    b: Vec<Input<T>>,
    c: Vec<Output<T>>,
}

fn pitch<T>(columns: usize) -> usize {
    columns.next_multiple_of(unit::<T>())
}

/// A matrix whose rows begin at multiples of 16 bytes, as tensor maps want.
fn in_rows<E: DeviceElement, S: TensorSource<E>>(
    view: TensorView<'_, E, S>,
    [rows, columns]: [usize; 2],
) -> TensorView<'_, E, S> {
    view.with_shape([rows, columns])
        .with_strides([pitch::<E>(columns), 1])
}

/// The tile of a case: small, so that a few of them are enough on the emulator.
fn tile_of(case: &Case) -> ManyTile {
    ManyTile {
        groups: case.size("groups"),
        rows: 64,
        columns: case.size("columns"),
        stages: 3,
    }
}

impl<T: Operand + ResultOf<T>> OfRanks<T> {
    /// Rows of A and of C on each rank are so many times those of a rank.
    fn new(case: &mut Case, of_a: impl Fn(usize) -> usize, of_c: impl Fn(usize) -> usize) -> Self {
        let (ranks, size) = (case.ranks(), ["m", "n", "k"].map(|name| case.size(name)));
        let [m, n, k] = size;
        let named = |name: &str| -> Vec<String> {
            (0..ranks)
                .map(|rank| format!("{name} of rank {rank}"))
                .collect()
        };
        let mut inputs = |name: &str, rows: usize| -> Vec<Input<T>> {
            let names = named(name).into_iter();
            names
                .map(|name| case.normal(&name, [rows, pitch::<T>(k)]))
                .collect()
        };
        let (a, b) = (inputs("a", of_a(ranks) * m), inputs("b", n));
        let names = named("c").into_iter();
        let c = names.map(|name| case.output(&name, [of_c(ranks) * m, pitch::<T>(n)]));
        OfRanks {
            size,
            ranks,
            c: c.collect(),
            a,
            b,
        }
    }

    /// The product of A of one rank and B of another, in f64.
    fn product(&self, a: usize, b: usize, rows: usize) -> Vec<f64> {
        let [_, n, k] = self.size;
        let numbers = |input: &Input<T>, rows: usize| -> Vec<f64> {
            let places = (0..rows).flat_map(|row| (0..k).map(move |column| [row, column]));
            let number = |place: [usize; 2]| input[place].number().to_f64();
            places.map(number).collect()
        };
        let (a, b) = (numbers(&self.a[a], rows), numbers(&self.b[b], n));
        let rows = a.chunks_exact(k);
        let columns = || b.chunks_exact(k);
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        rows.flat_map(|x| columns().map(move |y| dot(x, y)))
            .collect()
    }

    /// The rows of all ranks of C, or of A, as one matrix for each.
    fn by_ranks<E: DeviceElement, S: TensorSource<E>>(
        view: TensorView<'_, E, S>,
        [ranks, rows, columns]: [usize; 3],
    ) -> TensorView<'_, E, S> {
        let pitch = pitch::<E>(columns);
        view.with_shape([ranks, rows, columns])
            .with_strides([rows * pitch, pitch, 1])
    }

    fn compare(
        &self,
        case: &mut Case,
        rows: usize,
        want: impl Fn(usize) -> Vec<f64>,
        tolerance: Tolerance,
    ) -> CaseResult {
        for rank in 0..self.ranks {
            let part = [rows, self.size[1]];
            case.expect_part_in_units(&self.c[rank], part, || want(rank), tolerance)?;
        }
        Ok(())
    }
}

/// Nanoseconds that senders rest, which take no time on the emulator.
const PAUSE: i32 = 10;

/// Nanoseconds of a wait for other ranks, which none of them takes.
const LIMIT: i64 = 5_000_000_000;

/// Launches so often: a second time everything is overwritten.
fn gathers<T: Operand + ResultOf<T>>(case: &mut Case) -> CaseResult {
    let of = OfRanks::<T>::new(case, |_| 1, |ranks| ranks);
    let (ranks, [m, n, k], tile) = (of.ranks, of.size, tile_of(case));
    let needed = Kind::Gather.shared(tile, ranks, of.size);
    let gathered = case.shared::<T>(needed.elements)?;
    let (flags, launches) = (case.shared::<i32>(needed.flags)?, case.shared::<u64>(1)?);
    let late = case.shared::<i64>(1)?;
    let kernel = fixed(gather_product::<T>, Form::new(tile, Plain));
    for _ in 0..case.size("launches") {
        case.launch_on_ranks(kernel, grid(case.size("ctas")), |rank| {
            let a = in_rows(of.a[rank].view(), [m, k]);
            let b = in_rows(of.b[rank].view(), [n, k]);
            let c = OfRanks::<T>::by_ranks(of.c[rank].view(), [ranks, m, n]);
            (
                a.clone(),
                a,
                b,
                c,
                gathered.part(rank),
                gathered.peers(rank),
                flags.part(rank),
                flags.peers(rank),
                launches.part(rank),
                LIMIT,
                late.part(rank),
                rank as i32,
                ranks as i32,
                m as i32,
                n as i32,
                k as i32,
                PAUSE,
            )
        })?;
    }
    let want = |rank: usize| -> Vec<f64> {
        let products = (0..ranks).map(|of_a| of.product(of_a, rank, m));
        products.collect::<Vec<_>>().concat()
    };
    of.compare(case, ranks * m, want, tolerance(k, 1))
}

/// Half a step of a result's type for each rounding, and the rounding of `k` terms accumulated.
fn tolerance(k: usize, roundings: usize) -> Tolerance {
    let relative = 4e-3 * roundings as f64;
    Close {
        relative,
        // Partial sums are larger than the sum.
        absolute: (1e-4 + 8e-3 * (roundings - 1) as f64) * (k as f64).sqrt(),
    }
}

fn adds<T: Operand + ResultOf<T>>(case: &mut Case, kind: Kind) -> CaseResult {
    let of_c = |ranks| if kind == Kind::Reduce { ranks } else { 1 };
    let of = OfRanks::<T>::new(case, |ranks| ranks, of_c);
    let (ranks, [m, n, k], tile) = (of.ranks, of.size, tile_of(case));
    let needed = kind.shared(tile, ranks, of.size);
    let staged = case.shared::<T>(needed.elements)?;
    let (flags, launches) = (case.shared::<i32>(needed.flags)?, case.shared::<u64>(1)?);
    let late = case.shared::<i64>(1)?;
    let mut form = Form::new(tile, Plain);
    form.sides[0] = Side {
        is_batched: true,
        ..Side::default()
    };
    for _ in 0..case.size("launches") {
        let arguments = |rank: usize| {
            let a = OfRanks::<T>::by_ranks(of.a[rank].view(), [ranks, m, k]);
            let b = in_rows(of.b[rank].view(), [n, k]);
            let c = OfRanks::<T>::by_ranks(of.c[rank].view(), [of_c(ranks), m, n]);
            (
                a,
                b,
                c,
                staged.part(rank),
                staged.peers(rank),
                flags.part(rank),
                flags.peers(rank),
                launches.part(rank),
                LIMIT,
                late.part(rank),
                rank as i32,
                ranks as i32,
                m as i32,
                n as i32,
                k as i32,
                PAUSE,
            )
        };
        let ctas = grid(case.size("ctas"));
        if kind == Kind::Reduce {
            case.launch_on_ranks(fixed(product_reduce::<T>, form), ctas, arguments)?;
        } else {
            case.launch_on_ranks(fixed(product_scatter::<T>, form), ctas, arguments)?;
        }
    }
    let all: Vec<Vec<f64>> = (0..ranks)
        .map(|rank| of.product(rank, rank, ranks * m))
        .collect();
    let want = |rank: usize| -> Vec<f64> {
        let of_rank = if kind == Kind::Reduce {
            0..ranks * m * n
        } else {
            rank * m * n..(rank + 1) * m * n
        };
        let sum = |at: usize| all.iter().map(|product| product[at]).sum::<f64>();
        of_rank.map(sum).collect()
    };
    of.compare(case, of_c(ranks) * m, want, tolerance(k, ranks))
}

#[case(sizes(
    ranks = [2, 4, 8, 1, 3],
    m = [200, 72, 8, 130, 65],
    n = [136, 72, 40, 65, 130],
    k = [584, 100, 264, 65, 1],
    groups = [2, 1, 1, 2, 1],
    columns = [64, 64, 64, 64, 64],
    ctas = [3, 2, 2, 2, 3],
    launches = [2, 2, 1, 1, 1]
))]
fn gather_product_bf16(case: &mut Case) -> CaseResult {
    gathers::<bf16>(case)
}

#[case(sizes(ranks = [2], m = [72], n = [65], k = [72], groups = [1], columns = [64], ctas = [2], launches = [1]))]
fn gather_product_f16(case: &mut Case) -> CaseResult {
    gathers::<f16>(case)
}

#[case(sizes(
    ranks = [2, 4, 8, 1, 3],
    m = [200, 72, 8, 130, 65],
    n = [136, 72, 40, 65, 130],
    k = [264, 100, 72, 65, 1],
    groups = [2, 1, 1, 2, 1],
    columns = [64, 64, 64, 64, 64],
    ctas = [3, 2, 2, 2, 3],
    launches = [2, 2, 1, 1, 1]
))]
fn product_scatter_bf16(case: &mut Case) -> CaseResult {
    adds::<bf16>(case, Kind::Scatter)
}

#[case(sizes(ranks = [2], m = [72], n = [65], k = [72], groups = [1], columns = [64], ctas = [2], launches = [1]))]
fn product_scatter_f16(case: &mut Case) -> CaseResult {
    adds::<f16>(case, Kind::Scatter)
}

#[case(sizes(
    ranks = [2, 4, 8, 3],
    m = [200, 72, 8, 65],
    n = [136, 72, 40, 130],
    k = [264, 100, 72, 1],
    groups = [2, 1, 1, 1],
    columns = [64, 64, 64, 64],
    ctas = [3, 2, 2, 3],
    launches = [2, 2, 1, 1]
))]
fn product_reduce_bf16(case: &mut Case) -> CaseResult {
    adds::<bf16>(case, Kind::Reduce)
}

#[case(sizes(ranks = [2], m = [72], n = [65], k = [72], groups = [1], columns = [64], ctas = [2], launches = [1]))]
fn product_reduce_f16(case: &mut Case) -> CaseResult {
    adds::<f16>(case, Kind::Reduce)
}
