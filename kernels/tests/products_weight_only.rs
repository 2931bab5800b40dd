//! Products with packed weights as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::Buffer;
use tilekit::prelude::*;
use tilekit_kernels::products::weight_only::{
    DeviceWeights, HostWeights, PackedWeights, Unquantised, WeightFormat, WeightGroup, WeightValues,
};
use tilekit_kernels::products::{Activation, Axis, Options, Products};

fn device() -> (Device, Stream, Products) {
    let device = Device::emulator();
    let (stream, products) = (Stream::new(&device).unwrap(), Products::new(&device));
    (device, stream, products)
}

fn number(at: usize) -> f32 {
    (at * 37 / 7 % 5) as f32 - 2.0
}

const fn format(group: WeightGroup, values: WeightValues) -> WeightFormat {
    WeightFormat { values, group }
}

/// Weights of the host, and what they stand for.
struct Weights {
    shape: [usize; 2],
    format: WeightFormat,
    q: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<u8>,
}

impl Weights {
    fn new(shape: [usize; 2], format: WeightFormat) -> Self {
        let groups = shape[0] * format.group.count(shape[1]);
        Weights {
            shape,
            format,
            // Of 8 bits those from 0.5 to 1.875.
            q: (0..shape[0] * shape[1])
                .map(|at| {
                    (at * 29 / 3 % 16) as u8 + if format.values.bits() == 8 { 0x30 } else { 0 }
                })
                .collect(),
            scales: (0..groups).map(|at| [0.5, 1.0, 0.25][at % 3]).collect(),
            zeros: (0..groups).map(|at| (at * 7 % 16) as u8).collect(),
        }
    }

    fn zeros(&self) -> Option<&[u8]> {
        self.format.values.has_zeros().then_some(&*self.zeros)
    }

    fn on_host(&self) -> HostWeights<'_> {
        HostWeights {
            weights: &self.q,
            scales: &self.scales,
            zeros: self.zeros(),
        }
    }

    /// Packed by the host, and by the device.
    fn packed<T: Unquantised>(
        &self,
        (device, stream, products): &(Device, Stream, Products),
        from: impl Fn(f32) -> T,
    ) -> [PackedWeights<T>; 2] {
        let [n, k] = self.shape;
        let groups = self.format.group.count(k);
        let by_host = PackedWeights::from_host(device, self.on_host(), self.shape, self.format);
        let bits = self.format.values.bits();
        let in_byte = |codes: &[u8]| {
            codes
                .iter()
                .rev()
                .fold(0, |byte, code| (byte << (bits % 8)) | code)
        };
        // Behind an element of something else.
        let bytes = self.q.chunks(8 / bits).map(in_byte);
        let bytes: Vec<u8> = std::iter::once(0).chain(bytes).collect();
        let bytes = Buffer::from_slice(device, &bytes).unwrap();
        let scales = self.scales.iter().map(|&scale| from(scale));
        let scales: Vec<T> = std::iter::once(from(0.0)).chain(scales).collect();
        let scales = Buffer::from_slice(device, &scales).unwrap();
        let zeros = Buffer::from_slice(device, &[&[0], &*self.zeros].concat()).unwrap();
        let of_zeros = zeros.view([n, groups]).with_offset(1);
        let given = DeviceWeights {
            weights: &bytes.view([n, k * bits / 8]).with_offset(1),
            scales: &scales.view([n, groups]).with_offset(1),
            zeros: self.format.values.has_zeros().then_some(&of_zeros),
        };
        let by_device = products.pack_weights(stream, given, self.format);
        [by_host.unwrap(), by_device.unwrap()]
    }

    fn meant(&self, row: usize, at: usize) -> f32 {
        let k = self.shape[1];
        let group = match self.format.group {
            WeightGroup::Of(weights) => at / weights,
            WeightGroup::Row => 0,
        };
        let own = row * self.format.group.count(k) + group;
        let q = self.q[row * k + at];
        let value = match self.format.values {
            WeightValues::Int4 => f32::from(q) - 8.0,
            WeightValues::Int4Zeros => f32::from(q) - f32::from(self.zeros[own]),
            WeightValues::E2m1 => E2m1::from_bits(q).to_f32(),
            WeightValues::E4m3 => E4m3::from_bits(q).to_f32(),
        };
        self.scales[own] * value
    }

    fn product(&self, x: &[f32], m: usize) -> Vec<f32> {
        let [n, k] = self.shape;
        let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
        let sum = |(i, j)| (0..k).map(|l| x[i * k + l] * self.meant(j, l)).sum();
        places.map(sum).collect()
    }
}

#[track_caller]
fn check(y: &Buffer<bf16>, want: impl IntoIterator<Item = f32>) {
    for (at, (got, want)) in y.to_vec().unwrap().into_iter().zip(want).enumerate() {
        assert_eq!(got, bf16::from_f32(want), "element {at}");
    }
}

#[test]
fn weights_packed_by_host_and_device_are_multiplied_alike() {
    let all = device();
    let (device, stream, products) = &all;
    let formats = [
        (WeightGroup::Of(128), WeightValues::Int4),
        (WeightGroup::Of(32), WeightValues::Int4Zeros),
        (WeightGroup::Row, WeightValues::Int4Zeros),
        (WeightGroup::Of(32), WeightValues::E2m1),
        (WeightGroup::Of(64), WeightValues::E4m3),
    ];
    for (group, values) in formats {
        for [m, n, k] in [[1, 8, 256], [130, 137, 384], [3, 72, 1280]] {
            let weights = Weights::new([n, k], format(group, values));
            let x: Vec<f32> = (0..m * k).map(number).collect();
            let elements: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
            let x_there = Buffer::from_slice(device, &elements).unwrap();
            let [by_host, by_device] = weights.packed(&all, bf16::from_f32);
            assert_eq!(
                by_host.words().to_vec().unwrap(),
                by_device.words().to_vec().unwrap()
            );
            for packed in [by_host, by_device] {
                let y = Buffer::<bf16>::zeros(device, m * n).unwrap();
                let (x, y_there) = (x_there.view([m, k]), y.view([m, n]));
                products
                    .weight_only(stream, &x, &packed, &y_there, &Options::default())
                    .unwrap();
                check(
                    &y,
                    weights.product(&elements.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), m),
                );
            }
        }
    }
}

/// Behind K lie codes whose scale is that of the whole row: times it, 8 less than a weight of 0 is infinite in f16, and times the zeros of X not a number.
#[test]
fn rows_end_within_a_block_whatever_their_scale_is() {
    let all = device();
    let (device, stream, products) = &all;
    let [m, n, k] = [3, 2, 34];
    for values in [WeightValues::Int4, WeightValues::Int4Zeros] {
        let mut weights = Weights::new([n, k], format(WeightGroup::Row, values));
        weights.scales = vec![-9000.0, 12000.0];
        weights.zeros = vec![13, 2];
        let middle = if values.has_zeros() { [13, 2] } else { [8; 2] };
        let code = |at: usize| middle[at / k] + (at % 3) as u8 - 1;
        weights.q = (0..n * k).map(code).collect();
        let x: Vec<f32> = (0..m * k).map(|at| number(at) / 16.0).collect();
        let elements: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
        let x_there = Buffer::from_slice(device, &elements).unwrap();
        let [by_host, by_device] = weights.packed(&all, f16::from_f32);
        assert_eq!(
            by_host.words().to_vec().unwrap(),
            by_device.words().to_vec().unwrap()
        );
        let y = Buffer::<f32>::zeros(device, m * n).unwrap();
        let (x_view, y_view) = (x_there.view([m, k]), y.view([m, n]));
        products
            .weight_only(stream, &x_view, &by_device, &y_view, &Options::default())
            .unwrap();
        assert_eq!(y.to_vec().unwrap(), weights.product(&x, m), "{values}");
    }
}

/// The last bits of this scale, just above the middle of two bf16, were dropped before it was rounded.
#[test]
fn scales_are_rounded_to_the_nearest() {
    let (device, ..) = device();
    let above = 1.0 + 2.0_f32.powi(-8) + f32::EPSILON;
    let weights = HostWeights {
        weights: &[8; 32],
        scales: &[above],
        zeros: None,
    };
    let of_32 = format(WeightGroup::Of(32), WeightValues::Int4);
    let packed = PackedWeights::<bf16>::from_host(&device, weights, [1, 32], of_32).unwrap();
    let found = packed.scales().to_vec().unwrap()[0];
    assert_eq!(found, bf16::from_f32(above));
    assert!(found > bf16::ONE);
}

#[test]
fn results_have_what_the_options_say_and_lie_in_any_way() {
    let all = device();
    let (device, stream, products) = &all;
    let [m, n, k] = [5, 40, 128];
    let weights = Weights::new([n, k], format(WeightGroup::Of(64), WeightValues::Int4));
    let x: Vec<f32> = (0..m * k).map(number).collect();
    // Columns of X follow each other, and those of Y.
    let turned = (0..k * m).map(|at| bf16::from_f32(x[at % m * k + at / m]));
    let x_there = Buffer::from_slice(device, &turned.collect::<Vec<_>>()).unwrap();
    let bias: Vec<bf16> = (0..n).map(|j| bf16::from_f32(number(j))).collect();
    let bias_there = Buffer::from_slice(device, &bias).unwrap();
    let packed = &weights.packed(&all, bf16::from_f32)[0];
    let y = Buffer::<bf16>::zeros(device, m * n).unwrap();
    let options = Options {
        bias: Some((&bias_there, Axis::Columns)),
        activation: Activation::Relu,
        ..Options::default()
    };
    let x_view = x_there.view([m, k]).with_strides([1, m]);
    let y_view = y.view([m, n]).with_strides([1, m]);
    products
        .weight_only(stream, &x_view, packed, &y_view, &options)
        .unwrap();
    let sums = weights.product(&x, m);
    let want = |at: usize| {
        let (i, j) = (at % m, at / m);
        (sums[i * n + j] + bias[j].to_f32()).max(0.0)
    };
    check(&y, (0..m * n).map(want));
    let plan = products.plan_weight_only(&x_view, packed, &y_view, &options);
    assert_eq!(
        plan.unwrap().to_string(),
        "int4_of_64: 64x8 by 1 CTAs along K, 1 CTAs, 3.5 us; `x` copied: strides 1 and 5, where rows of 128 are taken; \
         `y` copied: strides 1 and 5, where rows of 40 are taken"
    );
}

/// Of a tile of 8 columns two threads held the same sum, and one read what Y was when the other had stored what it is.
#[test]
fn sums_are_added_to_what_y_was() {
    let all = device();
    let (device, stream, products) = &all;
    let [m, n, k] = [8, 8, 32];
    let weights = Weights::new([n, k], format(WeightGroup::Of(32), WeightValues::Int4));
    let x: Vec<f32> = (0..m * k).map(number).collect();
    let elements: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
    let x_there = Buffer::from_slice(device, &elements).unwrap();
    let y = Buffer::from_slice(device, &vec![bf16::ONE; m * n]).unwrap();
    let options = Options {
        beta: 1.0,
        ..Options::default()
    };
    let packed = &weights.packed(&all, bf16::from_f32)[0];
    let (x_view, y_view) = (x_there.view([m, k]), y.view([m, n]));
    products
        .weight_only(stream, &x_view, packed, &y_view, &options)
        .unwrap();
    let sums = weights.product(&x, m);
    check(&y, sums.into_iter().map(|sum| sum + 1.0));
}

#[test]
fn sizes_without_elements() {
    let all = device();
    let (device, stream, products) = &all;
    for [m, n, k] in [[0, 16, 128], [4, 0, 128], [4, 16, 0]] {
        let weights = Weights::new(
            [n, k],
            format(WeightGroup::Of(128), WeightValues::Int4Zeros),
        );
        let x = Buffer::from_slice(device, &vec![bf16::ONE; m * k]).unwrap();
        for packed in weights.packed(&all, bf16::from_f32) {
            let y = Buffer::from_slice(device, &vec![bf16::NAN; m * n]).unwrap();
            let (x, y_view) = (x.view([m, k]), y.view([m, n]));
            products
                .weight_only(stream, &x, &packed, &y_view, &Options::default())
                .unwrap();
            check(&y, vec![0.0; m * n]);
        }
    }
}

#[track_caller]
fn refused<T>(result: tilekit_kernels::products::Result<T>, expected: &str) {
    let error = result.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some(expected));
}

#[test]
fn what_does_not_fit_is_named() {
    let all = device();
    let (device, stream, products) = &all;
    let of_128 = format(WeightGroup::Of(128), WeightValues::Int4);
    let own = Weights::new([16, 128], of_128);
    let on_host = |shape, format| {
        PackedWeights::<bf16>::from_host(device, own.on_host(), shape, format).map(|_| ())
    };
    refused(
        on_host([16, 96], of_128),
        "product: `shape`: found rows of 96 weights; expected a multiple of 128, the group: pad rows with weights that are zero",
    );
    refused(
        on_host([16, 128], format(WeightGroup::Of(48), WeightValues::Int4)),
        "product: `format.group`: found groups of 48; expected groups of 32, 64 or 128, or whole rows: `WeightGroup::Row`",
    );
    refused(
        on_host([8, 128], of_128),
        "product: `host.weights`: found 2048 numbers; expected 1024: those of 8 rows of 128 weights",
    );
    refused(
        on_host(
            [16, 128],
            format(WeightGroup::Of(128), WeightValues::Int4Zeros),
        ),
        "product: `host.zeros`: found none; expected zeros: the values of the format have them",
    );
    let large = HostWeights {
        weights: &[16; 128],
        scales: &[1.0],
        zeros: None,
    };
    refused(
        PackedWeights::<bf16>::from_host(device, large, [1, 128], of_128),
        "product: `host.weights`: found a number beyond 15 at 0; expected numbers of 4 bits, from 0 to 15, one in a byte",
    );
    let words = Buffer::<u32>::zeros(device, 1000).unwrap();
    let scales = Buffer::<bf16>::zeros(device, 64).unwrap();
    refused(
        PackedWeights::new(words, scales, [16, 128], of_128),
        "product: `words`: found 1000 elements; expected 1024: those of 16 rows of 128 weights, as `WeightFormat` counts them",
    );
    let bytes = Buffer::<u8>::zeros(device, 16 * 64).unwrap();
    let scales = Buffer::<bf16>::zeros(device, 32).unwrap();
    let given = DeviceWeights {
        weights: &bytes.view([16, 64]),
        scales: &scales.view([16, 2]),
        zeros: None,
    };
    refused(
        products.pack_weights(stream, given, of_128),
        "product: `scales`: found shape [16, 2]; expected [16, 1]: one for each group of each row of weights",
    );
    let rows = 65535 * 64 + 1;
    let given = DeviceWeights {
        weights: &bytes.view([rows, 64]).with_strides([0, 1]),
        scales: &scales.view([rows, 1]).with_strides([0, 1]),
        zeros: None,
    };
    refused(
        products.pack_weights(stream, given, of_128),
        "product: `weights`: found 4194241 rows; expected at most 4194240: give parts of it",
    );
    let packed = &own.packed(&all, bf16::from_f32)[0];
    let x = Buffer::<bf16>::zeros(device, 4 * 128).unwrap();
    let y = Buffer::<bf16>::zeros(device, 4 * 16).unwrap();
    let call = |x_shape: [usize; 2], y_shape: [usize; 2], strides: [usize; 2]| {
        let y = y.view(y_shape).with_strides(strides);
        products.weight_only(stream, &x.view(x_shape), packed, &y, &Options::default())
    };
    refused(
        call([4, 64], [4, 16], [16, 1]),
        "product: `x`: found 64 columns; expected 128, those of the weights",
    );
    refused(
        call([4, 128], [4, 8], [16, 1]),
        "product: `y`: found shape [4, 8]; expected [4, 16]: the rows of x, the rows of weights",
    );
    refused(
        call([4, 128], [4, 16], [0, 1]),
        "product: `y`: found 4x16 with strides 0 and 1; expected rows or columns that do not overlap",
    );
    refused(
        call([5, 128], [5, 16], [16, 1]),
        "product: `x`: found a matrix that ends at element 640; expected one inside of its buffer of 512 elements",
    );
    let (x, over) = (x.view([4, 128]), packed.scales().view([4, 16]));
    refused(
        products.weight_only(stream, &x, packed, &over, &Options::default()),
        "product: `y`: found memory of `weights`; expected a result apart from the operands, which are read while it is written",
    );
}

/// They divided by zero, and overflowed.
#[test]
fn counts_of_absurd_formats_are_numbers() {
    let of = |group| WeightFormat {
        values: WeightValues::Int4Zeros,
        group,
    };
    let nothing = of(WeightGroup::Of(0));
    assert_eq!(nothing.group.count(64), 0);
    assert_eq!(nothing.scales([64, 128]), 0);
    let most = [usize::MAX; 2];
    assert_eq!(nothing.words(most), usize::MAX);
    assert_eq!(of(WeightGroup::Of(1)).scales(most), usize::MAX);
    assert_eq!(of(WeightGroup::Of(32)).scales([65, 129]), 2 * 8 * 2 * 64);
}
