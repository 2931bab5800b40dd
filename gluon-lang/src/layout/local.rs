//! Planning the way of a tensor between registers and a view of shared memory: which registers move together, and where.

use smallvec::SmallVec;

use super::linear::gf2::Span;
use super::relate::{buffer_bytes, covered};
use super::{Axis, Dims, LayoutError, LinearLayout, SharedLayout};

/// The widest access of one thread, in bits (PTX ISA, `ld.shared.v4.b32`).
const MAX_ACCESS_BITS: u32 = 128;

/// How every thread accesses its elements of a view.
///
/// The element of register `r` in thread `t` lies at the offset `thread(t) ^ register(r)`, counted in elements and before
/// padding; both sides are the XOR of one entry for each bit set. Registers whose offsets follow one another are accessed
/// together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPlan {
    /// Elements of one access, a power of two.
    pub vector: u32,
    /// Every access of a thread; together they hold each register that is no copy once.
    pub accesses: Vec<LocalAccess>,
    /// For each register, the one whose element it holds: itself, unless it is a copy.
    pub originals: Vec<u32>,
    /// The offset that each bit of a thread's number adds by XOR: lanes first, then warps.
    pub thread: SmallVec<[u32; 10]>,
    /// The thread bits (in the same order) that add nothing: threads with one of them set hold copies.
    pub copied_threads: u32,
    /// All bits that some thread's offset has.
    pub thread_reach: u32,
    /// The bits of the offsets above that the place of the view in its allocation may have as well, so that both meet by
    /// XOR; none unless the view is a slice of a swizzled allocation.
    pub start_flips: u32,
}

/// One access of every thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAccess {
    /// The offset that it adds to the thread's by XOR; a multiple of the vector.
    pub offset: u32,
    /// The registers accessed, in the order of memory.
    pub registers: SmallVec<[u32; 8]>,
}

/// Plans the accesses of a tensor with the map `registers`, whose shape is that of a view, to that view of an allocation of
/// `alloc_shape` with the layout `shared`; both have the rank of the layout, or one dimension more in front that counts
/// buffers. A boolean counts 8 bits.
pub fn plan_local(
    registers: &LinearLayout,
    shared: &SharedLayout,
    alloc_shape: &[u32],
    elem_bits: u32,
) -> Result<LocalPlan, LayoutError> {
    let places = Places::new(shared, alloc_shape)?;
    let offsets_of = |axis: Axis| -> SmallVec<[u32; 10]> {
        let bases = registers.bases(axis).iter();
        bases
            .map(|&basis| places.offset(&registers.unpack_out(basis)))
            .collect()
    };
    let own = offsets_of(Axis::Register);
    let mut thread = offsets_of(Axis::Lane);
    let lanes = thread.len();
    thread.extend(offsets_of(Axis::Warp));
    let thread_reach = thread.iter().fold(0, |all, entry| all | entry);
    let most = (MAX_ACCESS_BITS / elem_bits).min(unbroken(shared));
    let copied = registers.free_mask(Axis::Register);
    let start_reach = places.start_reach(&registers.out_sizes());
    let start_flips = start_reach & own.iter().fold(thread_reach, |all, entry| all | entry);
    let steps = steps(&own, copied, thread_reach | start_reach, most);
    Ok(LocalPlan {
        vector: 1 << steps.len(),
        accesses: accesses(&own, copied, &steps),
        originals: (0..1_u32 << own.len()).map(|r| r & !copied).collect(),
        copied_threads: registers.free_mask(Axis::Lane) | registers.free_mask(Axis::Warp) << lanes,
        thread,
        thread_reach,
        start_flips,
    })
}

/// Where coordinates lie: the way back from them to offsets.
pub struct Places {
    back: LinearLayout,
    alloc_shape: Dims,
    /// Offsets of one buffer, as a power of two.
    buffer_bits: u32,
    /// Does the first dimension count buffers?
    has_buffers: bool,
}

impl Places {
    /// The places of an allocation. Its shape has the rank of the layout, or one dimension more in front that counts
    /// buffers: their offsets follow one another at powers of two.
    pub fn new(shared: &SharedLayout, alloc_shape: &[u32]) -> Result<Places, LayoutError> {
        let map = shared.linear(covered(shared, alloc_shape))?;
        let back = map.right_inverse();
        Ok(Places {
            back: back.expect("a shared layout reaches every element"),
            alloc_shape: alloc_shape.into(),
            buffer_bits: map.in_bits(Axis::Offset),
            has_buffers: alloc_shape.len() > shared.rank(),
        })
    }

    /// The offset of an element, counted in elements and before padding.
    pub fn offset(&self, coords: &[u32]) -> u32 {
        let (buffer, coords) = match coords.split_first() {
            Some((&buffer, rest)) if self.has_buffers => (buffer, rest),
            _ => (0, coords),
        };
        let inputs: SmallVec<[(Axis, u32); 4]> = Axis::dims(coords.len())
            .zip(coords.iter().copied())
            .collect();
        let packed = self.back.apply_packed(self.back.pack_in(&inputs));
        let shift = self.back.out_shift(Axis::Offset);
        let within = (packed >> shift & ((1 << self.buffer_bits) - 1)) as u32;
        within | buffer << self.buffer_bits
    }

    /// The offset of each bit of the coordinate along `dim`, as many as `size` takes, bit 0 first.
    pub fn along(&self, dim: usize, size: u32) -> SmallVec<[u32; 10]> {
        let bits = size.next_power_of_two().trailing_zeros();
        (0..bits).map(|bit| self.of_bit(dim, bit)).collect()
    }

    fn of_bit(&self, dim: usize, bit: u32) -> u32 {
        self.offset(&Dims::filled(0, self.alloc_shape.rank()).with(dim, 1 << bit))
    }

    /// All bits that the offset of the first element of a view of the shape `view` may have.
    pub fn start_reach(&self, view: &[u32]) -> u32 {
        // Buffers are counted by numbers and not by bits, and no other coordinate reaches their part of the offset.
        let dims = usize::from(self.has_buffers)..self.alloc_shape.rank();
        let left_out = dims.flat_map(|dim| {
            let bits = view[dim].trailing_zeros()..self.alloc_shape[dim].trailing_zeros();
            bits.map(move |bit| (dim, bit))
        });
        left_out.fold(0, |all, (dim, bit)| all | self.of_bit(dim, bit))
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
    /// buffers includes padding that the last element of a buffer does not have behind it.
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
        if alloc_shape.len() > shared.rank() {
            let bits = shared
                .linear(covered(shared, alloc_shape))?
                .in_bits(Axis::Offset);
            let one = Storage { elem_bytes, gaps };
            let stride = buffer_bytes(shared, alloc_shape, elem_bytes)?;
            let gap = stride as i32 - one.bytes(1 << bits) as i32;
            gaps = one.gaps;
            if gap != 0 {
                gaps.push((bits, gap));
            }
        }
        Ok(Storage { elem_bytes, gaps })
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

/// The largest aligned run of elements that padding neither splits nor moves out of alignment.
fn unbroken(shared: &SharedLayout) -> u32 {
    match shared {
        SharedLayout::Padded(padded) => padded.unbroken_elements().min(padded.aligned_elements()),
        _ => u32::MAX,
    }
}

/// Sets of registers that add the offsets 1, 2, 4, ..., as far as they can be accessed together: no thread may begin
/// inside such a run.
fn steps(own: &[u32], copied: u32, thread_reach: u32, most: u32) -> SmallVec<[u32; 4]> {
    let mut span = Span::new();
    for (bit, &offset) in own.iter().enumerate() {
        if copied >> bit & 1 == 0 {
            span.insert_tagged(offset.into(), 1 << bit);
        }
    }
    let mut steps = SmallVec::new();
    while 1 << (steps.len() + 1) <= most && thread_reach >> steps.len() & 1 == 0 {
        let Some(registers) = span.solve(1 << steps.len()) else {
            break;
        };
        steps.push(registers as u32);
    }
    steps
}

fn accesses(own: &[u32], copied: u32, steps: &[u32]) -> Vec<LocalAccess> {
    let offset_of = |register: u32| {
        let set = own
            .iter()
            .enumerate()
            .filter(|&(bit, _)| register >> bit & 1 == 1);
        set.fold(0, |sum, (_, &entry)| sum ^ entry)
    };
    let vector = 1_u32 << steps.len();
    let mut found = Vec::new();
    for first in (0..1_u32 << own.len()).filter(|r| r & copied == 0) {
        let offset = offset_of(first);
        // Of each run, only the register at its beginning leads.
        if offset & (vector - 1) != 0 {
            continue;
        }
        let step = |at: u32| {
            steps
                .iter()
                .enumerate()
                .filter(|&(k, _)| at >> k & 1 == 1)
                .fold(0, |r, (_, s)| r ^ s)
        };
        found.push(LocalAccess {
            offset,
            registers: (0..vector).map(|at| first ^ step(at)).collect(),
        });
    }
    found
}
