//! Products of 2:4 sparse matrices, compressed on the host or on the device.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::sparse::{HostSparse, Pruning, SparseMatrix, SparseOperand};
use tilekit_kernels::products::{Options, Precision, Products, Result, ResultOf};

use super::ending::{Ending, LISTS};
use super::options::Extras;
use super::place::{Place, matrices, size};
use super::problem::{self, Problem, right};
use crate::broken::Broken;
use crate::near::Within;
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

/// The matrices and numbers of a call.
struct Sparse<T, O> {
    call: Call,
    a: Tensor<T, 3>,
    b: Tensor<T, 3>,
    c: Tensor<O, 3>,
    ending: Ending<O>,
}

impl<T: SparseOperand + Number, O: Number> Sparse<T, O> {
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

    fn compressed(&self, products: &Products, stream: &Stream) -> SparseMatrix<T> {
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
        host.on(stream.device()).unwrap()
    }
}

impl<T: SparseOperand + Number, O: ResultOf<T, Addend = O> + Number> Problem for Sparse<T, O> {
    type Call = Call;
    type Output = O;

    fn new(device: &Device, call: Call) -> Sparse<T, O> {
        let [m, n, k] = call.size;
        let layout = |at: usize| &call.places[at].layout;
        Sparse {
            a: Tensor::new(device, [1, m, k], layout(0), |len| small(len, 1)),
            b: Tensor::new(device, [1, k, n], layout(1), |len| small(len, 2)),
            c: Tensor::new(device, [1, m, n], layout(2), |len| small(len, 4)),
            ending: Ending::new(device, call.extras, [1, m, n], layout(3)),
            call,
        }
    }

    fn result(&self) -> &Tensor<O, 3> {
        &self.c
    }

    fn wanted(&self, before: &[f64]) -> Within {
        let [m, n, k] = self.call.size;
        let (a, b) = (self.pruned(), self.b.numbers());
        let mut wanted = vec![None; before.len()];
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let product = |l: usize| a[i * k + l] * b[self.b.at([0, l, j])];
            let sum = (0..k).map(product).sum();
            let place = self.c.at([0, i, j]);
            wanted[place] = Some(self.ending.of_result(sum, before[place], [0, i, j]));
        }
        wanted
    }
    fn run(&self, products: &Products, stream: &Stream, broken: Option<Broken>) -> Result<()> {
        let views = matrices(broken, [2, 1 + LISTS]);
        let a = self.compressed(products, stream);
        let b = views.view(0, &self.b.view(1));
        let c = views.view(1, &self.c.view(1));
        let call = |options: &Options<'_, O>| products.sparse(stream, &a, &b, &c, options);
        let first = (1, Precision::Tf32);
        self.ending.with(stream.device(), first, (&views, 2), call)
    }
}

#[test]
fn bf16_to_bf16() {
    right::<Sparse<bf16, bf16>>(6, &Call::any());
}

#[test]
fn e4m3_to_bf16() {
    right::<Sparse<E4m3, bf16>>(6, &Call::any());
}

#[test]
fn i8_to_i32() {
    let whole = |call: Call| Call {
        extras: call.extras.whole(),
        ..call
    };
    right::<Sparse<i8, i32>>(6, &Call::any().prop_map(whole));
}

#[test]
fn broken() {
    problem::broken::<Sparse<bf16, bf16>>(20, Call::any());
}
