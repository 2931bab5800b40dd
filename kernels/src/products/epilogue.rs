//! Epilogues: what happens to sums before they are stored, as types and closures that are traced into the kernel.

use std::fmt;

use tilekit::library::epilogue::{gelu, relu, silu};
use tilekit::prelude::*;

use super::epilogue_kind::Finishing;
use super::factor::{Stored, UNIT_BYTES, unit};
use super::given::Given;
use super::output_handles::{GivenOutputs, NoOutputs, OutputHandles};

/// The numbers of a call that an epilogue may use, which kernels take as a parameter. Rows of the source begin where tensor maps want them, or `ANYWHERE`.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct Data<O: Stored, X = NoOutputs, const ANYWHERE: bool = false> {
    /// The factor of products.
    pub alpha: Scalar<f32>,
    /// The factor of the source.
    pub beta: Scalar<f32>,
    #[align(if ANYWHERE { size_of::<O::Addend>() } else { UNIT_BYTES })]
    pub(crate) source: Ptr<O::Addend>,
    /// Elements from one row of the source to the next.
    #[multiple_of(if ANYWHERE { 1 } else { unit::<O::Addend>() })]
    pub(crate) source_pitch: Scalar<i32>,
    /// Elements from the source of one product of a batch to the next.
    #[multiple_of(if ANYWHERE { 1 } else { unit::<O::Addend>() })]
    pub(crate) source_batch: Scalar<i64>,
    /// A number for each row or column.
    pub(crate) bias: Ptr<O::Addend>,
    /// Of A and of B.
    pub(crate) scales: [Ptr<f32>; 2],
    /// What the epilogue stores beside the result.
    pub(crate) outputs: X,
}

/// What kernels take for an epilogue of this type.
pub(crate) type DataOf<O, E, const ANYWHERE: bool = false> =
    Data<O, <E as Epilogue<O>>::Outputs, ANYWHERE>;

impl<O: Stored, X> Data<O, X, true> {
    /// The same as epilogues take it.
    pub(crate) fn of_any_rows(self) -> Data<O, X> {
        let Data {
            alpha,
            beta,
            source,
            source_pitch,
            source_batch,
            bias,
            scales,
            outputs,
        } = self;
        Data {
            alpha,
            beta,
            source,
            source_pitch,
            source_batch,
            bias,
            scales,
            outputs,
        }
    }
}

impl<O: Stored> Data<O> {
    /// Of sums without factors: what is added to them, its pitch and the step from one matrix to the next, and the bias.
    #[track_caller]
    pub(crate) fn of_sum(
        (source, source_pitch, source_batch): (Ptr<O::Addend>, Scalar<i32>, Scalar<i64>),
        bias: Ptr<O::Addend>,
    ) -> Self {
        Data {
            alpha: scalar(1.0),
            beta: scalar(1.0),
            source,
            source_pitch,
            source_batch,
            bias,
            // There are none, and no epilogue reads them.
            scales: [bias.cast::<f32>(); 2],
            outputs: NoOutputs,
        }
    }
}

/// Where sums stand in the result, and the numbers of the call. Rows and columns are tensors that broadcast against the sums.
#[derive(Clone, Copy, Aggregate)]
pub struct Place<O: Stored, X = NoOutputs> {
    /// The row of the result.
    pub row: Tensor<i32>,
    /// The column of the result.
    pub column: Tensor<i32>,
    /// Which product of a batch.
    pub batch: Scalar<i32>,
    /// Rows and columns of the result. Sums beyond them are not stored, and are of any value: an epilogue that reduces them leaves them out.
    pub size: [Scalar<i32>; 2],
    /// What the call was given.
    pub data: Data<O, X>,
    /// Which of its numbers the call has; none for the epilogues of this crate, whose fields say it.
    pub(crate) given: Option<Given>,
    /// Which of its outputs the call has.
    pub(crate) stored: Option<GivenOutputs>,
    /// The results are computed for their largest magnitude, and again to be stored: now nothing is.
    pub(crate) measures: bool,
    /// The source, if it has been loaded.
    pub(crate) loaded: Option<Tensor<O::Addend>>,
}

impl<O: Stored, X: OutputHandles> Place<O, X> {
    /// The source of the call, which has one where `beta` is not 0.
    #[device]
    pub fn source(self) -> Tensor<f32> {
        static_assert!(
            self.given.is_none_or(|given| given.source),
            "the epilogue reads a source, which a call with `options.beta` of 0 does not have"
        );
        let source = self.loaded.unwrap_or_else(|| self.load_source());
        source.cast::<f32>()
    }

    #[device]
    fn load_source(self) -> Tensor<O::Addend> {
        let data = self.data;
        let inside = (self.row < self.size[0]) & (self.column < self.size[1]);
        let source = data.source + self.batch.cast::<i64>() * data.source_batch;
        let at = self.row * data.source_pitch + self.column;
        source.at(at).mask(inside).other(O::Addend::ZERO).load()
    }

    /// The bias of the call, a number for each row or column.
    #[device]
    pub fn bias(self, axis: Axis) -> Tensor<f32> {
        static_assert!(
            self.given.is_none_or(|given| given.bias[axis as usize]),
            "the epilogue reads a bias of `Axis::{axis:?}`, which `options.bias` is not"
        );
        let (at, end) = self.along(axis);
        let bias = self.data.bias.at(at).mask(at < end);
        bias.other(O::Addend::ZERO).load().cast::<f32>()
    }

    /// The scales of A, one for each row, or those of B, one for each column.
    #[device]
    pub fn scales(self, axis: Axis) -> Tensor<f32> {
        static_assert!(
            self.given.is_none_or(|given| given.scales[axis as usize]),
            "the epilogue reads a scale for each of `Axis::{axis:?}`, which `options.{side}_scales` are not",
            side = axis.side()
        );
        let (at, end) = self.along(axis);
        let scales = self.data.scales[axis as usize];
        scales.at(at).mask(at < end).other(0.0).load()
    }

    /// The same with the source, which is loaded here.
    #[track_caller]
    pub(super) fn with_source(self) -> Self {
        let loaded = Some(self.load_source());
        Place { loaded, ..self }
    }

    /// The one scale of A or of B.
    #[device]
    pub fn scale(self, axis: Axis) -> Scalar<f32> {
        static_assert!(
            self.given.is_none_or(|given| given.scale[axis as usize]),
            "the epilogue reads one scale of `Axis::{axis:?}`, which `options.{side}_scales` are not",
            side = axis.side()
        );
        self.data.scales[axis as usize].at(0).load()
    }

    /// The elements of even columns, and those of odd ones: each pair is of one result where C has half as many columns as the product, or of one number that `store_pairs` takes.
    #[device]
    pub fn pairs(self, x: Tensor<f32>) -> [Tensor<f32>; 2] {
        let of_pairs = self.stored.is_some_and(GivenOutputs::have_pairs);
        static_assert!(
            of_pairs || self.given.is_none_or(|given| given.halves),
            "the epilogue takes columns by pairs, where c has as many as the product and `outputs.second` is not of pairs"
        );
        let (even, odd) = by_pairs(x);
        [even, odd]
    }

    fn along(self, axis: Axis) -> (Tensor<i32>, Scalar<i32>) {
        match axis {
            Axis::Rows => (self.row, self.size[0]),
            Axis::Columns => (self.column, self.size[1]),
        }
    }
}

/// Elements of even columns, and of odd ones.
#[track_caller]
pub(super) fn by_pairs<T: Element>(x: Tensor<T>) -> (Tensor<T>, Tensor<T>) {
    let shape = x.shape();
    let [rows, columns] = [shape[0], shape[1]].map(|extent| extent as usize);
    x.reshape([rows, columns / 2, 2]).split()
}

/// Which lines of a result each have a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// One for each row; of scales, those of A.
    Rows,
    /// One for each column; of scales, those of B.
    Columns,
}

impl Axis {
    fn other(self) -> Axis {
        match self {
            Axis::Rows => Axis::Columns,
            Axis::Columns => Axis::Rows,
        }
    }

    /// The operand that the scales of these lines are of.
    fn side(self) -> &'static str {
        match self {
            Axis::Rows => "a",
            Axis::Columns => "b",
        }
    }
}

/// What distinguishes epilogues of one type.
pub trait Named: Copy + Send + Sync + 'static {
    /// Differs where values of this type differ; empty where there is one value.
    fn name(&self) -> String {
        String::new()
    }

    /// Each result is of two columns of the product.
    #[doc(hidden)]
    fn halves(&self) -> bool {
        false
    }

    /// A thread has both columns of each pair.
    #[doc(hidden)]
    fn has_pairs(&self) -> bool {
        self.halves()
    }

    /// Columns of the result, of so many of the product.
    #[doc(hidden)]
    fn result_columns(&self, columns: usize) -> usize {
        if self.halves() { columns / 2 } else { columns }
    }
}

/// What happens to sums before they are rounded to `O` and stored: [`Plain`], [`Standard`], or a closure of the author's in [`Author`].
pub trait Epilogue<O: Stored>: Named {
    /// What it stores beside the results: [`NoOutputs`], or [`OutputPtrs`](super::outputs::OutputPtrs).
    type Outputs: OutputHandles;

    /// The results.
    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<O, Self::Outputs>) -> Tensor<f32>;

    /// Sums are stored as they are.
    #[doc(hidden)]
    fn is_plain(&self) -> bool {
        false
    }

    /// Columns that it finishes at a time, at most: what it computes takes registers beside the sums, and what it reduces over warps shared memory.
    #[doc(hidden)]
    fn columns(&self) -> usize {
        usize::MAX
    }

    /// What it does to sums, as it takes time.
    #[doc(hidden)]
    fn finishing(&self) -> Finishing {
        Finishing::Compute
    }

    /// It reads the source, which may be loaded ahead.
    #[doc(hidden)]
    fn has_source(&self) -> bool {
        false
    }

    /// Results are divided by a scale for each block of a row, which is stored too.
    #[doc(hidden)]
    fn has_scales(&self) -> bool {
        false
    }

    /// Stores the scales of blocks of which the largest magnitudes are these, and returns them.
    #[doc(hidden)]
    #[track_caller]
    fn store_scale(self, _magnitudes: Tensor<f32>, _at: Place<O, Self::Outputs>) -> Tensor<f32> {
        unreachable!("blocks have no scales")
    }

    /// The same for the transpose of the result, if that is known.
    #[doc(hidden)]
    fn transposed(self) -> Option<Self> {
        None
    }
}

/// Sums are stored as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plain;

impl Named for Plain {}

impl<O: Stored> Epilogue<O> for Plain {
    type Outputs = NoOutputs;

    fn finish(self, sums: Tensor<f32>, _: Place<O>) -> Tensor<f32> {
        sums
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn finishing(&self) -> Finishing {
        Finishing::Nothing
    }

    fn transposed(self) -> Option<Self> {
        Some(self)
    }
}

/// A closure makes a result of each sum, or of each pair of sums.
#[track_caller]
pub(super) fn check_results([results, sums]: [Tensor<f32>; 2], halves: bool) {
    let (found, of) = (results.shape(), sums.shape());
    let wanted = [of[0], if halves { of[1] / 2 } else { of[1] }];
    static_assert!(
        found.len() == 2 && [found[0], found[1]] == wanted,
        "the epilogue makes results of {found:?} of sums of {of:?}, where c has {}",
        if halves {
            "one for each pair of columns, as `at.pairs` gives them"
        } else {
            "as many columns as the product"
        }
    );
}

/// Columns that a closure finishes at a time: as many as leave room in registers for what it computes beside the sums, and in shared memory for what it reduces over warps.
pub(super) const AUTHOR_COLUMNS: usize = 32;

/// A closure as an epilogue. It captures nothing, so that its type says which it is.
#[derive(Clone, Copy)]
pub struct Author<F> {
    function: F,
    given: Option<Given>,
}

impl<F: Copy + Send + Sync + 'static> Author<F> {
    /// That of a closure; `None` if it captures a value.
    pub fn new(function: F) -> Option<Self> {
        let given = None;
        (size_of::<F>() == 0).then_some(Author { function, given })
    }

    /// The same for a call that has these numbers, of which it may read no others.
    pub(crate) fn of_call(self, given: Given) -> Self {
        let given = Some(given);
        Author { given, ..self }
    }
}

impl<F: Copy + Send + Sync + 'static> Named for Author<F> {
    fn name(&self) -> String {
        self.given
            .map_or_else(String::new, |given| given.to_string())
    }

    fn halves(&self) -> bool {
        self.given.is_some_and(|given| given.halves)
    }
}

impl<O: Stored, F: Fn(Tensor<f32>, Place<O>) -> Tensor<f32> + Copy + Send + Sync + 'static>
    Epilogue<O> for Author<F>
{
    type Outputs = NoOutputs;

    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<O>) -> Tensor<f32> {
        let given = self.given;
        let results = (self.function)(sums, Place { given, ..at });
        check_results([results, sums], Named::halves(&self));
        results
    }

    fn columns(&self) -> usize {
        AUTHOR_COLUMNS
    }

    fn finishing(&self) -> Finishing {
        self.given.map_or(Finishing::Compute, Given::finishing)
    }

    fn has_source(&self) -> bool {
        self.given.is_some_and(|given| given.source)
    }
}

/// The scales of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scales {
    /// None.
    #[default]
    None,
    /// One for all elements.
    One,
    /// One for each row of A or column of B.
    Each,
}

/// A function of each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The result as it is.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, by the hardware's tanh: to 2^-11 of the larger of `|x|` and 1.
    Gelu,
    /// `x / (1 + exp(-x))`.
    Silu,
}

impl Activation {
    #[track_caller]
    pub(crate) fn of(self, x: Tensor<f32>) -> Tensor<f32> {
        match self {
            Activation::None => x,
            Activation::Relu => relu(x),
            Activation::Gelu => gelu(x),
            Activation::Silu => silu(x),
        }
    }
}

/// `activation(alpha · scales of A · scales of B · sums + bias + beta · source)`, each part if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Standard {
    /// Those of A and of B.
    pub scales: [Scales; 2],
    /// A number is added for each row or column.
    pub bias: Option<Axis>,
    /// The source is added, times `beta`.
    pub has_source: bool,
    /// What happens in the end.
    pub activation: Activation,
}

impl Named for Standard {
    fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alpha")?;
        for (side, scales) in ["a", "b"].into_iter().zip(self.scales) {
            match scales {
                Scales::None => {}
                Scales::One => write!(f, "+scale_of_{side}")?,
                Scales::Each => write!(f, "+scales_of_{side}")?,
            }
        }
        match self.bias {
            None => {}
            Some(Axis::Rows) => write!(f, "+bias_of_rows")?,
            Some(Axis::Columns) => write!(f, "+bias")?,
        }
        if self.has_source {
            write!(f, "+source")?;
        }
        match self.activation {
            Activation::None => Ok(()),
            Activation::Relu => write!(f, "+relu"),
            Activation::Gelu => write!(f, "+gelu"),
            Activation::Silu => write!(f, "+silu"),
        }
    }
}

impl<O: Stored> Epilogue<O> for Standard {
    type Outputs = NoOutputs;

    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<O>) -> Tensor<f32> {
        let axes = [Axis::Rows, Axis::Columns].into_iter().zip(self.scales);
        let ones = axes.clone().filter(|(_, scales)| *scales == Scales::One);
        let factor = ones.fold(at.data.alpha, |factor, (axis, _)| factor * at.scale(axis));
        let each = axes.filter(|(_, scales)| *scales == Scales::Each);
        let mut result = each.fold(sums * factor, |sums, (axis, _)| sums * at.scales(axis));
        if let Some(axis) = self.bias {
            result += at.bias(axis);
        }
        if self.has_source {
            result += at.source() * at.data.beta;
        }
        self.activation.of(result)
    }

    fn has_source(&self) -> bool {
        self.has_source
    }

    fn finishing(&self) -> Finishing {
        let is_scaled = self.scales.contains(&Scales::Each);
        if self.has_source {
            Finishing::Source
        } else if is_scaled || self.bias.is_some() {
            Finishing::Numbers
        } else if self.activation == Activation::None {
            Finishing::Scale
        } else {
            Finishing::Compute
        }
    }

    fn transposed(self) -> Option<Self> {
        let [a, b] = self.scales;
        Some(Standard {
            scales: [b, a],
            bias: self.bias.map(Axis::other),
            ..self
        })
    }
}
