//! The options of a call.

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

/// The mask, where tokens are, and the scale of scores. The default is no mask, contiguous tokens, and scores times `1 / sqrt(depth)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RingOptions {
    /// A query sees the keys up to its own position in the whole sequence.
    pub causal: bool,
    /// Which tokens a rank has.
    pub placement: Placement,
    /// The factor of scores; `1 / sqrt(depth)` if `None`.
    pub scale: Option<f32>,
}
