//! What a launch fixes for all its CTAs.

use crate::global::AllocationMap;
use crate::lanes::{Lanes32, Lanes64, Registers};
use crate::machine::order::{ActorId, Actors, Clock};
use crate::machine::state::barrier::{BarrierState, ClusterBarrier};
use crate::machine::state::cluster::{Cluster, Cta};
use crate::machine::state::draws::Draws;
use crate::machine::state::launch::{Launch, check_launch, volume};
use crate::machine::state::linear::Linear;
use crate::machine::state::locks::Locks;
use crate::machine::state::overlap::Overlap;
use crate::machine::state::peers::Member;
use crate::machine::state::policy::Policy;
use crate::machine::state::registers_at_entry::registers_at_entry;
use crate::machine::state::timing::Timing;
use crate::machine::state::units::{Share, Units};
use crate::machine::state::warp::Warp;
use crate::program::windows::SHARED_BASE;
use crate::program::{Code, Constant, File, Op, Program};
use ptx::Special;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use target::Target;

/// Streaming multiprocessors of an H200, for `%nsmid` and for models of time.
pub const SM_COUNT: u32 = target::H200.sms;

/// Registers of a thread in the model of time, where PTX does not say fewer: how many CTAs share an SM follows from it.
const USUAL_REGISTERS: u32 = 64;

/// A launch that can start.
pub(crate) struct Context<'a> {
    /// The machine whose limits hold.
    pub(crate) target: &'static Target,
    /// What kernels print.
    pub(crate) output: &'a Mutex<String>,
    pub(crate) program: &'a Program,
    pub(crate) code: &'a Code,
    pub(crate) launch: &'a Launch,
    /// What the seed of the launch chooses.
    pub(crate) policy: Policy,
    pub(crate) map: Arc<AllocationMap>,
    /// The shadow of global memory, if its races are checked.
    pub(crate) overlap: Option<Arc<Overlap>>,
    /// Its device among those that run as one.
    pub(crate) member: Member,
    pub(crate) params: Linear,
    pub(crate) constants: Linear,
    pub(crate) locks: Locks,
    /// What steps cost, where the launch models time.
    pub(crate) timing: Option<Timing>,
    /// Registers as every warp starts, but for those that depend on the CTA or the warp.
    template: Registers,
    /// Special registers that depend on the CTA or the warp: file, slot.
    varying: Vec<(File, u32, Special)>,
    shared_bytes: u32,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        (map, target): (&Arc<AllocationMap>, &'static Target),
        output: &'a Mutex<String>,
        program: &'a Program,
        code: &'a Code,
        launch: &'a Launch,
        params: &[u8],
        variables: &[u64],
    ) -> Result<Self, String> {
        check_launch(target, code, launch, params)?;
        // In 64 bits, as both sizes and the alignment may be anything.
        let dynamic_base = u64::from(SHARED_BASE + code.static_shared_bytes)
            .next_multiple_of(code.dynamic_shared_align.into());
        let shared_bytes =
            dynamic_base - u64::from(SHARED_BASE) + u64::from(launch.dynamic_shared_bytes);
        let most = target.cta.shared_bytes;
        if shared_bytes > most.into() {
            return Err(format!(
                "the kernel asks for {shared_bytes} bytes of shared memory ({} static, {} dynamic); a CTA can have {most}",
                code.static_shared_bytes, launch.dynamic_shared_bytes
            ));
        }
        let (dynamic_base, shared_bytes) = (dynamic_base as u32, shared_bytes as u32);
        let mut context = Self {
            target,
            output,
            program,
            code,
            launch,
            policy: Policy::of(launch),
            map: Arc::clone(map),
            overlap: None,
            member: Member::default(),
            params: Linear::filled(0, params.to_vec()),
            constants: Linear::filled(0, code.const_image.clone()),
            locks: Locks::new(),
            timing: launch.is_timed.then(|| Timing::of(program, code)),
            template: Registers::default(),
            varying: Vec::new(),
            shared_bytes,
        };
        context.make_template(variables, dynamic_base);
        Ok(context)
    }

    fn make_template(&mut self, variables: &[u64], dynamic_base: u32) {
        let files = self.code.files;
        self.template.words = vec![Lanes32([0; 32]); files.words as usize];
        self.template.doubles = vec![Lanes64([0; 32]); files.doubles as usize];
        self.template.predicates = vec![0; files.predicates as usize];
        self.template.predicates[0] = u32::MAX;
        for &(file, slot, constant) in &self.code.constants {
            let value = match constant {
                Constant::Bits(bits) => bits,
                Constant::Global(index, offset) => {
                    variables[index as usize].wrapping_add_signed(offset)
                }
                Constant::DynamicShared(offset) => {
                    u64::from(dynamic_base).wrapping_add_signed(offset)
                }
                Constant::Special(special) => {
                    if let Some(value) = self.fixed_special(special) {
                        value
                    } else {
                        self.varying.push((file, slot, special));
                        continue;
                    }
                }
            };
            fill(&mut self.template, file, slot, [value; 32]);
        }
    }

    /// Special registers that are the same in the whole launch.
    fn fixed_special(&self, special: Special) -> Option<u64> {
        let Launch {
            grid,
            block,
            cluster,
            dynamic_shared_bytes,
            ..
        } = *self.launch;
        let value = match special {
            Special::NtidX => block[0],
            Special::NtidY => block[1],
            Special::NtidZ => block[2],
            Special::NctaidX => grid[0],
            Special::NctaidY => grid[1],
            Special::NctaidZ => grid[2],
            Special::NwarpId => volume(block).div_ceil(32) as u32,
            Special::NsmId => SM_COUNT,
            Special::GridId => 1,
            Special::NclusterIdX => grid[0] / cluster[0],
            Special::NclusterIdY => grid[1] / cluster[1],
            Special::NclusterIdZ => grid[2] / cluster[2],
            Special::ClusterNctaidX => cluster[0],
            Special::ClusterNctaidY => cluster[1],
            Special::ClusterNctaidZ => cluster[2],
            Special::ClusterNctaRank => volume(cluster) as u32,
            Special::IsExplicitCluster => {
                u32::from(volume(cluster) > 1 || self.code.directives.explicitcluster)
            }
            Special::DynamicSharedBytes => dynamic_shared_bytes,
            Special::TotalSharedBytes => self.shared_bytes,
            _ => return None,
        };
        Some(value.into())
    }

    /// Is it launched in clusters? A cluster of one CTA is one only where the kernel requires it.
    pub(crate) fn is_cluster_launch(&self) -> bool {
        volume(self.launch.cluster) > 1 || self.code.directives.reqnctapercluster.is_some()
    }

    /// May CTAs wait for one another, for the host or for other devices? Then they take short turns.
    pub(crate) fn takes_short_turns(&self) -> bool {
        self.waits_for_others() || self.code.polls_global
    }

    /// Is it launched so that CTAs wait for one another, for the host or for other devices?
    pub(crate) fn waits_for_others(&self) -> bool {
        let launch = self.launch;
        launch.is_cooperative || launch.beside_host || self.member.peers.is_some()
    }

    /// Number of clusters of the launch.
    pub(crate) fn cluster_count(&self) -> u64 {
        volume(self.launch.grid) / volume(self.launch.cluster)
    }

    /// How many of them run.
    pub(crate) fn running_clusters(&self) -> u64 {
        let representatives = self.launch.representatives.as_ref();
        representatives.map_or(self.cluster_count(), |some| some.len() as u64)
    }

    /// The number of the cluster that starts at a place of the order.
    pub(crate) fn cluster_at(&self, place: u64) -> u64 {
        match &self.launch.representatives {
            Some(some) => some[place as usize],
            None => self.policy.place_of(place, self.cluster_count()),
        }
    }

    /// The cluster with number `index`, ready to run.
    pub(crate) fn cluster(&self, index: u64) -> Cluster {
        let count = volume(self.launch.cluster) as u32;
        let ctas = (0..count)
            .map(|rank| self.cta(self.cta_index(index, rank), rank, self.share(index)))
            .collect();
        let seed = self.launch.seed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let random = (seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
        let warps = volume(self.launch.block).div_ceil(32) as u16;
        Cluster {
            index,
            number: self.member.first_cluster + index as u32,
            device: self.member.rank,
            target: self.target,
            ctas,
            actors: Actors::new(count as u16, warps),
            steps: 0,
            pending: VecDeque::new(),
            maps: BTreeMap::new(),
            first_use: None,
            timeouts: 0,
            barrier: ClusterBarrier::default(),
            draws: Draws::default(),
            random,
            starving_since: None,
            late_since: None,
        }
    }

    /// Coordinates of the CTA with number `rank` of a cluster.
    pub(crate) fn cta_index(&self, cluster: u64, rank: u32) -> [u32; 3] {
        self.launch.cta_index(cluster, rank)
    }

    /// Of a launch for which some clusters stand: how many run, and for how many of those that draw from a counter at the same time.
    pub(crate) fn stands_for(&self) -> Option<(u64, u64)> {
        let running = self.launch.representatives.as_ref()?.len() as u64;
        let room = self.share(0).residents * u64::from(SM_COUNT) / volume(self.launch.cluster);
        let clusters = room.min(self.cluster_count());
        Some((running, clusters.max(running)))
    }

    /// Do clusters draw from a counter in order of time? Then they run on one thread of the host.
    pub(crate) fn draws_in_order(&self) -> bool {
        let mut steps = self.code.steps.iter();
        let is_timed = self.timing.is_some() && !self.waits_for_others();
        is_timed && steps.any(|step| matches!(&step.op, Op::Atomic(atomic) if atomic.may_draw()))
    }

    /// What a CTA of this cluster has of an SM and of L2, if all SMs have as many CTAs as they hold.
    fn share(&self, cluster: u64) -> Share {
        let Launch {
            grid,
            block,
            cluster: shape,
            ..
        } = *self.launch;
        let threads = volume(block) as u32;
        let most = registers_at_entry(self.target, threads, &self.code.directives);
        let registers = most.min(USUAL_REGISTERS);
        let held = self.target.occupancy(threads, registers, self.shared_bytes);
        let (ctas, sms) = (volume(grid), u64::from(SM_COUNT));
        let residents = u64::from(held.ctas).min(ctas.div_ceil(sms)).max(1);
        Share {
            residents,
            sms: sms.min(ctas),
            is_first: cluster * volume(shape) < residents * sms,
        }
    }

    fn cta(&self, index: [u32; 3], rank: u32, share: Share) -> Cta {
        let threads = volume(self.launch.block) as u32;
        let warps = (0..threads.div_ceil(32))
            .map(|warp| self.warp(index, rank, warp, threads))
            .collect();
        Cta {
            index,
            mbarriers: BTreeMap::new(),
            ended_mbarriers: BTreeMap::new(),
            remote_accesses: BTreeMap::new(),
            at_end: Clock::default(),
            shared: Linear::shared(
                SHARED_BASE,
                self.shared_bytes as usize,
                self.code.shared_granule_bits,
            ),
            barriers: vec![BarrierState::default(); self.target.cta.barriers as usize].into(),
            warps,
            units: Units::new(share),
        }
    }

    fn warp(&self, cta: [u32; 3], rank: u32, index: u32, threads: u32) -> Warp {
        let mut regs = self.template.clone();
        for &(file, slot, special) in &self.varying {
            let values = std::array::from_fn(|lane| {
                self.varying_special(special, cta, rank, index * 32 + lane as u32)
            });
            fill(&mut regs, file, slot, values);
        }
        let lanes = (threads - index * 32).min(32);
        let stride = self.code.local_bytes.next_multiple_of(16);
        let mut warp = Warp {
            index,
            regs,
            local: Linear::new(0, stride as usize * 32),
            local_stride: stride,
            written: vec![0; self.code.watched_count as usize],
            ..Warp::default()
        };
        let warps = threads.div_ceil(32);
        warp.actor = ActorId::new((rank * warps + index) as usize);
        warp.registers = registers_at_entry(self.target, threads, &self.code.directives);
        warp.registers_at_entry = warp.registers;
        warp.start(u32::MAX >> (32 - lanes));
        // Epoch 1 is the start of the warp.
        (warp.epoch, warp.has_accessed) = (1, true);
        warp.converge(u32::MAX);
        warp
    }

    fn varying_special(&self, special: Special, cta: [u32; 3], rank: u32, thread: u32) -> u64 {
        let [bx, by, _] = self.launch.block;
        let cluster = self.launch.cluster;
        let lane = thread % 32;
        let linear = u64::from(cta[0])
            + u64::from(self.launch.grid[0])
                * (u64::from(cta[1]) + u64::from(self.launch.grid[1]) * u64::from(cta[2]));
        let value = match special {
            Special::TidX => thread % bx,
            Special::TidY => thread / bx % by,
            Special::TidZ => thread / bx / by,
            Special::CtaidX => cta[0],
            Special::CtaidY => cta[1],
            Special::CtaidZ => cta[2],
            Special::LaneId => lane,
            Special::WarpId => thread / 32,
            Special::SmId => (linear % u64::from(SM_COUNT)) as u32,
            Special::LanemaskEq => 1 << lane,
            Special::LanemaskLt => (1 << lane) - 1,
            Special::LanemaskLe => u32::MAX >> (31 - lane),
            Special::LanemaskGe => u32::MAX << lane,
            Special::LanemaskGt => u32::MAX << lane & !(1 << lane),
            Special::ClusterIdX => cta[0] / cluster[0],
            Special::ClusterIdY => cta[1] / cluster[1],
            Special::ClusterIdZ => cta[2] / cluster[2],
            Special::ClusterCtaidX => cta[0] % cluster[0],
            Special::ClusterCtaidY => cta[1] % cluster[1],
            Special::ClusterCtaidZ => cta[2] % cluster[2],
            Special::ClusterCtaRank => rank,
            _ => 0,
        };
        value.into()
    }
}

/// Sets a register in all lanes.
fn fill(regs: &mut Registers, file: File, slot: u32, values: [u64; 32]) {
    let slot = slot as usize;
    match file {
        File::Word => regs.words[slot] = Lanes32(values.map(|value| value as u32)),
        File::Double => regs.doubles[slot] = Lanes64(values),
        File::Predicate => {
            regs.predicates[slot] = if values[0] == 0 { 0 } else { u32::MAX };
        }
    }
}
