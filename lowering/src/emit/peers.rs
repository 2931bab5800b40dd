//! Exchange between the CTAs of a cluster: each sends its partial results to the CTAs that need them, and waits for theirs.
//!
//! A thread stores into the shared memory of another CTA by `st.async`, which counts the bytes on a barrier there (PTX ISA
//! 9.7.9.12). So no CTA waits for more than the data, no memory is flushed, and a CTA that has received everything may
//! exit: no more stores are in flight to it.
//!
//! Where the same exchange is done again, a CTA that is ahead sends for the next time while others still wait for, or
//! read, this time's. Two sets of slots, each with its barrier, take turns: who sends for the time after next has
//! received for the next time from everybody, and so everybody has read this time's.

use ir::elem::Elem;
use ptx::{
    Addr, ArriveOp, BinaryOp, Dest, MbarSpace, Operand, Predicate, Reg, RegClass, Special, Type,
    WaitOp,
};
use target::MBARRIER_BYTES;

use super::Emitter;
use super::code::{Code, move_type};
use super::element::{Element, class};
use crate::analysis::scratch::{Area, word};

/// One element of each operand.
type Tuple = Vec<Element>;

/// One exchange.
pub(super) struct Exchange<'e> {
    /// Its shared memory.
    pub(super) area: &'e Area,
    /// Where that begins.
    pub(super) place: u32,
    /// The bits of the CTA's rank that number the parts, the lowest first.
    pub(super) rank_bits: &'e [u32],
    /// What each bit of the thread's number adds to the number of a tuple that it sends. Threads that differ in bits which
    /// add nothing hold the same tuples.
    pub(super) sender_numbers: &'e [u32],
    /// The same of a tuple that it reads.
    pub(super) thread_numbers: &'e [u32],
    /// The types of a tuple.
    pub(super) elems: &'e [Elem],
}

/// Which set of slots is used this time.
struct Turn {
    /// Counts the times, in a kernel that may do this again.
    count: Option<Reg>,
    /// The set's distance from the first one in bytes.
    set: Option<Reg>,
    /// The barrier's distance from the first one in bytes.
    barrier: Option<Reg>,
    /// The parity of the barrier's phase.
    parity: Operand,
}

impl Exchange<'_> {
    /// What all parts have for each of the `wanted` tuples, in the order of the parts. Tuples are named by what their
    /// registers add to their numbers.
    pub(super) fn run(
        &self,
        tuples: &[(u32, &Tuple)],
        wanted: &[u32],
        cx: &mut Emitter<'_>,
    ) -> Vec<Vec<Tuple>> {
        let turn = self.turn(cx);
        self.send(tuples, &turn, cx);
        self.expect(&turn, cx);
        self.wait(&turn, cx);
        let read = wanted
            .iter()
            .map(|number| self.read(*number, &turn, cx))
            .collect();
        if let Some(count) = turn.count {
            let next = ptx::Binary::new(BinaryOp::Add, Type::U32, count, count, 1_u32);
            cx.code.push(next);
        }
        read
    }

    fn turn(&self, cx: &mut Emitter<'_>) -> Turn {
        if !self.area.is_repeated {
            return Turn {
                count: None,
                set: None,
                barrier: None,
                parity: Operand::Int(0),
            };
        }
        let code = &mut cx.code;
        let count = code.reg(RegClass::B32);
        code.in_prologue(|code| code.copy(count, 0_u32));
        let is_second = code.binary(BinaryOp::And, Type::B32, count, 1_u32);
        let set = code.binary(BinaryOp::MulLo, Type::U32, is_second, self.area.set_bytes);
        let barrier = code.binary(BinaryOp::MulLo, Type::U32, is_second, MBARRIER_BYTES);
        let pairs = code.binary(BinaryOp::Shr, Type::U32, count, 1_u32);
        let parity = code.binary(BinaryOp::And, Type::B32, pairs, 1_u32);
        Turn {
            count: Some(count),
            set: Some(set),
            barrier: Some(barrier),
            parity: parity.into(),
        }
    }

    /// Threads with copies of a tuple share out the CTAs to send it to.
    fn send(&self, tuples: &[(u32, &Tuple)], turn: &Turn, cx: &mut Emitter<'_>) {
        let bits = 0..self.sender_numbers.len() as u32;
        let copies: Vec<u32> = bits
            .filter(|bit| self.sender_numbers[*bit as usize] == 0)
            .collect();
        // Of warps that are no power of two, only those with the highest bit clear have all values of the other bits.
        let last = self.sender_numbers.len() as u32 - 1;
        let is_whole = |bit: &&u32| cx.code.partition.warps.is_power_of_two() || **bit != last;
        let shared = copies.iter().filter(is_whole).count();
        let shared = shared.min(self.rank_bits.len());
        let (sharing, idle) = copies.split_at(shared);
        let guard = cx.code.holders(idle.iter().map(|bit| 1 << bit).sum());
        let own = cx.shared_address(0);
        for rest in 0..self.area.parts >> shared {
            let target = self.target(sharing, rest << shared, cx);
            let barrier = cx.code.in_prologue(|code| code.mapa(own, target));
            let barrier = Addr::reg(cx.code.moved_by(barrier, turn.barrier), self.place as i32);
            for (at, &elem) in self.elems.iter().enumerate() {
                let slots = self.own_slots(word(elem).bytes(), cx);
                let slots = cx.code.in_prologue(|code| code.mapa(slots, target));
                let slots = cx.code.moved_by(slots, turn.set);
                for (number, tuple) in tuples {
                    let to = Addr::reg(slots, self.slot(at, *number) as i32);
                    cx.code.send(tuple[at], elem, (to, barrier), guard);
                }
            }
        }
    }

    /// The rank of the CTA whose part has the number that these bits of the thread's number give, plus `constant`.
    fn target(&self, sharing: &[u32], constant: u32, cx: &mut Emitter<'_>) -> Operand {
        let mask: u32 = self.rank_bits.iter().map(|bit| 1 << bit).sum();
        let all = cx.func.cluster_ctas() - 1;
        let mut entries = vec![0; self.sender_numbers.len()];
        for (thread_bit, rank_bit) in sharing.iter().zip(self.rank_bits) {
            entries[*thread_bit as usize] = 1 << rank_bit;
        }
        let bits = self.rank_bits.iter().enumerate();
        let set = bits.filter(|(at, _)| constant >> at & 1 == 1);
        let constant: u32 = set.map(|(_, bit)| 1 << bit).sum();
        let of_thread = cx.code.of_thread(&entries);
        let target = cx.code.flipped(of_thread, constant);
        if mask == all {
            return target;
        }
        cx.code.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let rest = code.binary(BinaryOp::And, Type::B32, rank, all & !mask);
            code.binary(BinaryOp::Or, Type::B32, rest, target).into()
        })
    }

    /// The address of this CTA's slot for the first tuple of a thread, counted from the beginning of shared memory.
    fn own_slots(&self, word_bytes: u32, cx: &mut Emitter<'_>) -> Reg {
        let base = cx.shared_address(0);
        let numbers = self.sender_numbers.iter();
        let entries: Vec<u32> = numbers.map(|n| n * self.area.parts * word_bytes).collect();
        let of_thread = cx.code.of_thread(&entries);
        let cluster_bits = cx.func.cluster_ctas().trailing_zeros() as usize;
        let mut entries = vec![0; cluster_bits];
        for (at, bit) in self.rank_bits.iter().enumerate() {
            entries[*bit as usize] = word_bytes << at;
        }
        cx.code.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let of_rank = code.of_bits(rank, &entries);
            let slot = code.binary(BinaryOp::Add, Type::U32, base, of_rank);
            match of_thread {
                Operand::Int(0) => slot,
                of_thread => code.binary(BinaryOp::Add, Type::U32, slot, of_thread),
            }
        })
    }

    /// Where the slots of a number begin in the first set, in bytes from the beginning of shared memory.
    fn slot(&self, operand: usize, number: u32) -> u32 {
        let word_bytes = word(self.elems[operand]).bytes();
        let within = self.area.slots(operand) + number * self.area.parts * word_bytes;
        self.place + within
    }

    /// One thread arrives for the CTA, and says how many bytes come.
    fn expect(&self, turn: &Turn, cx: &mut Emitter<'_>) {
        let word_bytes: u32 = self.elems.iter().map(|&elem| word(elem).bytes()).sum();
        let bytes = self.area.sent * self.area.parts * word_bytes;
        let guard = cx.one_thread(None);
        let addr = self.barrier(turn, cx);
        let arrive = ptx::MbarrierArrive {
            space: Some(MbarSpace::Cta),
            count: Some(Operand::from(bytes)),
            ..ptx::MbarrierArrive::new(ArriveOp::ExpectTx, Dest::Sink, addr)
        };
        cx.code.push_guarded(guard, arrive);
    }

    fn wait(&self, turn: &Turn, cx: &mut Emitter<'_>) {
        let addr = self.barrier(turn, cx);
        let again = cx.code.label("wait");
        cx.code.bind(again);
        let done = cx.code.reg(RegClass::Pred);
        cx.code.push(ptx::MbarrierWait {
            space: Some(MbarSpace::Cta),
            ..ptx::MbarrierWait::new(WaitOp::TryParity, done, addr, turn.parity)
        });
        cx.code.branch(Some(Predicate::not(done)), again, false);
    }

    fn barrier(&self, turn: &Turn, cx: &mut Emitter<'_>) -> Addr {
        let base = cx.shared_address(0);
        Addr::reg(cx.code.moved_by(base, turn.barrier), self.place as i32)
    }

    /// What all parts sent for one number.
    fn read(&self, number: u32, turn: &Turn, cx: &mut Emitter<'_>) -> Vec<Tuple> {
        let parts = self.area.parts;
        let mut lists: Vec<Vec<Element>> = Vec::new();
        for (at, &elem) in self.elems.iter().enumerate() {
            let bytes = word(elem).bytes();
            let numbers = self.thread_numbers.iter();
            let entries: Vec<u32> = numbers.map(|n| n * parts * bytes).collect();
            let thread = cx.code.of_thread(&entries);
            let from = cx.shared_place(self.slot(at, number), thread);
            let ptx::Base::Reg(base) = from.base else {
                panic!("shared memory is addressed through a register");
            };
            let from = Addr::reg(cx.code.moved_by(base, turn.set), from.offset);
            let words = cx.load_parts(from, word(elem), parts);
            let elements = words.into_iter().map(|w| cx.code.arrived(w, elem));
            lists.push(elements.collect());
        }
        let tuple = |part: usize| lists.iter().map(|list| list[part]).collect();
        (0..parts as usize).map(tuple).collect()
    }
}

impl Code {
    /// An address moved by what a register holds, if there is one.
    fn moved_by(&mut self, base: Reg, by: Option<Reg>) -> Reg {
        match by {
            None => base,
            Some(by) => self.binary(BinaryOp::Add, Type::U32, base, by),
        }
    }

    /// Stores an element in another CTA, and counts its bytes on the barrier there.
    fn send(
        &mut self,
        element: Element,
        elem: Elem,
        (to, barrier): (Addr, Addr),
        guard: Option<Predicate>,
    ) {
        let bits = if word(elem).bits() == 64 {
            self.whole(element, elem).into()
        } else {
            self.bits32(element, elem)
        };
        let ty = move_type(class(word(elem)));
        let reg = match bits {
            Operand::Reg(reg) => reg,
            constant => self.mov(ty, constant),
        };
        let values: ptx::Values = [Operand::Reg(reg)].into_iter().collect();
        self.launch_in_clusters();
        self.push_guarded(guard, ptx::StAsync::new(ty, to, values, barrier));
    }

    /// The element that a word brought.
    fn arrived(&mut self, element: Element, elem: Elem) -> Element {
        if word(elem) == elem {
            return element;
        }
        let reg = self.whole(element, word(elem));
        if word(elem).bits() == 64 {
            return reg.into();
        }
        self.from_bits32(reg, elem)
    }
}
