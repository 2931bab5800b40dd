//! What a rank that does not take part does to the others.

use tilekit::diag::Code;
use tilekit::prelude::*;
use tilekit::report::fault_diagnostic;
use tilekit::{Compiler, EmulatorOptions, Error, World};

use super::kernel::ring_attention;
use super::plan::{Need, Numbers};
use super::table::arguments;
use crate::attention::plan::{Sizes, Tile};
use crate::parallel::mail::MOST_RANKS;

/// Nanoseconds of a wait that ends.
const SHORT: i64 = 20;

const TOKENS: usize = 32;
const DEPTH: usize = 64;

/// Rank 1 attends to its own keys alone: rank 0 waits in vain and says so.
fn attention_with_an_absent_rank(seed: u64) -> (Result<(), Error>, i64) {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    let world = World::emulators(2, options).expect("devices");
    let compiled = ring_attention::<bf16, DEPTH, DEPTH, 3, 128, false, true>
        .compile(&Compiler::default())
        .expect("it compiles");
    let kernel = world.load(&compiled).expect("it loads");
    let need = Need {
        sizes: Sizes {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: TOKENS,
            keys: TOKENS,
            depths: [DEPTH; 2],
        },
        ranks: 2,
        chunks: 1,
        is_causal: false,
        element_bytes: 2,
    };
    let tile = Tile {
        rows: 192,
        keys: 128,
        pack: 1,
    };
    let numbers = Numbers {
        together: 1,
        pause: 0,
        ..need.numbers(tile, 1)
    };
    let needed = need.shared(numbers.segment);
    let tensor = |len: usize| world.symmetric::<bf16>(len).expect("memory");
    let [q, k, v, out] = [(); 4].map(|()| tensor(TOKENS * DEPTH));
    let received = tensor(needed.elements);
    let lse = world.symmetric::<f32>(TOKENS).expect("memory");
    let flags = world.symmetric::<i64>(needed.flags).expect("memory");
    let counter = world.symmetric::<i32>(1).expect("memory");
    let launches = world.symmetric::<u64>(1).expect("memory");
    let shape = [1, 1, 1, TOKENS, DEPTH];
    let pieces = [1, 1, TOKENS, 1, DEPTH];
    let [received_k, received_v] = [0, 1].map(|side| need.received(side));
    let ended = kernel.launch(&world, grid(1), |rank| {
        // What rank 1 waits for does not exist.
        let need = Need {
            ranks: 2 - rank,
            ..need
        };
        arguments!(
            [
                q.part(rank).view(shape),
                k.part(rank).view(shape),
                v.part(rank).view(shape),
                received.part(rank).view(received_k),
                received
                    .part(rank)
                    .view(received_v)
                    .with_offset(TOKENS * DEPTH),
                k.part(rank).view(pieces),
                v.part(rank).view(pieces),
                out.part(rank).view(shape),
                lse.part(rank),
                counter.part(rank),
                received.peers(rank),
                (
                    flags.part(rank),
                    flags.peers(rank),
                    launches.part(rank),
                    (SHORT, world.late(rank)),
                    0,
                    need.ranks as i32,
                ),
            ],
            0_usize,
            (need, numbers, tile),
            1.0
        )
    });
    (ended, world.late(0).read(0..1).expect("it is read")[0])
}

#[test]
fn a_rank_that_never_sends_ends_the_kernels_that_wait_for_it() {
    for seed in 0..2 {
        let (ended, word) = attention_with_an_absent_rank(seed);
        let Err(Error::Fault(fault)) = ended else {
            panic!("seed {seed}: rank 0 waits in vain: {ended:?}");
        };
        assert_eq!(fault_diagnostic(&fault).code, Code::DeviceAssert, "{fault}");
        // The warp that sends waits for rank 1 to begin, that which loads for its keys.
        let said = [1_i64, MOST_RANKS as i64].map(|slot| slot << 32 | 1);
        assert!(said.contains(&word), "{word:#x}");
    }
}
