//! What is claimed holds: of whole kernels as text, and of arithmetic against counting it out.

use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, CompareOp};
use ir::{Func, Type};

use ir::facts::{self, DimFacts, Facts, MAX_DIVISIBILITY, Range};

use super::Axes;
use crate::test::read;

fn named(func: &Func, name: &str) -> Value {
    let found = func.values().find(|v| func.name(*v) == Some(name));
    found.unwrap_or_else(|| panic!("a value is called {name}"))
}

/// `contiguity divisibility constancy` for each dimension, then the bounds if they say more than the type.
fn shown(func: &Func, axes: &Axes, value: Value) -> String {
    let rank = func.ty(value).shape().len().max(1);
    let dim = |d| {
        let divisibility = axes.dim(value, d).divisibility;
        let divisibility = if divisibility == MAX_DIVISIBILITY {
            "any".into()
        } else {
            (1 << divisibility).to_string()
        };
        format!(
            "{} {divisibility} {}",
            axes.contiguity(value, d),
            axes.constancy(value, d)
        )
    };
    let dims: Vec<String> = (0..rank).map(dim).collect();
    let range = axes
        .range(value)
        .filter(|r| Some(*r) != facts::type_range(func.ty(value)));
    let range = range.map_or_else(String::new, |r| format!(" in {}..={}", r.low, r.high));
    format!("[{}]{range}", dims.join(", "))
}

/// Each `(name, facts)` holds in the kernel.
#[track_caller]
fn check(text: &str, expected: &[(&str, &str)]) {
    let func = read(text);
    let axes = Axes::of(&func);
    for (name, wanted) in expected {
        let found = shown(&func, &axes, named(&func, name));
        assert_eq!(found, *wanted, "of %{name}");
    }
}

#[test]
fn pointers_and_masks_of_a_vector_add() {
    check(
        "
        #blocked = Blocked([4], [32], [4], [0])
        kernel @k(%x: ptr<f32> {divisor=16}, %n: i32 {divisor=16}, %m: i32) warps(4) {
          %pid = program_id {axis=x} : i32
          %b = constant {value=1024} : i32
          %start = binary %pid, %b {op=mul} : i32
          %s = splat %start : tensor<1024xi32, #blocked>
          %r = arange {start=0, end=1024} : tensor<1024xi32, #blocked>
          %i = binary %s, %r {op=add} : tensor<1024xi32, #blocked>
          %ns = splat %n : tensor<1024xi32, #blocked>
          %mask = compare %i, %ns {op=lt} : tensor<1024xi1, #blocked>
          %ms = splat %m : tensor<1024xi32, #blocked>
          %ragged = compare %i, %ms {op=lt} : tensor<1024xi1, #blocked>
          %xs = splat %x : tensor<1024xptr<f32>, #blocked>
          %at = ptr_add %xs, %i : tensor<1024xptr<f32>, #blocked>
          return
        }",
        &[
            ("pid", "[1 1 1] in 0..=2147483646"),
            ("start", "[1 1024 1]"),
            ("r", "[1024 any 1] in 0..=1023"),
            ("i", "[1024 1024 1]"),
            ("mask", "[1 1 16]"),
            ("ragged", "[1 1 1]"),
            ("at", "[1024 16 1]"),
        ],
    );
}

#[test]
fn two_dimensions_with_a_stride() {
    check(
        "
        #p = Blocked([1, 4], [8, 4], [4, 1], [1, 0])
        #rows = Slice(1, Blocked([1, 4], [8, 4], [4, 1], [1, 0]))
        #cols = Slice(0, Blocked([1, 4], [8, 4], [4, 1], [1, 0]))
        kernel @k(%x: ptr<f16> {divisor=16}, %stride: i32 {divisor=8}, %odd: i32) warps(4) {
          %r = arange {start=0, end=64} : tensor<64xi32, #rows>
          %c = arange {start=0, end=32} : tensor<32xi32, #cols>
          %r2 = expand_dims %r {axis=1} : tensor<64x1xi32, #p>
          %c2 = expand_dims %c {axis=0} : tensor<1x32xi32, #p>
          %s = splat %stride : tensor<64x1xi32, #p>
          %o = splat %odd : tensor<64x1xi32, #p>
          %rs = binary %r2, %s {op=mul} : tensor<64x1xi32, #p>
          %ro = binary %r2, %o {op=mul} : tensor<64x1xi32, #p>
          %rb = broadcast %rs : tensor<64x32xi32, #p>
          %rob = broadcast %ro : tensor<64x32xi32, #p>
          %cb = broadcast %c2 : tensor<64x32xi32, #p>
          %i = binary %rb, %cb {op=add} : tensor<64x32xi32, #p>
          %j = binary %rob, %cb {op=add} : tensor<64x32xi32, #p>
          %xs = splat %x : tensor<64x32xptr<f16>, #p>
          %at = ptr_add %xs, %i : tensor<64x32xptr<f16>, #p>
          %at_odd = ptr_add %xs, %j : tensor<64x32xptr<f16>, #p>
          return
        }",
        &[
            ("rs", "[1 8 1, 1 8 1]"),
            ("rb", "[1 8 1, 1 8 32]"),
            ("i", "[1 1 1, 32 8 1]"),
            ("at", "[1 2 1, 32 16 1]"),
            ("at_odd", "[1 2 1, 32 2 1]"),
        ],
    );
}

#[test]
fn loops_go_to_a_fixpoint() {
    check(
        "
        #b = Blocked([4], [32], [4], [0])
        kernel @k(%x: ptr<f32> {divisor=16}, %n: i32) warps(4) {
          %zero = constant {value=0} : i32
          %step = constant {value=256} : i32
          %r = arange {start=0, end=512} : tensor<512xi32, #b>
          %xs = splat %x : tensor<512xptr<f32>, #b>
          %first = ptr_add %xs, %r : tensor<512xptr<f32>, #b>
          %two = constant {value=2} : tensor<512xi32, #b>
          %eight = constant {value=8} : i32
          %last, %odd, %count = for %zero, %n, %step, [%first, %first, %eight] (%k: i32, %p: tensor<512xptr<f32>, #b>, %q: tensor<512xptr<f32>, #b>, %c: i32) {
            %ks = splat %k : tensor<512xi32, #b>
            %p2 = ptr_add %p, %ks : tensor<512xptr<f32>, #b>
            %q2 = ptr_add %q, %two : tensor<512xptr<f32>, #b>
            %c2 = binary %c, %eight {op=add} : i32
            yield [%p2, %q2, %c2]
          } : tensor<512xptr<f32>, #b>, tensor<512xptr<f32>, #b>, i32
          return
        }",
        &[
            ("k", "[1 256 1] in 0..=2147483646"),
            ("p", "[512 16 1]"),
            ("q", "[512 8 1]"),
            ("last", "[512 16 1]"),
            ("odd", "[512 8 1]"),
            ("c", "[1 8 1]"),
            ("c2", "[1 8 1]"),
        ],
    );
}

#[test]
fn promises_hints_and_branches() {
    check(
        "
        #b = Blocked([4], [32], [4], [0])
        kernel @k(%n: i32, %m: i32, %c: i1) warps(4) {
          %zero = constant {value=0} : i32
          %sixteen = constant {value=16} : i32
          %limit = constant {value=4096} : i32
          %rem = binary %n, %sixteen {op=rem} : i32
          %even = compare %rem, %zero {op=eq} : i1
          %low = compare %zero, %n {op=le} : i1
          %high = compare %n, %limit {op=lt} : i1
          %both = binary %low, %high {op=and} : i1
          assume %even
          assume %both
          %twice = binary %n, %sixteen {op=mul} : i32
          %h = hint %m {kind=multiple_of, values=[8]} : i32
          %either = if %c () {
            yield [%twice]
          } () {
            yield [%h]
          } : i32
          %wide = cast %twice : i64
          %narrow = cast %wide : i32
          return
        }",
        &[
            ("twice", "[1 256 1] in 0..=65520"),
            ("h", "[1 8 1]"),
            ("either", "[1 8 1]"),
            ("wide", "[1 256 1] in 0..=65520"),
            ("narrow", "[1 256 1] in 0..=65520"),
        ],
    );
}

#[test]
fn shapes_carry_what_they_can() {
    check(
        "
        kernel @k() warps(4) {
          %r = arange {start=0, end=1024} : tensor<1024xi32, auto>
          %m = reshape %r : tensor<8x128xi32, auto>
          %t = permute %m {order=[1, 0]} : tensor<128x8xi32, auto>
          %flat = reshape %m : tensor<1024xi32, auto>
          %eight = constant {value=8} : tensor<1024xi32, auto>
          %eights = reshape %eight : tensor<8x128xi32, auto>
          %j = join %r, %eight : tensor<1024x2xi32, auto>
          %lhs, %rhs = split %j : tensor<1024xi32, auto>, tensor<1024xi32, auto>
          return
        }",
        &[
            ("m", "[1 1 1, 128 128 1] in 0..=1023"),
            ("t", "[128 128 1, 1 1 1] in 0..=1023"),
            ("flat", "[128 128 1] in 0..=1023"),
            ("eights", "[1 8 8, 1 8 128] in 8..=8"),
            ("j", "[1 1 1, 1 1 1] in 0..=1023"),
            ("lhs", "[1 1 1] in 0..=1023"),
        ],
    );
}

const LENGTH: usize = 16;

/// Exactly what holds of a vector.
fn exact(values: &[i128]) -> Facts {
    let runs = |holds: &dyn Fn(&[i128]) -> bool| {
        let fits = |log: &u8| values.chunks(1 << log).all(holds);
        (0..=LENGTH.ilog2() as u8).rev().find(fits).unwrap_or(0)
    };
    let contiguity = runs(&|run| run.windows(2).all(|w| w[1] == w[0] + 1));
    let constancy = runs(&|run| run.windows(2).all(|w| w[1] == w[0]));
    let starts = values.iter().step_by(1 << contiguity);
    let divisibility = starts
        .map(|v| (v.trailing_zeros() as u8).min(MAX_DIVISIBILITY))
        .min()
        .unwrap_or(0);
    let low = values.iter().min().copied().unwrap_or(0);
    let high = values.iter().max().copied().unwrap_or(0);
    let dims = [DimFacts {
        contiguity,
        divisibility,
        constancy,
        stride: stride_of(values),
    }]
    .into_iter()
    .collect();
    Facts {
        dims,
        range: Some(Range::new(low, high)),
    }
}

/// By how much each number differs from the one before, if all do alike.
fn stride_of(values: &[i128]) -> Option<i64> {
    let stride = values[1] - values[0];
    let is_even = values.windows(2).all(|w| w[1] - w[0] == stride);
    i64::try_from(stride).ok().filter(|_| is_even)
}

/// Does everything claimed hold of the vector?
fn holds(claimed: &Facts, values: &[i128]) -> bool {
    let dim = claimed.dims[0];
    let counts = values
        .chunks(1 << dim.contiguity)
        .all(|run| run.windows(2).all(|w| w[1] == w[0] + 1));
    let stays = values
        .chunks(1 << dim.constancy)
        .all(|run| run.windows(2).all(|w| w[1] == w[0]));
    let divides = values
        .iter()
        .step_by(1 << dim.contiguity)
        .all(|v| v.trailing_zeros() >= u32::from(dim.divisibility));
    let in_range = claimed
        .range
        .is_none_or(|r| values.iter().all(|v| r.low <= *v && *v <= r.high));
    let is_even = dim.stride.is_none() || dim.stride == stride_of(values);
    counts && stays && divides && in_range && is_even
}

/// Vectors that count up by steps from several starts, in runs, of both signs.
fn vectors() -> Vec<Vec<i128>> {
    let mut all = Vec::new();
    for start in [-16, -7, -4, 0, 1, 3, 4, 8, 32] {
        for run in [1, 4, 16] {
            for (within, between) in [(0, 0), (1, 0), (1, 8), (0, 1), (0, 4), (2, 8), (1, 5)] {
                let value =
                    |i: usize| start + within * (i % run) as i128 + between * (i / run) as i128;
                all.push((0..LENGTH).map(value).collect());
            }
        }
    }
    all
}

fn computed(op: BinaryOp, a: i128, b: i128) -> Option<i128> {
    let shift_is_legal = (0..16).contains(&b);
    match op {
        BinaryOp::Add => Some(a + b),
        BinaryOp::Sub => Some(a - b),
        BinaryOp::Mul => Some(a * b),
        BinaryOp::Div => (b != 0).then(|| a / b),
        BinaryOp::Rem => (b != 0).then(|| a % b),
        BinaryOp::Min => Some(a.min(b)),
        BinaryOp::Max => Some(a.max(b)),
        BinaryOp::And => Some(a & b),
        BinaryOp::Or => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        BinaryOp::Shl => shift_is_legal.then(|| a << b),
        BinaryOp::Shr => shift_is_legal.then(|| a >> b),
        BinaryOp::MulHigh => Some((a * b) >> 32),
        BinaryOp::MinNan | BinaryOp::MaxNan | BinaryOp::CopySign => None,
    }
}

#[test]
fn arithmetic_claims_nothing_false() {
    let vectors = vectors();
    let ty = Type::tensor([LENGTH as u32], Elem::I32, layout::Layout::Auto);
    for &op in BinaryOp::ALL {
        for a in &vectors {
            for b in &vectors {
                let result: Option<Vec<i128>> =
                    a.iter().zip(b).map(|(a, b)| computed(op, *a, *b)).collect();
                let Some(result) = result else { continue };
                let claimed = facts::binary(op, &exact(a), &exact(b), &ty);
                assert!(
                    holds(&claimed, &result),
                    "{op} of {a:?} and {b:?} is {result:?}, not {claimed:?}"
                );
            }
        }
    }
}

#[test]
fn comparisons_claim_nothing_false() {
    let vectors = vectors();
    for &op in CompareOp::ALL {
        for a in &vectors {
            for b in &vectors {
                let compare = |a: i128, b: i128| match op {
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                };
                let result: Vec<i128> = a
                    .iter()
                    .zip(b)
                    .map(|(a, b)| compare(*a, *b).into())
                    .collect();
                let claimed = facts::compare(op, &exact(a), &exact(b));
                assert!(
                    holds(&claimed, &result),
                    "{op} of {a:?} and {b:?} is {result:?}, not {claimed:?}"
                );
            }
        }
    }
}

#[test]
fn narrow_numbers_count_as_far_as_their_type_goes() {
    check(
        "
        #blocked = Blocked([4], [32], [4], [0])
        kernel @k() warps(4) {
          %i = arange {start=0, end=1024} : tensor<1024xi32, #blocked>
          %signed = cast %i : tensor<1024xi8, #blocked>
          %unsigned = cast %i : tensor<1024xu8, #blocked>
          %zero = constant {value=0} : tensor<1024xi8, #blocked>
          %negative = compare %signed, %zero {op=lt} : tensor<1024xi1, #blocked>
          %wide = cast %signed : tensor<1024xi32, #blocked>
          return
        }",
        &[
            ("i", "[1024 any 1] in 0..=1023"),
            ("signed", "[128 128 1]"),
            ("unsigned", "[256 256 1]"),
            ("negative", "[1 1 128]"),
            ("wide", "[128 128 1] in -128..=127"),
        ],
    );
}

#[test]
fn a_rank_lies_in_its_cluster() {
    let kernel = |cluster: &str| {
        format!("kernel @k() warps(4){cluster} {{\n  %rank = cluster_rank : i32\n  return\n}}")
    };
    check(
        &kernel(" cluster(4, 2, 1)"),
        &[("rank", "[1 1 1] in 0..=7")],
    );
    check(&kernel(""), &[("rank", "[1 any 1] in 0..=0")]);
}

/// The stride of each named value along each dimension; `-` where there is none.
#[track_caller]
fn check_strides(text: &str, expected: &[(&str, &str)]) {
    let func = read(text);
    let axes = Axes::of(&func);
    for (name, wanted) in expected {
        let value = named(&func, name);
        let rank = func.ty(value).shape().len().max(1);
        let shown = |dim| {
            axes.stride(value, dim)
                .map_or("-".to_owned(), |by| by.to_string())
        };
        let found: Vec<String> = (0..rank).map(shown).collect();
        assert_eq!(found.join(" "), *wanted, "of %{name}");
    }
}

#[test]
fn strides_are_followed_through_arithmetic_and_shapes() {
    check_strides(
        "
        kernel @k(%x: ptr<f32>, %n: i32, %loaded: ptr<i32>) warps(4) {
          %i = arange {start=0, end=32} : tensor<32xi32, auto>
          %last = constant {value=31} : tensor<32xi32, auto>
          %five = constant {value=5} : tensor<32xi32, auto>
          %ns = splat %n : tensor<32xi32, auto>
          %reversed = binary %last, %i {op=sub} : tensor<32xi32, auto>
          %flipped = binary %i, %last {op=xor} : tensor<32xi32, auto>
          %mixed = binary %i, %five {op=xor} : tensor<32xi32, auto>
          %fifth = binary %i, %five {op=mul} : tensor<32xi32, auto>
          %unknown = binary %i, %ns {op=mul} : tensor<32xi32, auto>
          %behind = binary %fifth, %ns {op=add} : tensor<32xi32, auto>
          %negated = unary %i {op=neg} : tensor<32xi32, auto>
          %wide = cast %behind : tensor<32xi64, auto>
          %narrow = cast %i : tensor<32xi8, auto>
          %cut = cast %behind : tensor<32xi8, auto>
          %row = expand_dims %reversed {axis=0} : tensor<1x32xi32, auto>
          %rows = broadcast %row : tensor<8x32xi32, auto>
          %halves = reshape %fifth : tensor<2x16xi32, auto>
          %whole = reshape %halves : tensor<32xi32, auto>
          %xs = splat %x : tensor<32xptr<f32>, auto>
          %p = ptr_add %xs, %reversed : tensor<32xptr<f32>, auto>
          %ls = splat %loaded : tensor<32xptr<i32>, auto>
          %read = load %ls : tensor<32xi32, auto>
          return
        }",
        &[
            ("reversed", "-1"),
            ("flipped", "-1"),
            ("mixed", "-"),
            ("fifth", "5"),
            ("unknown", "-"),
            ("behind", "5"),
            ("negated", "-1"),
            ("wide", "5"),
            ("narrow", "1"),
            ("cut", "-"),
            ("rows", "0 -1"),
            ("halves", "80 5"),
            ("whole", "-"),
            ("p", "-4"),
            ("read", "0"),
        ],
    );
}

#[test]
fn a_stride_that_a_loop_changes_is_unknown() {
    check_strides(
        "
        kernel @k(%n: i32) warps(4) {
          %zero = constant {value=0} : i32
          %one = constant {value=1} : i32
          %i = arange {start=0, end=32} : tensor<32xi32, auto>
          %by = constant {value=4} : tensor<32xi32, auto>
          %moved, %grown = for %zero, %n, %one, [%i, %i] (%k: i32, %a: tensor<32xi32, auto>, %b: tensor<32xi32, auto>) {
            %a2 = binary %a, %by {op=add} : tensor<32xi32, auto>
            %b2 = binary %b, %by {op=mul} : tensor<32xi32, auto>
            yield [%a2, %b2]
          } : tensor<32xi32, auto>, tensor<32xi32, auto>
          return
        }",
        &[("moved", "1"), ("grown", "-"), ("k", "0")],
    );
}
