//! What a case of attention is besides its sizes: mask, scores, dropout, and how its tensors lie.

use tilekit::prelude::*;

use super::blocks::lists::BlockKind;
use super::dropout::Dropout;
use super::inputs::Inputs;
use super::plan::Mask;

/// The properties of a case besides its sizes.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) mask: Mask,
    pub(super) scores: Scores,
    pub(super) has_sinks: bool,
    pub(super) dropout: Option<Dropout>,
    /// Concatenated sequences of several lengths, two of which have no queries or no keys.
    pub(super) is_ragged: bool,
    /// The order in memory is batch, tokens, heads, depth.
    pub(super) tokens_first: bool,
    /// How a block of queries sees a block of keys, of 128 each, by batch, head and their numbers.
    pub(super) blocks: Option<fn([usize; 4]) -> BlockKind>,
    /// Normal Q and K are [`spread`](Setup::spread), others are not.
    pub(super) inputs: Inputs,
    /// Standard deviation of Q; that of a score is its product with that of K.
    pub(super) spread: f64,
}

/// The change of scores.
#[derive(Clone, Copy)]
pub(super) enum Scores {
    Plain,
    Softcap(f64),
    Alibi,
}

impl Setup {
    /// The tolerance of outputs, which are rounded by as much as `absolute`, and of LSE. `tanh.approx` has an error of 2^-11 of the cap.
    pub(super) fn tolerances(self, absolute: f64) -> [Tolerance; 2] {
        let of_cap = match self.scores {
            Scores::Softcap(cap) => cap / 2048.0,
            Scores::Plain | Scores::Alibi => 0.0,
        };
        let of_out = Close {
            relative: 8e-3,
            absolute: absolute + 2.0 * of_cap,
        };
        let of_lse = Close {
            relative: 1e-5,
            absolute: 1e-4 + of_cap,
        };
        [of_out, of_lse]
    }
}

/// No mask, and no change of scores.
pub(super) const FULL: Setup = Setup {
    mask: Mask {
        left: None,
        right: None,
        chunk: None,
        from_first: false,
    },
    scores: Scores::Plain,
    has_sinks: false,
    dropout: None,
    is_ragged: false,
    tokens_first: false,
    blocks: None,
    inputs: Inputs::Normal,
    spread: 1.0,
};

/// A causal mask.
pub(super) const CAUSAL: Setup = Setup {
    mask: Mask {
        right: Some(0),
        ..FULL.mask
    },
    ..FULL
};

/// A window, and the order batch, tokens, heads, depth.
pub(super) const WINDOW: Setup = Setup {
    mask: Mask {
        left: Some(70),
        right: Some(9),
        ..FULL.mask
    },
    tokens_first: true,
    ..FULL
};
