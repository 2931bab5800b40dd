//! Who holds what: a tensor's layout as the emitter needs it.

use std::collections::{BTreeMap, HashMap};

use ir::TensorType;
use layout::convert::PerThread;
use layout::linear::Registers;
use layout::{Axis, LinearLayout};
use ptx::{BinaryOp, Operand, Reg, Type};

use super::code::Code;

/// How one tensor lies in the registers and threads of a CTA.
pub(super) struct Distribution {
    /// From (register, lane, warp, block) to the tensor's dimensions.
    pub(super) map: LinearLayout,
    /// The packed coordinates that each register adds to those of its thread.
    pub(super) offsets: Vec<u64>,
    /// The registers that hold elements.
    pub(super) held: Registers,
    /// The thread bits (lane, then warp) that add nothing: threads with one of them set hold copies.
    pub(super) copied_threads: u32,
}

impl Distribution {
    pub(super) fn new(t: &TensorType) -> Distribution {
        let map = t.layout.linear(&t.shape);
        let map = map.expect("layouts of an allocated kernel are concrete and fit their shapes");
        let lane_bits = map.in_bits(Axis::Lane);
        Distribution {
            offsets: (map.registers().into_iter())
                .map(|r| map.apply_packed(u64::from(r)))
                .collect(),
            held: Registers::of(&map),
            copied_threads: map.free_mask(Axis::Lane) | map.free_mask(Axis::Warp) << lane_bits,
            map,
        }
    }

    pub(super) fn registers(&self) -> usize {
        self.offsets.len()
    }

    /// Is the register no copy of an earlier one?
    pub(super) fn is_own(&self, register: usize) -> bool {
        self.held.is_own(register)
    }

    /// The register of which this one is a copy: itself, unless it is one.
    pub(super) fn original(&self, register: usize) -> usize {
        self.held.original(register)
    }

    /// The coordinate along `dim` of a packed place.
    pub(super) fn coordinate(&self, packed: u64, dim: usize) -> u32 {
        let axis = Axis::dim(dim);
        let mask = (1_u64 << self.map.out_bits(axis)) - 1;
        (packed >> self.map.out_shift(axis) & mask) as u32
    }

    /// The packed bases of the thread's bits: lanes first, then warps.
    pub(super) fn thread_bases(&self) -> impl Iterator<Item = u64> + '_ {
        self.map
            .bases(Axis::Lane)
            .iter()
            .chain(self.map.bases(Axis::Warp))
            .copied()
    }

    /// For each offset, the first register that has it.
    pub(super) fn by_offset(&self) -> HashMap<u64, usize> {
        let mut found = HashMap::with_capacity(self.offsets.len());
        for (register, &offset) in self.offsets.iter().enumerate() {
            found.entry(offset).or_insert(register);
        }
        found
    }

    /// The part of the coordinate along `dim` that a thread's number gives, and its CTA's in the cluster.
    pub(super) fn thread_coordinate(&self, code: &mut Code, dim: usize) -> Operand {
        let entries = |axis: Axis| {
            let bases = self.map.bases(axis).iter();
            bases.map(|&basis| self.coordinate(basis, dim))
        };
        code.per_thread(&PerThread {
            lane: entries(Axis::Lane).collect(),
            warp: entries(Axis::Warp).collect(),
            block: entries(Axis::Block).collect(),
        })
    }

    /// A predicate that holds in the threads that own their elements; none when all do.
    pub(super) fn owner(&self, code: &mut Code) -> Option<Reg> {
        let some_own_nothing = self.copied_threads != 0 || code.partition.followers != 0;
        some_own_nothing.then(|| code.thread_bits_clear(self.copied_threads))
    }
}

impl Code {
    /// The XOR of the entries of all bits set in the thread's number; entry `i` belongs to bit `i`, and the entries cover
    /// all bits of a thread's number.
    pub(super) fn of_thread(&mut self, entries: &[u32]) -> Operand {
        if entries.iter().all(|&entry| entry == 0) {
            return Operand::Int(0);
        }
        self.in_prologue(|code| {
            let thread = code.thread();
            code.of_bits(thread, entries)
        })
    }

    /// The XOR of the entries of all bits set in a number, which has no other bits than there are entries.
    ///
    /// Bits that move by the same distance move together, so that a plain layout costs a mask and a shift.
    pub(super) fn of_bits(&mut self, number: Reg, entries: &[u32]) -> Operand {
        let mut moves: BTreeMap<i32, u32> = BTreeMap::new();
        for (from, &entry) in entries.iter().enumerate() {
            for to in (0..32).filter(|to| entry >> to & 1 == 1) {
                *moves.entry(to - from as i32).or_insert(0) |= 1 << from;
            }
        }
        let all = ((1_u64 << entries.len()) - 1) as u32;
        let mut sum: Option<Reg> = None;
        for (distance, mask) in moves {
            let part = self.moved_bits(number, mask, distance, all);
            sum = Some(match sum {
                None => part,
                Some(sum) => self.binary(BinaryOp::Xor, Type::B32, sum, part),
            });
        }
        sum.map_or(Operand::Int(0), Operand::Reg)
    }

    /// The bits of `mask` of a number, moved up by `distance`; `all` are the bits that it can have.
    fn moved_bits(&mut self, number: Reg, mask: u32, distance: i32, all: u32) -> Reg {
        let low = mask.trailing_zeros();
        if distance < 0 && low == distance.unsigned_abs() && all & !mask & !((1 << low) - 1) == 0 {
            // The shift itself drops what is not wanted.
            return self.binary(BinaryOp::Shr, Type::U32, number, low);
        }
        let kept = if mask == all {
            number
        } else {
            self.binary(BinaryOp::And, Type::B32, number, mask)
        };
        match distance {
            0 => kept,
            1.. => self.binary(BinaryOp::Shl, Type::B32, kept, distance.unsigned_abs()),
            _ => self.binary(BinaryOp::Shr, Type::U32, kept, distance.unsigned_abs()),
        }
    }
}
