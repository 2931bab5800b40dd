//! What a launch fixes for all its CTAs.

use super::cluster_barrier::ClusterBarrier;
use super::cta::{BarrierState, Cluster, Cta};
use super::linear::Linear;
use super::locks::Locks;
use super::order::{ActorId, Actors, Clock};
use super::warp::Warp;
use super::{Emulator, LAUNCH};
use crate::decode::SHARED_BASE;
use crate::fault::Fault;
use crate::global::AllocationMap;
use crate::lanes::{Lanes32, Lanes64, Registers};
use crate::program::{Code, Constant, File, Program};
use ptx::Special;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most shared memory that a CTA of Hopper can have.
const MAX_SHARED_BYTES: u32 = 227 * 1024;
/// CTAs of a cluster: 8, and 16 with the non-portable attribute (CUDA programming guide, compute capability 9.0).
const MAX_CLUSTER: u32 = 16;
/// Streaming multiprocessors of an H200, for `%nsmid`.
const SM_COUNT: u32 = 132;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y and z; `[1, 1, 1]` for none.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory of each CTA.
    pub dynamic_shared_bytes: u32,
    /// Decides the order in which warps run and asynchronous work completes. Zero is the plain order.
    pub seed: u64,
    /// The most warp instructions that a cluster may execute, against endless loops.
    pub max_steps: u64,
    /// What is checked beyond what the machine cannot do without.
    pub checks: Checks,
}

/// Checks that a launch can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Integer division by zero, whose result the ISA leaves open, is a fault.
    pub division_by_zero: bool,
    /// Reads of bytes or registers that nothing has written are faults.
    pub uninitialised: bool,
    /// Accesses to shared memory that nothing orders, or that lack a proxy fence, are faults.
    pub races: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            division_by_zero: true,
            uninitialised: true,
            races: true,
        }
    }
}

impl Launch {
    /// A one-dimensional launch without dynamic shared memory.
    pub fn linear(ctas: u32, threads: u32) -> Self {
        Self {
            grid: [ctas, 1, 1],
            block: [threads, 1, 1],
            ..Self::default()
        }
    }
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: [1; 3],
            dynamic_shared_bytes: 0,
            seed: 0,
            max_steps: 4_000_000_000,
            checks: Checks::default(),
        }
    }
}

/// The fault of a launch that cannot start.
pub(super) fn refusal(entry: &str, message: String) -> Fault {
    Fault {
        kind: LAUNCH,
        entry: entry.to_owned(),
        cta: [0; 3],
        warp: 0,
        lanes: 0,
        address: None,
        bytes: None,
        ptx_line: None,
        ptx: String::new(),
        place: None,
        message,
        related: Vec::new(),
        help: None,
    }
}

/// A launch that can start.
pub(crate) struct Context<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) program: &'a Program,
    pub(crate) code: &'a Code,
    pub(crate) launch: &'a Launch,
    pub(crate) map: Arc<AllocationMap>,
    pub(crate) params: Linear,
    pub(crate) constants: Linear,
    pub(crate) locks: Locks,
    /// Registers as every warp starts, but for those that depend on the CTA or the warp.
    template: Registers,
    /// Special registers that depend on the CTA or the warp: file, slot.
    varying: Vec<(File, u32, Special)>,
    shared_bytes: u32,
}

fn volume(extent: [u32; 3]) -> u64 {
    extent.iter().map(|&n| u64::from(n)).product()
}

impl<'a> Context<'a> {
    pub(super) fn new(
        emulator: &'a Emulator,
        program: &'a Program,
        code: &'a Code,
        launch: &'a Launch,
        params: &[u8],
        variables: &[u64],
    ) -> Result<Self, String> {
        check(code, launch, params)?;
        let dynamic_base =
            (SHARED_BASE + code.static_shared_bytes).next_multiple_of(code.dynamic_shared_align);
        let shared_bytes = dynamic_base - SHARED_BASE + launch.dynamic_shared_bytes;
        if shared_bytes > MAX_SHARED_BYTES {
            return Err(format!(
                "the kernel asks for {shared_bytes} bytes of shared memory ({} static, {} dynamic); a CTA can have {MAX_SHARED_BYTES}",
                code.static_shared_bytes, launch.dynamic_shared_bytes
            ));
        }
        let mut context = Self {
            emulator,
            program,
            code,
            launch,
            map: emulator.memory.snapshot(),
            params: Linear::filled(0, params.to_vec()),
            constants: Linear::filled(0, code.const_image.clone()),
            locks: Locks::new(),
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

    /// Number of clusters of the launch.
    pub(crate) fn cluster_count(&self) -> u64 {
        volume(self.launch.grid) / volume(self.launch.cluster)
    }

    /// The cluster with number `index`, ready to run.
    pub(crate) fn cluster(&self, index: u64) -> Cluster {
        let count = volume(self.launch.cluster) as u32;
        let ctas = (0..count)
            .map(|rank| self.cta(self.cta_index(index, rank), rank))
            .collect();
        let random = (self.launch.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
        let warps = volume(self.launch.block).div_ceil(32) as u16;
        Cluster {
            index,
            ctas,
            actors: Actors::new(count as u16, warps),
            steps: 0,
            pending: VecDeque::new(),
            maps: BTreeMap::new(),
            timeouts: 0,
            barrier: ClusterBarrier::default(),
            random,
        }
    }

    /// Coordinates of the CTA with number `rank` of a cluster.
    pub(crate) fn cta_index(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let [cx, cy, _] = self.launch.cluster;
        let per_axis =
            [0, 1, 2].map(|axis| u64::from(self.launch.grid[axis] / self.launch.cluster[axis]));
        let position = [
            cluster % per_axis[0],
            cluster / per_axis[0] % per_axis[1],
            cluster / per_axis[0] / per_axis[1],
        ];
        let within = [rank % cx, rank / cx % cy, rank / cx / cy];
        [0, 1, 2].map(|axis| position[axis] as u32 * self.launch.cluster[axis] + within[axis])
    }

    fn cta(&self, index: [u32; 3], rank: u32) -> Cta {
        let threads = volume(self.launch.block) as u32;
        let warps = (0..threads.div_ceil(32))
            .map(|warp| self.warp(index, rank, warp, threads))
            .collect();
        Cta {
            index,
            mbarriers: BTreeMap::new(),
            ended_mbarriers: BTreeMap::new(),
            visits: BTreeMap::new(),
            at_end: Clock::default(),
            shared: Linear::shared(
                SHARED_BASE,
                self.shared_bytes as usize,
                self.code.shared_granule_bits,
            ),
            barriers: std::array::from_fn(|_| BarrierState::default()),
            warps,
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
        warp.registers = super::budget::at_entry(threads, &self.code.directives);
        warp.registers_at_entry = warp.registers;
        warp.release();
        warp.start(u32::MAX >> (32 - lanes));
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

fn check(code: &Code, launch: &Launch, params: &[u8]) -> Result<(), String> {
    let Launch {
        grid,
        block,
        cluster,
        ..
    } = *launch;
    let threads = volume(block);
    if volume(grid) == 0 || threads == 0 || volume(cluster) == 0 {
        return Err(format!(
            "grid {grid:?}, block {block:?} and cluster {cluster:?} must not have a zero"
        ));
    }
    if threads > 1024 || block[2] > 64 {
        return Err(format!(
            "block {block:?} has {threads} threads; a CTA can have 1024, and 64 along z"
        ));
    }
    if grid[1] > 65_535 || grid[2] > 65_535 || grid[0] > i32::MAX as u32 {
        return Err(format!(
            "grid {grid:?} is too large: 2147483647 along x, 65535 along y and z"
        ));
    }
    check_directives(code, launch, threads)?;
    let clusters = volume(cluster);
    if clusters > MAX_CLUSTER.into() {
        return Err(format!(
            "a cluster of {clusters} CTAs; Hopper allows {MAX_CLUSTER}"
        ));
    }
    if (0..3).any(|axis| !grid[axis].is_multiple_of(cluster[axis])) {
        return Err(format!(
            "grid {grid:?} is not a multiple of cluster {cluster:?}"
        ));
    }
    if params.len() != code.param_bytes as usize {
        let list: Vec<String> = code
            .params
            .iter()
            .map(|p| format!("{} ({} bytes at {})", p.name, p.bytes, p.offset))
            .collect();
        return Err(format!(
            "the kernel takes {} bytes of parameters, {} were passed; they are {}",
            code.param_bytes,
            params.len(),
            list.join(", ")
        ));
    }
    Ok(())
}

fn check_directives(code: &Code, launch: &Launch, threads: u64) -> Result<(), String> {
    let Launch { block, cluster, .. } = *launch;
    let directives = &code.directives;
    if let Some(required) = directives.reqntid.filter(|required| *required != block) {
        return Err(format!(
            "the kernel requires blocks of {required:?} (.reqntid), the launch has {block:?}"
        ));
    }
    if let Some(most) = directives.maxntid.filter(|most| threads > volume(*most)) {
        return Err(format!(
            "the kernel allows {} threads (.maxntid), the launch has {threads}",
            volume(most)
        ));
    }
    if let Some(required) = directives
        .reqnctapercluster
        .filter(|required| *required != cluster)
    {
        return Err(format!(
            "the kernel requires clusters of {required:?} (.reqnctapercluster), the launch has {cluster:?}"
        ));
    }
    Ok(())
}
