//! The text form reads back, and says where it does not.

use ir::text::{parse, print};
use ir::verify::verify;
use ir::{Func, Stage};

const KERNEL: &str = "\
#blocked = Blocked([4], [32], [4], [0])
kernel @scale(%x: ptr<f32> {divisor=16}, %n: i32) warps(4) stage(resolved) {
  %0 = constant {value=0} : i32
  %1 = constant {value=1} : i32
  %i = arange {start=0, end=512} : tensor<512xi32, #blocked>
  %2 = splat %n : tensor<512xi32, #blocked>
  %inside = compare %i, %2 {op=lt} : tensor<512xi1, #blocked>
  %3 = splat %x : tensor<512xptr<f32>, #blocked>
  %4 = ptr_add %3, %i : tensor<512xptr<f32>, #blocked>
  %init = constant {value=-1.5} : tensor<512xf32, #blocked>
  %sum = for %0, %n, %1, [%init] (%k: i32, %acc: tensor<512xf32, #blocked>) {
    %5 = load %4, mask=%inside, other=%acc {cache=cg, policy=evict_first} : tensor<512xf32, #blocked>
    %6 = binary %acc, %5 {op=add} : tensor<512xf32, #blocked>
    yield [%6]
  } : tensor<512xf32, #blocked>
  %total = reduce [%sum] {axis=0} (%a: f32, %b: f32) {
    %7 = binary %a, %b {op=max} : f32
    yield [%7]
  } : f32
  %8 = compare %n, %1 {op=gt} : i32
  return
}
";

#[test]
fn reads_what_it_prints() {
    let text = KERNEL.replace("  %8 = compare %n, %1 {op=gt} : i32\n", "");
    let func = parse("scale.tile", &text).unwrap();
    assert_eq!(print(&func), text);
    assert_eq!(verify(&func, Stage::Resolved).to_string(), "");
}

#[test]
fn a_cooperative_kernel_reads_back() {
    let text = "kernel @k() warps(4) cooperative stage(resolved) {\n  return\n}\n";
    let func = parse("k.tile", text).unwrap();
    assert!(func.is_cooperative);
    assert_eq!(print(&func), text);
}

#[test]
fn memory_of_other_ranks_reads_back() {
    let text = "\
kernel @k(%table: ptr<u64> {divisor=16}, %rank: i32) warps(1) stage(resolved) {
  %all = peer_table %table : ptr<u64>
  %at = ptr_add %all, %rank : ptr<u64>
  %address = load %at : u64
  %peer = peer_ptr %address : ptr<f32>
  %one = constant {value=1.0} : f32
  atomic_store %peer, %one {semantics=release, scope=sys}
  fence_async_global
  return
}
";
    let func = parse("k.tile", text).unwrap();
    assert_eq!(print(&func), text);
    assert_eq!(verify(&func, Stage::Resolved).to_string(), "");
    let wrong = text.replace("peer_ptr %address", "peer_ptr %rank");
    let func = parse("k.tile", &wrong).unwrap();
    let expected = "error[TK0025]: `peer_ptr` makes a pointer of a `u64`\n  --> k.tile:5:3";
    assert_eq!(verify(&func, Stage::Resolved).to_string(), expected);
    let wrong = text.replace("peer_table %table : ptr<u64>", "peer_table %rank : i32");
    let func = parse("k.tile", &wrong).unwrap();
    let found = verify(&func, Stage::Resolved).to_string();
    let expected = "error[TK0025]: `peer_table` takes a pointer to `u64`\n  --> k.tile:2:3";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn polls_read_back() {
    let text = "\
#blocked = Blocked([1], [32], [1], [0])
kernel @k(%flags: ptr<i32>, %limit: i64, %n: i32) warps(1) stage(resolved) {
  %s = splat %flags : tensor<64xptr<i32>, #blocked>
  %i = arange {start=0, end=64} : tensor<64xi32, #blocked>
  %p = ptr_add %s, %i : tensor<64xptr<i32>, #blocked>
  %most = splat %n : tensor<64xi32, #blocked>
  %m = compare %i, %most {op=lt} : tensor<64xi1, #blocked>
  %one = constant {value=1} : i32
  %seen = atomic_poll %p, mask=%m, within=%limit {semantics=acquire, scope=sys} (%x: i32) {
    %done = compare %x, %one {op=ge} : i1
    yield [%done]
  } : tensor<64xi32, #blocked>
  %last = atomic_poll %flags {semantics=relaxed} (%y: i32) {
    %over = compare %y, %one {op=ge} : i1
    yield [%over]
  } : i32
  return
}
";
    let func = parse("k.tile", text).unwrap();
    assert_eq!(print(&func), text);
    assert_eq!(verify(&func, Stage::Resolved).to_string(), "");
    let wrong = text.replace("%limit: i64", "%limit: i32");
    let func = parse("k.tile", &wrong).unwrap();
    let found = verify(&func, Stage::Resolved).to_string();
    let expected = "error[TK0025]: the limit of `atomic_poll` is one `i64`, in nanoseconds";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn verifier_compares_declared_results() {
    let func = parse("scale.tile", KERNEL).unwrap();
    assert_eq!(
        verify(&func, Stage::Resolved).to_string(),
        "error[TK0025]: the results of `compare` are (i1), not (i32)\n  --> scale.tile:20:3"
    );
}

#[track_caller]
fn check_error(from: &str, to: &str, expected: &str) {
    let text = KERNEL.replacen(from, to, 1);
    assert_ne!(text, KERNEL, "the edit must change the text");
    assert_eq!(
        parse("scale.tile", &text)
            .expect_err("the text is wrong")
            .to_string(),
        expected
    );
}

#[test]
fn names_the_place_of_a_mistake() {
    check_error("= splat %n", "= splot %n", "6:8: no op is called `splot`");
    check_error(
        "ptr_add %3, %i",
        "ptr_add %3, %j",
        "9:20: `%j` is not defined here",
    );
    check_error(
        "{op=lt}",
        "{op=less}",
        "7:13: `compare`: attribute `op`: `less` is none of [\"eq\", \"ne\", \"lt\", \"le\", \"gt\", \"ge\"]",
    );
    check_error(
        "compare %i, %2",
        "compare %i",
        "7:13: `compare`: missing operand `rhs`",
    );
    check_error(
        "compare %i, %2",
        "compare %i, %2, %2",
        "7:13: `compare`: too many operands",
    );
    check_error(
        "{axis=0}",
        "{axis=0, axes=1}",
        "16:12: `reduce`: attribute `axes` does not belong to this op",
    );
    check_error("%2 = splat", "%i = splat", "6:3: `%i` is defined twice");
    check_error("warps(4)", "wraps(4)", "2:56: a kernel has no `wraps`");
    check_error(
        "512xi32, #blocked>\n  %2",
        "512xi32, #bloc>\n  %2",
        "5:52: no layout is called `#bloc`",
    );
    check_error("  return\n}\n", "  return\n", "22:1: expected `}`");
    check_error(
        "%init = constant {value=-1.5}",
        "%init = constant {value=x}",
        "10:11: `constant`: attribute `value`: `x` is not a number",
    );
}

#[track_caller]
fn check_help(from: &str, to: &str, expected: &str) {
    let text = KERNEL.replacen(from, to, 1);
    assert_ne!(text, KERNEL, "the edit must change the text");
    let error = parse("scale.tile", &text).expect_err("the text is wrong");
    assert!(error.help.contains(expected), "{error}: {}", error.help);
}

#[test]
fn every_mistake_comes_with_a_help() {
    check_help("= splat %n", "= splot %n", "did you mean `splat`?");
    check_help("= splat %n", "= frobnicate %n", "an instruction is `%sum =");
    check_help("ptr_add %3, %i", "ptr_add %3, %in", "did you mean `%i`?");
    check_help(
        "512xi32, #blocked>\n  %2",
        "512xi32, #bloc>\n  %2",
        "there is `#blocked`",
    );
    check_help(
        "512xi32, #blocked>\n  %2",
        "512xi32, #block>\n  %2",
        "did you mean `#blocked`?",
    );
    check_help("{op=lt}", "{op=less}", "an instruction is `%sum =");
    check_help("warps(4)", "wraps(4)", "stand `warps(4)`");
    check_help("kernel @", "kernal @", "a file has lines of layouts");
    check_help(
        "#blocked = Blocked",
        "#blocked = Bloked",
        "a line of a layout is",
    );
    check_help("%n: i32", "%n; i32", "names begin with `%`");
    check_help("%n: i32", "%n: i33", "a type is an element");
    check_help("%n: i32", "n: i32", "a parameter is `%x");
}

#[test]
fn verifier_sees_scopes_terminators_and_stages() {
    #[track_caller]
    fn check(from: &str, to: &str, expected: &str) {
        let text = KERNEL
            .replace("  %8 = compare %n, %1 {op=gt} : i32\n", "")
            .replacen(from, to, 1);
        let func = parse("scale.tile", &text).unwrap();
        let found = verify(&func, Stage::Resolved).to_string();
        assert!(found.contains(expected), "{found}");
    }
    check(
        "    yield [%6]\n",
        "",
        "a region must end in `yield`, not `binary`",
    );
    check(
        "tensor<512xf32, #blocked>\n    yield [%6]",
        "tensor<512xf32, #blocked>\n    yield [%6, %6]",
        "a region of `for` yields 2 values, not 1",
    );
    check(
        "%0 = constant {value=0} : i32",
        "%0 = constant {value=0} : i64",
        "the bounds of a loop are scalars of one integer type",
    );
    check(
        "{axis=0}",
        "{axis=1}",
        "error[TK0010]: a reduction over dimension 1 of a tensor of rank 1",
    );
    check(
        "warps(4)",
        "warps(8)",
        "error[TK0022]: the layout of tensor<512xi32",
    );
}

#[test]
fn the_text_names_a_target_that_is_not_the_default() {
    let mut func = parse("scale.tile", KERNEL).unwrap();
    assert!(!print(&func).contains("target("));
    let mut target = Func::DEFAULT_TARGET.clone();
    target.arch = "sm_other";
    func.target = Box::leak(Box::new(target));
    assert!(print(&func).contains(") warps(4) target(sm_other) stage(resolved) {"));
    let named = KERNEL.replace("warps(4)", "warps(4) target(sm_90a)");
    assert_eq!(parse("scale.tile", &named).unwrap().target.arch, "sm_90a");
    check_error(
        "warps(4)",
        "warps(4) target(sm_other)",
        "2:67: `sm_other` is no target; there is `sm_90a`",
    );
}
