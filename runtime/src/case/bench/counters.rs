//! Hardware counters of launches, by CUPTI.
//!
//! Each pass launches everything once more, with the next copy of the tensors, so that what is counted is as cold as what is timed. CUPTI waits for the end
//! of each kernel: nothing overlaps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::cupti::{Cupti, METRICS, Plan, STALLS, Session, sample, stall_metric};
use machine::driver::Context;

use super::waits::Waits;
use crate::backend::On;
use crate::code::PreparedLaunch;
use crate::cuda::Watchdog;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::peer::LaunchCopy;
use crate::stream::Stream;
use crate::toolchain::Image;

/// What the hardware counted of one launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The kernel with its compile-time parameters, or what the peer is called.
    pub name: String,
    /// How often it was launched to count all of it.
    pub passes: usize,
    /// Values by the name that NVIDIA gives what was counted.
    values: Vec<(String, f64)>,
    /// What was not counted: what this GPU cannot count, by NVIDIA's names.
    pub missing: Vec<String>,
    /// Where its warps waited; none of peers, and of code that the driver compiled, whose lines are not known.
    pub waits: Option<Waits>,
}

impl Counters {
    /// The value of the metric with this key (`machine::cupti::METRICS`); none where it was not counted.
    pub fn value(&self, key: &str) -> Option<f64> {
        let metric = METRICS.iter().find(|metric| metric.key == key)?;
        Some(self.of_name(metric.name)? * f64::from(metric.factor))
    }

    /// Why its warps did not issue, by NVIDIA's words: the share of their time in percent, the largest first.
    pub fn stalls(&self) -> Vec<(&'static str, f64)> {
        let share = |&(reason, _): &(&'static str, &str)| {
            Some((reason, self.of_name(&stall_metric(reason))?))
        };
        let mut all: Vec<_> = STALLS.iter().filter_map(share).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    fn of_name(&self, name: &str) -> Option<f64> {
        let found = self.values.iter().find(|(known, _)| known == name)?;
        found.1.is_finite().then_some(found.1)
    }
}

/// A piece of work that is counted by itself.
pub(in crate::case) struct Part<'a> {
    pub(in crate::case) name: String,
    pub(in crate::case) launch: LaunchCopy<'a>,
    /// The code of a single kernel, by whose lines waits are told.
    pub(in crate::case) code: Option<Reloaded>,
}

/// A launch whose code can be loaded again: what was loaded before CUPTI samples is not known to it.
pub(in crate::case) struct Reloaded {
    pub(in crate::case) image: Arc<Image>,
    /// The launch with each copy of the tensors.
    pub(in crate::case) copies: Vec<PreparedLaunch>,
}

impl Reloaded {
    /// The launch with each copy of the tensors, by code that is loaded now.
    fn launches(&self) -> Result<Vec<PreparedLaunch>> {
        let entry = self.copies[0].entry();
        let fresh = entry
            .device()
            .load(&self.image)?
            .entry(entry.shape().clone())?;
        let copies = self.copies.iter();
        Ok(copies.map(|launch| launch.with_entry(&fresh)).collect())
    }
}

/// Whether counters of this GPU can be read, before anything is timed: what CUPTI has against it.
///
/// # Errors
/// No CUPTI, or its refusal.
pub(crate) fn probe(device: &Device) -> Result<()> {
    match device.backend() {
        On::Cuda(context) => plan(context).map(|_| ()),
        On::Emulator(_) => Ok(()),
    }
}

fn plan(context: &Context) -> Result<Plan> {
    context.bind()?;
    let cupti = Cupti::get().map_err(machine::Error::NoCupti)?;
    let counters = METRICS.iter().map(|metric| metric.name.to_string());
    let stalls = STALLS.iter().map(|(reason, _)| stall_metric(reason));
    let names: Vec<String> = counters.chain(stalls).collect();
    Ok(Plan::new(cupti, context, &names)?)
}

/// The most kernels that one part launches: a library's product takes a few.
const MOST_KERNELS: usize = 16;

/// The most passes: what is counted takes some ten.
const MOST_PASSES: usize = 200;

/// Who is counted: the name, the launch, and the code whose lines are known.
pub(super) type Counted<'p, 'a> = (&'p str, &'p LaunchCopy<'a>, Option<&'p Reloaded>);

/// Counts each part; one of several kernels gives as many.
///
/// # Errors
/// A refusal of CUPTI, or what a launch ended with.
pub(super) fn count(
    parts: &[Counted<'_, '_>],
    stream: &Stream,
    (copies, limit): (usize, Duration),
) -> Result<Vec<Vec<Counters>>> {
    let On::Cuda(context) = stream.device().backend() else {
        return Ok(vec![Vec::new(); parts.len()]);
    };
    // CUPTI samples or counts, one after the other.
    let waits = parts.iter().map(|&(name, _, code)| {
        let _watchdog = Watchdog::start(name, limit + SAMPLED);
        code.map(|code| waits(context, code, stream)).transpose()
    });
    let waits: Vec<Option<Waits>> = waits.collect::<Result<_>>()?;
    let plan = plan(context)?;
    let counted = parts.iter().zip(waits).map(|(&(name, launch, _), waits)| {
        let mut session = Session::open(&plan, context, MOST_KERNELS)?;
        let mut passes = 0;
        while !session.is_done() {
            if passes == MOST_PASSES {
                return Err(Error::from(machine::cupti::Failure {
                    call: "cuptiRangeProfilerStop",
                    code: 0,
                    text: format!("`{name}`: after {passes} passes not everything is counted"),
                }));
            }
            let _watchdog = Watchdog::start(name, limit);
            session.start()?;
            launch(stream, passes % copies)?;
            stream.synchronize()?;
            session.stop()?;
            passes += 1;
        }
        let mut kernels = named(&plan, (name, passes), session.values()?);
        if let [counters] = &mut kernels[..] {
            counters.waits = waits;
        }
        Ok(kernels)
    });
    counted.collect()
}

/// How long launches are sampled, as the host sees it, and how many are put on the stream at a time.
const SAMPLED: Duration = Duration::from_millis(20);
const AT_A_TIME: usize = 4;

/// Samples launches for some time.
fn waits(context: &Context, code: &Reloaded, stream: &Stream) -> Result<Waits> {
    context.bind()?;
    let cupti = Cupti::get().map_err(machine::Error::NoCupti)?;
    let samples = sample(cupti, context, || {
        let copies = code.launches()?;
        let started = Instant::now();
        let mut turns = copies.iter().cycle();
        while started.elapsed() < SAMPLED {
            let mut some = turns.by_ref().take(AT_A_TIME);
            some.try_for_each(|launch| launch.launch(stream))?;
            stream.synchronize()?;
        }
        Ok::<(), Error>(())
    })?;
    Ok(Waits::of(cupti, &samples, code.image.bytes()))
}

/// The values of one part's kernels, of which so many more were left out.
fn named(
    plan: &Plan,
    (name, passes): (&str, usize),
    (kernels, dropped): (Vec<Vec<f64>>, usize),
) -> Vec<Counters> {
    let count = kernels.len();
    let mut missing = plan.missing.clone();
    if dropped > 0 {
        missing.push(format!("kernels beyond the first {MOST_KERNELS}"));
    }
    let all = kernels
        .into_iter()
        .enumerate()
        .map(|(at, values)| Counters {
            name: match count {
                1 => name.to_string(),
                _ => format!("{name}, kernel {} of {count}", at + 1),
            },
            passes,
            values: plan.names().map(str::to_string).zip(values).collect(),
            missing: missing.clone(),
            waits: None,
        });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_key_and_stalls_by_their_share() {
        let counters = Counters {
            values: vec![
                ("lts__t_sectors_srcunit_tex.sum".to_string(), 10.0),
                (stall_metric("wait"), 3.0),
                (stall_metric("gmma"), 60.0),
                ("dram__bytes_read.sum".to_string(), f64::NAN),
            ],
            ..Counters::default()
        };
        assert_eq!(counters.value("sm_l2_bytes"), Some(320.0));
        assert_eq!(counters.value("dram_read_bytes"), None, "it is no number");
        assert_eq!(counters.value("l2_bytes"), None);
        assert_eq!(counters.stalls(), [("gmma", 60.0), ("wait", 3.0)]);
    }
}
