//! Timing launches.

use std::time::Instant;

use crate::device::Backend;
use crate::error::Result;
use crate::launch::PreparedLaunch;
use crate::stream::Stream;

/// How a launch is timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchOptions {
    /// How many samples are taken; the median is what counts.
    pub samples: usize,
    /// How long a sample is at least, in milliseconds: short kernels are launched several times back to back, so that
    /// the clock's resolution and the launch itself do not show.
    pub sample_ms: f32,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        BenchOptions {
            samples: 21,
            sample_ms: 1.0,
        }
    }
}

/// What timing a launch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Milliseconds of one launch, of each sample, in the order taken.
    pub samples_ms: Vec<f32>,
    /// Launches in a sample, back to back.
    pub launches_per_sample: usize,
}

impl Timing {
    /// The median of the samples, in milliseconds.
    pub fn median_ms(&self) -> f32 {
        let mut sorted = self.samples_ms.clone();
        sorted.sort_by(f32::total_cmp);
        match sorted.len() {
            0 => f32::NAN,
            count => f32::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
        }
    }

    /// The fastest sample, in milliseconds.
    pub fn fastest_ms(&self) -> f32 {
        self.samples_ms
            .iter()
            .copied()
            .fold(f32::INFINITY, f32::min)
    }
}

/// Times `launch` on `stream`: by events on a GPU, by the host's clock on the emulator.
pub(super) fn time(
    launch: &PreparedLaunch,
    stream: &Stream,
    options: BenchOptions,
) -> Result<Timing> {
    // The first launch pays for what is loaded lazily.
    sample(launch, stream, 1)?;
    let once = sample(launch, stream, 3)?;
    let launches_per_sample = (options.sample_ms / once.max(1e-4))
        .ceil()
        .clamp(1.0, 10_000.0) as usize;
    let samples_ms = (0..options.samples)
        .map(|_| sample(launch, stream, launches_per_sample))
        .collect::<Result<_>>()?;
    Ok(Timing {
        samples_ms,
        launches_per_sample,
    })
}

/// Milliseconds per launch of `launches` launches back to back.
fn sample(launch: &PreparedLaunch, stream: &Stream, launches: usize) -> Result<f32> {
    match stream.device().backend() {
        Backend::Cuda(_) => {
            let start = stream.record()?;
            (0..launches).try_for_each(|_| launch.launch(stream))?;
            let end = stream.record()?;
            stream.synchronize()?;
            Ok(end.milliseconds_since(&start)? / launches as f32)
        }
        Backend::Emulator(_) => {
            let start = Instant::now();
            (0..launches).try_for_each(|_| launch.launch(stream))?;
            Ok(start.elapsed().as_secs_f32() * 1e3 / launches as f32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        let timing = |samples_ms: &[f32]| Timing {
            samples_ms: samples_ms.to_vec(),
            launches_per_sample: 1,
        };
        assert!((timing(&[4.0, 1.0, 2.0, 3.0]).median_ms() - 2.5).abs() < 1e-6);
        assert!((timing(&[9.0, 1.0, 2.0]).median_ms() - 2.0).abs() < 1e-6);
        assert!((timing(&[9.0, 1.0, 2.0]).fastest_ms() - 1.0).abs() < 1e-6);
        assert!(timing(&[]).median_ms().is_nan());
    }
}
