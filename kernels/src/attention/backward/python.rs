//! The plan of a call as the Python package has it (`python/emulate/python/tilekit/kernels/_attention_plan.py`), which launches the same kernels: it is that of a call here.

use std::process::Command;

use super::beside::{has_passes, heads_ahead, lines};
use super::part::{OfCluster, queries_of};
use super::sections::Plan;
use crate::attention::modifier::Plain;
use crate::attention::plan::{Mask, Sizes};

/// Prints a line for each call of the arguments.
const SCRIPT: &str = "
import sys
sys.path.insert(0, sys.argv[1])
from _attention_plan import plan
for call in sys.argv[2:]:
    *sizes, depth, values, causal, ordered = map(int, call.split())
    of = plan(*sizes, (depth, values), bool(causal), bool(ordered))
    print(*of[:6], *of.lines, of.first_line)
";

/// A call of 16-bit floats with as many keys as queries.
#[derive(Clone, Copy)]
struct Shape {
    sizes: Sizes,
    is_causal: bool,
    is_ordered: bool,
}

impl Shape {
    fn argument(self) -> String {
        let Sizes {
            batch,
            heads,
            kv_heads,
            queries,
            depths: [depth, values],
            ..
        } = self.sizes;
        let [causal, ordered] = [self.is_causal, self.is_ordered].map(u8::from);
        format!("{batch} {heads} {kv_heads} {queries} {depth} {values} {causal} {ordered}")
    }

    fn plan(self) -> String {
        let Shape { sizes, .. } = self;
        let mask = Mask {
            right: self.is_causal.then_some(0),
            ..Mask::default()
        };
        let depth = sizes.depths[0];
        let (queries, of_cluster) = (queries_of(depth, false), OfCluster::of_window(depth, false));
        let blocks = sizes.queries.div_ceil(queries);
        let key_blocks = of_cluster.programs(sizes.queries);
        let plan = Plan::new(sizes, mask, self.is_ordered, of_cluster, 2);
        let all = sizes.batch * sizes.kv_heads;
        let ahead = if has_passes::<Plain>(depth) {
            heads_ahead(plan, key_blocks, all)
        } else {
            all
        };
        let ([y, z], first) = lines(sizes, ahead);
        let Plan { heads, lead } = plan;
        format!("{queries} {blocks} {key_blocks} {heads} {lead} {ahead} {y} {z} {first}")
    }
}

/// Every depth, mask and order, at lengths of one block and of many, of few heads and of many.
fn shapes() -> Vec<Shape> {
    let depths = [[64, 64], [96, 96], [128, 128], [192, 128], [256, 256]];
    let calls = [
        [1, 1, 1, 1],
        [1, 16, 16, 16384],
        [1, 64, 64, 4096],
        [1, 128, 128, 2048],
        [3, 32, 8, 1000],
        [2, 8, 1, 129],
        [1, 2, 2, 65536],
    ];
    let of = |[batch, heads, kv_heads, tokens]: [usize; 4], depths| {
        [0, 1, 2, 3].map(|bits| Shape {
            sizes: Sizes {
                batch,
                heads,
                kv_heads,
                queries: tokens,
                keys: tokens,
                depths,
            },
            is_causal: bits & 1 != 0,
            is_ordered: bits & 2 != 0,
        })
    };
    let calls = calls.into_iter();
    calls
        .flat_map(|call| depths.into_iter().flat_map(move |depths| of(call, depths)))
        .collect()
}

#[test]
fn a_call_from_python_is_divided_as_one_from_rust() {
    let shapes = shapes();
    let module = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../python/emulate/python/tilekit/kernels"
    );
    let mut python = Command::new("python3");
    python.args(["-B", "-c", SCRIPT, module]);
    python.args(shapes.iter().map(|shape| shape.argument()));
    let Ok(output) = python.output() else {
        println!("skipped: no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found = String::from_utf8_lossy(&output.stdout);
    let of_rust: Vec<String> = shapes.iter().map(|shape| shape.plan()).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), of_rust);
}
