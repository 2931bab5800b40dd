//! The units of an SM in the model of time: until when each is busy, and for how long it was.
//!
//! Each CTA has an SM of its own, of whose ways to memory it has the share that CTAs beside it leave, if all of them want as much.

use crate::machine::state::costs::{
    COLD_LATENCY, COPY_BYTES, COPY_LATENCY, Cost, GLOBAL_LATENCY, L1_LATENCY, L1_LINES, L1_SECTORS,
    L2_BYTES, L2_SECTORS, OPERAND_BYTES, PRODUCT_BYTES, PRODUCT_LOSS, REMOTE_ACCESS_BYTES,
    REMOTE_COPY_BYTES, REMOTE_COPY_LATENCY, REMOTE_LATENCY, REMOTE_STORE_BYTES, SHARED_LATENCY,
    STORE_LATENCY, STORE_READ_LATENCY,
};
use crate::machine::state::transactions::{SECTOR_BYTES, Wavefronts};
use crate::machine::state::warp_time::WarpTime;

/// Quarters of an SM, each of which issues the instructions of every fourth warp.
pub(crate) const QUARTERS: usize = 4;

/// Until when the units of a CTA's SM are busy, in cycles from the beginning of the CTA.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    issue: [u64; QUARTERS],
    tensor: [u64; QUARTERS],
    special: [u64; QUARTERS],
    /// Asynchronous copies into and out of shared memory.
    copies: u64,
    /// What L2 serves of them.
    l2: u64,
    /// Accesses of threads to global memory.
    accesses: u64,
    /// Accesses of threads to shared memory.
    shared: u64,
    /// What comes and goes through distributed shared memory.
    remote: u64,
    /// The sectors that L1 has, by line.
    l1: Vec<(u64, u8)>,
    share: Share,
    /// Nothing has been copied yet.
    is_cold: bool,
    /// For how long each was busy, and what was moved.
    pub(crate) work: Work,
}

/// What a CTA has of the ways to memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// CTAs that share the SM.
    pub(crate) residents: u64,
    /// SMs that share L2.
    pub(crate) sms: u64,
    /// It is among the first on its SM.
    pub(crate) is_first: bool,
}

/// Cycles in which the units of a CTA's SM were busy, and the bytes that it moved from and to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    issue: [u64; QUARTERS],
    tensor: [u64; QUARTERS],
    special: [u64; QUARTERS],
    pub(crate) copies: u64,
    pub(crate) accesses: u64,
    pub(crate) shared: u64,
    pub(crate) load_conflicts: u64,
    pub(crate) store_conflicts: u64,
    pub(crate) remote: u64,
    pub(crate) loaded_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl Work {
    /// Of the quarter that issued the most.
    pub(crate) fn issue(&self) -> u64 {
        self.issue.into_iter().max().unwrap_or(0)
    }

    /// Of the quarter with the most special functions.
    pub(crate) fn special(&self) -> u64 {
        self.special.into_iter().max().unwrap_or(0)
    }

    /// Of the quarter whose tensor core had the most to do.
    pub(crate) fn tensor(&self) -> u64 {
        self.tensor.into_iter().max().unwrap_or(0)
    }
}

/// A unit takes work of so many cycles; gives when it is done.
fn take(unit: &mut u64, now: u64, cycles: u64) -> u64 {
    *unit = now.max(*unit) + cycles;
    *unit
}

impl Units {
    /// Of a CTA with this share.
    pub(crate) fn new(share: Share) -> Units {
        Units {
            share,
            is_cold: share.is_first,
            ..Units::default()
        }
    }

    /// A warp issues an instruction; gives when.
    pub(crate) fn issue(&mut self, warp: u32, now: u64, cost: Cost) -> u64 {
        if cost.issue == 0 {
            return now;
        }
        let quarter = warp as usize % QUARTERS;
        let mut start = now.max(self.issue[quarter]);
        if cost.special > 0 {
            start = start.max(self.special[quarter]);
            self.special[quarter] = start + u64::from(cost.special);
            self.work.special[quarter] += u64::from(cost.special);
        }
        self.issue[quarter] = start + u64::from(cost.issue);
        self.work.issue[quarter] += u64::from(cost.issue);
        start
    }

    /// The tensor core of a warp's quarter takes a product of `columns` of B and rows of A of `row_bytes`, of which all four quarters read so many
    /// bytes of shared memory; gives when it is complete.
    pub(crate) fn product(
        &mut self,
        warp: u32,
        now: u64,
        (columns, row_bytes): (usize, usize),
        operand_bytes: usize,
    ) -> u64 {
        let cycles = columns as u64 * row_bytes as u64 / PRODUCT_BYTES;
        let cycles = cycles.max((operand_bytes as u64).div_ceil(OPERAND_BYTES));
        let cycles = cycles + cycles / PRODUCT_LOSS;
        let quarter = warp as usize % QUARTERS;
        self.work.tensor[quarter] += cycles;
        take(&mut self.tensor[quarter], now, cycles)
    }

    /// A copy into shared memory is issued, for which L2 is read so many bytes; gives when the last are on the way.
    pub(crate) fn request(&mut self, now: u64, l2_bytes: u64) -> u64 {
        self.work.loaded_bytes += l2_bytes;
        let share = &self.share;
        let cycles = (l2_bytes * share.sms * share.residents).div_ceil(L2_BYTES);
        let begins = take(&mut self.l2, now, cycles);
        begins
            + if std::mem::take(&mut self.is_cold) {
                COLD_LATENCY
            } else {
                0
            }
    }

    /// The bytes of a copy arrive, which L2 or another SM has sent at `now`; gives when they are there.
    pub(crate) fn arrive(&mut self, now: u64, bytes: u64) -> u64 {
        self.move_by_copy(now, bytes) + COPY_LATENCY
    }

    fn move_by_copy(&mut self, now: u64, bytes: u64) -> u64 {
        let cycles = (bytes * self.share.residents.max(1)).div_ceil(COPY_BYTES);
        self.work.copies += bytes.div_ceil(COPY_BYTES);
        take(&mut self.copies, now, cycles)
    }

    /// A warp loads from shared memory of its CTA; gives when what it loads can be read.
    pub(crate) fn load_shared(&mut self, now: u64, wavefronts: Wavefronts) -> u64 {
        self.work.load_conflicts += wavefronts.conflicts;
        self.work.shared += wavefronts.all;
        take(&mut self.shared, now, wavefronts.all) + SHARED_LATENCY
    }

    /// A warp stores to shared memory of its CTA.
    pub(crate) fn store_shared(&mut self, now: u64, wavefronts: Wavefronts) {
        self.work.store_conflicts += wavefronts.conflicts;
        self.work.shared += wavefronts.all;
        take(&mut self.shared, now, wavefronts.all);
    }

    /// A warp loads or stores so many bytes of another CTA's shared memory; gives when what it loads can be read.
    pub(crate) fn remote_access(&mut self, now: u64, bytes: u64) -> u64 {
        self.move_remote(now, bytes, REMOTE_ACCESS_BYTES) + REMOTE_LATENCY
    }

    /// A thread stores bytes to another CTA by `st.async`; gives when they are there.
    pub(crate) fn remote_store(&mut self, now: u64, bytes: u64) -> u64 {
        self.move_remote(now, bytes, REMOTE_STORE_BYTES) + REMOTE_LATENCY
    }

    /// A bulk copy sends bytes to another CTA, or gets them; gives when they are there.
    pub(crate) fn remote_copy(&mut self, now: u64, bytes: u64) -> u64 {
        self.move_remote(now, bytes, REMOTE_COPY_BYTES) + REMOTE_COPY_LATENCY
    }

    fn move_remote(&mut self, now: u64, bytes: u64, in_a_cycle: u64) -> u64 {
        let cycles = bytes.div_ceil(in_a_cycle);
        self.work.remote += cycles;
        take(&mut self.remote, now, cycles)
    }

    /// Lanes of a warp load these sectors of global memory, which L1 may have; gives when what they load can be read.
    pub(crate) fn load(&mut self, now: u64, sectors: &[u64], asks_l1: bool) -> u64 {
        let count = sectors.len() as u64;
        let missing = if asks_l1 {
            let missing = sectors.iter().filter(|sector| !self.is_in_l1(**sector));
            missing.count() as u64
        } else {
            count
        };
        self.work.loaded_bytes += missing * SECTOR_BYTES;
        let done = self.access(now, (count, missing));
        done + if missing > 0 {
            GLOBAL_LATENCY
        } else {
            L1_LATENCY
        }
    }

    /// Lanes of a warp store to these sectors of global memory.
    pub(crate) fn store_sectors(&mut self, now: u64, sectors: &[u64]) {
        let count = sectors.len() as u64;
        self.work.stored_bytes += count * SECTOR_BYTES;
        self.access(now, (count, count));
    }

    fn access(&mut self, now: u64, (sectors, missing): (u64, u64)) -> u64 {
        let cycles = sectors
            .div_ceil(L1_SECTORS)
            .max(missing.div_ceil(L2_SECTORS));
        self.work.accesses += cycles;
        let waits = (missing * self.share.residents.max(1)).div_ceil(L2_SECTORS);
        take(&mut self.accesses, now, cycles.max(waits))
    }

    /// Has L1 the sector? It has from now on.
    fn is_in_l1(&mut self, sector: u64) -> bool {
        let lines = (L1_LINES / self.share.residents.max(1) as usize).max(1);
        self.l1.resize(lines, (u64::MAX, 0));
        let (line, bit) = (sector / 4, 1 << (sector % 4));
        // Lines at equal distances fall into different places.
        let place = (line ^ line / lines as u64 ^ line / (lines * lines) as u64) as usize % lines;
        let (known, mask) = &mut self.l1[place];
        if *known != line {
            (*known, *mask) = (line, 0);
        }
        let is_there = *mask & bit != 0;
        *mask |= bit;
        is_there
    }

    /// A bulk store of a lane's group is issued.
    pub(crate) fn store(&mut self, warp: &mut WarpTime, lane: u32, group: u64, bytes: u64) {
        self.work.stored_bytes += bytes;
        let moved = self.move_by_copy(warp.now, bytes);
        let (read, written) = (moved + STORE_READ_LATENCY, moved + STORE_LATENCY);
        warp.stores.push((lane, group, read, written));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(residents: u64) -> Units {
        Units::new(Share {
            residents,
            sms: 132,
            is_first: false,
        })
    }

    #[test]
    fn bytes_through_distributed_shared_memory_queue() {
        let mut units = units(1);
        let first = units.remote_copy(0, 10 * REMOTE_COPY_BYTES);
        assert_eq!(first, 10 + REMOTE_COPY_LATENCY);
        assert_eq!(units.remote_copy(0, REMOTE_COPY_BYTES), first + 1);
        assert_eq!(units.work.remote, 11);
    }

    #[test]
    fn what_shares_an_sm_shares_its_ways_to_memory() {
        let bytes = 1 << 20;
        let (mut alone, mut beside) = (units(1), units(2));
        let (sent, late) = (alone.request(0, bytes), beside.request(0, bytes));
        assert_eq!(late.div_ceil(2), sent);
        assert_eq!(alone.arrive(0, 6400), 100 + COPY_LATENCY);
        assert_eq!(beside.arrive(0, 6400), 200 + COPY_LATENCY);
        assert_eq!(alone.work.copies, beside.work.copies);
    }

    #[test]
    fn the_first_copy_of_the_first_cta_is_cold() {
        let mut first = Units::new(Share {
            residents: 1,
            sms: 1,
            is_first: true,
        });
        let cold = first.request(0, L2_BYTES);
        assert_eq!(cold, 1 + COLD_LATENCY);
        assert_eq!(first.request(0, L2_BYTES), 2);
    }

    #[test]
    fn what_was_loaded_is_in_l1() {
        let mut units = units(1);
        let sectors: Vec<u64> = (64..96).collect();
        let first = units.load(0, &sectors, true);
        assert_eq!(first, 32 / L2_SECTORS + GLOBAL_LATENCY);
        assert_eq!(units.work.loaded_bytes, 32 * SECTOR_BYTES);
        let again = units.load(1000, &sectors, true);
        assert_eq!(again, 1000 + 32 / L1_SECTORS + L1_LATENCY);
        let around = units.load(2000, &sectors, false);
        assert_eq!(around, 2000 + 32 / L2_SECTORS + GLOBAL_LATENCY);
        assert_eq!(units.work.loaded_bytes, 64 * SECTOR_BYTES);
    }

    #[test]
    fn conflicts_keep_shared_memory_busy() {
        let mut units = units(1);
        let wavefronts = Wavefronts {
            all: 8,
            conflicts: 7,
        };
        assert_eq!(units.load_shared(0, wavefronts), 8 + SHARED_LATENCY);
        units.store_shared(0, wavefronts);
        assert_eq!(units.load_shared(0, wavefronts), 24 + SHARED_LATENCY);
        assert_eq!(
            (units.work.load_conflicts, units.work.store_conflicts),
            (14, 7)
        );
    }
}
