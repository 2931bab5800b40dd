//! What all ranks of a world wait at before a timed launch: they begin together, when the host has put everything on their streams.

use crate::code::PreparedLaunch;
use crate::error::Result;
use crate::launch::{EntryShape, ParameterBlock, grid};
use crate::world::{Symmetric, World, WorldLaunch};

/// Spins for some time, signals every rank, and waits for the signals of all. Counts only grow: the number of calls lies in memory. A rank
/// that does not arrive within 10 s ends it by a trap.
///
/// The rank that arrives last would go on first, ahead of the others by the latency of its signal. So rank 0 then measures the round trip of a word to each rank, signals all of them, and itself spins for the one-way
/// latency.
const GATE: &str = "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry gate(.param .u64 nanoseconds, .param .u64 counts_of, .param .u64 own, .param .u64 calls, .param .u32 ranks, .param .u32 rank, .param .u64 words_of, .param .u64 words)
.reqntid 1, 1, 1
{
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<24>;
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
    mov.u32 %r5, %r2;
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
    sub.u32 %r4, %r4, %r2;
    setp.ge.s32 %p3, %r4, 0;
    @%p3 bra HERE;
    mov.u64 %rd9, %globaltimer;
    sub.u64 %rd10, %rd9, %rd6;
    setp.lt.u64 %p3, %rd10, 10000000000;
    @%p3 bra WAIT;
    trap;
HERE:
    ld.param.u32 %r6, [rank];
    ld.param.u64 %rd12, [words_of];
    ld.param.u64 %rd13, [words];
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra FOLLOW;
    mov.u32 %r3, 1;
    mov.u64 %rd14, 0;
TO_AND_FRO:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra GO;
    mad.wide.u32 %rd15, %r3, 8, %rd12;
    ld.global.u64 %rd15, [%rd15];
    mad.wide.u32 %rd16, %r3, 4, %rd13;
    mov.u64 %rd17, %globaltimer;
    st.relaxed.sys.global.u32 [%rd15], %r5;
FRO:
    ld.relaxed.sys.global.u32 %r7, [%rd16+8];
    setp.ne.u32 %p1, %r7, %r5;
    @%p1 bra FRO;
    mov.u64 %rd18, %globaltimer;
    sub.u64 %rd18, %rd18, %rd17;
    shr.u64 %rd18, %rd18, 1;
    max.u64 %rd14, %rd14, %rd18;
    add.u32 %r3, %r3, 1;
    bra TO_AND_FRO;
GO:
    mov.u32 %r3, 1;
TELL:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra TOLD;
    mad.wide.u32 %rd15, %r3, 8, %rd12;
    ld.global.u64 %rd15, [%rd15];
    st.relaxed.sys.global.u32 [%rd15+4], %r5;
    add.u32 %r3, %r3, 1;
    bra TELL;
TOLD:
    mov.u64 %rd17, %globaltimer;
REST:
    mov.u64 %rd18, %globaltimer;
    sub.u64 %rd18, %rd18, %rd17;
    setp.lt.u64 %p1, %rd18, %rd14;
    @%p1 bra REST;
    ret;
FOLLOW:
    ld.relaxed.sys.global.u32 %r7, [%rd13];
    setp.ne.u32 %p1, %r7, %r5;
    @%p1 bra FOLLOW;
    ld.global.u64 %rd15, [%rd12];
    mad.wide.u32 %rd15, %r6, 4, %rd15;
    st.relaxed.sys.global.u32 [%rd15+8], %r5;
GONE:
    ld.relaxed.sys.global.u32 %r7, [%rd13+4];
    setp.ne.u32 %p1, %r7, %r5;
    @%p1 bra GONE;
    ret;
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
    _counts: [Symmetric<u32>; 3],
}

impl Gate {
    pub(super) fn new(world: &World) -> Result<Gate> {
        // A word each way for each rank, and one that says to go on.
        let words = 2 + world.ranks();
        let counts = [1, 1, words].map(|count| world.symmetric::<u32>(count));
        let [own, calls, words] = counts;
        let counts = [own?, calls?, words?];
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
    [own, calls, words]: &[Symmetric<u32>; 3],
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
    let count = words.len() as u64;
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
        parameters.push(&(rank as u32).to_le_bytes(), 4);
        let places = [words.table(rank).address(), words.part(rank).address()];
        for (address, bytes) in places
            .into_iter()
            .zip([8 * world.ranks() as u64, 4 * count])
        {
            parameters.push_buffer(address, bytes);
        }
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
