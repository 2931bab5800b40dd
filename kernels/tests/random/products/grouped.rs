//! Products of groups of rows.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Operand, Options, Products, Result, ResultOf};

use super::options::{Extras, Factors, activate};
use super::place::{Place, matrices, names_argument, size};
use crate::broken::{Broken, refused};
use crate::calls::{device, each};
use crate::near::{Within, exact};
use crate::numbers::{Number, factors, noise, small};
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
        (1..7_usize, size(), places, rest).prop_map(|(groups, size, places, rest)| {
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

    fn a_scales(&self) -> Vec<f32> {
        factors(self.extras.scales[0].len(self.size[0]), 5)
    }

    fn b_scales(&self) -> Vec<f32> {
        let each = if self.is_by_group { 1 } else { self.size[1] };
        factors(self.extras.scales[1].len(self.groups * each), 6)
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

/// The matrices of a call.
struct Problem<T, O> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    bias: Vec<O>,
    offsets: Vec<i32>,
}

impl<T: Operand + Number, O: ResultOf<T> + Number> Problem<T, O> {
    fn new(device: &Device, call: Call) -> Problem<T, O> {
        let ([m, n, k], groups) = (call.size, call.groups);
        let layout = |at: usize| &call.places[at].layout;
        Problem {
            a: Tensor::new(device, [1, m, k], layout(0), |len| small(len, 1)),
            b: Tensor::new(device, [groups, k, n], layout(1), |len| small(len, 2)),
            c: Tensor::new(device, [1, m, n], layout(2), |len| small(len, 3)),
            bias: small(groups * n, 4),
            offsets: offsets(groups, m, 1, call.seed),
            call,
        }
    }

    /// With a view of A, B or C broken.
    fn run(&self, products: &Products, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = matrices(broken, 3);
        let of = |numbers: &[f32]| Buffer::from_slice(device, numbers).unwrap();
        let scales = [of(&self.call.a_scales()), of(&self.call.b_scales())];
        let bias = Buffer::from_slice(device, &self.bias).unwrap();
        let extras = self.call.extras;
        let options = Options {
            alpha: extras.alpha,
            beta: extras.beta,
            a_scales: (extras.scales[0] != Factors::None).then_some(&scales[0]),
            b_scales: (extras.scales[1] != Factors::None).then_some(&scales[1]),
            bias: extras.bias.map(|axis| (&bias, axis)),
            activation: extras.activation,
            ..Options::default()
        };
        let offsets = Buffer::from_slice(device, &self.offsets).unwrap();
        let a = views.view(0, &self.a.view(1));
        let b = views.view(1, &self.b.view(0));
        let c = views.view(2, &self.c.view(1));
        let stream = Stream::new(device).unwrap();
        products.grouped(&stream, &a, &b, &c, &offsets, &options)?;
        stream.synchronize()?;
        Ok(())
    }

    /// Elements of the buffer of C, each with its error before it is rounded; none where no result is stored.
    fn wanted(&self, before: &[f64]) -> Within {
        let [m, n, k] = self.call.size;
        let (a, b) = (self.a.numbers(), self.b.numbers());
        let scales = [self.call.a_scales(), self.call.b_scales()];
        let mut wanted = vec![None; before.len()];
        for group in 0..self.call.groups {
            for i in rows_of(&self.offsets, group, m) {
                for j in 0..n {
                    let product = |l: usize| a[self.a.at([0, i, l])] * b[self.b.at([group, l, j])];
                    let sum: f64 = (0..k).map(product).sum();
                    let place = self.c.at([0, i, j]);
                    let scale = |side: usize, at: usize| match scales[side].len() {
                        0 => 1.0,
                        1 => f64::from(scales[side][0]),
                        count if side == 1 && count == self.call.groups => {
                            f64::from(scales[1][group])
                        }
                        _ => f64::from(scales[side][at]),
                    };
                    let extras = self.call.extras;
                    let bias = extras.bias.map_or(0.0, |_| self.bias[group * n + j].back());
                    let factor = f64::from(extras.alpha) * scale(0, i) * scale(1, group * n + j);
                    let parts = [factor * sum, bias, f64::from(extras.beta) * before[place]];
                    let (result, error) = activate(extras.activation, parts.iter().sum());
                    let in_f32: f64 = parts.iter().map(|part| part.abs() * 1e-6).sum();
                    wanted[place] = Some((result, error + in_f32));
                }
            }
        }
        wanted
    }
}

fn check<T: Operand + Number, O: ResultOf<T> + Number>(extras: impl Fn(Extras) -> Extras) {
    let device = device();
    let products = Products::new(&device);
    each(6, &Call::any(), |call| {
        let extras = extras(call.extras);
        let problem = Problem::<T, O>::new(&device, Call { extras, ..call });
        let before = problem.c.numbers();
        let wanted = problem.wanted(&before);
        problem.run(&products, &device, None).unwrap();
        exact("c", &problem.c.numbers(), &wanted, &before, O::ROUNDING);
    });
}

macro_rules! groups {
    ($($name:ident: $operand:ty => $result:ty, $extras:expr;)*) => {$(
        #[test]
        fn $name() {
            check::<$operand, $result>($extras);
        }
    )*};
}

groups! {
    bf16_to_bf16: bf16 => bf16, |extras| extras;
    f16_to_f32: f16 => f32, |extras| extras;
    e4m3_to_bf16: E4m3 => bf16, |extras| extras;
    i8_to_i32: i8 => i32, Extras::whole;
    f32_as_tf32: f32 => f32, |extras| extras;
}

#[test]
fn broken() {
    let device = device();
    let products = Products::new(&device);
    each(30, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16, bf16>::new(&device, call);
        let before = problem.c.numbers();
        let result = problem.run(&products, &device, Some(broken));
        refused(result, names_argument, &[[before, problem.c.numbers()]]);
    });
}
