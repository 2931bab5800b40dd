//! What launches write that may still run when the next one on their stream begins.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::kernel::overlap;
use crate::launch::ParameterBlock;

/// The buffers that launches write which the next one on the stream may overlap (programmatic dependent launch).
///
/// Such a launch may begin before the one in front of it has waited for those before that, so that all of them count, back
/// to the last one that waited to begin.
#[derive(Default)]
pub(crate) struct InFlight {
    launches: Mutex<Launches>,
}

/// Launches that may still run.
#[derive(Default)]
struct Launches {
    /// There are any.
    any: bool,
    written: Vec<Range<u64>>,
}

impl InFlight {
    /// Takes note of the next launch. Says whether it overlaps one that may still run.
    ///
    /// # Errors
    /// [`Error::ReadonlyWrittenBefore`] if it overlaps one that writes what its kernel reads past the coherent cache.
    pub(crate) fn next(
        &self,
        kernel: &str,
        overlaps_previous: bool,
        parameters: &ParameterBlock,
    ) -> Result<bool> {
        let mut launches = self.launches();
        let Launches { any, written } = &mut *launches;
        let overlaps = std::mem::replace(any, true) && overlaps_previous;
        if overlaps_previous {
            let mut readonly = parameters.readonly();
            let is_written = |read: &Range<u64>| written.iter().any(|w| overlap(read, w));
            if let Some((index, _)) = readonly.find(|(_, read)| is_written(read)) {
                return Err(Error::ReadonlyWrittenBefore {
                    kernel: kernel.to_string(),
                    argument: index + 1,
                });
            }
        } else {
            written.clear();
        }
        for (_, buffer) in parameters.written() {
            let is_known = |w: &Range<u64>| w.start <= buffer.start && buffer.end <= w.end;
            if !buffer.is_empty() && !written.iter().any(is_known) {
                written.push(buffer);
            }
        }
        Ok(overlaps)
    }

    /// All launches are complete, or will be before the next one begins.
    pub(crate) fn end(&self) {
        *self.launches() = Launches::default();
    }

    /// Does `work`, whose launches are recorded and not in flight; the first of them follows nothing.
    pub(crate) fn apart<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = std::mem::take(&mut *self.launches());
        let done = work();
        *self.launches() = before;
        done
    }

    fn launches(&self) -> MutexGuard<'_, Launches> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch that reads one buffer and writes another, each of 64 bytes.
    fn block(read: u64, write: u64) -> ParameterBlock {
        let mut block = ParameterBlock::new();
        block.push_buffer(read, 64);
        block.push_buffer(write, 64);
        block.set_roles(0b01, 0b10);
        block
    }

    #[test]
    fn launches_in_flight_count_back_to_one_that_waited() {
        let stream = InFlight::default();
        let next = |overlaps, read, write| {
            let next = stream.next("k", overlaps, &block(read, write));
            next.map_or_else(|e| e.to_string(), |_| "goes".to_owned())
        };
        assert_eq!(next(false, 0x1000, 0x2000), "goes");
        assert_eq!(next(true, 0x1000, 0x3000), "goes");
        assert!(next(true, 0x2000, 0x4000).contains("argument 1 of `k`"));
        assert!(next(true, 0x303f, 0x4000).contains("argument 1 of `k`"));
        assert_eq!(next(true, 0x3040, 0x4000), "goes");
        assert_eq!(next(false, 0x2000, 0x5000), "goes");
        assert_eq!(next(true, 0x2000, 0x5000), "goes");
    }

    #[test]
    fn a_launch_overlaps_what_may_still_run() {
        let stream = InFlight::default();
        let next = |overlaps| stream.next("k", overlaps, &block(0x1000, 0x2000)).unwrap();
        assert!(!next(true), "nothing is in front of it");
        assert!(next(true) && !next(false) && next(true));
        assert!(!stream.apart(|| next(true)) && next(true));
        stream.end();
        assert!(!next(true), "nothing runs");
    }

    #[test]
    fn recorded_and_complete_launches_are_not_in_flight() {
        let stream = InFlight::default();
        let next = |overlaps, read, write| stream.next("k", overlaps, &block(read, write));
        next(true, 0x1000, 0x2000).unwrap();
        stream.apart(|| {
            next(true, 0x2000, 0x3000).expect("the first of a graph follows nothing");
            next(true, 0x3000, 0x4000).expect_err("the second one follows the first");
        });
        next(true, 0x3000, 0x4000).expect("nothing of the graph runs");
        next(true, 0x2000, 0x5000).expect_err("what ran before it still does");
        stream.end();
        next(true, 0x2000, 0x5000).expect("nothing runs");
    }
}
