//! What may be chosen of a case: a space of candidates.

use std::fmt::{self, Display};

/// Says why a candidate cannot compute what a case wants.
type Legal<C> = dyn Fn(&C) -> Result<(), String>;

/// Says how long a candidate takes, microseconds.
type Predict<C> = dyn Fn(&C) -> f64;

/// The candidates among which [`Case::tune`](super::Case::tune) chooses: instances of a kernel that the source has, values of `#[fixed]`
/// parameters, grids, splits, orders of tiles, options of the host.
///
/// A candidate is of any type with a name, its text: records and tables know it by that, so that two candidates differ in it.
/// [`Space::axes`] has every combination of some numbers.
pub struct Space<C> {
    candidates: Vec<C>,
    legal: Option<Box<Legal<C>>>,
    predict: Option<Box<Predict<C>>>,
}

impl<C: Display> Space<C> {
    /// These candidates.
    pub fn of(candidates: impl IntoIterator<Item = C>) -> Space<C> {
        Space {
            candidates: candidates.into_iter().collect(),
            legal: None,
            predict: None,
        }
    }

    /// The same, but candidates for which `legal` gives a reason are left out.
    #[must_use]
    pub fn legal(mut self, legal: impl Fn(&C) -> Result<(), String> + 'static) -> Space<C> {
        self.legal = Some(Box::new(legal));
        self
    }

    /// The same with a model: the time of a candidate, microseconds. Candidates are tried in its order, those that it says are far slower
    /// than its best not at all, and a run that does not tune takes its best.
    #[must_use]
    pub fn predict(mut self, microseconds: impl Fn(&C) -> f64 + 'static) -> Space<C> {
        self.predict = Some(Box::new(microseconds));
        self
    }

    /// Each candidate with what is known before it runs.
    pub(super) fn judged(&self) -> Vec<Candidate> {
        let judge = |candidate: &C| {
            let refused = self.legal.as_ref().and_then(|legal| legal(candidate).err());
            let predict = self.predict.as_ref().filter(|_| refused.is_none());
            Candidate {
                name: candidate.to_string(),
                refused,
                predicted_us: predict.map(|predict| predict(candidate)),
            }
        };
        self.candidates.iter().map(judge).collect()
    }

    /// The candidate at this place.
    pub(super) fn take(mut self, at: usize) -> C {
        self.candidates.swap_remove(at)
    }
}

impl Space<Point> {
    /// Every combination of a value of each axis; the last axis changes fastest.
    ///
    /// ```
    /// use tilekit::case::Space;
    /// let space = Space::axes(&[("block", &[128, 256]), ("ctas_per_sm", &[1, 2, 4])]);
    /// # let _ = space;
    /// ```
    pub fn axes(axes: &[(&'static str, &[usize])]) -> Space<Point> {
        let mut points = vec![Point(Vec::new())];
        for (name, values) in axes {
            let longer = |point: &Point| {
                let values = values.iter();
                let with = values.map(|value| [&point.0[..], &[(*name, *value)]].concat());
                with.map(Point).collect::<Vec<Point>>()
            };
            points = points.iter().flat_map(longer).collect();
        }
        Space::of(points)
    }
}

/// A value of each axis of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point(Vec<(&'static str, usize)>);

impl Point {
    /// The value along the axis `name`.
    ///
    /// # Panics
    /// If the space has no such axis: that is a mistake in the case itself.
    #[track_caller]
    pub fn get(&self, name: &str) -> usize {
        let found = self.0.iter().find(|(axis, _)| *axis == name);
        let Some((_, value)) = found else {
            let axes: Vec<&str> = self.0.iter().map(|(axis, _)| *axis).collect();
            panic!("the space has no axis `{name}`; it has {}", axes.join(", "))
        };
        *value
    }
}

impl Display for Point {
    /// Such as `block=128 ctas_per_sm=2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (axis, value)) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{axis}={value}")?;
        }
        Ok(())
    }
}

/// A candidate before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its text.
    pub name: String,
    /// Why it cannot be chosen.
    pub refused: Option<String>,
    /// What the case's model says, if it has one and the candidate is legal.
    pub predicted_us: Option<f64>,
}

/// The space of a run, and what was chosen of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// All candidates, as declared.
    pub candidates: Vec<Candidate>,
    /// The place of the one that ran.
    pub at: usize,
}

/// The one that runs where nothing is tuned: the model's best, or the first legal one.
pub(super) fn usual(candidates: &[Candidate]) -> Option<usize> {
    let legal = (0..candidates.len()).filter(|&at| candidates[at].refused.is_none());
    let time = |at: &usize| candidates[*at].predicted_us.unwrap_or(0.0);
    legal.min_by(|a, b| time(a).total_cmp(&time(b)))
}

/// What is wrong with the space itself.
pub(super) fn fault_of(candidates: &[Candidate]) -> Option<String> {
    let mut names: Vec<&str> = candidates.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    let pairs = names.iter().zip(names.iter().skip(1));
    if let Some((name, _)) = pairs.into_iter().find(|(one, next)| one == next) {
        return Some(format!(
            "two candidates of its space are called `{name}`; records tell them apart by their names, which are their texts (`Display`)"
        ));
    }
    let is_no_time =
        |one: &&Candidate| matches!(one.predicted_us, Some(us) if !us.is_finite() || us < 0.0);
    if let Some(one) = candidates.iter().find(is_no_time) {
        let us = one.predicted_us.unwrap_or_default();
        return Some(format!(
            "the model predicts {us} us for the candidate `{}`; expected a time of 0 or more",
            one.name
        ));
    }
    if candidates.is_empty() {
        return Some(
            "its space has no candidates; give `Space::of(..)` or `Space::axes(..)` one or more"
                .to_string(),
        );
    }
    if let Some(reason) = candidates.first().and_then(|first| first.refused.as_ref())
        && candidates.iter().all(|one| one.refused.is_some())
    {
        let count = candidates.len();
        return Some(format!(
            "none of the {count} candidates of its space is legal; of the first: {reason}"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_make_every_combination_the_last_fastest() {
        let space = Space::axes(&[("a", &[1, 2]), ("b", &[3, 4, 5])]);
        let names: Vec<String> = space.judged().into_iter().map(|one| one.name).collect();
        assert_eq!(
            names,
            [
                "a=1 b=3", "a=1 b=4", "a=1 b=5", "a=2 b=3", "a=2 b=4", "a=2 b=5"
            ]
        );
        assert_eq!(space.take(4).get("b"), 4);
        assert_eq!(Space::axes(&[("a", &[])]).judged().len(), 0);
    }

    #[test]
    fn the_usual_candidate_is_the_models_best_of_the_legal_ones() {
        let space = || {
            Space::of([8, 4, 2, 1]).legal(|n| {
                (*n > 1)
                    .then_some(())
                    .ok_or_else(|| "too small".to_string())
            })
        };
        assert_eq!(usual(&space().judged()), Some(0));
        let judged = space().predict(|n| f64::from(*n)).judged();
        assert_eq!(usual(&judged), Some(2));
        assert_eq!(judged[3].refused.as_deref(), Some("too small"));
        assert_eq!(judged[3].predicted_us, None);
    }

    #[track_caller]
    fn check(space: &Space<i32>, expected: &str) {
        let fault = fault_of(&space.judged()).unwrap_or_default();
        assert!(fault.contains(expected), "{fault}");
        assert_eq!(fault.is_empty(), expected.is_empty(), "{fault}");
    }

    #[test]
    fn faults_of_a_space_are_named() {
        check(&Space::of([1, 2]), "");
        check(
            &Space::of([1, 2, 1]),
            "two candidates of its space are called `1`",
        );
        check(&Space::of([]), "no candidates");
        check(
            &Space::of([1]).predict(|_| f64::NAN),
            "predicts NaN us for the candidate `1`",
        );
        check(
            &Space::of([1, 2]).legal(|_| Err("not here".into())),
            "none of the 2 candidates of its space is legal; of the first: not here",
        );
    }
}
