//! The choice of a candidate, and work that is ready to be timed beside that of other candidates.

use std::any::Any;
use std::fmt::{self, Display};

use super::bench::BenchOptions;
use super::beside::in_order;
use super::outputs::Outputs;
use super::space::{Chosen, Space, fault_of, usual};
use super::{Case, Mode, Sizes};
use crate::error::{Error, Result};
use crate::kept::Kept;
use crate::peer::LaunchCopy;

impl Case {
    /// The candidate of `space` that this run is to use. `cargo tilekit tune` runs the case with one after the other, checks the results of each
    /// against what the case expects, and times them; any other run gets the model's best, or the first legal one if there is no model.
    ///
    /// ```
    /// # use tilekit::prelude::*;
    /// # use tilekit::case::Space;
    /// # #[kernel(warps = 4)]
    /// # fn scale<const BLOCK: usize>(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    /// #     let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    /// #     out.at(at).mask(at < n).store(x.at(at).mask(at < n).load() * 2.0);
    /// # }
    /// # fn scale_case(case: &mut Case) -> CaseResult {
    /// let n = case.size("n");
    /// let (x, out) = (case.normal::<f32>("x", [n]), case.output::<f32>("out", [n]));
    /// let block = case.tune(Space::of([256, 512, 1024]))?;
    /// tilekit::smallest_instance!(BLOCK >= block, in [256, 512, 1024] {
    ///     case.launch(scale::<BLOCK>, grid(n.div_ceil(BLOCK)), (&x, &out, n as i32))
    /// })?;
    /// case.expect(&out, |[i]: [usize; 1]| x[i] * 2.0, Exactly)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::BadSpace`] for a space without a legal candidate, with two of one name, or for a second space of one case.
    pub fn tune<C: Display>(&mut self, space: Space<C>) -> Result<C> {
        let bad = |why: String| Error::BadSpace {
            case: self.name.clone(),
            why,
        };
        if self.report.space.is_some() {
            return Err(bad(
                "it calls `tune` twice; make one space of both, with a candidate for each pair of choices".to_string(),
            ));
        }
        let candidates = space.judged();
        if let Some(why) = fault_of(&candidates) {
            return Err(bad(why));
        }
        let wanted = self.pick.or_else(|| usual(&candidates));
        let at = wanted.filter(|&at| at < candidates.len()).ok_or_else(|| {
            let count = candidates.len();
            bad(format!(
                "its space has {count} candidates now, and had more"
            ))
        })?;
        self.report.space = Some(Chosen { candidates, at });
        Ok(space.take(at))
    }

    /// The launches of the case one after the other, if it was run to have them.
    pub(super) fn ready(&mut self, kept: Vec<Kept>) -> Option<Ready> {
        if !matches!(self.mode, Mode::Ready { .. }) {
            return None;
        }
        let (launches, overlapping) = std::mem::take(&mut self.chain).into_launches()?;
        Some(Ready {
            copies: launches.iter().map(Vec::len).min()?,
            launch: in_order(launches),
            overlapping,
            _kept: (
                kept,
                std::mem::take(&mut self.inputs),
                std::mem::take(&mut self.outputs),
            ),
        })
    }

    /// How launches will be timed, if they will be.
    pub(super) fn timed(&self) -> Option<BenchOptions> {
        match &self.mode {
            // What is modelled is launched once.
            Mode::Bench(bed, _) if bed.device.is_modelling() => None,
            Mode::Bench(_, options) | Mode::Ready { options, .. } => Some(*options),
            Mode::Describe | Mode::Check(_) | Mode::Launch(_) => None,
        }
    }
}

/// What launches use, and the tensors that they point to.
type Used = (Vec<Kept>, Vec<Box<dyn Any>>, Outputs);

/// The launches of one run of a case, whose results were right.
pub(crate) struct Ready {
    pub(crate) launch: LaunchCopy<'static>,
    /// How many of them may overlap the one in front.
    pub(crate) overlapping: usize,
    /// Copies of the tensors.
    pub(crate) copies: usize,
    /// What the launches point to.
    _kept: Used,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("copies", &self.copies)
            .field("overlapping", &self.overlapping)
            .finish_non_exhaustive()
    }
}

/// Which candidate of its space a case is to use; none for the usual one.
pub(crate) type Pick = Option<usize>;

impl Sizes {
    /// These values.
    pub(crate) fn of(values: &[(String, usize)]) -> Sizes {
        Sizes(values.to_vec())
    }
}
