//! Steps that move or multiply matrices.

use super::operand::AccessSpace;
use super::operand::AddressBase;
use ptx::Type;
use smallvec::SmallVec;

/// `ldmatrix` or `stmatrix`: 8x8 matrices of 16-bit elements.
#[derive(Clone, Debug)]
pub(crate) struct MoveMatrix {
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
    pub(crate) is_store: bool,
    pub(crate) transposed: bool,
    /// One register per matrix.
    pub(crate) registers: SmallVec<[u32; 4]>,
}

/// Number formats of matrix elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    F64,
}

impl Element {
    pub(crate) fn of(ty: Type) -> Option<Self> {
        Some(match ty {
            Type::F16 => Self::F16,
            Type::Bf16 => Self::Bf16,
            Type::Tf32 => Self::Tf32,
            Type::E4m3 => Self::E4m3,
            Type::E5m2 => Self::E5m2,
            Type::S8 => Self::S8,
            Type::U8 => Self::U8,
            Type::F64 => Self::F64,
            _ => return None,
        })
    }

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 => 4,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 1,
            Self::F64 => 8,
        }
    }
}

/// `mma.sync`
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a_element: Element,
    pub(crate) b_element: Element,
    /// Types of the accumulators.
    pub(crate) c_type: Type,
    pub(crate) d_type: Type,
    pub(crate) saturate: bool,
    pub(crate) a: SmallVec<[u32; 4]>,
    pub(crate) b: SmallVec<[u32; 4]>,
    pub(crate) c: SmallVec<[u32; 4]>,
    pub(crate) d: SmallVec<[u32; 4]>,
}

/// Matrix A of a warpgroup product.
#[derive(Clone, Debug)]
pub(crate) enum LeftMatrix {
    /// Slot of a descriptor.
    Descriptor(u32),
    /// Slots of a fragment.
    Registers(SmallVec<[u32; 4]>),
}

/// The metadata of a sparse A.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparseRows {
    /// Slot of the metadata.
    pub(crate) metadata: u32,
    /// The lanes of the upper half of each four give it.
    pub(crate) selector: bool,
}

/// `wgmma.mma_async` and `wgmma.mma_async.sp`, the part of one warp.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "these are the immediates of the instruction"
)]
pub(crate) struct GroupMultiply {
    pub(crate) n: usize,
    /// Rows of B.
    pub(crate) k: usize,
    /// Columns of A as it is stored: half of K if it is sparse.
    pub(crate) columns: usize,
    pub(crate) sparse: Option<SparseRows>,
    pub(crate) a_element: Element,
    pub(crate) b_element: Element,
    /// f32, f16 or s32.
    pub(crate) d_type: Type,
    pub(crate) saturate: bool,
    pub(crate) d: Vec<u32>,
    pub(crate) a: LeftMatrix,
    /// Slot of the descriptor of B.
    pub(crate) b: u32,
    /// Slot of the predicate that keeps the old accumulators.
    pub(crate) accumulate: u32,
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    /// The matrix lies with its M (or N) dimension innermost.
    pub(crate) a_transposed: bool,
    pub(crate) b_transposed: bool,
}
