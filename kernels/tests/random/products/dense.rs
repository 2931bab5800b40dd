//! Products of a matrix or a batch.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{
    Dispatch, Operand, Options, Precision, Products, Result, ResultOf,
};

use super::ending::Ending;
use super::options::Extras;
use super::place::{Place, matrices, names_argument};
use crate::broken::{Broken, refused};
use crate::calls::{device, each, extent, is_on_gpu};
use crate::near::{Within, exact};
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
    ending: Ending<O>,
}

impl<T: Operand + Number, O: ResultOf<T> + Number> Problem<T, O> {
    fn new(device: &Device, call: Call) -> Problem<T, O> {
        let [m, n, k] = call.size;
        let count = call.batches.unwrap_or(1);
        let one_or = |at: usize| if call.places[at].is_shared { 1 } else { count };
        Problem {
            a: tensor(device, [one_or(0), m, k], &call, 0),
            b: tensor(device, [one_or(1), k, n], &call, 1),
            c: tensor(device, [count, m, n], &call, 2),
            ending: Ending::new(device, call.extras, [count, m, n], &call.places[3].layout),
            call,
        }
    }

    /// Elements of the buffer of C after the call, each with the error that it may have before it is rounded; none where no result is stored.
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
                    wanted[place] = Some(self.ending.finished(sum, before[place], [batch, i, j]));
                }
            }
        }
        wanted
    }

    /// With a view of A, B or C broken.
    fn run(
        &self,
        products: &Products,
        device: &Device,
        precision: Precision,
        broken: Option<Broken>,
    ) -> Result<()> {
        let views = matrices(broken, 3);
        let Call {
            batches, places, ..
        } = &self.call;
        // A product alone, and one matrix for all of a batch, have two dimensions.
        let of_c = usize::from(batches.is_none());
        let first = |at: usize| usize::from(batches.is_none() || places[at].is_shared);
        let stream = Stream::new(device).unwrap();
        let a = views.view(0, &self.a.view(first(0)));
        let b = views.view(1, &self.b.view(first(1)));
        let c = views.view(2, &self.c.view(of_c));
        let call = |options: &Options<'_, O>| products.call(&stream, &a, &b, &c, options);
        self.ending.with(device, (of_c, precision), call)?;
        stream.synchronize()?;
        Ok(())
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
        let dispatch = problem.call.plan.map(Dispatch::by_number);
        let by_number = dispatch.map(|dispatch| Products::with_dispatch(&device, dispatch));
        let products = by_number.as_ref().unwrap_or(&products);
        let made = problem.run(products, &device, precision, None);
        made.unwrap();
        exact("c", &problem.c.numbers(), &wanted, &before, O::ROUNDING);
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

#[test]
fn broken() {
    let device = device();
    let products = Products::new(&device);
    each(40, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16, bf16>::new(&device, call);
        let before = problem.c.numbers();
        let result = problem.run(&products, &device, Precision::Tf32, Some(broken));
        refused(result, names_argument, &[[before, problem.c.numbers()]]);
    });
}
