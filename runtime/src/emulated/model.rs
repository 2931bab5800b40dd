//! How long a launch would take on an H200, from what the emulator's model of time says of a few of its CTAs.
//!
//! CTAs are given to the SMs in order, each to the first one with room. An SM is busy for no less than its units are, all its CTAs
//! together. DRAM and L2 serve no more than they can. The clock falls as the tensor cores of the chip are used.
//!
//! The forms and most numbers are those of a model that was fitted to products on an H200 (`bench/results/modelled.md`); launches
//! that follow each other at once, L2 hits of an earlier launch, and uncoalesced accesses are not modelled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use emulator::{CtaTime, SM_COUNT};
use target::H200;

/// Cycles from the start of a launch until its first instructions, and from its last store until its end.
const LAUNCH_CYCLES: f64 = 5000.0;
/// Bytes that DRAM moves in a microsecond, and what a launch that is bound by it takes besides, µs; no more than it takes for the bytes.
const DRAM_BYTES: f64 = 4.35e6;
const DRAM_BEGINNING: f64 = 3.0;
/// The same of L2.
const L2_BYTES: f64 = 10.5e6;
const L2_BEGINNING: f64 = 5.0;
/// The highest clock of an SM, in cycles of a microsecond.
const HIGHEST_CLOCK: f64 = H200.clock_khz as f64 / 1e3;
/// The clock at a use of all tensor cores of `FULL_USE`, which falls as the cube root of the use.
const CLOCK_AT_FULL_USE: f64 = 1660.0;
const FULL_USE: f64 = 0.918;
/// Clusters up to which each is given its place; above it the mean does.
const MOST_PLACED: u64 = 1 << 20;

/// What a launch is as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// Its CTAs.
    pub(crate) ctas: u64,
    /// Those of a cluster.
    pub(crate) cluster: u64,
    /// CTAs that an SM holds at a time.
    pub(crate) resident: u32,
    /// Bytes of all tensors that it may touch: DRAM moves no more.
    pub(crate) tensor_bytes: u64,
    /// Instructions of warps of the CTAs that ran.
    pub(crate) warp_instructions: u64,
}

/// What a launch would take on an H200 that has rested, and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modelled {
    /// One launch, µs.
    pub microseconds: f64,
    /// What it could not be below, whatever else were free.
    pub bound: Bound,
    /// The share of the time for which the bound alone would last.
    pub share: f64,
    /// The clock of the SMs, MHz.
    pub clock_mhz: f64,
    /// The time for which the tensor cores would be busy, as a share.
    pub tensor_use: f64,
    /// Bytes between SMs and L2.
    pub l2_bytes: u64,
    /// Bytes between L2 and DRAM.
    pub dram_bytes: u64,
    /// Cycles of shared memory that bank conflicts cost, of loads and of stores.
    pub bank_conflicts: [u64; 2],
    /// Instructions that warps execute, of PTX: those of machine code are others.
    pub warp_instructions: u64,
}

/// What bounds a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its tensor cores.
    TensorCores,
    /// Issuing instructions.
    Issue,
    /// Special functions: `ex2`, `rcp` and their like.
    SpecialFunctions,
    /// Bytes into and out of shared memory by asynchronous copies.
    Copies,
    /// Bytes of loads and stores of threads.
    Accesses,
    /// Accesses of threads to shared memory, and bank conflicts.
    SharedMemory,
    /// Bytes between CTAs of a cluster.
    ClusterMemory,
    /// L2.
    L2,
    /// DRAM.
    Dram,
    /// What CTAs wait for, one thing after the other: latencies, barriers, too few CTAs.
    Latency,
    /// Starting and ending the launch.
    Launch,
}

impl Bound {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Bound::TensorCores => "tensor cores",
            Bound::Issue => "issue of instructions",
            Bound::SpecialFunctions => "special functions",
            Bound::Copies => "asynchronous copies",
            Bound::Accesses => "loads and stores",
            Bound::SharedMemory => "shared memory",
            Bound::ClusterMemory => "distributed shared memory",
            Bound::L2 => "L2",
            Bound::Dram => "DRAM",
            Bound::Latency => "latency",
            Bound::Launch => "the launch itself",
        }
    }
}

impl Modelled {
    /// From the times of the CTAs that ran; none if none did.
    pub(crate) fn of(times: &[CtaTime], whole: Whole) -> Option<Modelled> {
        if times.is_empty() {
            return None;
        }
        let whole = whole.drawing(times);
        let ctas = whole.ctas as f64;
        let mean = |of: fn(&CtaTime) -> u64| {
            times.iter().map(|time| of(time) as f64).sum::<f64>() / times.len() as f64
        };
        // The SM with the most to do: with one CTA or less each, that CTA.
        let each = (ctas / f64::from(SM_COUNT)).max(1.0);
        let busy = [
            (Bound::TensorCores, mean(|t| t.tensor_cycles)),
            (Bound::Issue, mean(|t| t.issue_cycles)),
            (Bound::SpecialFunctions, mean(|t| t.special_cycles)),
            (Bound::Copies, mean(|t| t.copy_cycles)),
            (Bound::Accesses, mean(|t| t.access_cycles)),
            (Bound::SharedMemory, mean(|t| t.shared_cycles)),
            (Bound::ClusterMemory, mean(|t| t.remote_cycles)),
        ];
        let busy = busy.map(|(bound, cycles)| (bound, cycles * each));
        let placed = placed_cycles(times, whole);
        let cycles = busy
            .iter()
            .fold(placed, |most, (_, cycles)| most.max(*cycles));
        let tensor = busy[0].1;
        let filled = (ctas / f64::from(SM_COUNT)).min(1.0);
        let tensor_use = tensor / cycles.max(1.0) * filled;
        let clock = clock(tensor_use);
        let l2_bytes = (mean(|t| t.loaded_bytes) + mean(|t| t.stored_bytes)) * ctas;
        let dram_bytes = l2_bytes.min(whole.tensor_bytes as f64);
        let in_sms = (cycles + LAUNCH_CYCLES) / clock;
        let dram = dram_bytes / DRAM_BYTES;
        let l2 = l2_bytes / L2_BYTES;
        let microseconds = in_sms
            .max(dram + dram.min(DRAM_BEGINNING))
            .max(l2 + l2.min(L2_BEGINNING));
        let mut bounds: Vec<(Bound, f64)> =
            busy.map(|(bound, cycles)| (bound, cycles / clock)).to_vec();
        bounds.extend([
            (Bound::L2, l2),
            (Bound::Dram, dram),
            (Bound::Launch, LAUNCH_CYCLES / clock),
        ]);
        let (bound, least) = bound_of(&bounds, microseconds);
        Some(Modelled {
            microseconds,
            bound,
            share: least / microseconds,
            clock_mhz: clock,
            tensor_use,
            l2_bytes: l2_bytes as u64,
            dram_bytes: dram_bytes as u64,
            bank_conflicts: [mean(|t| t.load_conflicts), mean(|t| t.store_conflicts)]
                .map(|each| (each * ctas) as u64),
            warp_instructions: (whole.warp_instructions as f64 / times.len() as f64 * ctas) as u64,
        })
    }
}

/// The share of a time that one unit must last to be what bounds it; below it CTAs wait, and no unit is why.
const BINDING: f64 = 0.6;

fn bound_of(bounds: &[(Bound, f64)], microseconds: f64) -> (Bound, f64) {
    let longest = bounds.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    match longest {
        Some((bound, least)) if least >= BINDING * microseconds => (bound, least),
        _ => (Bound::Latency, microseconds),
    }
}

/// Cycles of a microsecond at a use of all tensor cores of the chip.
fn clock(tensor_use: f64) -> f64 {
    let falling = CLOCK_AT_FULL_USE * (FULL_USE / tensor_use.max(1e-3)).cbrt();
    falling.min(HIGHEST_CLOCK)
}

impl Whole {
    /// Clusters that run at a time.
    fn room(self) -> u64 {
        (u64::from(SM_COUNT) * u64::from(self.resident.max(1)) / self.cluster.max(1)).max(1)
    }

    /// Without the CTAs that find no work: where clusters draw it from a counter, those that run at a time have drawn all.
    fn drawing(self, times: &[CtaTime]) -> Whole {
        if times.iter().all(|time| time.draws == 0) {
            return self;
        }
        let most = self.room() * self.cluster.max(1);
        Whole {
            ctas: self.ctas.min(most),
            ..self
        }
    }
}

/// When the last cluster ends, where each starts as soon as there is room for it.
fn placed_cycles(times: &[CtaTime], whole: Whole) -> f64 {
    let known = known_cycles(times);
    if times.iter().any(|time| time.draws > 0) {
        let last = known.iter().map(|(_, cycles)| *cycles).max();
        return last.unwrap_or(0) as f64;
    }
    let clusters = whole.ctas / whole.cluster.max(1);
    let room = whole.room();
    if clusters > MOST_PLACED {
        let mean = known.iter().map(|(_, cycles)| *cycles as f64).sum::<f64>() / known.len() as f64;
        return mean * clusters as f64 / room as f64;
    }
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut last = 0;
    for cluster in 0..clusters {
        let start = match ends.len() as u64 {
            held if held < room => 0,
            _ => ends.pop().map_or(0, |Reverse(end)| end),
        };
        let end = start + between(&known, cluster);
        last = last.max(end);
        ends.push(Reverse(end));
    }
    last as f64
}

/// The clusters that ran, ascending, with the cycles of the CTA that took longest.
fn known_cycles(times: &[CtaTime]) -> Vec<(u64, u64)> {
    let mut known: Vec<(u64, u64)> = Vec::new();
    for time in times {
        match known.last_mut() {
            Some((cluster, cycles)) if *cluster == time.cluster => {
                *cycles = time.cycles.max(*cycles);
            }
            _ => known.push((time.cluster, time.cycles)),
        }
    }
    known
}

/// The cycles of a cluster, on the line between those of its neighbours that ran.
fn between(known: &[(u64, u64)], cluster: u64) -> u64 {
    let after = known.partition_point(|(ran, _)| *ran < cluster);
    let (to, to_cycles) = known[after.min(known.len() - 1)];
    let (from, from_cycles) = known[after.saturating_sub(1)];
    if to <= from || cluster >= to {
        return to_cycles;
    }
    let share = (cluster - from) as f64 / (to - from) as f64;
    (from_cycles as f64 + (to_cycles as f64 - from_cycles as f64) * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cta(cluster: u64, cycles: u64) -> CtaTime {
        CtaTime {
            cluster,
            cycles,
            ..CtaTime::default()
        }
    }

    #[track_caller]
    fn check_placed(times: &[CtaTime], (ctas, cluster, resident): (u64, u64, u32), want: f64) {
        let whole = Whole {
            ctas,
            cluster,
            resident,
            tensor_bytes: 0,
            warp_instructions: 0,
        };
        assert!((placed_cycles(times, whole) - want).abs() < 1.0);
    }

    #[test]
    fn ctas_start_as_soon_as_there_is_room() {
        let all = [cta(0, 100), cta(999, 100)];
        check_placed(&all, (132, 1, 1), 100.0);
        check_placed(&all, (133, 1, 1), 200.0);
        check_placed(&all, (264, 1, 2), 100.0);
        check_placed(&all, (132, 2, 1), 100.0);
        check_placed(&all, (134, 2, 1), 200.0);
    }

    #[test]
    fn what_clusters_draw_is_drawn_by_those_that_run_at_a_time() {
        let drew = |cluster, cycles, draws| CtaTime {
            draws,
            ..cta(cluster, cycles)
        };
        let ctas = (132, 1, 1);
        check_placed(&[drew(0, 400, 4), drew(131, 500, 5)], ctas, 500.0);
        // CTAs that begin when all is drawn find nothing.
        check_placed(&[drew(0, 400, 4), drew(999, 400, 4)], (1000, 1, 1), 400.0);
    }

    #[test]
    fn cycles_of_what_did_not_run_lie_between_those_of_neighbours() {
        let known = [(0, 100), (10, 200)];
        let cycles: Vec<u64> = [0, 5, 10, 11].map(|at| between(&known, at)).to_vec();
        assert_eq!(cycles, [100, 150, 200, 200]);
    }

    #[track_caller]
    fn check_bound(time: CtaTime, whole: Whole, want: Bound) {
        let modelled = Modelled::of(&[time], whole).expect("one CTA ran");
        assert_eq!(modelled.bound, want, "{modelled:?}");
    }

    #[test]
    fn what_lasts_longest_is_the_bound() {
        let whole = Whole {
            ctas: 132,
            cluster: 1,
            resident: 1,
            tensor_bytes: 1 << 30,
            warp_instructions: 0,
        };
        let long = cta(0, 100_000);
        let tensor = CtaTime {
            tensor_cycles: 98_000,
            ..long
        };
        check_bound(tensor, whole, Bound::TensorCores);
        check_bound(long, whole, Bound::Latency);
        check_bound(cta(0, 10), whole, Bound::Launch);
        let streaming = CtaTime {
            loaded_bytes: 4 << 20,
            ..long
        };
        check_bound(streaming, whole, Bound::Dram);
        let small = Whole {
            tensor_bytes: 1 << 20,
            warp_instructions: 0,
            ..whole
        };
        let streaming = CtaTime {
            loaded_bytes: 8 << 20,
            ..long
        };
        check_bound(streaming, small, Bound::L2);
    }

    #[test]
    fn the_clock_falls_with_the_use_of_tensor_cores() {
        assert!((clock(0.0) - HIGHEST_CLOCK).abs() < 1.0);
        assert!((clock(FULL_USE) - CLOCK_AT_FULL_USE).abs() < 1.0);
    }
}
