//! Cases of collectives on several ranks.

use tilekit::case::Shared;
use tilekit::prelude::*;

use super::exchange::{SLOT_BYTES, SLOTS};
use super::form::{Form, MOST_RANKS};
use super::one_shot::one_shot;
use super::packets::{PACKET_SLOTS, PACKETS, packets};
use super::sentinel::{SENTINEL_SLOTS, WORDS, sentinel_sum, steps};
use super::two_shot::two_shot;

/// Warps of a CTA: few, so that the emulator has little to do. What is tuned has more.
const WARPS: usize = 4;

/// Nanoseconds of a wait.
const LIMIT: i64 = 5_000_000_000;

/// What the ranks of a case share.
struct Staging<T> {
    chunks: Shared<T>,
    counts: Shared<i32>,
    epochs: Shared<i32>,
    late: Shared<i64>,
}

impl<T: DeviceElement> Staging<T> {
    fn new(case: &mut Case, ctas: usize) -> tilekit::Result<Self> {
        let slots = ctas * SLOTS * case.ranks();
        Ok(Staging {
            chunks: case.shared(slots * SLOT_BYTES / size_of::<T>())?,
            counts: case.shared(ctas * MOST_RANKS)?,
            epochs: case.shared(ctas)?,
            late: case.shared(1)?,
        })
    }
}

/// What a sum in `T` may differ by: half a step of `T`, and where terms cancel that of f32.
fn close<T: Float>() -> Tolerance {
    let relative = if size_of::<T>() == 2 { 4e-3 } else { 1e-6 };
    Close {
        relative,
        absolute: 1e-6,
    }
}

/// Two calls after one another, so that slots are used again, of `len` elements a piece.
fn one_shot_case<T: Float + DeviceElement, const WARPS: usize, const SUMS: bool>(
    case: &mut Case,
    (scatters, accesses): (bool, usize),
) -> CaseResult {
    let (ranks, len, ctas) = (case.ranks(), case.size("len"), case.size("ctas"));
    let form = Form {
        ranks,
        warps: WARPS,
        accesses,
        is_aligned: !scatters && SUMS,
    };
    let pieces = if scatters { ranks } else { 1 };
    let of = |name: &str, rank| format!("{name} of rank {rank}");
    let x: Vec<_> = (0..ranks)
        .map(|rank| case.normal::<T>(&of("x", rank), [pieces * len]))
        .collect();
    let results = if SUMS { 1 } else { ranks };
    let shared = Staging::<T>::new(case, ctas)?;
    let x_step = if scatters { len as i64 } else { 0 };
    for call in 0..2 {
        let out: Vec<_> = (0..ranks)
            .map(|rank| case.output::<T>(&of(&format!("result {call}"), rank), [results * len]))
            .collect();
        case.launch_on_ranks(
            fixed(one_shot::<T, WARPS, SUMS>, form),
            grid(ctas),
            |rank| {
                (
                    &x[rank],
                    &out[rank],
                    (
                        shared.chunks.part(rank),
                        shared.chunks.peers(rank),
                        shared.counts.part(rank),
                        shared.counts.peers(rank),
                        shared.epochs.part(rank),
                        rank as i32,
                        (LIMIT, shared.late.part(rank)),
                    ),
                    len as i64,
                    x_step,
                    len as i64,
                )
            },
        )?;
        for (rank, out) in out.iter().enumerate() {
            let piece = if scatters { rank * len } else { 0 };
            if SUMS {
                let term = |x: &Input<T>, i: usize| x[piece + i].number().to_f64();
                let sum = |[i]: [usize; 1]| x.iter().map(|x| term(x, i)).sum::<f64>();
                case.expect(out, sum, close::<T>())?;
            } else {
                let element = |[i]: [usize; 1]| x[i / len][piece + i % len];
                case.expect(out, element, Exactly)?;
            }
        }
    }
    Ok(())
}

#[case(sizes(ranks = [2, 4, 8], len = [5000, 1029, 300], ctas = [2, 1, 1]))]
fn all_reduce_one_shot(case: &mut Case) -> CaseResult {
    one_shot_case::<bf16, WARPS, true>(case, (false, 1))
}

/// What a program with torch gets of many bytes, by an export of these cases.
#[case(sizes(ranks = [2, 4, 8], len = [8200, 1029, 300], ctas = [2, 1, 1]))]
fn all_reduce_one_shot_tuned(case: &mut Case) -> CaseResult {
    one_shot_case::<bf16, 16, true>(case, (false, 2))
}

#[case(sizes(ranks = [2], len = [5001], ctas = [2]))]
fn reduce_scatter(case: &mut Case) -> CaseResult {
    one_shot_case::<f32, WARPS, true>(case, (true, 1))
}

#[case(sizes(ranks = [2], len = [5001], ctas = [2]))]
fn all_gather(case: &mut Case) -> CaseResult {
    one_shot_case::<f16, WARPS, false>(case, (false, 1))
}

#[case(sizes(ranks = [4], len = [300], ctas = [1]))]
fn all_to_all(case: &mut Case) -> CaseResult {
    one_shot_case::<bf16, WARPS, false>(case, (true, 1))
}

/// Sums of `x` over all ranks, of the calls so far and of this one, by `launch` of a rank's arguments.
fn all_reduce_case<T: Float + DeviceElement>(
    case: &mut Case,
    calls: usize,
    mut launch: impl FnMut(&mut Case, &[Input<T>], &[Output<T>]) -> CaseResult,
) -> CaseResult {
    let (ranks, len) = (case.ranks(), case.size("len"));
    let x: Vec<_> = (0..ranks)
        .map(|rank| case.normal::<T>(&format!("x of rank {rank}"), [len]))
        .collect();
    for call in 0..calls {
        let out: Vec<_> = (0..ranks)
            .map(|rank| case.output::<T>(&format!("result {call} of rank {rank}"), [len]))
            .collect();
        launch(case, &x, &out)?;
        for out in &out {
            let sum = |[i]: [usize; 1]| x.iter().map(|x| x[i].number().to_f64()).sum::<f64>();
            case.expect(out, sum, close::<T>())?;
        }
    }
    Ok(())
}

#[case(sizes(ranks = [2, 8], len = [12000, 9000], ctas = [2, 1]))]
fn all_reduce_two_shot(case: &mut Case) -> CaseResult {
    two_shot_case::<WARPS>(case, 1)
}

/// As [`all_reduce_one_shot_tuned`].
#[case(sizes(ranks = [4, 8], len = [9000, 3000], ctas = [1, 1]))]
fn all_reduce_two_shot_tuned(case: &mut Case) -> CaseResult {
    two_shot_case::<16>(case, 2)
}

fn two_shot_case<const WARPS: usize>(case: &mut Case, accesses: usize) -> CaseResult {
    let (ranks, len, ctas) = (case.ranks(), case.size("len"), case.size("ctas"));
    let form = Form {
        ranks,
        warps: WARPS,
        accesses,
        is_aligned: true,
    };
    let shared = Staging::<bf16>::new(case, ctas)?;
    all_reduce_case::<bf16>(case, 2, |case, x, out| {
        case.launch_on_ranks(fixed(two_shot::<bf16, WARPS>, form), grid(ctas), |rank| {
            (
                &x[rank],
                &out[rank],
                (
                    shared.chunks.part(rank),
                    shared.chunks.peers(rank),
                    shared.counts.part(rank),
                    shared.counts.peers(rank),
                    shared.epochs.part(rank),
                    rank as i32,
                    (LIMIT, shared.late.part(rank)),
                ),
                len as i64,
            )
        })
    })
}

/// Three calls, so that slots are used again.
fn packets_case<T: Float + DeviceElement, const WARPS: usize>(case: &mut Case) -> CaseResult {
    let (ranks, len) = (case.ranks(), case.size("len"));
    let form = Form {
        ranks,
        warps: WARPS,
        accesses: case.size("words"),
        is_aligned: false,
    };
    let words = len * size_of::<T>() / 4;
    let ctas = words.div_ceil(form.packets());
    let x: Vec<_> = (0..ranks)
        .map(|rank| case.normal::<T>(&format!("x of rank {rank}"), [len]))
        .collect();
    let staging = case.shared::<u64>(ctas * PACKET_SLOTS * ranks * PACKETS)?;
    let (epochs, late) = (case.shared::<i32>(ctas)?, case.shared::<i64>(1)?);
    for call in 0..3 {
        let of = |rank| format!("result {call} of rank {rank}");
        let out: Vec<_> = (0..ranks)
            .map(|rank| case.output::<T>(&of(rank), [ranks * len]))
            .collect();
        case.launch_on_ranks(fixed(packets::<T, WARPS>, form), grid(ctas), |rank| {
            (
                &x[rank],
                &out[rank],
                (
                    staging.part(rank),
                    staging.peers(rank),
                    epochs.part(rank),
                    rank as i32,
                    (LIMIT, late.part(rank)),
                ),
                words as i32,
                0,
                words as i32,
            )
        })?;
        for out in &out {
            case.expect(out, |[i]: [usize; 1]| x[i / len][i % len], Exactly)?;
        }
    }
    Ok(())
}

#[case(sizes(ranks = [2, 8], len = [1030, 300], words = [1, 1]))]
fn all_gather_packets_bf16(case: &mut Case) -> CaseResult {
    packets_case::<bf16, WARPS>(case)
}

#[case(sizes(ranks = [4], len = [130], words = [2]))]
fn all_gather_packets_f32(case: &mut Case) -> CaseResult {
    packets_case::<f32, WARPS>(case)
}

/// Five calls, so that slots are used again behind the one that is emptied.
fn sentinel_case<T: Float + DeviceElement, const WARPS: usize, const TWO_SHOT: bool>(
    case: &mut Case,
) -> CaseResult {
    let (ranks, len) = (case.ranks(), case.size("len"));
    let words = len * size_of::<T>() / 4;
    let form = Form {
        ranks,
        warps: WARPS,
        accesses: case.size("words"),
        is_aligned: words.is_multiple_of(4),
    };
    let of_cta = 2 * form.packets() * if TWO_SHOT { ranks } else { 1 };
    let ctas = words.div_ceil(of_cta);
    let places = ctas * SENTINEL_SLOTS * ranks * steps(TWO_SHOT) * WORDS;
    let staging = case.shared::<u64>(places)?;
    let (epochs, late) = (case.shared::<i32>(ctas * WORDS)?, case.shared::<i64>(1)?);
    all_reduce_case::<T>(case, 5, |case, x, out| {
        let kernel = fixed(sentinel_sum::<T, WARPS, TWO_SHOT>, form);
        case.launch_on_ranks(kernel, grid(ctas), |rank| {
            (
                &x[rank],
                &out[rank],
                (
                    staging.part(rank),
                    staging.peers(rank),
                    epochs.part(rank),
                    rank as i32,
                    (LIMIT, late.part(rank)),
                ),
                words as i32,
                0,
            )
        })
    })
}

#[case(sizes(ranks = [2, 3], len = [1030, 600], words = [1, 1]))]
fn all_reduce_sentinel_bf16(case: &mut Case) -> CaseResult {
    sentinel_case::<bf16, WARPS, false>(case)
}

#[case(sizes(ranks = [4], len = [301], words = [2]))]
fn all_reduce_sentinel_f32(case: &mut Case) -> CaseResult {
    sentinel_case::<f32, WARPS, false>(case)
}

#[case(sizes(ranks = [2, 3], len = [1100, 701], words = [1, 2]))]
fn all_reduce_sentinel_two_shot_f32(case: &mut Case) -> CaseResult {
    sentinel_case::<f32, WARPS, true>(case)
}

/// As [`all_reduce_one_shot_tuned`], of few bytes.
#[case(sizes(ranks = [2, 2, 4, 4, 8], len = [2064, 2062, 600, 602, 600], words = [1, 1, 1, 1, 1]))]
fn all_reduce_sentinel_tuned(case: &mut Case) -> CaseResult {
    sentinel_case::<bf16, 8, false>(case)
}

/// As [`all_reduce_one_shot_tuned`], of few bytes, in two steps.
#[case(sizes(ranks = [2, 4, 8], len = [4200, 4200, 600], words = [2, 1, 1]))]
fn all_reduce_sentinel_two_shot_tuned(case: &mut Case) -> CaseResult {
    sentinel_case::<bf16, 8, true>(case)
}
