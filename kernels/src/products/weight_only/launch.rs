//! The parameters and arguments of the kernels of one product with packed weights.

use tilekit::Buffer;
use tilekit::prelude::*;

use super::form::WeightForm;
use super::format::WeightValues;
use super::packed::PackedWeights;
use super::plan::WeightTile;
use crate::handles::handles;
use crate::products::check::View;
use crate::products::epilogue::Data;
use crate::products::epilogue_arguments::EpilogueArguments;
use crate::products::factor::Stored;
use crate::products::matrix::Matrix;

/// What a kernel of products with packed weights is compiled for; of the epilogue its name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in crate::products) enum WeightWhich {
    Product(WeightForm<WeightTile, ()>, String),
    Pack(WeightValues),
    /// With zeros.
    PackScales(bool),
}

/// The parameters of `weight_only_few`.
pub(super) type FewHandles<T, O> = handles! {
    words: Ptr<u32>,
    scales: Ptr<T>,
    x: TensorMap<T>,
    out: Ptr<O>,
    stride m n k: Scalar<i32>,
    data: Data<O>,
};

/// The parameters of `weight_only_many`.
pub(super) type ManyHandles<T, O> = handles! {
    words: Ptr<u32>,
    scales: Ptr<T>,
    x: TensorMap<T>,
    y: TensorMap<O>,
    m n k: Scalar<i32>,
    data: Data<O>,
};

/// The arguments of both.
pub(super) type OfFew<'l, T, O> = handles! {
    words: &'l Buffer<u32>,
    scales: &'l Buffer<T>,
    x: &'l View<'l, T>,
    out: &'l View<'l, O>,
    stride m n k: i32,
    data: &'l EpilogueArguments<'l, O>,
};
pub(super) type OfMany<'l, T, O> = handles! {
    words: &'l Buffer<u32>,
    scales: &'l Buffer<T>,
    x: &'l View<'l, T>,
    y: &'l View<'l, O>,
    m n k: i32,
    data: &'l EpilogueArguments<'l, O>,
};

/// What a kernel reads and writes, all of it in rows.
pub(super) struct WeightLaunch<'a, T, O: Stored> {
    /// M, N, K.
    pub(super) size: [usize; 3],
    pub(super) weights: &'a PackedWeights<T>,
    pub(super) x: View<'a, T>,
    pub(super) result: (View<'a, O>, Matrix),
    pub(super) data: EpilogueArguments<'a, O>,
}

impl<T, O: Stored> WeightLaunch<'_, T, O> {
    pub(super) fn form<I, E>(&self, tile: I, epilogue: E) -> WeightForm<I, E> {
        WeightForm {
            tile,
            format: self.weights.format(),
            epilogue,
        }
    }

    pub(super) fn of_few(&self) -> OfFew<'_, T, O> {
        let (words, scales, x, y, m, n, k, data) = self.of_many();
        let stride = self.result.1.strides[0] as i32;
        (words, scales, x, y, stride, m, n, k, data)
    }

    pub(super) fn of_many(&self) -> OfMany<'_, T, O> {
        let [m, n, k] = self.size.map(|extent| extent as i32);
        (
            self.weights.words(),
            self.weights.scales(),
            &self.x,
            &self.result.0,
            m,
            n,
            k,
            &self.data,
        )
    }
}
