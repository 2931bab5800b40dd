//! Who has which bytes of shared memory, and when.

use ir::Func;
use ir::ops::Scratch;
use lowering::plan::{SharedBytes, shared_map};

use super::places::Places;
use super::sheet::SharedRow;
use crate::report::Sources;
use crate::trace::names::variable;

/// `rows` has the row of IR of each instruction, in order.
pub(super) fn rows(
    func: &Func,
    rows: &[usize],
    places: &mut Places,
    sources: &Sources,
) -> Vec<SharedRow> {
    let row = |at: u32| rows.get(at as usize).or(rows.last()).copied().unwrap_or(0);
    let of = |bytes: SharedBytes| SharedRow {
        user: user(func, &bytes, sources),
        place: bytes.place.as_ref().map(|place| places.place(place)),
        start: bytes.start,
        bytes: bytes.bytes,
        rows: bytes.needed.map(row),
        partition: bytes.partition,
    };
    shared_map(func).into_iter().map(of).collect()
}

/// What has no name of its own, as mbarriers have none, is called by the variable that it was made for: `keys.full`.
fn user(func: &Func, bytes: &SharedBytes, sources: &Sources) -> String {
    let Some(rest) = bytes.user.strip_prefix("this allocation") else {
        return bytes.user.clone();
    };
    let owner = bytes.place.as_ref().and_then(|at| variable(at, sources));
    match (owner, label(func, bytes)) {
        (Some(owner), Some(label)) => format!("`{owner}.{label}`{rest}"),
        (Some(name), None) | (None, Some(name)) => format!("`{name}`{rest}"),
        (None, None) => bytes.user.clone(),
    }
}

/// What the library calls the barriers of an allocation.
fn label(func: &Func, bytes: &SharedBytes) -> Option<String> {
    let planned = Scratch {
        start: bytes.start,
        bytes: bytes.bytes,
    };
    let mut insts = func.walk().into_iter();
    let found = insts.find(|inst| func.op(*inst).rules().allocation() == Some(planned))?;
    func.label(func.result(found)).map(Into::into)
}
