//! A shard of global memory: the recorded accesses of each granule.

use super::access::{GlobalAccess, GlobalConflict, GlobalStamp};
use crate::machine::order::stamp::{Lane, Run};
use smallvec::SmallVec;

#[cfg(test)]
mod tests;

/// Bytes of memory of a shard.
pub(super) const SHARD_BYTES: usize = 1 << 16;

/// Accesses recorded for a granule besides its last weak write. Accesses of many warps are a sample: a race with a dropped access
/// is found at another granule, or by a seed with another order of warps.
const MOST_OTHERS: usize = 4;

/// A shard with fewer states is not collected.
const FEWEST_KEPT: usize = 1 << 11;

/// Index of a state; zero is memory without accesses.
type StateId = u32;

/// The recorded accesses of a granule.
#[derive(Clone, Debug, Default)]
struct State {
    /// The last weak write.
    write: Option<GlobalStamp>,
    /// Later accesses, which do not conflict with each other.
    others: SmallVec<[GlobalStamp; 2]>,
}

/// A transition between states.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: StateId,
    to: StateId,
    place: Place,
    /// Accesses of the same warp are ordered before it in their own lanes alone.
    is_of_lane: bool,
}

/// What an access is in the state that it leads to.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The last weak write.
    Write,
    /// The last of the others, which it was not before.
    Last,
    /// The last of them, as before.
    LastAgain,
    /// Another of them, or none.
    Earlier,
}

/// The lanes of the last weak write of a granule and of the last other access.
#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    write: Lane,
    last: Lane,
}

/// The accesses to a shard of global memory. Granules with the same accesses share a state.
#[derive(Debug)]
pub(super) struct Shard {
    cells: Box<[StateId]>,
    /// Of each granule.
    lanes: Box<[Lanes]>,
    granule_bits: u32,
    states: Vec<State>,
    /// The number of states at which unused ones are collected.
    limit: usize,
    /// Cached transitions: the next access of a loop is likely to repeat one.
    recent: [Option<(GlobalStamp, Change)>; 2],
}

/// The last transition of one access: adjacent granules are likely to be in the same state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marker(Option<Change>);

impl Shard {
    pub(super) fn new(granule_bits: u32) -> Self {
        Self {
            cells: vec![0; SHARD_BYTES >> granule_bits].into(),
            lanes: vec![Lanes::default(); SHARD_BYTES >> granule_bits].into(),
            granule_bits,
            states: vec![State::default()],
            limit: FEWEST_KEPT,
            recent: [None; 2],
        }
    }

    /// Splits granules, for a launch with smaller accesses.
    pub(super) fn refine(&mut self, granule_bits: u32) {
        if granule_bits < self.granule_bits {
            let parts = 1 << (self.granule_bits - granule_bits);
            let of_each = |&cell: &StateId| std::iter::repeat_n(cell, parts);
            self.cells = self.cells.iter().flat_map(of_each).collect();
            let of_each = |&lanes: &Lanes| std::iter::repeat_n(lanes, parts);
            self.lanes = self.lanes.iter().flat_map(of_each).collect();
            self.granule_bits = granule_bits;
        }
    }

    /// Records an access to bytes of the shard.
    #[inline]
    pub(super) fn mark(
        &mut self,
        marker: &mut Marker,
        run: impl Into<Run>,
        access: &GlobalAccess<'_>,
    ) -> Result<(), GlobalConflict> {
        if self.states.len() > self.limit {
            self.drop_unused();
            *marker = Marker::default();
        }
        let run = run.into();
        let (offset, bytes) = run.range;
        let first = offset >> self.granule_bits;
        let last = (offset + bytes - 1) >> self.granule_bits;
        for cell in first..=last {
            let from = self.cells[cell];
            let change = match marker.0 {
                Some(known) if known.from == from => known,
                _ => *marker.0.insert(self.after(from, access)?),
            };
            let lane = run.lane_at((cell << self.granule_bits).saturating_sub(offset));
            let lanes = &mut self.lanes[cell];
            if change.is_of_lane {
                self.states[from as usize].check_lanes(*lanes, lane, access)?;
            }
            lanes.pass(change.place, lane);
            self.cells[cell] = change.to;
        }
        Ok(())
    }

    /// The state after an access, unless it races with one of another warp before.
    fn after(
        &mut self,
        from: StateId,
        access: &GlobalAccess<'_>,
    ) -> Result<Change, GlobalConflict> {
        let known = self
            .recent
            .iter()
            .flatten()
            .find(|(stamp, change)| change.from == from && *stamp == access.stamp);
        let state = &self.states[from as usize];
        // Clocks only grow: an access that was ordered before remains so.
        if let Some((_, change)) = known {
            return Ok(Change {
                is_of_lane: change.is_of_lane && state.is_of_lane(access),
                ..*change
            });
        }
        if let Some(write) = &state.write {
            access.check_write(write)?;
        }
        access.check_others(&state.others)?;
        let is_of_lane = state.is_of_lane(access);
        let others = &state.others;
        let known = others.iter().position(|other| *other == access.stamp);
        let (to, place) = match known {
            Some(at) if at + 1 == others.len() => (from, Place::LastAgain),
            Some(_) => (from, Place::Earlier),
            None => {
                let next = state.with(access);
                let place = next.place_of(&access.stamp);
                self.states.push(next);
                (self.states.len() as StateId - 1, place)
            }
        };
        let change = Change {
            from,
            to,
            place,
            is_of_lane,
        };
        if !access.repeats {
            self.recent = [Some((access.stamp, change)), self.recent[0]];
        }
        Ok(change)
    }

    /// Collects the states that no granule is in, and renumbers the others.
    fn drop_unused(&mut self) {
        let mut moved = vec![StateId::MAX; self.states.len()];
        moved[0] = 0;
        let mut kept = vec![State::default()];
        for cell in &mut self.cells {
            let to = &mut moved[*cell as usize];
            if *to == StateId::MAX {
                *to = kept.len() as StateId;
                kept.push(std::mem::take(&mut self.states[*cell as usize]));
            }
            *cell = *to;
        }
        self.limit = FEWEST_KEPT.max(kept.len() * 2);
        self.states = kept;
        self.recent = [None; 2];
    }
}

impl Lanes {
    fn pass(&mut self, place: Place, lane: Lane) {
        match place {
            Place::Write => {
                *self = Self {
                    write: lane,
                    last: Lane::UNKNOWN,
                }
            }
            Place::Last => self.last = lane,
            Place::LastAgain => self.last = self.last.and(lane),
            Place::Earlier => self.last = Lane::UNKNOWN,
        }
    }
}

impl State {
    /// Does it depend on lanes whether the access races with what its own warp did?
    fn is_of_lane(&self, access: &GlobalAccess<'_>) -> bool {
        let mut accesses = self.write.iter().chain(self.others.last());
        accesses.any(|earlier| access.is_of_lane(earlier))
    }

    fn check_lanes(
        &self,
        lanes: Lanes,
        now: Lane,
        access: &GlobalAccess<'_>,
    ) -> Result<(), GlobalConflict> {
        if let Some(write) = &self.write {
            access.check_lanes(write, (lanes.write, now))?;
        }
        if let Some(last) = self.others.last() {
            access.check_lanes(last, (lanes.last, now))?;
        }
        Ok(())
    }

    fn place_of(&self, new: &GlobalStamp) -> Place {
        match self.others.last() {
            None => Place::Write,
            Some(last) if last == new => Place::Last,
            Some(_) => Place::Earlier,
        }
    }

    fn with(&self, access: &GlobalAccess<'_>) -> Self {
        if access.stamp.replaces() {
            return Self {
                write: Some(access.stamp),
                others: SmallVec::new(),
            };
        }
        let kept = self.others.iter().filter(|old| !access.covers(old));
        let mut others: SmallVec<[GlobalStamp; 2]> = kept.copied().collect();
        others.push(access.stamp);
        if others.len() > MOST_OTHERS {
            others.remove(forgotten(&others));
        }
        Self {
            write: self.write,
            others,
        }
    }
}

/// Which access is dropped when there are too many: a read, if there is one, since fewer accesses conflict with it. Which read depends
/// on the new access, so that granules keep different ones.
fn forgotten(others: &[GlobalStamp]) -> usize {
    let newest = &others[others.len() - 1];
    let number =
        newest.from.cluster ^ newest.stamp.epoch.rotate_left(8) ^ u32::from(newest.warp) << 16;
    let start = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize;
    let turns = (0..others.len()).map(|turn| (start + turn) % others.len());
    let mut reads = turns.filter(|&index| !others[index].stamp.kind.is_write());
    reads.next().unwrap_or(start % others.len())
}
