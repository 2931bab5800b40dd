//! Products that ptxas dropped.
//!
//! Where two `wgmma` write the same registers and what is computed from them after each wait reads alike, ptxas 13.0 takes
//! the one result for the other: it keeps one product, and in place of the other leaves one of 64 by 8 zeroes that goes
//! nowhere. It says nothing of it, and results are wrong.

use super::{Message, Severity};

/// `HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ`: the half of its encoding that says what it does.
const NOTHING: [u8; 8] = 0x0000_0000_3fff_79f0_u64.to_le_bytes();
/// Instructions are 16 bytes, and sections of code begin at multiples of that.
const INSTRUCTION_BYTES: usize = 16;

/// What is to be said of a cubin without some of its products.
pub(super) fn products(cubin: &[u8]) -> Option<Message> {
    let instructions = cubin.chunks_exact(INSTRUCTION_BYTES);
    let dropped = instructions.filter(|i| i.starts_with(&NOTHING)).count();
    (dropped > 0).then(|| Message {
        severity: Severity::Error,
        code: None,
        line: None,
        text: format!(
            "{dropped} wgmma were dropped: their results reach nobody, or were taken for those of others, which is a \
             defect of ptxas 13.0; use all results, and let no two products write the same registers with a wait between them"
        ),
    })
}
