//! Cases of copies from columns to rows and to columns.

use tilekit::prelude::*;

use super::repack::{TILE, repack};

/// A matrix whose columns lie along memory, copied to rows or to columns.
fn repacked<const TO: usize>(case: &mut Case) -> CaseResult {
    let [m, n] = ["m", "n"].map(|name| case.size(name));
    let x = case.normal::<bf16>("x", [n, m]);
    let out = case.output::<bf16>("out", if TO == 1 { [m, n] } else { [n, m] });
    let (row, column) = if TO == 1 { (n, 1) } else { (1, m) };
    case.launch(
        repack::<bf16, 0, TO>,
        [m.div_ceil(TILE), n.div_ceil(TILE)],
        (
            &x,
            0_i64,
            1_i64,
            m as i64,
            0_i64,
            &out,
            0_i64,
            row as i64,
            column as i64,
            0_i64,
            m as i32,
            n as i32,
            1,
        ),
    )?;
    let want = |[i, j]: [usize; 2]| if TO == 1 { x[[j, i]] } else { x[[i, j]] };
    case.expect(&out, want, Exactly)?;
    case.moves_bytes(2 * size_of::<bf16>() * m * n);
    Ok(())
}

#[case(sizes(m = [200, 1, 64], n = [72, 65, 130]))]
fn repack_to_rows(case: &mut Case) -> CaseResult {
    repacked::<1>(case)
}

#[case(sizes(m = [200, 1, 64], n = [72, 65, 130]))]
fn repack_to_columns(case: &mut Case) -> CaseResult {
    repacked::<0>(case)
}
