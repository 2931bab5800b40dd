//! Times the kernels of collectives on the GPUs of a host, by graphs that all ranks replay at once.
//!
//! `cargo bench -p tilekit-kernels --bench collectives [-- RANKS [FILTER]]` prints one line for each kernel and size: µs of a call, the median of
//! graphs of many calls, and the bytes that a rank sends in a second. Each row is checked once against f64.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the program at its line, and figures are what it prints"
)]

use tilekit::prelude::*;
use tilekit::{Compiler, Event, Graph, LoadedKernel, Symmetric, World};
use tilekit_kernels::collectives::one_shot::one_shot;
use tilekit_kernels::collectives::packets::packets;
use tilekit_kernels::collectives::two_shot::two_shot;
use tilekit_kernels::collectives::{Form, MOST_RANKS};

const MOST_CTAS: usize = 132;
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
    world: World,
    streams: Vec<Stream>,
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
        let world = World::cuda(ranks).unwrap();
        let streams = world.devices().iter().map(|d| Stream::new(d).unwrap());
        let streams: Vec<_> = streams.collect();
        let events = world.devices().iter();
        let events = events.map(|d| [Event::new(d).unwrap(), Event::new(d).unwrap()]);
        Bed {
            events: events.collect(),
            streams,
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

    fn synchronize(&self) {
        self.streams.iter().for_each(|s| s.synchronize().unwrap());
    }

    /// Microseconds of a call: the median, the least and the most.
    fn time(&self, launch: &Launch<'_>, count: usize) -> [f64; 3] {
        let graphs: Vec<Graph> = (0..self.ranks())
            .map(|rank| {
                let capture = || (0..count).try_for_each(|_| launch(rank));
                self.streams[rank].capture(capture).unwrap()
            })
            .collect();
        let mut found = Vec::new();
        for _ in 0..ROUNDS {
            self.synchronize();
            for rank in 0..self.ranks() {
                self.events[rank][0].record(&self.streams[rank]).unwrap();
                self.streams[rank].replay(&graphs[rank]).unwrap();
                self.events[rank][1].record(&self.streams[rank]).unwrap();
            }
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
                &bed.streams[rank],
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
                &bed.streams[rank],
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
    let kernel = fixed(packets::<bf16, WARPS>, form)
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
                &bed.streams[rank],
                grid(ctas),
                (
                    &x[rank],
                    &out[rank],
                    bed.packet_staging.part(rank),
                    bed.packet_staging.peers(rank),
                    bed.packet_epochs.part(rank),
                    rank as i32,
                    words as i32,
                ),
            )
        });
        bed.row(&format!("packets {form} ctas {ctas}"), len, &out, &launch);
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
    if "packets".contains(filter) {
        few::<8>(&bed, 1, &small);
        few::<16>(&bed, 1, &small);
        few::<16>(&bed, 2, &small);
        few::<16>(&bed, 4, &small);
    }
    if "one_shot".contains(filter) {
        one::<8>(&bed, 1, 132, &small);
        one::<16>(&bed, 1, 132, &[&small[2..], &middle[1..]].concat());
        one::<16>(&bed, 2, 132, &[&middle[..], &large[..1]].concat());
        one::<8>(&bed, 2, 132, &[&middle[..], &large[..1]].concat());
        one::<16>(&bed, 2, 64, &[4 * mib, 64 * mib]);
    }
    if "two_shot".contains(filter) {
        two::<16>(&bed, 2, 132, &[&middle[..], &large[..1]].concat());
    }
    if "large".contains(filter) {
        one::<16>(&bed, 2, 132, &large[1..]);
        two::<16>(&bed, 2, 132, &large[1..]);
    }
}
