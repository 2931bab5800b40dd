//! Constants, ranges, splats and the place in the grid.

use ir::elem::{DType, Elem};
use ir::entity::Inst;
use ir::ops::cluster::{ClusterId, NumClusters};
use ir::ops::create::{
    Arange, Const, Constant, GridAxis, NumPrograms, ProgramId, Splat, Undefined,
};
use ptx::{Operand, Special, Type};

use super::code::Code;
use super::element::Element;
use super::{Emitted, Emitter, Lower};

impl Lower for Constant {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let Elem::Data(dtype) = cx.elem(result) else {
            panic!("the verifier admits no constant pointers");
        };
        let count = cx.count(cx.func.ty(result));
        cx.set(result, vec![Element::constant(self.value, dtype); count]);
        Ok(())
    }
}

impl Lower for Undefined {
    /// It is zero, so that copies of it read something.
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let zero = match cx.held(result) {
            Elem::Data(dtype) if dtype.is_float() => Element::constant(Const::float(0.0), dtype),
            _ => Element::int(0),
        };
        let count = cx.count(cx.func.ty(result));
        cx.set(result, vec![zero; count]);
        Ok(())
    }
}

impl Lower for Arange {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let elem = cx.elem(result);
        let distribution = cx.distribution(cx.tensor(result));
        let base = distribution.thread_coordinate(&mut cx.code, 0);
        let base = widened(&mut cx.code, base, elem);
        let elements: Vec<Element> = distribution
            .offsets
            .iter()
            .map(|&offset| cx.code.add_int(base, offset as i64 + self.start, elem))
            .collect();
        cx.set(result, elements);
        Ok(())
    }
}

/// An unsigned 32-bit number as an element of an integer type that holds it.
fn widened(code: &mut Code, number: Operand, elem: Elem) -> Element {
    match number {
        Operand::Reg(reg) if elem.bits() == 64 => code
            .in_prologue(|code| code.convert(Type::U64, Type::U32, None, reg))
            .into(),
        _ => number.into(),
    }
}

impl Lower for Splat {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let element = cx.scalar(self.value);
        let count = cx.count(cx.func.ty(cx.func.result(inst)));
        cx.set_result(inst, vec![element; count]);
        Ok(())
    }
}

impl Lower for ProgramId {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        special(inst, cx, Special::ctaid(axis(self.axis)));
        Ok(())
    }
}

impl Lower for NumPrograms {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        // It stands in the constant bank: read where it is used, it takes no register of the partitions that do not.
        let reg = cx.code.mov(Type::U32, Special::nctaid(axis(self.axis)));
        cx.set_result(inst, vec![Element::from(reg)]);
        Ok(())
    }
}

impl Lower for ClusterId {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        special(inst, cx, Special::clusterid(axis(self.axis)));
        Ok(())
    }
}

impl Lower for NumClusters {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        special(inst, cx, Special::nclusterid(axis(self.axis)));
        Ok(())
    }
}

fn special(inst: Inst, cx: &mut Emitter<'_>, special: Special) {
    debug_assert!(
        cx.elem(cx.func.result(inst)) == Elem::Data(DType::I32),
        "grid indices are i32"
    );
    let reg = cx.code.in_prologue(|code| code.mov(Type::U32, special));
    cx.set_result(inst, vec![Element::from(reg)]);
}

fn axis(axis: GridAxis) -> ptx::Axis {
    match axis {
        GridAxis::X => ptx::Axis::X,
        GridAxis::Y => ptx::Axis::Y,
        GridAxis::Z => ptx::Axis::Z,
    }
}
