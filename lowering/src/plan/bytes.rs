//! Sets of bytes of shared memory, in this CTA and in others of its cluster.

use ir::ops::Scratch;
use smallvec::SmallVec;

/// Bytes of the shared memory of some CTA of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    /// The ranks that this CTA may have, one bit each. What this code calls its own lies in a CTA of any rank.
    ctas: u32,
    start: u32,
    end: u32,
}

impl Range {
    fn overlaps(&self, other: &Range) -> bool {
        self.ctas & other.ctas != 0 && self.start < other.end && other.start < self.end
    }
}

/// Bytes of shared memory, as ranges in order, of which those with the same ranks are disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes(SmallVec<[Range; 2]>);

impl Bytes {
    pub(super) fn of(scratch: Scratch) -> Bytes {
        Bytes::in_ctas(scratch, u32::MAX)
    }

    pub(super) fn in_ctas(scratch: Scratch, ctas: u32) -> Bytes {
        let mut bytes = Bytes::default();
        if !scratch.is_none() {
            bytes.0.push(Range {
                ctas,
                start: scratch.start,
                end: scratch.end(),
            });
        }
        bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn overlaps(&self, other: &Bytes) -> bool {
        self.0.iter().any(|a| other.0.iter().any(|b| a.overlaps(b)))
    }

    /// These bytes but for those that may be among the others.
    pub(super) fn without(&self, other: &Bytes) -> Bytes {
        let mut left = self.0.clone();
        for gone in &other.0 {
            let cut = |range: Range| {
                if !range.overlaps(gone) {
                    return [
                        range,
                        Range {
                            end: range.start,
                            ..range
                        },
                    ];
                }
                let (end, start) = (gone.start.max(range.start), gone.end.min(range.end));
                [Range { end, ..range }, Range { start, ..range }]
            };
            left = left.into_iter().flat_map(cut).collect();
            left.retain(|range| range.start < range.end);
        }
        Bytes(left)
    }

    pub(super) fn add(&mut self, other: &Bytes) {
        if other.is_empty() {
            return;
        }
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        let mut merged: SmallVec<[Range; 2]> = SmallVec::new();
        for &range in &self.0 {
            match merged.last_mut() {
                Some(last) if range.ctas == last.ctas && range.start <= last.end => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        self.0 = merged;
    }
}
