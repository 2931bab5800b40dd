//! What conversions cost, beside what Gluon's compiler takes for the same ones: the table of
//! `bench/results/conversions.md`, which this test holds to what is emitted.

use std::fmt::Write;
use std::path::Path;

use layout::Layout;
use layout::convert::{Limits, plan_conversion};
use lowering::analysis::conversions::ConversionCost;
use target::SM_90A;

use crate::kernel::{Tensor, compiled};

/// A conversion, and Gluon's count where it is known.
struct Row {
    what: &'static str,
    elem: (&'static str, u32),
    shape: [u32; 2],
    warps: u32,
    from: &'static str,
    to: &'static str,
    gluon: &'static str,
}

const ROWS: &str = "Blocked([1, 8], [4, 8], [4, 1], [1, 0])";
const COLUMNS: &str = "Blocked([8, 1], [8, 4], [1, 4], [0, 1])";
const ACC_V3: &str = "Wgmma([4, 1], [64, 64, 16])";
const A_V2: &str = "DotOperand(0, Mma([4, 1], [16, 8]), 2)";
const BY_MATRICES: &str = "4 st.shared.v4, 4 ldmatrix, 1 barrier, 8192 B";

/// A row of f16, 64 x 64, four warps.
const fn halves(
    what: &'static str,
    from: &'static str,
    to: &'static str,
    gluon: &'static str,
) -> Row {
    Row {
        what,
        elem: ("f16", 16),
        shape: [64, 64],
        warps: 4,
        from,
        to,
        gluon,
    }
}

/// A row of f64, 32 x 64, four warps.
const fn doubles(what: &'static str, from: &'static str, to: &'static str) -> Row {
    Row {
        what,
        elem: ("f64", 64),
        shape: [32, 64],
        warps: 4,
        from,
        to,
        gluon: "not counted",
    }
}

const PAIRS: &str = "Blocked([1, 2], [1, 32], [4, 1], [1, 0])";

const TABLE: [Row; 18] = [
    halves("blocked to wgmma accumulator", ROWS, ACC_V3, BY_MATRICES),
    halves("wgmma accumulator to blocked", ACC_V3, ROWS, BY_MATRICES),
    halves("blocked to mma operand A", ROWS, A_V2, BY_MATRICES),
    halves("mma operand A to blocked", A_V2, ROWS, BY_MATRICES),
    halves(
        "rows to columns",
        ROWS,
        COLUMNS,
        "2 passes, 3 barriers, 4096 B",
    ),
    halves(
        "columns to wgmma accumulator",
        COLUMNS,
        ACC_V3,
        "not counted",
    ),
    halves(
        "mma accumulator to operand A",
        "Mma([4, 1], [16, 8])",
        A_V2,
        "nothing",
    ),
    halves(
        "wgmma accumulator to operand A",
        ACC_V3,
        "DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 2)",
        "nothing",
    ),
    halves(
        "wgmma n = 64 to n = 32",
        ACC_V3,
        "Wgmma([4, 1], [64, 32, 16])",
        "nothing",
    ),
    Row {
        what: "lanes of a warp, 32 x 1 to 16 x 2",
        elem: ("f32", 32),
        shape: [128, 16],
        warps: 1,
        from: "Blocked([1, 1], [32, 1], [1, 1], [1, 0])",
        to: "Blocked([1, 1], [16, 2], [1, 1], [1, 0])",
        gluon: "7 barriers, 2048 B",
    },
    Row {
        what: "two to four in a row",
        elem: ("f32", 32),
        shape: [128, 16],
        warps: 4,
        from: "Blocked([1, 2], [8, 4], [4, 1], [1, 0])",
        to: "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
        gluon: "not counted",
    },
    Row {
        what: "a transposition, rows to columns",
        elem: ("f32", 32),
        shape: [64, 64],
        warps: 4,
        from: "Blocked([1, 4], [2, 16], [4, 1], [1, 0])",
        to: "Blocked([4, 1], [16, 2], [1, 4], [0, 1])",
        gluon: "not counted",
    },
    Row {
        what: "rows to columns of bytes",
        elem: ("i8", 8),
        shape: [64, 64],
        warps: 4,
        from: "Blocked([1, 16], [8, 4], [4, 1], [1, 0])",
        to: "Blocked([16, 1], [4, 8], [1, 4], [0, 1])",
        gluon: "not counted",
    },
    doubles(
        "blocked f64 to mma operand A",
        PAIRS,
        "DotOperand(0, Mma([2, 2], [16, 8]), 1)",
    ),
    doubles(
        "blocked f64 to mma operand B",
        PAIRS,
        "DotOperand(1, Mma([2, 2], [16, 8]), 1)",
    ),
    doubles(
        "mma operand A of f64 to blocked",
        "DotOperand(0, Mma([2, 2], [16, 8]), 1)",
        PAIRS,
    ),
    doubles(
        "mma accumulator of f64 to operand A",
        "Mma([4, 1], [16, 8])",
        "DotOperand(0, Mma([4, 1], [16, 8]), 1)",
    ),
    doubles(
        "mma accumulator of f64 to blocked",
        "Mma([2, 2], [16, 8])",
        PAIRS,
    ),
];

impl Row {
    fn cost(&self) -> ConversionCost {
        let map = |text: &str| text.parse::<Layout>().unwrap().linear(&self.shape).unwrap();
        let (from, to) = (map(self.from), map(self.to));
        // In a kernel of its own, a conversion gets the memory for one round.
        let limits = Limits {
            scratch_bytes: 64 << 10,
            ..Limits::of(&SM_90A)
        };
        let plan = plan_conversion(&from, &to, self.elem.1, limits).unwrap();
        ConversionCost::of(&plan)
    }

    /// Counts of instructions as the emitted text has them.
    fn check_emitted(&self, cost: &ConversionCost) {
        let tensor = Tensor {
            shape: &self.shape,
            dtype: self.elem.0,
            bits: self.elem.1,
            warps: self.warps,
        };
        let text = tensor.kernel(&[self.from, self.to], &[0], &[1]);
        let ptx = compiled(&text).module.to_text();
        let count = |words: &[&str]| {
            let is_one = |line: &&str| words.iter().any(|word| line.contains(word));
            ptx.lines().filter(is_one).count() as u32
        };
        let work = cost.work;
        assert_eq!(count(&["st.shared", "stmatrix"]), work.stores, "{ptx}");
        assert_eq!(count(&["ld.shared", "ldmatrix"]), work.loads, "{ptx}");
        assert_eq!(count(&["shfl.sync"]), work.shuffles, "{ptx}");
        let barriers = work.cta_barriers + work.warp_barriers;
        assert_eq!(count(&["bar.sync", "bar.warp"]), barriers, "{ptx}");
    }
}

fn table() -> String {
    let mut text = String::from(
        "# What layout conversions cost\n\n\
        Instructions and barriers of one warp, and shared memory of a CTA, as they are emitted; a wavefront is one trip\n\
        through the banks, 128 bytes without conflicts. Gluon's are counted in the PTX of its compiler; of its rows to\n\
        columns and its lanes of a warp the exact layouts and shape are not recorded. The test\n\
        `the_table_is_what_is_emitted` holds this file to the compiler; `UPDATE_TABLE=1 cargo test -p tilekit-lowering\n\
        --test conversions table` writes it.\n\n\
        | conversion | element, shape, warps | from | to | TileKit | Gluon |\n\
        | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in &TABLE {
        let cost = row.cost();
        row.check_emitted(&cost);
        let [rows, columns] = row.shape;
        writeln!(
            text,
            "| {} | {}, {rows} x {columns}, {} | `{}` | `{}` | {cost} | {} |",
            row.what, row.elem.0, row.warps, row.from, row.to, row.gluon
        )
        .unwrap();
    }
    text
}

#[test]
fn the_table_is_what_is_emitted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results/conversions.md");
    let text = table();
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "the table is now\n{text}");
}

#[test]
fn blocked_to_accumulator_takes_four_stores_four_loads_and_one_barrier() {
    let cost = TABLE[0].cost();
    let work = cost.work;
    assert!(work.stores <= 4 && work.loads <= 4, "{cost}");
    assert_eq!((work.cta_barriers, cost.shared_bytes), (1, 8192));
}

#[test]
fn what_is_free_with_gluon_is_free() {
    for row in TABLE.iter().filter(|row| row.gluon == "nothing") {
        assert!(row.cost().is_free(), "{}: {}", row.what, row.cost());
    }
}
