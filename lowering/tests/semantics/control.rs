//! Loops and what they carry.

use ir::elem::DType;

use crate::machine::{BLOCKED, LEN, elementwise, ptx_of, run};
use crate::values::{bytes, values};

#[test]
fn loops_end_at_the_end_of_their_type() {
    // Iterations counted: the index must not wrap around past the bound.
    let cases = [
        ("i32", 0_i64, 10_i64, 3, 4_i64),
        ("i32", 2_147_483_640, 2_147_483_647, 5, 2),
        ("i32", -2_147_483_648, -2_147_483_646, 100, 1),
        ("u32", 4_294_967_290, 4_294_967_295, 4, 2),
        ("u32", 0, 10, 64, 1),
        (
            "i64",
            9_223_372_036_854_775_800,
            9_223_372_036_854_775_807,
            100,
            1,
        ),
        ("i32", 5, 5, 1, 0),
        ("i32", 6, 5, 1, 0),
    ];
    for (ty, low, high, step, count) in cases {
        let text = format!(
            "kernel @k(%x: ptr<{ty}>, %out: ptr<i32>) warps(1) {{\n  %one = constant {{value=1}} : {ty}\n  %two = constant {{value=2}} : {ty}\n  %p1 = ptr_add %x, %one : ptr<{ty}>\n  %p2 = ptr_add %x, %two : ptr<{ty}>\n  %low = load %x : {ty}\n  %high = load %p1 : {ty}\n  %step = load %p2 : {ty}\n  %zero = constant {{value=0}} : i32\n  %add = constant {{value=1}} : i32\n  %n = for %low, %high, %step, [%zero] (%i: {ty}, %c: i32) {{\n    %d = binary %c, %add {{op=add}} : i32\n    yield [%d]\n  }} : i32\n  store %out, %n\n  return\n}}\n"
        );
        let dtype: DType = ty.parse().unwrap();
        let input = bytes(&[low as u64, high as u64, step as u64], dtype);
        let found = values(&run(&text, &[&input], 4), DType::U32)[0];
        assert_eq!(found as i64, count, "{ty} from {low} to {high} by {step}");
    }
}

#[test]
fn carried_values_change_places_at_once() {
    let text = "kernel @k(%x: ptr<i32>, %out: ptr<i32>) warps(1) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %five = constant {value=5} : i32
  %a0 = load %x : i32
  %q = ptr_add %x, %one : ptr<i32>
  %b0 = load %q : i32
  %a, %b = for %zero, %five, %one, [%a0, %b0] (%i: i32, %l: i32, %r: i32) {
    %s = binary %l, %r {op=add} : i32
    yield [%r, %s]
  } : i32, i32
  store %out, %a
  %o = ptr_add %out, %one : ptr<i32>
  store %o, %b
  return
}
";
    let found = values(&run(text, &[&bytes(&[0, 1], DType::I32)], 8), DType::I32);
    assert_eq!(found, [5, 8], "Fibonacci");
}

/// Words of four stay whole: nothing is taken out of them and put together again.
#[test]
fn carried_floats_of_8_bits_are_packed() {
    for dtype in [DType::E4m3, DType::E5m2] {
        let ty = format!("tensor<{LEN}x{dtype}, #b>");
        let body = format!(
            "  %zero = constant {{value=0}} : i32\n  %one = constant {{value=1}} : i32\n  %three = constant {{value=3}} : i32\n  %l, %r = for %zero, %three, %one, [%x0, %x1] (%k: i32, %a: {ty}, %c: {ty}) {{\n    yield [%c, %a]\n  }} : {ty}, {ty}\n"
        );
        let text = elementwise(&[dtype, dtype], dtype, &body);
        let text = text.replace(BLOCKED, "Blocked([4], [32], [4], [0])");
        let ptx = ptx_of(&text);
        assert!(!ptx.contains("bfe.") && !ptx.contains("prmt."), "{ptx}");
        let inputs = [0, 1].map(|first: u64| {
            let codes: Vec<u64> = (0..LEN as u64).map(|at| (at * 2 + first) % 0x7c).collect();
            bytes(&codes, dtype)
        });
        let found = run(&text, &[&inputs[0], &inputs[1]], LEN);
        assert_eq!(found, inputs[0], "{dtype} after three exchanges");
    }
}
