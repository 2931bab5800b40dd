//! Parameters that are arrays and structs of numbers and of pointers.

use tilekit::prelude::*;
use tilekit::{Buffer, Compiler, Device, Stream};

/// `out[i, j] = Σ factors[n] · xs[n][i · strides[n][0] + j · strides[n][1]]` of a tile of 8 by 8.
#[kernel(warps = 1)]
fn weighted<const N: usize>(
    #[readonly] xs: [Ptr<f32>; N],
    out: Ptr<f32>,
    factors: [f32; N],
    of_first: [i64; 2],
    of_others: [i64; 2],
) {
    let layout = Blocked::new([1, 2], [8, 4], [1, 1], [1, 0]);
    let i = arange(0..8, Slice::new(1, layout.clone())).expand_dims(1);
    let j = arange(0..8, Slice::new(0, layout.clone())).expand_dims(0);
    let mut sum = zeros::<f32>([8, 8], layout);
    for n in 0..N {
        let [of_row, of_column] = if n == 0 { of_first } else { of_others };
        let at = i.cast::<i64>() * of_row + j.cast::<i64>() * of_column;
        sum += xs[n].at(at).load() * factors[n];
    }
    out.at(i * 8 + j).store(sum);
}

#[test]
fn arrays_are_passed_as_arrays() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let compiled = weighted::<3>.compile(&Compiler::default());
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
    crate::assemble(compiled.compiled().ptx());
    let kernel = compiled.load(&device).unwrap();
    let numbers: [Vec<f32>; 3] =
        [1.0, 7.0, 100.0].map(|by| (0..64).map(|at| at as f32 * by).collect());
    let xs = numbers
        .each_ref()
        .map(|x| Buffer::from_slice(&device, x).unwrap());
    let out = Buffer::<f32>::new(&device, 64).unwrap();
    let factors = [2.0, -1.0, 0.5];
    let arguments = (xs.each_ref(), &out, factors, [1, 8], [8, 1]);
    kernel.launch(&stream, 1, arguments).unwrap();
    stream.synchronize().unwrap();
    let wanted = |at: usize| {
        let turned = at % 8 * 8 + at / 8;
        numbers[0][turned] * 2.0 - numbers[1][at] + numbers[2][at] * 0.5
    };
    let wanted: Vec<f32> = (0..64).map(wanted).collect();
    assert_eq!(out.to_vec().unwrap(), wanted);
}

/// A matrix of 8 by 8.
#[derive(Clone, Copy, Aggregate, KernelParam)]
struct Matrix<T> {
    #[readonly]
    first: Ptr<T>,
    strides: [Scalar<i64>; 2],
}

#[derive(Clone, Copy, Aggregate, KernelParam)]
struct Term<T> {
    factor: Scalar<f32>,
    matrix: Matrix<T>,
}

impl<T: Element> Term<T> {
    #[device]
    fn load(self, i: Tensor<i32>, j: Tensor<i32>) -> Tensor<f32> {
        let [of_row, of_column] = self.matrix.strides;
        let at = i.cast::<i64>() * of_row + j.cast::<i64>() * of_column;
        self.matrix.first.at(at).load().cast::<f32>() * self.factor
    }
}

/// The sum of terms, of which one is taken several times by a loop.
#[kernel(warps = 1)]
fn sum_of_terms(own: Term<f32>, others: [Term<f16>; 2], times: i32, out: Ptr<f32>) {
    let layout = Blocked::new([1, 2], [8, 4], [1, 1], [1, 0]);
    let i = arange(0..8, Slice::new(1, layout.clone())).expand_dims(1);
    let j = arange(0..8, Slice::new(0, layout.clone())).expand_dims(0);
    let mut sum = own.load(i, j);
    let mut term = others[0];
    for _ in range(0, times) {
        sum += term.load(i, j);
        term.factor *= 2.0;
    }
    out.at(i * 8 + j).store(sum + others[1].load(i, j));
}

#[test]
fn structs_are_passed_as_tuples() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let compiled = sum_of_terms.compile(&Compiler::default());
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
    crate::assemble(compiled.compiled().ptx());
    let kernel = compiled.load(&device).unwrap();
    let numbers: Vec<f32> = (0..64).map(|at| at as f32).collect();
    let halves: Vec<f16> = numbers.iter().map(|&x| f16::from_f32(x)).collect();
    let own = Buffer::from_slice(&device, &numbers).unwrap();
    let halves = Buffer::from_slice(&device, &halves).unwrap();
    let out = Buffer::<f32>::new(&device, 64).unwrap();
    let turned = (&halves, [1_i64, 8]);
    let arguments = (
        (0.5, (&own, [8, 1])),
        [(2.0, turned), (-1.0, turned)],
        3,
        &out,
    );
    kernel.launch(&stream, 1, arguments).unwrap();
    stream.synchronize().unwrap();
    let wanted = |at: usize| {
        let turned = numbers[at % 8 * 8 + at / 8];
        numbers[at] * 0.5 + turned * (2.0 + 4.0 + 8.0 - 1.0)
    };
    let wanted: Vec<f32> = (0..64).map(wanted).collect();
    assert_eq!(out.to_vec().unwrap(), wanted);
}
