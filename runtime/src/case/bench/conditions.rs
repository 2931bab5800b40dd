//! What a GPU is like while it is timed: clocks, power, temperature, and what holds its clocks back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use machine::nvml::{Managed, Moment, THROTTLES};

/// What a GPU was like while something ran on it, back to back or sustained: the management library was asked again and again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    moments: Vec<Moment>,
    /// The power that the GPU may take, watts; none where nothing says it.
    pub power_limit_watts: Option<u32>,
}

impl Conditions {
    /// How often it was asked.
    pub fn moments(&self) -> usize {
        self.moments.len()
    }

    /// The lowest, the median and the highest clock of its multiprocessors, MHz.
    pub fn sm_mhz(&self) -> Option<[u32; 3]> {
        self.range(|moment| moment.sm_mhz)
    }

    /// The same of its memory.
    pub fn memory_mhz(&self) -> Option<[u32; 3]> {
        self.range(|moment| moment.memory_mhz)
    }

    /// The same of its power, watts.
    pub fn watts(&self) -> Option<[u32; 3]> {
        let watts = |moment: &Moment| moment.milliwatts.map(|power| (power + 500) / 1000);
        self.range(watts)
    }

    /// The same of its temperature, °C.
    pub fn celsius(&self) -> Option<[u32; 3]> {
        self.range(|moment| moment.celsius)
    }

    /// What held its clocks back, each with the share of those moments at which it did that the driver gave reasons of; none where it gave none at all.
    pub fn throttles(&self) -> Option<Vec<(&'static str, f64)>> {
        let reasons: Vec<_> = self
            .moments
            .iter()
            .filter_map(|moment| moment.reasons)
            .collect();
        if reasons.is_empty() {
            return None;
        }
        let share = |bit| {
            let held = reasons.iter().filter(|reasons| reasons.has(bit)).count();
            held as f64 / reasons.len() as f64
        };
        let all = THROTTLES.iter().map(|&(bit, name)| (name, share(bit)));
        Some(all.filter(|(_, share)| *share > 0.0).collect())
    }

    fn range(&self, of: impl Fn(&Moment) -> Option<u32>) -> Option<[u32; 3]> {
        let mut all: Vec<u32> = self.moments.iter().filter_map(of).collect();
        all.sort_unstable();
        Some([*all.first()?, all[all.len() / 2], *all.last()?])
    }
}

/// Asks the management library while somebody is at work, on a thread of its own.
pub(super) struct Sampler {
    at_work: Arc<AtomicUsize>,
    /// None when it was joined.
    thread: Option<JoinHandle<Vec<(usize, Moment)>>>,
    power_limit_watts: Option<u32>,
}

/// Between two questions: a question takes a fraction of it.
const INTERVAL: Duration = Duration::from_millis(10);

/// Nobody is at work.
const IDLE: usize = usize::MAX;
/// Nobody will be.
const OVER: usize = usize::MAX - 1;

impl Sampler {
    /// Of GPU number `ordinal`; none where nothing says its clocks.
    pub(super) fn start(ordinal: usize) -> Option<Sampler> {
        let managed = Managed::of(ordinal).ok()?;
        let at_work = Arc::new(AtomicUsize::new(IDLE));
        let power_limit_watts = managed.power_limit_watts;
        let thread = {
            let at_work = Arc::clone(&at_work);
            thread::spawn(move || sample(&managed, &at_work))
        };
        Some(Sampler {
            at_work,
            thread: Some(thread),
            power_limit_watts,
        })
    }

    /// Ends the thread, and gives what it has seen.
    fn join(&mut self) -> Vec<(usize, Moment)> {
        self.at_work.store(OVER, Ordering::Release);
        let thread = self.thread.take();
        thread.map_or_else(Vec::new, |thread| thread.join().unwrap_or_default())
    }

    /// Contestant number `at` is at work until what this gives is dropped.
    pub(super) fn watch(&self, at: usize) -> Watch<'_> {
        self.at_work.store(at, Ordering::Release);
        Watch(&self.at_work)
    }

    /// The conditions of each of so many contestants.
    pub(super) fn end(mut self, contestants: usize) -> Vec<Option<Conditions>> {
        let all = self.join();
        let of = |at: usize| {
            let moments = all.iter().filter(|(who, _)| *who == at);
            Some(Conditions {
                moments: moments.map(|(_, moment)| *moment).collect(),
                power_limit_watts: self.power_limit_watts,
            })
        };
        (0..contestants).map(of).collect()
    }
}

/// A failure of what is timed ends the questions too.
impl Drop for Sampler {
    fn drop(&mut self) {
        self.join();
    }
}

/// Somebody is at work.
pub(super) struct Watch<'s>(&'s AtomicUsize);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.store(IDLE, Ordering::Release);
    }
}

/// Who was at work at which moments, until it is over. A moment at which somebody else began counts for nobody.
fn sample(managed: &Managed, at_work: &AtomicUsize) -> Vec<(usize, Moment)> {
    let mut all = Vec::new();
    loop {
        thread::sleep(INTERVAL);
        match at_work.load(Ordering::Acquire) {
            OVER => return all,
            IDLE => {}
            who => {
                let moment = managed.moment();
                if at_work.load(Ordering::Acquire) == who {
                    all.push((who, moment));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::nvml::Reasons;

    use super::*;

    fn moment(sm_mhz: u32, milliwatts: u32, reasons: u64) -> Moment {
        Moment {
            sm_mhz: Some(sm_mhz),
            milliwatts: Some(milliwatts),
            reasons: Some(Reasons(reasons)),
            ..Moment::default()
        }
    }

    #[test]
    fn moments_are_summed_up_and_idling_is_no_throttle() {
        let conditions = Conditions {
            moments: vec![
                moment(1980, 300_400, 0x1),
                moment(1755, 699_600, 0x4),
                moment(1665, 700_000, 0x4 | 0x20),
                moment(1700, 690_000, 0),
            ],
            power_limit_watts: Some(700),
        };
        assert_eq!(conditions.sm_mhz(), Some([1665, 1755, 1980]));
        assert_eq!(conditions.watts(), Some([300, 700, 700]));
        assert_eq!(conditions.celsius(), None);
        let throttles = [("the power limit", 0.5), ("heat", 0.25)];
        assert_eq!(conditions.throttles().as_deref(), Some(&throttles[..]));
        assert_eq!(Conditions::default().throttles(), None);
    }
}
