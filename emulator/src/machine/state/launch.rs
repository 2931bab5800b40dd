//! How a kernel is launched, and which launches the machine refuses.

use crate::fault::{Fault, FaultKind};
use crate::program::Code;
use target::Target;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one attribute of a launch"
)]
pub struct Launch {
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y and z; `[1, 1, 1]` for none.
    pub cluster: [u32; 3],
    /// Whether CTAs wait for one another: then all of them are resident from the beginning, and take short turns.
    pub is_cooperative: bool,
    /// The host goes on beside the launch, and the two may wait for each other through mapped memory: CTAs take short turns, on threads that
    /// no other launch needs.
    pub beside_host: bool,
    /// Bytes of dynamic shared memory of each CTA.
    pub dynamic_shared_bytes: u32,
    /// The launch may begin before the one before it has ended (programmatic dependent launch). Here it runs after that one all the same;
    /// accesses that do not wait for its end (`griddepcontrol.wait`) are races.
    pub overlaps_previous: bool,
    /// Selects the schedule: the order in which warps run and asynchronous work completes. Zero is round robin. Other seeds cycle through
    /// adverse schedules: warps and completions at random; copies and products that complete late; a starved warpgroup; a starved CTA of
    /// the cluster; warps and CTAs in reverse. With a seed other than zero a launch runs on one thread, so that it always runs the same.
    pub seed: u64,
    /// The most warp instructions that a cluster may execute, against endless loops.
    pub max_steps: u64,
    /// Model time: the warp that is furthest behind runs next, waits last as long as what they wait for, and `%clock` and `%globaltimer`
    /// read the model's cycles and nanoseconds. Otherwise clocks count the steps of their warp.
    pub is_timed: bool,
    /// The numbers of the clusters that run, ascending, where some are to stand for all: a launch whose time is modelled, and whose CTAs
    /// do not wait for each other. What the others would have stored is not stored. What they draw from a counter is their share of
    /// what all would draw. `None` runs all.
    pub representatives: Option<Vec<u64>>,
    /// Optional checks.
    pub checks: Checks,
}

/// Checks that a launch may turn off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Checks {
    /// Integer division by zero, whose result is undefined, is a fault.
    pub division_by_zero: bool,
    /// Accesses at addresses that are computed from a signed integer of 32 bits that has wrapped around are faults.
    pub wraps: bool,
    /// Reads of bytes or registers that nothing has written are faults.
    pub uninitialised: bool,
    /// Accesses to shared memory that nothing orders, or that lack a proxy fence, are faults.
    pub races: bool,
    /// The same of accesses to global memory. It takes one and a half to six times the memory that a launch touches.
    pub global: bool,
    /// `wgmma.wait_group` orders the warp that executes it, and no other warp of its warpgroup; shuffles and votes order no memory.
    pub strict: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            division_by_zero: true,
            wraps: true,
            uninitialised: true,
            races: true,
            global: true,
            strict: false,
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

    /// Coordinates of the CTA with number `rank` of a cluster.
    pub(crate) fn cta_index(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let [cx, cy, _] = self.cluster;
        let per_axis = [0, 1, 2].map(|axis| u64::from(self.grid[axis] / self.cluster[axis]));
        let position = [
            cluster % per_axis[0],
            cluster / per_axis[0] % per_axis[1],
            cluster / per_axis[0] / per_axis[1],
        ];
        let within = [rank % cx, rank / cx % cy, rank / cx / cy];
        [0, 1, 2].map(|axis| position[axis] as u32 * self.cluster[axis] + within[axis])
    }
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: [1; 3],
            is_cooperative: false,
            beside_host: false,
            dynamic_shared_bytes: 0,
            overlaps_previous: false,
            seed: 0,
            max_steps: 4_000_000_000,
            is_timed: false,
            representatives: None,
            checks: Checks::default(),
        }
    }
}

/// The fault of a launch that cannot start.
pub(crate) fn refusal(entry: &str, message: String) -> Fault {
    Fault {
        kind: FaultKind::Launch,
        rank: None,
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

pub(crate) fn volume(extent: [u32; 3]) -> u64 {
    let sizes = extent.iter().map(|&n| u64::from(n));
    sizes.fold(1, u64::saturating_mul)
}

/// Is a count larger than the limit of its axis?
fn exceeds(counts: [u32; 3], limits: [u32; 3]) -> bool {
    let mut axes = counts.iter().zip(limits);
    axes.any(|(count, limit)| *count > limit)
}

pub(crate) fn check_launch(
    target: &Target,
    code: &Code,
    launch: &Launch,
    params: &[u8],
) -> Result<(), String> {
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
    let (most, [_, _, z]) = (target.cta.threads, target.cta.block);
    if threads > most.into() || exceeds(block, target.cta.block) {
        return Err(format!(
            "block {block:?} has {threads} threads; a CTA can have {most}, and {z} along z"
        ));
    }
    let [x, y, z] = target.grid;
    if exceeds(grid, [x, y, z]) {
        return Err(format!(
            "grid {grid:?} is too large: {x} along x, {y} along y and {z} along z"
        ));
    }
    check_directives(code, launch, threads)?;
    let clusters = volume(cluster);
    let most = target.cluster.ctas;
    if clusters > most.into() {
        return Err(format!(
            "a cluster of {clusters} CTAs; {} allows {most}",
            target.code_name
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
