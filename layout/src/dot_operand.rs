//! The operands of a matrix product in registers.

use std::fmt;

use super::text::write_call;
use super::{Extent, Layout, LayoutError};

/// Operand A (0) or B (1) of a product whose accumulator has the layout `parent`.
///
/// `k_width` is the number of consecutive elements along K in one 32-bit register group; it is 0 for a `Blocked`
/// parent (a product by FMA), where each thread holds the whole of K.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DotOperand {
    /// 0 for A, 1 for B.
    pub operand: u32,
    /// The accumulator's layout: `Mma`, `Wgmma` (operand 0 only) or `Blocked`.
    pub parent: Layout,
    /// Elements along K that stay together; 0 for a `Blocked` parent.
    pub k_width: u32,
}

impl DotOperand {
    /// Operand `operand` of a product accumulated in `parent`.
    pub fn new(operand: u32, parent: impl Into<Layout>, k_width: impl Extent) -> Self {
        Self {
            operand,
            parent: parent.into(),
            k_width: k_width.extent(),
        }
    }

    /// The dimension of this operand that is K: the last of A, the one before the last of B.
    pub fn k_dim(&self) -> usize {
        let rank = self.parent.rank().unwrap_or(2);
        if self.operand == 0 {
            rank - 1
        } else {
            rank - 2
        }
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        if self.operand > 1 {
            return Err(fault("operand", self.operand, "it must be 0 (A) or 1 (B)"));
        }
        match &self.parent {
            Layout::Mma(_) => self.check_k_width()?,
            Layout::Wgmma(_) => {
                if self.operand == 1 {
                    let wanted =
                        "only A (0) of a wgmma can be in registers; put B into shared memory";
                    return Err(fault("operand", self.operand, wanted));
                }
                self.check_k_width()?;
            }
            Layout::Blocked(parent) => {
                if self.k_width != 0 {
                    return Err(fault(
                        "k_width",
                        self.k_width,
                        "with a Blocked parent it must be 0",
                    ));
                }
                if parent.rank() < 2 {
                    return Err(fault(
                        "parent",
                        parent.rank(),
                        "a matrix product has two dimensions or more",
                    ));
                }
            }
            parent => {
                return Err(fault(
                    "parent",
                    parent.kind(),
                    "it must be Mma, Wgmma or Blocked",
                ));
            }
        }
        self.parent.check_parameters()
    }

    fn check_k_width(&self) -> Result<(), LayoutError> {
        if self.k_width.is_power_of_two() && self.k_width <= 8 {
            return Ok(());
        }
        Err(fault(
            "k_width",
            self.k_width,
            "with a tensor-core parent it must be 1, 2, 4 or 8",
        ))
    }
}

fn fault(field: &'static str, found: impl fmt::Display, wanted: &str) -> LayoutError {
    LayoutError::Parameter {
        layout: "DotOperand",
        field,
        found: found.to_string(),
        wanted: wanted.to_owned(),
    }
}

impl fmt::Display for DotOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "DotOperand", |args| {
            args.value(&self.operand)?;
            args.value(&self.parent)?;
            args.value(&self.k_width)
        })
    }
}
