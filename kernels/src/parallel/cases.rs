//! Cases of products over several ranks, against f64.

use std::any::TypeId;
use std::cell::LazyCell;
use std::f64::consts::PI;

use tilekit::case::Shared;
use tilekit::prelude::*;
use tilekit::{Buffer, TensorSource, TensorView};

use crate::products::dense::ManyTile;
use crate::products::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use crate::products::factor::{Operand, ResultOf, unit};
use crate::products::few_tiles::FewTile;
use crate::products::form::{Form, Side};
use crate::products::output_handles::NoOutputs;

use super::check::Kind;
use super::chosen::{ACTIVATIONS, Chosen};
use super::gather::gather_product;
use super::launch::{OfRank, arguments};
use super::one_shot::{OneShotForm, product_one_shot};
use super::plan::{UNTIL_STORED, packets};
use super::scatter::product_scatter;

/// What a case multiplies on each rank, and what it gets.
struct OfRanks<T> {
    /// Rows of a rank, N and K.
    size: [usize; 3],
    ranks: usize,
    a: Vec<Input<T>>,
    b: Vec<Input<T>>,
    c: Vec<Output<T>>,
    /// What an epilogue adds: whole numbers from 0 to 3, of which that behind the last column is the number of an activation.
    bias: Vec<Input<T>>,
    residual: Vec<Input<T>>,
}

/// What all ranks access.
struct Memory<T> {
    elements: Shared<T>,
    flags: Shared<i64>,
    launches: Shared<u64>,
    late: Shared<i64>,
}

impl<T: DeviceElement> Memory<T> {
    fn new(
        case: &mut Case,
        kind: Kind,
        tile: ManyTile,
        ranks: usize,
        size: [usize; 3],
    ) -> tilekit::Result<Self> {
        let needed = kind.shared(tile, ranks, size);
        Ok(Memory {
            elements: case.shared(needed.elements)?,
            flags: case.shared(needed.flags)?,
            launches: case.shared(1)?,
            late: case.shared(1)?,
        })
    }
}

/// A bias and a residual, and what is below 0 becomes 0.
const ADDED: Standard = Standard {
    scales: [Scales::None; 2],
    bias: Some(Axis::Columns),
    has_source: true,
    activation: Activation::Relu,
};

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
    let [groups, columns, stages] = ["groups", "columns", "stages"].map(|name| case.size(name));
    ManyTile::of([groups, 64, columns, stages])
}

impl<T: Operand + ResultOf<T, Addend = T>> OfRanks<T> {
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
        let mut inputs = |name: &str, rows: usize| -> Vec<Input<T>> {
            let names = named(name).into_iter();
            names
                .map(|name| case.normal(&name, [rows, pitch::<T>(n)]))
                .collect()
        };
        let residual = inputs("residual", of_c(ranks) * m);
        let numbers = pitch::<T>(n) + unit::<T>();
        let bias = named("bias").into_iter();
        let bias = bias.map(|name| case.integers(&name, [1, numbers], 0..4));
        let bias = bias.collect();
        let names = named("c").into_iter();
        let c = names.map(|name| case.output(&name, [of_c(ranks) * m, pitch::<T>(n)]));
        OfRanks {
            size,
            ranks,
            c: c.collect(),
            a,
            b,
            bias,
            residual,
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

    /// What a rank's epilogue makes of the sum in row `row` and column `column` of its C.
    fn finished<E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        rank: usize,
        [row, column]: [usize; 2],
        sum: f64,
    ) -> f64 {
        if TypeId::of::<E>() == TypeId::of::<Plain>() {
            return sum;
        }
        let bias = |column: usize| self.bias[rank][[0, column]].number().to_f64();
        let residual = self.residual[rank][[row, column]].number().to_f64();
        let x = sum + bias(column) + residual;
        let number = if TypeId::of::<E>() == TypeId::of::<Chosen>() {
            bias(self.size[1]) as usize
        } else {
            1
        };
        match ACTIVATIONS[number] {
            Activation::None => x,
            Activation::Relu => x.max(0.0),
            Activation::Gelu => {
                let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
                0.5 * x * (1.0 + inner.tanh())
            }
            Activation::Silu => x / (1.0 + (-x).exp()),
        }
    }

    /// The sums of rows of C, of which each rank has a product.
    fn sums(&self, rows: usize) -> Vec<f64> {
        let products = (0..self.ranks).map(|rank| self.product(rank, rank, rows));
        let sum =
            products.reduce(|sum, product| sum.iter().zip(&product).map(|(x, y)| x + y).collect());
        sum.expect("a rank takes part at least")
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

    fn of_rank<'m>(&self, rank: usize, memory: &'m Memory<T>) -> OfRank<&'m Buffer<i64>> {
        OfRank {
            rank,
            ranks: self.ranks,
            size: self.size,
            limit: (LIMIT, memory.late.part(rank)),
            pause: PAUSE,
        }
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
fn gathers<T: Operand + ResultOf<T, Addend = T>, E: Epilogue<T, Outputs = NoOutputs>>(
    case: &mut Case,
    epilogue: E,
) -> CaseResult {
    let of = OfRanks::<T>::new(case, |_| 1, |ranks| ranks);
    let (ranks, size @ [m, n, k], tile) = (of.ranks, of.size, tile_of(case));
    let memory = Memory::<T>::new(case, Kind::Gather, tile, ranks, size)?;
    let kernel = fixed(gather_product::<T, E>, Form::new(tile, epilogue));
    for _ in 0..case.size("launches") {
        case.launch_on_ranks(kernel, grid(case.size("ctas")), |rank| {
            let a = in_rows(of.a[rank].view(), [m, k]);
            let b = in_rows(of.b[rank].view(), [n, k]);
            let c = OfRanks::<T>::by_ranks(of.c[rank].view(), [ranks, m, n]);
            let of_rank = of.of_rank(rank, &memory);
            let added = (&of.residual[rank], pitch::<T>(n) as i32, &of.bias[rank]);
            arguments!(
                [a.clone(), a, b, c],
                (added.0, added.1, added.2),
                &memory,
                of_rank
            )
        })?;
    }
    let want = |rank: usize| -> Vec<f64> {
        let products = (0..ranks).map(|of_a| of.product(of_a, rank, m));
        let sums = products
            .collect::<Vec<_>>()
            .concat()
            .into_iter()
            .enumerate();
        sums.map(|(at, sum)| of.finished::<E>(rank, [at / n, at % n], sum))
            .collect()
    };
    of.compare(case, ranks * m, want, tolerance::<E>(k, 1))
}

/// Half a step of a result's type for each rounding, and the rounding of `k` terms accumulated.
fn tolerance<E: 'static>(k: usize, roundings: usize) -> Tolerance {
    let relative = 4e-3 * roundings as f64;
    // The hardware's tanh is off by 2^-11, times half of what gelu is of: 4 standard deviations.
    let of_tanh = if TypeId::of::<E>() == TypeId::of::<Chosen>() {
        1e-3
    } else {
        0.0
    };
    Close {
        relative,
        // Partial sums are larger than the sum.
        absolute: (1e-4 + of_tanh + 8e-3 * (roundings - 1) as f64) * (k as f64).sqrt(),
    }
}

fn adds<
    T: Operand + ResultOf<T, Addend = T>,
    E: Epilogue<T, Outputs = NoOutputs>,
    const TO_ALL: bool,
>(
    case: &mut Case,
    epilogue: E,
) -> CaseResult {
    let of_c = |ranks| if TO_ALL { ranks } else { 1 };
    let kind = if TO_ALL { Kind::Reduce } else { Kind::Scatter };
    let of = OfRanks::<T>::new(case, |ranks| ranks, of_c);
    let (ranks, size @ [m, n, k], tile) = (of.ranks, of.size, tile_of(case));
    let memory = Memory::<T>::new(case, kind, tile, ranks, size)?;
    let mut form = Form::new(tile, epilogue);
    form.sides[0] = Side {
        is_batched: true,
        ..Side::default()
    };
    for launch in 0..case.size("launches") {
        let kernel = fixed(product_scatter::<T, E, TO_ALL>, form);
        let pause = [PAUSE, UNTIL_STORED][launch % 2];
        case.launch_on_ranks(kernel, grid(case.size("ctas")), |rank| {
            let a = OfRanks::<T>::by_ranks(of.a[rank].view(), [ranks, m, k]);
            let b = in_rows(of.b[rank].view(), [n, k]);
            let c = OfRanks::<T>::by_ranks(of.c[rank].view(), [of_c(ranks), m, n]);
            let of_rank = OfRank {
                pause,
                ..of.of_rank(rank, &memory)
            };
            let added = (&of.residual[rank], pitch::<T>(n) as i32, &of.bias[rank]);
            arguments!([a, b, c], (added.0, added.1, added.2), &memory, of_rank)
        })?;
    }
    let all = LazyCell::new(|| of.sums(ranks * m));
    let want = |rank: usize| -> Vec<f64> {
        let rows = if TO_ALL {
            0..ranks * m
        } else {
            rank * m..(rank + 1) * m
        };
        let elements = rows.flat_map(|row| (0..n).map(move |column| [row, column]));
        // The rank that adds the last product to a row finishes it.
        let finished = |[row, column]: [usize; 2]| {
            let (by, own_row) = if TO_ALL {
                (row / m, row)
            } else {
                (rank, row - rank * m)
            };
            let sum = all[row * n + column];
            of.finished::<E>(by, [own_row, column], sum)
        };
        elements.map(finished).collect()
    };
    of.compare(case, of_c(ranks) * m, want, tolerance::<E>(k, ranks))
}

/// Few rows, in clusters of so many CTAs; M is that of all ranks.
fn adds_at_once<
    T: Operand + ResultOf<T, Addend = T> + Float,
    E: Epilogue<T, Outputs = NoOutputs>,
>(
    case: &mut Case,
    epilogue: E,
) -> CaseResult {
    let of = OfRanks::<T>::new(case, |_| 1, |_| 1);
    let (ranks, [m, n, k]) = (of.ranks, of.size);
    let tile = FewTile {
        ctas: case.size("ctas"),
        groups: 1,
        columns: case.size("columns"),
        stages: case.size("stages"),
        turned: true,
    };
    let room = packets(tile, ranks, [m, n]);
    let (sent, launches) = (case.shared::<u64>(room)?, case.shared::<u64>(1)?);
    let late = case.shared::<i64>(1)?;
    let form = OneShotForm {
        product: Form::new(tile, epilogue),
        ranks,
    };
    let tiles = n.div_ceil(64) * m.div_ceil(tile.columns);
    for _ in 0..case.size("launches") {
        let kernel = fixed(product_one_shot::<T, E>, form);
        case.launch_on_ranks(kernel, grid(tiles * tile.ctas), |rank| {
            (
                in_rows(of.b[rank].view(), [n, k]),
                in_rows(of.a[rank].view(), [m, k]),
                &of.c[rank],
                pitch::<T>(n) as i32,
                (&of.residual[rank], pitch::<T>(n) as i32, &of.bias[rank]),
                sent.part(rank),
                sent.peers(rank),
                (room / 2) as i64,
                launches.part(rank),
                (LIMIT, late.part(rank)),
                rank as i32,
                m as i32,
                n as i32,
                k as i32,
            )
        })?;
    }
    let all = LazyCell::new(|| of.sums(m));
    for rank in 0..ranks {
        let finished = |(at, &sum): (usize, &f64)| of.finished::<E>(rank, [at / n, at % n], sum);
        let want = || all.iter().enumerate().map(finished).collect::<Vec<_>>();
        // The product of each rank is rounded, and their sum.
        case.expect_part(&of.c[rank], [m, n], want, tolerance::<E>(k, ranks + 1))?;
    }
    Ok(())
}

#[case(sizes(
    ranks = [2, 4, 8, 1, 3, 2, 2],
    m = [200, 72, 8, 130, 65, 130, 72],
    n = [136, 72, 40, 65, 130, 264, 136],
    k = [584, 100, 264, 65, 1, 72, 136],
    groups = [2, 1, 1, 2, 1, 2, 2],
    columns = [64, 64, 64, 64, 64, 256, 128],
    stages = [3, 3, 3, 3, 3, 3, 5],
    ctas = [3, 2, 2, 2, 3, 2, 2],
    launches = [2, 2, 1, 1, 1, 1, 1]
))]
fn gather_product_bf16(case: &mut Case) -> CaseResult {
    gathers::<bf16, _>(case, Plain)
}

#[case(sizes(ranks = [2], m = [72], n = [65], k = [72], groups = [1], columns = [64], stages = [3], ctas = [2], launches = [1]))]
fn gather_product_f16(case: &mut Case) -> CaseResult {
    gathers::<f16, _>(case, ADDED)
}

#[case(sizes(
    ranks = [2, 4, 8, 1, 3, 2, 2],
    m = [200, 72, 8, 130, 65, 130, 72],
    n = [136, 72, 40, 65, 130, 264, 136],
    k = [264, 100, 72, 65, 1, 72, 136],
    groups = [2, 1, 1, 2, 1, 2, 2],
    columns = [64, 64, 64, 64, 64, 256, 128],
    stages = [3, 3, 3, 3, 3, 3, 6],
    ctas = [3, 2, 2, 2, 3, 2, 2],
    launches = [2, 2, 1, 1, 1, 1, 1]
))]
fn product_scatter_bf16(case: &mut Case) -> CaseResult {
    adds::<bf16, _, false>(case, Plain)
}

#[case(sizes(ranks = [2], m = [72], n = [65], k = [72], groups = [1], columns = [64], stages = [3], ctas = [2], launches = [1]))]
fn product_scatter_f16(case: &mut Case) -> CaseResult {
    adds::<f16, _, false>(case, ADDED)
}

#[case(sizes(
    ranks = [2, 4, 8, 3, 2, 2],
    m = [200, 72, 8, 65, 130, 72],
    n = [136, 72, 40, 130, 264, 136],
    k = [264, 100, 72, 1, 72, 136],
    groups = [2, 1, 1, 1, 2, 2],
    columns = [64, 64, 64, 64, 256, 128],
    stages = [3, 3, 3, 3, 3, 6],
    ctas = [3, 2, 2, 3, 2, 2],
    launches = [2, 2, 1, 1, 1, 1]
))]
fn product_reduce_bf16(case: &mut Case) -> CaseResult {
    adds::<bf16, _, true>(case, Plain)
}

#[case(sizes(ranks = [2], m = [72], n = [65], k = [72], groups = [1], columns = [64], stages = [3], ctas = [2], launches = [1]))]
fn product_reduce_f16(case: &mut Case) -> CaseResult {
    adds::<f16, _, true>(case, ADDED)
}

#[case(sizes(
    ranks = [2, 4, 8, 1, 3, 2, 16, 2, 4, 8, 2, 4, 8, 4],
    m = [5, 16, 1, 33, 70, 64, 3, 5, 1, 2, 20, 9, 61, 61],
    n = [200, 136, 72, 65, 130, 64, 24, 72, 72, 72, 72, 72, 72, 137],
    k = [584, 264, 100, 65, 1, 136, 72, 136, 72, 72, 72, 72, 72, 264],
    columns = [16, 16, 16, 32, 32, 64, 128, 16, 16, 16, 64, 64, 64, 64],
    ctas = [2, 1, 4, 1, 2, 8, 1, 1, 1, 1, 1, 1, 1, 2],
    stages = [3, 3, 3, 3, 3, 3, 3, 8, 8, 8, 8, 8, 8, 3],
    launches = [3, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 3]
))]
fn product_one_shot_bf16(case: &mut Case) -> CaseResult {
    adds_at_once::<bf16, _>(case, Plain)
}

#[case(sizes(ranks = [2, 3], m = [19, 2], n = [129, 72], k = [136, 72], columns = [16, 32], stages = [3, 3], ctas = [1, 4], launches = [2, 1]))]
fn product_one_shot_f16(case: &mut Case) -> CaseResult {
    adds_at_once::<f16, _>(case, ADDED)
}

/// Those that exports to Python call for element types other than bf16, and where something is added.
macro_rules! chosen {
    ($($gathers:ident, $scatters:ident, $reduces:ident, $at_once:ident: $ty:ty;)*) => {$(
        #[case(sizes(ranks = [2], m = [130], n = [264], k = [72], groups = [2], columns = [256], stages = [3], ctas = [2], launches = [1]))]
        fn $gathers(case: &mut Case) -> CaseResult {
            gathers::<$ty, _>(case, Chosen)
        }

        #[case(sizes(ranks = [2], m = [130], n = [264], k = [72], groups = [2], columns = [256], stages = [3], ctas = [2], launches = [1]))]
        fn $scatters(case: &mut Case) -> CaseResult {
            adds::<$ty, _, false>(case, Chosen)
        }

        #[case(sizes(ranks = [2], m = [130], n = [264], k = [72], groups = [2], columns = [256], stages = [3], ctas = [2], launches = [1]))]
        fn $reduces(case: &mut Case) -> CaseResult {
            adds::<$ty, _, true>(case, Chosen)
        }

        #[case(sizes(ranks = [2, 4, 8], m = [20, 9, 9], n = [72, 72, 72], k = [72, 72, 72], columns = [64, 64, 64], ctas = [1, 1, 1], stages = [8, 8, 8], launches = [1, 1, 1]))]
        fn $at_once(case: &mut Case) -> CaseResult {
            adds_at_once::<$ty, _>(case, Chosen)
        }
    )*};
}

chosen! {
    gather_product_chosen_bf16, product_scatter_chosen_bf16, product_reduce_chosen_bf16, product_one_shot_chosen_bf16: bf16;
    gather_product_chosen_f16, product_scatter_chosen_f16, product_reduce_chosen_f16, product_one_shot_chosen_f16: f16;
}
