//! Why clocks are not higher.

/// Bits of `nvmlClocksEventReasons`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(pub u64);

/// Reasons that hold a working GPU back, with what they are called. That it has nothing to do is none.
pub const THROTTLES: &[(Reasons, &str)] = &[
    (Reasons(0x2), "a set application clock"),
    (Reasons(0x4), "the power limit"),
    (Reasons(0x8), "a slowdown of the hardware"),
    (Reasons(0x10), "another GPU of its sync boost group"),
    (Reasons(0x20), "heat"),
    (Reasons(0x40), "heat, by the hardware"),
    (Reasons(0x80), "the power supply"),
    (Reasons(0x100), "a set display clock"),
];

impl Reasons {
    /// Is one of those among these?
    pub fn has(self, other: Reasons) -> bool {
        self.0 & other.0 != 0
    }
}
