//! What a call says besides its tensors.

use tilekit::Buffer;

use super::plan::Mask;

/// Which keys a query sees, and what is done to its scores. The default is all keys, and scores times `1 / sqrt(depth)`.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// A query sees the keys up to its own place.
    pub causal: bool,
    /// How many keys before and behind its own place a query sees; none for all.
    pub window: [Option<usize>; 2],
    /// A query sees the keys of its own chunk of so many.
    pub chunk: Option<usize>,
    /// With fewer queries than keys, the first query's place is that of the first key, as in torch's `is_causal`. Otherwise the place of
    /// the last query is that of the last key, as where queries continue what is in a cache.
    pub from_first: bool,
    /// The factor of scores; `1 / sqrt(depth)` if none.
    pub scale: Option<f32>,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// A slope for each query head, which the distance of query and key is multiplied by and subtracted from the score (attention with linear biases).
    pub alibi: Option<&'a Buffer<f32>>,
    /// A logit for each query head that the sum of its exponentials has besides, without a value (attention sinks).
    pub sinks: Option<&'a Buffer<f32>>,
    /// Sequences of several lengths, one after the other in tensors of one batch.
    pub lengths: Option<Lengths<'a>>,
    /// Gradients are the same bits from run to run: the terms of dQ are added in ascending order of their keys, and not as they come. The
    /// output, dK and dV always are.
    pub deterministic: bool,
}

/// Sequences of several lengths. The offsets ascend, from 0 to the tokens of the tensors; they are on the device, where nobody checks
/// them.
#[derive(Clone, Copy)]
pub struct Lengths<'a> {
    /// Where each sequence of queries begins, and the last one ends.
    pub query_offsets: &'a Buffer<i32>,
    /// The same of keys.
    pub key_offsets: &'a Buffer<i32>,
    /// Queries of the longest sequence, or more.
    pub longest: usize,
    /// Keys of the sequence with the most, or more: a sequence with more has no gradients of those behind.
    pub longest_keys: usize,
}

impl Options<'_> {
    /// Causality is a window of no keys behind.
    pub(super) fn mask(&self) -> Mask {
        let [left, right] = self.window;
        Mask {
            left,
            right: if self.causal { Some(0) } else { right },
            chunk: self.chunk,
            from_first: self.from_first,
        }
    }
}
