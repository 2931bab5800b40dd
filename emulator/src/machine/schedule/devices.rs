//! The order in which the clusters of several devices are executed: one schedule, on one thread.

use crate::fault::Fault;
use crate::machine::schedule::across;
use crate::machine::schedule::clusters::{RESIDENT_CTAS, run_cluster};
use crate::machine::schedule::report::fault;
use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::machine::state::launch::volume;
use crate::machine::state::policy::{Turns, When};
use crate::machine::state::scene::Worker;
use crate::machine::state::stats::Stats;

/// Rounds in which one rank has no turn, where the seed starves one.
const STARVED_ROUNDS: u64 = 16;
/// Rounds after which late writes to other devices arrive.
const LATE_ROUNDS: u64 = 32;

/// The clusters that run, and those that have not begun.
struct Devices<'a> {
    workers: Vec<Worker<'a>>,
    /// Clusters of each rank that have begun.
    begun: Vec<u64>,
    running: Vec<Cluster>,
    round: u64,
    random: u64,
}

/// Runs all clusters of launches of several devices, by rank.
pub(crate) fn run_devices(contexts: &[Context<'_>]) -> Result<Vec<Stats>, Box<Fault>> {
    let Some(first) = contexts.first() else {
        return Ok(Vec::new());
    };
    let seed = first.launch.seed;
    let mut devices = Devices {
        workers: contexts.iter().map(Worker::new).collect(),
        begun: vec![0; contexts.len()],
        running: Vec::new(),
        round: 0,
        // Xorshift: state is never zero.
        random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
    };
    loop {
        devices.begin();
        if devices.running.is_empty() {
            break;
        }
        devices.run_round()?;
    }
    for worker in &devices.workers {
        worker.deliver_all();
    }
    let of_worker = |worker: &Worker<'_>| {
        let context = worker.context;
        worker.counts.finish(context.program, context.code)
    };
    Ok(devices.workers.iter().map(of_worker).collect())
}

/// The fault with the rank of its device.
fn of(rank: u16, mut fault: Box<Fault>) -> Box<Fault> {
    fault.rank = Some(rank.into());
    fault
}

impl Devices<'_> {
    /// Begins clusters of each rank while there is room on its device.
    fn begin(&mut self) {
        for (rank, worker) in self.workers.iter().enumerate() {
            let context = worker.context;
            let total = context.cluster_count();
            let per_cluster = volume(context.launch.cluster);
            let of_rank = |cluster: &&Cluster| usize::from(cluster.device) == rank;
            let mut resident = self.running.iter().filter(of_rank).count() as u64;
            let all = context.launch.is_cooperative;
            while self.begun[rank] < total && (all || resident * per_cluster < RESIDENT_CTAS) {
                let place = context.policy.place_of(self.begun[rank], total);
                self.running.push(context.cluster(place));
                self.begun[rank] += 1;
                resident += 1;
            }
        }
    }

    /// Gives each cluster a turn, unless its rank is starved; then writes to other devices arrive as the seed says.
    fn run_round(&mut self) -> Result<(), Box<Fault>> {
        self.order();
        let starved = self.starved();
        let mut waiting = Vec::new();
        for mut cluster in std::mem::take(&mut self.running) {
            let rank = usize::from(cluster.device);
            if starved == Some(rank) {
                waiting.push(cluster);
                continue;
            }
            let worker = &mut self.workers[rank];
            let ended = run_cluster(worker, &mut cluster);
            if ended.map_err(|fault| of(cluster.device, fault))? {
                worker.counts.ctas += cluster.ctas.len() as u64;
            } else {
                waiting.push(cluster);
            }
        }
        self.running = waiting;
        self.round += 1;
        if starved.is_some() {
            return Ok(());
        }
        self.deliver();
        self.go_on()
    }

    /// The order of a round.
    fn order(&mut self) {
        match self.workers[0].context.policy.turns {
            Turns::InOrder | Turns::Earliest => {}
            Turns::Reversed => self.running.sort_by_key(|c| std::cmp::Reverse(c.number)),
            Turns::Random | Turns::StarvedWarpgroup | Turns::StarvedCta => {
                for last in (1..self.running.len()).rev() {
                    let other = self.next_random() as usize % (last + 1);
                    self.running.swap(last, other);
                }
            }
        }
    }

    /// The rank that has no turn in this round.
    fn starved(&self) -> Option<usize> {
        let context = self.workers[0].context;
        let starves = matches!(
            context.policy.turns,
            Turns::StarvedWarpgroup | Turns::StarvedCta
        );
        let rank = (context.launch.seed / 5) as usize % self.workers.len();
        // While the others can do anything but poll.
        let others = self.running.iter();
        let others = others.filter(|cluster| usize::from(cluster.device) != rank);
        let has_turn = self.round % STARVED_ROUNDS == STARVED_ROUNDS - 1;
        (starves && !has_turn && !across::are_stuck(context, others)).then_some(rank)
    }

    /// Writes to other devices arrive: all, some, or none for a while.
    fn deliver(&mut self) {
        for rank in 0..self.workers.len() {
            let random = self.next_random();
            let worker = &self.workers[rank];
            let most = match worker.context.policy.remote {
                When::Soon => usize::MAX,
                When::Random => (random >> 60) as usize,
                When::Late if self.round.is_multiple_of(LATE_ROUNDS) => usize::MAX,
                When::Late => 0,
            };
            worker.deliver(most);
        }
    }

    /// Where every warp waits or polls what nobody changes, lets writes and copies in flight end. If there are none, it is a deadlock.
    fn go_on(&mut self) -> Result<(), Box<Fault>> {
        let contexts: Vec<&Context<'_>> = self.workers.iter().map(|w| w.context).collect();
        if self.running.is_empty() || !across::are_stuck(contexts[0], &self.running) {
            return Ok(());
        }
        let mut progressed = false;
        for worker in &self.workers {
            progressed |= worker.deliver(usize::MAX);
        }
        for cluster in &mut self.running {
            let worker = &mut self.workers[usize::from(cluster.device)];
            let completed = worker.complete_copies_in_flight(cluster, true);
            progressed |= completed.map_err(|(cta, warp, halt)| {
                let context = worker.context;
                let index = context.cta_index(cluster.index, cta as u32);
                let place = (index, warp, halt.step);
                let fault = fault(context.program, context.code, *halt.trouble, place);
                of(cluster.device, fault)
            })?;
        }
        if progressed {
            return Ok(());
        }
        Err(across::deadlock(&contexts, &self.running))
    }

    /// The next number of a sequence that the seed determines.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
