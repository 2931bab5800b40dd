//! Products as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod tiles;

use tilekit::prelude::*;
use tilekit_kernels::products::instances::{INSTANCES, Instance};
use tilekit_kernels::products::need::Need;
use tilekit_kernels::products::{Axis, CallPlan, Dispatch, Operand, Options, Products, ResultOf};

/// An element of a test's matrices.
trait Whole: Operand + ResultOf<Self> {
    fn of(number: i32) -> Self;
    fn back(self) -> f64;
}

impl Whole for bf16 {
    fn of(number: i32) -> Self {
        bf16::from_f32(number as f32)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

impl Whole for f16 {
    fn of(number: i32) -> Self {
        f16::from_f32(number as f32)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

/// Where a matrix lies.
#[derive(Clone, Copy, Debug)]
enum Lies {
    Rows,
    Columns,
    /// Rows of a pitch that is so much longer than they are, behind so many elements.
    Part(usize, usize),
    /// Every second element of rows.
    Spread,
}

impl Lies {
    /// Strides and offset.
    fn place(self, [rows, columns]: [usize; 2]) -> ([usize; 2], usize) {
        match self {
            Lies::Rows => ([columns.max(1), 1], 0),
            Lies::Columns => ([1, rows.max(1)], 0),
            Lies::Part(more, offset) => ([columns + more, 1], offset),
            Lies::Spread => ([2 * columns.max(1), 2], 0),
        }
    }
}

/// A matrix of small whole numbers, whose products and sums are exact.
struct Matrix<T> {
    buffer: Buffer<T>,
    shape: [usize; 2],
    strides: [usize; 2],
    offset: usize,
}

impl<T: Whole> Matrix<T> {
    fn new(device: &Device, shape: [usize; 2], lies: Lies, seed: usize) -> Matrix<T> {
        let (strides, offset) = lies.place(shape);
        let len = offset + shape[0] * strides[0].max(1) + shape[1] * strides[1].max(1);
        let number = |at: usize| T::of(((at * 37 + seed * 101) / 7 % 5) as i32 - 2);
        let numbers: Vec<T> = (0..len).map(number).collect();
        Matrix {
            buffer: Buffer::from_slice(device, &numbers).unwrap(),
            shape,
            strides,
            offset,
        }
    }

    fn view(&self) -> TensorView<'_, T> {
        let view = self.buffer.view(self.shape).with_strides(self.strides);
        view.with_offset(self.offset)
    }

    fn place(&self, row: usize, column: usize) -> usize {
        self.offset + row * self.strides[0] + column * self.strides[1]
    }

    /// Its elements, row by row.
    fn rows(&self) -> Vec<Vec<f64>> {
        let all = self.buffer.to_vec().unwrap();
        let row = |i| {
            (0..self.shape[1])
                .map(|j| all[self.place(i, j)].back())
                .collect()
        };
        (0..self.shape[0]).map(row).collect()
    }
}

/// Multiplies matrices that lie so, and compares every element, and those beside the result with what they were.
fn check<T: Whole>(products: &Products, device: &Device, size: [usize; 3], lies: [Lies; 3]) {
    let [m, n, k] = size;
    let stream = Stream::new(device).unwrap();
    let a = Matrix::<T>::new(device, [m, k], lies[0], 1);
    let b = Matrix::<T>::new(device, [k, n], lies[1], 2);
    let c = Matrix::<T>::new(device, [m, n], lies[2], 3);
    let mut want: Vec<f64> = c
        .buffer
        .to_vec()
        .unwrap()
        .iter()
        .map(|x| x.back())
        .collect();
    let (x, y) = (a.rows(), b.rows());
    for i in 0..m {
        for j in 0..n {
            want[c.place(i, j)] = (0..k).map(|at| x[i][at] * y[at][j]).sum();
        }
    }
    let called = products.multiply_into(&stream, &a.view(), &b.view(), &c.view());
    called.unwrap_or_else(|error| panic!("{size:?} {lies:?}: {error}"));
    stream.synchronize().unwrap();
    let found: Vec<f64> = c
        .buffer
        .to_vec()
        .unwrap()
        .iter()
        .map(|x| x.back())
        .collect();
    assert_eq!(found, want, "{size:?} {lies:?}");
}

#[test]
fn factors_and_results_lie_in_any_way() {
    let device = Device::emulator();
    let products = Products::new(&device);
    let all = [
        Lies::Rows,
        Lies::Columns,
        Lies::Part(3, 5),
        Lies::Part(8, 8),
        Lies::Spread,
    ];
    for a in all {
        for b in all {
            check::<bf16>(&products, &device, [24, 16, 40], [a, b, Lies::Rows]);
        }
        check::<bf16>(
            &products,
            &device,
            [20, 36, 8],
            [Lies::Rows, Lies::Columns, a],
        );
        check::<f16>(&products, &device, [17, 9, 31], [a, a, a]);
    }
}

#[test]
fn rows_that_begin_anywhere_are_copied_for_kernels_that_want_others() {
    let device = Device::emulator();
    let size = [17, 9, 31];
    let mut instances = INSTANCES.into_iter();
    let mapped = instances.find(|instance| matches!(instance, Instance::Few(_)));
    let mut dispatch = Dispatch::default();
    dispatch.set(&Need::of_16_bits(size), mapped.expect("few tiles"));
    let products = Products::with_dispatch(&device, dispatch);
    let all = [Lies::Rows, Lies::Columns, Lies::Part(3, 5), Lies::Spread];
    for lies in all {
        check::<bf16>(&products, &device, size, [lies, Lies::Rows, Lies::Rows]);
        check::<f16>(&products, &device, size, [Lies::Part(1, 1), lies, lies]);
    }
}

#[test]
fn rows_that_begin_between_pairs_go_to_shared_memory_by_pairs() {
    let device = Device::emulator();
    let copied = INSTANCES
        .into_iter()
        .filter(|instance| matches!(instance, Instance::Copied(_)));
    let size @ [m, n, k] = [40, 70, 970];
    let mut count = 0;
    for instance in copied {
        let mut dispatch = Dispatch::default();
        // A column-major C is the transpose of a product.
        for size in [size, [n, m, k]] {
            dispatch.set(&Need::of_16_bits(size), instance);
        }
        let products = Products::with_dispatch(&device, dispatch);
        for (a, c) in [
            (Lies::Rows, Lies::Rows),
            (Lies::Part(2, 4), Lies::Part(3, 5)),
            (Lies::Rows, Lies::Columns),
        ] {
            check::<f16>(&products, &device, size, [a, Lies::Columns, c]);
        }
        let [x, y, z] = [m * k, k * n, m * n].map(|len| Buffer::<f16>::zeros(&device, len));
        let (x, y, z) = (x.unwrap(), y.unwrap(), z.unwrap());
        let y = y.view([k, n]).with_strides([1, k]);
        let plan = products.plan(&x.view([m, k]), &y, &z.view([m, n]), &Options::default());
        let plan = plan.unwrap().to_string();
        assert!(plan.contains(&instance.to_string()), "{plan}");
        count += 1;
    }
    assert_eq!(count, 11);
}

/// Parts of lines of a tile that are loaded 2, 4 and 8 elements at a time, from steps along K that end within a tile.
#[test]
fn rows_that_begin_anywhere_are_taken_where_they_are() {
    let device = Device::emulator();
    let products = Products::new(&device);
    for (size, pitch) in [
        ([65, 33, 130], 1),
        ([70, 34, 66], 2),
        ([3, 132, 68], 4),
        ([130, 5, 72], 7),
    ] {
        let part = Lies::Part(pitch, pitch);
        for lies in [[part, part, part], [Lies::Columns, part, Lies::Columns]] {
            check::<f16>(&products, &device, size, lies);
        }
    }
}

#[test]
fn sizes_without_elements_and_of_one() {
    let device = Device::emulator();
    let products = Products::new(&device);
    for lies in [Lies::Rows, Lies::Columns, Lies::Part(3, 1)] {
        for size in [
            [0, 4, 3],
            [4, 0, 3],
            [5, 70, 0],
            [0, 0, 0],
            [1, 1, 1],
            [1, 80, 1],
            [80, 1, 3],
        ] {
            check::<bf16>(&products, &device, size, [lies; 3]);
        }
    }
}

/// A batch of no matrices is multiplied by one for all of them.
#[test]
fn a_batch_of_none() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let x = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let (none, one) = (x.view([0, 8, 8]), x.view([8, 8]));
    for [a, b] in [[&none, &one], [&one, &none], [&none, &none]] {
        let c = products.multiply::<bf16, bf16>(&stream, a, b).unwrap();
        assert!(c.is_empty());
    }
}

/// A launch has no more than 65535 CTAs along y, with 64 columns each.
#[test]
fn a_copy_of_more_columns_than_a_grid_has_along_y() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let n = 65536 * 64;
    let c = Buffer::from_slice(&device, &vec![bf16::ONE; n]).unwrap();
    let none = Buffer::<bf16>::zeros(&device, 0).unwrap();
    let (a, b) = (none.view([1, 0]), none.view([0, n]));
    products
        .multiply_into(&stream, &a, &b, &c.view([1, n]))
        .unwrap();
    assert!(c.to_vec().unwrap().iter().all(|x| x.to_bits() == 0));
}

#[test]
fn a_product_of_many_tiles() {
    let device = Device::emulator();
    let products = Products::new(&device);
    check::<bf16>(
        &products,
        &device,
        [520, 390, 72],
        [Lies::Rows, Lies::Columns, Lies::Rows],
    );
}

#[test]
fn parts_along_k_are_added_in_calls_one_after_the_other() {
    let device = Device::emulator();
    let size @ [m, n, k] = [300, 266, 1096];
    let need = Need {
        element_bytes: [2, 4],
        ..Need::of_16_bits(size)
    };
    let mut instances = INSTANCES.into_iter();
    let divided = instances.find(|instance| matches!(instance, Instance::Split(_)));
    let mut dispatch = Dispatch::default();
    dispatch.set(&need, divided.expect("an instance that divides K"));
    let products = Products::with_dispatch(&device, dispatch);
    let stream = Stream::new(&device).unwrap();
    let number = |at: usize| f16::from_f32((at % 5) as f32 - 2.0);
    // Rank two: x is u·1 + 1·v, so that each place along K counts and the reference takes no sum for each element.
    for seed in [0, 3] {
        let (u, v) = (|i: usize| number(i + seed), |l: usize| number(l / 7 + seed));
        let x: Vec<f16> = (0..m * k).map(|at| u(at / k) + v(at % k)).collect();
        let y: Vec<f16> = (0..n * k).map(|at| u(at / k + 1)).collect();
        let [a, b] = [x, y].map(|all| Buffer::from_slice(&device, &all).unwrap());
        let (a, b) = (a.view([m, k]), b.view([k, n]).with_strides([1, k]));
        let c = Buffer::<f32>::zeros(&device, m * n).unwrap();
        let c_view = c.view([m, n]);
        let plan = products.plan(&a, &b, &c_view, &Options::default()).unwrap();
        assert!(plan.to_string().contains("in parts along K"), "{plan}");
        products.multiply_into(&stream, &a, &b, &c_view).unwrap();
        stream.synchronize().unwrap();
        let of_v: f32 = (0..k).map(|l| v(l).to_f32()).sum();
        for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
            let of_row = k as f32 * u(at / n).to_f32() + of_v;
            let want = of_row * u(at % n + 1).to_f32();
            assert!(
                (found - want).abs() < 0.5,
                "{}, {}: {found}",
                at / n,
                at % n
            );
        }
    }
}

#[test]
fn streams_have_workspaces_of_their_own() {
    let device = Device::emulator();
    let products = Products::new(&device);
    let a = Matrix::<bf16>::new(&device, [9, 7], Lies::Rows, 1);
    let b = Matrix::<bf16>::new(&device, [7, 5], Lies::Rows, 2);
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    let multiply = |stream: &Stream| -> Buffer<bf16> {
        products.multiply(stream, &a.view(), &b.view()).unwrap()
    };
    let [first, second] = streams.each_ref().map(multiply);
    assert_eq!(first.to_vec().unwrap(), second.to_vec().unwrap());
}

fn plan(a: ([usize; 2], Lies), b: ([usize; 2], Lies), c: ([usize; 2], Lies)) -> String {
    let device = Device::emulator();
    let of =
        |(shape, lies): ([usize; 2], Lies), seed| Matrix::<bf16>::new(&device, shape, lies, seed);
    let (a, b, c) = (of(a, 1), of(b, 2), of(c, 3));
    let options = Options::default();
    let planned = Products::new(&device).plan(&a.view(), &b.view(), &c.view(), &options);
    let text = |plan: CallPlan| plan.to_string();
    planned.map_or_else(|error| error.to_string(), text)
}

#[test]
fn a_plan_says_what_is_launched_and_what_is_copied() {
    use Lies::{Columns, Part, Rows};
    let check = |a, b, c, expected: &str| {
        let found = plan(a, b, c);
        assert!(found.contains(expected), "{found}");
    };
    let found = plan(
        ([1024, 1024], Rows),
        ([1024, 64], Columns),
        ([1024, 64], Rows),
    );
    assert!(found.ends_with(" us; fastest by the model"), "{found}");
    // Rows that begin anywhere are copied if each element is read often, and taken where they are if not.
    check(
        ([1024, 2044], Rows),
        ([2044, 1024], Columns),
        ([1024, 1024], Rows),
        "; `a` copied: strides 2044 and 1, where rows of 2048 are taken; `b` copied: strides 1 and 2044",
    );
    check(
        ([64, 60], Rows),
        ([60, 64], Columns),
        ([64, 64], Rows),
        " of rows that begin anywhere, ",
    );
    check(
        ([64, 60], Part(1, 0)),
        ([60, 63], Part(1, 0)),
        ([64, 63], Columns),
        " of rows that begin anywhere, ",
    );
    check(
        ([64, 64], Rows),
        ([64, 64], Columns),
        ([64, 64], Columns),
        "; as the transpose",
    );
    // Operands of 16 bits are taken as rows and as columns.
    for lies in [Rows, Columns] {
        let found = plan(([64, 64], lies), ([64, 64], lies), ([64, 64], Rows));
        assert!(!found.contains("copied"), "{found}");
    }
    check(
        ([1024, 2048], Rows),
        ([2048, 1020], Columns),
        ([1024, 1020], Part(1, 0)),
        "; `c` copied: strides 1021 and 1, where rows of 1024 are taken",
    );
    check(([4, 0], Rows), ([0, 5], Rows), ([4, 5], Rows), "no product");
}

#[test]
fn wrong_calls_name_the_argument() {
    let check = |a, b, c, expected: &str| assert_eq!(plan(a, b, c), expected);
    let rows = |shape| (shape, Lies::Rows);
    check(
        rows([4, 8]),
        rows([9, 8]),
        rows([4, 8]),
        "product: `b`: found 9 rows; expected 8, the columns of a",
    );
    check(
        rows([4, 8]),
        rows([8, 8]),
        rows([8, 4]),
        "product: `c`: found shape [8, 4]; expected [4, 8]: the rows of a, the columns of b",
    );
}

#[test]
fn wrong_views_name_the_argument() {
    let device = Device::emulator();
    let products = Products::new(&device);
    let x = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let right = || x.view([8, 8]);
    let said = |a: TensorView<'_, bf16>, b: TensorView<'_, bf16>, c: TensorView<'_, bf16>| {
        let options = Options::default();
        let planned = products.plan(&a, &b, &c, &options);
        planned.unwrap_err().to_string()
    };
    let table = [
        (
            said(x.view([64]), right(), right()),
            "product: `a`: found 1 dimensions and 1 strides; expected 2 of each: rows, columns; or 3: batch, rows, columns",
        ),
        (
            said(right(), x.view([8, 8]).with_strides([9, 1]), right()),
            "product: `b`: found a matrix that ends at element 71; expected one inside of its buffer of 64 elements",
        ),
        (
            said(right(), right(), x.view([8, 8]).with_strides([4, 1])),
            "product: `c`: found 8x8 with strides 4 and 1; expected rows or columns that do not overlap",
        ),
        (
            said(x.view([1 << 29, 1]).with_strides([0, 1]), right(), right()),
            "product: `a`: found shape [536870912, 1]; expected at most 268435456 along a dimension",
        ),
    ];
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
}

/// The transpose is stored: indices of 32 bits wrapped around from column to column.
#[test]
fn columns_that_are_far_apart_name_the_argument() {
    let device = Device::emulator();
    let products = Products::new(&device);
    let x = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let far = Buffer::<bf16>::new(&device, (2 << 30) + 8).unwrap();
    let said = |result: &TensorView<'_, bf16>, source: &TensorView<'_, bf16>| {
        let options = Options {
            beta: 1.0,
            source: Some(source),
            ..Options::default()
        };
        let planned = products.plan(&x.view([8, 8]), &x.view([8, 3]), result, &options);
        planned.map_err(|error| error.to_string())
    };
    let near = || x.view([8, 3]).with_strides([1, 8]);
    let columns = |far_apart: usize| far.view([8, 3]).with_strides([1, far_apart]);
    let refused = |name: &str| {
        format!(
            "product: `{name}`: found 2147483656 elements with their gaps; expected at most 2147483647: indices have 32 bits"
        )
    };
    assert_eq!(said(&columns(1 << 30), &near()).unwrap_err(), refused("c"));
    let other = Buffer::<bf16>::zeros(&device, 24).unwrap();
    let other = other.view([8, 3]).with_strides([1, 8]);
    let of_source = said(&other, &columns(1 << 30));
    assert_eq!(of_source.unwrap_err(), refused("options.source"));
    said(&columns(1 << 29), &near()).unwrap();
}

#[test]
fn a_result_lies_apart_from_its_operands() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (x, y) = (
        Buffer::<bf16>::zeros(&device, 512).unwrap(),
        Buffer::<bf16>::zeros(&device, 64).unwrap(),
    );
    let called = |a: TensorView<'_, bf16>, c: TensorView<'_, bf16>| {
        let called = products.multiply_into(&stream, &a, &y.view([8, 8]), &c);
        called.map_err(|error| error.to_string())
    };
    let said = "product: `c`: found memory of `a`; expected a result apart from the operands, which are read while it is written";
    let part = |offset: usize| x.view([8, 8]).with_strides([32, 1]).with_offset(offset);
    assert_eq!(called(part(0), part(0)).unwrap_err(), said);
    assert_eq!(called(part(0), part(7)).unwrap_err(), said);
    assert_eq!(called(part(35), part(0)).unwrap_err(), said);
    assert_eq!(
        called(x.view([8, 8]), x.view([8, 8]).with_offset(63)).unwrap_err(),
        said
    );
    // Side by side, and one after the other.
    called(part(0), part(8)).unwrap();
    called(part(9), part(32)).unwrap();
    called(x.view([8, 8]), x.view([8, 8]).with_offset(64)).unwrap();
}

/// Threads read them while others write the result.
#[test]
fn a_result_lies_apart_from_numbers_of_rows_and_columns() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let x = Buffer::<f32>::zeros(&device, 64).unwrap();
    let (row, matrix) = (x.view([1, 8]), x.view([8, 8]));
    let numbers = Buffer::<f32>::zeros(&device, 8).unwrap();
    let c = numbers.view([1, 8]);
    let none = Options::default();
    let bias = Options {
        bias: Some((&numbers, Axis::Columns)),
        ..none
    };
    let scales = Options {
        b_scales: Some(&numbers),
        ..none
    };
    let offsets = Buffer::<i32>::zeros(&device, 2).unwrap();
    let of_group = x.view([1, 8, 8]);
    for (options, name) in [(bias, "options.bias"), (scales, "options.b_scales")] {
        let said = format!(
            "product: `c`: found memory of `{name}`; expected a result apart from the operands, which are read while it is written"
        );
        let called = products.call(&stream, &row, &matrix, &c, &options);
        assert_eq!(called.unwrap_err().to_string(), said);
        let called = products.grouped(&stream, &row, &of_group, &c, &offsets, &options);
        assert_eq!(called.unwrap_err().to_string(), said);
    }
    let x = Buffer::<i8>::zeros(&device, 16).unwrap();
    let (row, of_group, c) = (x.view([1, 8]), x.view([1, 8, 2]), offsets.view([1, 2]));
    let called = products.grouped(&stream, &row, &of_group, &c, &offsets, &Options::default());
    assert_eq!(
        called.unwrap_err().to_string(),
        "product: `c`: found memory of `offsets`; expected a result apart from the operands, which are read while it is written"
    );
}

/// It was counted, and the matrix refused.
#[test]
fn the_stride_of_a_single_row_is_anything() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let ones = Buffer::from_slice(&device, &[bf16::ONE; 64]).unwrap();
    let c = Buffer::<bf16>::zeros(&device, 8).unwrap();
    let row = c.view([1, 8]).with_strides([1 << 40, 1]);
    products
        .multiply_into(&stream, &ones.view([1, 8]), &ones.view([8, 8]), &row)
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(c.to_vec().unwrap(), [bf16::from_f32(8.0); 8]);
}

#[test]
fn a_new_result_that_is_too_large_names_the_argument() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let x = Buffer::<bf16>::zeros(&device, 1).unwrap();
    let a = x.view([1 << 28, 1]).with_strides([0, 1]);
    let b = x.view([1, 1 << 28]).with_strides([1, 0]);
    let found = products.multiply::<bf16, bf16>(&stream, &a, &b);
    assert_eq!(
        found.err().unwrap().to_string(),
        "product: `c`: found 72057594037927936 elements with their gaps; expected at most 2147483647: indices have 32 bits"
    );
}
