//! A shard of global memory: the recorded accesses of each granule.

use super::access::{GlobalAccess, GlobalConflict, GlobalStamp};
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

/// A cached transition between states: the next access of a loop is likely to repeat it.
#[derive(Clone, Copy, Debug)]
struct Change {
    stamp: GlobalStamp,
    from: StateId,
    to: StateId,
}

/// The accesses to a shard of global memory. Granules with the same accesses share a state.
#[derive(Debug)]
pub(super) struct Shard {
    cells: Box<[StateId]>,
    granule_bits: u32,
    states: Vec<State>,
    /// The number of states at which unused ones are collected.
    limit: usize,
    recent: [Option<Change>; 2],
}

/// The transitions of one access: adjacent granules are likely to be in the same state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marker(Option<(StateId, StateId)>);

impl Shard {
    pub(super) fn new(granule_bits: u32) -> Self {
        Self {
            cells: vec![0; SHARD_BYTES >> granule_bits].into(),
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
            let cells = self
                .cells
                .iter()
                .flat_map(|&cell| std::iter::repeat_n(cell, parts));
            self.cells = cells.collect();
            self.granule_bits = granule_bits;
        }
    }

    /// Records an access to `bytes` bytes from `offset`.
    #[inline]
    pub(super) fn mark(
        &mut self,
        marker: &mut Marker,
        (offset, bytes): (usize, usize),
        access: &GlobalAccess<'_>,
    ) -> Result<(), GlobalConflict> {
        if self.states.len() > self.limit {
            self.drop_unused();
            *marker = Marker::default();
        }
        let first = offset >> self.granule_bits;
        let last = (offset + bytes - 1) >> self.granule_bits;
        for cell in first..=last {
            let from = self.cells[cell];
            let to = match marker.0 {
                Some((known, to)) if known == from => to,
                _ => {
                    let to = self.after(from, access)?;
                    marker.0 = Some((from, to));
                    to
                }
            };
            self.cells[cell] = to;
        }
        Ok(())
    }

    /// The state after an access, unless it races with one before.
    fn after(
        &mut self,
        from: StateId,
        access: &GlobalAccess<'_>,
    ) -> Result<StateId, GlobalConflict> {
        let is_same = |change: &&Change| change.from == from && change.stamp == access.stamp;
        // Clocks only grow: an access that was ordered before remains so.
        if let Some(change) = self.recent.iter().flatten().find(is_same) {
            return Ok(change.to);
        }
        let state = &self.states[from as usize];
        if let Some(write) = &state.write {
            access.check_write(write)?;
        }
        access.check_others(&state.others)?;
        let to = if state.others.contains(&access.stamp) {
            from
        } else {
            let next = state.with(access);
            self.states.push(next);
            self.states.len() as StateId - 1
        };
        let stamp = access.stamp;
        if !access.repeats {
            self.recent = [Some(Change { stamp, from, to }), self.recent[0]];
        }
        Ok(to)
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

impl State {
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
            others.swap_remove(forgotten(&others));
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
