//! What calls of products do beside multiplying, on the emulator: batches, options, closures, element types.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::products::alternating::PersistentTile;
use tilekit_kernels::products::dispatch::Dispatch;
use tilekit_kernels::products::instances::Instance;
use tilekit_kernels::products::need::Need;
use tilekit_kernels::products::split_k::SplitTile;
use tilekit_kernels::products::{Activation, Axis, Options, Place, Products};

/// Small whole numbers.
fn number(at: usize, seed: usize) -> f64 {
    ((at * 37 + seed * 101) / 7 % 5) as f64 - 2.0
}

fn bf16s(device: &Device, len: usize, seed: usize) -> Buffer<bf16> {
    let numbers: Vec<bf16> = (0..len)
        .map(|at| bf16::from_f64(number(at, seed)))
        .collect();
    Buffer::from_slice(device, &numbers).unwrap()
}

fn floats(device: &Device, len: usize, seed: usize) -> Buffer<f32> {
    let numbers: Vec<f32> = (0..len)
        .map(|at| number(at, seed) as f32 * 0.5 + 2.0)
        .collect();
    Buffer::from_slice(device, &numbers).unwrap()
}

fn back(buffer: &Buffer<bf16>) -> Vec<f64> {
    let numbers = buffer.to_vec().unwrap();
    numbers.iter().map(|x| x.to_f64()).collect()
}

/// Where an element of a matrix of a batch lies.
#[derive(Clone, Copy)]
struct Strides {
    batch: usize,
    row: usize,
    column: usize,
}

impl Strides {
    fn at(self, batch: usize, row: usize, column: usize) -> usize {
        batch * self.batch + row * self.row + column * self.column
    }

    fn view(
        self,
        buffer: &Buffer<bf16>,
        [batches, rows, columns]: [usize; 3],
    ) -> TensorView<'_, bf16> {
        let view = buffer.view([batches, rows, columns]);
        view.with_strides([self.batch, self.row, self.column])
    }
}

/// A batch of products whose matrices lie so; elements beside the result keep what they were.
fn check_batch([batches, m, n, k]: [usize; 4], [of_a, of_b, of_c]: [Strides; 3]) {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let len = |strides: Strides, rows: usize, columns: usize| {
        strides.at(batches - 1, rows.max(1) - 1, columns.max(1) - 1) + 9
    };
    let a = bf16s(&device, len(of_a, m, k), 1);
    let b = bf16s(&device, len(of_b, k, n), 2);
    let c = bf16s(&device, len(of_c, m, n), 3);
    let (x, y, mut want) = (back(&a), back(&b), back(&c));
    for batch in 0..batches {
        for i in 0..m {
            for j in 0..n {
                let term = |l: usize| x[of_a.at(batch, i, l)] * y[of_b.at(batch, l, j)];
                want[of_c.at(batch, i, j)] = (0..k).map(term).sum();
            }
        }
    }
    let (a, b) = (
        of_a.view(&a, [batches, m, k]),
        of_b.view(&b, [batches, k, n]),
    );
    let into = of_c.view(&c, [batches, m, n]);
    products.multiply_into(&stream, &a, &b, &into).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(back(&c), want);
}

#[test]
fn batches_lie_in_any_way() {
    let strides = |batch, row, column| Strides { batch, row, column };
    // One after the other.
    let dense = |rows: usize, columns: usize| strides(rows * columns, columns, 1);
    check_batch(
        [3, 24, 16, 40],
        [dense(24, 40), dense(40, 16), dense(24, 16)],
    );
    // Heads between rows and columns, as in attention.
    let heads = |columns: usize| strides(columns, 3 * columns, 1);
    check_batch([3, 24, 16, 40], [heads(40), heads(16), heads(16)]);
    // Columns, pitches of no 16 bytes.
    let columns = |rows: usize, columns: usize| strides(rows * columns, 1, rows);
    check_batch(
        [2, 17, 9, 31],
        [columns(17, 31), dense(31, 9), columns(17, 9)],
    );
    check_batch(
        [2, 16, 8, 24],
        [columns(16, 24), columns(24, 8), columns(16, 8)],
    );
    // Nothing along K.
    check_batch([2, 16, 8, 0], [dense(16, 0), dense(0, 8), dense(16, 8)]);
}

#[test]
fn one_operand_for_all_products_of_a_batch() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (batches, m, n, k) = (3, 9, 16, 8);
    let (a, b) = (bf16s(&device, batches * m * k, 1), bf16s(&device, k * n, 2));
    let c = products
        .multiply::<bf16, bf16>(&stream, &a.view([batches, m, k]), &b.view([k, n]))
        .unwrap();
    let (x, y, found) = (back(&a), back(&b), back(&c));
    let sum = |at: usize| {
        let (row, column) = (at / n, at % n);
        (0..k).map(|l| x[row * k + l] * y[l * n + column]).sum()
    };
    assert_eq!(found, (0..batches * m * n).map(sum).collect::<Vec<f64>>());
}

/// Calls with options, of which the result is computed in f64 too; C in rows, in rows of no 16 bytes, and in columns.
#[test]
fn options_are_applied_to_results_that_lie_in_any_way() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    for (m, n, k, strides) in [
        (24, 16, 40, [16, 1]),
        (17, 9, 31, [9, 1]),
        (16, 24, 8, [1, 16]),
        (24, 16, 0, [16, 1]),
    ] {
        let (a, b) = (bf16s(&device, m * k + 8, 1), bf16s(&device, k * n + 8, 2));
        let (c, other) = (bf16s(&device, m * n, 3), bf16s(&device, m * n, 4));
        let of_rows = bf16s(&device, m, 5);
        let (a_scales, b_scales) = (floats(&device, m, 6), floats(&device, 1, 7));
        let scales = [a_scales.to_vec().unwrap(), b_scales.to_vec().unwrap()];
        let (x, y, before) = (back(&a), back(&b), back(&c));
        let (added, bias) = (back(&other), back(&of_rows));
        let place = |i: usize, j: usize| i * strides[0] + j * strides[1];
        let source = other.view([m, n]);
        for source in [None, Some(&source)] {
            let c = Buffer::from_slice(&device, &c.to_vec().unwrap()).unwrap();
            let options = Options {
                alpha: 0.5,
                beta: -2.0,
                source,
                a_scales: Some(&a_scales),
                b_scales: Some(&b_scales),
                bias: Some((&of_rows, Axis::Rows)),
                activation: Activation::Relu,
                ..Options::default()
            };
            let into = c.view([m, n]).with_strides(strides);
            let (a, b) = (a.view([m, k]), b.view([k, n]));
            products.call(&stream, &a, &b, &into, &options).unwrap();
            let found = back(&c);
            for i in 0..m {
                for j in 0..n {
                    let sum: f64 = (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum();
                    let scale = f64::from(scales[0][i]) * f64::from(scales[1][0]);
                    let source = if source.is_some() {
                        added[i * n + j]
                    } else {
                        before[place(i, j)]
                    };
                    let want = (0.5 * scale * sum + bias[i] - 2.0 * source).max(0.0);
                    let found = found[place(i, j)];
                    let error = (found - want).abs();
                    assert!(error <= want.abs() * 4e-3, "{i}, {j}: {found}, not {want}");
                }
            }
        }
    }
}

/// In rows, in rows that begin anywhere, and where C lies in columns, so that its transpose is computed.
#[test]
fn settled_operands_change_no_result() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    for (m, n, k, strides) in [
        (16, 136, 1096, [136, 1]),
        (17, 9, 31, [9, 1]),
        (136, 72, 200, [1, 136]),
    ] {
        let (a, b) = (bf16s(&device, m * k, 1), bf16s(&device, k * n, 2));
        let (x, y) = (back(&a), back(&b));
        let term = |i: usize, j: usize, l: usize| x[i * k + l] * y[j * k + l];
        for are_settled in [[true, false], [false, true], [true, true]] {
            let c = bf16s(&device, m * n, 3);
            let options = Options {
                are_settled,
                ..Options::default()
            };
            let into = c.view([m, n]).with_strides(strides);
            let (a, b) = (a.view([m, k]), b.view([k, n]).with_strides([1, k]));
            products.call(&stream, &a, &b, &into, &options).unwrap();
            let found = back(&c);
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let want: f64 = (0..k).map(|l| term(i, j, l)).sum();
                let found = found[i * strides[0] + j * strides[1]];
                let error = (found - want).abs();
                assert!(error <= want.abs() * 4e-3, "{i}, {j}: {found}, not {want}");
            }
        }
    }
}

#[test]
fn a_closure_sees_the_place_of_results_that_lie_column_by_column() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (m, n, k) = (16, 24, 8);
    let (a, b) = (bf16s(&device, m * k, 1), bf16s(&device, k * n, 2));
    let c = bf16s(&device, m * n, 3);
    let into = c.view([m, n]).with_strides([1, m]);
    let (x, y) = (back(&a), back(&b));
    products
        .call_with(
            &stream,
            &a.view([m, k]),
            &b.view([k, n]),
            &into,
            &Options::default(),
            |sums, at| sums + (at.row * 2 + at.column).cast::<f32>(),
        )
        .unwrap();
    let found = back(&c);
    // Column by column.
    let want = |at: usize| {
        let (i, j) = (at % m, at / m);
        let sum: f64 = (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum();
        sum + (2 * i + j) as f64
    };
    assert_eq!(found, (0..m * n).map(want).collect::<Vec<f64>>());
}

/// A bias is stored by the kernel of a product, of which there are no steps.
#[test]
fn a_plan_without_steps_along_k() {
    let device = Device::emulator();
    let (products, x) = (Products::new(&device), bf16s(&device, 64, 1));
    let bias = bf16s(&device, 8, 2);
    let plan = |bias| {
        let options = Options {
            bias,
            ..Options::default()
        };
        let (a, b) = (x.view([8, 0]), x.view([0, 8]));
        let plan = products.plan(&a, &b, &x.view([8, 8]), &options);
        plan.unwrap().to_string()
    };
    assert_eq!(plan(None), "no product");
    let with_bias = plan(Some((&bias, Axis::Columns)));
    assert!(with_bias.contains("fastest by the model"), "{with_bias}");
}

/// What is said of a call of 8 columns, 8 steps along K and this epilogue; nothing if it is computed.
fn said<F>(device: &Device, rows: usize, options: &Options<'_, bf16>, epilogue: F) -> Option<String>
where
    F: Fn(Tensor<f32>, Place<bf16>) -> Tensor<f32> + Copy + Send + Sync + 'static,
{
    // A stream on which nothing failed.
    let (products, stream) = (Products::new(device), Stream::new(device).unwrap());
    let (a, c) = (bf16s(device, 64, 1), bf16s(device, 8 * rows, 2));
    let (x, y, c) = (a.view([rows, 8]), a.view([8, 8]), c.view([rows, 8]));
    let result = products.call_with(&stream, &x, &y, &c, options, epilogue);
    let error = result.err()?.to_string();
    let line = error.lines().find(|line| line.contains("the epilogue"));
    Some(line.unwrap_or(&error).to_owned())
}

/// Numbers that a call does not have would be whatever C or a buffer of one scale holds.
#[test]
fn an_epilogue_reads_what_its_call_has() {
    let device = Device::emulator();
    let (bias, scale) = (bf16s(&device, 8, 1), floats(&device, 1, 2));
    let none = Options::default();
    let some = Options {
        a_scales: Some(&scale),
        bias: Some((&bias, Axis::Columns)),
        ..none
    };
    let errors = [
        said(&device, 8, &none, |x, at| x + at.source()),
        said(&device, 8, &some, |x, at| x + at.bias(Axis::Rows)),
        said(&device, 8, &some, |x, at| x * at.scales(Axis::Rows)),
        said(&device, 8, &some, |x, at| x * at.scale(Axis::Columns)),
    ];
    let expected = [
        "a source, which a call with `options.beta` of 0 does not have",
        "a bias of `Axis::Rows`, which `options.bias` is not",
        "a scale for each of `Axis::Rows`, which `options.a_scales` are not",
        "one scale of `Axis::Columns`, which `options.b_scales` are not",
    ];
    for (found, expected) in errors.iter().zip(expected) {
        let expected = format!("error[TK0017]: the epilogue reads {expected}");
        assert_eq!(found.as_ref(), Some(&expected));
    }
    let all = |x: Tensor<f32>, at: Place<bf16>| x * at.scale(Axis::Rows) + at.bias(Axis::Columns);
    assert_eq!(said(&device, 8, &some, all), None);
    // The scale of the only row is one for each.
    let each = |x: Tensor<f32>, at: Place<bf16>| x * at.scales(Axis::Rows) * at.scale(Axis::Rows);
    assert_eq!(said(&device, 1, &some, each), None);
}

/// Operands of bytes are copied where they are not contiguous along K.
#[test]
fn bytes_are_multiplied_from_rows_and_columns() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (m, n, k) = (20, 33, 50);
    let bytes = |len: usize, seed: usize| -> Vec<i8> {
        (0..len).map(|at| number(at, seed) as i8 * 60).collect()
    };
    let (x, y) = (bytes(m * k, 1), bytes(k * n, 2));
    let a = Buffer::from_slice(&device, &x).unwrap();
    let b = Buffer::from_slice(&device, &y).unwrap();
    let c = products
        .multiply::<i8, i32>(&stream, &a.view([m, k]), &b.view([k, n]))
        .unwrap();
    for (at, found) in c.to_vec().unwrap().iter().enumerate() {
        let (i, j) = (at / n, at % n);
        let term = |l: usize| i32::from(x[i * k + l]) * i32::from(y[l * n + j]);
        assert_eq!(*found, (0..k).map(term).sum::<i32>(), "{i}, {j}");
    }
}

#[test]
fn scaled_whole_numbers_lose_their_fractions() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let a = Buffer::from_slice(&device, &[7_i8; 64]).unwrap();
    let c = Buffer::<i32>::zeros(&device, 64).unwrap();
    let view = || a.view([8, 8]);
    for alpha in [0.4_f32, -0.4, 1e9, -1e9, f32::NAN] {
        let options = Options {
            alpha,
            ..Options::default()
        };
        products
            .call(&stream, &view(), &view(), &c.view([8, 8]), &options)
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(c.to_vec().unwrap(), [(392.0 * alpha) as i32; 64], "{alpha}");
    }
}

#[test]
fn wrong_options_name_the_argument() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (x, numbers) = (bf16s(&device, 64, 1), floats(&device, 3, 2));
    let result = bf16s(&device, 64, 3);
    let view = || x.view([8, 8]);
    let into = || result.view([8, 8]);
    let said = |options: &Options<'_, bf16>| {
        let called = products.call(&stream, &view(), &view(), &into(), options);
        called.unwrap_err().to_string()
    };
    let other = x.view([4, 8]);
    let table = [
        (
            said(&Options {
                a_scales: Some(&numbers),
                ..Options::default()
            }),
            "product: `options.a_scales`: found 3 numbers; expected 1, or 8: one for each of the rows of c",
        ),
        (
            said(&Options {
                bias: Some((&x, Axis::Columns)),
                ..Options::default()
            }),
            "product: `options.bias`: found 64 numbers; expected 8: one for each of the columns of c",
        ),
        (
            said(&Options {
                beta: 1.0,
                source: Some(&other),
                ..Options::default()
            }),
            "product: `options.source`: found shape [4, 8]; expected [8, 8], as c",
        ),
    ];
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
    let factor = 2.0_f32;
    let captured = products.call_with(
        &stream,
        &view(),
        &view(),
        &into(),
        &Options::default(),
        move |sums, _| sums * factor,
    );
    assert_eq!(
        captured.unwrap_err().to_string(),
        "product: `epilogue`: found a closure that captures values; expected one that captures nothing: numbers of the call are in the options"
    );
    let batches = products.multiply::<bf16, bf16>(
        &stream,
        &x.view([2, 4, 8]),
        &x.view([4, 8, 2]).with_strides([16, 2, 1]),
    );
    assert_eq!(
        batches.err().unwrap().to_string(),
        "product: `a`: found 2 matrices; expected 4, as many as c has, or one for all"
    );
}

/// Groups of rows, an empty one among them, with a bias of each; rows of no group keep what they are. C in rows, and in rows of no 16 bytes.
#[test]
fn groups_of_rows() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    // The last A lies along M, where groups begin between multiples of 16 bytes.
    for (n, k, along_m) in [
        (16, 40, false),
        (9, 31, false),
        (16, 0, false),
        (8, 8, true),
    ] {
        let ends = [0, 70, 70, 75, 210];
        let (groups, m) = (ends.len() - 1, 216);
        let of_a = if along_m { [1, m] } else { [k, 1] };
        let offsets = Buffer::from_slice(&device, &ends.map(|end| end as i32)).unwrap();
        let (a, b) = (
            bf16s(&device, m * k + 8, 1),
            bf16s(&device, groups * k * n + 8, 2),
        );
        let (c, bias) = (bf16s(&device, m * n, 3), bf16s(&device, groups * n, 4));
        let (x, y, of_bias, mut want) = (back(&a), back(&b), back(&bias), back(&c));
        for group in 0..groups {
            for i in ends[group]..ends[group + 1] {
                for j in 0..n {
                    let of_x = |l: usize| x[i * of_a[0] + l * of_a[1]];
                    let term = |l: usize| of_x(l) * y[(group * k + l) * n + j];
                    want[i * n + j] = (0..k).map(term).sum::<f64>() + of_bias[group * n + j];
                }
            }
        }
        let options = Options {
            bias: Some((&bias, Axis::Columns)),
            ..Options::default()
        };
        let (a, b) = (a.view([m, k]), b.view([groups, k, n]));
        let a = a.with_strides(of_a);
        products
            .grouped(&stream, &a, &b, &c.view([m, n]), &offsets, &options)
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(back(&c), want, "{n}, {k}, {along_m}");
    }
}

/// Their matrices, whose rows no tensor map takes, are copied by several launches: a grid has fewer CTAs along z than there are groups.
#[test]
fn more_groups_than_a_grid_has_ctas() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (groups, m) = (65_537, 2);
    let mut ends = vec![1; groups + 1];
    (ends[0], ends[groups]) = (0, 2);
    let offsets = Buffer::from_slice(&device, &ends).unwrap();
    let of_groups: Vec<bf16> = (0..groups)
        .map(|at| bf16::from_f64(number(at, 5)))
        .collect();
    let b = Buffer::from_slice(&device, &of_groups).unwrap();
    let a = Buffer::from_slice(&device, &[bf16::ONE, bf16::from_f32(3.0)]).unwrap();
    let c = bf16s(&device, m, 3);
    let (a, b) = (a.view([m, 1]), b.view([groups, 1, 1]));
    let (c_view, options) = (c.view([m, 1]), Options::default());
    products
        .grouped(&stream, &a, &b, &c_view, &offsets, &options)
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(back(&c), [number(0, 5), 3.0 * number(groups - 1, 5)]);
}

#[test]
fn wrong_groups_name_the_argument() {
    let device = Device::emulator();
    let (products, stream) = (Products::new(&device), Stream::new(&device).unwrap());
    let (x, c) = (bf16s(&device, 64, 1), bf16s(&device, 64, 3));
    let offsets = Buffer::from_slice(&device, &[0, 8]).unwrap();
    let scales = floats(&device, 3, 2);
    let said = |b: [usize; 3], options: &Options<'_, bf16>| {
        let (a, b) = (x.view([8, 4]), x.view(b));
        let called = products.grouped(&stream, &a, &b, &c.view([8, 8]), &offsets, options);
        called.unwrap_err().to_string()
    };
    assert_eq!(
        said([2, 4, 8], &Options::default()),
        "product: `offsets`: found 2 numbers; expected 3: where each of 2 groups begins, and where the last ends"
    );
    let scaled = Options {
        b_scales: Some(&scales),
        ..Options::default()
    };
    assert_eq!(
        said([1, 4, 8], &scaled),
        "product: `options.b_scales`: found 3 numbers; expected 1, 1: one for each group, or 8: one for each column of each"
    );
}

/// TMA stores write rows in units of 16 bytes. Found by random calls, which draw instances.
#[test]
fn what_lies_beside_the_result_is_kept_by_every_instance() {
    let [m, n, k, pitch] = [8, 1, 128, 16];
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let [a, b] = [m, n].map(|rows| Buffer::<i8>::zeros(&device, rows * k).unwrap());
    let (a, b) = (a.view([m, k]), b.view([k, n]).with_strides([1, k]));
    let mut plans = std::collections::BTreeSet::new();
    for number in 0..100 {
        let c = Buffer::from_slice(&device, &vec![-2_i32; m * pitch]).unwrap();
        let c_view = c.view([m, n]).with_strides([pitch, 1]);
        let products = Products::with_dispatch(&device, Dispatch::by_number(number));
        let plan = products.plan(&a, &b, &c_view, &Options::default());
        let plan = plan.unwrap().product.unwrap().plan.to_string();
        if !plans.insert(plan.clone()) {
            continue;
        }
        products.multiply_into(&stream, &a, &b, &c_view).unwrap();
        stream.synchronize().unwrap();
        let found = c.to_vec().unwrap();
        let wanted = (0..m * pitch).map(|at| if at % pitch < n { 0 } else { -2 });
        assert!(found.into_iter().eq(wanted), "{plan}");
    }
    assert!(plans.len() > 50, "{} plans", plans.len());
}

/// The first tile of odd rows computes columns that the next one stores, and what is read of them would race with that.
#[test]
fn results_between_sectors_are_added_to_what_they_were() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let (m, n, k) = (300, 264, 24);
    let tile = PersistentTile::of([2, 128, 6, 2]).of_every_other_row();
    let mut dispatch = Dispatch::default();
    dispatch.set(&Need::of_16_bits([m, n, k]), Instance::Persistent(tile));
    let products = Products::with_dispatch(&device, dispatch);
    let (a, b) = (bf16s(&device, m * k, 1), bf16s(&device, k * n, 2));
    let [c, source] = [bf16s(&device, m * n, 3), bf16s(&device, m * n, 4)];
    let (x, y) = (back(&a), back(&b));
    let product = |i: usize, j: usize| -> f64 { (0..k).map(|l| x[i * k + l] * y[j * k + l]).sum() };
    let (a, b) = (a.view([m, k]), b.view([k, n]).with_strides([1, k]));
    let (into, other) = (c.view([m, n]), source.view([m, n]));
    for source in [None, Some(&other), Some(&into)] {
        let added = back(source.map_or(&c, |view| view.source()));
        let beta = 0.5;
        let options = Options {
            beta,
            source,
            ..Options::default()
        };
        let plan = products.plan(&a, &b, &into, &options).unwrap().to_string();
        let is_apart = source.is_some_and(|view| view.source().address() != c.address());
        assert_eq!(plan.contains(", every other row"), is_apart, "{plan}");
        products.call(&stream, &a, &b, &into, &options).unwrap();
        stream.synchronize().unwrap();
        let want = |at: usize| f64::from(beta) * added[at] + product(at / n, at % n);
        let want = |at: usize| bf16::from_f64(want(at)).to_f64();
        assert_eq!(back(&c), (0..m * n).map(want).collect::<Vec<f64>>());
    }
}

/// Chunks of 16 columns have rows of their own of the source, whichever CTA of a cluster adds them.
#[test]
fn parts_of_clusters_are_added_to_what_was_there() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let (m, n, k) = (200, 216, 520);
    for (tile, is_turned) in [([2, 112], false), ([1, 80], false), ([1, 80], true)] {
        let tile = SplitTile::filled(tile).by_clusters([2, 2]);
        let tile = if is_turned { tile.exchanged() } else { tile };
        let mut dispatch = Dispatch::default();
        dispatch.set(&Need::of_16_bits([m, n, k]), Instance::Split(tile));
        let products = Products::with_dispatch(&device, dispatch);
        let (a, b) = (bf16s(&device, m * k, 1), bf16s(&device, k * n, 2));
        let c = bf16s(&device, m * n, 3);
        let (x, y, added) = (back(&a), back(&b), back(&c));
        let (a, b) = (a.view([m, k]), b.view([k, n]).with_strides([1, k]));
        let options = Options {
            beta: 0.5,
            activation: Activation::Relu,
            ..Options::default()
        };
        let into = c.view([m, n]);
        let plan = products.plan(&a, &b, &into, &options).unwrap().to_string();
        assert!(
            plan.contains("in parts along K by clusters of 2x2"),
            "{plan}"
        );
        products.call(&stream, &a, &b, &into, &options).unwrap();
        stream.synchronize().unwrap();
        let want = |at: usize| {
            let (i, j) = (at / n, at % n);
            let product: f64 = (0..k).map(|l| x[i * k + l] * y[j * k + l]).sum();
            bf16::from_f64((product + 0.5 * added[at]).max(0.0)).to_f64()
        };
        assert_eq!(
            back(&c),
            (0..m * n).map(want).collect::<Vec<f64>>(),
            "{plan}"
        );
    }
}

/// A long launch of one wave is apart from the one in front, unless an operand is loaded before that has ended.
#[test]
fn a_plan_says_whether_its_launch_is_apart() {
    let device = Device::emulator();
    let products = Products::new(&device);
    let is_apart = |[m, n, k]: [usize; 3], are_settled| {
        let [a, b, c] = [m * k, n * k, m * n].map(|len| Buffer::<bf16>::zeros(&device, len));
        let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
        let b = b.view([k, n]).with_strides([1, k]);
        let options = Options {
            are_settled,
            ..Options::default()
        };
        let plan = products.plan(&a.view([m, k]), &b, &c.view([m, n]), &options);
        let plan = plan.unwrap();
        let said = plan.to_string();
        assert_eq!(
            said.contains("behind the end of the launch in front"),
            plan.is_apart,
            "{said}"
        );
        plan.is_apart
    };
    assert!(is_apart([1024, 1024, 8192], [false, false]));
    assert!(!is_apart([1024, 1024, 8192], [false, true]));
    assert!(!is_apart([1024, 1024, 64], [false, false]));
}
