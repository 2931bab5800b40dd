//! What the author allows conversions to do, and where one does more.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;
use layout::relate;

use super::conversion;
use crate::analysis::conversions;

/// Does every thread already hold what it shall hold?
fn is_free(func: &Func, inst: Inst) -> bool {
    let Some(op) = conversion(func, inst) else {
        return true;
    };
    let tensors = func
        .ty(op.operand)
        .as_tensor()
        .zip(func.ty(func.result(inst)).as_tensor());
    tensors.is_none_or(|(from, to)| {
        let maps = from
            .layout
            .linear(&from.shape)
            .ok()
            .zip(to.layout.linear(&to.shape).ok());
        from.layout == to.layout
            || maps.is_some_and(|(a, b)| relate::registers_in(&a, &b).is_some())
    })
}

/// Reports conversions that must be trivial and are not.
pub(super) fn check_trivial(func: &Func, found: &mut Diagnostics) {
    for inst in func.walk() {
        if conversion(func, inst).is_some_and(|c| c.is_trivial) && !is_free(func, inst) {
            let d = moves(
                func,
                inst,
                "this conversion must be trivial, and it moves data between threads",
            );
            found.push(d.help("use layouts in which each element has the same owner, or `convert_layout`, which may move data"));
        }
    }
}

/// Reports conversions that move data in a kernel that denies them.
pub(super) fn check_denied(func: &Func, found: &mut Diagnostics) {
    for inst in func.walk() {
        if !is_free(func, inst) {
            let d = moves(
                func,
                inst,
                "this conversion moves data between threads, and the kernel denies conversions",
            );
            found.push(
                d.help("give both sides one layout, or remove `conversions` from `deny(..)`"),
            );
        }
    }
}

fn moves(func: &Func, inst: Inst, message: &str) -> Diagnostic {
    let operand = conversion(func, inst).map(|c| c.operand);
    let mut d = Diagnostic::error(Code::ConversionCost, func.place(inst), message);
    for (value, what) in operand
        .map(|v| (v, "from"))
        .into_iter()
        .chain([(func.result(inst), "to")])
    {
        let ty = func.ty(value);
        d = d.note(format!("{what} {ty}"));
        if let Some(map) = ty.as_tensor().and_then(|t| t.layout.linear(&t.shape).ok()) {
            d = d.note(format!("which is {map}"));
        }
    }
    if let Some(cost) = conversions::cost(func, inst) {
        d = d.note(format!("a warp takes {cost}"));
    }
    d
}
