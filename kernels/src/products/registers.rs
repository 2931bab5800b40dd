//! Registers of a CTA with so many consumer warpgroups beside one whose warps load and store.

/// Those of a consumer thread, and of a thread that loads or stores.
pub(crate) const fn registers_of(groups: usize) -> [u32; 2] {
    if groups == 3 { [160, 32] } else { [232, 40] }
}

/// Columns of an instruction of a tile of so many: it has 256 at most, and ptxas assembles none whose sums and operands do not fit the registers of a launch, 128 of each of 512 threads.
pub(crate) const fn columns_of_instruction(groups: usize, columns: usize) -> usize {
    let most = if groups == 3 { 192 } else { 256 };
    if columns > most { columns / 2 } else { columns }
}
