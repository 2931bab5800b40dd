//! The options of a call.

use tilekit::Buffer;

/// Which tokens of the sequence a rank has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Rank r has the tokens from r · tokens on.
    #[default]
    Contiguous,
    /// The sequence is cut into two chunks for each of P ranks, of which rank r has chunk r and behind it chunk 2 P - 1 - r, so that all ranks have equally much to do under a causal mask.
    ZigZag,
}

impl Placement {
    /// Chunks of contiguous tokens that a rank has.
    pub(super) fn chunks(self) -> usize {
        match self {
            Placement::Contiguous => 1,
            Placement::ZigZag => 2,
        }
    }
}

/// The mask, where tokens are, and the changes of scores. The default is no mask, contiguous tokens, and scores times `1 / sqrt(depth)`.
///
/// One kernel sends and multiplies ([`ring_attention`](super::ring_attention())) where there are neither a window nor a cap nor sinks; else K and V are gathered first, as for gradients.
#[derive(Clone, Copy, Default)]
pub struct RingOptions<'a> {
    /// A query sees the keys up to its own position in the whole sequence.
    pub causal: bool,
    /// How many keys before and after its own position in the whole sequence a query sees; `None` for all.
    pub window: [Option<usize>; 2],
    /// Which tokens a rank has.
    pub placement: Placement,
    /// The factor of scores; `1 / sqrt(depth)` if `None`.
    pub scale: Option<f32>,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// On each rank a logit for each query head, whose exponential is added to the softmax's sum and has no value (attention sinks): the same on all ranks.
    pub sinks: Option<&'a [&'a Buffer<f32>]>,
    /// Gradients of Q have the same bits in every run; all other results always do.
    pub deterministic: bool,
}

impl RingOptions<'_> {
    /// Whether the order of tokens matters.
    pub(super) fn is_masked(&self) -> bool {
        self.causal || self.window != [None; 2]
    }

    /// Whether the fused kernel has what they ask for.
    pub(super) fn are_fused(&self) -> bool {
        self.window == [None; 2] && self.softcap.is_none() && self.sinks.is_none()
    }
}
