//! The errors of elements, counted piece by piece and judged as a whole.

use super::verdict::{Agreement, Mismatch, WrongElement};
use crate::case::shape::Shape;
use crate::case::tolerance::Tolerance;
use crate::element::DeviceElement;
use crate::number::Number;

/// How many of the first wrong elements are kept.
const EXAMPLES: usize = 4;

/// The errors of the elements compared so far.
#[derive(Default)]
#[doc(hidden)]
pub struct Tally {
    elements: usize,
    wrong: usize,
    different: usize,
    untouched: usize,
    difference_squared: f64,
    want_squared: f64,
    first: Vec<Seen>,
    worst: Option<Seen>,
}

/// An element that differs, and by how much.
#[derive(Clone)]
struct Seen {
    offset: usize,
    error: f64,
    got: String,
    want: Number,
    untouched: bool,
}

impl Tally {
    /// That of a piece of a result, which starts at place `start`.
    pub(crate) fn of<T: DeviceElement>(
        start: usize,
        got: &[T],
        want: &[Number],
        tolerance: Tolerance,
    ) -> Tally {
        let mut tally = Tally::default();
        for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
            tally.add(start + at, got, want, tolerance);
        }
        tally
    }

    fn add<T: DeviceElement>(&mut self, offset: usize, got: T, want: Number, tolerance: Tolerance) {
        self.elements += 1;
        let rounded = T::nearest(want);
        let ulps = ulps_between(got, rounded);
        let proven = T::POISON_IS_PROOF && got.is_poison();
        let (got_value, want_value) = (got.number().to_f64(), want.to_f64());
        // A fraction is no value of an integer type, yet it has a distance to one.
        let between = rounded.is_none() && want_value.is_finite() && !tolerance.counts_values();
        let (error, wrong) = if proven || (ulps == u128::MAX && !between) {
            // Also values that have no distance: NaN against a number, one infinity against another.
            (f64::INFINITY, true)
        } else if ulps == 0 && !(got_value - want_value).is_finite() {
            (0.0, false)
        } else {
            tolerance.judge(got_value, want_value, ulps)
        };
        if want_value.is_finite() {
            self.want_squared += want_value * want_value;
            self.difference_squared += if wrong && error.is_infinite() {
                f64::INFINITY
            } else {
                (got_value - want_value).powi(2)
            };
        }
        if !wrong && ulps == 0 {
            return;
        }
        let untouched = got.is_poison() && (proven || wrong);
        self.different += 1;
        self.wrong += usize::from(wrong);
        self.untouched += usize::from(untouched);
        self.note(offset, error, wrong, || Seen {
            offset,
            error,
            got: got.to_string(),
            want,
            untouched,
        });
    }

    /// Text is made only for the few elements that are kept.
    fn note(&mut self, offset: usize, error: f64, wrong: bool, seen: impl FnOnce() -> Seen) {
        let worst = self.worst.as_ref().is_none_or(|worst| error > worst.error);
        let first = wrong && self.first.len() < EXAMPLES;
        if !worst && !first {
            return;
        }
        debug_assert!(self.first.last().is_none_or(|last| last.offset < offset));
        let seen = seen();
        if first {
            self.first.push(seen.clone());
        }
        if worst {
            self.worst = Some(seen);
        }
    }

    pub(super) fn join(mut self, later: Tally) -> Tally {
        self.elements += later.elements;
        self.wrong += later.wrong;
        self.different += later.different;
        self.untouched += later.untouched;
        self.difference_squared += later.difference_squared;
        self.want_squared += later.want_squared;
        self.first.extend(later.first);
        self.first.truncate(EXAMPLES);
        let error = |seen: &Option<Seen>| seen.as_ref().map_or(-1.0, |seen| seen.error);
        if error(&later.worst) > error(&self.worst) {
            self.worst = later.worst;
        }
        self
    }

    pub(super) fn verdict(
        self,
        output: &str,
        shape: &Shape,
        tolerance: Tolerance,
    ) -> Result<Agreement, Box<Mismatch>> {
        let (error, fails) = match tolerance {
            Tolerance::Frobenius(limit) => {
                let norm = relative_norm(self.difference_squared, self.want_squared);
                // A norm that is not a number is too large as well.
                (norm, self.wrong > 0 || norm.is_nan() || norm > limit)
            }
            _ => (
                self.worst.as_ref().map_or(0.0, |worst| worst.error),
                self.wrong > 0,
            ),
        };
        if !fails {
            let output = output.to_string();
            return Ok(Agreement {
                output,
                elements: self.elements,
                tolerance,
                error,
            });
        }
        let worst = self
            .worst
            .filter(|worst| self.first.iter().all(|seen| seen.offset != worst.offset));
        let examples = self
            .first
            .into_iter()
            .chain(worst)
            .map(|seen| seen.example(shape))
            .collect();
        let judged_as_whole = matches!(tolerance, Tolerance::Frobenius(_));
        Err(Box::new(Mismatch {
            output: output.to_string(),
            shape: shape.extents().to_vec(),
            tolerance,
            error,
            wrong: if judged_as_whole {
                self.different
            } else {
                self.wrong
            },
            untouched: self.untouched,
            examples,
        }))
    }
}

impl Seen {
    fn example(self, shape: &Shape) -> WrongElement {
        let want = match self.want {
            Number::Float(value) => value.to_string(),
            Number::Int(value) => value.to_string(),
        };
        WrongElement {
            index: shape.index(self.offset).to_vec(),
            got: self.got,
            want,
            untouched: self.untouched,
        }
    }
}

fn relative_norm(difference_squared: f64, want_squared: f64) -> f64 {
    if difference_squared == 0.0 {
        0.0
    } else {
        (difference_squared / want_squared).sqrt()
    }
}

/// How many values apart two elements are: 0 for the same bits and for two NaNs, the most for those that cannot be
/// compared. Zeros of different sign are one apart, because a copy must keep the sign.
fn ulps_between<T: DeviceElement>(got: T, want: Option<T>) -> u128 {
    let Some(want) = want else { return u128::MAX };
    let infinite = |element: T| element.number().to_f64().is_infinite();
    match (got.place(), want.place()) {
        (None, None) => 0,
        (Some(got_place), Some(want_place)) => {
            let apart = got_place.abs_diff(want_place);
            if apart > 0 && (infinite(got) || infinite(want)) {
                u128::MAX
            } else if apart == 0 && T::bytes_of(&[got]) != T::bytes_of(&[want]) {
                1
            } else {
                apart
            }
        }
        _ => u128::MAX,
    }
}
