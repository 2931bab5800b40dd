//! Which types the tensor cores multiply, and the depth of one instruction for them.

use target::{MatrixType, ProductTypes};

use crate::OpError;
use crate::elem::{DType, Elem};
use crate::ops::define::attr_enum;
use diag::Code;

attr_enum! {
    /// What the tensor cores take 32-bit floats for.
    pub enum InputPrecision {
        /// The type's own; for f32 there is none, and tf32 must be named.
        Own = "own",
        /// The upper 19 bits of a binary32.
        Tf32 = "tf32",
    }
    unsaid Own
}

impl InputPrecision {
    /// The type as which an instruction multiplies operands of this type.
    fn matrix_type(self, operand: DType) -> Option<MatrixType> {
        match (operand, self) {
            (DType::F32, InputPrecision::Tf32) => Some(MatrixType::Tf32),
            _ => operand.matrix_type(),
        }
    }

    /// The types of A, B and accumulator in an instruction.
    pub(in crate::ops) fn matrix_types(self, [a, b, sum]: [DType; 3]) -> Option<[MatrixType; 3]> {
        Some([
            self.matrix_type(a)?,
            self.matrix_type(b)?,
            sum.matrix_type()?,
        ])
    }
}

/// What instructions multiply, of the types that tiles have: for a note.
pub(in crate::ops) fn describe<S>(products: &[ProductTypes<S>]) -> String {
    let precisions = [InputPrecision::Own, InputPrecision::Tf32];
    let is_of_tiles = |wanted: MatrixType| {
        let is_it = |ty: &DType| {
            precisions
                .iter()
                .any(|p| p.matrix_type(*ty) == Some(wanted))
        };
        DType::ALL.iter().any(is_it)
    };
    target::describe_products(products, is_of_tiles)
}

/// The depth K of the instruction for these types.
pub(super) fn check_elements(
    wgmma: &target::Wgmma,
    elems: [Elem; 3],
    precision: InputPrecision,
) -> Result<u32, OpError> {
    let [Elem::Data(x), Elem::Data(y), Elem::Data(sum)] = elems else {
        return Err(OpError::new(
            Code::ElementMismatch,
            "`wgmma` multiplies numbers",
        ));
    };
    let types = precision.matrix_types([x, y, sum]);
    if let Some(depth) = types.and_then(|types| wgmma.depth(types)) {
        return Ok(depth);
    }
    let error = OpError::new(
        Code::ElementMismatch,
        format!("`wgmma` does not multiply {x} by {y} into {sum}"),
    );
    Err(match (x, precision) {
        (DType::F32, InputPrecision::Own) => {
            error.help("the tensor cores multiply f32 as tf32 only: write `.tf32()`")
        }
        _ => error.note(format!("it multiplies {}", describe(wgmma.types))),
    })
}
