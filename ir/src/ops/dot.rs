//! Products of tiles in registers: by the tensor cores of each warp (PTX `mma.sync`), and element by element.
//!
//! Both want operands A and B in the layout `DotOperand` of the accumulator's. Then every thread holds
//! what its own elements of the accumulator are made of, and nothing moves.

use smallvec::smallvec;

use super::cut::nearest_multiples;
use super::define::{answers, define_op};
use super::wgmma::{InputPrecision, describe};
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Func, TensorType, Type};
use diag::Code;
use layout::{DotOperand, Layout};

define_op! {
    /// `accumulator + a · b` on the tensor cores, each warp for itself (PTX `mma.sync`). `a` is `[M, K]`, `b` is `[K, N]`,
    /// the accumulator `[M, N]`; all may have a batch dimension before.
    pub struct MmaV2 = "mma_v2" {
        /// What 32-bit floats count as.
        precision: InputPrecision,
        /// Operand A, in the layout `DotOperand(0, ..)` of the accumulator's.
        a: Value,
        /// Operand B, in the layout `DotOperand(1, ..)` of the accumulator's.
        b: Value,
        /// What is added to, in a layout `Mma`.
        accumulator: Value,
    }
}

impl OpRules for MmaV2 {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let operands = Operands::of(func, "mma_v2", self.a, self.b, self.accumulator)?;
        if !matches!(operands.acc.layout, Layout::Mma(_)) {
            return Err(operands.wrong_accumulator("Mma", "Mma::new([4, 1], [16, 8])"));
        }
        operands.check_shapes()?;
        operands.check_warp_elements(&func.target.mma, self.precision)?;
        // Lanes hold whole words along K, which is what the tensor cores take.
        let least = (32 / operands.a.elem.bits()).max(1);
        let width = operands.check_operands(least)?;
        operands.check_depth(4 * width)?;
        operands.check_tile([16, 8])?;
        Ok(smallvec![Type::Tensor(operands.acc.clone())])
    }
    answers!(free_layouts);
}

define_op! {
    /// `accumulator + a · b` by multiplications of single elements, for types and sizes that tensor cores do not have. `a`
    /// is `[M, K]`, `b` is `[K, N]`, the accumulator `[M, N]`; all may have a batch dimension before.
    pub struct DotFma = "dot_fma" {
        /// Operand A, in the layout `DotOperand(0, ..)` of the accumulator's.
        a: Value,
        /// Operand B, in the layout `DotOperand(1, ..)` of the accumulator's.
        b: Value,
        /// What is added to, in a layout `Blocked`.
        accumulator: Value,
    }
}

/// More products of single elements than this in one operation make a kernel that takes long to assemble.
const MANY_PRODUCTS: u64 = 1 << 19;

impl DotFma {
    /// The number of products of single elements, where it is more than a kernel should spell out.
    pub fn excess(&self, func: &Func) -> Option<u64> {
        let a = func.ty(self.a).shape();
        let acc = func.ty(self.accumulator).shape();
        let all = acc.iter().map(|d| u64::from(*d)).product::<u64>() * u64::from(*a.last()?);
        (all > MANY_PRODUCTS).then_some(all)
    }
}

impl OpRules for DotFma {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let operands = Operands::of(func, "dot_fma", self.a, self.b, self.accumulator)?;
        if !matches!(operands.acc.layout, Layout::Blocked(_)) {
            let example = "Blocked::new([4, 4], [4, 8], [4, 1], [1, 0])";
            return Err(operands.wrong_accumulator("Blocked", example));
        }
        operands.check_shapes()?;
        operands.check_fma_elements()?;
        operands.check_operands(0)?;
        Ok(smallvec![Type::Tensor(operands.acc.clone())])
    }
    answers!(free_layouts);
    fn excess_products(&self, func: &Func) -> Option<u64> {
        self.excess(func)
    }
}

/// The three tensors of a product.
struct Operands<'f> {
    op: &'static str,
    values: [Value; 3],
    a: &'f TensorType,
    b: &'f TensorType,
    acc: &'f TensorType,
}

impl<'f> Operands<'f> {
    fn of(
        func: &'f Func,
        op: &'static str,
        a: Value,
        b: Value,
        acc: Value,
    ) -> Result<Operands<'f>, OpError> {
        let tensor = |value: Value, what: &str| {
            func.ty(value).as_tensor().ok_or_else(|| {
                let ty = func.ty(value);
                OpError::new(
                    Code::ElementMismatch,
                    format!("{what} of `{op}` is a tensor, not {ty}"),
                )
                .typed(value, ty)
            })
        };
        Ok(Operands {
            op,
            values: [a, b, acc],
            a: tensor(a, "operand A")?,
            b: tensor(b, "operand B")?,
            acc: tensor(acc, "the accumulator")?,
        })
    }

    fn wrong_accumulator(&self, kind: &str, example: &str) -> OpError {
        OpError::new(
            Code::LayoutMismatch,
            format!(
                "the accumulator of `{}` has a layout of `{kind}`, not {}",
                self.op, self.acc.layout
            ),
        )
        .typed(self.values[2], self.acc)
        .help(format!("make it with `zeros(shape, {example})`"))
    }

    fn check_shapes(&self) -> Result<(), OpError> {
        let (a, b, acc) = (&self.a.shape, &self.b.shape, &self.acc.shape);
        let rank = acc.rank();
        let fits = (rank == 2 || rank == 3) && a.rank() == rank && b.rank() == rank && {
            let (row, column) = (rank - 2, rank - 1);
            let is_same_batch = a[..row] == acc[..row] && b[..row] == acc[..row];
            is_same_batch && a[column] == b[row] && a[row] == acc[row] && b[column] == acc[column]
        };
        if fits {
            return Ok(());
        }
        Err(OpError::new(
            Code::ShapeMismatch,
            format!(
                "`{}` multiplies [M, K] by [K, N] into [M, N], each also with a batch dimension; these are {a}, {b} and {acc}",
                self.op
            ),
        )
        .origin(self.values[0], format!("A, {a}"))
        .origin(self.values[1], format!("B, {b}"))
        .origin(self.values[2], format!("accumulator, {acc}"))
        .help("transpose an operand that is stored as `[N, K]` or `[K, M]`, or give the accumulator M rows and N columns"))
    }

    /// Checks that both operands have `DotOperand` layouts of the accumulator's, with one k width of at least `least`, and gives
    /// that width; 0 without tensor cores.
    fn check_operands(&self, least: u32) -> Result<u32, OpError> {
        let a = self.operand(0, least)?;
        let b = self.operand(1, least)?;
        if a.k_width == b.k_width {
            return Ok(a.k_width);
        }
        Err(OpError::new(
            Code::LayoutMismatch,
            format!(
                "operands A and B have different k widths, {} and {}: elements of different K would be multiplied",
                a.k_width, b.k_width
            ),
        )
        .origin(self.values[0], format!("A, {}", self.a.layout))
        .origin(self.values[1], format!("B, {}", self.b.layout))
        .help(format!("use k width {} for both", a.k_width.max(b.k_width))))
    }

    /// The layout of operand A (0) or B (1).
    fn operand(&self, number: u32, least: u32) -> Result<&'f DotOperand, OpError> {
        let (value, t, side) = match number {
            0 => (self.values[0], self.a, "A"),
            _ => (self.values[1], self.b, "B"),
        };
        let wanted = DotOperand::new(number, self.acc.layout.clone(), least);
        let wrong = |message: String| OpError::new(Code::LayoutMismatch, message).typed(value, t);
        let Layout::DotOperand(found) = &t.layout else {
            return Err(wrong(format!(
                "operand {side} of `{}` has the layout `{wanted}`, not {}",
                self.op, t.layout
            ))
            .help("load it from shared memory with that layout, or `convert_layout` it"));
        };
        if found.operand != number {
            return Err(wrong(format!(
                "operand {side} of `{}` wants `DotOperand({number}, ..)`, and its layout is `DotOperand({}, ..)`",
                self.op, found.operand
            ))
            .help(format!("write `DotOperand::new({number}, ..)`")));
        }
        if found.parent != self.acc.layout {
            return Err(wrong(format!(
                "the layout of operand {side} of `{}` has another parent than the accumulator's layout: {}",
                self.op, found.parent
            ))
            .origin(
                self.values[2],
                format!("the accumulator is {}", self.acc.layout),
            )
            .help("make both from one layout: `DotOperand::new(.., acc.layout(), ..)`"));
        }
        if found.k_width < least {
            return Err(wrong(format!(
                "the tensor cores take words of 32 bits along K, which are {least} elements of {}, and the k width is {}",
                t.elem, found.k_width
            ))
            .help(format!("write `DotOperand::new({number}, .., {least})`")));
        }
        Ok(found)
    }

    /// Below this depth lanes would hold copies, which would be counted several times.
    fn check_depth(&self, least: u32) -> Result<(), OpError> {
        let depth = self.a.shape[self.a.rank() - 1];
        if depth >= least {
            return Ok(());
        }
        Err(OpError::new(
            Code::ShapeMismatch,
            format!("four lanes hold {least} elements along K with this k width, and K is {depth}"),
        )
        .typed(self.values[0], self.a)
        .help("use a smaller k width, or pad K with zeros"))
    }

    /// Extents that are no powers of two are made of whole instructions.
    fn check_tile(&self, [rows, columns]: [u32; 2]) -> Result<(), OpError> {
        let rank = self.acc.rank();
        let (m, n) = (self.acc.shape[rank - 2], self.acc.shape[rank - 1]);
        let fits = |size: u32, of: u32| size.is_power_of_two() || size.is_multiple_of(of);
        if fits(m, rows) && fits(n, columns) {
            return Ok(());
        }
        let message = format!(
            "`{}` is made of instructions of {rows} rows and {columns} columns, and the accumulator is {}",
            self.op, self.acc.shape
        );
        let help = format!(
            "use {} for M and {} for N",
            nearest_multiples(m, rows),
            nearest_multiples(n, columns)
        );
        Err(OpError::new(Code::NotPowerOfTwo, message)
            .typed(self.values[2], self.acc)
            .help(help))
    }

    /// Types that have an instruction `mma.sync`.
    fn check_warp_elements(
        &self,
        mma: &target::Mma,
        precision: InputPrecision,
    ) -> Result<(), OpError> {
        let types = self.types();
        let product = types.and_then(|(a, b, sum)| precision.matrix_types([a, b, sum]));
        let fits = product.is_some_and(|product| mma.shapes(product).is_some());
        let is_tf32 = precision == InputPrecision::Tf32;
        if fits && (!is_tf32 || self.a.elem == Elem::F32) {
            return Ok(());
        }
        let error = self.wrong_elements();
        Err(match types {
            Some((DType::F32, DType::F32, DType::F32)) => {
                error.help("the tensor cores multiply f32 as tf32 only: write `mma_v2_tf32`")
            }
            _ => error
                .note(format!("it multiplies {}", describe(mma.types)))
                .help("cast the operands, or use `dot_fma`"),
        })
    }

    /// What threads multiply: numbers of one type, or small ones into a wider type.
    fn check_fma_elements(&self) -> Result<(), OpError> {
        use DType::{Bf16, F16, F32, I1, I8, I16, I32, U8, U16};
        let fits = match self.types() {
            Some((I1, _, _)) => false,
            Some((a, _, _)) if a.is_narrow_float() => false,
            Some((a, b, sum)) if a == b && b == sum => true,
            Some((a, b, F32)) => a == b && matches!(a, F16 | Bf16),
            Some((I8 | U8, b, I32)) => matches!(b, I8 | U8),
            Some((I16 | U16, b, I32)) => matches!(b, I16 | U16),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(self.wrong_elements().note("it multiplies numbers of one type, f16 and bf16 also into f32, and integers of 8 and 16 bits also into i32").help("cast the operands: `a.cast::<f32>()`"))
    }

    fn types(&self) -> Option<(DType, DType, DType)> {
        match (self.a.elem, self.b.elem, self.acc.elem) {
            (Elem::Data(a), Elem::Data(b), Elem::Data(sum)) => Some((a, b, sum)),
            _ => None,
        }
    }

    fn wrong_elements(&self) -> OpError {
        let (a, b, sum) = (self.a.elem, self.b.elem, self.acc.elem);
        OpError::new(
            Code::ElementMismatch,
            format!("`{}` does not multiply {a} by {b} into {sum}", self.op),
        )
    }
}
