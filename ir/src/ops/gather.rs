//! Data-dependent movement between the elements of tensors.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::create::one_declared;
use super::define::{answers, define_op};
use super::shape::tensor;
use super::{LayoutRule, OpRules, Scratch, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, Type};
use diag::Code;

define_op! {
    /// For each index: the element of `source` at the index along `axis`, and at the index's own coordinates along the
    /// other dimensions, in which both have one shape. The result has the indices' shape and layout. Where the CTAs of a
    /// cluster split the dimension that is indexed, they read one another's shared memory.
    pub struct Gather = "gather" {
        /// The dimension indexed.
        axis: u32,
        /// Shared memory for the source where it cannot stay in registers.
        scratch: Scratch,
        /// Where from.
        source: Value,
        /// Integers.
        indices: Value,
    }
}

impl OpRules for Gather {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let (s, i) = (
            tensor(func, "gather", self.source)?,
            tensor(func, "gather", self.indices)?,
        );
        let error = |code, message: String| {
            OpError::new(code, message)
                .typed(self.source, s)
                .typed(self.indices, i)
        };
        if !i.elem.is_int() {
            return Err(error(
                Code::ElementMismatch,
                format!("`gather` wants integer indices, these are {i}"),
            )
            .help("`cast::<i32>()` makes indices of other numbers"));
        }
        if s.rank() != i.rank() {
            return Err(error(
                Code::RankMismatch,
                format!(
                    "`gather` wants indices of rank {}, these have {}",
                    s.rank(),
                    i.rank()
                ),
            ));
        }
        if self.axis as usize >= s.rank() {
            return Err(error(
                Code::NoSuchAxis,
                format!(
                    "`gather` along dimension {} of a tensor of rank {}, which has 0 to {}",
                    self.axis,
                    s.rank(),
                    s.rank() - 1
                ),
            )
            .help("dimensions count from 0"));
        }
        let differs = (0..s.rank()).find(|&d| d != self.axis as usize && s.shape[d] != i.shape[d]);
        if let Some(d) = differs {
            return Err(error(
                Code::ShapeMismatch,
                format!(
                    "dimension {d} has {} elements in the source and {} in the indices",
                    s.shape[d], i.shape[d]
                ),
            )
            .help(
                "make the other dimensions equal, by `broadcast_to`: only the indexed one may differ",
            ));
        }
        let axis = self.axis as usize;
        super::split::alike_but(func, "gather", (self.source, self.indices), axis)?;
        Ok(smallvec![func.ty(self.indices).with_elem(s.elem)])
    }
    /// An index may be in range only where the author looks something up.
    fn effects(&self) -> Effects {
        Effects {
            is_guarded: true,
            ..Effects::PURE
        }
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Gather
    }
    answers!(scratch);
}

define_op! {
    /// How often each integer from 0 below the number of bins stands in a rank-1 tensor, where `mask` is true; others
    /// are not counted. The result is a rank-1 `i32` tensor with one element a bin; CTAs of a cluster that split the
    /// operand exchange what they counted.
    pub struct Histogram = "histogram" {
        /// The counters.
        scratch: Scratch,
        /// Integers of 32 bits.
        operand: Value,
        /// Which elements count.
        mask: PackedOption<Value>,
    }
}

impl OpRules for Histogram {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "histogram", self.operand)?;
        let is_counted = matches!(t.elem, Elem::Data(DType::I32 | DType::U32));
        if !is_counted || t.rank() != 1 {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!("`histogram` wants a rank-1 tensor of 32-bit integers, this is {t}"),
            )
            .typed(self.operand, t)
            .help("`ravel` makes a vector of a tensor, `cast::<i32>()` makes integers"));
        }
        if let Some(mask) = self.mask.expand() {
            let wanted = func.ty(self.operand).with_elem(DType::I1);
            if *func.ty(mask) != wanted {
                return Err(super::operand_types::mismatch(
                    "histogram",
                    self.operand,
                    &wanted,
                    mask,
                    func.ty(mask),
                ));
            }
        }
        let to = one_declared(declared, "histogram")?;
        match to {
            Type::Tensor(b) if b.rank() == 1 && b.elem == Elem::I32 => {
                check_bins(b.shape[0])?;
                Ok(smallvec![to.clone()])
            }
            _ => Err(OpError::new(
                Code::ShapeMismatch,
                format!("a histogram is a rank-1 tensor of i32, not {to}"),
            )),
        }
    }
    answers!(scratch, free_layouts);
}

/// Counters are told apart by bits of what is counted.
fn check_bins(bins: u32) -> Result<(), OpError> {
    if bins.is_power_of_two() {
        return Ok(());
    }
    let message = format!("the number of bins of a histogram is a power of two, not {bins}");
    let more = u64::from(bins).next_power_of_two();
    Err(OpError::new(Code::NotPowerOfTwo, message).help(format!("use {more} bins")))
}
