//! The tensors of a case's products, what is computed of them in f64, and how far results may be off.

use tilekit::TensorSource;
use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::epilogue_kind::{Finishing, Together};
use super::factor::{FETCHED, Operand, ResultOf, unit};
use super::form::Side;
use super::need::Need;
use super::options::Precision;

/// How the products of a case lie.
#[derive(Clone, Copy)]
pub(super) struct Lies {
    pub(super) sides: [Side; 2],
    /// Products of a batch; 1 without one.
    pub(super) batches: usize,
}

impl Lies {
    /// One product, of operands that are contiguous along K.
    pub(super) const ALONG_K: Lies = Lies {
        sides: [Side {
            is_mn_major: false,
            is_batched: false,
            is_settled: false,
        }; 2],
        batches: 1,
    };
}

/// The tensors of a case's products `C[M, N] = A[M, K] · B[N, K]ᵀ`. Rows begin at multiples of 16 bytes, as tensor maps want.
pub(super) struct Product<T, O> {
    pub(super) size: [usize; 3],
    pub(super) lies: Lies,
    pub(super) precision: Precision,
    pub(super) factors: [Input<T>; 2],
    pub(super) c: Output<O>,
    pub(super) source: Input<O>,
    pub(super) bias: Input<O>,
    pub(super) scales: [Input<f32>; 2],
}

/// Elements from one row to the next.
pub(super) fn stride<T>(columns: usize) -> usize {
    columns.next_multiple_of(unit::<T>())
}

/// Extents of a matrix of M or N by K as it lies.
fn shape_of([rows, k]: [usize; 2], side: Side) -> [usize; 2] {
    if side.is_mn_major {
        [k, rows]
    } else {
        [rows, k]
    }
}

/// What a case passes for what epilogues read.
pub(super) type CaseData<'c, O, Y> = (
    f32,
    f32,
    &'c Input<O>,
    i32,
    i64,
    &'c Input<O>,
    [&'c Input<f32>; 2],
    Y,
);

impl<T: Operand, O: ResultOf<T, Addend = O>> Product<T, O> {
    pub(super) fn new(case: &mut Case, lies: Lies) -> Self {
        let size = ["m", "n", "k"].map(|name| case.size(name));
        let [m, n, k] = size;
        let mut factor = |name: &str, rows: usize, side: Side| {
            let [outer, inner] = shape_of([rows, k], side);
            let batches = if side.is_batched { lies.batches } else { 1 };
            let shape = [batches * outer, stride::<T>(inner)];
            if size_of::<T::Sum>() == 4 && T::DTYPE == i8::DTYPE {
                return case.integers::<T>(name, shape, -128..128);
            }
            case.normal::<T>(name, shape)
        };
        let factors = [factor("a", m, lies.sides[0]), factor("b", n, lies.sides[1])];
        let rows = [lies.batches * m, stride::<O>(n)];
        Product {
            size,
            lies,
            precision: Precision::Tf32,
            factors,
            c: case.output::<O>("c", rows),
            source: case.normal::<O>("source", rows),
            bias: case.normal::<O>("bias", [m.max(n)]),
            scales: [
                case.uniform::<f32>("a_scales", [m], 0.5..1.5),
                case.uniform::<f32>("b_scales", [n], 0.5..1.5),
            ],
        }
    }

    /// By three products of tf32.
    pub(super) fn precisely(self) -> Self {
        Product {
            precision: Precision::Tf32x3,
            ..self
        }
    }

    pub(super) fn factor(&self, number: usize) -> TensorView<'_, T, Input<T>> {
        let side = self.lies.sides[number];
        let shape = shape_of([self.size[number], self.size[2]], side);
        let batches = side.is_batched.then_some(self.lies.batches);
        let view = self.factors[number].view().with_l2_promotion(FETCHED);
        let factor = place(view, shape, batches);
        match self.precision {
            Precision::Tf32 => T::loaded(factor),
            Precision::Tf32x3 => factor,
        }
    }

    pub(super) fn result(&self) -> TensorView<'_, O, Output<O>> {
        let batches = (self.lies.batches > 1).then_some(self.lies.batches);
        place(self.c.view(), [self.size[0], self.size[1]], batches)
    }

    pub(super) fn need(&self) -> Need {
        Need {
            size: self.size,
            batches: self.lies.batches,
            element_bytes: [size_of::<T>(), size_of::<O>()],
            is_mn_major: self.lies.sides.map(|side| side.is_mn_major),
            precision: self.precision,
            loose: None,
            ends_early: false,
            all_rows: false,
            together: Together::One,
            finishing: Finishing::Nothing,
        }
    }

    /// What epilogues read, of a source with this pitch and step from one product to the next, and what is passed for what they store beside the result.
    pub(super) fn data<Y>(&self, (pitch, of_batch): (i32, i64), outputs: Y) -> CaseData<'_, O, Y> {
        let scales = self.scales.each_ref();
        let (source, bias) = (&self.source, &self.bias);
        (ALPHA, BETA, source, pitch, of_batch, bias, scales, outputs)
    }

    /// The product as a library takes it, where it is one.
    pub(super) fn gemm(&self) -> Gemm {
        let [a, b] = &self.factors;
        let gemm = Gemm::new(a, b, &self.c).with_size(self.size);
        let gemm = match self.precision {
            Precision::Tf32 => gemm,
            Precision::Tf32x3 => gemm.in_f32(),
        };
        let [of_a, of_b] = self.lies.sides.map(|side| side.is_mn_major);
        let gemm = if of_a { gemm.transposed_a() } else { gemm };
        if of_b { gemm } else { gemm.transposed_b() }
    }

    /// The sums in f64, one product after the other.
    pub(super) fn sums(&self) -> Vec<f64> {
        if self.lies.batches == 1 {
            return self.gemm().reference();
        }
        let k = self.size[2];
        let rows = |number: usize, batch: usize| -> Vec<f64> {
            let (side, tensor) = (self.lies.sides[number], &self.factors[number]);
            let [outer, inner] = shape_of([self.size[number], k], side);
            let first = if side.is_batched { batch * outer } else { 0 };
            let number = |i: usize, j: usize| tensor[[first + i, j]].number().to_f64();
            let in_order = (0..outer).flat_map(|i| (0..inner).map(move |j| (i, j)));
            let elements: Vec<f64> = in_order.map(|(i, j)| number(i, j)).collect();
            if side.is_mn_major {
                let turned = (0..inner).flat_map(|j| (0..outer).map(move |i| i * inner + j));
                turned.map(|at| elements[at]).collect()
            } else {
                elements
            }
        };
        let product = |batch: usize| products_of_rows(self.size, &rows(0, batch), &rows(1, batch));
        (0..self.lies.batches).flat_map(product).collect()
    }
}

/// The factors that epilogues of cases use.
pub(super) const ALPHA: f32 = 0.75;
pub(super) const BETA: f32 = -0.5;

/// A matrix, or a batch of them one after the other, whose rows begin at multiples of 16 bytes.
fn place<T: DeviceElement, B: TensorSource<T>>(
    view: TensorView<'_, T, B>,
    [rows, columns]: [usize; 2],
    batches: Option<usize>,
) -> TensorView<'_, T, B> {
    let pitch = stride::<T>(columns);
    match batches {
        None => view.with_shape([rows, columns]).with_strides([pitch, 1]),
        Some(batches) => {
            view.with_shape([batches, rows, columns])
                .with_strides([rows * pitch, pitch, 1])
        }
    }
}

/// Half a step of a result's type for a rounding, and the rounding of `k` terms accumulated.
pub(super) fn tolerance<T: Operand, O: ResultOf<T, Addend = O>>(k: usize) -> Tolerance {
    let is_exact = O::DTYPE == i32::DTYPE;
    if is_exact {
        return Exactly;
    }
    let relative = match size_of::<O>() {
        2 => 4e-3,
        _ => 1e-4,
    };
    if size_of::<T>() == 1 {
        // Tensor cores keep 14 bits of a sum of 8-bit floats: an instruction of 32 along K cuts its 33 terms off at 2^-13 of the largest. By K / 32 of them a sum is off by sqrt(K / 32 * 33 / 12) * 2^-13 of its size
        // in the standard deviation, if it were of that size all the way, and by 0.6 of that if it grows evenly: the relative part has 3 of these, and the absolute one those of a sum that comes back to 0.
        // At K = 8192 an H100 was off by 3.4 at 300, in the worst of 67 million elements.
        let absolute = k as f64 * 2_f64.powi(-12) + 0.02;
        let relative = relative + (k as f64).sqrt() * 2_f64.powi(-14);
        return Close { relative, absolute };
    }
    let of_term = match size_of::<T>() {
        // Operands are rounded to 11 bits: some 5 standard deviations.
        4 => 2.5e-3,
        _ => 1e-4,
    };
    Close {
        relative,
        absolute: of_term * (k as f64).sqrt(),
    }
}

impl<T: Operand, O: ResultOf<T, Addend = O>> Product<T, O> {
    /// How far results may be off.
    pub(super) fn tolerance(&self) -> Tolerance {
        let k = self.size[2];
        match self.precision {
            Precision::Tf32 => tolerance::<T, O>(k),
            // Steps of 32 along K are added in f32: sums around sqrt(K) rounded K / 32 times, and products of a step, whose sum is cut off. Both together are off by 4e-9 K in the standard deviation
            // (found on an H100 at K = 4096 to 16384), of which 67 million elements have 5.7 somewhere. What is said of all of them is `NORM`.
            Precision::Tf32x3 => Close {
                relative: 1e-6,
                absolute: 1e-6 * (k as f64).sqrt() + 2.5e-8 * k as f64,
            },
        }
    }
}
