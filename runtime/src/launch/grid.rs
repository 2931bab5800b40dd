//! How many CTAs a launch has.

use std::fmt;

use target::Target;

use crate::error::{Error, Result};

/// How many CTAs (programs) a launch has in x, y and z. It holds what the program counted, which [`Grid::check`] compares with what
/// there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid(pub [i64; 3]);

/// A grid of `ctas` CTAs along x, or of `[x, y]` or `[x, y, z]`; as tuples, where the counts are of several types.
///
/// ```
/// # use tilekit::{Grid, grid};
/// assert_eq!(grid(7usize.div_ceil(4)), Grid([2, 1, 1]));
/// assert_eq!(grid([2, 3]), Grid([2, 3, 1]));
/// assert_eq!(grid((7usize.div_ceil(4), 3u32)), Grid([2, 3, 1]));
/// ```
pub fn grid(ctas: impl Into<Grid>) -> Grid {
    ctas.into()
}

/// An integer that counts CTAs.
trait Count {
    /// Lengths of host data are below 2⁶³; what is not counts as the most that there can be, which [`Grid::check`] refuses.
    fn signed(self) -> i64;
}

macro_rules! counts {
    ($($count:ty),+) => {$(
        impl Count for $count {
            fn signed(self) -> i64 {
                self.try_into().unwrap_or(i64::MAX)
            }
        }

        impl From<$count> for Grid {
            fn from(x: $count) -> Grid {
                Grid([x.signed(), 1, 1])
            }
        }
    )+};
}

counts!(i32, u32, i64, u64, usize);

impl<X: Count, Y: Count> From<(X, Y)> for Grid {
    fn from((x, y): (X, Y)) -> Grid {
        Grid([x.signed(), y.signed(), 1])
    }
}

impl<X: Count, Y: Count, Z: Count> From<(X, Y, Z)> for Grid {
    fn from((x, y, z): (X, Y, Z)) -> Grid {
        Grid([x.signed(), y.signed(), z.signed()])
    }
}

impl From<[usize; 2]> for Grid {
    fn from([x, y]: [usize; 2]) -> Grid {
        Grid([x.signed(), y.signed(), 1])
    }
}

impl From<[usize; 3]> for Grid {
    fn from(counts: [usize; 3]) -> Grid {
        Grid(counts.map(Count::signed))
    }
}

impl Grid {
    /// How many CTAs there are in all; none where a count is negative.
    pub fn ctas(self) -> u64 {
        let counts = self
            .0
            .iter()
            .map(|&count| u64::try_from(count).unwrap_or(0));
        counts.fold(1, u64::saturating_mul)
    }

    /// The counts as the driver takes them.
    ///
    /// # Errors
    /// [`Error::BadGrid`], which names the kernel, unless every count is from 1 to the limit of `target`.
    pub fn check(self, kernel: &str, target: &Target) -> Result<[u32; 3]> {
        let mut counts = [0; 3];
        for (at, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let (count, limit) = (self.0[at], target.grid[at]);
            let fits = |count: &u32| (1..=limit).contains(count);
            counts[at] = u32::try_from(count)
                .ok()
                .filter(fits)
                .ok_or_else(|| Error::BadGrid {
                    kernel: kernel.to_string(),
                    axis,
                    count,
                    limit,
                })?;
        }
        Ok(counts)
    }

    /// The counts of a grid that was checked.
    pub(crate) fn counts(self) -> [u32; 3] {
        let fits = "the grid of a launch is checked before it gets to a device";
        self.0.map(|count| u32::try_from(count).expect(fits))
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [x, 1, 1] => write!(f, "{x}"),
            [x, y, 1] => write!(f, "{x}×{y}"),
            [x, y, z] => write!(f, "{x}×{y}×{z}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use target::SM_90A;

    #[test]
    fn a_grid_is_held_to_the_limits_of_its_target() {
        let mut target = SM_90A;
        target.grid = [8, 4, 2];
        assert!(grid([8usize, 4, 2]).check("k", &target).is_ok());
        let line = grid([8usize, 5, 2])
            .check("k", &target)
            .unwrap_err()
            .to_string();
        assert!(line.contains('4') && line.contains('5'), "{line}");
    }

    #[test]
    fn a_grid_outside_the_limits_names_kernel_and_axis() {
        assert!(grid(1u32).check("k", &SM_90A).is_ok());
        assert!(Grid(SM_90A.grid.map(i64::from)).check("k", &SM_90A).is_ok());
        for (bad, said) in [
            (
                grid(0u32),
                "0 CTAs along x; there can be 1 to 2147483647: where there is nothing to do, launch nothing",
            ),
            (grid(-3), "-3 CTAs along x"),
            (grid(5_000_000_000_u64), "5000000000 CTAs along x"),
            (grid(1usize << 40), "1099511627776 CTAs along x"),
            (
                grid([1, 65_536]),
                "65536 CTAs along y; there can be 1 to 65535",
            ),
            (grid([1, 1, 0]), "0 CTAs along z"),
        ] {
            let line = bad.check("k", &SM_90A).unwrap_err().to_string();
            assert!(line.contains("`k`") && line.contains(said), "{line}");
            // Too few CTAs want another help than too many.
            let is_too_few = bad.0.iter().any(|count| *count < 1);
            assert_eq!(line.contains("launch nothing"), is_too_few, "{line}");
            assert_eq!(line.contains("in a loop"), !is_too_few, "{line}");
        }
    }

    #[test]
    fn grids_print_without_trailing_ones() {
        assert_eq!(grid(5u32).to_string(), "5");
        assert_eq!(grid([5, 2]).to_string(), "5×2");
        assert_eq!(grid([5, 2, 3]).ctas(), 30);
    }
}
