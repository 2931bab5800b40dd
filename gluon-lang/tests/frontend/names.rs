//! Names of kernels and instances, parameters and their promises, and how kernels are found.

use gluon_lang::lang::prelude::*;
use gluon_lang::rt::KernelEntry;

use crate::support::ir;

#[kernel(
    warps = WARPS,
    instances(<f16, 64, 4>, <E4m3, 128, 8>),
    deny(conversions, uncoalesced, bank_conflicts, spills),
    max_registers = 16 * WARPS,
    min_ctas_per_sm = 2
)]
fn promises<T: Element, const COLS: usize, const WARPS: u32>(
    #[align(4)] x: Ptr<T>,
    #[multiple_of(16)] n: i64,
    flag: bool,
    scale: T,
) {
    if flag {
        x.at(n + COLS).store(scale);
    }
}

#[test]
fn the_attribute_reaches_the_kernel() {
    insta::assert_snapshot!(ir(promises::<E4m3, 32, 2>));
}

#[kernel]
fn arrays<const N: usize>(
    #[readonly] xs: [Ptr<f32>; N],
    out: Ptr<f32>,
    #[multiple_of(8)] strides: [i64; 2],
    strides_1: i32,
    none: [bool; 0],
) {
    let [rows, columns] = strides;
    let sum = xs.iter().map(|x| x.at(rows + columns).load());
    let sum = sum.reduce(|sum, x| sum + x).expect("an element");
    out.at(strides_1 + none.len() as i32).store(sum);
}

/// What another parameter is called already has one more `_`.
#[test]
fn elements_of_arrays_are_parameters_each() {
    insta::assert_snapshot!(ir(arrays::<3>));
}

/// Rows in memory.
#[derive(Clone, Copy, Aggregate, KernelParam)]
struct Rows<T, const UNIT: u32> {
    #[readonly]
    first: Ptr<T>,
    #[multiple_of(UNIT)]
    pitch: Scalar<i32>,
}

#[derive(Clone, Copy, Aggregate, KernelParam)]
struct Sides {
    sides: [Rows<f32, 4>; 2],
    factors: [Scalar<f32>; 2],
}

#[kernel]
fn structs<const UNIT: u32>(
    own: Rows<f16, UNIT>,
    both: Sides,
    #[align(4)] out: Ptr<f32>,
    both_factors_1: i32,
) {
    let of = |side: usize| {
        let Rows { first, pitch } = both.sides[side];
        first.at(pitch).load() * both.factors[side]
    };
    let own = own.first.at(own.pitch).load().cast::<f32>();
    out.at(both_factors_1).store(own + of(0) + of(1));
}

#[test]
fn fields_of_structs_are_parameters_each() {
    insta::assert_snapshot!(ir(structs::<8>));
    let mistakes = structs::<12>.trace().unwrap_err().to_string();
    let said = "what every launch promises of `own.pitch` is a power of two, not 12";
    assert!(mistakes.contains(said), "{mistakes}");
}

#[kernel(signature(
    own.first: [rows, cols],
    own.pitch = own.first.stride(0),
    factors.values = [1, cols],
    out: [rows],
))]
fn signed_structs(own: Rows<f32, 4>, factors: Factors, out: Ptr<f32>) {
    let sum = own.first.at(own.pitch).load() * factors.values[0];
    out.at(0).store(sum + factors.values[1]);
}

#[derive(Clone, Copy, Aggregate, KernelParam)]
struct Factors {
    values: [Scalar<f32>; 2],
}

#[test]
fn signatures_name_fields_as_the_kernel_calls_them() {
    let traced = signed_structs.trace().unwrap();
    let params: Vec<_> = traced.func.params.iter().map(|p| &*p.name).collect();
    let wanted = [
        "own_first",
        "own_pitch",
        "factors_values_0",
        "factors_values_1",
        "out",
    ];
    assert_eq!(params, wanted);
    let signature = traced.signature.expect("what the kernel has");
    let tensors: Vec<_> = signature.tensors.iter().map(|(name, _)| *name).collect();
    assert_eq!(tensors, ["own_first", "out"]);
    let scalars = signature.scalars.iter();
    let scalars: Vec<_> = scalars
        .map(|(name, rule)| format!("{name} = {rule}"))
        .collect();
    let wanted = [
        "own_pitch = own_first.stride(0)",
        "factors_values_0 = 1",
        "factors_values_1 = cols",
    ];
    assert_eq!(scalars, wanted);
}

#[kernel(cooperative)]
fn cooperates(out: Ptr<i32>) {
    out.at(0).store(i32::from(is_cooperative()));
}

#[test]
fn a_cooperative_kernel_knows_it() {
    let text = ir(cooperates);
    assert!(text.contains("warps(4) cooperative {"), "{text}");
    assert!(text.contains("{value=1}"), "{text}");
    assert!(!ir(signed::<0, true>).contains("cooperative"));
}

#[kernel]
fn signed<const N: i32, const B: bool>(out: Ptr<i32>) {
    out.at(0).store(N);
}

#[test]
fn an_instance_has_a_symbol_and_a_name_for_people() {
    let traced = signed::<-3, true>.trace().unwrap();
    assert_eq!(&*traced.func.name, "signed_m3_true");
    assert_eq!(&*traced.display, "signed<-3, true>");
    assert_eq!(traced.func.warps, 4);
}

#[test]
fn kernels_are_found_with_their_instances() {
    let found = |name: &str| {
        let mut all = inventory::iter::<KernelEntry>();
        all.find(|k| k.name == name).unwrap()
    };
    let entry = found("promises");
    assert_eq!((entry.module, entry.is_generic), ("frontend::names", true));
    assert!(entry.file.ends_with("names.rs"));
    let arguments: Vec<&str> = entry.instances.iter().map(|i| i.arguments).collect();
    assert_eq!(arguments, ["f16, 64, 4", "E4m3, 128, 8"]);
    let traced = (entry.instances[1].trace)().unwrap();
    assert_eq!(&*traced.display, "promises<E4m3, 128, 8>");
    let params = traced.func.params.iter();
    let params: Vec<(&str, u32)> = params.map(|p| (&*p.name, p.divisor)).collect();
    assert_eq!(params, [("x", 4), ("n", 16), ("flag", 1), ("scale", 1)]);
    // A generic kernel without declared instances has none; one that is not generic has itself.
    assert!(found("signed").instances.is_empty());
    assert!((found("talks").instances[0].trace)().is_ok());
}

#[kernel]
fn talks(out: Ptr<f32>) {
    static_print!("{} bytes", 4 * 32);
    static_assert!(size_of::<f32>() == 4, "floats have {} bytes", 4);
    out.at(0).store(1.0);
}

#[test]
fn static_prints_come_back_with_their_place() {
    let traced = talks.trace().unwrap();
    let [printed] = &traced.printed[..] else {
        panic!("one line was printed");
    };
    assert_eq!(printed.text, "128 bytes");
    assert!(printed.at.file.ends_with("names.rs"));
}

#[kernel]
fn promises_of_its_size<const DIVISOR: u32>(#[multiple_of(DIVISOR)] n: i32, out: Ptr<i32>) {
    out.store(n);
}

#[test]
fn a_promise_may_be_a_constant_of_the_kernel() {
    let traced = promises_of_its_size::<8>.trace().unwrap();
    assert_eq!(traced.func.params[0].divisor, 8);
    let mistakes = promises_of_its_size::<12>.trace().unwrap_err();
    let text = mistakes.to_string();
    assert!(text.contains("is a power of two, not 12"), "{text}");
}
