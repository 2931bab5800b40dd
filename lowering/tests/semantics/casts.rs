//! Casts between all pairs of element types.

use ir::elem::DType;

use crate::machine::{LEN, check};
use crate::values::samples;

#[test]
fn casts_between_all_types() {
    for from in DType::ALL {
        for to in DType::ALL {
            let body = format!("  %r = cast %x0 : tensor<{LEN}x{to}, #b>\n");
            check(&[from], to, &body, &[samples(from, 8)], |x| x[0]);
        }
    }
}
