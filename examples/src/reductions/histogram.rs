//! A histogram of numbers: each program counts its share in shared memory, and adds what it found to the counts of all by
//! atomics.

use tilekit::prelude::*;

/// The bins between 0 and 1; numbers outside are not counted.
const BINS: usize = 256;

/// `counts[:] = 0`.
#[kernel(warps = 1)]
pub fn clear<const N: usize>(counts: Ptr<i32>) {
    counts.at(arange(0..N, Coalesced)).store(0);
}

/// `counts[b]` grows by the number of elements of `x` with `b <= x * BINS < b + 1`. Each program counts every
/// `num_programs`-th block of `BLOCK` elements.
#[kernel(warps = WARPS, instances(<bf16, 8192, 8>))]
pub fn histogram<T: Float, const BLOCK: usize, const WARPS: usize>(
    x: Ptr<T>,
    counts: Ptr<i32>,
    n: i32,
) {
    let bins = Blocked::new([1], [32], [WARPS], [0]);
    let lane = arange(0..BLOCK, Coalesced);
    let mut found = zeros::<i32>([BINS], bins.clone());
    for block in range(program_id(0), cdiv(n, BLOCK)).step(num_programs(0)) {
        let at = lane + block * BLOCK;
        let v = x.at(at).mask(at < n).other(-1).load().cast::<f32>();
        let bin = (v * BINS as f32).floor().cast::<i32>();
        found += bin.histogram(BINS, bins.clone());
    }
    counts.at(arange(0..BINS, bins)).relaxed().atomic_add(found);
}

fn histogram_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.uniform::<T>("x", [n], -0.1..1.1);
    let counts = case.output::<i32>("counts", [BINS]);
    case.launch(clear::<BINS>, grid(1), (&counts,))?;
    case.launch(
        histogram::<T, 8192, 8>,
        grid(n.div_ceil(8192).min(264)),
        (&x, &counts, n as i32),
    )?;
    let reference = || {
        let mut counts = vec![0_i64; BINS];
        for v in x.host() {
            let bin = (v.number().to_f64() * BINS as f64).floor();
            if (0.0..BINS as f64).contains(&bin) {
                counts[bin as usize] += 1;
            }
        }
        counts
    };
    case.expect_all(&counts, reference, Exactly)?;
    case.moves_bytes(n * size_of::<T>());
    Ok(())
}

#[case(sizes(n = [1 << 16, 20_011]))]
fn histogram_bf16(case: &mut Case) -> CaseResult {
    histogram_of::<bf16>(case)
}

#[case(sizes(n = [1 << 16, 20_011]))]
fn histogram_f32(case: &mut Case) -> CaseResult {
    histogram_of::<f32>(case)
}
