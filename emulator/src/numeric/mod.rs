//! Arithmetic with the exact roundings of PTX, on bit patterns.

pub(crate) mod directed;
pub(crate) mod exact;
pub(crate) mod format;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod single;
mod wide;

/// The bits of an f32 rounded to the nearest tf32, ties to even; NaN stays NaN.
pub(crate) fn tf32_to_nearest(bits: u32) -> u32 {
    let value = f32::from_bits(bits);
    if value.is_finite() {
        bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff
    } else {
        bits & !0x1fff | u32::from(value.is_nan()) << 22
    }
}

/// How a result that a format cannot hold is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To nearest, ties to even.
    NearestEven,
    /// To nearest, ties away from zero.
    NearestAway,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

impl Mode {
    #[allow(
        clippy::fn_params_excessive_bools,
        reason = "they are what was cut off, bit by bit"
    )]
    /// Does the magnitude grow by one unit, given what was cut off?
    pub(crate) const fn rounds_up(
        self,
        negative: bool,
        odd: bool,
        above_half: bool,
        half: bool,
        rest: bool,
    ) -> bool {
        match self {
            Self::NearestEven => above_half || (half && odd),
            Self::NearestAway => above_half || half,
            Self::Zero => false,
            Self::Down => negative && rest,
            Self::Up => !negative && rest,
        }
    }
}
