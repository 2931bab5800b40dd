//! Outputs that do not fit, and closures that store what a call does not have.

use tilekit::prelude::*;
use tilekit_kernels::products::{
    Axis, Options, OutputPtrs, Outputs, Place, Products, Reduction, ResultOf,
};

/// What is said of a call of 8 rows, 16 columns and 8 steps along K with these outputs; nothing if it is computed.
fn said<O, F>(
    outputs: Outputs<'_, bf16>,
    result: (&Buffer<O>, [usize; 2]),
    epilogue: F,
) -> Option<String>
where
    O: ResultOf<bf16>,
    F: Fn(Tensor<f32>, Place<O, OutputPtrs<bf16>>) -> Tensor<f32> + Copy + Send + Sync + 'static,
{
    let (c, shape) = result;
    let device = c.device().clone();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let ones = Buffer::from_slice(&device, &[bf16::ONE; 128]).unwrap();
    let (a, b, c) = (ones.view([8, 8]), ones.view([8, 16]), c.view(shape));
    let call = products.storing(outputs);
    let called = call.call_with(&stream, &a, &b, &c, &Options::default(), epilogue);
    let error = called.err()?.to_string();
    let line = error.lines().find(|line| line.contains("the epilogue"));
    Some(line.unwrap_or(&error).to_owned())
}

#[test]
fn errors_name_outputs() {
    let device = Device::emulator();
    let c = Buffer::<bf16>::zeros(&device, 256).unwrap();
    let bytes = Buffer::<E4m3>::zeros(&device, 128).unwrap();
    let numbers = Buffer::<f32>::zeros(&device, 16).unwrap();
    let none = Outputs::<bf16>::default();
    let plain = |sums: Tensor<f32>, _: Place<bf16, OutputPtrs<bf16>>| sums;
    let of_bytes = |sums: Tensor<f32>, _: Place<E4m3, OutputPtrs<bf16>>| sums;
    let check = |found: Option<String>, expected: &str| {
        assert_eq!(found.as_deref(), Some(expected));
    };
    let result = (&c, [8, 16]);
    let other = Buffer::<bf16>::zeros(&device, 256).unwrap();
    let second = other.view([8, 9]);
    let outputs = Outputs {
        second: Some(&second),
        ..none
    };
    check(
        said(outputs, result, plain),
        "product: `outputs.second`: found shape [8, 9]; expected [8, 16], as the product, or for pairs of columns half as many",
    );
    let second = other.view([8, 16]).with_strides([1, 8]);
    let outputs = Outputs {
        second: Some(&second),
        ..none
    };
    check(
        said(outputs, result, plain),
        "product: `outputs.second`: found 8x16 with strides 1 and 8; expected contiguous rows",
    );
    let second = c.view([8, 16]).with_offset(100);
    let outputs = Outputs {
        second: Some(&second),
        ..none
    };
    check(
        said(outputs, result, plain),
        "product: `outputs.second`: found memory of `c`; expected a result apart from the operands, which are read while it is written",
    );
    let outputs = Outputs {
        rows: Some(&numbers),
        ..none
    };
    check(
        said(outputs, result, plain),
        "product: `outputs.rows`: found 16 numbers; expected 8, for a product of 8x16 with strides 16 and 1",
    );
    let scales = numbers.view([8, 1]);
    let outputs = Outputs {
        scales: Some(&scales),
        ..none
    };
    check(
        said(outputs, result, plain),
        "product: `outputs.scales`: found scales of results of bf16; expected none: results of e4m3 and e5m2 have scales",
    );
    let scales = numbers.view([8, 2]);
    let outputs = Outputs {
        scales: Some(&scales),
        ..none
    };
    check(
        said(outputs, (&bytes, [8, 16]), of_bytes),
        "product: `outputs.scales`: found 1 matrices of [8, 2]; expected 1 of [8, 1]: one for each 128 columns of a row of c",
    );
    let stores = |sums: Tensor<f32>, at: Place<bf16, OutputPtrs<bf16>>| {
        at.store(sums);
        sums
    };
    check(
        said(none, result, stores),
        "error[TK0017]: the epilogue stores a second matrix, which `outputs.second` is not",
    );
    let reduces = |sums: Tensor<f32>, at: Place<bf16, OutputPtrs<bf16>>| {
        at.reduce(Axis::Rows, Reduction::Sum, sums);
        sums
    };
    check(
        said(none, result, reduces),
        "error[TK0017]: the epilogue reduces `Axis::Rows`, for which `outputs` have no numbers",
    );
    let takes_pairs = |sums: Tensor<f32>, at: Place<bf16, OutputPtrs<bf16>>| at.pairs(sums)[0];
    check(
        said(none, result, takes_pairs),
        "error[TK0017]: the epilogue takes columns by pairs, where c has as many as the product and `outputs.second` is not of pairs",
    );
    assert_eq!(said(none, (&c, [8, 8]), takes_pairs), None);
    // A result of all columns where c has half of them.
    let found = said(none, (&c, [8, 8]), plain);
    check(
        found,
        "error[TK0017]: the epilogue makes results of [64, 16] of sums of [64, 16], where c has one for each pair of columns, as `at.pairs` gives them",
    );
}
