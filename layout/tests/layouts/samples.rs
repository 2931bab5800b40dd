//! Layouts of every kind, and shapes. The lowering's tests of conversions take them from here too.

/// Two-dimensional layouts of four warps: every kind, and within `Blocked` every way to put registers, lanes and warps
/// along rows and columns.
pub(crate) const MATRIX_LAYOUTS: &[&str] = &[
    "Blocked([1, 1], [1, 32], [4, 1], [1, 0])",
    "Blocked([1, 1], [32, 1], [1, 4], [0, 1])",
    "Blocked([1, 1], [32, 1], [4, 1], [0, 1])",
    "Blocked([1, 1], [16, 2], [4, 1], [1, 0])",
    "Blocked([1, 1], [8, 4], [2, 2], [0, 1])",
    "Blocked([1, 2], [8, 4], [4, 1], [1, 0])",
    "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
    "Blocked([1, 8], [4, 8], [4, 1], [1, 0])",
    "Blocked([1, 8], [8, 4], [2, 2], [1, 0])",
    "Blocked([1, 16], [32, 1], [4, 1], [1, 0])",
    "Blocked([1, 32], [16, 2], [4, 1], [1, 0])",
    "Blocked([2, 1], [4, 8], [1, 4], [0, 1])",
    "Blocked([2, 2], [4, 8], [2, 2], [1, 0])",
    "Blocked([2, 4], [16, 2], [2, 2], [1, 0])",
    "Blocked([4, 1], [4, 8], [1, 4], [0, 1])",
    "Blocked([4, 4], [1, 32], [4, 1], [0, 1])",
    "Blocked([8, 1], [8, 4], [1, 4], [0, 1])",
    "Blocked([8, 8], [2, 16], [2, 2], [1, 0])",
    "Blocked([16, 1], [1, 32], [2, 2], [0, 1])",
    "Mma([4, 1], [16, 8])",
    "Mma([2, 2], [16, 8])",
    "Mma([1, 4], [16, 8])",
    "Wgmma([4, 1], [64, 8, 16])",
    "Wgmma([4, 1], [64, 32, 16])",
    "Wgmma([4, 1], [64, 64, 16])",
    "DotOperand(0, Mma([4, 1], [16, 8]), 1)",
    "DotOperand(0, Mma([4, 1], [16, 8]), 2)",
    "DotOperand(0, Mma([2, 2], [16, 8]), 4)",
    "DotOperand(1, Mma([4, 1], [16, 8]), 2)",
    "DotOperand(1, Mma([2, 2], [16, 8]), 8)",
    "DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 2)",
    "DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 4)",
    "DotOperand(0, Blocked([1, 1], [32, 1], [4, 1], [1, 0]), 0)",
    "DotOperand(1, Blocked([2, 2], [8, 4], [2, 2], [1, 0]), 0)",
    "Slice(0, Blocked([1, 1, 4], [2, 4, 4], [2, 2, 1], [2, 1, 0]))",
    "Slice(1, Blocked([1, 2, 2], [4, 2, 4], [1, 2, 2], [0, 2, 1]))",
    "Slice(2, Blocked([2, 1, 1], [2, 8, 2], [4, 1, 1], [1, 0, 2]))",
    "Linear(register=[[0, 2], [1, 0]], lane=[[0, 1], [0, 4], [2, 0], [4, 0], [8, 0]], warp=[[16, 0], [0, 8]])",
    "Linear(register=[[4, 0], [0, 8]], lane=[[0, 0], [1, 0], [0, 1], [0, 2], [0, 4]], warp=[[2, 0], [0, 0]])",
    "Linear(register=[[0, 1], [0, 2], [0, 4], [0, 8]], lane=[[1, 0], [2, 0], [4, 0], [8, 0], [0, 16]], \
     warp=[[0, 32], [16, 0]])",
    "Linear(lane=[[16, 0], [8, 0], [4, 0], [2, 0], [1, 0]], warp=[[0, 2], [0, 1]])",
];

/// Shapes from smaller than every tile to larger than most.
pub(crate) const MATRIX_SHAPES: [[u32; 2]; 6] =
    [[64, 64], [16, 16], [16, 64], [128, 16], [2, 64], [64, 2]];
