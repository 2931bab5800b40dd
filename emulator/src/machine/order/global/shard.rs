//! A run of global memory: what each granule of it remembers.

use super::access::{GlobalAccess, GlobalConflict, GlobalStamp};
use smallvec::SmallVec;

/// Bytes of memory of a shard.
pub(super) const SHARD_BYTES: usize = 1 << 16;

/// Accesses remembered of a granule besides its last weak write. Those of many warps are a sample: a race with one that is
/// forgotten is found at another granule, or by a seed that orders warps otherwise.
const MOST_OTHERS: usize = 4;

/// States below which none are thrown away.
const FEWEST_KEPT: usize = 1 << 11;

/// Number of a state; zero is that of memory without accesses.
type StateId = u32;

/// The accesses that a granule remembers.
#[derive(Clone, Debug, Default)]
struct State {
    /// The last weak write.
    write: Option<GlobalStamp>,
    /// Those since, which do not exclude each other.
    others: SmallVec<[GlobalStamp; 2]>,
}

/// A change of state that is likely to be met again: by the next access of a loop.
#[derive(Clone, Copy, Debug)]
struct Change {
    stamp: GlobalStamp,
    from: StateId,
    to: StateId,
}

/// The accesses to a run of global memory. Granules that were accessed alike share a state.
#[derive(Debug)]
pub(super) struct Shard {
    cells: Box<[StateId]>,
    granule_bits: u32,
    states: Vec<State>,
    /// States with which it is time to look which are still in use.
    limit: usize,
    recent: [Option<Change>; 2],
}

/// The changes of state of one access: what was found at one granule is likely to be found at the next.
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

    /// Makes granules smaller, for a launch with smaller accesses.
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

    /// Accesses `bytes` bytes from `offset`.
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
        // Clocks only grow: what was in order then is in order now.
        if let Some(change) = self.recent.iter().flatten().find(is_same)
            && !access.repeats
        {
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

    /// Throws away the states that no granule has, and renumbers the others.
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

/// Which access of too many is forgotten: a read, if there is one, as fewer others conflict with it. Which of them depends on
/// who accesses, so that different granules remember different ones.
fn forgotten(others: &[GlobalStamp]) -> usize {
    let newest = &others[others.len() - 1];
    let number =
        newest.from.cluster ^ newest.stamp.epoch.rotate_left(8) ^ u32::from(newest.warp) << 16;
    let start = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize;
    let turns = (0..others.len()).map(|turn| (start + turn) % others.len());
    let mut reads = turns.filter(|&index| !others[index].stamp.kind.is_write());
    reads.next().unwrap_or(start % others.len())
}
