//! What kernels print, line by line, and what they say when they stop themselves.

use emulator::FaultKind;
use ir::elem::DType;

use crate::machine::printed;
use crate::values::{Number, bytes, encode};

/// A kernel of one warp that reads `input` as `%v`, a scalar, and then does what `body` says.
fn scalar(dtype: DType, body: &str) -> String {
    format!(
        "kernel @k(%p: ptr<{dtype}>, %out: ptr<i32>) warps(1) {{\n  %v = load %p : {dtype}\n{body}\n  return\n}}\n"
    )
}

#[test]
fn a_scalar_of_every_type_is_printed_once() {
    let cases = [
        (DType::I1, Number::Int(1), "1"),
        (DType::I8, Number::Int(-128), "-128"),
        (DType::U8, Number::Int(255), "255"),
        (DType::I16, Number::Int(-32768), "-32768"),
        (DType::U16, Number::Int(65535), "65535"),
        (DType::I32, Number::Int(-7), "-7"),
        (DType::U32, Number::Int(4_294_967_295), "4294967295"),
        (
            DType::I64,
            Number::Int(i64::MIN.into()),
            "-9223372036854775808",
        ),
        (
            DType::U64,
            Number::Int(u64::MAX.into()),
            "18446744073709551615",
        ),
        (DType::F16, Number::Float(-1.5), "-1.500000"),
        (DType::Bf16, Number::Float(0.25), "0.250000"),
        (DType::F32, Number::Float(f64::NEG_INFINITY), "-inf"),
        (DType::F64, Number::Float(1e6 + 0.5), "1000000.500000"),
        (DType::E4m3, Number::Float(448.0), "448.000000"),
        (DType::E5m2, Number::Float(-0.5), "-0.500000"),
    ];
    for (dtype, number, wanted) in cases {
        let text = scalar(dtype, "  print [%v] {prefix=\"v\"}");
        let (output, done) = printed(&text, &[&bytes(&[encode(number, dtype)], dtype)]);
        done.unwrap();
        assert_eq!(
            output,
            format!("pid (0, 0, 0) idx () v: {wanted}\n"),
            "{dtype}"
        );
    }
}

#[test]
fn a_prefix_is_text_and_no_format() {
    let text = scalar(DType::I32, "  print [%v] {prefix=\"100% of %d: \"}");
    let (output, done) = printed(&text, &[&bytes(&[3], DType::I32)]);
    done.unwrap();
    assert_eq!(output, "pid (0, 0, 0) idx () 100% of %d: 3\n");
    let text = scalar(DType::I32, "  print [] {prefix=\"here\"}");
    let (output, _) = printed(&text, &[&bytes(&[3], DType::I32)]);
    assert_eq!(output, "pid (0, 0, 0) idx () here\n");
}

/// The lines in the order of their text; threads print in any order.
fn sorted(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_tensor_prints_each_element_once_with_its_coordinates() {
    // Eight elements for 128 threads: the copies in other threads are silent.
    let text = "
#b = Blocked([1, 2], [1, 32], [4, 1], [1, 0])
#r = Slice(1, Blocked([1, 2], [1, 32], [4, 1], [1, 0]))
#c = Slice(0, Blocked([1, 2], [1, 32], [4, 1], [1, 0]))
kernel @k(%p: ptr<i32>, %out: ptr<i32>) warps(4) {
  %ri = arange {start=0, end=2} : tensor<2xi32, #r>
  %ci = arange {start=0, end=4} : tensor<4xi32, #c>
  %r1 = expand_dims %ri {axis=1} : tensor<2x1xi32, #b>
  %c1 = expand_dims %ci {axis=0} : tensor<1x4xi32, #b>
  %r2 = broadcast %r1 : tensor<2x4xi32, #b>
  %c2 = broadcast %c1 : tensor<2x4xi32, #b>
  %ten = constant {value=10} : tensor<2x4xi32, #b>
  %tens = binary %r2, %ten {op=mul} : tensor<2x4xi32, #b>
  %v = binary %tens, %c2 {op=add} : tensor<2x4xi32, #b>
  %f = cast %ri : tensor<2xf16, #r>
  %n = load %p : i32
  print [%v, %f, %n] {prefix=\"x:\"}
  return
}
";
    let (output, done) = printed(text, &[&bytes(&[42], DType::I32)]);
    done.unwrap();
    let element =
        |r: u32, c: u32| format!("pid (0, 0, 0) idx ({r}, {c}) x: (operand 0) {}", 10 * r + c);
    let mut wanted: Vec<String> = (0..8).map(|at| element(at / 4, at % 4)).collect();
    wanted.push("pid (0, 0, 0) idx (0) x: (operand 1) 0.000000".into());
    wanted.push("pid (0, 0, 0) idx (1) x: (operand 1) 1.000000".into());
    wanted.push("pid (0, 0, 0) idx () x: (operand 2) 42".into());
    wanted.sort_unstable();
    assert_eq!(sorted(&output), wanted);
}

#[test]
fn a_print_in_a_branch_is_printed_where_the_branch_is_taken() {
    let text = scalar(
        DType::I32,
        "  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %some = compare %v, %zero {op=gt} : i1
  if %some () {
    for %zero, %v, %one, [] (%i: i32) {
      print [%i] {prefix=\"i\"}
      yield []
    }
    yield []
  } () {
    print [%v] {prefix=\"none\"}
    yield []
  }",
    );
    let run = |v: u64| printed(&text, &[&bytes(&[v], DType::I32)]).0;
    let line = |text: &str| format!("pid (0, 0, 0) idx () {text}\n");
    assert_eq!(run(2), line("i: 0") + &line("i: 1"));
    assert_eq!(run(0), line("none: 0"));
}

#[test]
fn an_assertion_that_holds_is_silent_and_one_that_does_not_names_its_line() {
    let text = "
#b = Blocked([2], [32], [4], [0])
kernel @k(%p: ptr<i32>, %out: ptr<i32>) warps(4) {
  %n = load %p : i32
  %ns = splat %n : tensor<256xi32, #b>
  %i = arange {start=0, end=256} : tensor<256xi32, #b>
  %less = compare %i, %ns {op=lt} : tensor<256xi1, #b>
  assert %less {message=\"all of 100% are below n\"}
  store %out, %n
  return
}
";
    let run = |n: u64| printed(text, &[&bytes(&[n], DType::I32)]);
    let (output, done) = run(256);
    assert_eq!((output.as_str(), done.is_ok()), ("", true));
    let (output, done) = run(255);
    let fault = done.expect_err("element 255 is not below 255");
    assert_eq!(fault.kind, FaultKind::Trap);
    let said = "assertion failed: all of 100% are below n";
    assert_eq!(fault.message, said);
    let place = fault.place.as_ref().map(|p| (p.file.clone(), p.line));
    assert_eq!(place, Some(("test.tile".to_owned(), 8)));
    assert_eq!(output, format!("test.tile:8:3: {said}\n"));
}
