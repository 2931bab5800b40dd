//! Where the elements of an allocation lie: offsets, and the bytes behind them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::cut::{CutField, cut_fields};
use crate::linear::cut::{bits_below, is_cut};
use crate::relate::{buffer_size, covered};
use crate::{Axis, Dims, LayoutError, LinearLayout, SharedLayout};

thread_local! {
    /// The maps that were inverted last: a kernel has few layouts, and verifier, planning and emission ask for each many times.
    static INVERTED: RefCell<Vec<Inverted>> = const { RefCell::new(Vec::new()) };
}

/// An inverted map, and what it was asked for.
struct Inverted {
    shared: SharedLayout,
    alloc_shape: Dims,
    places: Arc<Places>,
}

/// Maps that are kept. A kernel of the examples has at most 20.
const KEPT: usize = 32;

/// The inverse map, from coordinates to offsets.
pub struct Places {
    back: LinearLayout,
    alloc_shape: Dims,
    /// Offsets of one buffer, as a power of two.
    buffer_bits: u32,
    /// Does the first dimension count buffers?
    has_buffers: bool,
    /// The bits of the offset that count granules of sizes that are no powers of two.
    fields: SmallVec<[CutField; 2]>,
}

impl Places {
    /// The places of an allocation. Its shape has the rank of the layout, or one dimension more in front that counts
    /// buffers: their offsets follow one another at powers of two.
    pub fn new(shared: &SharedLayout, alloc_shape: &[u32]) -> Result<Arc<Places>, LayoutError> {
        let is_asked =
            |kept: &&Inverted| kept.alloc_shape[..] == *alloc_shape && kept.shared == *shared;
        INVERTED.with_borrow_mut(|all| {
            if let Some(kept) = all.iter().find(is_asked) {
                return Ok(Arc::clone(&kept.places));
            }
            let places = Arc::new(Places::invert(shared, alloc_shape)?);
            if all.len() == KEPT {
                all.remove(0);
            }
            all.push(Inverted {
                shared: shared.clone(),
                alloc_shape: alloc_shape.into(),
                places: Arc::clone(&places),
            });
            Ok(places)
        })
    }

    fn invert(shared: &SharedLayout, alloc_shape: &[u32]) -> Result<Places, LayoutError> {
        let map = shared.linear(covered(shared, alloc_shape))?;
        let back = map.right_inverse();
        let fields = cut_fields(&map);
        Ok(Places {
            fields: fields.expect("the map of a shared layout closes up"),
            back: back.expect("a shared layout reaches every element"),
            alloc_shape: alloc_shape.into(),
            buffer_bits: map.in_bits(Axis::Offset),
            has_buffers: alloc_shape.len() > shared.rank(),
        })
    }

    /// Offsets of one buffer.
    pub(crate) fn buffer_offsets(&self) -> u32 {
        1 << self.buffer_bits
    }

    /// What the bytes of a buffer are less than those of all its offsets for: where shapes that are no powers of two cut it.
    pub(crate) fn fields(&self) -> &[CutField] {
        &self.fields
    }

    /// The offset of an element, counted in elements and before padding.
    pub fn offset(&self, coords: &[u32]) -> u32 {
        self.place(coords).0
    }

    /// The offset of an element and the CTA that holds it.
    fn place(&self, coords: &[u32]) -> (u32, u32) {
        let (buffer, coords) = match coords.split_first() {
            Some((&buffer, rest)) if self.has_buffers => (buffer, rest),
            _ => (0, coords),
        };
        let inputs: SmallVec<[(Axis, u32); 4]> = Axis::dims(coords.len())
            .zip(coords.iter().copied())
            .collect();
        let packed = self.back.apply_packed(self.back.pack_in(&inputs));
        let within = self.within_buffer(packed);
        let block = packed >> self.back.out_shift(Axis::Block);
        let block = block & ((1 << self.back.out_bits(Axis::Block)) - 1);
        (within | buffer << self.buffer_bits, block as u32)
    }

    /// The offset within a buffer that a packed place says.
    fn within_buffer(&self, packed: u64) -> u32 {
        let shift = self.back.out_shift(Axis::Offset);
        (packed >> shift) as u32 & (self.buffer_offsets() - 1)
    }

    /// Does every CTA of a cluster find what it holds of a tensor (with the map `registers`, of a view's shape) in its own
    /// shared memory, at a place that does not depend on the CTA?
    pub fn stay_in_cta(&self, registers: &LinearLayout) -> bool {
        self.stay_in_cta_but(registers, None)
    }

    /// The same with coordinates along one dimension that are not the tensor's own, and lie in every CTA.
    pub fn stay_in_cta_but(&self, registers: &LinearLayout, indexed: Option<usize>) -> bool {
        let place = |basis: u64| {
            let coords = registers.unpack_out(basis);
            match indexed {
                Some(dim) => self.place(&coords.with(dim, 0)),
                None => self.place(&coords),
            }
        };
        let places = |axis: Axis| registers.bases(axis).iter().map(|&basis| place(basis));
        let mut own = [Axis::Register, Axis::Lane, Axis::Warp]
            .into_iter()
            .flat_map(places);
        let mut others = places(Axis::Block).enumerate();
        own.all(|(_, block)| block == 0)
            && others.all(|(bit, (offset, block))| offset == 0 && (block == 0 || block == 1 << bit))
    }

    /// Does every CTA find its part in its own shared memory, at a place that does not depend on the CTA? A part has these
    /// sizes, and begins at the XOR of the `origins` of the bits set in the CTA's rank.
    pub fn hold_parts(&self, part: &[u32], origins: &[Dims]) -> bool {
        let rank = self.alloc_shape.rank();
        let within = (0..rank).all(|dim| !self.choose_cta(dim, 0..bits_below(part[dim])));
        let mut origins = origins.iter().enumerate();
        within
            && origins.all(|(bit, origin)| {
                let (offset, block) = self.place(origin);
                offset == 0 && (block == 0 || block == 1 << bit)
            })
    }

    /// Do some of these bits of the coordinate along `dim` decide which CTA holds an element?
    pub fn choose_cta(&self, dim: usize, mut bits: Range<u32>) -> bool {
        let rank = self.alloc_shape.rank();
        bits.any(|bit| self.place(&Dims::filled(0, rank).with(dim, 1 << bit)).1 != 0)
    }

    /// The offset of each bit of the coordinate along `dim`, as many as `size` takes, bit 0 first.
    pub fn along(&self, dim: usize, size: u32) -> SmallVec<[u32; 10]> {
        (0..bits_below(size))
            .map(|bit| self.of_bit(dim, bit))
            .collect()
    }

    /// The first and the last offset that an element with `index` along the first dimension may have: those that its other
    /// coordinates reach, and what lies between them.
    pub fn span_of(&self, index: u32) -> (u32, u32) {
        let others = 1..self.alloc_shape.rank();
        let reached = others.flat_map(|dim| self.along(dim, self.alloc_shape[dim]));
        let within = if self.has_buffers {
            self.buffer_bits
        } else {
            u32::BITS - reached.fold(0, |all, offset| all | offset).leading_zeros()
        };
        let first = self.offset(&Dims::filled(0, self.alloc_shape.rank()).with(0, index));
        let low = (1 << within) - 1;
        (first & !low, first | low)
    }

    fn of_bit(&self, dim: usize, bit: u32) -> u32 {
        match dim.checked_sub(usize::from(self.has_buffers)) {
            Some(dim) => self.within_buffer(self.back.bases(Axis::dim(dim))[bit as usize]),
            None => 1 << (bit + self.buffer_bits),
        }
    }

    /// All bits that the offset of the first element of a view of the shape `view` may have.
    pub fn start_reach(&self, view: &[u32]) -> u32 {
        // Buffers are counted by numbers and not by bits, and no other coordinate reaches their part of the offset.
        let dims = usize::from(self.has_buffers)..self.alloc_shape.rank();
        // What has a whole dimension begins at its 0.
        let dims = dims.filter(|&dim| view[dim] < self.alloc_shape[dim]);
        let left_out = dims.flat_map(|dim| {
            // A view of a size that is no power of two begins at a multiple of its granule.
            let bits = view[dim].trailing_zeros()..bits_below(self.alloc_shape[dim]);
            bits.map(move |bit| (dim, bit))
        });
        left_out.fold(0, |all, (dim, bit)| all | self.of_bit(dim, bit))
    }

    /// Does no other coordinate reach a bit of the offset above those of this one?
    pub(crate) fn is_outermost(&self, dim: usize) -> bool {
        let reach = |dim: usize| {
            let steps = self.along(dim, self.alloc_shape[dim]);
            steps.iter().fold(0, |all, step| all | step)
        };
        let mut others = (0..self.alloc_shape.rank()).filter(|other| *other != dim);
        others.all(|other| reach(other).leading_zeros() >= reach(dim).leading_zeros())
    }

    /// Do the coordinates along `dim` from `bit` on lie one after another, so that offsets of sums are sums of offsets?
    pub fn adds_up(&self, dim: usize, bit: u32) -> bool {
        if self.has_buffers && dim == 0 {
            return true;
        }
        let steps = self.along(dim, self.alloc_shape[dim]);
        let swizzled = self.swizzled();
        let from = &steps[steps.len().min(bit as usize)..];
        let is_plain = |step: &u32| step.is_power_of_two() && step & swizzled == 0;
        from.iter().all(is_plain) && from.windows(2).all(|pair| pair[1] == 2 * pair[0])
    }

    /// The bits of the offset that several bits of the coordinates move: those that a swizzle changes.
    pub fn swizzled(&self) -> u32 {
        let (mut once, mut again) = (0, 0);
        for dim in usize::from(self.has_buffers)..self.alloc_shape.rank() {
            for offset in self.along(dim, self.alloc_shape[dim]) {
                again |= once & offset;
                once |= offset;
            }
        }
        again
    }
}

/// How many bytes an offset lies behind the first element: a sum of its parts, since padding is left out after every so
/// many elements, and buffers are aligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Bytes of an element.
    pub elem_bytes: u32,
    /// For each `(shift, bytes)`: so many bytes more for each `1 << shift` elements. They may be less where one number of
    /// buffers includes padding that the last element of a buffer does not have behind it, and where offsets close up over
    /// what a shape cuts off.
    pub gaps: SmallVec<[(u32, i32); 2]>,
}

impl Storage {
    /// The storage of an allocation.
    pub fn new(
        shared: &SharedLayout,
        alloc_shape: &[u32],
        elem_bytes: u32,
    ) -> Result<Storage, LayoutError> {
        let mut gaps = SmallVec::new();
        if let SharedLayout::Padded(padded) = shared {
            let pairs = padded.pairs.iter();
            gaps.extend(pairs.map(|[interval, padding]| {
                (interval.trailing_zeros(), (padding * elem_bytes) as i32)
            }));
        }
        let mut one = Storage { elem_bytes, gaps };
        if is_cut(covered(shared, alloc_shape)) {
            let places = Places::new(shared, covered(shared, alloc_shape))?;
            one = Storage::cut(&places, elem_bytes).0;
        }
        if alloc_shape.len() > shared.rank() {
            let buffer = buffer_size(shared, alloc_shape, elem_bytes)?;
            one.close(buffer.offsets.trailing_zeros(), buffer.bytes);
        }
        Ok(one)
    }

    /// The storage of one buffer that shapes which are no powers of two cut, and its bytes.
    pub(crate) fn cut(places: &Places, elem_bytes: u32) -> (Storage, u32) {
        let (mut storage, top) = (Storage::plain(elem_bytes), places.buffer_bits);
        let mut bytes = None;
        for field in places.fields() {
            let closed = field.count * storage.bytes(1 << field.low);
            if field.end == top {
                bytes = Some(closed);
            } else {
                storage.close(field.end, closed);
            }
        }
        let bytes = bytes.unwrap_or_else(|| storage.bytes(1 << top));
        (storage, bytes)
    }

    fn plain(elem_bytes: u32) -> Storage {
        let gaps = SmallVec::new();
        Storage { elem_bytes, gaps }
    }

    /// From here on `1 << shift` offsets take so many bytes, and padding at intervals longer than that does not occur.
    fn close(&mut self, shift: u32, bytes: u32) {
        self.gaps.retain(|&mut (from, _)| from <= shift);
        let gap = bytes as i32 - self.bytes(1 << shift) as i32;
        if gap != 0 {
            self.gaps.push((shift, gap));
        }
    }

    /// The largest power of two of elements that every gap is a multiple of: aligned runs of so many stay aligned.
    pub fn aligned_elements(&self) -> u32 {
        let gaps = self.gaps.iter();
        let least = gaps.map(|(_, bytes)| bytes.trailing_zeros()).min();
        least.map_or(u32::MAX, |bits| (1 << bits) / self.elem_bytes)
    }

    /// The byte of an offset.
    pub fn bytes(&self, offset: u32) -> u32 {
        let gaps = self.gaps.iter();
        let more: i32 = gaps
            .map(|(shift, bytes)| (offset >> shift) as i32 * bytes)
            .sum();
        (offset * self.elem_bytes).wrapping_add_signed(more)
    }

    /// Do bytes follow from elements by a shift alone?
    pub fn is_plain(&self) -> bool {
        self.gaps.is_empty()
    }
}
