//! What an access can say to the caches, behind a switch: nothing; or that data is used once, so that it takes no place in L1
//! and L2 fetches 256 bytes around a miss (`L1::no_allocate`, `L2::256B`). That nothing stores to what is read
//! (`ld.global.nc`) is a promise of the parameter. A TMA load takes the same hints as an L2 policy, and a prefetch brings
//! a block into L2 ahead of its load.

use tilekit::prelude::*;

/// `out[i] = 2 * x[i]` for `i < n`.
#[kernel(warps = 4, instances(<false>, <true>))]
pub fn cache_hints<const HINTS: bool>(#[readonly] x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * 2048 + arange(0..2048, Coalesced);
    let inside = at < n;
    let source = x.at(at).mask(inside);
    let value = if HINTS {
        source.no_allocate().l2_prefetch(256).load()
    } else {
        source.load()
    };
    let target = out.at(at).mask(inside);
    if HINTS {
        target.cache(CacheOp::Cs).store(value * 2.0);
    } else {
        target.store(value * 2.0);
    }
}

/// `out = x` by TMA: a block is prefetched into L2 while the one before it is copied, and is evicted first.
#[kernel(warps = 1)]
pub fn cache_policies(
    #[block([32, 32], Nvmma::B128)] x: TensorMap<f32>,
    #[block([32, 32], Nvmma::B128)] out: TensorMap<f32>,
    blocks: i32,
) {
    let row = program_id(0) * 32;
    let tile = Smem::<f32>::alloc([32, 32], x.layout());
    let full = Mbarrier::alloc(1);
    let mut phase = scalar(0);
    // mutate: equivalent(bar.warp.sync): another one stands between the initialisation and the first wait
    for i in range(0, blocks) {
        full.expect(x.block_bytes());
        let load = x.copy().policy(L2Policy::EvictFirst);
        load.load([row, i * 32], tile, full); // mutate: equivalent(bar.warp.sync): one thread waits for the reads of the store and loads
        load.prefetch([row, (i + 1) * 32]);
        full.wait(phase);
        out.copy()
            .policy(L2Policy::EvictFirst)
            .store([row, i * 32], tile);
        tma_store_wait_read(0);
        phase ^= 1;
    }
}

fn hinted<const HINTS: bool>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    let programs = grid(n.div_ceil(2048));
    case.launch(cache_hints::<HINTS>, programs, (&x, &out, n as i32))?;
    case.expect(&out, |[i]| x[i] * 2.0, Exactly)?;
    case.moves_bytes(2 * 4 * n);
    Ok(())
}

#[case(sizes(n = [1_021, 1 << 26]))]
fn cache_hints_off(case: &mut Case) -> CaseResult {
    hinted::<false>(case)
}

#[case(sizes(n = [1_021, 1 << 26]))]
fn cache_hints_on(case: &mut Case) -> CaseResult {
    hinted::<true>(case)
}

#[case(sizes(rows = [1, 70, 8192], cols = [4, 100, 8192]))]
fn cache_policies_case(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let x = case.normal::<f32>("x", [rows, cols]);
    let out = case.output::<f32>("out", [rows, cols]);
    let blocks = cols.div_ceil(32) as i32;
    case.launch(
        cache_policies,
        grid(rows.div_ceil(32)),
        (x.view(), out.view(), blocks),
    )?;
    case.expect(&out, |[r, c]| x[[r, c]], Exactly)?;
    case.moves_bytes(2 * 4 * rows * cols);
    Ok(())
}
