//! Planning the move of a tensor between registers and a view of shared memory: which registers move together, and where.

mod cost;
mod cut;
mod matrix;
mod places;

use smallvec::SmallVec;
use target::Target;

pub use cost::{LocalCost, bank_conflicts};
pub(crate) use cut::cut_fields;
pub use places::{Places, Storage};

use super::convert::AccessKind;
use super::linear::cut::is_cut;
use super::linear::gf2::Span;
use super::relate::covered;
use super::{Axis, LayoutError, LinearLayout, SharedLayout};

/// The direction of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From shared memory to registers.
    Load,
    /// From registers to shared memory.
    Store,
}

/// How every thread accesses its elements of a view.
///
/// An access of thread `t` goes to the offset `thread(t) ^ access.offset`, counted in elements and before padding; the
/// thread's part is the XOR of one entry for each bit set of its number. Of a vector the thread gives the place of its own
/// elements, of a matrix that of a row (see [`AccessKind`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPlan {
    /// What moves the elements.
    pub kind: AccessKind,
    /// Elements that a thread gets or gives by one access, a power of two.
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
    /// The offset that it adds to the thread's by XOR.
    pub offset: u32,
    /// The registers accessed, each counted among those that [hold elements](LinearLayout::registers): of a vector in the order of memory, else matrix by matrix, and within one from the lowest
    /// bits of a 32-bit register.
    pub registers: SmallVec<[u32; 8]>,
}

/// The cheapest accesses on `target` of a tensor with the map `registers`, whose shape is that of a view, to that view of an allocation
/// of `alloc_shape` with the layout `shared`; both have the rank of the layout, or one dimension more in front that counts
/// buffers. A boolean counts 8 bits.
pub fn plan_access(
    target: &Target,
    registers: &LinearLayout,
    shared: &SharedLayout,
    alloc_shape: &[u32],
    elem_bits: u32,
    direction: Direction,
) -> Result<LocalPlan, LayoutError> {
    let tile = Tile::new(target, registers, shared, alloc_shape, elem_bits)?;
    let storage = Storage::new(shared, alloc_shape, elem_bits / 8)?;
    let mut best = tile.vectors();
    let mut least = best.cost(&storage).total();
    for plan in tile.matrices(direction) {
        let cost = plan.cost(&storage).total();
        if cost < least {
            (best, least) = (plan, cost);
        }
    }
    Ok(best)
}

/// The same with vectors alone.
pub fn plan_local(
    target: &Target,
    registers: &LinearLayout,
    shared: &SharedLayout,
    alloc_shape: &[u32],
    elem_bits: u32,
) -> Result<LocalPlan, LayoutError> {
    Ok(Tile::new(target, registers, shared, alloc_shape, elem_bits)?.vectors())
}

/// A tensor in registers, seen from a view: the offset of each bit of a place, in elements and before padding.
struct Tile {
    elem_bits: u32,
    /// Bits of the widest access of a thread.
    widest_bits: u32,
    register: SmallVec<[u32; 10]>,
    lane: SmallVec<[u32; 10]>,
    warp: SmallVec<[u32; 10]>,
    copied_registers: u32,
    /// The register bits that step over whole granules of a size that is no power of two: no access reaches across them.
    cut_registers: u32,
    /// The numbers of the registers that hold elements.
    existing: Vec<u32>,
    copied_lanes: u32,
    copied_warps: u32,
    /// What the offset of the view's first element may have.
    start_reach: u32,
    /// The largest aligned run of elements that padding neither splits nor moves out of alignment.
    unbroken: u32,
}

impl Tile {
    fn new(
        target: &Target,
        registers: &LinearLayout,
        shared: &SharedLayout,
        alloc_shape: &[u32],
        elem_bits: u32,
    ) -> Result<Tile, LayoutError> {
        let places = Places::new(shared, alloc_shape)?;
        let storage = Storage::new(shared, alloc_shape, elem_bits / 8)?;
        let cut = registers.cut_mask();
        let bases = registers.bases(Axis::Register).iter().enumerate();
        let cut_bits = bases.filter(|(_, basis)| *basis & cut != 0);
        let offsets_of = |axis: Axis| -> SmallVec<[u32; 10]> {
            let bases = registers.bases(axis).iter();
            bases
                .map(|&basis| places.offset(&registers.unpack_out(basis)))
                .collect()
        };
        Ok(Tile {
            elem_bits,
            widest_bits: 8 * target.access.widest_bytes,
            register: offsets_of(Axis::Register),
            lane: offsets_of(Axis::Lane),
            warp: offsets_of(Axis::Warp),
            copied_registers: registers.free_mask(Axis::Register),
            cut_registers: cut_bits.fold(0, |all, (bit, _)| all | 1 << bit),
            existing: registers.registers(),
            copied_lanes: registers.free_mask(Axis::Lane),
            copied_warps: registers.free_mask(Axis::Warp),
            start_reach: places.start_reach(&registers.out_sizes()),
            unbroken: match shared {
                SharedLayout::Padded(p) => p.unbroken_elements().min(p.aligned_elements()),
                _ if is_cut(covered(shared, alloc_shape)) => storage.aligned_elements(),
                _ => u32::MAX,
            },
        })
    }

    /// The offset that a set of register bits adds.
    fn offset_of(&self, registers: u32) -> u32 {
        xor_of(&self.register, registers)
    }

    /// A plan with these parts.
    fn plan(
        &self,
        kind: AccessKind,
        thread: SmallVec<[u32; 10]>,
        accesses: Vec<LocalAccess>,
    ) -> LocalPlan {
        let thread_reach = thread.iter().fold(0, |all, entry| all | entry);
        let reach = self.register.iter().fold(thread_reach, |all, r| all | r);
        let accesses = self.existing_accesses(accesses);
        let original = |number: &u32| self.index(number & !self.copied_registers);
        LocalPlan {
            kind,
            vector: accesses[0].registers.len() as u32,
            accesses,
            originals: self.existing.iter().filter_map(original).collect(),
            copied_threads: self.copied_lanes | self.copied_warps << self.lane.len(),
            thread,
            thread_reach,
            start_flips: self.start_reach & reach,
        }
    }

    /// The place of a register among those that hold elements.
    fn index(&self, number: u32) -> Option<u32> {
        if self.cut_registers == 0 {
            return Some(number);
        }
        self.existing
            .binary_search(&number)
            .ok()
            .map(|at| at as u32)
    }

    /// The accesses of registers that hold elements, which all of an access do or none.
    fn existing_accesses(&self, mut accesses: Vec<LocalAccess>) -> Vec<LocalAccess> {
        if self.cut_registers == 0 {
            return accesses;
        }
        accesses.retain_mut(|access| {
            let found: Option<SmallVec<_>> =
                access.registers.iter().map(|&r| self.index(r)).collect();
            found.is_some_and(|found| {
                access.registers = found;
                true
            })
        });
        accesses
    }

    fn vectors(&self) -> LocalPlan {
        let thread: SmallVec<_> = self.lane.iter().chain(&self.warp).copied().collect();
        let others = thread
            .iter()
            .fold(self.start_reach, |all, entry| all | entry);
        let steps = self.steps(others);
        let vector = 1_u32 << steps.len();
        // Of each run, only the register at its beginning leads.
        let leaders = (0..1_u32 << self.register.len())
            .filter(|r| r & self.copied_registers == 0)
            .filter(|&r| self.offset_of(r) & (vector - 1) == 0);
        let accesses = leaders.map(|first| LocalAccess {
            offset: self.offset_of(first),
            registers: (0..vector).map(|at| first ^ xor_of(&steps, at)).collect(),
        });
        self.plan(AccessKind::Vector, thread, accesses.collect())
    }

    /// Sets of registers that add the offsets 1, 2, 4, ..., as far as they can be accessed together: nothing else (`others`)
    /// may begin inside such a run.
    fn steps(&self, others: u32) -> SmallVec<[u32; 4]> {
        let span = self.span();
        let most = (self.widest_bits / self.elem_bits).min(self.unbroken);
        let mut steps = SmallVec::new();
        while 1 << (steps.len() + 1) <= most && others >> steps.len() & 1 == 0 {
            let Some(registers) = span.solve(1 << steps.len()) else {
                break;
            };
            steps.push(registers as u32);
        }
        steps
    }

    /// The offsets of all registers that are no copies and may share an access, tagged by their bits.
    fn span(&self) -> Span {
        let mut span = Span::new();
        let left_out = self.copied_registers | self.cut_registers;
        for (bit, &offset) in self.register.iter().enumerate() {
            if left_out >> bit & 1 == 0 {
                span.insert_tagged(offset.into(), 1 << bit);
            }
        }
        span
    }
}

/// The XOR of the entries of the bits set in a number.
fn xor_of(entries: &[u32], number: u32) -> u32 {
    let set = entries.iter().enumerate();
    set.filter(|&(bit, _)| number >> bit & 1 == 1)
        .fold(0, |sum, (_, entry)| sum ^ entry)
}
