//! What the choice of a kernel depends on of an epilogue.

/// Columns of C that an epilogue finishes together. Tiles have more of them than one of rows of C alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Together {
    /// One.
    One,
    /// Two neighbours, which one thread has.
    Pairs,
    /// The same, of which C has one column.
    Halves,
    /// 128, a block, which have a scale.
    Blocks,
    /// 256, of which C has a block.
    HalvedBlocks,
}

/// What an epilogue does to sums, as it takes time beside the products: each more than the one in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finishing {
    /// They are stored as they are.
    Nothing,
    /// It multiplies them by one number.
    Scale,
    /// It computes, and reads nothing.
    Compute,
    /// It reads numbers of rows or columns.
    Numbers,
    /// It reduces results.
    Reduce,
    /// It reads or stores another matrix.
    Source,
}
