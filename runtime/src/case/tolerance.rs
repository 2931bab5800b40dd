//! How far a result may be from its reference, with the norm said.

use std::fmt;

/// How far a result may be from its reference.
///
/// NaN agrees with NaN only, and an infinity with the same infinity only, whatever the norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The same bits as the reference rounded to the element type; any NaN equals any NaN.
    Exactly,
    /// Each element is at most this many representable values away from the rounded reference.
    Ulps(u32),
    /// `max |got − want|` is at most this.
    Absolute(f64),
    /// `max |got − want| / |want|` is at most this, where `want` is not 0; where it is, `got` must be 0 too.
    Relative(f64),
    /// For each element, `|got − want| ≤ absolute + relative · |want|`.
    Close {
        /// The part that grows with the value.
        relative: f64,
        /// The part that does not.
        absolute: f64,
    },
    /// `‖got − want‖₂ / ‖want‖₂` over the whole tensor is at most this (for matrices, the Frobenius norm).
    Frobenius(f64),
}

impl Tolerance {
    /// The error of one element in this norm, and whether it is too much. The Frobenius norm judges the whole, so there
    /// an element is never too much by itself.
    pub(crate) fn judge(self, got: f64, want: f64, ulps: u128) -> (f64, bool) {
        let difference = (got - want).abs();
        match self {
            Tolerance::Exactly => (ulps as f64, ulps > 0),
            Tolerance::Ulps(limit) => (ulps as f64, ulps > u128::from(limit)),
            Tolerance::Absolute(limit) => (difference, difference > limit),
            Tolerance::Relative(limit) => {
                let error = if difference == 0.0 {
                    0.0
                } else {
                    difference / want.abs()
                };
                (error, error > limit)
            }
            Tolerance::Close { relative, absolute } => {
                let room = absolute + relative * want.abs();
                let error = if difference == 0.0 {
                    0.0
                } else {
                    difference / room
                };
                (error, error > 1.0)
            }
            Tolerance::Frobenius(_) => (difference, false),
        }
    }

    /// Whether it counts values of the element type, and so needs a reference that is one.
    pub(crate) fn counts_values(self) -> bool {
        matches!(self, Tolerance::Exactly | Tolerance::Ulps(_))
    }
}

impl Tolerance {
    /// An error in this norm, with its unit.
    pub(super) fn value(self, error: f64) -> String {
        match self {
            Tolerance::Exactly | Tolerance::Ulps(_) => format!("{error:.0} ulp"),
            Tolerance::Close { .. } => format!("{:.1} % of that", error * 100.0),
            Tolerance::Absolute(_) | Tolerance::Relative(_) | Tolerance::Frobenius(_) => {
                short(error)
            }
        }
    }
}

/// At most three digits: `1.28e-4`, `2e-5`.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}e{exponent}")
}

impl fmt::Display for Tolerance {
    /// The norm and its limit, such as `max relative error ≤ 1e-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Exactly => write!(f, "exact"),
            Tolerance::Ulps(limit) => write!(f, "max error ≤ {limit} ulp"),
            Tolerance::Absolute(limit) => write!(f, "max absolute error ≤ {}", short(*limit)),
            Tolerance::Relative(limit) => write!(f, "max relative error ≤ {}", short(*limit)),
            Tolerance::Close { relative, absolute } => {
                write!(
                    f,
                    "max |got − want| ≤ {} + {}·|want|",
                    short(*absolute),
                    short(*relative)
                )
            }
            Tolerance::Frobenius(limit) => {
                write!(f, "relative Frobenius error ≤ {}", short(*limit))
            }
        }
    }
}
