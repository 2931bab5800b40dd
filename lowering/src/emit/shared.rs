//! Tiles in shared memory: allocations, views of them, and moves between them and registers.
//!
//! A view is one number, the address of its first element in the shared window. Where an element lies behind it follows
//! from the layout: bits of the offset that come from the thread, from a register or from an index, combined by XOR. A
//! slice of a swizzled allocation begins inside the pattern, so there the address itself takes part in the XOR; the
//! allocation is aligned so that this is possible.

use std::rc::Rc;

use ir::SmemType;
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp as Op;
use ir::ops::shared::{
    SmemAlloc, SmemIndex, SmemKeep, SmemLoad, SmemPermute, SmemReinterpret, SmemReshape, SmemSlice,
    SmemStore,
};
use layout::local::{LocalPlan, Places, Storage};
use ptx::{Addr, Operand, Predicate, Reg, Space};

use super::addressing::{Addressing, Buffer, LAYOUTS_FIT, WINDOW_ALIGNMENT};
use super::code::Code;
use super::element::{ADDRESS, Element};
use super::{Emitted, Emitter, Lower};

impl Lower for SmemAlloc {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let base = cx.shared_address(0);
        let view = Element::Sum(base, self.bytes.start.into());
        let result = cx.func.result(inst);
        cx.set(result, vec![view]);
        if let Some(init) = self.init.expand() {
            cx.store_view(inst, result, init);
        }
        Ok(())
    }
}

impl Lower for SmemLoad {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let distribution = cx.distribution(cx.tensor(result));
        let view = View::of(cx, self.view);
        let elem = view.ty.elem;
        let plan = cx.local_plan(inst);
        let mut loaded = vec![Element::int(0); distribution.registers()];
        for access in &plan.accesses {
            let addr = cx.access_address(&view, &plan, access.offset);
            let count = access.registers.len();
            let elements = cx.load_shared(plan.kind, elem, count, addr, Space::Shared);
            for (&register, element) in access.registers.iter().zip(elements) {
                loaded[register as usize] = element;
            }
        }
        let elements: Vec<Element> = plan.originals.iter().map(|&r| loaded[r as usize]).collect();
        cx.set(result, elements);
        Ok(())
    }
}

impl Lower for SmemStore {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.store_view(inst, self.view, self.value);
        Ok(())
    }
}

impl Lower for SmemIndex {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let index = cx.scalar(self.index);
        let has_buffers = view.ty.shape.rank() > view.ty.layout.rank();
        let moved = if has_buffers {
            // Buffers follow one another at any distance, so their number is no bit pattern.
            let stride = Element::int(view.addressing.buffer_bytes.into());
            let bytes = cx.code.int_binary(Op::Mul, index, stride, ADDRESS);
            let moved = cx.code.int_binary(Op::Add, view.address, bytes, ADDRESS);
            cx.remember_buffer(&view, index, moved);
            moved
        } else {
            let entries = view.places().along(0, view.ty.shape[0]);
            let mut offset = Offset::default();
            if let Some(index) = index.as_int() {
                offset.add_bits_of(index as u32, &entries);
            } else {
                let number = Number::Held(cx.code.whole(index, ADDRESS));
                offset.add_part(number, &entries);
            }
            cx.moved(&view, &offset)
        };
        cx.set_result(inst, vec![moved]);
        Ok(())
    }
}

impl Emitter<'_> {
    /// Enters how an address behind the window's beginning was made of the number of a buffer.
    fn remember_buffer(&mut self, view: &View<'_>, index: Element, moved: Element) {
        let window = self.shared_address(0);
        let register = |address: Element| match address {
            Element::Sum(reg, _) | Element::Whole(Operand::Reg(reg)) => Some(reg),
            _ => None,
        };
        let is_of_window = register(view.address) == Some(window);
        if let (true, Element::Whole(Operand::Reg(index)), Some(address)) =
            (is_of_window, index, register(moved))
        {
            let stride_bytes = view.addressing.buffer_bytes;
            self.buffers.insert(
                address,
                Buffer {
                    index,
                    stride_bytes,
                },
            );
        }
    }
}

impl Lower for SmemSlice {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let offset = Offset::constant(view.places().offset(&self.starts));
        let moved = cx.moved(&view, &offset);
        cx.set_result(inst, vec![moved]);
        Ok(())
    }
}

macro_rules! same_address {
    ($($op:ident)*) => {$(
        impl Lower for $op {
            /// The same bytes under another map.
            fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
                let view = cx.elements(self.view);
                cx.set_result(inst, view);
                Ok(())
            }
        }
    )*};
}

same_address! { SmemPermute SmemReshape SmemReinterpret }

impl Lower for SmemKeep {
    /// The planner has seen it.
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        Ok(())
    }
}

/// A view as accesses need it.
pub(super) struct View<'f> {
    /// Its type.
    pub(super) ty: &'f SmemType,
    /// The address of its first element.
    pub(super) address: Element,
    addressing: Rc<Addressing>,
}

impl<'f> Emitter<'f> {
    /// How elements of a view are addressed: worked out once for each type, of which a kernel has few.
    pub(super) fn addressing(&mut self, ty: &'f SmemType) -> Rc<Addressing> {
        let known = self.addressings.iter().find(|(known, _)| *known == ty);
        if let Some((_, addressing)) = known {
            return addressing.clone();
        }
        let addressing = Rc::new(Addressing::of(ty));
        self.addressings.push((ty, addressing.clone()));
        addressing
    }
}

impl<'f> View<'f> {
    pub(super) fn of(cx: &mut Emitter<'f>, value: Value) -> View<'f> {
        let ty = cx.func.ty(value).as_smem();
        let ty = ty.expect("the verifier admits only shared memory here");
        View {
            ty,
            address: cx.scalar(value),
            addressing: cx.addressing(ty),
        }
    }

    /// The offsets of its elements.
    pub(super) fn places(&self) -> &Places {
        &self.addressing.places
    }
}

/// Where the bits of an offset come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// The number of the thread.
    Thread,
    /// A number that the kernel computed.
    Held(Reg),
}

/// A place behind the first element of a view, counted in elements and before padding: the XOR of its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Offset {
    constant: u32,
    /// Numbers, with the entry of each of their bits.
    parts: Vec<(Number, Vec<u32>)>,
}

impl Offset {
    fn constant(constant: u32) -> Offset {
        Offset {
            constant,
            parts: Vec::new(),
        }
    }

    pub(super) fn of(number: Number, entries: &[u32]) -> Offset {
        Offset {
            constant: 0,
            parts: vec![(number, entries.to_vec())],
        }
    }

    pub(super) fn add_constant(&mut self, constant: u32) {
        self.constant ^= constant;
    }

    pub(super) fn add_part(&mut self, number: Number, entries: &[u32]) {
        self.parts.push((number, entries.to_vec()));
    }

    /// Adds the entries of the bits of a number that is known.
    pub(super) fn add_bits_of(&mut self, number: u32, entries: &[u32]) {
        self.constant ^= xor_of(entries, number);
    }

    /// All bits that the parts may have.
    fn reach(&self) -> u32 {
        let entries = self.parts.iter().flat_map(|(_, entries)| entries);
        entries.fold(0, |all, entry| all | entry)
    }

    /// The same with only those bits, in units of `scale`.
    fn masked(&self, mask: u32, scale: u32) -> Offset {
        let part = |(number, entries): &(Number, Vec<u32>)| {
            let entries = entries.iter().map(|entry| (entry & mask) * scale);
            (*number, entries.collect())
        };
        Offset {
            constant: (self.constant & mask) * scale,
            parts: self.parts.iter().map(part).collect(),
        }
    }

    fn is_of_thread(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|(number, _)| *number == Number::Thread)
    }
}

/// The XOR of the entries of the bits set in a number.
fn xor_of(entries: &[u32], number: u32) -> u32 {
    let set = entries.iter().enumerate();
    set.filter(|&(bit, _)| number >> bit & 1 == 1)
        .fold(0, |sum, (_, entry)| sum ^ entry)
}

impl Emitter<'_> {
    /// An operand for the byte of a view that lies `byte_offset` behind its first element.
    pub(super) fn view_address(&mut self, view: Value, byte_offset: u32) -> Addr {
        let address = self.scalar(view);
        self.code.shared_addr(address, byte_offset)
    }

    /// How an instruction moves a tile between registers and a view, both of which the verifier has seen.
    pub(super) fn local_plan(&self, inst: Inst) -> LocalPlan {
        let plan = self.accesses.shared(inst).and_then(|plan| plan.local);
        plan.expect(LAYOUTS_FIT)
    }

    /// Writes a tensor into a view.
    fn store_view(&mut self, inst: Inst, view: Value, value: Value) {
        let view = View::of(self, view);
        let distribution = self.distribution(self.tensor(value));
        let elements = self.elements(value);
        let plan = self.local_plan(inst);
        let owner = distribution.owner(&mut self.code).map(Predicate::is);
        for access in &plan.accesses {
            let addr = self.access_address(&view, &plan, access.offset);
            let values: Vec<Element> = access
                .registers
                .iter()
                .map(|&r| elements[r as usize])
                .collect();
            self.store_shared(plan.kind, view.ty.elem, &values, addr, owner);
        }
    }

    /// The address of the access at `offset` of every thread.
    pub(super) fn access_address(
        &mut self,
        view: &View<'_>,
        plan: &LocalPlan,
        offset: u32,
    ) -> Addr {
        let mut at = Offset::of(Number::Thread, &plan.thread);
        at.add_constant(offset);
        let address = self.moved(view, &at);
        self.code.shared_addr(address, 0)
    }

    /// The address of the element of a view at an offset from its first.
    pub(super) fn moved(&mut self, view: &View<'_>, offset: &Offset) -> Element {
        let reach = offset.reach() | offset.constant;
        let flips = view.addressing.start_reach & reach & view.addressing.swizzled;
        let storage = &view.addressing.storage;
        let scale = if storage.is_plain() {
            storage.elem_bytes
        } else {
            1
        };
        let mut address = view.address;
        if flips != 0 {
            // Padded layouts order their elements without XOR, and other gaps lie above what a swizzle moves.
            let flipped = offset.masked(flips, storage.elem_bytes);
            address = self.flipped(address, flips * storage.elem_bytes, &flipped);
        }
        let rest = offset.masked(!flips, scale);
        // Bits that no number has are added as they are; the others change by XOR.
        let (xored, added) = (rest.constant & rest.reach(), rest.constant & !rest.reach());
        let added = if storage.is_plain() {
            added
        } else {
            storage.bytes(added)
        };
        let base = self.shared_address(0);
        let is_known_first = rest.is_of_thread() && is_behind(address, base);
        let gaps = (!storage.is_plain()).then_some((storage, rest.reach() | xored));
        let sum = self.code.maybe_in_prologue(is_known_first, |code| {
            let number = code.number(&rest, xored);
            let bytes = match gaps {
                Some((storage, reach)) => code.stored_bytes(number, reach, storage),
                None => number.into(),
            };
            code.int_binary(Op::Add, address, bytes, ADDRESS)
        });
        self.code
            .int_binary(Op::Add, sum, Element::int(added.into()), ADDRESS)
    }

    /// An address with some of the bits of `flips` changed, all in bytes. Whatever is allocated is aligned beyond them.
    fn flipped(&mut self, address: Element, flips: u32, by: &Offset) -> Element {
        let base = self.shared_address(0);
        if let Element::Sum(reg, known) = address
            && reg == base
        {
            let constant = by.constant ^ known as u32 & flips;
            let kept = Element::Sum(base, known & !i64::from(flips));
            return self.code.maybe_in_prologue(by.is_of_thread(), |code| {
                let number = code.number(by, constant & by.reach());
                let sum = code.int_binary(Op::Add, kept, number.into(), ADDRESS);
                let added = Element::int((constant & !by.reach()).into());
                code.int_binary(Op::Add, sum, added, ADDRESS)
            });
        }
        let number: Element = self
            .code
            .maybe_in_prologue(by.is_of_thread(), |code| code.number(by, by.constant))
            .into();
        // The window is aligned to so much only; beyond it, the XOR is with the distance from its beginning.
        let is_far = flips >= WINDOW_ALIGNMENT;
        let base = Element::from(base);
        let code = &mut self.code;
        if !is_far {
            return code.int_binary(Op::Xor, address, number, ADDRESS);
        }
        let distance = code.int_binary(Op::Sub, address, base, ADDRESS);
        let distance = code.int_binary(Op::Xor, distance, number, ADDRESS);
        code.int_binary(Op::Add, distance, base, ADDRESS)
    }
}

/// Is it the beginning of shared memory plus a constant?
fn is_behind(address: Element, base: Reg) -> bool {
    matches!(address, Element::Sum(reg, _) | Element::Whole(Operand::Reg(reg)) if reg == base)
}

impl Code {
    /// An operand for an address in the shared window.
    pub(super) fn shared_addr(&mut self, address: Element, byte_offset: u32) -> Addr {
        match address {
            Element::Sum(reg, add) => Addr::reg(reg, (add + i64::from(byte_offset)) as i32),
            other => Addr::reg(self.whole(other, ADDRESS), byte_offset as i32),
        }
    }

    fn maybe_in_prologue<T>(
        &mut self,
        is_known_first: bool,
        make: impl FnOnce(&mut Code) -> T,
    ) -> T {
        if is_known_first {
            self.in_prologue(make)
        } else {
            make(self)
        }
    }

    /// The XOR of all parts of an offset and a constant.
    fn number(&mut self, offset: &Offset, constant: u32) -> Operand {
        let mut sum = Operand::from(constant);
        for (number, entries) in &offset.parts {
            let part = match *number {
                Number::Thread => self.of_thread(entries),
                Number::Held(reg) => self.of_bits(reg, entries),
            };
            sum = match (sum, part) {
                (Operand::Int(0), part) => part,
                (sum, Operand::Int(0)) => sum,
                (sum, part) => self
                    .binary(ptx::BinaryOp::Xor, ptx::Type::B32, part, sum)
                    .into(),
            };
        }
        sum
    }

    /// The bytes that an offset, which has no bits beyond these, lies behind the first element.
    fn stored_bytes(&mut self, offset: Operand, reach: u32, storage: &Storage) -> Element {
        let offset = Element::from(offset);
        let scale = Element::int(storage.elem_bytes.into());
        let mut bytes = self.int_binary(Op::Mul, offset, scale, ADDRESS);
        let is_reached = |(shift, _): &&(u32, i32)| reach >> *shift != 0;
        for &(shift, gap) in storage.gaps.iter().filter(is_reached) {
            let count = self.int_binary(Op::Shr, offset, Element::int(shift.into()), ADDRESS);
            let gap = self.int_binary(Op::Mul, count, Element::int(gap.into()), ADDRESS);
            bytes = self.int_binary(Op::Add, bytes, gap, ADDRESS);
        }
        bytes
    }
}
