//! What is said when a kernel needs more shared memory than there is.

use diag::{Code, Diagnostic};
use ir::Func;

use super::shared::Need;

/// The most rows of the map that are shown; the largest come first.
const MAX_ROWS: usize = 8;

/// The map of who takes what at the moment when most is taken: `total` bytes, and a CTA can have `most`.
pub(super) fn report(
    func: &Func,
    needs: &[Need],
    offsets: &[u32],
    [total, most]: [u32; 2],
) -> Diagnostic {
    let placed = || needs.iter().zip(offsets);
    let peak = placed().max_by_key(|(need, offset)| *offset + need.block.bytes);
    let moment = peak.map_or(0, |(need, _)| need.block.first);
    let mut rows: Vec<(&Need, u32)> = placed()
        .filter(|(need, _)| need.block.first <= moment && moment <= need.block.last)
        .map(|(need, offset)| (need, *offset))
        .collect();
    rows.sort_by_key(|(need, offset)| (std::cmp::Reverse(need.block.bytes), *offset));
    let place = peak.and_then(|(need, _)| func.place(need.inst));
    let several = match func.min_ctas_per_sm {
        Some(ctas @ 2..) => format!(" where {ctas} fit an SM"),
        _ => String::new(),
    };
    let message = format!(
        "the kernel needs {total} bytes of shared memory, and a CTA can have {most}{several}"
    );
    let mut d = Diagnostic::error(Code::SharedOverflow, place, message);
    for (need, offset) in rows.iter().take(MAX_ROWS) {
        let bytes = need.block.bytes;
        let text = format!("{bytes} bytes at {offset} for {}", user(func, need));
        d = d.related(func.place(need.inst), text);
    }
    if rows.len() > MAX_ROWS {
        d = d.note(format!(
            "{} smaller ones are live as well",
            rows.len() - MAX_ROWS
        ));
    }
    d.help("use smaller tiles, fewer stages or narrower elements, or layouts between which less data moves")
}

/// What needs it: an allocation by its name and type, or the scratch of an op.
pub(super) fn user(func: &Func, need: &Need) -> String {
    let op = func.op(need.inst);
    if need.is_scratch {
        let operand = op.operands().first().map(|v| func.ty(*v).to_string());
        let operand = operand.map_or_else(String::new, |ty| format!(" of {ty}"));
        return format!("the scratch of this `{}`{operand}", op.rules().mnemonic());
    }
    let result = func.result(need.inst);
    let name = func
        .name(result)
        .map_or_else(|| "this allocation".into(), |n| format!("`{n}`"));
    format!("{name}, {}", func.ty(result))
}
