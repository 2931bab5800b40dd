//! The layouts over which the operations are checked.

/// Layouts of vectors, with their warps.
pub(crate) const VECTORS: &[(&str, u32)] = &[
    ("Blocked([1], [32], [4], [0])", 4),
    ("Blocked([4], [32], [4], [0])", 4),
    ("Blocked([8], [32], [1], [0])", 1),
    ("Blocked([2], [32], [16], [0])", 16),
    ("Slice(0, Blocked([1, 1], [2, 16], [2, 2], [1, 0]))", 4),
    ("Slice(1, Blocked([1, 2], [8, 4], [4, 1], [0, 1]))", 4),
    ("Slice(1, Wgmma([4, 1], [64, 32, 16]))", 4),
    (
        "Linear(register=[[16], [1]], lane=[[8], [0], [2], [4], [64]], warp=[[32], [0]])",
        4,
    ),
];

/// Layouts of matrices, with their warps: every kind, copies in registers, lanes and warps, bits in any order.
pub(crate) const MATRICES: &[(&str, u32)] = &[
    ("Blocked([1, 1], [1, 32], [4, 1], [1, 0])", 4),
    ("Blocked([1, 1], [32, 1], [1, 4], [0, 1])", 4),
    ("Blocked([1, 4], [4, 8], [2, 2], [1, 0])", 4),
    ("Blocked([4, 1], [8, 4], [1, 4], [0, 1])", 4),
    ("Blocked([2, 2], [32, 1], [4, 1], [0, 1])", 4),
    ("Blocked([1, 8], [1, 32], [1, 4], [1, 0])", 4),
    ("Blocked([8, 2], [2, 16], [2, 2], [0, 1])", 4),
    ("Blocked([1, 2], [8, 4], [1, 1], [1, 0])", 1),
    ("Blocked([1, 2], [8, 4], [2, 4], [1, 0])", 8),
    ("Mma([4, 1], [16, 8])", 4),
    ("Mma([2, 2], [16, 8])", 4),
    ("Wgmma([4, 1], [64, 32, 16])", 4),
    ("Wgmma([4, 2], [64, 16, 16])", 8),
    ("DotOperand(0, Mma([2, 2], [16, 8]), 2)", 4),
    ("DotOperand(1, Mma([2, 2], [16, 8]), 4)", 4),
    ("DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 2)", 4),
    (
        "DotOperand(0, Blocked([1, 2], [8, 4], [2, 2], [1, 0]), 0)",
        4,
    ),
    (
        "Slice(0, Blocked([1, 1, 4], [2, 4, 4], [2, 2, 1], [2, 1, 0]))",
        4,
    ),
    (
        "Slice(1, Blocked([1, 2, 2], [4, 2, 4], [1, 2, 2], [0, 2, 1]))",
        4,
    ),
    (
        "Linear(register=[[0, 2], [1, 0]], lane=[[0, 1], [0, 4], [2, 0], [4, 0], [8, 0]], warp=[[16, 0], [0, 8]])",
        4,
    ),
    (
        "Linear(register=[[4, 0], [0, 8]], lane=[[0, 0], [1, 0], [0, 1], [0, 2], [0, 4]], warp=[[2, 0], [0, 0]])",
        4,
    ),
    // Along the rows the warps stand below the lanes, and along the columns on both sides of them.
    (
        "Linear(register=[[0, 32]], lane=[[0, 4], [0, 2], [8, 0], [4, 0], [0, 8]], warp=[[1, 0], [0, 1], [2, 0], [0, 16]])",
        16,
    ),
    (
        "Linear(lane=[[16, 0], [8, 0], [4, 0], [2, 0], [1, 0]], warp=[[0, 2], [0, 1]])",
        4,
    ),
];

/// Layouts of three dimensions, with their warps.
pub(crate) const SOLIDS: &[(&str, u32)] = &[
    ("Blocked([1, 1, 2], [2, 4, 4], [2, 2, 1], [2, 1, 0])", 4),
    ("Blocked([2, 1, 1], [4, 2, 4], [1, 2, 2], [0, 2, 1])", 4),
];
