//! The options of a call.

use tilekit::Buffer;

use super::dropout::Dropout;
use super::plan::Mask;

/// The mask and the changes of scores. The default is no mask, and scores times `1 / sqrt(depth)`.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// A query sees the keys up to its own position.
    pub causal: bool,
    /// How many keys before and after its own position a query sees; `None` for all.
    pub window: [Option<usize>; 2],
    /// A query sees the keys of its own chunk of so many.
    pub chunk: Option<usize>,
    /// With fewer queries than keys, the first query has the first key's position, as in torch's `is_causal`. Otherwise the last query has
    /// the last key's position, as where queries continue a cache. By the positions of `alibi` and of modifiers it always has, so that those take no other number of queries
    /// than of keys beside this.
    pub from_first: bool,
    /// The factor of scores; `1 / sqrt(depth)` if `None`.
    pub scale: Option<f32>,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// A slope for each query head: the slope times the distance of query and key is subtracted from the score (attention with linear biases).
    pub alibi: Option<&'a Buffer<f32>>,
    /// A logit for each query head, whose exponential is added to the softmax's sum and has no value (attention sinks).
    pub sinks: Option<&'a Buffer<f32>>,
    /// Dropout of weights.
    pub dropout: Option<Dropout>,
    /// Sequences of several lengths, concatenated in tensors of one batch.
    pub lengths: Option<Lengths<'a>>,
    /// Gradients have the same bits in every run: the terms of dQ are added in ascending order of keys. The output, dK and dV always
    /// do.
    pub deterministic: bool,
}

/// Sequences of several lengths. The offsets ascend, from 0 to the tokens of the tensors; they are on the device, and are not
/// checked.
///
/// Each sequence keeps to itself: its results do not depend on what the others hold, NaN and infinity included.
#[derive(Clone, Copy)]
pub struct Lengths<'a> {
    /// Where each sequence of queries begins, and where the last one ends.
    pub query_offsets: &'a Buffer<i32>,
    /// Where each sequence of keys begins, and where the last one ends.
    pub key_offsets: &'a Buffer<i32>,
    /// Queries of the longest sequence, or more.
    pub longest: usize,
    /// Keys of the longest sequence, or more. Keys past this number get no gradients.
    pub longest_keys: usize,
}

impl Options<'_> {
    /// Causality is a window of no keys after the position.
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
