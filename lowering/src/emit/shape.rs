//! Shape operations: no element moves, registers are only counted anew.

use ir::entity::{Inst, Value};
use ir::ops::part::{Cat, Part, ranges};
use ir::ops::shape::{Broadcast, ExpandDims, Join, Permute, Reshape, Split};
use layout::relate::{broadcast, registers_in, registers_of_part};
use layout::{Axis, LinearLayout};

use super::element::Element;
use super::{Emitted, Emitter, Lower};

impl Lower for ExpandDims {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.distribution(cx.tensor(cx.func.result(inst)));
        let gone = self.axis as usize;
        let rank = result.map.outs().len();
        // The new dimension has one element: no bits are lost with it.
        let outs: Vec<Axis> = (0..rank)
            .filter(|&dim| dim != gone)
            .map(Axis::dim)
            .collect();
        let map = result.map.with_outs_ordered(&outs);
        let map = map.with_outs_renamed(|axis| position(&outs, axis));
        relabel(inst, cx, self.operand, |_| map);
        Ok(())
    }
}

impl Lower for Broadcast {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let source = cx.distribution(cx.tensor(self.operand));
        let result = cx.distribution(cx.tensor(cx.func.result(inst)));
        let registers = broadcast(&source.map, &result.map).expect("a broadcast moves no element");
        pick(inst, cx, self.operand, &registers);
        Ok(())
    }
}

impl Lower for Permute {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.distribution(cx.tensor(cx.func.result(inst)));
        let order = &self.order;
        let renamed = |axis: Axis| {
            let at = Axis::dims(order.len()).position(|a| a == axis);
            Axis::dim(order[at.expect("an output of a layout is a dimension")] as usize)
        };
        relabel(inst, cx, self.operand, |_| {
            result.map.with_outs_renamed(renamed)
        });
        Ok(())
    }
}

impl Lower for Reshape {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let source = cx.distribution(cx.tensor(self.operand));
        let result = cx.distribution(cx.tensor(cx.func.result(inst)));
        let seen = source.map.reshaped(&result.map.out_sizes());
        let seen = seen.expect("the verifier knows the layouts of reshapes");
        let registers = registers_in(&seen, &result.map).expect("a reshape moves no element");
        pick(inst, cx, self.operand, &registers);
        Ok(())
    }
}

impl Lower for Split {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let results = cx.func.results(inst);
        let source = cx.distribution(cx.tensor(self.operand));
        let half = cx.distribution(cx.tensor(results[0]));
        let elements = cx.elements(self.operand);
        let place = source.by_offset();
        let last = Axis::dim(source.map.outs().len() - 1);
        let bit = source.map.out_shift(last);
        for (side, &value) in results.iter().enumerate() {
            let taken: Vec<Element> = half
                .offsets
                .iter()
                .map(|&offset| {
                    // Dimensions are packed from the first one on, so the last one is the topmost bit.
                    let register = place.get(&(offset | (side as u64) << bit));
                    elements[*register.expect("both halves of a split lie in one thread")]
                })
                .collect();
            cx.set(value, taken);
        }
        Ok(())
    }
}

impl Lower for Join {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.distribution(cx.tensor(cx.func.result(inst)));
        let half = cx.distribution(cx.tensor(self.lhs));
        let sides = [cx.elements(self.lhs), cx.elements(self.rhs)];
        let place = half.by_offset();
        let last = Axis::dim(result.map.outs().len() - 1);
        let bit = result.map.out_shift(last);
        let elements: Vec<Element> = result
            .offsets
            .iter()
            .map(|&offset| {
                let register = place.get(&(offset & !(1 << bit)));
                sides[(offset >> bit & 1) as usize][*register.expect("a join moves no element")]
            })
            .collect();
        cx.set_result(inst, elements);
        Ok(())
    }
}

impl Lower for Part {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let whole = cx.distribution(cx.tensor(self.operand));
        let part = cx.distribution(cx.tensor(cx.func.result(inst)));
        let place = (self.axis as usize, self.start);
        let registers = registers_of_part(&whole.map, &part.map, place.0, place.1);
        pick(inst, cx, self.operand, &registers.expect(NOTHING_MOVES));
        Ok(())
    }
}

impl Lower for Cat {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let whole = cx.distribution(cx.tensor(cx.func.result(inst)));
        let mut elements = vec![None; whole.registers()];
        for (&operand, range) in
            self.operands
                .iter()
                .zip(ranges(cx.func, &self.operands, self.axis as usize))
        {
            let part = cx.distribution(cx.tensor(operand));
            let registers = registers_of_part(&whole.map, &part.map, range.axis, range.start);
            let own = cx.elements(operand);
            for (&register, &element) in registers.expect(NOTHING_MOVES).iter().zip(own.iter()) {
                elements[register as usize] = Some(element);
            }
        }
        // Registers that hold copies take what the first of them does.
        let originals = (0..elements.len()).map(|register| elements[whole.original(register)]);
        let all: Option<Vec<Element>> = originals.collect();
        cx.set_result(inst, all.expect("the parts make up the whole"));
        Ok(())
    }
}

const NOTHING_MOVES: &str = "the verifier knows that a part lies where the whole does";

/// The dimension that stands at the place of `axis` in `outs`.
fn position(outs: &[Axis], axis: Axis) -> Axis {
    let at = outs.iter().position(|&out| out == axis);
    Axis::dim(at.expect("every output was listed"))
}

/// The result is the operand seen through `map`, which says in the operand's coordinates what each place wants.
fn relabel(
    inst: Inst,
    cx: &mut Emitter<'_>,
    operand: Value,
    map: impl FnOnce(&LinearLayout) -> LinearLayout,
) {
    let source = cx.distribution(cx.tensor(operand));
    let wanted = map(&source.map);
    let registers = registers_in(&source.map, &wanted).expect("a shape operation moves no element");
    pick(inst, cx, operand, &registers);
}

fn pick(inst: Inst, cx: &mut Emitter<'_>, operand: Value, registers: &[u32]) {
    let elements = cx.elements(operand);
    let picked: Vec<Element> = registers.iter().map(|&r| elements[r as usize]).collect();
    cx.set_result(inst, picked);
}
