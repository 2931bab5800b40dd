//! Device and host time of a call.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tilekit::prelude::*;
use tilekit::{Event, Graph};

/// Bytes that the sets of a row exceed together: L2 has 50 MiB, and some lines survive a set of its size.
pub(crate) const BEYOND_L2: usize = 200 << 20;
const ROUNDS: usize = 15;
/// Calls whose host time is taken together: as many as a stream holds without waiting for the device.
const QUEUED: usize = 32;
/// Device time that one round of calls back to back takes at least, in µs.
const BUSY_US: f64 = 2000.0;

/// What a single call comes after, so that other calls' power does not set its clock.
const REST: Duration = Duration::from_millis(3);
/// Steps of [`spin`], some 200 µs: longer than the host needs to start a call.
const SPINS: i32 = 80_000;

/// Keeps the device busy while the host puts work behind it.
#[kernel(warps = 1)]
fn spin(end: Ptr<f32>, steps: i32) {
    let mut x = scalar(0.0f32);
    for _ in range(0, steps) {
        x = x * 0.5 + 1.0;
    }
    end.store(x);
}

/// Medians of a call, in µs.
pub(crate) struct Times {
    /// From the end of the work in front of a call to its own end.
    pub(crate) single: f64,
    pub(crate) back_to_back: f64,
    /// What the calling thread spends, when the device does not hold it up.
    pub(crate) host: f64,
}

/// How many sets of so many bytes exceed L2.
pub(crate) fn sets(bytes: usize) -> usize {
    (BEYOND_L2 / bytes.max(1) + 1).clamp(2, 64)
}

/// The call on each set of buffers, timed; each must have run once.
pub(crate) fn time<S>(
    device: &Device,
    stream: &Stream,
    sets: &[S],
    call: impl Fn(&S, &Stream),
) -> Times {
    let graphs: Vec<Graph> = sets
        .iter()
        .map(|set| {
            let capture = || {
                call(set, stream);
                Ok(())
            };
            stream.capture(capture).unwrap()
        })
        .collect();
    let [start, end] = [(); 2].map(|()| Event::new(device).unwrap());
    let device_us = |work: &dyn Fn()| {
        start.record(stream).unwrap();
        work();
        end.record(stream).unwrap();
        f64::from(end.milliseconds_since(&start).unwrap()) * 1e3
    };
    let mut next = graphs.iter().cycle();
    let ahead = spin.compile(&Compiler::default()).unwrap();
    let ahead = ahead.load(device).unwrap();
    let sink = Buffer::<f32>::zeros(device, 1).unwrap();
    let mut single = || {
        let graph = next.next().unwrap();
        stream.synchronize().unwrap();
        sleep(REST);
        ahead.launch(stream, 1, (&sink, SPINS)).unwrap();
        device_us(&|| stream.replay(graph).unwrap())
    };
    let (mut singles, mut rates, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    let rough = single().min(single());
    let turns = (BUSY_US / rough / graphs.len() as f64).ceil() as usize;
    let many = stream
        .capture(|| {
            for _ in 0..turns {
                for set in sets {
                    call(set, stream);
                }
            }
            Ok(())
        })
        .unwrap();
    for _ in 0..ROUNDS {
        singles.push(single());
        stream.synchronize().unwrap();
        rates.push(device_us(&|| stream.replay(&many).unwrap()) / (turns * graphs.len()) as f64);
        stream.synchronize().unwrap();
        let from = Instant::now();
        for _ in 0..QUEUED {
            call(&sets[0], stream);
        }
        hosts.push(from.elapsed().as_secs_f64() * 1e6 / QUEUED as f64);
    }
    Times {
        single: median(singles),
        back_to_back: median(rates),
        host: median(hosts),
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
