//! Elements of shared memory at places that the kernel computes: gather, scatter and atomic scatter.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::atomic::{AtomicOp, Scope, Semantics, SmemAtomicFetch, SmemAtomicScatter};
use ir::ops::shared::{SmemGather, SmemScatter};
use ptx::{Addr, Space};

use super::atomic::{Step, word};
use super::distribute::Distribution;
use super::element::Element;
use super::owners::Turn;
use super::shared::{Number, Offset, View};
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};

impl Lower for SmemGather {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let shape = Shape::new(view.ty.elem, 1);
        let distribution = cx.distribution(cx.tensor(self.indices));
        let (elem, indices) = (cx.elem(self.indices), cx.elements(self.indices));
        let mut loaded = vec![Element::int(0); distribution.registers()];
        for register in 0..distribution.registers() {
            let original = distribution.original(register);
            loaded[register] = if original == register {
                let index = (indices[register], elem);
                let along = (self.view, self.axis);
                let turn = Turn {
                    register,
                    guard: None,
                };
                let addr = cx.indexed(&view, along, &distribution, &turn, index);
                let regs = cx.code.vector_regs(shape, None);
                let like = plain_load(Space::Shared);
                cx.code.load_into(shape, &regs, addr, None, &like);
                cx.code.vector_elements(shape, &regs)[0]
            } else {
                loaded[original]
            };
        }
        cx.set_result(inst, loaded);
        Ok(())
    }
}

impl Lower for SmemScatter {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let shape = Shape::new(view.ty.elem, 1);
        let distribution = cx.distribution(cx.tensor(self.indices));
        let (elem, indices) = (cx.elem(self.indices), cx.elements(self.indices));
        let values = cx.elements(self.values);
        for turn in cx.turns(self.indices, None) {
            let index = (indices[turn.register], elem);
            let addr = cx.indexed(&view, (self.view, self.axis), &distribution, &turn, index);
            let like = plain_store(Space::Shared);
            let value = [values[turn.register]];
            cx.code.store(shape, &value, addr, turn.guard, &like);
        }
        Ok(())
    }
}

impl Lower for SmemAtomicScatter {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let steps = Steps {
            op: self.op,
            place: (self.view, self.indices, self.axis),
            values: self.values,
            mask: self.mask.expand(),
        };
        cx.atomic_steps(&steps, false);
        Ok(())
    }
}

impl Lower for SmemAtomicFetch {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let steps = Steps {
            op: self.op,
            place: (self.view, self.indices, self.axis),
            values: self.values,
            mask: self.mask.expand(),
        };
        let known = cx.atomic_steps(&steps, true);
        cx.broadcast_to_copies(inst, known, self.scratch);
        Ok(())
    }
}

/// Atomics on places of shared memory that indices name.
struct Steps {
    op: AtomicOp,
    place: (Value, Value, u32),
    values: Value,
    mask: Option<Value>,
}

impl Emitter<'_> {
    /// Does each step once; gives what was there before, by registers, if that is wanted.
    fn atomic_steps(&mut self, steps: &Steps, wants_old: bool) -> Vec<(usize, Element)> {
        let (viewed, indices, axis) = steps.place;
        let view = View::of(self, viewed);
        let data = view.ty.elem;
        let ty = word(steps.op, data);
        let distribution = self.distribution(self.tensor(indices));
        let (elem, values) = (self.elem(indices), self.elements(steps.values));
        let places = self.elements(indices);
        let mut known = Vec::new();
        for turn in self.turns(indices, steps.mask) {
            let index = (places[turn.register], elem);
            let to = self.indexed(&view, (viewed, axis), &distribution, &turn, index);
            let value = self.code.atomic_word(values[turn.register], data, ty);
            let step = Step {
                semantics: Semantics::Relaxed,
                scope: Scope::Cta,
                space: Space::Shared,
                guard: turn.guard,
                to,
            };
            let old = wants_old.then(|| self.code.preset(ty, turn.guard));
            self.code
                .read_modify_write(steps.op, data, value, &step, old);
            let element = old.map(|old| self.code.from_atomic_word(old, data));
            known.extend(element.map(|element| (turn.register, element)));
        }
        known
    }
}

impl Emitter<'_> {
    /// The address of the element of a view at an index along `axis` and at the register's own coordinates elsewhere.
    fn indexed(
        &mut self,
        view: &View<'_>,
        (viewed, axis): (Value, u32),
        registers: &Distribution,
        turn: &Turn,
        (index, elem): (Element, Elem),
    ) -> Addr {
        let axis = axis as usize;
        let place = |packed: u64| {
            let coords = registers.map.unpack_out(packed);
            view.places().offset(&coords.with(axis, 0))
        };
        let thread: Vec<u32> = registers.thread_bases().map(place).collect();
        let mut offset = Offset::of(Number::Thread, &thread);
        offset.add_constant(place(registers.offsets[turn.register]));
        let along = view.places().along(axis, view.ty.shape[axis]);
        if let Some(index) = index.as_int() {
            offset.add_bits_of(index as u32, &along);
        } else {
            let (index, full) = self.code.index_word(index, elem);
            self.state_index(full, (viewed, axis), turn.guard);
            offset.add_part(Number::Held(index), &along);
        }
        let address = self.moved(view, &offset);
        self.code.shared_addr(address, 0)
    }
}
