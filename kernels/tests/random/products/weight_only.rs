//! Products with packed weights of 4 and 8 bits.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::weight_only::{
    DeviceWeights, HostWeights, PackedWeights, Unquantised, WeightFormat, WeightGroup, WeightValues,
};
use tilekit_kernels::products::{Options, Precision, Products, Result, ResultOf};

use super::ending::{Ending, LISTS};
use super::options::Extras;
use super::place::{Place, matrices, size};
use super::problem::{self, Problem, right};
use crate::broken::{Broken, Views};
use crate::near::Within;
use crate::numbers::{Number, factors, noise, small};
use crate::tensor::Tensor;

/// A call.
#[derive(Clone, Debug)]
struct Call {
    size: [usize; 3],
    format: WeightFormat,
    is_packed_by_host: bool,
    /// X, Y, the source, codes, scales and zeros.
    places: [Place; 6],
    extras: Extras,
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let values = prop_oneof![
            Just(WeightValues::Int4),
            Just(WeightValues::Int4Zeros),
            Just(WeightValues::E2m1),
            Just(WeightValues::E4m3),
        ];
        let group = prop_oneof![
            Just(WeightGroup::Of(32)),
            Just(WeightGroup::Of(64)),
            Just(WeightGroup::Of(128)),
            Just(WeightGroup::Row),
        ];
        let places = [
            Place::any(),
            Place::any(),
            Place::any(),
            Place::any(),
            Place::any(),
            Place::any(),
        ];
        let call = (size(), values, group, any::<bool>(), places, Extras::any());
        call.prop_map(
            |([m, n, k], values, group, is_packed_by_host, places, extras)| {
                // Two codes of 4 bits have a byte, and groups are whole.
                let unit = match group {
                    WeightGroup::Of(weights) => weights,
                    WeightGroup::Row => 2,
                };
                Call {
                    size: [m, n, k.next_multiple_of(unit)],
                    format: WeightFormat { values, group },
                    is_packed_by_host,
                    places,
                    extras,
                }
            },
        )
    }

    fn groups(&self) -> usize {
        self.format.group.count(self.size[2])
    }
}

/// Codes of e4m3 from -2 to 2.
fn e4m3_codes(len: usize, seed: u64) -> Vec<u8> {
    small::<E4m3>(len, seed)
        .into_iter()
        .map(E4m3::to_bits)
        .collect()
}

/// The tensors of a call.
struct WeightOnly<T, O> {
    call: Call,
    x: Tensor<T, 3>,
    y: Tensor<O, 3>,
    codes: Tensor<u8, 3>,
    scales: Tensor<T, 3>,
    zeros: Tensor<u8, 3>,
    ending: Ending<O>,
}

impl<T: Unquantised + Number, O: Number> WeightOnly<T, O> {
    /// Codes, scales and zeros row by row.
    fn on_host(&self) -> (Vec<u8>, Vec<f32>, Vec<u8>) {
        let [_, n, k] = self.call.size;
        let bits = self.call.format.values.bits();
        let (codes, scales, zeros) = (
            self.codes.numbers(),
            self.scales.numbers(),
            self.zeros.numbers(),
        );
        let code = |row: usize, at: usize| {
            let byte = codes[self.codes.at([0, row, at * bits / 8])] as u8;
            if bits == 8 {
                byte
            } else {
                byte >> (4 * (at % 2)) & 15
            }
        };
        let rows = |columns: usize| {
            (0..n).flat_map(move |row| (0..columns).map(move |column| (row, column)))
        };
        let groups = self.call.groups();
        (
            rows(k).map(|(row, at)| code(row, at)).collect(),
            rows(groups)
                .map(|(row, group)| scales[self.scales.at([0, row, group])] as f32)
                .collect(),
            rows(groups)
                .map(|(row, group)| zeros[self.zeros.at([0, row, group])] as u8)
                .collect(),
        )
    }

    fn packed(
        &self,
        (products, views): (&Products, &Views),
        stream: &Stream,
    ) -> Result<PackedWeights<T>> {
        let has_zeros = self.call.format.values.has_zeros();
        if self.call.is_packed_by_host {
            let (weights, scales, zeros) = self.on_host();
            let host = HostWeights {
                weights: &weights,
                scales: &scales,
                zeros: has_zeros.then_some(&*zeros),
            };
            let [_, n, k] = self.call.size;
            return PackedWeights::from_host(stream.device(), host, [n, k], self.call.format);
        }
        let zeros = views.view(5 + LISTS, &self.zeros.view(1));
        let from = DeviceWeights {
            weights: &views.view(0, &self.codes.view(1)),
            scales: &views.view(1, &self.scales.view(1)),
            zeros: has_zeros.then_some(&zeros),
        };
        products.pack_weights(stream, from, self.call.format)
    }

    /// What weights stand for, row by row.
    fn meant(&self) -> Vec<f64> {
        let (codes, scales, zeros) = self.on_host();
        let k = self.call.size[2];
        let groups = self.call.groups();
        let of = |(at, code): (usize, u8)| {
            let group = match self.call.format.group {
                WeightGroup::Of(weights) => at % k / weights,
                WeightGroup::Row => 0,
            };
            let own = at / k * groups + group;
            let value = match self.call.format.values {
                WeightValues::Int4 => f64::from(code) - 8.0,
                WeightValues::Int4Zeros => f64::from(code) - f64::from(zeros[own]),
                WeightValues::E2m1 => f64::from(E2m1::from_bits(code).to_f32()),
                WeightValues::E4m3 => f64::from(E4m3::from_bits(code).to_f32()),
            };
            value * f64::from(scales[own])
        };
        codes.into_iter().enumerate().map(of).collect()
    }
}

impl<T: Unquantised + Number, O: ResultOf<T, Addend = O> + Number> Problem for WeightOnly<T, O> {
    type Call = Call;
    type Output = O;

    fn new(device: &Device, call: Call) -> WeightOnly<T, O> {
        let [m, n, k] = call.size;
        let layout = |at: usize| &call.places[at].layout;
        let bits = call.format.values.bits();
        let codes = |len: usize| match bits {
            8 => e4m3_codes(len, 2),
            _ => noise(len, 2).map(|bits| bits as u8).collect(),
        };
        let of_groups = [1, n, call.groups()];
        let to_t = |len: usize| {
            factors(len, 4)
                .into_iter()
                .map(|x| <T as Number>::of(f64::from(x)))
                .collect()
        };
        WeightOnly {
            x: Tensor::new(device, [1, m, k], layout(0), |len| small(len, 1)),
            y: Tensor::new(device, [1, m, n], layout(1), |len| small(len, 7)),
            codes: Tensor::new(device, [1, n, k * bits / 8], layout(3), codes),
            scales: Tensor::new(device, of_groups, layout(4), to_t),
            zeros: Tensor::new(device, of_groups, layout(5), |len| {
                noise(len, 5).map(|bits| bits as u8 % 16).collect()
            }),
            ending: Ending::new(device, call.extras, [1, m, n], layout(2)),
            call,
        }
    }

    fn result(&self) -> &Tensor<O, 3> {
        &self.y
    }

    fn wanted(&self, before: &[f64]) -> Within {
        let [m, n, k] = self.call.size;
        let (x, weights) = (self.x.numbers(), self.meant());
        let mut wanted = vec![None; before.len()];
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let product = |l: usize| x[self.x.at([0, i, l])] * weights[j * k + l];
            let sum = (0..k).map(product).sum();
            let place = self.y.at([0, i, j]);
            wanted[place] = Some(self.ending.of_result(sum, before[place], [0, i, j]));
        }
        wanted
    }
    fn run(&self, products: &Products, stream: &Stream, broken: Option<Broken>) -> Result<()> {
        // Zeros come last, where a format has them.
        let has_zeros = self.call.format.values.has_zeros();
        let views = matrices(broken, [4, 1 + LISTS + usize::from(has_zeros)]);
        let weights = self.packed((products, &views), stream)?;
        let x = views.view(2, &self.x.view(1));
        let y = views.view(3, &self.y.view(1));
        let call =
            |options: &Options<'_, O>| products.weight_only(stream, &x, &weights, &y, options);
        let first = (1, Precision::Tf32);
        self.ending.with(stream.device(), first, (&views, 4), call)
    }
}

#[test]
fn bf16_to_bf16() {
    right::<WeightOnly<bf16, bf16>>(8, &Call::any());
}

#[test]
fn f16_to_f32() {
    right::<WeightOnly<f16, f32>>(8, &Call::any());
}

#[test]
fn broken() {
    let on_device = |call: Call| Call {
        is_packed_by_host: false,
        ..call
    };
    problem::broken::<WeightOnly<bf16, bf16>>(30, Call::any().prop_map(on_device));
}
