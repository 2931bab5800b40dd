//! Prefix sums of a whole array in one pass over it: programs sum tiles as they arrive, and look back for the sum of all tiles before.

use tilekit::prelude::*;

use crate::reductions::row_sum::sum_tolerance;

/// Tiles that a program of [`clear_tiles`] clears.
const CLEARED: usize = 1024;

/// `words[:] = 0` and `ticket[0] = 0`, as [`LookBack`] wants them before each launch. The launch before may read them until it ends.
#[kernel(warps = 4)]
pub fn clear_tiles(words: Ptr<u64>, ticket: Ptr<i32>, tiles: i32) {
    launch_dependents();
    launch_wait();
    let at = program_id(0) * CLEARED + arange(0..CLEARED, Coalesced);
    words.at(at).mask(at < tiles).store(0_u64);
    if program_id(0) == 0 {
        ticket.store(0);
    }
}

/// `out[i] = x[0] + .. + x[i]`, by tiles of `BLOCK` elements. Programs are persistent, one to an SM.
///
/// Memory stays busy only if enough loads are in flight while a tile waits for those before it. So four partitions work on a ring of `SLOTS` tiles:
///
/// 1. One draws tiles, in the order in which slots become free, and loads them by bulk copies.
/// 2. One adds up each tile as it arrives and publishes its sum. It waits for no other program.
/// 3. One adds the sums of other programs' tiles to that of all tiles before the program's last one.
/// 4. One scans the tile, which frees its slot, and stores it when three further ones are scanned and the sum of all tiles before is known.
#[kernel(warps = WARPS, min_ctas_per_sm = 1, instances(<f32, 8192, 7, 8, 4>))]
pub fn prefix_sum<
    T: Numeric,
    const BLOCK: usize,
    const SLOTS: usize,
    const WARPS: usize,
    const ADDERS: usize,
>(
    x: Ptr<T>,
    words: Ptr<u64>,
    ticket: Ptr<i32>,
    out: Ptr<T>,
    n: i32,
) {
    launch_wait();
    let ring = Smem::<T>::alloc([SLOTS, BLOCK], Swizzled::plain([0]));
    let loads = Pipeline::new(ring, Producers::Tma, Consumers::warps(WARPS + ADDERS));
    let receivers = Consumers::warps(WARPS + ADDERS + 1);
    // Twice as many numbers as the ring has tiles: when a slot of the ring is free, so is that of the next number.
    let tiles = OrderedTiles::new(ticket, cdiv(n, BLOCK), 2 * SLOTS, receivers);
    let sums_before = Smem::<T>::alloc([SLOTS, 1], Swizzled::plain([1, 0]));
    let looking = Producers::Stores { warps: 1 };
    let befores = Pipeline::new(sums_before, looking, Consumers::warps(WARPS)); // mutate: equivalent(fence.mbarrier_init): the fence of `tiles.send` is before the first copy
    let look_back = LookBack::new(words, ticket, 1);
    let places =
        |tile: Scalar<i32>, layout: DistributedLinear| tile * BLOCK + arange(0..BLOCK, layout);
    // A bulk copy moves whole units of 16 bytes: the last tile is read from memory if it is not whole.
    let is_whole = |tile: Scalar<i32>| n - tile * BLOCK >= BLOCK;
    let elements = |slot: Smem<T>, tile: Scalar<i32>, layout: DistributedLinear| {
        let mut v = zeros::<T>([BLOCK], layout.clone());
        if is_whole(tile) {
            v = slot.load(layout.clone());
        } else {
            let at = places(tile, layout.clone());
            v = x.at(at).mask(at < n).other(0).load();
        }
        v
    };

    let fill = || {
        let (mut at, mut load) = (tiles.start(), loads.start());
        let mut tile = scalar(0);
        while tile < tiles.count() {
            let _free = loads.wait_released(&load); // mutate: equivalent(mbarrier.wait): a tile that is drawn earlier waits for its slot below
            tile = tiles.draw();
            at = tiles.send(at, tile); // mutate: equivalent(bar.warp.sync, fence.proxy.async, mbarrier.wait): the first lane alone stores the number and arrives, and no copy reads it; its slot is free as the ring's is
            if tile < tiles.count() {
                let count = select(is_whole(tile), BLOCK as i32, 0);
                let slot = loads.producer_acquire_bytes(load, count * size_of::<T>()); // mutate: equivalent(mbarrier.wait): the slot was waited for before the tile was drawn
                let run = x.bulk(tile * BLOCK).count(count);
                run.policy(L2Policy::EvictLast).load(slot.tiles, slot.full);
                load = loads.commit(slot).advance();
            }
        }
    };
    let add_up = || {
        let mut tile = tiles.first(); // mutate: equivalent(bar.warp.sync): who fills this slot again has waited for the ring's, which is released later
        let mut load = loads.start();
        while tile.number() < tiles.count() {
            let slot = loads.consumer_wait(load);
            let v = elements(
                slot.tiles,
                tile.number(),
                contiguous_in_warps::<T>(BLOCK, ADDERS),
            );
            let total = v.sum(0).scalar();
            load = loads.consumer_release(slot).advance(); // mutate: equivalent(bar.warp.sync): the sum has a barrier
            look_back.publish_sum(tile.number(), total);
            tile = tiles.next(tile); // mutate: equivalent(bar.warp.sync): as for the first
        }
    };
    let add_before = || {
        let mut tile = tiles.first(); // mutate: equivalent(bar.warp.sync): as above
        let (mut before, mut at) = (look_back.start::<T>(), befores.start());
        while tile.number() < tiles.count() {
            before = look_back.advance(before, tile.number());
            at = send(befores, at, before.sum()); // mutate: equivalent(bar.warp.sync, fence.proxy.async): as above
            tile = tiles.next(tile); // mutate: equivalent(bar.warp.sync): as for the first
        }
    };
    let scan = || {
        let mut tile = tiles.first(); // mutate: equivalent(bar.warp.sync): as above
        let (mut load, mut at) = (loads.start(), befores.start());
        let layout = contiguous_in_warps::<T>(BLOCK, WARPS);
        // The sums of three tiles stay in registers while further ones are scanned: their slots are free before what stands before them is known.
        let none = || Scanned {
            sums: zeros::<T>([BLOCK], layout.clone()),
            tile: scalar(-1),
        };
        let (mut newer, mut older, mut oldest) = (none(), none(), none());
        let store = |scanned: Scanned<T>, mut at: PipelineState| {
            if scanned.tile >= 0 {
                let (before, next) = receive(befores, at); // mutate: equivalent(bar.warp.sync, mbarrier.arrive): after the loop, whose last slots nobody fills again
                let (sums, place) = (scanned.sums + before, places(scanned.tile, layout.clone()));
                if is_whole(scanned.tile) {
                    out.at(place).store(sums);
                } else {
                    out.at(place).mask(place < n).store(sums);
                }
                at = next;
            }
            at
        };
        while tile.number() < tiles.count() {
            let slot = loads.consumer_wait(load);
            let v = elements(slot.tiles, tile.number(), layout.clone());
            load = loads.consumer_release(slot).advance();
            let sums = v.cumsum(0);
            at = store(oldest, at);
            oldest = older;
            older = newer;
            newer = Scanned {
                sums,
                tile: tile.number(),
            };
            tile = tiles.next(tile); // mutate: equivalent(bar.warp.sync): as for the first
        }
        at = store(oldest, at);
        at = store(older, at);
        let _end = store(newer, at);
    };
    warp_specialize()
        .main(scan)
        .worker(Warps(ADDERS).registers(104), add_up)
        .worker(Warps(1).registers(40), add_before)
        .worker(Warps(1).registers(40), fill)
        .run();
}

/// Each warp owns contiguous elements of a tile, with vectors of 16 bytes to a lane: warps exchange one total each, not one for each vector of a thread.
fn contiguous_in_warps<T: Numeric>(block: usize, warps: usize) -> DistributedLinear {
    let bits = |from: usize, to: usize| (from.ilog2()..to.ilog2()).map(|bit| [1 << bit]);
    let vector = 16 / size_of::<T>();
    let (lanes, own) = (32 * vector, block / warps);
    let registers = bits(1, vector).chain(bits(lanes, own));
    DistributedLinear::new(registers, bits(vector, lanes), bits(own, block), [])
}

/// A tile that is scanned and waits for the sum of all tiles before, or -1.
#[derive(Clone, Aggregate)]
struct Scanned<T: Numeric> {
    sums: Tensor<T>,
    tile: Scalar<i32>,
}

/// Sends one number to the partition that reads `numbers`.
#[track_caller]
fn send<T: Numeric>(
    numbers: Pipeline<Smem<T>>,
    at: PipelineState,
    number: Scalar<T>,
) -> PipelineState {
    let slot = numbers.producer_acquire(at);
    slot.tiles.store(full([1], number, one_number()));
    numbers.commit(slot).advance()
}

/// Waits for the next one.
#[track_caller]
fn receive<T: Numeric>(
    numbers: Pipeline<Smem<T>>,
    at: PipelineState,
) -> (Scalar<T>, PipelineState) {
    let slot = numbers.consumer_wait(at);
    let number = slot.tiles.load(one_number()).sum(0).scalar();
    (number, numbers.consumer_release(slot).advance())
}

#[track_caller]
fn one_number() -> Blocked {
    Blocked::new([1], [32], [num_warps()], [0])
}

const BLOCK: usize = 8192;

/// Clears the tiles and launches; the sums.
fn prefix_sum_of<T: Numeric + DeviceElement>(
    case: &mut Case,
    x: &Input<T>,
) -> tilekit::Result<Output<T>> {
    let n = case.size("n");
    let tiles = n.div_ceil(BLOCK);
    let words = case.output::<u64>("words", [tiles]);
    let ticket = case.output::<i32>("ticket", [1]);
    let out = case.output::<T>("out", [n]);
    let of_tiles = (&words, &ticket, tiles as i32);
    case.launch_programmatic(clear_tiles, grid(tiles.div_ceil(CLEARED)), of_tiles)?;
    let resident = Resident {
        ctas: case.size("ctas"),
        cluster: 1,
    };
    case.launch_programmatic(
        prefix_sum::<T, BLOCK, 7, 8, 4>,
        grid(resident.programs(tiles)),
        (x, &words, &ticket, &out, n as i32),
    )?;
    case.moves_bytes(2 * n * size_of::<T>());
    Ok(out)
}

// One program makes all tiles: its ring wraps.
#[case(sizes(n = [1, 8191, 8193, 200_000, 300_001, 1 << 27], ctas = [132, 132, 132, 1, 3, 132]))]
fn prefix_sum_f32(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let out = prefix_sum_of(case, &x)?;
    let reference = || {
        let sums = x.host().iter().scan(0.0, |sum, &x| {
            *sum += f64::from(x);
            Some(*sum)
        });
        sums.collect::<Vec<f64>>()
    };
    case.expect_all(&out, reference, sum_tolerance(n))
}

#[case(sizes(n = [8191, 200_001], ctas = [132, 1]))]
fn prefix_sum_i32(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.integers::<i32>("x", [n], -9..10);
    let out = prefix_sum_of(case, &x)?;
    let reference = || {
        let sums = x.host().iter().scan(0, |sum, &x| {
            *sum += i64::from(x);
            Some(*sum)
        });
        sums.collect::<Vec<i64>>()
    };
    case.expect_all(&out, reference, Exactly)
}
