//! How long data should stay in L2 (PTX ISA 9.7.9.18, `createpolicy.fractional`).

use std::fmt;
use std::str::FromStr;

use super::define::{Attr, attr_enum};
use crate::OpError;
use diag::Code;

attr_enum! {
    /// An eviction priority in L2.
    pub enum L2Priority {
        /// The first to be evicted.
        First = "evict_first",
        /// The last to be evicted.
        Last = "evict_last",
        /// As without a policy.
        Normal = "evict_normal",
        /// The priority that the line has.
        Unchanged = "evict_unchanged",
    }
}

attr_enum! {
    /// The priority of accesses beyond the fraction of a policy.
    pub enum L2Rest {
        /// The priority that the line has.
        Unchanged = "evict_unchanged",
        /// The first to be evicted.
        First = "evict_first",
    }
}

/// How long what is accessed or copied should stay in L2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Policy {
    /// None written.
    #[default]
    Default,
    /// The first to be evicted.
    EvictFirst,
    /// The last to be evicted.
    EvictLast,
    /// As without a policy; with [`fraction`](L2Policy::fraction) the others go first.
    EvictNormal,
    /// The priority that the lines have.
    EvictUnchanged,
    /// A policy for some of the accesses: see [`fraction`](L2Policy::fraction).
    Fractional(L2Fraction),
}

/// A priority for a share of the accesses, and one for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct L2Fraction {
    primary: L2Priority,
    /// An f32.
    fraction_bits: u32,
    rest: L2Rest,
}

impl L2Policy {
    /// This policy for a share of the accesses, above 0 and at most 1, which the hardware picks by their addresses; the others
    /// leave the priority of their lines unchanged. A tensor that is larger than L2 keeps a part of itself there so.
    #[must_use]
    pub const fn fraction(self, fraction: f32) -> L2Policy {
        L2Policy::Fractional(L2Fraction {
            primary: self.primary(),
            fraction_bits: fraction.to_bits(),
            rest: L2Rest::Unchanged,
        })
    }

    /// The same, where the accesses beyond the fraction are the first to be evicted.
    #[must_use]
    pub const fn rest_first(self) -> L2Policy {
        let (fraction_bits, rest) = match self {
            L2Policy::Fractional(of) => (of.fraction_bits, L2Rest::First),
            _ => (1.0_f32.to_bits(), L2Rest::First),
        };
        L2Policy::Fractional(L2Fraction {
            primary: self.primary(),
            fraction_bits,
            rest,
        })
    }

    const fn primary(self) -> L2Priority {
        match self {
            L2Policy::EvictFirst => L2Priority::First,
            L2Policy::EvictLast => L2Priority::Last,
            L2Policy::EvictUnchanged => L2Priority::Unchanged,
            L2Policy::Default | L2Policy::EvictNormal => L2Priority::Normal,
            L2Policy::Fractional(of) => of.primary,
        }
    }

    /// The priority, and the fraction with the priority of the rest; `None` without a policy.
    pub const fn parts(self) -> Option<(L2Priority, Option<(f32, L2Rest)>)> {
        match self {
            L2Policy::Default => None,
            L2Policy::Fractional(of) => {
                let fraction = f32::from_bits(of.fraction_bits);
                Some((of.primary, Some((fraction, of.rest))))
            }
            _ => Some((self.primary(), None)),
        }
    }

    /// A fraction is above 0 and at most 1.
    ///
    /// # Errors
    /// One that is not.
    pub fn check(self) -> Result<(), OpError> {
        match self.parts() {
            Some((_, Some((fraction, _)))) if !(fraction > 0.0 && fraction <= 1.0) => {
                let message = format!("an L2 policy for a fraction of {fraction} of the accesses");
                Err(OpError::new(Code::AccessWidth, message)
                    .help("a fraction is above 0 and at most 1"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for L2Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            None => f.write_str("default"),
            Some((primary, None)) => write!(f, "{primary}"),
            Some((primary, Some((fraction, rest)))) => write!(f, "{primary}:{fraction}:{rest}"),
        }
    }
}

impl FromStr for L2Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<L2Policy, String> {
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let of = |primary: &str| match primary {
            "default" => Ok(L2Policy::Default),
            primary => primary.parse().map(|primary| match primary {
                L2Priority::First => L2Policy::EvictFirst,
                L2Priority::Last => L2Policy::EvictLast,
                L2Priority::Normal => L2Policy::EvictNormal,
                L2Priority::Unchanged => L2Policy::EvictUnchanged,
            }),
        };
        match parts[..] {
            [primary] => of(primary),
            [primary, fraction, rest] => {
                let number: f32 = fraction
                    .parse()
                    .map_err(|_| format!("`{fraction}` is no fraction"))?;
                let policy = of(primary)?.fraction(number);
                Ok(match rest.parse()? {
                    L2Rest::Unchanged => policy,
                    L2Rest::First => policy.rest_first(),
                })
            }
            _ => Err(format!(
                "`{text}` is no policy: a priority, or `priority:fraction:rest`"
            )),
        }
    }
}

impl Attr for L2Policy {
    fn unsaid() -> Option<Self> {
        Some(Self::Default)
    }
    fn is_unsaid(&self) -> bool {
        *self == Self::Default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_read_back() {
        let half = L2Policy::EvictLast.fraction(0.5);
        for (policy, text) in [
            (L2Policy::Default, "default"),
            (L2Policy::EvictNormal, "evict_normal"),
            (L2Policy::EvictUnchanged, "evict_unchanged"),
            (half, "evict_last:0.5:evict_unchanged"),
            (half.rest_first(), "evict_last:0.5:evict_first"),
        ] {
            assert_eq!(policy.to_string(), text);
            assert_eq!(text.parse(), Ok(policy));
            assert!(policy.check().is_ok());
        }
        assert!("evict_last:half:evict_first".parse::<L2Policy>().is_err());
        assert!("evict_sometimes".parse::<L2Policy>().is_err());
    }

    #[test]
    fn fractions_are_above_0_and_at_most_1() {
        for wrong in [0.0, -0.5, 1.5, f32::NAN] {
            assert!(L2Policy::EvictFirst.fraction(wrong).check().is_err());
        }
        assert!(L2Policy::EvictFirst.fraction(1.0).check().is_ok());
    }
}
