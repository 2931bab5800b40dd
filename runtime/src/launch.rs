//! Launches without types: a grid, packed parameters, and an entry to give them to.

use std::fmt;
use std::sync::Arc;

use ptx::ParameterOffsets;
use smallvec::SmallVec;
use target::Target;

use crate::code::Entry;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// How many CTAs (programs) a launch has in x, y and z. It holds what the program counted, which [`Grid::check`] compares with what
/// there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid(pub [i64; 3]);

/// A grid of `ctas` CTAs along x, or of `[x, y]` or `[x, y, z]`.
///
/// ```
/// # use tilekit::{Grid, grid};
/// assert_eq!(grid(7usize.div_ceil(4)), Grid([2, 1, 1]));
/// assert_eq!(grid([2, 3]), Grid([2, 3, 1]));
/// ```
pub fn grid(ctas: impl Into<Grid>) -> Grid {
    ctas.into()
}

/// Lengths of host data are below 2⁶³; what is not counts as the most that there can be, which [`Grid::check`] refuses.
fn signed(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

macro_rules! counts_along_x {
    ($($count:ty),+) => {
        $(impl From<$count> for Grid {
            fn from(x: $count) -> Grid {
                Grid([signed(x), 1, 1])
            }
        })+
    };
}

counts_along_x!(i32, u32, i64, u64, usize);

impl From<[usize; 2]> for Grid {
    fn from([x, y]: [usize; 2]) -> Grid {
        Grid([signed(x), signed(y), 1])
    }
}

impl From<[usize; 3]> for Grid {
    fn from(counts: [usize; 3]) -> Grid {
        Grid(counts.map(signed))
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

/// Parameters packed as an entry's `.param` list lays them out: each at the next multiple of its alignment.
///
/// Up to 512 bytes (three tensor maps and more) and 16 parameters are kept in place, so that packing allocates nothing.
#[derive(Clone, Debug)]
pub struct ParameterBlock {
    bytes: SmallVec<[u8; 512]>,
    ends: ParameterOffsets,
    places: SmallVec<[ParameterPlace; 16]>,
    /// For each parameter the size of the buffer that it points to, bytes; 0 for what is no pointer to a buffer.
    reaches: SmallVec<[u64; 16]>,
    /// A bit for each of the first 64 parameters whose buffer is `#[readonly]`.
    readonly: u64,
    /// The same for those that the kernel stores to.
    written: u64,
    /// The host accesses one of the buffers while the kernel runs.
    is_beside_host: bool,
}

/// Where a parameter lies in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterPlace {
    /// From the start of the block, bytes.
    pub offset: u32,
    /// Size, bytes.
    pub bytes: u32,
}

impl Default for ParameterBlock {
    fn default() -> ParameterBlock {
        ParameterBlock::new()
    }
}

impl ParameterBlock {
    /// A block without parameters.
    pub fn new() -> ParameterBlock {
        ParameterBlock {
            bytes: SmallVec::new(),
            ends: ParameterOffsets::default(),
            places: SmallVec::new(),
            reaches: SmallVec::new(),
            readonly: 0,
            written: 0,
            is_beside_host: false,
        }
    }

    /// Appends a parameter, little-endian, aligned to `align` bytes.
    #[inline]
    pub fn push(&mut self, parameter: &[u8], align: usize) {
        let offset = self.ends.place(parameter.len() as u64, align as u32);
        self.bytes.resize(offset as usize, 0);
        self.places.push(ParameterPlace {
            offset: offset as u32,
            bytes: parameter.len() as u32,
        });
        self.reaches.push(0);
        self.bytes.extend_from_slice(parameter);
    }

    /// Appends the address of a buffer of `bytes` bytes.
    #[inline]
    pub fn push_buffer(&mut self, address: u64, bytes: u64) {
        self.push(&address.to_le_bytes(), 8);
        if let Some(reach) = self.reaches.last_mut() {
            *reach = bytes;
        }
    }

    /// Appends the address of memory of the host, which goes on beside the launch.
    pub fn push_mapped(&mut self, address: u64, bytes: u64) {
        self.push_buffer(address, bytes);
        self.is_beside_host = true;
    }

    /// Whether the host accesses one of the buffers while the kernel runs.
    pub(crate) fn is_beside_host(&self) -> bool {
        self.is_beside_host
    }

    /// The addresses of the buffer that parameter `index` points to; empty for what is no pointer to a buffer.
    #[inline]
    pub(crate) fn buffer(&self, index: usize) -> std::ops::Range<u64> {
        let bytes = self.parameter(index);
        let start = bytes
            .iter()
            .take(8)
            .rev()
            .fold(0, |all, byte| all << 8 | u64::from(*byte));
        start..start + self.reaches[index]
    }

    /// Notes which of its parameters are only read and which are stored to.
    #[inline]
    pub(crate) fn set_roles(&mut self, readonly: u64, written: u64) {
        (self.readonly, self.written) = (readonly, written);
    }

    /// The indices and buffers of parameters that are `#[readonly]`.
    pub(crate) fn readonly(&self) -> impl Iterator<Item = (usize, std::ops::Range<u64>)> {
        self.buffers(self.readonly)
    }

    /// The indices and buffers of parameters that the kernel stores to.
    pub(crate) fn written(&self) -> impl Iterator<Item = (usize, std::ops::Range<u64>)> {
        self.buffers(self.written)
    }

    fn buffers(&self, mut roles: u64) -> impl Iterator<Item = (usize, std::ops::Range<u64>)> {
        std::iter::from_fn(move || {
            let index = roles.trailing_zeros() as usize;
            roles &= roles.checked_sub(1)?;
            Some((index, self.buffer(index)))
        })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each parameter lies.
    pub fn places(&self) -> &[ParameterPlace] {
        &self.places
    }

    /// The bytes of parameter `index`.
    #[inline]
    pub(crate) fn parameter(&self, index: usize) -> &[u8] {
        let ParameterPlace { offset, bytes } = self.places[index];
        &self.bytes[offset as usize..][..bytes as usize]
    }

    /// Where each parameter starts, in bytes.
    #[cfg(test)]
    pub(crate) fn offsets(&self) -> Vec<u32> {
        self.places.iter().map(|place| place.offset).collect()
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// A launch whose checks are done and whose parameters are packed: putting it on a stream is one call of the driver.
#[derive(Clone)]
pub struct PreparedLaunch {
    entry: Arc<Entry>,
    grid: Grid,
    parameters: ParameterBlock,
}

impl PreparedLaunch {
    /// Checks the grid and the parameter bytes once.
    ///
    /// # Errors
    /// [`Error::BadGrid`] or [`Error::ParameterMismatch`].
    pub fn new(
        entry: &Arc<Entry>,
        grid: Grid,
        parameters: ParameterBlock,
    ) -> Result<PreparedLaunch> {
        entry.check(grid, &parameters)?;
        Ok(PreparedLaunch {
            entry: Arc::clone(entry),
            grid,
            parameters,
        })
    }

    /// Puts the launch on `stream`.
    ///
    /// # Errors
    /// What the driver or the emulator has against it. On a GPU a failure of the kernel itself shows later.
    #[inline]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.entry
            .launch_checked(stream, self.grid, &self.parameters)
    }

    /// The same launch of another entry of the same code.
    pub(crate) fn with_entry(&self, entry: &Arc<Entry>) -> PreparedLaunch {
        PreparedLaunch {
            entry: Arc::clone(entry),
            ..self.clone()
        }
    }

    /// The entry that it launches.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// How many CTAs it has.
    pub fn grid(&self) -> Grid {
        self.grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use target::SM_90A;

    #[test]
    fn parameters_are_aligned_as_ptx_aligns_them() {
        let mut block = ParameterBlock::new();
        block.push(&1u32.to_le_bytes(), 4);
        block.push(&2u64.to_le_bytes(), 8);
        block.push(&[3], 1);
        block.push(&4u16.to_le_bytes(), 2);
        block.push(&[0; 128], 64);
        assert_eq!(block.offsets(), [0, 8, 16, 18, 64]);
        assert_eq!(block.bytes().len(), 192);
        assert_eq!(&block.bytes()[8..10], [2, 0]);
    }

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
            (grid(0u32), "0 CTAs along x; there can be 1 to 2147483647"),
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
            assert!(line.contains("in a loop"), "{line}");
        }
    }

    #[test]
    fn grids_print_without_trailing_ones() {
        assert_eq!(grid(5u32).to_string(), "5");
        assert_eq!(grid([5, 2]).to_string(), "5×2");
        assert_eq!(grid([5, 2, 3]).ctas(), 30);
    }
}
