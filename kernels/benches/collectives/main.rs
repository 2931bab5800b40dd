//! Times the kernels of collectives on the GPUs of a host, by graphs that all ranks replay at once.
//!
//! `cargo bench -p tilekit-kernels --bench collectives [-- RANKS [FILTER]]` prints one line for each kernel and size: µs of a call, the median of
//! graphs of many calls, and the bytes that a rank sends in a second. Each row is checked once against f64.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the program at its line, and figures are what it prints"
)]

use std::sync::Arc;

use tilekit::prelude::*;
use tilekit::{Compiler, Event, Graph, LoadedKernel, Symmetric, World};
use tilekit_kernels::collectives::one_shot::one_shot;
use tilekit_kernels::collectives::packets::packets;
use tilekit_kernels::collectives::two_shot::two_shot;
use tilekit_kernels::collectives::{Collectives, Form, MOST_RANKS, Operation};

const MOST_CTAS: usize = 528;
const SLOT_BYTES: usize = 16384;
const ROUNDS: usize = 9;
const PERIOD: usize = 1 << 16;

fn pattern(seed: u64) -> Vec<bf16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    (0..PERIOD)
        .map(|_| {
            let radius = (-2.0 * uniform().ln()).sqrt();
            bf16::from_f64(radius * (std::f64::consts::TAU * uniform()).cos())
        })
        .collect()
}

struct Bed {
    world: Arc<World>,
    events: Vec<[Event; 2]>,
    patterns: Vec<Vec<bf16>>,
    staging: Symmetric<bf16>,
    counts: Symmetric<i32>,
    epochs: Symmetric<i32>,
    packet_staging: Symmetric<u64>,
    packet_epochs: Symmetric<i32>,
}

type Launch<'a> = Box<dyn Fn(usize) -> tilekit::Result<()> + 'a>;

impl Bed {
    fn new(ranks: usize) -> Bed {
        let world = Arc::new(World::cuda(ranks).unwrap());
        let events = world.devices().iter();
        let events = events.map(|d| [Event::new(d).unwrap(), Event::new(d).unwrap()]);
        Bed {
            events: events.collect(),
            patterns: (0..ranks as u64).map(|rank| pattern(rank + 1)).collect(),
            staging: world
                .symmetric(MOST_CTAS * 4 * ranks * SLOT_BYTES / 2)
                .unwrap(),
            counts: world.symmetric(MOST_CTAS * MOST_RANKS).unwrap(),
            epochs: world.symmetric(MOST_CTAS).unwrap(),
            packet_staging: world.symmetric(MOST_CTAS * 2 * ranks * 2048).unwrap(),
            packet_epochs: world.symmetric(MOST_CTAS).unwrap(),
            world,
        }
    }

    fn ranks(&self) -> usize {
        self.world.ranks()
    }

    fn buffers(&self, len: usize) -> (Vec<Buffer<bf16>>, Vec<Buffer<bf16>>) {
        let x = self.world.devices().iter().zip(&self.patterns);
        let x = x.map(|(device, pattern)| {
            let host: Vec<bf16> = pattern.iter().copied().cycle().take(len).collect();
            Buffer::from_slice(device, &host).unwrap()
        });
        let out = self.world.devices().iter();
        let out = out.map(|device| {
            let out = Buffer::new(device, len).unwrap();
            out.fill_bytes(0xff).unwrap();
            out
        });
        (x.collect(), out.collect())
    }

    fn streams(&self) -> &[Stream] {
        self.world.streams()
    }

    fn synchronize(&self) {
        self.world.synchronize().unwrap();
    }

    /// Microseconds of a call: the median, the least and the most.
    fn time(&self, launch: &Launch<'_>, count: usize) -> [f64; 3] {
        let graphs: Vec<Graph> = (0..self.ranks())
            .map(|rank| {
                let capture = || (0..count).try_for_each(|_| launch(rank));
                self.streams()[rank].capture(capture).unwrap()
            })
            .collect();
        let replay = || {
            let of_ranks = self.streams().iter().zip(&graphs);
            of_ranks.for_each(|(stream, graph)| stream.replay(graph).unwrap());
        };
        self.time_of(count, &replay)
    }

    /// The same of work that is put on the streams of all ranks.
    fn time_of(&self, count: usize, replay: &dyn Fn()) -> [f64; 3] {
        let mut found = Vec::new();
        for _ in 0..ROUNDS {
            self.synchronize();
            let of_ranks = || self.events.iter().zip(self.streams());
            of_ranks().for_each(|([start, _], stream)| start.record(stream).unwrap());
            replay();
            of_ranks().for_each(|([_, end], stream)| end.record(stream).unwrap());
            self.synchronize();
            let of_ranks = self.events.iter();
            let of_ranks = of_ranks.map(|[a, b]| f64::from(b.milliseconds_since(a).unwrap()) * 1e3);
            found.push(of_ranks.fold(0.0, f64::max) / count as f64);
        }
        found.sort_by(f64::total_cmp);
        [found[ROUNDS / 2], found[0], found[ROUNDS - 1]]
    }

    fn check(&self, out: &[Buffer<bf16>], what: &str) {
        let first = out[0].to_vec().unwrap();
        for (rank, out) in out.iter().enumerate() {
            let got = out.to_vec().unwrap();
            assert!(got == first, "{what}: rank {rank} has other bits");
        }
        let step = (first.len() / 200_000).max(1) | 1;
        for at in (0..first.len()).step_by(step).chain([first.len() - 1]) {
            let sum: f64 = self.patterns.iter().map(|p| p[at % PERIOD].to_f64()).sum();
            let got = first[at].to_f64();
            assert!(
                (got - sum).abs() <= 4e-3 * sum.abs() + 1e-6,
                "{what}: {at}: {got} and not {sum}"
            );
        }
    }

    /// One row: launched twice by itself and checked, then timed.
    fn row(&self, what: &str, len: usize, out: &[Buffer<bf16>], launch: &Launch<'_>) {
        for _ in 0..3 {
            (0..self.ranks()).for_each(|rank| launch(rank).unwrap());
        }
        self.synchronize();
        self.check(out, what);
        let bytes = len * 2;
        let count = if bytes > 32 << 20 { 5 } else { 100 };
        let [median, least, most] = self.time(launch, count);
        self.check(out, what);
        let rate =
            bytes as f64 * 2.0 * (self.ranks() - 1) as f64 / self.ranks() as f64 / median / 1e3;
        println!(
            "{:9} KiB {what:28} {median:8.2} us ({least:.2} to {most:.2}) bus {rate:6.1} GB/s",
            bytes >> 10
        );
    }
}

fn load<H>(bed: &Bed, kernel: &tilekit::CompiledKernel<H>) -> Vec<LoadedKernel<H>> {
    let devices = bed.world.devices().iter();
    devices.map(|d| kernel.clone().load(d).unwrap()).collect()
}

fn one<const WARPS: usize>(bed: &Bed, accesses: usize, most: usize, sizes: &[usize]) {
    let form = Form {
        ranks: bed.ranks(),
        warps: WARPS,
        accesses,
        is_aligned: true,
    };
    let kernel = fixed(one_shot::<bf16, WARPS, true>, form)
        .compile(&Compiler::default())
        .unwrap();
    let kernels = load(bed, &kernel);
    for &bytes in sizes {
        let len = bytes / 2;
        let (x, out) = bed.buffers(len);
        let ctas = len.div_ceil(form.chunk::<bf16>()).min(most);
        let launch: Launch<'_> = Box::new(|rank| {
            kernels[rank].launch(
                &bed.streams()[rank],
                grid(ctas),
                (
                    &x[rank],
                    &out[rank],
                    bed.staging.part(rank),
                    bed.staging.peers(rank),
                    bed.counts.part(rank),
                    bed.counts.peers(rank),
                    bed.epochs.part(rank),
                    rank as i32,
                    len as i64,
                    0,
                    0,
                ),
            )
        });
        bed.row(&format!("one_shot {form} ctas {ctas}"), len, &out, &launch);
    }
}

fn two<const WARPS: usize>(bed: &Bed, accesses: usize, most: usize, sizes: &[usize]) {
    let form = Form {
        ranks: bed.ranks(),
        warps: WARPS,
        accesses,
        is_aligned: true,
    };
    let kernel = fixed(two_shot::<bf16, WARPS>, form)
        .compile(&Compiler::default())
        .unwrap();
    let kernels = load(bed, &kernel);
    for &bytes in sizes {
        let len = bytes / 2;
        let (x, out) = bed.buffers(len);
        let ctas = len.div_ceil(form.chunk::<bf16>() * form.ranks).min(most);
        let launch: Launch<'_> = Box::new(|rank| {
            kernels[rank].launch(
                &bed.streams()[rank],
                grid(ctas),
                (
                    &x[rank],
                    &out[rank],
                    bed.staging.part(rank),
                    bed.staging.peers(rank),
                    bed.counts.part(rank),
                    bed.counts.peers(rank),
                    bed.epochs.part(rank),
                    rank as i32,
                    len as i64,
                ),
            )
        });
        bed.row(&format!("two_shot {form} ctas {ctas}"), len, &out, &launch);
    }
}

fn few<const WARPS: usize>(bed: &Bed, accesses: usize, sizes: &[usize]) {
    let form = Form {
        ranks: bed.ranks(),
        warps: WARPS,
        accesses,
        is_aligned: true,
    };
    let kernel = fixed(packets::<bf16, WARPS, true>, form)
        .compile(&Compiler::default())
        .unwrap();
    let kernels = load(bed, &kernel);
    for &bytes in sizes {
        let (len, words) = (bytes / 2, bytes / 4);
        let ctas = words.div_ceil(WARPS * 32 * accesses);
        if ctas > MOST_CTAS {
            continue;
        }
        let (x, out) = bed.buffers(len);
        let launch: Launch<'_> = Box::new(|rank| {
            kernels[rank].launch(
                &bed.streams()[rank],
                grid(ctas),
                (
                    &x[rank],
                    &out[rank],
                    bed.packet_staging.part(rank),
                    bed.packet_staging.peers(rank),
                    bed.packet_epochs.part(rank),
                    rank as i32,
                    words as i32,
                    0,
                    0,
                ),
            )
        });
        bed.row(&format!("packets {form} ctas {ctas}"), len, &out, &launch);
    }
}

/// What a program calls, beside the time of a graph of it: all operations of the sizes that NCCL is timed at.
fn called(bed: &Bed, operation: Operation, sizes: &[usize]) {
    let ranks = bed.ranks();
    let collectives = Collectives::new(&bed.world);
    for &bytes in sizes {
        let whole = bytes / 2;
        let [of_x, of_result] = match operation {
            Operation::AllReduce => [whole, whole],
            Operation::ReduceScatter => [whole, whole / ranks],
            Operation::AllGather => [whole / ranks, whole],
            Operation::AllToAll => [whole, whole],
        };
        let ((x, _), (_, out)) = (bed.buffers(of_x), bed.buffers(of_result));
        let (x, out): (Vec<_>, Vec<_>) = (x.iter().collect(), out.iter().collect());
        let call = || {
            match operation {
                Operation::AllReduce => collectives.all_reduce(&x, &out),
                Operation::ReduceScatter => collectives.reduce_scatter(&x, &out),
                Operation::AllGather => collectives.all_gather(&x, &out),
                Operation::AllToAll => collectives.all_to_all(&x, &out),
            }
            .unwrap();
            Ok(())
        };
        call().unwrap();
        bed.world.synchronize().unwrap();
        let count = if bytes > 32 << 20 { 5 } else { 100 };
        let graph = bed
            .world
            .capture(|| (0..count).try_for_each(|_| call()))
            .unwrap();
        let replay = || bed.world.replay(&graph).unwrap();
        let [median, least, most] = bed.time_of(count, &replay);
        let plan = collectives.plan(operation, &x, &out).unwrap().unwrap();
        println!(
            "{:9} KiB {operation:?} {median:8.2} us ({least:.2} to {most:.2}) {plan}",
            bytes >> 10
        );
    }
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|w| !w.starts_with('-'))
        .collect();
    let ranks = words.first().map_or(2, |ranks| ranks.parse().unwrap());
    let filter = words.get(1).map_or("", String::as_str);
    let bed = Bed::new(ranks);
    println!("{} x {}", bed.world.devices()[0].facts().name, ranks);
    let (kib, mib) = (1 << 10, 1 << 20);
    let small = [8 * kib, 64 * kib, 256 * kib, 512 * kib, mib];
    let middle = [mib, 4 * mib, 16 * mib];
    let large = [64 * mib, 256 * mib, 1024 * mib];
    let all = [&small[..], &middle[1..], &large[..]].concat();
    if "called".contains(filter) {
        for operation in [
            Operation::AllReduce,
            Operation::AllGather,
            Operation::ReduceScatter,
        ] {
            called(&bed, operation, &all);
        }
        called(&bed, Operation::AllToAll, &[8 * kib, mib, 64 * mib]);
    }
    if "packets".contains(filter) {
        few::<8>(&bed, 1, &small);
        few::<16>(&bed, 1, &small);
        few::<16>(&bed, 2, &small);
        few::<8>(&bed, 2, &small);
    }
    if "one_shot".contains(filter) {
        one::<8>(&bed, 1, 528, &[&small[2..], &middle[1..]].concat());
        one::<16>(
            &bed,
            1,
            264,
            &[&small[2..], &middle[1..], &large[..1]].concat(),
        );
        one::<16>(&bed, 2, 264, &[&middle[..], &large[..1]].concat());
        one::<8>(&bed, 2, 264, &[&middle[..], &large[..1]].concat());
        one::<8>(&bed, 2, 528, &[&middle[1..], &large[..1]].concat());
        one::<8>(&bed, 4, 528, &[&middle[1..], &large[..1]].concat());
    }
    if "two_shot".contains(filter) {
        two::<16>(&bed, 2, 264, &[&middle[1..], &large[..1]].concat());
    }
    if "large".contains(filter) {
        one::<16>(&bed, 2, 264, &large[1..]);
        one::<8>(&bed, 4, 528, &large[1..]);
    }
}
