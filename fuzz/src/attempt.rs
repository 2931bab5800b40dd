//! One text, read with panics caught and time measured.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::surface::{Answer, Surface};

/// How a reader went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It panicked, at this place of TileKit, with this message.
    Panicked(String, String),
    /// It took this long, all of it at work.
    Slow(Duration),
}

impl Failure {
    /// Are these probably the same bug?
    pub fn is_like(&self, other: &Failure) -> bool {
        match (self, other) {
            (Failure::Panicked(place, said), Failure::Panicked(at, text)) => {
                place == at && first_words(said) == first_words(text)
            }
            (Failure::Slow(_), Failure::Slow(_)) => true,
            _ => false,
        }
    }
}

/// What a panic says up to its first number: a bug in a pass names the pass, and all of them panic in one place.
fn first_words(said: &str) -> &str {
    let line = said.lines().next().unwrap_or_default();
    line.split(|c: char| c.is_ascii_digit())
        .next()
        .unwrap_or_default()
}

thread_local! {
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Reads `text`; what takes longer than `limit` fails, by the clock and in processor time of this process: a machine that is busy with something else
/// makes no text slow.
pub fn attempt(surface: Surface, text: &str, limit: Duration) -> Result<Answer, Failure> {
    keep_panics();
    let (start, worked) = (Instant::now(), processor_time());
    let answer = panic::catch_unwind(AssertUnwindSafe(|| surface.read(text)));
    let took = start.elapsed().min(processor_time().saturating_sub(worked));
    let answer = answer.map_err(|_| {
        let (place, said) = PANIC.take().unwrap_or_default();
        Failure::Panicked(place, said)
    })?;
    if took > limit {
        return Err(Failure::Slow(took));
    }
    Ok(answer)
}

/// What all threads of this process have worked: the emulator runs a launch on several.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Panics are kept instead of printed: a pass catches those below it and panics with all of the kernel.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let said = info.payload_as_str().unwrap_or("a panic without a message");
            PANIC.with_borrow_mut(|kept| {
                // The first panic is the cause; what panics because of it says more of the kernel and less of the bug.
                let is_cause = kept.is_none() || !said.starts_with("bug in pass");
                if is_cause {
                    *kept = Some((place, said.to_owned()));
                }
            });
        }));
    });
}
