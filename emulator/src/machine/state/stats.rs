//! Counters of a launch.

use crate::fault::Memory;
use crate::machine::state::cluster::Cluster;
use crate::program::source::instruction_text;
use crate::program::{Code, Program};
use std::collections::BTreeMap;

/// Counts of one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions executed by warps (one for all lanes), all kinds together.
    pub warp_instructions: u64,
    /// Warp instructions by opcode with its modifiers, such as `ld.global.v4.b32`.
    pub by_opcode: BTreeMap<String, u64>,
    /// Bytes that threads loaded, by memory.
    pub loaded_bytes: BTreeMap<Memory, u64>,
    /// Bytes that threads stored, by memory.
    pub stored_bytes: BTreeMap<Memory, u64>,
    /// Barriers of CTAs that completed.
    pub barriers: u64,
    /// CTAs that ran.
    pub ctas: u64,
    /// What the model of time says of each of them, in order of their clusters; empty where time was not modelled.
    pub times: Vec<CtaTime>,
}

/// What the model of time says of a CTA that has an SM of its own, in cycles of that SM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtaTime {
    /// The number of its cluster.
    pub cluster: u64,
    /// Numbers that its cluster drew from a counter from which it drew several, as tiles are.
    pub draws: u64,
    /// From its beginning to the end of its last warp.
    pub cycles: u64,
    /// In which the quarter of the SM that issued the most was issuing.
    pub issue_cycles: u64,
    /// In which the unit for special functions (`ex2`, `rcp`, ..) with the most to do was busy.
    pub special_cycles: u64,
    /// In which the tensor core with the most to do was busy.
    pub tensor_cycles: u64,
    /// In which bytes came or went by asynchronous copies.
    pub copy_cycles: u64,
    /// In which bytes came or went by loads and stores of threads.
    pub access_cycles: u64,
    /// In which threads accessed shared memory.
    pub shared_cycles: u64,
    /// Cycles of shared memory that bank conflicts of loads cost.
    pub load_conflicts: u64,
    /// The same of stores.
    pub store_conflicts: u64,
    /// In which bytes came or went through distributed shared memory.
    pub remote_cycles: u64,
    /// Bytes read from global memory. A multicast counts once.
    pub loaded_bytes: u64,
    /// Bytes written to global memory.
    pub stored_bytes: u64,
}

/// Counts while a worker runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Executions of every step.
    pub(crate) steps: Vec<u64>,
    pub(crate) loaded: [u64; 5],
    pub(crate) stored: [u64; 5],
    pub(crate) barriers: u64,
    pub(crate) ctas: u64,
    pub(crate) times: Vec<CtaTime>,
}

const MEMORIES: [Memory; 5] = [
    Memory::Global,
    Memory::Shared,
    Memory::Local,
    Memory::Const,
    Memory::Param,
];

impl Counts {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            steps: vec![0; steps],
            ..Self::default()
        }
    }

    pub(crate) fn load(&mut self, memory: Memory, mask: u32, bytes: u32) {
        self.loaded[memory as usize] += u64::from(mask.count_ones() * bytes);
    }

    pub(crate) fn store(&mut self, memory: Memory, mask: u32, bytes: u32) {
        self.stored[memory as usize] += u64::from(mask.count_ones() * bytes);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = self.steps.iter_mut().zip(&other.steps);
        pairs.for_each(|(sum, count)| *sum += count);
        for index in 0..MEMORIES.len() {
            self.loaded[index] += other.loaded[index];
            self.stored[index] += other.stored[index];
        }
        self.barriers += other.barriers;
        self.ctas += other.ctas;
        self.times.extend_from_slice(&other.times);
    }

    /// Notes the modelled times of the CTAs of a cluster that has ended.
    pub(crate) fn time(&mut self, cluster: &Cluster) {
        let times = cluster.ctas.iter().map(|cta| {
            let work = cta.units.work;
            let ends = cta.warps.iter().map(|warp| warp.time.now);
            CtaTime {
                cluster: cluster.index,
                draws: cluster.draws.count,
                cycles: ends.max().unwrap_or(0),
                issue_cycles: work.issue(),
                special_cycles: work.special(),
                tensor_cycles: work.tensor(),
                copy_cycles: work.copies,
                access_cycles: work.accesses,
                shared_cycles: work.shared,
                load_conflicts: work.load_conflicts,
                store_conflicts: work.store_conflicts,
                remote_cycles: work.remote,
                loaded_bytes: work.loaded_bytes,
                stored_bytes: work.stored_bytes,
            }
        });
        self.times.extend(times);
    }

    /// The public form, with instructions named by their opcode.
    pub(crate) fn finish(&self, program: &Program, code: &Code) -> Stats {
        let mut stats = Stats {
            barriers: self.barriers,
            ctas: self.ctas,
            times: self.times.clone(),
            ..Stats::default()
        };
        stats.times.sort_by_key(|time| time.cluster);
        for (step, &count) in self.steps.iter().enumerate() {
            if count == 0 || !code.sites[step].is_lead {
                continue;
            }
            stats.warp_instructions += count;
            let text = instruction_text(program, code, step as u32);
            let mut words = text.split([' ', ';']);
            let first = words.next().unwrap_or_default();
            let opcode = if first.starts_with('@') {
                words.next().unwrap_or_default()
            } else {
                first
            }
            .to_owned();
            *stats.by_opcode.entry(opcode).or_default() += count;
        }
        let pick = |counts: &[u64; 5]| {
            MEMORIES
                .iter()
                .zip(counts)
                .filter(|(_, count)| **count > 0)
                .map(|(m, c)| (*m, *c))
                .collect()
        };
        stats.loaded_bytes = pick(&self.loaded);
        stats.stored_bytes = pick(&self.stored);
        stats
    }
}
