//! Products that ptxas dropped.
//!
//! Where two `wgmma` write the same registers with a wait between them, and what is computed from them after each wait reads
//! alike, ptxas 13.0 treats both results as equal: it keeps one product, and replaces the other by one of 64 by 8 zeros whose result is
//! unused. It reports nothing, and results are wrong. A product whose result is dead is replaced in the same way, correctly; so
//! replacements count only where registers are written again.

use std::collections::BTreeSet;

use super::{Message, Severity};

/// `HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ`: the half of its encoding that says what it does.
const NOTHING: [u8; 8] = 0x0000_0000_3fff_79f0_u64.to_le_bytes();
/// Instructions are 16 bytes, and sections of code begin at multiples of that.
const INSTRUCTION_BYTES: usize = 16;

/// The error of a cubin that lacks products of its PTX.
pub(super) fn products(ptx: &str, cubin: &[u8]) -> Option<Message> {
    let instructions = cubin.chunks_exact(INSTRUCTION_BYTES);
    let dropped = instructions.filter(|i| i.starts_with(&NOTHING)).count();
    (dropped > 0 && are_written_again(ptx)).then(|| Message {
        severity: Severity::Error,
        code: None,
        line: None,
        text: format!(
            "wgmma dropped: {dropped}. Their results were taken for those of others, which is a defect of ptxas 13.0; let no two \
             products write the same registers with a wait between them"
        ),
    })
}

/// Does a product write registers that a product before a wait wrote?
fn are_written_again(ptx: &str) -> bool {
    let (mut pending, mut waited) = (BTreeSet::new(), BTreeSet::new());
    for statement in ptx.split(';') {
        if statement.contains("wgmma.wait_group") {
            waited.append(&mut pending);
        } else if statement.contains("wgmma.mma_async") {
            let sums = statement.split(['{', '}']).nth(1).unwrap_or_default();
            for register in sums.split(',').map(str::trim) {
                if waited.contains(register) {
                    return true;
                }
                pending.insert(register);
            }
        }
    }
    false
}
