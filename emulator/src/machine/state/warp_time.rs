//! Where a warp is in modelled time.

/// The times of a warp, in cycles from the beginning of its CTA.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarpTime {
    /// When it issues its next instruction.
    pub(crate) now: u64,
    /// When it issued the last one.
    pub(crate) issued: u64,
    /// Its turn ends when it is later than this, so that units serve warps in order of time; 0 where time is not modelled.
    pub(crate) turn: u64,
    /// When each register can be read.
    ready: Vec<u64>,
    /// Groups of bulk stores: lane, number, when shared memory has been read, when global memory has been written.
    pub(crate) stores: Vec<(u32, u64, u64, u64)>,
    /// When the `cp.async` of each committed group are complete; the open group last.
    pub(crate) copies: Vec<u64>,
}

impl WarpTime {
    /// Is no other warp behind it by more than a turn?
    pub(crate) fn is_in_turn(&self) -> bool {
        self.turn == 0 || self.now <= self.turn
    }

    /// It goes on no earlier.
    pub(crate) fn wait_until(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Waits for the groups of bulk stores of a lane below a number.
    pub(crate) fn wait_for_stores(&mut self, lane: u32, below: u64, only_read: bool) {
        let due = self.stores.iter().filter(|s| s.0 == lane && s.1 < below);
        let until = due.map(|s| if only_read { s.2 } else { s.3 }).max();
        self.wait_until(until.unwrap_or(0));
        if !only_read {
            self.stores.retain(|s| s.0 != lane || s.1 >= below);
        }
    }

    /// Waits for `cp.async`, but for the last `open` groups.
    pub(crate) fn wait_for_copies(&mut self, open: u32) {
        let count = self.copies.len().saturating_sub(open as usize + 1);
        let until = self.copies[..count].iter().max().copied();
        self.wait_until(until.unwrap_or(0));
    }

    /// When a register can be read.
    pub(crate) fn ready(&self, reg: u32) -> u64 {
        self.ready.get(reg as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set_ready(&mut self, reg: u32, time: u64) {
        let at = reg as usize;
        if self.ready.len() <= at {
            self.ready.resize(at + 64, 0);
        }
        self.ready[at] = time;
    }
}
