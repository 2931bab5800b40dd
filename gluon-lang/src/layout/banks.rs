//! Bank conflicts and coalescing, as numbers.

use smallvec::SmallVec;

use super::linear::gf2::Span;
use super::{Axis, Layout, LayoutError, LinearLayout, SharedLayout};

/// Shared memory has 32 banks of 4 bytes, one word of each per wavefront.
pub const BANKS: u32 = 32;

/// Bytes of one bank's word.
pub const BANK_BYTES: u32 = 4;

/// Bytes of the widest access of one thread (PTX ISA 9.7.9.8).
const MAX_ACCESS_BYTES: u32 = 16;

/// Bytes of one sector: the unit in which caches fetch global memory.
pub const SECTOR_BYTES: u32 = 32;

/// What it costs a warp to load or store a tensor between registers and shared memory with plain `ld`/`st.shared`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedAccessCost {
    /// Elements of one access of a thread.
    pub vector_elements: u32,
    /// Accesses of a thread.
    pub accesses: u32,
    /// Wavefronts of one access beyond those that its bytes need; 0 is free of conflicts. The worst access counts.
    pub extra_wavefronts: u32,
}

/// The bank conflicts of a tensor of `shape` with elements of `elem_bits` between `registers` and `shared`: extra
/// wavefronts per vectorised access, 0 when there are none.
pub fn bank_conflicts(
    registers: &Layout,
    shared: &SharedLayout,
    shape: &[u32],
    elem_bits: u32,
) -> Result<u32, LayoutError> {
    Ok(shared_access(registers, shared, shape, elem_bits)?.extra_wavefronts)
}

/// All numbers of such an access. Padding is counted by enumeration, everything else from the bases.
pub fn shared_access(
    registers: &Layout,
    shared: &SharedLayout,
    shape: &[u32],
    elem_bits: u32,
) -> Result<SharedAccessCost, LayoutError> {
    let map = registers.linear(shape)?;
    let memory = shared.linear(shape)?;
    let offsets = map
        .find_in(&memory)
        .expect("a shared layout reaches every element of its tensor");
    let offsets = offsets.with_outs_ordered(&[Axis::Offset]);
    let elem_bytes = (elem_bits / 8).max(1);
    let unbroken = match shared {
        SharedLayout::Padded(padded) => padded.aligned_elements(),
        _ => u32::MAX,
    };
    let vector_elements = vector_elements(&offsets, (MAX_ACCESS_BYTES / elem_bytes).min(unbroken));
    let place = |offset: u32| match shared {
        SharedLayout::Padded(padded) => padded.padded_offset(offset) * elem_bytes,
        _ => offset * elem_bytes,
    };
    let copies = map.free_mask(Axis::Register).count_ones();
    let accesses = (map.num_registers() >> copies) / vector_elements;
    let bytes = vector_elements * elem_bytes;
    let extra_wavefronts = match shared {
        SharedLayout::Padded(_) => worst_by_enumeration(&offsets, bytes, place),
        _ => by_bases(&offsets, bytes, elem_bytes),
    };
    Ok(SharedAccessCost {
        vector_elements,
        accesses,
        extra_wavefronts,
    })
}

/// The largest power of two of neighbouring elements that one thread holds, aligned, wherever it starts: as many low
/// offset bits as are registers of their own, which nothing else touches.
fn vector_elements(offsets: &LinearLayout, most: u32) -> u32 {
    let registers = offsets.bases(Axis::Register);
    let alone = |bit: &u32| {
        let unit = 1_u64 << bit;
        registers.contains(&unit)
            && offsets
                .columns()
                .iter()
                .filter(|&&column| column & unit != 0)
                .count()
                == 1
    };
    let bits = (0..offsets.total_out_bits()).take_while(alone).count();
    (1 << bits).min(most)
}

/// The lanes that the hardware serves together: all for accesses of up to 4 bytes, fewer for wider ones.
pub(super) fn lanes_together(bytes: u32) -> u32 {
    BANKS * BANK_BYTES / bytes.max(BANK_BYTES)
}

/// Lanes at different words of one bank, from the span of their bases: 2^(dimensions lost on the way to banks) - 1.
fn by_bases(offsets: &LinearLayout, bytes: u32, elem_bytes: u32) -> u32 {
    let lanes = lanes_together(bytes).trailing_zeros() as usize;
    let bases = &offsets.bases(Axis::Lane)[..lanes];
    let words: SmallVec<[u64; 5]> = bases
        .iter()
        .map(|&offset| offset * u64::from(elem_bytes) / u64::from(BANK_BYTES))
        .collect();
    let different = Span::of(words.iter().copied()).rank();
    let banks = Span::of(words.iter().map(|word| word % u64::from(BANKS))).rank();
    (1 << (different - banks)) - 1
}

/// The same by counting the words in each bank, for every access of every warp.
fn worst_by_enumeration(offsets: &LinearLayout, bytes: u32, place: impl Fn(u32) -> u32) -> u32 {
    let together = lanes_together(bytes);
    let others = offsets.total_in_bits() - offsets.in_bits(Axis::Lane);
    let mut worst = 0;
    for other in 0..1_u64 << others {
        let low = offsets.in_bits(Axis::Register);
        let base = (other & ((1 << low) - 1)) | other >> low << (low + offsets.in_bits(Axis::Lane));
        for first in (0..offsets.in_size(Axis::Lane)).step_by(together as usize) {
            let starts = (first..first + together).map(|lane| {
                place(offsets.apply_packed(base | u64::from(lane) << low) as u32) / BANK_BYTES
            });
            worst = worst.max(most_in_one_bank(starts, bytes.div_ceil(BANK_BYTES)));
        }
    }
    worst - 1
}

/// The most different words in one bank, for accesses of `words` words each.
pub(super) fn most_in_one_bank(starts: impl Iterator<Item = u32>, words: u32) -> u32 {
    let mut touched: Vec<u32> = starts.flat_map(|start| start..start + words).collect();
    touched.sort_unstable();
    touched.dedup();
    let mut in_bank = [0; BANKS as usize];
    for word in touched {
        in_bank[(word % BANKS) as usize] += 1;
    }
    in_bank.into_iter().max().unwrap_or(1).max(1)
}

/// What it costs a warp to access a row-major tensor in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAccessCost {
    /// Elements of one access of a thread.
    pub vector_elements: u32,
    /// Accesses of a thread.
    pub accesses: u32,
    /// Sectors of 32 bytes that the first access of a warp touches.
    pub sectors_per_request: u32,
    /// Bytes that the first access of a warp fetches.
    pub bytes_asked: u32,
    /// Bytes of them that some thread wants.
    pub bytes_useful: u32,
}

impl GlobalAccessCost {
    /// Bytes fetched over bytes wanted: 1 is coalesced.
    pub fn waste(&self) -> f64 {
        f64::from(self.bytes_asked) / f64::from(self.bytes_useful)
    }
}

/// The coalescing of a tensor of `shape` in `layout` over a row-major tensor in global memory whose rows are
/// `row_stride` elements apart (`None`: one after the other), its start aligned to a sector.
pub fn global_access(
    layout: &Layout,
    shape: &[u32],
    elem_bits: u32,
    row_stride: Option<u64>,
) -> Result<GlobalAccessCost, LayoutError> {
    let map = layout.linear(shape)?;
    let elem_bytes = u64::from((elem_bits / 8).max(1));
    let strides = row_major_strides(shape, row_stride);
    let address = |place: u64| -> u64 {
        let coords = map.unpack_out(map.apply_packed(place));
        coords
            .iter()
            .zip(&strides)
            .map(|(&coord, stride)| u64::from(coord) * stride)
            .sum::<u64>()
            * elem_bytes
    };
    let aligned = strides.iter().rev().skip(1).fold(u64::MAX, |all, stride| {
        all.min(1 << stride.trailing_zeros())
    });
    let vector = contiguous_registers(&map)
        .min(aligned)
        .min(u64::from(MAX_ACCESS_BYTES) / elem_bytes);
    let lanes = u64::from(map.in_size(Axis::Lane));
    let shift = map.in_shift(Axis::Lane);
    let mut bytes: Vec<u64> = (0..lanes)
        .map(|lane| address(lane << shift))
        .flat_map(|start| start..start + vector * elem_bytes)
        .collect();
    bytes.sort_unstable();
    bytes.dedup();
    let useful = bytes.len() as u32;
    for byte in &mut bytes {
        *byte /= u64::from(SECTOR_BYTES);
    }
    bytes.dedup();
    let sectors = bytes.len() as u32;
    let copies = map.free_mask(Axis::Register).count_ones();
    Ok(GlobalAccessCost {
        vector_elements: vector as u32,
        accesses: (map.num_registers() >> copies) / vector as u32,
        sectors_per_request: sectors,
        bytes_asked: sectors * SECTOR_BYTES,
        bytes_useful: useful,
    })
}

fn row_major_strides(shape: &[u32], row_stride: Option<u64>) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for dim in (0..shape.len().saturating_sub(1)).rev() {
        let own = strides[dim + 1] * u64::from(shape[dim + 1]);
        strides[dim] = if dim + 2 == shape.len() {
            row_stride.unwrap_or(own)
        } else {
            own
        };
    }
    strides
}

/// Neighbouring elements of the last dimension in one thread.
fn contiguous_registers(map: &LinearLayout) -> u64 {
    let Some((last, bits)) = map.outs().next_back() else {
        return 1;
    };
    let shift = map.out_shift(last);
    let held = |bit: &u32| map.bases(Axis::Register).contains(&(1 << (shift + bit)));
    1 << (0..bits).take_while(held).count()
}
