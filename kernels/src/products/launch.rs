//! The parameters and arguments of the kernels of one product.

use tilekit::Buffer;
use tilekit::prelude::*;

use super::check::View;
use super::division::Division;
use super::epilogue::Data;
use super::epilogue_arguments::EpilogueArguments;
use super::every_other_row::{STEPS, first_columns};
use super::factor::Stored;
use super::form::{Form, Side};
use super::matrix::Matrix;
use super::need::Need;
use super::persistent_tile::PersistentTile;
use crate::handles::handles;

/// The parameters of `dense`.
pub(super) type ManyHandles<T, O, X> = handles! {
    a b: TensorMap<T>,
    c: TensorMap<O>,
    m n k batches: Scalar<i32>,
    data: Data<O, X>,
};

/// The parameters of `few_tiles`.
pub(super) type FewHandles<T, O, X> = handles! {
    x y: TensorMap<T>,
    out: Ptr<O>,
    stride: Scalar<i32>,
    batch_stride: Scalar<i64>,
    m n k: Scalar<i32>,
    data: Data<O, X>,
};

/// The parameters of `split_k`, whose sums are of type `S`.
pub(super) type SplitHandles<T, O, S, X> = handles! {
    a b: TensorMap<T>,
    out: Ptr<O>,
    stride: Scalar<i32>,
    m n k parts each: Scalar<i32>,
    data: Data<O, X>,
    sums: Ptr<S>,
    counts: Ptr<u32>,
};

/// The parameters of `cluster_tiles`.
pub(super) type ClusterHandles<T, O, X> = handles! {
    x y: TensorMap<T>,
    out: Ptr<O>,
    stride m n k: Scalar<i32>,
    data: Data<O, X>,
};

/// The parameters of `alternating` and `cooperative`.
pub(super) type PersistentHandles<T, O, X> = handles! {
    x y: TensorMap<T>,
    c: TensorMap<O>,
    m n k: Scalar<i32>,
    data: Data<O, X>,
};

/// The parameters of `every_other_row`.
pub(super) type EveryOtherHandles<T, O, X> = handles! {
    x y: TensorMap<T>,
    c first: TensorMap<O>,
    m n k: Scalar<i32>,
    data: Data<O, X>,
};

/// The parameters of `any_rows`.
pub(super) type AnyHandles<T, O, X> = handles! {
    a: Ptr<T>,
    a_pitch: Scalar<i32>,
    a_batch: Scalar<i64>,
    b: Ptr<T>,
    b_pitch: Scalar<i32>,
    b_batch: Scalar<i64>,
    out: Ptr<O>,
    stride: Scalar<i32>,
    batch_stride: Scalar<i64>,
    m n k: Scalar<i32>,
    data: Data<O, X, true>,
};

/// The parameters of `copied_tiles`.
pub(super) type CopiedHandles<T, O, X> = handles! {
    x: Ptr<T>,
    x_pitch: Scalar<i32>,
    y: Ptr<T>,
    y_pitch: Scalar<i32>,
    out: Ptr<O>,
    stride m n k: Scalar<i32>,
    data: Data<O, X, true>,
};

/// What a kernel reads and writes, all of it in rows.
pub(super) struct Launch<'a, T, O: Stored> {
    pub(super) need: Need,
    pub(super) factors: [View<'a, T>; 2],
    pub(super) sides: [Side; 2],
    pub(super) result: (View<'a, O>, Matrix),
    pub(super) data: EpilogueArguments<'a, O>,
}

/// The arguments of `dense`.
pub(super) type OfMany<'l, T, O> = handles! {
    a b: &'l View<'l, T>,
    c: &'l View<'l, O>,
    m n k batches: i32,
    data: &'l EpilogueArguments<'l, O>,
};

/// The arguments of `few_tiles`.
pub(super) type OfFew<'l, T, O> = handles! {
    x y: &'l View<'l, T>,
    out: &'l View<'l, O>,
    stride: i32,
    batch_stride: i64,
    m n k: i32,
    data: &'l EpilogueArguments<'l, O>,
};

/// The arguments of `split_k`.
pub(super) type OfSplit<'l, T, O, S> = handles! {
    a b: &'l View<'l, T>,
    out: &'l View<'l, O>,
    stride: i32,
    m n k parts each: i32,
    data: &'l EpilogueArguments<'l, O>,
    sums: &'l Buffer<S>,
    counts: &'l Buffer<u32>,
};

/// The arguments of `cluster_tiles`.
pub(super) type OfCluster<'l, T, O> = handles! {
    x y: &'l View<'l, T>,
    out: &'l View<'l, O>,
    stride m n k: i32,
    data: &'l EpilogueArguments<'l, O>,
};

/// The arguments of `alternating` and `cooperative`.
pub(super) type OfPersistent<'l, T, O> = handles! {
    x y: &'l View<'l, T>,
    c: &'l View<'l, O>,
    m n k: i32,
    data: &'l EpilogueArguments<'l, O>,
};

/// The arguments of `every_other_row`.
pub(super) type OfEveryOther<'l, T, O> = handles! {
    x y: View<'l, T>,
    c first: View<'l, O>,
    m n k: i32,
    data: &'l EpilogueArguments<'l, O>,
};

impl<T: DeviceElement, O: Stored> Launch<'_, T, O> {
    pub(super) fn form<I, E>(&self, tile: I, epilogue: E) -> Form<I, E> {
        Form {
            tile,
            sides: self.sides,
            is_batched: self.need.batches > 1,
            epilogue,
        }
    }

    /// Whether an operand is loaded before the launch in front has ended.
    pub(super) fn is_settled(&self) -> bool {
        self.sides.iter().any(|side| side.is_settled)
    }

    pub(super) fn of_many(&self) -> OfMany<'_, T, O> {
        let [m, n, k] = self.need.size.map(|extent| extent as i32);
        let ([a, b], batches) = (&self.factors, self.need.batches as i32);
        (a, b, &self.result.0, m, n, k, batches, &self.data)
    }

    pub(super) fn of_few(&self, is_turned: bool) -> OfFew<'_, T, O> {
        let [m, n, k] = self.need.size.map(|extent| extent as i32);
        let [x, y] = &self.factors;
        let (x, y, m, n) = if is_turned {
            (y, x, n, m)
        } else {
            (x, y, m, n)
        };
        let (out, place) = &self.result;
        let strides = (place.strides[0] as i32, place.step_of_batch() as i64);
        (x, y, out, strides.0, strides.1, m, n, k, &self.data)
    }

    pub(super) fn of_cluster(&self, is_turned: bool) -> OfCluster<'_, T, O> {
        let (x, y, out, stride, _, m, n, k, data) = self.of_few(is_turned);
        (x, y, out, stride, m, n, k, data)
    }

    pub(super) fn of_persistent(&self, is_turned: bool) -> OfPersistent<'_, T, O> {
        let (x, y, c, _, _, m, n, k, data) = self.of_few(is_turned);
        (x, y, c, m, n, k, data)
    }

    pub(super) fn of_every_other(&self, tile: PersistentTile) -> OfEveryOther<'_, T, O> {
        let (x, y, c, m, n, k, data) = self.of_persistent(tile.turned);
        let (rows, [x_steps, y_steps]) = (self.need.size[0], tile.steps());
        let columns = first_columns::<O>(tile, self.need.size[1]);
        let first = c.clone().with_shape([rows, columns]);
        let first = first.with_strides([self.result.1.strides[0], 1]);
        let [c, first] = [c.clone(), first].map(|c| c.with_steps(&STEPS));
        let [x, y] = [(x, x_steps), (y, y_steps)].map(|(x, steps)| x.clone().with_steps(&steps));
        (x, y, c, first, m, n, k, data)
    }

    /// With the workspace of parts and their counts.
    pub(super) fn of_split<'l, S>(
        &'l self,
        (divided, is_turned): (Division, bool),
        sums: &'l Buffer<S>,
        counts: &'l Buffer<u32>,
    ) -> OfSplit<'l, T, O, S> {
        let [parts, each] = [divided.parts, divided.each].map(|count| count as i32);
        let (x, y, out, stride, _, m, n, k, data) = self.of_few(is_turned);
        (x, y, out, stride, m, n, k, parts, each, data, sums, counts)
    }
}
