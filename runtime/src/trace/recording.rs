//! The buffer of a traced launch, and the records in it.

use std::sync::Arc;

use lowering::trace::{
    HEADER_BYTES, HEADER_MARK, ID_SHIFT, Keep, PAYLOAD_BITS, Phase, RECORD_BYTES, TraceTable,
};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::launch::Grid;

/// Where a traced launch records.
pub(crate) struct TraceBuffer {
    words: Buffer<u32>,
    table: Arc<TraceTable>,
    is_modelled: bool,
}

/// What a launch recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What ids mean.
    pub table: Arc<TraceTable>,
    /// Is the time that of a model? Then each CTA begins at 0.
    pub is_modelled: bool,
    /// The CTAs that recorded, in order of the grid.
    pub ctas: Vec<CtaRecords>,
}

/// What a CTA recorded.
#[derive(Clone, Debug)]
pub struct CtaRecords {
    /// Its number in the grid.
    pub cta: u32,
    /// Its multiprocessor.
    pub sm: u32,
    /// One for each recorder that began.
    pub tracks: Vec<TrackRecords>,
}

/// What a recorder recorded.
#[derive(Clone, Debug)]
pub struct TrackRecords {
    /// Which recorder.
    pub recorder: usize,
    /// `%globaltimer`, ns, of recorder 0 (0 of others), and `%clock64` at its beginning.
    pub begin: (u64, u64),
    /// The same at its end.
    pub end: (u64, u64),
    /// Records that it made.
    pub made: u64,
    /// Those that were not kept.
    pub dropped: u64,
    /// Those that were kept, in order.
    pub records: Vec<Record>,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What happens, an index of [`TraceTable::events`].
    pub id: usize,
    /// Whether it begins or ends.
    pub phase: Phase,
    /// What comes with it, 18 bits.
    pub payload: u32,
    /// `%clock64`, as far as the 32 bits that are recorded say, cycles.
    pub clock: u64,
}

impl TraceBuffer {
    /// A buffer for a launch of so many CTAs.
    pub(crate) fn new(device: &Device, table: &Arc<TraceTable>, ctas: u64) -> Result<TraceBuffer> {
        let words = table.buffer_bytes(ctas) / size_of::<u32>() as u64;
        Ok(TraceBuffer {
            words: Buffer::zeros(device, words as usize)?,
            table: Arc::clone(table),
            is_modelled: !device.is_cuda(),
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.words.address()
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * size_of::<u32>()) as u64
    }

    /// What the launches so far have recorded, the last of them where they recorded the same places.
    pub(crate) fn read(&self, grid: Grid) -> Result<Recording> {
        let words = self.words.to_vec()?;
        let stride = self.table.stride_bytes() as usize / size_of::<u32>();
        let recorders = self.table.recorders.len();
        let of_cta = |cta: u64| {
            let first = cta as usize * recorders;
            let tracks = (0..recorders).filter_map(|recorder| {
                let words = &words[(first + recorder) * stride..][..stride];
                self.track(recorder, words)
            });
            let tracks: Vec<TrackRecords> = tracks.collect();
            (!tracks.is_empty()).then(|| CtaRecords {
                cta: cta as u32,
                sm: words[first * stride],
                tracks,
            })
        };
        Ok(Recording {
            table: Arc::clone(&self.table),
            is_modelled: self.is_modelled,
            ctas: (0..grid.ctas()).filter_map(of_cta).collect(),
        })
    }

    /// A recorder that has begun and ended.
    fn track(&self, recorder: usize, words: &[u32]) -> Option<TrackRecords> {
        if words[3] != HEADER_MARK || words[14] != HEADER_MARK {
            return None;
        }
        let double = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        let room = u64::from(self.table.options.records);
        let made = u64::from(words[12] / RECORD_BYTES);
        let dropped = made.saturating_sub(room);
        let end = (double(8), double(10));
        let first = match self.table.options.keep {
            Keep::First => 0,
            Keep::Last => dropped,
        };
        let records = &words[HEADER_BYTES as usize / size_of::<u32>()..];
        let kept = (first..first + made.min(room)).map(|number| {
            let at = (number % room) as usize * 2;
            (records[at], records[at + 1])
        });
        Some(TrackRecords {
            recorder,
            begin: (double(4), double(6)),
            end,
            made,
            dropped,
            records: decoded(kept.collect(), end.1),
        })
    }
}

/// Words as records. Their clocks have the low 32 bits alone, so that they are followed back from the end.
fn decoded(words: Vec<(u32, u32)>, end: u64) -> Vec<Record> {
    let mut later = end;
    let mut records: Vec<Record> = Vec::with_capacity(words.len());
    for (word, clock) in words.into_iter().rev() {
        later -= u64::from((later as u32).wrapping_sub(clock));
        let phase = match word >> PAYLOAD_BITS & 3 {
            0 => Phase::Begin,
            1 => Phase::End,
            _ => Phase::Instant,
        };
        records.push(Record {
            id: (word >> ID_SHIFT) as usize,
            phase,
            payload: word & ((1 << PAYLOAD_BITS) - 1),
            clock: later,
        });
    }
    records.reverse();
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_followed_back_over_a_wrap() {
        let end = 0x5_0000_0010;
        let words = vec![
            (1 << ID_SHIFT, 0xffff_fff0),
            (1 << ID_SHIFT | 1 << PAYLOAD_BITS | 7, 4),
        ];
        let records = decoded(words, end);
        assert_eq!(records[0].clock, 0x4_ffff_fff0);
        assert_eq!(
            records[1],
            Record {
                id: 1,
                phase: Phase::End,
                payload: 7,
                clock: 0x5_0000_0004
            }
        );
    }
}
