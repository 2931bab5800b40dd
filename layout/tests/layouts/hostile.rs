//! Layouts that make no sense: an error, never a panic.

use layout::{AnyLayout, Dims, Layout, LayoutError, SharedLayout};
use proptest::prelude::*;

use crate::family::layout;

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(2),
        Just(3),
        Just(4),
        Just(8),
        Just(16),
        Just(32),
        Just(64),
        Just(1 << 31),
        any::<u32>()
    ]
}

fn list(rank: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    proptest::collection::vec(number(), rank).prop_map(|numbers| Dims::from(numbers).to_string())
}

fn bases() -> impl Strategy<Value = String> {
    proptest::collection::vec(list(1..4), 0..7)
        .prop_map(|vectors| format!("[{}]", vectors.join(", ")))
}

fn any_layout() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (list(0..4), list(0..4), list(0..4), list(0..4), bases())
            .prop_map(|(a, b, c, d, cta)| format!("Blocked({a}, {b}, {c}, {d}, cta={cta})")),
        (bases(), bases(), bases(), bases()).prop_map(|(a, b, c, d)| format!(
            "Linear(register={a}, lane={b}, warp={c}, block={d})"
        )),
        (0_u32..4, bases(), number()).prop_map(|(dim, warp, warps)| format!(
            "Linear(register=[[1, 0]], lane=[[{dim}, 0], [2, 0], [0, 1], [0, 2], [0, 4]], warp={warp}, warps={warps})"
        )),
        (list(2..3), list(2..3)).prop_map(|(per_thread, warps)| format!(
            "Blocked({per_thread}, [8, 4], {warps}, [1, 0])"
        )),
        (list(0..4), list(0..4)).prop_map(|(a, b)| format!("Mma({a}, {b})")),
        (list(2..3), number()).prop_map(|(a, n)| format!("Wgmma({a}, [64, {n}, 16])")),
        Just("Blocked([1, 4], [8, 4], [4, 1], [1, 0])".to_owned()),
        Just("Mma([2, 2], [16, 8])".to_owned()),
        Just("Auto".to_owned()),
        (number(), number(), list(0..4), bases())
            .prop_map(|(a, b, c, cta)| format!("Swizzled({a}, {b}, 4, {c}, cta={cta})")),
        (number(), number(), any::<bool>(), number())
            .prop_map(|(a, b, t, rank)| format!("Nvmma({a}, {b}, transposed={t}, rank={rank})")),
        (number(), number(), list(0..4)).prop_map(|(a, b, c)| format!("Padded([[{a}, {b}]], {c})")),
        (number(), number(), bases())
            .prop_map(|(a, b, c)| format!("Padded([[{a}, {b}]], offset={c})")),
        (bases(), bases()).prop_map(|(a, b)| format!("SharedLinear(offset={a}, block={b})")),
    ];
    leaf.prop_recursive(2, 4, 1, |parent| {
        prop_oneof![
            (number(), parent.clone()).prop_map(|(dim, parent)| format!("Slice({dim}, {parent})")),
            (number(), parent, number())
                .prop_map(|(at, parent, k)| format!("DotOperand({at}, {parent}, {k})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_layout_panics(text in any_layout(), shape in proptest::collection::vec(number(), 0..4)) {
        match text.parse::<AnyLayout>() {
            Ok(AnyLayout::Distributed(layout)) => {
                prop_assert_eq!(layout.to_string().parse::<Layout>(), Ok(layout.clone()));
                let _ = (layout.rank(), layout.warps(), layout.ctas(), layout.check_parameters());
                if let Ok(map) = layout.linear(&shape) {
                    prop_assert!(map.is_surjective());
                }
            }
            Ok(AnyLayout::Shared(layout)) => {
                prop_assert_eq!(layout.to_string().parse::<SharedLayout>(), Ok(layout.clone()));
                let _ = (layout.rank(), layout.check_parameters());
                if let Ok(map) = layout.linear(&shape) {
                    prop_assert!(map.is_surjective());
                }
            }
            // Parents are distributed: a slice of a shared layout is no layout.
            Err(_) => {}
        }
    }

    #[test]
    fn no_text_panics(text in "[A-Za-z0-9\\[\\](),= ]{0,40}|(Slice\\(0, ){0,20}") {
        let _ = text.parse::<AnyLayout>();
    }
}

#[test]
fn each_rule_broken_once_says_so() {
    let check = |text: &str, shape: &[u32], part: &str| {
        let error: LayoutError = match text.parse::<AnyLayout>().unwrap() {
            AnyLayout::Distributed(layout) => layout.linear(shape).unwrap_err(),
            AnyLayout::Shared(layout) => layout.linear(shape).unwrap_err(),
        };
        let message = error.to_string();
        assert!(message.contains(part), "{text}: {message}");
    };
    check("Auto", &[64], "Auto is a placeholder");
    check(
        "Blocked([1], [8, 4], [4, 1], [1, 0])",
        &[64, 64],
        "size_per_thread of Blocked has 1 entries, but the layout has rank 2",
    );
    check(
        "Blocked([3, 1], [8, 4], [4, 1], [1, 0])",
        &[64, 64],
        "must be powers of two, but entry 0 is 3",
    );
    check(
        "Blocked([1, 1], [8, 4], [4, 1], [1, 1])",
        &[64, 64],
        "a permutation of the dimensions 0..2, but is [1, 1]",
    );
    check(
        "Blocked([1, 1], [8, 8], [4, 1], [1, 0])",
        &[64, 64],
        "multiplies to 64, but a warp has 32 threads",
    );
    check(
        "Blocked([1, 1], [8, 4], [64, 1], [1, 0])",
        &[64, 64],
        "at most 32 warps in a CTA",
    );
    check(
        "Blocked([1, 1], [8, 4], [4, 1], [1, 0], cta=[[1, 1]])",
        &[64, 64],
        "one non-zero entry only",
    );
    check(
        "Blocked([1, 1], [8, 4], [4, 1], [1, 0], cta=[[2, 0]])",
        &[64, 64],
        "no basis of Blocked reaches coordinate 1",
    );
    check(
        "Blocked([1], [32], [4], [0])",
        &[64, 64],
        "has rank 1, but the shape [64, 64] has rank 2",
    );
    check(
        "Blocked([1], [32], [4], [0])",
        &[0],
        "dimension 0 of [0] has no elements",
    );
    check(
        "Slice(2, Blocked([1, 1], [8, 4], [4, 1], [1, 0]))",
        &[64],
        "removes dimension 2, but its parent has rank 2",
    );
    check(
        "Slice(0, Blocked([1], [32], [4], [0]))",
        &[],
        "needs at least two dimensions",
    );
    check(
        "Linear(lane=[[1], [2]])",
        &[4],
        "has 2 lane bases, but needs 5",
    );
    check(
        "Linear(lane=[[1], [2], [4], [8], [8]])",
        &[16],
        "another basis already has this value",
    );
    check(
        "Linear(lane=[[1], [2], [4], [8], [3]])",
        &[16],
        "its entry must be a power of two",
    );
    check(
        "Mma([4, 1], [8, 8])",
        &[64, 64],
        "it must be [16, 8] (rank 2) or [1, 16, 8] (rank 3)",
    );
    check(
        "Wgmma([2, 2], [64, 64, 16])",
        &[64, 64],
        "a warpgroup is four warps along M",
    );
    check(
        "Wgmma([4, 1], [16, 64, 16])",
        &[64, 64],
        "m of a wgmma is 64",
    );
    check(
        "Wgmma([4, 1], [64, 20, 16])",
        &[64, 64],
        "n must be a multiple of 8 from 8 to 256",
    );
    check(
        "DotOperand(2, Mma([4, 1], [16, 8]), 2)",
        &[64, 64],
        "it must be 0 (A) or 1 (B)",
    );
    check(
        "DotOperand(0, Mma([4, 1], [16, 8]), 0)",
        &[64, 64],
        "it must be 1, 2, 4 or 8",
    );
    check(
        "DotOperand(0, Blocked([1, 1], [8, 4], [4, 1], [1, 0]), 2)",
        &[64, 64],
        "with a Blocked parent it must be 0",
    );
    check(
        "DotOperand(0, Slice(0, Auto), 2)",
        &[64, 64],
        "it must be Mma, Wgmma or Blocked",
    );
    check(
        "Nvmma(48, 16)",
        &[64, 64],
        "it must be one of [0, 32, 64, 128]",
    );
    check(
        "Nvmma(128, 12)",
        &[64, 64],
        "it must be one of [8, 16, 32, 64]",
    );
    check("Nvmma(128, 16, rank=1)", &[64], "needs two dimensions");
    check(
        "Nvmma(64, 8, fp4_padded=true)",
        &[64, 64],
        "a swizzle of 128 bytes and 8-bit elements",
    );
    check(
        "Swizzled(3, 1, 1, [1, 0])",
        &[64, 64],
        "vec of Swizzled is 3, but it must be a power of two",
    );
    check("Padded([], [1, 0])", &[64, 64], "at least one pair");
    check(
        "Padded([[64, 4], [64, 8]], [1, 0])",
        &[64, 64],
        "an interval may be named only once",
    );
    check(
        "SharedLinear(offset=[[1], [2], [3]])",
        &[4],
        "the XOR of other bases",
    );
    check(
        "SharedLinear(offset=[[1]])",
        &[4],
        "no basis of SharedLinear reaches coordinate 2",
    );
    check(
        "SharedLinear(offset=[[1], [4]])",
        &[4],
        "it lies outside the shape",
    );
    assert!(
        layout("Auto").check(&[0, 4]).is_err(),
        "even a placeholder stands on a tensor's shape"
    );
}
