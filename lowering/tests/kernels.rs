//! Whole kernels from tile IR to PTX, executed by the emulator.

use gluon_lang::text::parse;
use lowering::{Options, compile};

const VECTOR_ADD: &str = "\
kernel @vector_add(%x: ptr<f32> {divisor=16}, %y: ptr<f32> {divisor=16}, %out: ptr<f32> {divisor=16}, %n: i32) warps(4) {
  %0 = program_id {axis=x} : i32
  %1 = constant {value=1024} : i32
  %2 = binary %0, %1 {op=mul} : i32
  %3 = arange {start=0, end=1024} : tensor<1024xi32, coalesced>
  %4 = splat %2 : tensor<1024xi32, coalesced>
  %at = binary %4, %3 {op=add} : tensor<1024xi32, coalesced>
  %5 = splat %n : tensor<1024xi32, coalesced>
  %inside = compare %at, %5 {op=lt} : tensor<1024xi1, coalesced>
  %6 = splat %x : tensor<1024xptr<f32>, coalesced>
  %7 = ptr_add %6, %at : tensor<1024xptr<f32>, coalesced>
  %8 = load %7, mask=%inside : tensor<1024xf32, coalesced>
  %9 = splat %y : tensor<1024xptr<f32>, coalesced>
  %10 = ptr_add %9, %at : tensor<1024xptr<f32>, coalesced>
  %11 = load %10, mask=%inside : tensor<1024xf32, coalesced>
  %sum = binary %8, %11 {op=add} : tensor<1024xf32, coalesced>
  %12 = splat %out : tensor<1024xptr<f32>, coalesced>
  %13 = ptr_add %12, %at : tensor<1024xptr<f32>, coalesced>
  store %13, %sum, mask=%inside
  return
}
";

#[test]
fn vector_add_becomes_ptx() {
    let func = parse("vector_add.tile", VECTOR_ADD).unwrap();
    let compiled = compile(func, &Options::default()).unwrap();
    println!(
        "{}",
        compiled.module.print(ptx::PrintOptions {
            locations: false,
            comments: true
        })
    );
}
