//! Products of random shapes, places, types and options.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Operand, Options, Precision, Products, ResultOf};

use crate::calls::{device, each, extent, is_on_gpu};
use crate::numbers::{Number, factors, small};
use crate::options::{Extras, Factors, activate};
use crate::tensor::{MemoryLayout, Tensor};

/// The memory layout of a matrix, or of each of a batch.
#[derive(Clone, Debug)]
struct Place {
    layout: MemoryLayout<3>,
    /// Of a batch there is one matrix for all.
    is_shared: bool,
}

impl Place {
    fn any() -> impl Strategy<Value = Place> {
        let order = prop_oneof![Just([0, 1, 2]), Just([0, 2, 1])];
        let step = prop_oneof![9 => Just(1_usize), 1 => Just(2_usize)];
        let gap = prop_oneof![3 => Just(0_usize), 1 => 1..20_usize, 1 => (1..5_usize).prop_map(|eights| 8 * eights)];
        let offset = prop_oneof![3 => Just(0_usize), 1 => 1..20_usize, 1 => Just(16_usize)];
        let is_shared = prop_oneof![9 => Just(false), 1 => Just(true)];
        (order, step, gap, offset, is_shared).prop_map(|(order, step, gap, offset, is_shared)| {
            Place {
                layout: MemoryLayout {
                    order,
                    step,
                    gap,
                    offset,
                },
                is_shared,
            }
        })
    }
}

/// A call, of a batch or of one product.
#[derive(Clone, Debug)]
struct Call {
    batches: Option<usize>,
    size: [usize; 3],
    /// A, B, C and the source.
    places: [Place; 4],
    extras: Extras,
}

impl Call {
    /// Of so many products of elements at most.
    fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [20_000, 1 << 27]
        } else {
            [400, 1 << 20]
        };
        let batches = prop_oneof![3 => Just(None), 1 => (1..4_usize).prop_map(Some)];
        let size = [extent(most), extent(most), extent(most)];
        let places = [Place::any(), Place::any(), Place::any(), Place::any()];
        (batches, size, places, Extras::any())
            .prop_map(|(batches, size, places, extras)| Call {
                batches,
                size,
                places,
                extras,
            })
            .prop_filter("too long on the host", move |call| {
                let each: usize = call.size.iter().map(|extent| extent.max(&1)).product();
                let matrix = each / call.size.iter().min().unwrap().max(&1);
                each.max(8 * matrix) * call.batches.unwrap_or(1) <= products
            })
    }
}

/// The matrices that lie at the call's place `at`.
fn tensor<T: Number>(device: &Device, shape: [usize; 3], call: &Call, at: usize) -> Tensor<T, 3> {
    Tensor::new(device, shape, &call.places[at].layout, |len| {
        small(len, at as u64)
    })
}

/// The matrices and numbers of a call.
struct Problem<T, O> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    source: Tensor<O, 3>,
    /// Of A and B; none if there are no numbers.
    scales: [Vec<f32>; 2],
    bias: Vec<O>,
}

impl<T: Operand + Number, O: ResultOf<T> + Number> Problem<T, O> {
    fn new(device: &Device, call: Call) -> Problem<T, O> {
        let ([m, n, k], extras) = (call.size, call.extras);
        let count = call.batches.unwrap_or(1);
        let one_or = |at: usize| if call.places[at].is_shared { 1 } else { count };
        let a = tensor(device, [one_or(0), m, k], &call, 0);
        let b = tensor(device, [one_or(1), k, n], &call, 1);
        let c = tensor(device, [count, m, n], &call, 2);
        let source = tensor(device, [count, m, n], &call, 3);
        let of_bias = match extras.bias {
            Some(Axis::Rows) => m,
            Some(Axis::Columns) | None => n,
        };
        Problem {
            call,
            a,
            b,
            c,
            source,
            scales: [0, 1].map(|side| factors(extras.scales[side].len([m, n][side]), 5)),
            bias: small(of_bias, 6),
        }
    }

    /// Elements of the buffer of C after the call, each with the error that it may have before it is rounded; none where no result is stored.
    fn wanted(&self, before: &[f64]) -> Vec<Option<(f64, f64)>> {
        let [m, n, k] = self.call.size;
        let (a, b) = (self.a.numbers(), self.b.numbers());
        let source = if self.call.extras.has_source {
            &self.source.numbers()[..]
        } else {
            before
        };
        let mut wanted = vec![None; before.len()];
        for batch in 0..self.call.batches.unwrap_or(1) {
            for i in 0..m {
                let row: Vec<f64> = (0..k).map(|l| a[self.a.at([batch, i, l])]).collect();
                for j in 0..n {
                    let column = (0..k).map(|l| b[self.b.at([batch, l, j])]);
                    let sum = row.iter().zip(column).map(|(x, y)| x * y).sum();
                    let place = self.c.at([batch, i, j]);
                    let from = if self.call.extras.has_source {
                        self.source.at([batch, i, j])
                    } else {
                        place
                    };
                    wanted[place] = Some(self.finished(sum, source[from], [i, j]));
                }
            }
        }
        wanted
    }

    /// What the options make of a sum.
    fn finished(&self, sum: f64, source: f64, at: [usize; 2]) -> (f64, f64) {
        let extras = self.call.extras;
        let scale = |side: usize| match &self.scales[side][..] {
            [] => 1.0,
            [one] => f64::from(*one),
            each => f64::from(each[at[side]]),
        };
        let bias = match extras.bias {
            None => 0.0,
            Some(Axis::Rows) => self.bias[at[0]].back(),
            Some(Axis::Columns) => self.bias[at[1]].back(),
        };
        let parts = [
            f64::from(extras.alpha) * scale(0) * scale(1) * sum,
            bias,
            f64::from(extras.beta) * source,
        ];
        let (result, error) = activate(extras.activation, parts.iter().sum());
        let in_f32: f64 = parts.iter().map(|part| part.abs() * 1e-6).sum();
        (result, error + in_f32)
    }

    fn call(&self, products: &Products, device: &Device, precision: Precision) {
        let Call {
            batches,
            places,
            extras,
            ..
        } = &self.call;
        let of = |numbers: &[f32]| Buffer::from_slice(device, numbers).unwrap();
        let scales = [of(&self.scales[0]), of(&self.scales[1])];
        let bias = Buffer::from_slice(device, &self.bias).unwrap();
        // A product alone, and one matrix for all of a batch, have two dimensions.
        let first = |at: usize| usize::from(batches.is_none() || places[at].is_shared);
        let source = self.source.view(usize::from(batches.is_none()));
        let options = Options {
            alpha: extras.alpha,
            beta: extras.beta,
            source: extras.has_source.then_some(&source),
            a_scales: (extras.scales[0] != Factors::None).then_some(&scales[0]),
            b_scales: (extras.scales[1] != Factors::None).then_some(&scales[1]),
            bias: extras.bias.map(|axis| (&bias, axis)),
            activation: extras.activation,
            precision,
        };
        let stream = Stream::new(device).unwrap();
        let (a, b) = (self.a.view(first(0)), self.b.view(first(1)));
        let c = self.c.view(usize::from(batches.is_none()));
        products.call(&stream, &a, &b, &c, &options).unwrap();
        stream.synchronize().unwrap();
    }
}

/// Makes calls, and compares every element of the buffer of C, those beside the result with what they were.
fn check<T: Operand + Number, O: ResultOf<T> + Number>(
    precision: Precision,
    extras: impl Fn(Extras) -> Extras,
) {
    let device = device();
    let products = Products::new(&device);
    each(8, &Call::any(), |call| {
        let extras = extras(call.extras);
        let problem = Problem::<T, O>::new(&device, Call { extras, ..call });
        let before = problem.c.numbers();
        let wanted = problem.wanted(&before);
        problem.call(&products, &device, precision);
        for (at, found) in problem.c.numbers().into_iter().enumerate() {
            let (want, error) = wanted[at].unwrap_or((before[at], 0.0));
            let allowed = error + want.abs() * O::ROUNDING;
            assert!(
                (found - want).abs() <= allowed,
                "c[{at}]: found {found}, expected {want} within {allowed}"
            );
        }
    });
}

macro_rules! products {
    ($($name:ident: $operand:ty => $result:ty, $precision:ident, $extras:expr;)*) => {$(
        #[test]
        fn $name() {
            check::<$operand, $result>(Precision::$precision, $extras);
        }
    )*};
}

products! {
    bf16_to_bf16: bf16 => bf16, Tf32, |extras| extras;
    bf16_to_f32: bf16 => f32, Tf32, |extras| extras;
    f16_to_f16: f16 => f16, Tf32, |extras| extras;
    f16_to_f32: f16 => f32, Tf32, |extras| extras;
    e4m3_to_bf16: E4m3 => bf16, Tf32, |extras| extras;
    e5m2_to_f16: E5m2 => f16, Tf32, |extras| extras;
    i8_to_i32: i8 => i32, Tf32, Extras::whole;
    i8_to_f32: i8 => f32, Tf32, |extras| extras;
    f32_as_tf32: f32 => f32, Tf32, |extras| extras;
    f32_by_three_products: f32 => f32, Tf32x3, |extras| extras;
}
