//! Which keys a query sees, and how scores change, drawn at random.

use proptest::prelude::*;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    pub(crate) causal: bool,
    pub(crate) window: [Option<usize>; 2],
    pub(crate) chunk: Option<usize>,
    pub(crate) from_first: bool,
}

impl Mask {
    pub(crate) const NONE: Mask = Mask {
        causal: false,
        window: [None; 2],
        chunk: None,
        from_first: false,
    };

    pub(crate) fn any() -> impl Strategy<Value = Mask> {
        let side = || prop_oneof![2 => Just(None), 1 => (0..200_usize).prop_map(Some)];
        let chunk = prop_oneof![4 => Just(None), 1 => (1..200_usize).prop_map(Some)];
        (any::<bool>(), [side(), side()], chunk, any::<bool>()).prop_map(
            |(causal, window, chunk, from_first)| Mask {
                causal,
                // Causality is a window of no keys behind.
                window: if causal { [window[0], None] } else { window },
                chunk,
                // Chunks count from the first key.
                from_first: from_first && chunk.is_none(),
            },
        )
    }

    /// Whether a query at a position sees a key.
    pub(crate) fn sees(&self, place: i64, key: i64) -> bool {
        let [left, right] = self.window;
        let right = if self.causal { Some(0) } else { right };
        let same_chunk = |chunk: usize| place.max(0) / chunk as i64 == key / chunk as i64;
        left.is_none_or(|left| key >= place - left as i64)
            && right.is_none_or(|right| key <= place + right as i64)
            && self.chunk.is_none_or(same_chunk)
    }
}

/// The change of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scores {
    Plain,
    Softcap(f32),
    Alibi,
    /// By a modifier of the author's, which masks keys or not.
    Biased(bool),
}

impl Scores {
    pub(crate) fn any() -> impl Strategy<Value = Scores> {
        prop_oneof![
            2 => Just(Scores::Plain),
            1 => (1.0_f32..30.0).prop_map(Scores::Softcap),
            1 => Just(Scores::Alibi),
        ]
    }

    /// Those of calls that take modifiers.
    pub(crate) fn any_or_modified() -> impl Strategy<Value = Scores> {
        prop_oneof![3 => Scores::any(), 1 => any::<bool>().prop_map(Scores::Biased)]
    }

    /// Whether they depend on positions, which count from the last query and key.
    pub(crate) fn has_positions(self) -> bool {
        matches!(self, Scores::Alibi | Scores::Biased(_))
    }

    pub(crate) fn softcap(self) -> Option<f32> {
        match self {
            Scores::Softcap(cap) => Some(cap),
            _ => None,
        }
    }

    /// The error of scores by the approximation of the hyperbolic tangent.
    pub(crate) fn error(self) -> f64 {
        match self {
            Scores::Softcap(cap) => f64::from(cap) / 2048.0,
            _ => 0.0,
        }
    }
}

/// The factor of scores, or that of the depth.
pub(crate) fn scale() -> impl Strategy<Value = Option<f32>> {
    prop_oneof![2 => Just(None), 1 => (0.01_f32..0.8).prop_map(Some)]
}
