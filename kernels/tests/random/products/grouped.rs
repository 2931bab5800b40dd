//! Products of groups of rows.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Operand, Options, Precision, Products, Result, ResultOf};

use super::ending::{Ending, LISTS};
use super::options::Extras;
use super::place::{Place, matrices, size};
use super::problem::{self, Problem, right};
use crate::broken::Broken;
use crate::near::Within;
use crate::numbers::{Number, noise, small};
use crate::tensor::Tensor;

/// A call.
#[derive(Clone, Debug)]
struct Call {
    groups: usize,
    size: [usize; 3],
    /// A, B and C.
    places: [Place; 3],
    extras: Extras,
    /// Scales of B are those of groups, where there are several.
    is_by_group: bool,
    seed: u64,
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let places = [Place::any(), Place::any(), Place::any()];
        let rest = (Extras::any(), any::<bool>(), 0..1000_u64);
        (0..7_usize, size(), places, rest).prop_map(|(groups, size, places, rest)| {
            let (extras, is_by_group, seed) = rest;
            Call {
                groups,
                size,
                places,
                extras: Extras {
                    has_source: false,
                    bias: extras.bias.map(|_| Axis::Columns),
                    ..extras
                },
                is_by_group,
                seed,
            }
        })
    }

    /// With results that an i32 can hold.
    fn whole(self) -> Call {
        let extras = self.extras.whole();
        Call { extras, ..self }
    }
}

/// Where groups begin, and where the last ends, in steps of `unit`: rows may be of none, and groups empty. With some seeds the first group begins in front of the first row, and
/// the last one ends behind the last.
pub(super) fn offsets(groups: usize, rows: usize, unit: usize, seed: u64) -> Vec<i32> {
    let most = rows / unit;
    let drawn = noise(groups + 1, seed).map(|bits| match bits % 4 {
        0 => [0, most][(bits >> 4) as usize % 2],
        _ => (bits >> 8) as usize % (most + 1),
    });
    let mut offsets: Vec<i32> = drawn.map(|step| (unit * step) as i32).collect();
    offsets.sort_unstable();
    if unit == 1 && seed.is_multiple_of(8) {
        offsets[0] = -3;
        offsets[groups] = rows as i32 + 7;
    }
    offsets
}

/// The rows of a group, of so many in all.
pub(super) fn rows_of(offsets: &[i32], group: usize, rows: usize) -> std::ops::Range<usize> {
    let [begin, end] = [0, 1].map(|after| offsets[group + after].max(0) as usize);
    begin.min(rows)..end.min(rows)
}

/// The matrices and numbers of a call.
struct Grouped<T, O> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    ending: Ending<O>,
    offsets: Vec<i32>,
}

impl<T: Operand + Number, O: ResultOf<T, Addend = O> + Number> Problem for Grouped<T, O> {
    type Call = Call;
    type Output = O;

    fn new(device: &Device, call: Call) -> Grouped<T, O> {
        let ([m, n, k], groups) = (call.size, call.groups);
        let layout = |at: usize| &call.places[at].layout;
        let mut of_b = vec![groups * n, groups];
        if call.is_by_group {
            of_b.reverse();
        }
        let lengths = [vec![m], of_b, vec![groups * n]];
        let source = ([1, m, n], layout(2));
        Grouped {
            a: Tensor::new(device, [1, m, k], layout(0), |len| {
                call.extras.with_wild(small(len, 1))
            }),
            b: Tensor::new(device, [groups, k, n], layout(1), |len| small(len, 2)),
            c: Tensor::new(device, [1, m, n], layout(2), |len| small(len, 3)),
            ending: Ending::of_lengths(device, call.extras, lengths, source),
            offsets: offsets(groups, m, 1, call.seed),
            call,
        }
    }

    fn result(&self) -> &Tensor<O, 3> {
        &self.c
    }

    fn wanted(&self, before: &[f64]) -> Within {
        let [m, n, k] = self.call.size;
        let (a, b) = (self.a.numbers(), self.b.numbers());
        let mut wanted = vec![None; before.len()];
        for group in 0..self.call.groups {
            let rows = rows_of(&self.offsets, group, m);
            for (i, j) in rows.flat_map(|i| (0..n).map(move |j| (i, j))) {
                let product = |l: usize| a[self.a.at([0, i, l])] * b[self.b.at([group, l, j])];
                let sum = (0..k).map(product).sum();
                let place = self.c.at([0, i, j]);
                let column = group * n + j;
                let of_b = if self.call.is_by_group { group } else { column };
                let numbers = [i, of_b, column];
                let result = self.ending.finished(sum, before[place], [0, i, j], numbers);
                wanted[place] = Some(result);
            }
        }
        wanted
    }

    fn run(&self, products: &Products, stream: &Stream, broken: Option<Broken>) -> Result<()> {
        let views = matrices(broken, [3, 1 + LISTS + 1]);
        let mut offsets = self.offsets.clone();
        offsets.resize(views.length(4 + LISTS, offsets.len(), &[offsets.len()]), 0);
        let offsets = Buffer::from_slice(stream.device(), &offsets).unwrap();
        let a = views.view(0, &self.a.view(1));
        let b = views.view(1, &self.b.view(0));
        let c = views.view(2, &self.c.view(1));
        let call =
            |options: &Options<'_, O>| products.grouped(stream, &a, &b, &c, &offsets, options);
        let first = (1, Precision::Tf32);
        self.ending.with(stream.device(), first, (&views, 3), call)
    }
}

macro_rules! groups {
    ($($name:ident: $operand:ty => $result:ty, $change:expr;)*) => {$(
        #[test]
        fn $name() {
            right::<Grouped<$operand, $result>>(6, &Call::any().prop_map($change));
        }
    )*};
}

groups! {
    bf16_to_bf16: bf16 => bf16, |call| call;
    f16_to_f32: f16 => f32, |call| call;
    e4m3_to_bf16: E4m3 => bf16, |call| call;
    i8_to_i32: i8 => i32, Call::whole;
    f32_as_tf32: f32 => f32, |call| call;
}

#[test]
fn broken() {
    problem::broken::<Grouped<bf16, bf16>>(30, Call::any());
}
