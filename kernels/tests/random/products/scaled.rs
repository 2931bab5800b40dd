//! Products of 8-bit floats with scales for blocks, dense, of groups of rows and along K, and matrices quantised for them.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{AlongK, GroupRows, Operand, Products, Result, ResultOf, Scaled};

use super::grouped::{offsets, rows_of};
use super::place::{Place, matrices, size};
use super::problem::{self, Problem, right};
use crate::broken::Broken;
use crate::calls::{device, each};
use crate::near::Within;
use crate::numbers::{Number, factors, fractions, noise, small};
use crate::tensor::Tensor;

const BLOCK: usize = 128;

/// Which product a call is, and how many groups it has.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Dense,
    /// Groups of rows by their offsets.
    Offsets(usize),
    /// Groups of equal room by counts.
    Counts(usize),
    /// Scales for columns of B; groups of K, if there are any, and whether C is added to.
    AlongK(Option<usize>, bool),
}

impl Kind {
    fn any() -> impl Strategy<Value = Kind> {
        prop_oneof![
            2 => Just(Kind::Dense),
            1 => (0..6_usize).prop_map(Kind::Offsets),
            1 => (1..6_usize).prop_map(Kind::Counts),
            1 => (proptest::option::of(0..5_usize), any::<bool>()).prop_map(|(groups, adds)| Kind::AlongK(groups, adds)),
        ]
    }
}

/// A call.
#[derive(Clone, Debug)]
struct Call {
    kind: Kind,
    size: [usize; 3],
    /// A, B, C, and scales of A and B.
    places: [Place; 5],
    seed: u64,
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let places = [
            Place::any(),
            Place::any(),
            Place::any(),
            Place::any(),
            Place::any(),
        ];
        (Kind::any(), size(), places, 0..1000_u64).prop_map(|(kind, [m, n, k], places, seed)| {
            let size = match kind {
                Kind::Dense | Kind::AlongK(..) => [m, n, k],
                Kind::Offsets(_) => [m, n, k.max(1)],
                Kind::Counts(groups) => [m.next_multiple_of(groups), n, k.max(1)],
            };
            Call {
                kind,
                size,
                places,
                seed,
            }
        })
    }

    /// Matrices of B, and of C.
    fn matrices(&self) -> [usize; 2] {
        match self.kind {
            Kind::Dense => [1, 1],
            Kind::Offsets(groups) | Kind::Counts(groups) => [groups, 1],
            Kind::AlongK(groups, _) => [1, groups.unwrap_or(1)],
        }
    }

    /// Columns of B that share a scale.
    fn width(&self) -> usize {
        if matches!(self.kind, Kind::AlongK(..)) {
            1
        } else {
            BLOCK
        }
    }

    /// Where groups begin and end, or how long they are.
    fn numbers(&self) -> Vec<i32> {
        let [m, _, k] = self.size;
        match self.kind {
            Kind::Dense | Kind::AlongK(None, _) => Vec::new(),
            Kind::Offsets(groups) => offsets(groups, m, 1, self.seed),
            // A count beyond the room of its group is all of it, and one below 0 nothing.
            Kind::Counts(groups) => noise(groups, self.seed)
                .map(|bits| match bits % 8 {
                    0 => -2,
                    1 => i32::MAX,
                    _ => ((bits >> 8) as usize % (m / groups + 1)) as i32,
                })
                .collect(),
            Kind::AlongK(Some(groups), _) => offsets(groups, k, BLOCK, self.seed),
        }
    }

    /// The matrices of B and C, and the steps along K, that a row of C has; the row of another group in turn.
    fn terms(&self, row: usize) -> Vec<([usize; 2], std::ops::Range<usize>)> {
        let [m, _, k] = self.size;
        let numbers = self.numbers();
        let place = |at: usize| numbers[at].max(0) as usize;
        match self.kind {
            Kind::Dense | Kind::AlongK(None, _) => vec![([0, 0], 0..k)],
            Kind::Offsets(groups) => {
                let of_row =
                    (0..groups).filter(|&group| rows_of(&numbers, group, m).contains(&row));
                of_row.map(|group| ([group, 0], 0..k)).collect()
            }
            Kind::Counts(groups) => {
                let room = m / groups;
                let is_there = row % room < place(row / room);
                is_there
                    .then_some(([row / room, 0], 0..k))
                    .into_iter()
                    .collect()
            }
            Kind::AlongK(Some(groups), _) => (0..groups)
                .map(|group| ([0, group], place(group)..place(group + 1)))
                .collect(),
        }
    }
}

/// The matrices of a call.
struct BlockScaled<T, O> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    a_scales: Tensor<f32, 3>,
    b_scales: Tensor<f32, 3>,
}

impl<T: Operand<Sum = f32> + Number, O: ResultOf<T, Addend = O> + Number> Problem
    for BlockScaled<T, O>
{
    type Call = Call;
    type Output = O;

    fn new(device: &Device, call: Call) -> BlockScaled<T, O> {
        let ([m, n, k], [of_b, of_c]) = (call.size, call.matrices());
        let layout = |at: usize| &call.places[at].layout;
        let steps = k.div_ceil(BLOCK);
        let of_b_scales = [of_b, steps, n.div_ceil(call.width())];
        BlockScaled {
            a: Tensor::new(device, [1, m, k], layout(0), |len| small(len, 1)),
            b: Tensor::new(device, [of_b, k, n], layout(1), |len| small(len, 2)),
            c: Tensor::new(device, [of_c, m, n], layout(2), |len| small(len, 3)),
            a_scales: Tensor::new(device, [1, m, steps], layout(3), |len| factors(len, 4)),
            b_scales: Tensor::new(device, of_b_scales, layout(4), |len| factors(len, 5)),
            call,
        }
    }

    fn result(&self) -> &Tensor<O, 3> {
        &self.c
    }

    fn wanted(&self, before: &[f64]) -> Within {
        let [m, n, _] = self.call.size;
        let (a, b) = (self.a.numbers(), self.b.numbers());
        let (of_a, of_b) = (self.a_scales.numbers(), self.b_scales.numbers());
        let adds = matches!(self.call.kind, Kind::AlongK(_, true));
        let mut wanted = vec![None; before.len()];
        for i in 0..m {
            for ([group, matrix], steps) in self.call.terms(i) {
                for j in 0..n {
                    let column = j / self.call.width();
                    // The products of a block, then its scales.
                    let of_block = |block: usize| {
                        let begin = steps.start.max(BLOCK * block);
                        let end = steps.end.min(BLOCK * (block + 1));
                        let product =
                            |l: usize| a[self.a.at([0, i, l])] * b[self.b.at([group, l, j])];
                        let of_a = of_a[self.a_scales.at([0, i, block])];
                        let of_b = of_b[self.b_scales.at([group, block, column])];
                        (begin..end).map(product).sum::<f64>() * of_a * of_b
                    };
                    let blocks = steps.start / BLOCK..steps.end.div_ceil(BLOCK);
                    let sum: f64 = blocks.map(of_block).sum();
                    let place = self.c.at([matrix, i, j]);
                    let was = if adds { before[place] } else { 0.0 };
                    // What is added in memory was rounded before.
                    let rounded = if adds { sum.abs() * O::ROUNDING } else { 0.0 };
                    let in_f32 = (sum.abs() + was.abs()) * 1e-6;
                    wanted[place] = Some((sum + was, rounded + in_f32));
                }
            }
        }
        wanted
    }
    fn run(&self, products: &Products, stream: &Stream, broken: Option<Broken>) -> Result<()> {
        let mut numbers = self.call.numbers();
        // What a call does not have is not broken.
        let has_numbers = !numbers.is_empty();
        let views = matrices(broken, [5, usize::from(has_numbers)]);
        let [of_b, of_c] = self.call.matrices().map(|count| usize::from(count == 1));
        let a = Scaled {
            values: &views.view(0, &self.a.view(1)),
            scales: &views.view(1, &self.a_scales.view(1)),
        };
        let b = Scaled {
            values: &views.view(2, &self.b.view(of_b)),
            scales: &views.view(3, &self.b_scales.view(of_b)),
        };
        numbers.resize(views.length(5, numbers.len(), &[numbers.len()]), 0);
        let numbers = Buffer::from_slice(stream.device(), &numbers).unwrap();
        let c = views.view(4, &self.c.view(of_c));
        match self.call.kind {
            Kind::Dense => products.block_scaled(stream, a, b, &c),
            Kind::Offsets(_) => {
                products.block_scaled_grouped(stream, a, b, &c, GroupRows::Offsets(&numbers))
            }
            Kind::Counts(_) => {
                products.block_scaled_grouped(stream, a, b, &c, GroupRows::Counts(&numbers))
            }
            Kind::AlongK(groups, adds) => {
                let options = AlongK {
                    offsets: groups.map(|_| &numbers),
                    adds,
                };
                products.row_scaled(stream, a, b, &c, options)
            }
        }
    }
}

#[test]
fn e4m3_to_bf16() {
    right::<BlockScaled<E4m3, bf16>>(10, &Call::any());
}

#[test]
fn e4m3_to_f32() {
    right::<BlockScaled<E4m3, f32>>(10, &Call::any());
}

#[test]
fn e5m2_to_f16() {
    right::<BlockScaled<E5m2, f16>>(10, &Call::any());
}

/// A matrix, quantised by blocks of so many rows.
fn quantise<T: Operand<Sum = f32> + Float + Number>(
    products: &Products,
    device: &Device,
    [m, k]: [usize; 2],
    place: &Place,
    rows: usize,
) {
    let x: Tensor<T, 3> = Tensor::new(device, [1, m, k], &place.layout, |len| fractions(len, 1));
    let stream = Stream::new(device).unwrap();
    let quantised = if rows == 1 {
        products.quantise_rows(&stream, &x.view(1))
    } else {
        products.quantise_blocks(&stream, &x.view(1))
    };
    let (values, scales) = quantised.unwrap();
    stream.synchronize().unwrap();
    let numbers = x.numbers();
    let (values, scales) = (values.to_vec().unwrap(), scales.to_vec().unwrap());
    let steps = k.div_ceil(BLOCK);
    for (block, step) in
        (0..m.div_ceil(rows)).flat_map(|block| (0..steps).map(move |step| (block, step)))
    {
        let scale = if rows == 1 {
            scales[step * m.next_multiple_of(4) + block]
        } else {
            scales[block * steps + step]
        };
        let of_block = (rows * block..(rows * (block + 1)).min(m))
            .flat_map(|i| (BLOCK * step..(BLOCK * (step + 1)).min(k)).map(move |j| [i, j]));
        let elements: Vec<[usize; 2]> = of_block.collect();
        let element = |[i, j]: [usize; 2]| numbers[x.at([0, i, j])];
        let largest = elements
            .iter()
            .fold(0.0_f64, |largest, &at| largest.max(element(at).abs()));
        let scale = f64::from(scale);
        assert!(
            (scale * 448.0 - largest).abs() <= 1e-5 * largest + 1e-12,
            "scale of block {block}, step {step}: found {scale}, expected {}",
            largest / 448.0
        );
        for at in elements {
            let found = values[at[0] * k.next_multiple_of(16) + at[1]].to_f64() * scale;
            let allowed = element(at).abs() / 16.0 * 1.001 + scale / 512.0;
            assert!(
                (found - element(at)).abs() <= allowed,
                "element {at:?}: found {found}, expected {}",
                element(at)
            );
        }
    }
}

#[test]
fn quantised() {
    let device = device();
    let products = Products::new(&device);
    let call = (size(), Place::any(), prop_oneof![Just(1), Just(BLOCK)]);
    each(10, &call, |([m, k, _], place, rows)| {
        quantise::<bf16>(&products, &device, [m, k], &place, rows);
        quantise::<f16>(&products, &device, [m, k], &place, rows);
    });
}

#[test]
fn broken() {
    problem::broken::<BlockScaled<E4m3, bf16>>(30, Call::any());
}
