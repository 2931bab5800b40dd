//! Matrix instructions (PTX ISA 9.7.14 and 9.7.15).

use super::family::family;
use crate::operand::{Addr, Fragment, MatrixA, Operand, Reg};
use crate::print::Opcode;
use crate::spelling::{Modifier, Modifiers, spelled};
use crate::types::{Space, Type};

/// `m64n256k16`: rows, columns and depth of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: u16,
    /// Columns of B and D.
    pub n: u16,
    /// Columns of A, rows of B.
    pub k: u16,
}

impl Shape {
    /// The shape `m` x `n` x `k`.
    pub const fn new(m: u16, n: u16, k: u16) -> Self {
        Self { m, n, k }
    }

    fn read(piece: &str) -> Option<Self> {
        let (m, rest) = piece.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let number = |digits: &str| -> Option<u16> {
            let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
            if plain { digits.parse().ok() } else { None }
        };
        Some(Self {
            m: number(m)?,
            n: number(n)?,
            k: number(k)?,
        })
    }
}

impl Modifier for Shape {
    fn print(&self, out: &mut Opcode<'_>) {
        out.shape(self.m, self.n, self.k);
    }

    fn parse(modifiers: &mut Modifiers<'_>) -> Option<Self> {
        modifiers.eat_with("a shape such as m64n128k16", Self::read)
    }
}

spelled! {
    /// Number of 8x8 matrices that `ldmatrix` and `stmatrix` move.
    MatrixCount { X1 = "x1", X2 = "x2", X4 = "x4" }

    /// Order of the elements of A and B in `mma.sync`.
    MmaLayout { RowCol = "row.col" }
}

impl MatrixCount {
    /// Registers per thread.
    pub const fn registers(self) -> usize {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
        }
    }
}

family! {
    /// Orders register accesses before the first `wgmma.mma_async` of a stage (PTX ISA 9.7.15.7).
    WgmmaFence: [; "wgmma.fence.sync.aligned"] ();

    /// Closes a group of `wgmma.mma_async` (PTX ISA 9.7.15.7).
    WgmmaCommitGroup: [; "wgmma.commit_group.sync.aligned"] ();

    /// Waits until at most `pending` groups are open (PTX ISA 9.7.15.7).
    WgmmaWaitGroup: [; "wgmma.wait_group.sync.aligned"] (in pending: Operand);

    /// A warp-level matrix product, `d = a * b + c` (PTX ISA 9.7.14.5).
    Mma: ["mma.sync.aligned" shape: Shape, layout: MmaLayout, satfinite = "satfinite", d_ty: Type, a_ty: Type,
          b_ty: Type, c_ty: Type]
        (out d: Fragment, in a: Fragment, in b: Fragment, in c: Fragment);

    /// Loads 8x8 matrices of 16-bit elements; lane i gives the address of a row (PTX ISA 9.7.14.5.15).
    Ldmatrix: ["ldmatrix.sync.aligned.m8n8" count: MatrixCount, trans = "trans", space ? Space; "b16"]
        (out dst: Fragment, in addr: Addr);

    /// Stores 8x8 matrices of 16-bit elements; lane i gives the address of a row (PTX ISA 9.7.14.5.16).
    Stmatrix: ["stmatrix.sync.aligned.m8n8" count: MatrixCount, trans = "trans", space ? Space; "b16"]
        (in addr: Addr, in src: Fragment);

    /// Transposes an 8x8 matrix of 16-bit elements across a warp (PTX ISA 9.7.14.5.17).
    Movmatrix: [; "movmatrix.sync.aligned.m8n8.trans.b16"] (out dst: Reg, in src: Reg);
}

/// What the sparse form of [`Wgmma`] has besides (PTX ISA 9.7.15.6): A is packed to half of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sparse {
    /// The places of the packed elements in their rows.
    pub metadata: Reg,
    /// The sparsity selector: which lanes of each four give the metadata. False for the first ones.
    pub selector: bool,
}

/// A warpgroup-level matrix product `d = a * b (+ d)`, asynchronous (PTX ISA 9.7.15.5.2), or that of a sparse A
/// (`wgmma.mma_async.sp`, 9.7.15.6.3).
///
/// The immediates exist only for some types: both scales for floating-point inputs, transposition for f16 and
/// bf16 (of A only when A is in shared memory).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the instruction has this many independent immediates"
)]
pub struct Wgmma {
    /// Shape; `m` is 64.
    pub shape: Shape,
    /// Type of the accumulators.
    pub d_ty: Type,
    /// Type of A.
    pub a_ty: Type,
    /// Type of B.
    pub b_ty: Type,
    /// `.satfinite`, of integer types.
    pub satfinite: bool,
    /// Accumulators.
    pub d: Fragment,
    /// Matrix A.
    pub a: MatrixA,
    /// Descriptor of matrix B in shared memory.
    pub b: Reg,
    /// For a sparse A.
    pub sparse: Option<Sparse>,
    /// False: `d = a * b`. A predicate register or an immediate.
    pub scale_d: Operand,
    /// A is negated.
    pub negate_a: bool,
    /// B is negated.
    pub negate_b: bool,
    /// A lies MN-major in shared memory.
    pub trans_a: bool,
    /// B lies MN-major in shared memory.
    pub trans_b: bool,
}

impl Wgmma {
    /// The product without negation or transposition.
    pub fn new(
        shape: Shape,
        [d_ty, a_ty, b_ty]: [Type; 3],
        d: Fragment,
        a: MatrixA,
        b: Reg,
        scale_d: impl Into<Operand>,
    ) -> Self {
        Self {
            shape,
            d_ty,
            a_ty,
            b_ty,
            satfinite: false,
            d,
            a,
            b,
            sparse: None,
            scale_d: scale_d.into(),
            negate_a: false,
            negate_b: false,
            trans_a: false,
            trans_b: false,
        }
    }

    /// The input types have the two scale immediates.
    pub(crate) fn has_scales(&self) -> bool {
        self.a_ty.is_float()
    }

    /// The input types have transposition immediates.
    pub(crate) fn has_transposes(&self) -> bool {
        matches!(self.a_ty, Type::F16 | Type::Bf16)
    }
}
