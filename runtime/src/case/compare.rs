//! Comparing a result with its reference, every element, on all cores.

use std::fmt;

use rayon::prelude::*;

use super::Tolerance;
use super::shape::{Odometer, Shape};
use crate::element::DeviceElement;
use crate::number::{Number, Reference};

/// A result that agrees with its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The output's name.
    pub output: String,
    /// How many elements were compared.
    pub elements: usize,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// The largest error in the tolerance's norm: ulps, absolute, relative, a share of the room, or the norm's value.
    pub error: f64,
}

/// A result that does not agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The output's name.
    pub output: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// The largest error in the tolerance's norm.
    pub error: f64,
    /// How many elements are wrong, untouched ones included; all that differ for the Frobenius norm.
    pub wrong: usize,
    /// How many were never written.
    pub untouched: usize,
    /// The first wrong ones, and the worst.
    pub examples: Vec<WrongElement>,
}

/// One element that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongElement {
    /// Where it is.
    pub index: Vec<usize>,
    /// What the kernel wrote, in the element type.
    pub got: String,
    /// What was expected.
    pub want: String,
    /// Whether it still is as it was before the launch.
    pub untouched: bool,
}

/// Elements compared by one task at a time.
const CHUNK: usize = 1 << 14;

/// How many of the first wrong elements are kept.
const EXAMPLES: usize = 4;

/// Compares `got`, of this shape, with `want([i, j, ..])`.
///
/// # Errors
/// A [`Mismatch`] with the count, the first and the worst wrong element.
///
/// # Panics
/// If `N` is not the shape's number of dimensions, or `got` not as long as the shape says.
pub fn compare<T: DeviceElement, R: Reference, const N: usize>(
    output: &str,
    shape: &Shape,
    got: &[T],
    want: impl Fn([usize; N]) -> R + Sync,
    tolerance: Tolerance,
) -> Result<Agreement, Box<Mismatch>> {
    assert_eq!(
        got.len(),
        shape.len(),
        "as many elements as the shape {shape} says"
    );
    let chunks: Vec<Tally> = got
        .par_chunks(CHUNK)
        .enumerate()
        .map(|(chunk, elements)| {
            let start = chunk * CHUNK;
            let mut odometer = Odometer::starting_at(shape, start);
            let want: Vec<Number> = elements
                .iter()
                .map(|_| want(odometer.step()).number())
                .collect();
            T::tally(start, elements, &want, tolerance)
        })
        .collect();
    // Chunks are joined in order, so that sums do not depend on the number of threads.
    let tally = chunks.into_iter().fold(Tally::default(), Tally::join);
    tally.verdict(output, shape, tolerance)
}

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
        let (error, wrong) = if proven || ulps == u128::MAX {
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

    fn join(mut self, later: Tally) -> Tally {
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

    fn verdict(
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

impl Mismatch {
    /// The same for a tensor of another shape with the same elements.
    pub(super) fn reshape(&mut self, shape: &Shape) {
        self.shape = shape.extents().to_vec();
        for example in &mut self.examples {
            example.index = shape.index(example.index[0]).to_vec();
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tolerance {
            Tolerance::Exactly => write!(f, "`{}` exact", self.output),
            tolerance => write!(
                f,
                "`{}` {tolerance} (is {})",
                self.output,
                tolerance.value(self.error)
            ),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.shape.iter().product();
        write!(
            f,
            "`{}` is wrong: wanted {}, is {}; {} of {total} elements differ too much",
            self.output,
            self.tolerance,
            self.tolerance.value(self.error),
            self.wrong
        )?;
        if self.untouched > 0 {
            write!(f, ", {} of them were never written", self.untouched)?;
        }
        for WrongElement {
            index,
            got,
            want,
            untouched,
        } in &self.examples
        {
            let index: Vec<String> = index.iter().map(usize::to_string).collect();
            let got = if *untouched { "never written" } else { got };
            write!(
                f,
                "\n  {}[{}]: {got}, wanted {want}",
                self.output,
                index.join(", ")
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    fn check<T: DeviceElement, R: Reference + Sync>(
        got: &[T],
        want: &[R],
        tolerance: Tolerance,
    ) -> Result<Agreement, Box<Mismatch>> {
        compare(
            "out",
            &Shape::from([got.len()]),
            got,
            |[i]| want[i],
            tolerance,
        )
    }

    #[test]
    fn exact_means_the_rounded_reference_bit_for_bit() {
        let want = [0.1, -0.0, f64::NAN, f64::INFINITY];
        let got = want.map(|x| x as f32);
        check(&got, &want, Tolerance::Exactly).unwrap();
        let next = f32::from_bits(got[0].to_bits() + 1);
        assert_eq!(
            check(&[next], &want[..1], Tolerance::Exactly)
                .unwrap_err()
                .wrong,
            1
        );
        assert!(
            check(&[0.0f32], &[-0.0], Tolerance::Exactly).is_err(),
            "the sign of zero counts"
        );
        assert!(
            check(&[i64::MAX], &[i64::MAX - 1], Tolerance::Exactly).is_err(),
            "beyond f64"
        );
        assert!(
            check(&[44i8], &[300], Tolerance::Exactly).is_err(),
            "a wrapped integer is not the number"
        );
    }

    #[test]
    fn each_norm_has_its_limit_on_both_sides() {
        let bf = |x: f32| bf16::from_f32(x);
        check(&[bf(1.007_812_5)], &[1.0], Tolerance::Ulps(1)).unwrap();
        check(&[bf(1.015_625)], &[1.0], Tolerance::Ulps(1)).unwrap_err();
        check(&[1.5f32], &[1.0], Tolerance::Absolute(0.5)).unwrap();
        check(&[1.6f32], &[1.0], Tolerance::Absolute(0.5)).unwrap_err();
        check(&[90.0f32, 0.0], &[100.0, 0.0], Tolerance::Relative(0.1)).unwrap();
        check(&[89.0f32], &[100.0], Tolerance::Relative(0.1)).unwrap_err();
        check(&[1e-30f32], &[0.0], Tolerance::Relative(0.1)).unwrap_err();
        let close = Tolerance::Close {
            relative: 0.1,
            absolute: 0.5,
        };
        check(&[1.59f32, 0.5], &[1.0, 0.0], close).unwrap();
        check(&[1.62f32], &[1.0], close).unwrap_err();
        // ‖(0, 0.3)‖ / ‖(4, 3)‖ = 0.06
        check(&[4.0f64, 3.3], &[4.0, 3.0], Tolerance::Frobenius(0.0601)).unwrap();
        let wrong = check(&[4.0f64, 3.3], &[4.0, 3.0], Tolerance::Frobenius(0.0599)).unwrap_err();
        assert!((wrong.error - 0.06).abs() < 1e-9);
        assert_eq!((wrong.wrong, wrong.examples[0].index[0]), (1, 1));
    }

    #[test]
    fn no_norm_lets_a_nan_or_an_infinity_pass_for_a_number() {
        let all = [
            Tolerance::Exactly,
            Tolerance::Ulps(u32::MAX),
            Tolerance::Absolute(f64::MAX),
            Tolerance::Relative(f64::MAX),
            Tolerance::Close {
                relative: f64::MAX,
                absolute: f64::MAX,
            },
            Tolerance::Frobenius(f64::MAX),
        ];
        for tolerance in all {
            for (got, want) in [
                (f32::NAN, 1.0),
                (1.0, f64::NAN),
                (f32::INFINITY, 1.0),
                (1.0, f64::INFINITY),
                (f32::INFINITY, f64::NEG_INFINITY),
                (f32::MAX, f64::INFINITY),
            ] {
                let verdict = check(&[got, 1.0], &[want, 1.0], tolerance);
                assert!(verdict.is_err(), "{got} for {want} passes as {tolerance}");
            }
            check(
                &[f32::NAN, f32::INFINITY],
                &[f64::NAN, f64::INFINITY],
                tolerance,
            )
            .unwrap();
        }
    }

    #[test]
    fn an_element_never_written_is_called_so() {
        let poison = f32::from_bits(u32::MAX);
        let wrong = check(
            &[1.0, poison, poison],
            &[1.0, 2.0, f64::NAN],
            Tolerance::Absolute(1e9),
        )
        .unwrap_err();
        assert_eq!((wrong.wrong, wrong.untouched), (2, 2));
        assert!(
            wrong
                .to_string()
                .contains("out[1]: never written, wanted 2"),
            "{wrong}"
        );
        let poison = i32::from_ne_bytes([0xa5; 4]);
        assert_eq!(
            check(&[poison], &[3], Tolerance::Exactly)
                .unwrap_err()
                .untouched,
            1
        );
        check(&[poison], &[poison], Tolerance::Exactly).unwrap();
    }

    #[test]
    fn every_element_of_a_large_tensor_is_looked_at() {
        let mut got = vec![1.0f32; 3 * CHUNK + 17];
        let ones = |[_]: [usize; 1]| 1.0f64;
        let shape = &Shape::from([got.len()]);
        assert_eq!(
            compare("out", shape, &got, ones, Tolerance::Exactly)
                .unwrap()
                .elements,
            got.len()
        );
        *got.last_mut().unwrap() = 1.5;
        got[CHUNK] = 1.25;
        let wrong = compare("out", shape, &got, ones, Tolerance::Exactly).unwrap_err();
        let places: Vec<usize> = wrong
            .examples
            .iter()
            .map(|example| example.index[0])
            .collect();
        assert_eq!((wrong.wrong, places), (2, vec![CHUNK, 3 * CHUNK + 16]));
    }

    #[test]
    fn a_reference_of_two_dimensions_gets_two_indices() {
        let got: Vec<i32> = (0..6).collect();
        let want = |[row, column]: [usize; 2]| row * 3 + column;
        compare("out", &Shape::from([2, 3]), &got, want, Tolerance::Exactly).unwrap();
        let wrong =
            compare("out", &Shape::from([3, 2]), &got, want, Tolerance::Exactly).unwrap_err();
        assert_eq!(wrong.examples[0].index, [1, 0]);
        assert!(
            wrong.to_string().contains("out[1, 0]: 2, wanted 3"),
            "{wrong}"
        );
    }
}
