//! The metadata of a sparse operand A of `wgmma` (PTX ISA 9.7.15.6): which elements of its rows A has.

use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Func, TensorType};
use diag::Code;
use layout::{Layout, elements_of_metadata};

/// Checks the metadata of an operand whose elements have so many bits, and so many elements of K before it was compressed.
pub(super) fn check_metadata(
    func: &Func,
    metadata: Value,
    [elem_bits, k]: [u32; 2],
    acc: &TensorType,
) -> Result<(), OpError> {
    let ty = func.ty(metadata);
    let t = match ty.as_tensor() {
        Some(t) if t.elem == Elem::Data(DType::U16) => t,
        _ => {
            let message = format!("the metadata of a sparse `wgmma` is a tensor of u16, not {ty}");
            return Err(OpError::new(Code::ElementMismatch, message)
                .typed(metadata, ty)
                .help("each number describes four chunks of a row by 4 bits each; `tilekit::sparse::Compressed` makes them on the host"));
        }
    };
    let (rows, per_number) = (acc.shape[0], elements_of_metadata(elem_bits));
    // Instructions tile K, and each has whole numbers of metadata.
    let columns = k / per_number;
    if *t.shape != [rows, columns] {
        let message = format!(
            "the metadata of {rows} rows and a K of {k} is [{rows}, {columns}], not {}",
            t.shape
        );
        return Err(OpError::new(Code::ShapeMismatch, message)
            .typed(metadata, t)
            .help(format!(
                "one number describes {per_number} elements of K of a row"
            )));
    }
    check_layout(metadata, t, acc, elem_bits)
}

/// Any layout will do that places every element where the instruction reads it.
fn check_layout(
    metadata: Value,
    t: &TensorType,
    acc: &TensorType,
    elem_bits: u32,
) -> Result<(), OpError> {
    let Layout::Wgmma(sums) = &acc.layout else {
        // A wrong accumulator is reported as such.
        return Ok(());
    };
    let wanted = Layout::from(sums.sparse_metadata(elem_bits, t.shape.clone()));
    let is_it = t.layout.is_resolved()
        && (t.layout.linear(&t.shape).ok())
            .is_some_and(|map| Some(map) == wanted.linear(&t.shape).ok());
    if is_it {
        return Ok(());
    }
    let message = format!(
        "the metadata of a sparse `wgmma` has the layout {wanted}, not {}",
        t.layout
    );
    Err(OpError::new(Code::LayoutMismatch, message)
        .typed(metadata, t)
        .help("load it by `.load(sparse_metadata::<T>(&sums, [m, k]))`, where `sums` is the layout of the accumulator and `T` the element type of operand A"))
}
