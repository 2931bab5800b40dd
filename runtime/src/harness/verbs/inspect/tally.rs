//! What each line of the author's costs: what is of itself, and what is of the calls that it makes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::places::{Chain, LineOf, Places};
use super::sheet::{Access, IrRow, PtxRow, SassRow};

/// A line of the author's that something was made of.
#[derive(Debug, Serialize)]
pub(super) struct LineCost {
    /// Number of its file.
    pub(super) file: usize,
    /// Its number there, from 1.
    pub(super) line: u32,
    /// What is of itself.
    pub(super) own: Tally,
    /// The same with all that it calls.
    pub(super) all: Tally,
}

/// Sums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) ir: u32,
    pub(super) ptx: u32,
    pub(super) sass: u32,
    /// Machine instructions by what they work at.
    pub(super) work: BTreeMap<&'static str, u32>,
    /// The most registers that are alive at one of them.
    pub(super) alive: u32,
    /// Bytes of global memory that a warp moves.
    pub(super) global_bytes: u32,
    pub(super) sectors: u32,
    /// Passes over the banks of shared memory, and those of them that conflicts cause.
    pub(super) wavefronts: u32,
    pub(super) conflicts: u32,
}

/// What is counted.
pub(super) struct Counted<'a> {
    pub(super) ir: &'a [IrRow],
    pub(super) ptx: &'a [PtxRow],
    pub(super) sass: &'a [SassRow],
    pub(super) accesses: &'a [Access],
}

/// The costs of each line, by file and line.
pub(super) fn lines(counted: &Counted<'_>, places: &Places) -> Vec<LineCost> {
    let mut sums = Sums {
        places,
        of: BTreeMap::new(),
    };
    for row in counted.ir {
        sums.add(row.place, |tally| tally.ir += 1);
    }
    for row in counted.ptx.iter().filter(|row| row.is_code) {
        sums.add(row.place, |tally| tally.ptx += 1);
    }
    for row in counted.sass {
        sums.add(row.place, |tally| {
            tally.sass += 1;
            *tally.work.entry(row.work).or_default() += 1;
            tally.alive = tally.alive.max(row.alive.unwrap_or(0));
        });
    }
    for access in counted.accesses {
        sums.add(access.place, |tally| {
            tally.global_bytes += access.global_bytes;
            tally.sectors += access.sectors;
            tally.wavefronts += access.wavefronts;
            tally.conflicts += access.conflicts;
        });
    }
    let cost = |((file, line), [own, all]): (LineOf, [Tally; 2])| LineCost {
        file,
        line,
        own,
        all,
    };
    sums.of.into_iter().map(cost).collect()
}

struct Sums<'p> {
    places: &'p Places,
    of: BTreeMap<LineOf, [Tally; 2]>,
}

impl Sums<'_> {
    fn add(&mut self, place: Option<usize>, add: impl Fn(&mut Tally)) {
        let Some(place) = place else { return };
        let chain: &Chain = self.places.get(place);
        for (at, line) in chain.iter().enumerate() {
            // A function that calls itself counts once.
            if chain[..at].contains(line) {
                continue;
            }
            let [own, all] = self.of.entry(*line).or_default();
            add(all);
            if at == 0 {
                add(own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_what_it_calls_and_itself_nothing() {
        let mut places = Places::default();
        let inner = places.chain(vec![(1, 5), (0, 9)]);
        let outer = places.chain(vec![(0, 9)]);
        let row = |place, alive| SassRow {
            offset: 0,
            text: String::new(),
            ptx: None,
            place: Some(place),
            alive: Some(alive),
            work: "float",
        };
        let sass = [row(inner, 7), row(inner, 9), row(outer, 3)];
        let counted = Counted {
            ir: &[],
            ptx: &[],
            sass: &sass,
            accesses: &[],
        };
        let found: Vec<_> = lines(&counted, &places)
            .iter()
            .map(|line| {
                (
                    line.file,
                    line.line,
                    [&line.own, &line.all].map(|tally| (tally.sass, tally.alive)),
                )
            })
            .collect();
        assert_eq!(found, [(0, 9, [(1, 3), (3, 9)]), (1, 5, [(2, 9), (2, 9)])]);
    }
}
