//! The online softmax.

use tilekit::prelude::*;

/// The state of the online softmax of each row: P is 2 to the power of each score minus `max`. A thread sums its own elements of a
/// row; the sums of the four threads that share a row are added at the end.
#[derive(Clone, Copy, Aggregate)]
pub(in crate::attention) struct Softmax {
    log2_scale: Scalar<f32>,
    max: Tensor<f32>,
    sum: Tensor<f32>,
    keys: usize,
    /// P is larger by 2 to this power.
    shift: f32,
    /// Whether a quarter of the exponentials takes the FMA pipes.
    shares_fma: bool,
}

/// How P is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Powers {
    /// P is larger by 2^4, for it is rounded to e4m3.
    pub(super) is_shifted: bool,
    pub(super) exponentials: Exponentials,
}

/// The units that compute exponentials behind the first block of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::attention) enum Exponentials {
    /// The special function units, all of them.
    Special,
    /// The FMA pipes, a quarter: where P is rounded to e4m3, and no row is without keys, for masked P are 2^-125 there, in place of 0.
    QuarterOnFma,
}

/// The exponent of 2 by which scores may exceed the maximum that is subtracted from them: 2^8 of a row of ones stays exact in the f32
/// sums, and far from the largest number of f16.
const GROWTH: f32 = 8.0;

/// The maximum of a row that has seen no key yet: finite, and still so when multiplied by any scale of scores.
pub(in crate::attention) const LEAST: f32 = -1e30;

/// The power of 2 by which P is larger that is rounded to e4m3, so that small P keep their bits, and [`GROWTH`] of it: P is at most 256 then,
/// and the largest number is 448.
const SHIFT: f32 = 4.0;
const SHIFTED_GROWTH: f32 = 4.0;

/// The power of 2 that P of `T` may reach where a row keeps a maximum that is below its scores: the largest of f16 is below 2^16. bf16 and the
/// f32 sums have 2^127; what is left is for many keys and large values.
fn room<T: Element>() -> f32 {
    if T::DTYPE == f16::DTYPE {
        15.0
    } else if T::DTYPE == E4m3::DTYPE {
        SHIFTED_GROWTH
    } else {
        64.0
    }
}

/// The maxima of each row of `[rows, keys]` over columns that are a multiple of eight apart, `[rows, 8]`: four threads share a row, and each has two of these.
#[device]
fn maxima_of_threads<T: Numeric>(scores: Tensor<T>, keys: usize) -> Tensor<T> {
    const COLUMNS: usize = 8;
    let of = |column: usize| scores.slice(1, column..column + COLUMNS);
    let mut maxima = of(0);
    for column in (COLUMNS..keys).step_by(COLUMNS) {
        maxima = maximum(maxima, of(column));
    }
    maxima
}

/// [`maxima_of_threads`] of the bits of scores as signed integers: the largest float where one is not negative, else the least or one of minus
/// infinity. Of integers one instruction takes the maximum of three (VIMNMX3, which ptxas makes of two `max` in a row), of floats of two.
#[device]
fn maxima_of_bits(scores: Tensor<f32>, keys: usize) -> Tensor<i32> {
    maxima_of_threads(scores.bitcast::<i32>(), keys)
}

/// What is added to scores so that the maximum becomes 0, or `shift`.
#[device]
fn offset(max: Tensor<f32>, log2_scale: Scalar<f32>, shift: f32) -> Tensor<f32> {
    let least = -(max * log2_scale).expand_dims(1);
    if shift == 0.0 { least } else { least + shift }
}

/// The degree of the polynomial by which P is computed that is rounded to e4m3: its relative error is 2^-9.2, and e4m3 rounds by 2^-4.
const DEGREE_OF_E4M3: usize = 2;

/// 2 to the power of each element, a quarter of them on the FMA pipes by a polynomial, where what is below 2^-125 becomes that. The
/// four quarters of a group of columns are neighbours, so that ptxas interleaves them.
pub(in crate::attention) fn exp2_by_quarters<const DEGREE: usize>(x: Tensor<f32>) -> Tensor<f32> {
    let of_group = |group: Tensor<f32>| {
        let [a, b, c, d] = group.chunks::<4>(1);
        cat([a.exp2(), b.exp2(), c.exp2(), d.exp2_fma::<DEGREE>()], 1)
    };
    cat(x.chunks::<4>(1).map(of_group), 1)
}

/// The sum of each thread's elements of a row, as `[4, rows]`: the columns of a row are groups of eight, and four threads have two
/// columns of each.
#[device]
fn sum_of_threads(powers: Tensor<f32>, rows: usize, keys: usize) -> Tensor<f32> {
    let columns = powers.permute([1, 0]).reshape([keys / 8, 4, 2, rows]);
    columns.sum(2).sum(0)
}

impl Softmax {
    /// The state after the first scores, `[rows, keys]`, and their P. A row whose first block is masked entirely has the maximum `least`,
    /// which is finite, so that no NaN arises.
    #[device]
    pub(super) fn first(
        scores: Tensor<f32>,
        log2_scale: Scalar<f32>,
        least: f32,
        [rows, keys]: [usize; 2],
        how: Powers,
    ) -> (Self, Tensor<f32>) {
        let shift = if how.is_shifted { SHIFT } else { 0.0 };
        let max = maximum(scores.max(1), least);
        let least = offset(max, log2_scale, shift);
        let powers = fma(scores, log2_scale, least).exp2();
        let sum = sum_of_threads(powers, rows, keys);
        let softmax = Softmax {
            log2_scale,
            max,
            sum,
            keys,
            shift,
            shares_fma: how.exponentials == Exponentials::QuarterOnFma,
        };
        (softmax, powers)
    }

    /// The state before the first scores, of which `zeros` has the shape and layout.
    #[device]
    pub(in crate::attention) fn none(
        zeros: Tensor<f32>,
        log2_scale: Scalar<f32>,
        [rows, keys]: [usize; 2],
    ) -> Self {
        Softmax {
            log2_scale,
            max: full([rows], LEAST, Slice::new(1, zeros.layout())),
            sum: sum_of_threads(zeros, rows, keys),
            keys,
            shift: 0.0,
            shares_fma: false,
        }
    }

    /// The same state in front of wider scores, `[rows, keys]`, which `powers` has the shape and layout of.
    #[device]
    pub(super) fn widened(self, powers: Tensor<f32>, [rows, keys]: [usize; 2]) -> Self {
        let of_rows = Slice::new(1, powers.layout());
        let of_sums = sum_of_threads(powers, rows, keys).layout();
        Softmax {
            max: self.max.convert_layout_trivial(of_rows),
            sum: self.sum.convert_layout_trivial(of_sums),
            keys,
            ..self
        }
    }

    /// The maximum of each row.
    pub(in crate::attention) fn maxima(self) -> Tensor<f32> {
        self.max
    }

    /// Goes on from maxima that are not below these; returns the factor that rescales the accumulator so far.
    #[device]
    pub(in crate::attention) fn follow(&mut self, max: Tensor<f32>, rows: usize) -> Tensor<f32> {
        let scale = ((self.max - max) * self.log2_scale).exp2();
        self.max = max;
        self.sum *= self.spread(scale, rows);
        scale
    }

    /// A factor of each row, for the sums of threads.
    #[device]
    fn spread(self, scale: Tensor<f32>, rows: usize) -> Tensor<f32> {
        let of_sums = self.sum.layout();
        scale.reshape([1, rows]).convert_layout_trivial(of_sums)
    }

    /// Updates the maxima with further scores; returns the factor that rescales the accumulator so far. If `is_lazy`, the factor is
    /// 1 while the maximum has grown by less than [`GROWTH`]: P is then at most 2 to that power, and the division at the end
    /// cancels it.
    #[device]
    pub(in crate::attention) fn grow(&mut self, scores: Tensor<f32>, is_lazy: bool) -> Tensor<f32> {
        self.grow_to(scores.max(1), is_lazy)
    }

    /// Whether no row of the warpgroup has a maximum so low that P would leave its [`room`] if the row kept it while its scores stay negative.
    /// Maxima grow only: what is high stays so.
    #[device]
    pub(super) fn is_high<T: Element>(self) -> Scalar<bool> {
        let is_low = self.max * self.log2_scale < -room::<T>();
        is_low.cast::<i32>().max(0).scalar() == 0
    }

    /// [`grow`](Softmax::grow) by maxima of bits where `is_high`: a row whose scores are all negative keeps its maximum then, which cancels at
    /// the end.
    #[device]
    pub(super) fn grow_where(
        &mut self,
        is_high: Option<Scalar<bool>>,
        scores: Tensor<f32>,
    ) -> Tensor<f32> {
        let keys = self.keys;
        let maxima = match is_high {
            None => scores.max(1),
            Some(is_high) => {
                if is_high {
                    maxima_of_bits(scores, keys).max(1).bitcast::<f32>()
                } else {
                    scores.max(1)
                }
            }
        };
        self.grow_to(maxima, false)
    }

    /// The maxima of threads of further scores, by bits where [`grow_where`](Softmax::grow_where) takes those.
    #[device]
    pub(super) fn of_threads(
        self,
        is_high: Option<Scalar<bool>>,
        scores: Tensor<f32>,
    ) -> Tensor<f32> {
        let keys = self.keys;
        match is_high {
            None => maxima_of_threads(scores, keys),
            Some(is_high) => {
                if is_high {
                    maxima_of_bits(scores, keys).bitcast::<f32>()
                } else {
                    maxima_of_threads(scores, keys)
                }
            }
        }
    }

    /// Whether a warp has rows that grow lazily with these maxima of threads: [`grown`](Softmax::grown) changes no other row.
    #[device]
    pub(super) fn grows(self, of_threads: Tensor<f32>) -> Scalar<bool> {
        (of_threads > self.limit().expand_dims(1)).any_in_warp()
    }

    /// What a score exceeds by which the maximum of its row grows lazily.
    #[device]
    fn limit(self) -> Tensor<f32> {
        self.max + self.most() / self.log2_scale
    }

    /// The exponent of 2 by which scores may exceed the maximum that is subtracted from them.
    fn most(self) -> f32 {
        if self.shift == 0.0 {
            GROWTH
        } else {
            SHIFTED_GROWTH
        }
    }

    /// This grown lazily by maxima of threads, its sums rescaled, and the factor that rescales the accumulator.
    #[device]
    pub(super) fn grown(self, of_threads: Tensor<f32>, rows: usize) -> (Self, Tensor<f32>) {
        let max = of_threads.max(1);
        let mut next = self;
        let scale = next.follow(select(max > self.limit(), max, self.max), rows);
        (next, scale)
    }

    /// [`grow`](Softmax::grow) by the maxima of further scores.
    #[device]
    fn grow_to(&mut self, maxima: Tensor<f32>, is_lazy: bool) -> Tensor<f32> {
        let mut max = maximum(self.max, maxima);
        if is_lazy {
            let growth = (max - self.max) * self.log2_scale;
            max = select(growth > self.most(), max, self.max);
        }
        let scale = ((self.max - max) * self.log2_scale).exp2();
        self.max = max;
        scale
    }

    /// P of the scores that were given to [`Softmax::grow`], with the factor that it returned.
    #[device]
    pub(in crate::attention) fn add(
        &mut self,
        scores: Tensor<f32>,
        scale: Tensor<f32>,
        rows: usize,
    ) -> Tensor<f32> {
        let (powers, sum) = self.powers(scores, rows);
        self.sum = self.sum * self.spread(scale, rows) + sum;
        powers
    }

    /// P of scores with whose maxima this has [grown](Softmax::grown), or has not.
    #[device]
    pub(super) fn add_grown(&mut self, scores: Tensor<f32>, rows: usize) -> Tensor<f32> {
        let (powers, sum) = self.powers(scores, rows);
        self.sum += sum;
        powers
    }

    /// P of scores, and the sums of threads.
    #[device]
    fn powers(self, scores: Tensor<f32>, rows: usize) -> (Tensor<f32>, Tensor<f32>) {
        let least = offset(self.max, self.log2_scale, self.shift);
        let exponents = fma(scores, self.log2_scale, least);
        let powers = if self.shares_fma {
            exp2_by_quarters::<DEGREE_OF_E4M3>(exponents)
        } else {
            exponents.exp2()
        };
        (powers, sum_of_threads(powers, rows, self.keys))
    }

    /// The sum of each row, and the logarithm of the sum of the exponentials of its scores (LSE).
    #[device]
    pub(in crate::attention) fn finish(self) -> (Tensor<f32>, Tensor<f32>) {
        let total = self.total();
        let mut log2_sum = self.max * self.log2_scale + total.log2_approx();
        if self.shift != 0.0 {
            log2_sum -= self.shift;
        }
        (total, log2_sum * std::f32::consts::LN_2)
    }

    /// The factor that normalizes each row of P · V, and LSE. A row without keys has a factor of 0 and an LSE of -inf. The sum has an
    /// additional term, e to the power of `sink` (-inf for none), that has no value.
    #[device]
    pub(in crate::attention) fn finish_with_sink(
        self,
        sink: Tensor<f32>,
    ) -> (Tensor<f32>, Tensor<f32>) {
        self.normalize(self.total(), sink)
    }

    /// The sum of each row.
    #[device]
    pub(in crate::attention) fn total(self) -> Tensor<f32> {
        let total = self.sum.sum(0);
        total.convert_layout_trivial(self.max.layout())
    }

    /// [`finish_with_sink`](Softmax::finish_with_sink) of rows with these sums.
    #[device]
    pub(in crate::attention) fn normalize(
        self,
        total: Tensor<f32>,
        sink: Tensor<f32>,
    ) -> (Tensor<f32>, Tensor<f32>) {
        let (max, sink) = (self.max * self.log2_scale, sink * LOG2_E as f32);
        let high = maximum(max, sink);
        let scale = (max - high).exp2();
        let total = total * scale + (sink - high).exp2();
        // That of a row with NaN is NaN, and so is what is made of it.
        let has_keys = total != 0.0;
        let lse = (high + total.log2_approx()) * std::f32::consts::LN_2;
        (
            select(has_keys, scale / total, 0.0),
            select(has_keys, lse, f32::NEG_INFINITY),
        )
    }
}
