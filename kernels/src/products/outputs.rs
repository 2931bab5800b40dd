//! What an epilogue stores beside the result: a second matrix, and reductions along rows, along columns and of all results.

use tilekit::prelude::*;

use super::blocks::scale_of;
use super::epilogue::{AUTHOR_COLUMNS, Axis, Epilogue, Named, Place, by_pairs, check_results};
use super::epilogue_kind::Finishing;
use super::factor::{BLOCK, Stored};
use super::given::Given;
use super::output_handles::GivenOutputs;

/// Where an epilogue stores what is beside the result: a second matrix of `P`, and numbers of reductions.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct OutputPtrs<P> {
    pub(super) second: Ptr<P>,
    /// Elements from one row of it to the next.
    pub(super) pitch: Scalar<i32>,
    /// Elements from that of one product of a batch to the next.
    pub(super) of_batch: Scalar<i64>,
    /// A number for each row, and for each column.
    pub(super) lines: [Ptr<f32>; 2],
    /// A number for all.
    pub(super) all: Ptr<f32>,
    /// A scale for each [`BLOCK`] columns of a row.
    pub(super) scales: Ptr<f32>,
    /// Numbers from the scale of one row to the next, and from that of one block.
    pub(super) scales_apart: [Scalar<i32>; 2],
    /// The same from one product of a batch to the next.
    pub(super) scales_of_batch: Scalar<i64>,
}

/// A closure as an epilogue that stores more than the result.
#[derive(Clone, Copy)]
pub(super) struct Storing<F, P> {
    function: F,
    given: Given,
    outputs: GivenOutputs,
    of_second: std::marker::PhantomData<fn(P)>,
}

impl<F: Copy + Send + Sync + 'static, P> Storing<F, P> {
    /// That of a closure, for a call with these numbers and outputs; `None` if it captures a value.
    pub(super) fn new(function: F, given: Given, outputs: GivenOutputs) -> Option<Self> {
        let of_second = std::marker::PhantomData;
        (size_of::<F>() == 0).then_some(Storing {
            function,
            given,
            outputs,
            of_second,
        })
    }
}

impl<F, P> Storing<F, P> {
    /// Where sums of a call stand that has these numbers and outputs.
    fn of_call<O: Stored>(self, at: Place<O, OutputPtrs<P>>) -> Place<O, OutputPtrs<P>> {
        Place {
            given: Some(self.given),
            stored: Some(self.outputs),
            ..at
        }
    }
}

impl<F: Copy + Send + Sync + 'static, P: Copy + 'static> Named for Storing<F, P> {
    fn name(&self) -> String {
        format!("{}{}", self.given, self.outputs)
    }

    fn halves(&self) -> bool {
        self.given.halves
    }

    fn has_pairs(&self) -> bool {
        self.given.halves || self.outputs.have_pairs()
    }
}

impl<O, P, F> Epilogue<O> for Storing<F, P>
where
    O: Stored,
    P: Element,
    F: Fn(Tensor<f32>, Place<O, OutputPtrs<P>>) -> Tensor<f32> + Copy + Send + Sync + 'static,
{
    type Outputs = OutputPtrs<P>;

    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<O, OutputPtrs<P>>) -> Tensor<f32> {
        let results = (self.function)(sums, self.of_call(at));
        check_results([results, sums], self.given.halves);
        results
    }

    fn columns(&self) -> usize {
        AUTHOR_COLUMNS
    }

    fn has_source(&self) -> bool {
        self.given.source
    }

    fn finishing(&self) -> Finishing {
        match self.outputs {
            // Stores take as long as loads.
            GivenOutputs {
                second: Some(_), ..
            } => Finishing::Source,
            outputs if outputs.are_reduced() => Finishing::Reduce.max(self.given.finishing()),
            _ => self.given.finishing(),
        }
    }

    fn has_scales(&self) -> bool {
        self.outputs.scales
    }

    #[track_caller]
    fn store_scale(self, magnitudes: Tensor<f32>, at: Place<O, OutputPtrs<P>>) -> Tensor<f32> {
        let scale = scale_of::<O>(magnitudes);
        self.of_call(at).store_scale(scale);
        scale
    }
}

/// How elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum. It is added atomically, tile by tile in any order, so that its last bits differ from run to run.
    Sum,
    /// The largest, of elements that are not NaN.
    Max,
}

impl Reduction {
    /// What changes nothing.
    fn neutral(self) -> f32 {
        match self {
            Reduction::Sum => 0.0,
            Reduction::Max => f32::NEG_INFINITY,
        }
    }

    /// Along one dimension, or of all.
    #[track_caller]
    fn of(self, x: Tensor<f32>, along: Option<usize>) -> Tensor<f32> {
        match (self, along) {
            (Reduction::Sum, Some(axis)) => x.sum(axis),
            (Reduction::Sum, None) => x.sum(..),
            (Reduction::Max, Some(axis)) => x.max(axis),
            (Reduction::Max, None) => x.max(..),
        }
    }

    /// Combines a tensor with what is there.
    #[track_caller]
    fn store_into(self, at: Access<Pointers<f32>>, x: Tensor<f32>) {
        let _ = match self {
            Reduction::Sum => at.relaxed().atomic_add(x),
            Reduction::Max => at.relaxed().atomic_max(x),
        };
    }
}

impl<O: Stored, P: Element> Place<O, OutputPtrs<P>> {
    /// Which dimension of sums goes along a row of the result.
    fn along_rows(self) -> usize {
        usize::from(self.row.shape()[1] == 1)
    }

    #[device]
    fn inside(self) -> Tensor<bool> {
        (self.row < self.size[0]) & (self.column < self.size[1])
    }

    /// Stores elements of the second matrix, rounded to its type.
    #[device]
    pub fn store(self, x: Tensor<f32>) {
        let second = self.stored.and_then(|outputs| outputs.second);
        if self.measures {
            return;
        }
        static_assert!(
            second.is_some_and(|second| !second.of_pairs),
            "the epilogue stores a second matrix, which `outputs.second` is not"
        );
        let unit = second.map_or(1, |second| second.unit);
        let at = self.row * self.pitch(unit) + self.column;
        let columns = self.size[1].multiple_of([unit]);
        let inside = (self.row < self.size[0]) & (self.column < columns);
        self.second(unit).at(at).mask(inside).store(x.cast::<P>());
    }

    /// Stores elements of the second matrix, one for each pair of columns, rounded to its type.
    #[device]
    pub fn store_pairs(self, x: Tensor<f32>) {
        self.assert_pairs();
        if self.measures {
            return;
        }
        let at = self.row * self.pitch(1) + self.column / 2;
        let (at, _) = by_pairs(at);
        let (inside, _) = by_pairs(self.inside());
        self.second(1).at(at).mask(inside).store(x.cast::<P>());
    }

    #[track_caller]
    fn assert_pairs(self) {
        let second = self.stored.and_then(|outputs| outputs.second);
        static_assert!(
            second.is_some_and(|second| second.of_pairs),
            "the epilogue stores a number for each pair of columns, which `outputs.second` does not have"
        );
    }

    /// Reduces the elements of each row, or of each column, into its number: the sum is added to it, or it becomes the largest.
    #[device]
    pub fn reduce(self, axis: Axis, reduction: Reduction, x: Tensor<f32>) {
        static_assert!(
            self.stored
                .is_some_and(|outputs| outputs.lines[axis as usize]),
            "the epilogue reduces `Axis::{axis:?}`, for which `outputs` have no numbers"
        );
        if self.measures {
            return;
        }
        let (along, at, end) = match axis {
            Axis::Rows => (self.along_rows(), self.row, self.size[0]),
            Axis::Columns => (1 - self.along_rows(), self.column, self.size[1]),
        };
        let x = select(self.inside(), x, reduction.neutral());
        let reduced = reduction.of(x, Some(along)).expand_dims(along);
        let numbers = self.data.outputs.lines[axis as usize];
        let of_product = numbers + self.batch.cast::<i64>() * end.cast::<i64>();
        reduction.store_into(of_product.at(at).mask(at < end), reduced);
    }

    /// Reduces all elements into one number.
    #[device]
    pub fn reduce_all(self, reduction: Reduction, x: Tensor<f32>) {
        static_assert!(
            self.stored.is_some_and(|outputs| outputs.all),
            "the epilogue reduces all elements, for which `outputs` have no number"
        );
        if self.measures {
            return;
        }
        let x = select(self.inside(), x, reduction.neutral());
        let reduced = reduction.of(x, None).scalar();
        let number = self.data.outputs.all.at(0).relaxed();
        match reduction {
            Reduction::Sum => number.atomic_add(reduced),
            Reduction::Max => number.atomic_max(reduced),
        };
    }

    /// Stores the scales of a block of columns, one for each row.
    #[device]
    fn store_scale(self, scale: Tensor<f32>) {
        let outputs = self.data.outputs;
        let [of_row, of_block] = outputs.scales_apart;
        let first = self.column.min(1).expand_dims(1);
        let block = first / (BLOCK * self.columns_of_result()) as i32;
        let scales = outputs.scales + self.batch.cast::<i64>() * outputs.scales_of_batch;
        let place = scales.at(self.row * of_row + block * of_block);
        let inside = (self.row < self.size[0]) & (first < self.size[1]);
        // Threads that hold results of pairs have their rows in another order of registers.
        let scale = scale.convert_layout(self.row.layout());
        place.mask(inside).store(scale);
    }

    /// Columns of the product that a result is of.
    fn columns_of_result(self) -> usize {
        1 + usize::from(self.given.is_some_and(|given| given.halves))
    }

    #[track_caller]
    fn pitch(self, unit: usize) -> Scalar<i32> {
        self.data.outputs.pitch.multiple_of([unit])
    }

    /// The second matrix of this product of a batch.
    #[track_caller]
    fn second(self, unit: usize) -> Ptr<P> {
        let outputs = self.data.outputs;
        let second = outputs.second + self.batch.cast::<i64>() * outputs.of_batch;
        second.multiple_of([unit])
    }
}
