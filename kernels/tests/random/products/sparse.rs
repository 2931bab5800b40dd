//! Products of 2:4 sparse matrices, compressed on the host or on the device.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::sparse::{HostSparse, Pruning, SparseMatrix, SparseOperand};
use tilekit_kernels::products::{Options, Precision, Products, Result, ResultOf};

use super::ending::Ending;
use super::options::Extras;
use super::place::{Place, matrices, names_argument, size};
use crate::broken::{Broken, refused};
use crate::calls::{device, each};
use crate::near::{Within, exact};
use crate::numbers::{Number, small};
use crate::tensor::Tensor;

/// A call.
#[derive(Clone, Debug)]
struct Call {
    size: [usize; 3],
    /// A, B, C and the source.
    places: [Place; 4],
    is_compressed_by_host: bool,
    extras: Extras,
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let places = [Place::any(), Place::any(), Place::any(), Place::any()];
        let call = (size(), places, any::<bool>(), Extras::any());
        call.prop_map(|(size, places, is_compressed_by_host, extras)| Call {
            size,
            places,
            is_compressed_by_host,
            extras,
        })
    }
}

/// The matrices of a call.
struct Problem<T, O> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    ending: Ending<O>,
}

impl<T: SparseOperand + Number, O: ResultOf<T> + Number> Problem<T, O> {
    fn new(device: &Device, call: Call) -> Problem<T, O> {
        let [m, n, k] = call.size;
        let layout = |at: usize| &call.places[at].layout;
        Problem {
            a: Tensor::new(device, [1, m, k], layout(0), |len| small(len, 1)),
            b: Tensor::new(device, [1, k, n], layout(1), |len| small(len, 2)),
            c: Tensor::new(device, [1, m, n], layout(2), |len| small(len, 4)),
            ending: Ending::new(device, call.extras, [1, m, n], layout(3)),
            call,
        }
    }

    /// A row by row, of four neighbours the two largest in magnitude, the first ones of equal ones.
    fn pruned(&self) -> Vec<f64> {
        let [m, _, k] = self.call.size;
        let numbers = self.a.numbers();
        let mut all = Vec::new();
        for row in 0..m {
            let elements: Vec<f64> = (0..k).map(|at| numbers[self.a.at([0, row, at])]).collect();
            for four in elements.chunks(4) {
                let rank = |at: usize| {
                    let is_before = |other: &usize| {
                        let [one, another] = [four[at].abs(), four[*other].abs()];
                        another > one || another >= one && *other < at
                    };
                    (0..four.len()).filter(is_before).count()
                };
                all.extend((0..four.len()).map(|at| if rank(at) < 2 { four[at] } else { 0.0 }));
            }
        }
        all
    }

    fn compressed(&self, products: &Products, stream: &Stream, device: &Device) -> SparseMatrix<T> {
        if !self.call.is_compressed_by_host {
            let from = self.a.view(1);
            return products
                .compress(stream, &from, Pruning::LargestTwo)
                .unwrap();
        }
        let [m, _, k] = self.call.size;
        let all = self.a.buffer.to_vec().unwrap();
        let places = (0..m).flat_map(|i| (0..k).map(move |l| [0, i, l]));
        let elements: Vec<T> = places.map(|at| all[self.a.at(at)]).collect();
        let host = HostSparse::compress(&elements, [m, k], Pruning::LargestTwo).unwrap();
        host.on(device).unwrap()
    }

    /// With a view of B or C broken.
    fn run(&self, products: &Products, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = matrices(broken, 2);
        let stream = Stream::new(device).unwrap();
        let a = self.compressed(products, &stream, device);
        let b = views.view(0, &self.b.view(1));
        let c = views.view(1, &self.c.view(1));
        let call = |options: &Options<'_, O>| products.sparse(&stream, &a, &b, &c, options);
        self.ending.with(device, (1, Precision::Tf32), call)?;
        stream.synchronize()?;
        Ok(())
    }

    fn wanted(&self, before: &[f64]) -> Within {
        let [m, n, k] = self.call.size;
        let (a, b) = (self.pruned(), self.b.numbers());
        let mut wanted = vec![None; before.len()];
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let product = |l: usize| a[i * k + l] * b[self.b.at([0, l, j])];
            let sum = (0..k).map(product).sum();
            let place = self.c.at([0, i, j]);
            wanted[place] = Some(self.ending.finished(sum, before[place], [0, i, j]));
        }
        wanted
    }
}

fn check<T: SparseOperand + Number, O: ResultOf<T> + Number>(extras: impl Fn(Extras) -> Extras) {
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

#[test]
fn bf16_to_bf16() {
    check::<bf16, bf16>(|extras| extras);
}

#[test]
fn e4m3_to_bf16() {
    check::<E4m3, bf16>(|extras| extras);
}

#[test]
fn i8_to_i32() {
    check::<i8, i32>(Extras::whole);
}

#[test]
fn broken() {
    let device = device();
    let products = Products::new(&device);
    each(20, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16, bf16>::new(&device, call);
        let before = problem.c.numbers();
        let result = problem.run(&products, &device, Some(broken));
        refused(result, names_argument, &[[before, problem.c.numbers()]]);
    });
}
