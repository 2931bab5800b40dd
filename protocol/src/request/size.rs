//! Values of sizes on the command line.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Values that replace those which cases declare for a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeOverride {
    /// The size.
    pub name: String,
    /// Its values.
    pub values: Vec<usize>,
}

impl SizeOverride {
    /// The size that says on how many devices a case runs, one for each rank.
    pub const RANKS: &str = "ranks";

    /// So many ranks.
    pub fn ranks(devices: usize) -> SizeOverride {
        SizeOverride {
            name: Self::RANKS.to_string(),
            values: vec![devices],
        }
    }
}

impl FromStr for SizeOverride {
    type Err = String;

    /// `n=4096`, `n=1000,4096`, `n=1<<20` or `n=1_000_000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, values)) = text.split_once('=') else {
            return Err(format!(
                "`{text}` is no size: write name=value, such as n=4096"
            ));
        };
        let name = name.trim();
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`{name}` is no name of a size"));
        }
        let values: Result<Vec<usize>, String> = values.split(',').map(size_value).collect();
        Ok(SizeOverride {
            name: name.to_string(),
            values: values?,
        })
    }
}

/// A whole number, with `_` between digits, or a power of two as `1<<20`.
fn size_value(text: &str) -> Result<usize, String> {
    let number = |digits: &str| digits.trim().replace('_', "").parse::<usize>().ok();
    let value = match text.split_once("<<") {
        Some((base, shift)) => number(base).zip(number(shift)).and_then(|(base, shift)| {
            let shift = u32::try_from(shift).ok()?;
            base.checked_mul(1_usize.checked_shl(shift)?)
        }),
        None => number(text),
    };
    let is_digits =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    if value.is_none()
        && text.trim().split("<<").all(is_digits)
        && text.contains(|c: char| c.is_ascii_digit())
    {
        return Err(format!("{} is too large for a size", text.trim()));
    }
    value.ok_or_else(|| {
        format!(
            "`{}` is no size: write a whole number, such as 4096 or 1<<20",
            text.trim()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(text: &str, expected: &str) {
        let found = match text.parse::<SizeOverride>() {
            Ok(size) => format!("{} {:?}", size.name, size.values),
            Err(error) => error,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn sizes_are_read_or_refused_with_their_form() {
        check_size("n=4096", "n [4096]");
        check_size("n=1_000, 1<<20", "n [1000, 1048576]");
        check_size("n", "`n` is no size: write name=value, such as n=4096");
        check_size("=4", "`` is no name of a size");
        check_size(
            "n=4k",
            "`4k` is no size: write a whole number, such as 4096 or 1<<20",
        );
        check_size("n=1<<64", "1<<64 is too large for a size");
        check_size(
            "n=99999999999999999999",
            "99999999999999999999 is too large for a size",
        );
        for text in ["n=_", "n=1<<", "n=1<<2<<3"] {
            assert!(text.parse::<SizeOverride>().is_err(), "{text}");
        }
        check_size(
            "n=-1",
            "`-1` is no size: write a whole number, such as 4096 or 1<<20",
        );
    }
}
