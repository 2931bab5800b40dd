//! Products of a matrix or a batch.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{
    Dispatch, Operand, Options, Precision, Products, Result, ResultOf, Stored,
};

use super::ending::{Ending, LISTS};
use super::options::Extras;
use super::place::{Place, matrices};
use super::problem::{self, Problem, right};
use crate::broken::Broken;
use crate::calls::{extent, is_on_gpu};
use crate::near::Within;
use crate::numbers::{Number, small};
use crate::tensor::Tensor;

/// A call, of a batch or of one product.
#[derive(Clone, Debug)]
struct Call {
    batches: Option<usize>,
    size: [usize; 3],
    /// A, B, C and the source.
    places: [Place; 4],
    extras: Extras,
    /// Which of the plans that can compute it does, if not the one that is the fastest.
    plan: Option<usize>,
    precision: Precision,
}

impl Call {
    /// Of so many products of elements at most.
    fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [20_000, 1 << 25]
        } else {
            [400, 1 << 20]
        };
        let batches = prop_oneof![3 => Just(None), 1 => (1..4_usize).prop_map(Some)];
        let size = [extent(most), extent(most), extent(most)];
        let places = [Place::any(), Place::any(), Place::any(), Place::any()];
        let plan = proptest::option::of(0..1000_usize);
        (batches, size, places, Extras::any(), plan)
            .prop_map(|(batches, size, places, extras, plan)| Call {
                batches,
                size,
                places,
                extras,
                plan,
                precision: Precision::Tf32,
            })
            .prop_filter("too long on the host", move |call| {
                let each: usize = call.size.iter().map(|extent| extent.max(&1)).product();
                let matrix = each / call.size.iter().min().unwrap().max(&1);
                each.max(8 * matrix) * call.batches.unwrap_or(1) <= products
            })
    }

    /// With results that an i32 can hold.
    fn whole(self) -> Call {
        let extras = self.extras.whole();
        Call { extras, ..self }
    }

    /// With results of 8 bits, which are not added to themselves, and have no infinities.
    fn of_bytes(self) -> Call {
        let extras = Extras {
            has_source: true,
            wild: None,
            ..self.extras
        };
        Call { extras, ..self }
    }

    fn by_three_products(self) -> Call {
        // What becomes of infinities is said of whole rows.
        let extras = Extras {
            wild: None,
            ..self.extras
        };
        let precision = Precision::Tf32x3;
        Call {
            extras,
            precision,
            ..self
        }
    }
}

/// The matrices that lie at the call's place `at`.
fn tensor<T: Number>(device: &Device, shape: [usize; 3], call: &Call, at: usize) -> Tensor<T, 3> {
    Tensor::new(device, shape, &call.places[at].layout, |len| {
        small(len, at as u64)
    })
}

/// The matrices and numbers of a call.
struct Dense<T, O: Stored> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    ending: Ending<O::Addend>,
}

impl<T: Operand + Number, O: ResultOf<T, Addend: Number> + Number> Problem for Dense<T, O> {
    type Call = Call;
    type Output = O;

    fn new(device: &Device, call: Call) -> Dense<T, O> {
        let [m, n, k] = call.size;
        let count = call.batches.unwrap_or(1);
        let one_or = |at: usize| if call.places[at].is_shared { 1 } else { count };
        Dense {
            a: Tensor::new(device, [one_or(0), m, k], &call.places[0].layout, |len| {
                call.extras.with_wild(small(len, 0))
            }),
            b: tensor(device, [one_or(1), k, n], &call, 1),
            c: tensor(device, [count, m, n], &call, 2),
            ending: Ending::new(device, call.extras, [count, m, n], &call.places[3].layout),
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
        for batch in 0..self.call.batches.unwrap_or(1) {
            for i in 0..m {
                let row: Vec<f64> = (0..k).map(|l| a[self.a.at([batch, i, l])]).collect();
                for j in 0..n {
                    let column = (0..k).map(|l| b[self.b.at([batch, l, j])]);
                    let sum = row.iter().zip(column).map(|(x, y)| x * y).sum();
                    let place = self.c.at([batch, i, j]);
                    let result = self.ending.of_result(sum, before[place], [batch, i, j]);
                    wanted[place] = Some(result);
                }
            }
        }
        wanted
    }

    fn products(&self, device: &Device) -> Option<Products> {
        let dispatch = Dispatch::by_number(self.call.plan?);
        Some(Products::with_dispatch(device, dispatch))
    }

    fn run(&self, products: &Products, stream: &Stream, broken: Option<Broken>) -> Result<()> {
        let views = matrices(broken, [3, 1 + LISTS]);
        let Call {
            batches,
            places,
            precision,
            ..
        } = &self.call;
        // A product alone, and one matrix for all of a batch, have two dimensions.
        let of_c = usize::from(batches.is_none());
        let first = |at: usize| usize::from(batches.is_none() || places[at].is_shared);
        let a = views.view(0, &self.a.view(first(0)));
        let b = views.view(1, &self.b.view(first(1)));
        let c = views.view(2, &self.c.view(of_c));
        let call = |options: &Options<'_, O>| products.call(stream, &a, &b, &c, options);
        self.ending
            .with(stream.device(), (of_c, *precision), (&views, 3), call)
    }
}

macro_rules! products {
    ($($name:ident: $operand:ty => $result:ty, $change:expr;)*) => {$(
        #[test]
        fn $name() {
            right::<Dense<$operand, $result>>(8, &Call::any().prop_map($change));
        }
    )*};
}

products! {
    bf16_to_bf16: bf16 => bf16, |call| call;
    bf16_to_f32: bf16 => f32, |call| call;
    f16_to_f16: f16 => f16, |call| call;
    f16_to_f32: f16 => f32, |call| call;
    e4m3_to_bf16: E4m3 => bf16, |call| call;
    e5m2_to_f16: E5m2 => f16, |call| call;
    i8_to_i32: i8 => i32, Call::whole;
    i8_to_f32: i8 => f32, |call| call;
    bf16_to_e4m3: bf16 => E4m3, Call::of_bytes;
    e4m3_to_e5m2: E4m3 => E5m2, Call::of_bytes;
    f32_as_tf32: f32 => f32, |call| call;
    f32_by_three_products: f32 => f32, Call::by_three_products;
}

#[test]
fn broken() {
    problem::broken::<Dense<bf16, bf16>>(40, Call::any());
}
