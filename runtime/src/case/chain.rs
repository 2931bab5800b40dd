//! Launches of a case that are timed together: those between two comparisons.
//!
//! A kernel of several launches, such as two passes, is worth what all of them take one after the other, and launches that
//! overlap their predecessor show it only where they follow it.

use std::sync::Arc;

use super::bed::Bed;
use super::bench::{BenchOptions, Part, Reloaded, Track};
use super::beside::{Beside, Match, in_order};
use super::outputs::Outputs;
use crate::code::{Entry, PreparedLaunch};
use crate::error::Result;
use crate::stream::Stream;
use crate::toolchain::Image;

use super::bench::Timing;

/// Launches that wait for being timed, and what is timed beside them.
#[derive(Default)]
pub(super) struct Chain {
    links: Vec<Link>,
    pub(super) beside: Vec<Beside>,
}

/// One launch, with each copy of the tensors.
pub(super) struct Link {
    /// The kernel with its compile-time parameters.
    pub(super) name: String,
    pub(super) copies: Vec<PreparedLaunch>,
    /// Its machine code, where that is asked for and was assembled by ptxas.
    pub(super) image: Option<Arc<Image>>,
    /// The entry that waits for the end of the launch before, if this one does not.
    pub(super) without_overlap: Option<Arc<Entry>>,
    /// The same launch of the kernel as it is compiled to be traced, where that is timed too.
    pub(super) traced: Option<Vec<PreparedLaunch>>,
}

impl Chain {
    pub(super) fn push(&mut self, link: Link) {
        self.links.push(link);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// All launches, one after the other, and how many of them overlap the one in front; none if it is empty.
    pub(super) fn into_launches(self) -> Option<(Vec<Vec<PreparedLaunch>>, usize)> {
        let overlapping = self.links.iter().filter(|link| link.overlaps()).count();
        let launches: Vec<_> = self.links.into_iter().map(|link| link.copies).collect();
        (!launches.is_empty()).then_some((launches, overlapping))
    }

    /// Times the chain beside its peers; nothing if it is empty.
    pub(super) fn time(
        self,
        (bed, stream, options): (&Bed, &Stream, BenchOptions),
        outputs: &Outputs,
    ) -> Result<Option<Timing>> {
        // A tensor made between two launches leaves room for fewer copies.
        let Some(copies) = self.links.iter().map(|link| link.copies.len()).min() else {
            return Ok(None);
        };
        let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        let name = names.join(" + ");
        let overlapping = self.links.iter().filter(|link| link.overlaps()).count();
        let mut beside = self.beside;
        if overlapping > 0 {
            beside.push(Beside::WithoutOverlap {
                name: format!("{name}, none overlapping"),
                launch: in_order(self.links.iter().map(Link::plain).collect()),
            });
        }
        // A single launch of several would leave what the others write unwritten.
        let traced = self.links.iter().map(|link| link.traced.clone());
        if let Some(traced) = traced.collect::<Option<Vec<_>>>() {
            beside.push(Beside::WithoutOverlap {
                name: "traced".to_string(),
                launch: in_order(traced),
            });
        }
        let counted = self.links.iter().filter(|_| options.counters);
        let parts = counted.map(Link::part).collect();
        let contest = Match {
            bed,
            track: Track::One(stream),
            options,
            name,
            overlapping,
            launch: in_order(self.links.into_iter().map(|link| link.copies).collect()),
            parts,
            copies,
            beside,
            outputs,
        };
        contest.time().map(Some)
    }
}

impl Link {
    fn overlaps(&self) -> bool {
        self.without_overlap.is_some()
    }

    fn part(&self) -> Part<'static> {
        Part {
            name: self.name.clone(),
            launch: in_order(vec![self.copies.clone()]),
            code: self.image.clone().map(|image| Reloaded {
                image,
                copies: self.copies.clone(),
            }),
        }
    }

    fn plain(&self) -> Vec<PreparedLaunch> {
        let copies = self.copies.iter();
        match &self.without_overlap {
            Some(entry) => copies.map(|launch| launch.with_entry(entry)).collect(),
            None => copies.cloned().collect(),
        }
    }
}
