//! Planning the way of a tensor between registers and a view of shared memory: which registers move together, and where.

use smallvec::SmallVec;

use super::linear::gf2::Span;
use super::{Axis, LayoutError, LinearLayout, SharedLayout};

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
}

/// One access of every thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAccess {
    /// The offset that it adds to the thread's by XOR; a multiple of the vector.
    pub offset: u32,
    /// The registers accessed, in the order of memory.
    pub registers: SmallVec<[u32; 8]>,
}

/// Plans the accesses of a tensor with the map `registers` to a view of the shape `view` in an allocation of
/// `alloc_shape` with the layout `shared`; both have the rank of the layout. A boolean counts 8 bits.
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
    let steps = steps(&own, copied, thread_reach, most);
    Ok(LocalPlan {
        vector: 1 << steps.len(),
        accesses: accesses(&own, copied, &steps),
        originals: (0..1_u32 << own.len()).map(|r| r & !copied).collect(),
        copied_threads: registers.free_mask(Axis::Lane) | registers.free_mask(Axis::Warp) << lanes,
        thread,
        thread_reach,
    })
}

/// Where coordinates lie: the way back from them to offsets.
pub struct Places {
    back: LinearLayout,
}

impl Places {
    /// The places of an allocation.
    pub fn new(shared: &SharedLayout, alloc_shape: &[u32]) -> Result<Places, LayoutError> {
        let map = shared.linear(alloc_shape)?;
        let back = map.right_inverse();
        Ok(Places {
            back: back.expect("a shared layout reaches every element"),
        })
    }

    /// The offset of an element, counted in elements and before padding.
    pub fn offset(&self, coords: &[u32]) -> u32 {
        let inputs: SmallVec<[(Axis, u32); 4]> = Axis::dims(coords.len())
            .zip(coords.iter().copied())
            .collect();
        let packed = self.back.apply_packed(self.back.pack_in(&inputs));
        let shift = self.back.out_shift(Axis::Offset);
        (packed >> shift & ((1 << self.back.out_bits(Axis::Offset)) - 1)) as u32
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
