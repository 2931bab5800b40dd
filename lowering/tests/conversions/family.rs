//! The layouts, shapes and element types between which conversions are checked.

pub(crate) use crate::samples::{MATRIX_LAYOUTS as MATRIX, MATRIX_SHAPES};

/// Layouts of one dimension over four warps.
pub(crate) const ROW: &[&str] = &[
    "Blocked([1], [32], [4], [0])",
    "Blocked([2], [32], [4], [0])",
    "Blocked([4], [32], [4], [0])",
    "Blocked([8], [32], [4], [0])",
    "Blocked([16], [32], [4], [0])",
    "Slice(0, Blocked([1, 1], [1, 32], [4, 1], [1, 0]))",
    "Slice(1, Blocked([1, 1], [1, 32], [4, 1], [1, 0]))",
    "Slice(0, Blocked([4, 4], [1, 32], [1, 4], [0, 1]))",
    "Slice(1, Blocked([4, 4], [2, 16], [2, 2], [1, 0]))",
    "Slice(0, Mma([4, 1], [16, 8]))",
    "Slice(1, Mma([2, 2], [16, 8]))",
    "Slice(0, Wgmma([4, 1], [64, 64, 16]))",
    "Slice(1, Wgmma([4, 1], [64, 64, 16]))",
    "Slice(1, DotOperand(0, Mma([4, 1], [16, 8]), 2))",
    "Slice(0, Slice(1, Blocked([1, 2, 2], [4, 2, 4], [1, 2, 2], [0, 2, 1])))",
    "Linear(register=[[64], [1]], lane=[[32], [16], [8], [4], [2]], warp=[[0], [128]])",
    "Linear(register=[[8]], lane=[[1], [0], [2], [0], [4]], warp=[[16], [0]])",
];

/// Layouts of two dimensions over 12 warps, with the sets along rows, along columns, and along what is lost.
pub(crate) const OF_12_WARPS: &[&str] = &[
    "Blocked([1, 8], [4, 8], [12, 1], [1, 0])",
    "Blocked([2, 2], [4, 8], [6, 2], [1, 0])",
    "Blocked([8, 1], [8, 4], [4, 3], [0, 1])",
    "Blocked([1, 1], [32, 1], [1, 12], [0, 1])",
    "Mma([2, 6], [16, 8])",
    "Wgmma([12, 1], [64, 64, 16])",
    "DotOperand(0, Wgmma([12, 1], [64, 64, 16]), 2)",
    "Slice(0, Blocked([1, 1, 4], [2, 4, 4], [3, 2, 2], [2, 1, 0]))",
    "Linear(register=[[1, 0], [0, 8], [0, 16], [0, 32]], lane=[[0, 1], [0, 2], [0, 4], [2, 0], [4, 0]], \
     warp=[[8, 0], [16, 0], [32, 0], [64, 0]], warps=12)",
];

/// Shapes whose rows the sets divide, whose columns, both, and neither.
pub(crate) const SHAPES_OF_12_WARPS: [[u32; 2]; 4] = [[192, 64], [64, 192], [96, 48], [32, 64]];

/// Shapes of one dimension.
pub(crate) const ROW_SHAPES: [[u32; 1]; 4] = [[16], [128], [512], [1024]];

/// Layouts of three dimensions over four warps.
pub(crate) const CUBE: &[&str] = &[
    "Blocked([1, 1, 4], [2, 4, 4], [2, 2, 1], [2, 1, 0])",
    "Blocked([1, 2, 2], [4, 2, 4], [1, 2, 2], [0, 2, 1])",
    "Blocked([2, 1, 1], [2, 8, 2], [4, 1, 1], [1, 0, 2])",
    "Blocked([4, 1, 1], [1, 1, 32], [1, 1, 4], [0, 1, 2])",
    "Slice(0, Blocked([1, 1, 1, 4], [2, 2, 4, 2], [2, 1, 2, 1], [3, 2, 1, 0]))",
    "Linear(register=[[0, 0, 1], [1, 0, 0]], lane=[[0, 1, 0], [0, 2, 0], [0, 4, 0], [2, 0, 0], [4, 0, 0]], \
     warp=[[0, 0, 2], [0, 0, 4]])",
];

/// Shapes of three dimensions.
pub(crate) const CUBE_SHAPES: [[u32; 3]; 2] = [[8, 16, 8], [2, 4, 32]];

/// Element types by width: integers and floats take different ways through registers.
pub(crate) const ELEMS: [(u32, [&str; 2]); 4] = [
    (8, ["i8", "e4m3"]),
    (16, ["i16", "bf16"]),
    (32, ["i32", "f32"]),
    (64, ["i64", "f64"]),
];
