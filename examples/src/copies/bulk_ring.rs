//! Bulk copies without a tensor map (`cp.async.bulk`): a producer warp loads a ring of chunks into shared memory, consumer
//! warps scale each chunk in place, and a bulk store writes it out. The kernel is persistent; the last chunk is shorter.

use tilekit::prelude::*;

/// `out[i] = x[i] * factor` for `i < n`, which is a multiple of 16 bytes.
#[kernel(warps = 4, instances(<f32, 4096, 4>, <bf16, 8192, 4>))]
pub fn bulk_ring<T: Float, const CHUNK: usize, const SLOTS: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] n: i32,
    factor: f32,
) {
    let unit = 16 / T::DTYPE.bytes();
    // Behind a short chunk lies what was there before, which is read and not stored.
    let rows = Blocked::new([1, unit], [1, 32], [1, 4], [1, 0]);
    let ring = Smem::alloc_with(zeros::<T>([SLOTS, CHUNK], rows), Swizzled::plain([0]));
    let readers = Consumers::issuers_of_warpgroups(1);
    let pipeline = Pipeline::new(ring, Producers::Tma, readers); // mutate: equivalent(fence.mbarrier_init): the fence after the zeros stands behind it and publishes the mbarriers too
    let chunks = || range(program_id(0), cdiv(n, CHUNK)).step(num_programs(0));

    let scale = || {
        let mut at = pipeline.start();
        let mut last = pipeline.nothing_held(&at);
        for chunk in chunks() {
            let slot = pipeline.consumer_wait(at);
            let tile = slot.tiles;
            let layout = Blocked::new([unit], [32], [4], [0]);
            tile.store((tile.load(layout).cast::<f32>() * factor).cast::<T>()); // mutate: equivalent(bar.sync): each thread stores where it has loaded
            let start = chunk * CHUNK;
            let rest = out.bulk(start).count(minimum(n - start, CHUNK));
            rest.store(tile);
            // The bulk store of the chunk before this one has read its slot. The thread that issued it releases the slot.
            tma_store_wait_read(1);
            pipeline.consumer_release_when(chunk > program_id(0), last);
            last = slot.hold();
            at = last.next();
        }
        tma_store_wait(0);
    };
    let fill = || {
        let mut at = pipeline.start();
        for chunk in chunks() {
            let start = chunk * CHUNK;
            let count = minimum(n - start, CHUNK);
            let slot = pipeline.producer_acquire_bytes(at, count * T::DTYPE.bytes());
            let run = x.bulk(start).count(count).policy(L2Policy::EvictLast);
            run.load(slot.tiles, slot.full);
            at = pipeline.commit(slot).advance();
        }
    };
    warp_specialize()
        .main(scale)
        .worker(Warps(1).registers(40), fill)
        .run();
}

fn scaled<T, const CHUNK: usize>(case: &mut Case) -> CaseResult
where
    T: Float + DeviceElement,
    f64: From<T>,
{
    let n = case.size("n");
    let x = case.normal::<T>("x", [n]);
    let out = case.output::<T>("out", [n]);
    let programs = grid(n.div_ceil(CHUNK).min(case.size("ctas")));
    let arguments = (&x, &out, n as i32, 0.5);
    case.launch(bulk_ring::<T, CHUNK, 4>, programs, arguments)?;
    // Halves of normal numbers are exact.
    case.expect(&out, |[i]| f64::from(x[i]) * 0.5, Exactly)?;
    case.moves_bytes(2 * size_of::<T>() * n);
    Ok(())
}

// One CTA for ten chunks: its ring wraps twice.
#[case(sizes(n = [8, 40_000, 40_000, 1 << 26], ctas = [132, 1, 132, 132]))]
fn bulk_ring_f32(case: &mut Case) -> CaseResult {
    scaled::<f32, 4096>(case)
}

#[case(sizes(n = [8, 100_000, 100_000, 1 << 27], ctas = [132, 1, 132, 132]))]
fn bulk_ring_bf16(case: &mut Case) -> CaseResult {
    scaled::<bf16, 8192>(case)
}
