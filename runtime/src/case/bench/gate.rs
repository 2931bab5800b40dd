//! What all ranks of a world wait at before a timed launch: they begin together, when the host has put everything on their streams.

use crate::code::PreparedLaunch;
use crate::error::Result;
use crate::launch::{EntryShape, ParameterBlock, grid};
use crate::world::{Symmetric, World, WorldLaunch};

/// Spins for some time, signals every rank, and waits for the signals of all. Counts only grow: the number of calls lies in memory. A rank
/// that does not arrive within 10 s ends it by a trap.
const GATE: &str = "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry gate(.param .u64 nanoseconds, .param .u64 counts_of, .param .u64 own, .param .u64 calls, .param .u32 ranks)
.reqntid 1, 1, 1
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [nanoseconds];
    ld.param.u64 %rd2, [counts_of];
    ld.param.u64 %rd3, [own];
    ld.param.u64 %rd4, [calls];
    ld.param.u32 %r1, [ranks];
    mov.u64 %rd5, %globaltimer;
SPIN:
    mov.u64 %rd6, %globaltimer;
    sub.u64 %rd7, %rd6, %rd5;
    setp.lt.u64 %p1, %rd7, %rd1;
    @%p1 bra SPIN;
    ld.global.u32 %r2, [%rd4];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd4], %r2;
    mul.lo.u32 %r2, %r2, %r1;
    mov.u32 %r3, 0;
SIGNAL:
    ld.global.u64 %rd8, [%rd2];
    red.release.sys.global.add.u32 [%rd8], 1;
    add.u64 %rd2, %rd2, 8;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, %r1;
    @%p2 bra SIGNAL;
WAIT:
    ld.acquire.sys.global.u32 %r4, [%rd3];
    sub.u32 %r5, %r4, %r2;
    setp.ge.s32 %p3, %r5, 0;
    @%p3 ret;
    mov.u64 %rd9, %globaltimer;
    sub.u64 %rd10, %rd9, %rd6;
    setp.lt.u64 %p3, %rd10, 10000000000;
    @%p3 bra WAIT;
    trap;
}
";

/// How long it spins first for each rank whose launch the host has yet to make, nanoseconds: a library may take most of it.
const SPIN_NS: u64 = 1_000_000;

/// A gate of a world, with its counts.
pub(super) struct Gate {
    /// For a single launch, which the host puts behind it.
    slow: WorldLaunch,
    /// Between launches that are on the streams already.
    quick: WorldLaunch,
    _counts: [Symmetric<u32>; 2],
}

impl Gate {
    pub(super) fn new(world: &World) -> Result<Gate> {
        let counts = [world.symmetric::<u32>(1)?, world.symmetric::<u32>(1)?];
        let nanoseconds = SPIN_NS * world.ranks() as u64;
        Ok(Gate {
            slow: launch(world, &counts, nanoseconds)?,
            quick: launch(world, &counts, 0)?,
            _counts: counts,
        })
    }

    /// All ranks go on together, when the host has had the time to put a launch behind it.
    pub(super) fn after_a_rest(&self, world: &World) -> Result<()> {
        self.slow.enqueue(world)
    }

    /// All ranks go on together.
    pub(super) fn at_once(&self, world: &World) -> Result<()> {
        self.quick.enqueue(world)
    }
}

fn launch(
    world: &World,
    [own, calls]: &[Symmetric<u32>; 2],
    nanoseconds: u64,
) -> Result<WorldLaunch> {
    let shape = EntryShape {
        name: "gate".to_string(),
        threads: [1; 3],
        cluster: [1; 3],
        shared_bytes: 0,
        overlaps_previous: false,
        is_cooperative: true,
        parameters: None,
    };
    let of_rank = |(rank, device): (usize, &crate::device::Device)| {
        let entry = device.load_ptx(GATE)?.entry(shape.clone())?;
        let mut parameters = ParameterBlock::new();
        parameters.push(&nanoseconds.to_le_bytes(), 8);
        let places = [
            own.table(rank).address(),
            own.part(rank).address(),
            calls.part(rank).address(),
        ];
        for (address, bytes) in places.into_iter().zip([8 * world.ranks() as u64, 4, 4]) {
            parameters.push_buffer(address, bytes);
        }
        parameters.push(&(world.ranks() as u32).to_le_bytes(), 4);
        PreparedLaunch::new(&entry, grid(1u32), parameters)
    };
    let of_ranks = world.devices().iter().enumerate().map(of_rank);
    Ok(WorldLaunch::new(of_ranks.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::EmulatorOptions;

    #[test]
    fn all_ranks_pass_it_as_often_as_they_like() {
        let emulated =
            [1, 3].map(|ranks| World::emulators(ranks, EmulatorOptions::default()).unwrap());
        for world in emulated.into_iter().chain(World::cuda(2).ok()) {
            let gate = Gate::new(&world).unwrap();
            for _ in 0..3 {
                gate.at_once(&world).unwrap();
            }
            if world.device(0).is_cuda() {
                gate.after_a_rest(&world).unwrap();
            }
            world.synchronize().unwrap();
        }
    }
}
