mod rematerialize;

use crate::test::{apply, check, check_error};

const VECTOR_ADD: &str = "
    kernel @add(%x: ptr<f32> {divisor=16}, %y: ptr<f32> {divisor=16}, %n: i32) warps(4) {
      %pid = program_id {axis=x} : i32
      %b = constant {value=1024} : i32
      %start = binary %pid, %b {op=mul} : i32
      %r = arange {start=0, end=1024} : tensor<1024xi32, coalesced>
      %s = splat %start : tensor<1024xi32, coalesced>
      %i = binary %s, %r {op=add} : tensor<1024xi32, coalesced>
      %ns = splat %n : tensor<1024xi32, coalesced>
      %mask = compare %i, %ns {op=lt} : tensor<1024xi1, coalesced>
      %xs = splat %x : tensor<1024xptr<f32>, coalesced>
      %xp = ptr_add %xs, %i : tensor<1024xptr<f32>, coalesced>
      %v = load %xp, mask=%mask : tensor<1024xf32, coalesced>
      %ys = splat %y : tensor<1024xptr<f32>, coalesced>
      %yp = ptr_add %ys, %i : tensor<1024xptr<f32>, coalesced>
      store %yp, %v, mask=%mask
      return
    }";

#[test]
fn coalesced_takes_sixteen_bytes_in_each_thread() {
    let expected = VECTOR_ADD.replace("coalesced", "#blocked");
    check(
        "resolve-coalesced",
        VECTOR_ADD,
        &format!(
            "    #blocked = Blocked([4], [32], [4], [0])\n{}",
            &expected[1..]
        ),
    );
}

#[test]
fn coalesced_follows_what_divides_the_pointers_and_how_many_threads_there_are() {
    let layout_of = |text: &str| {
        let (func, found) = apply("resolve-coalesced", text);
        assert!(found.is_empty(), "{found}");
        ir::text::print(&func)
            .lines()
            .next()
            .unwrap_or("")
            .to_owned()
    };
    // Eight bytes are sure of both: two elements.
    let eight = VECTOR_ADD.replace("divisor=16", "divisor=8");
    assert_eq!(layout_of(&eight), "#blocked = Blocked([2], [32], [4], [0])");
    // More threads than a quarter of the elements: fewer elements for each.
    let many = VECTOR_ADD.replace("warps(4)", "warps(16)");
    assert_eq!(layout_of(&many), "#blocked = Blocked([2], [32], [16], [0])");
    let half = VECTOR_ADD.replace("f32", "f16");
    assert_eq!(layout_of(&half), "#blocked = Blocked([8], [32], [4], [0])");
}

#[test]
fn coalesced_accesses_that_disagree_are_both_named() {
    // The store is sure of four bytes only, so it wants one element where the load wants four.
    let text = VECTOR_ADD.replace("%y: ptr<f32> {divisor=16}", "%y: ptr<f32> {divisor=4}");
    check_error(
        "resolve-coalesced",
        &text,
        "
        error[TK0004]: two layouts reach `v`, a 1024xf32 tensor: Blocked([1], [32], [4], [0]) and Blocked([4], [32], [4], [0])
          --> test.tile:12:3
              it can have only one of them
          ::: test.tile:15:3: this `store` chooses Blocked([1], [32], [4], [0])
          ::: test.tile:12:3: this `load` chooses Blocked([4], [32], [4], [0])
          = help: write `.convert_layout(Coalesced)` between the two, or compute the value once for each",
    );
}

#[test]
fn coalesced_without_an_access_is_undecided() {
    check_error(
        "resolve-coalesced",
        "
        kernel @k() warps(4) {
          %r = arange {start=0, end=64} : tensor<64xi32, coalesced>
          %t = binary %r, %r {op=add} : tensor<64xi32, coalesced>
          return
        }",
        "
        error[TK0003]: no load or store chooses a layout for `r`, a 64xi32 tensor
          --> test.tile:2:3
              made here, and no operation on it has a layout
          = help: give it a layout, `Blocked::new([1], [32], [4], [0])`, say, or `Auto` if another operand determines it: `Coalesced` is resolved by loads and stores of global memory",
    );
}

#[test]
fn coalesced_orders_dimensions_by_contiguity() {
    check(
        "resolve-coalesced",
        "
        kernel @k(%x: ptr<f32> {divisor=16}, %stride: i32 {divisor=16}) warps(4) {
          %r = arange {start=0, end=64} : tensor<64xi32, coalesced>
          %r2 = expand_dims %r {axis=0} : tensor<1x64xi32, coalesced>
          %c = arange {start=0, end=32} : tensor<32xi32, coalesced>
          %c2 = expand_dims %c {axis=1} : tensor<32x1xi32, coalesced>
          %s = splat %stride : tensor<32x1xi32, coalesced>
          %o = binary %c2, %s {op=mul} : tensor<32x1xi32, coalesced>
          %rb = broadcast %r2 : tensor<32x64xi32, coalesced>
          %ob = broadcast %o : tensor<32x64xi32, coalesced>
          %i = binary %rb, %ob {op=add} : tensor<32x64xi32, coalesced>
          %xs = splat %x : tensor<32x64xptr<f32>, coalesced>
          %p = ptr_add %xs, %i : tensor<32x64xptr<f32>, coalesced>
          %v = load %p : tensor<32x64xf32, coalesced>
          store %p, %v
          return
        }",
        "
        #slice = Slice(0, Blocked([1, 4], [2, 16], [4, 1], [1, 0]))
        #blocked = Blocked([1, 4], [2, 16], [4, 1], [1, 0])
        #slice1 = Slice(1, Blocked([1, 4], [2, 16], [4, 1], [1, 0]))
        kernel @k(%x: ptr<f32> {divisor=16}, %stride: i32 {divisor=16}) warps(4) {
          %r = arange {start=0, end=64} : tensor<64xi32, #slice>
          %r2 = expand_dims %r {axis=0} : tensor<1x64xi32, #blocked>
          %c = arange {start=0, end=32} : tensor<32xi32, #slice1>
          %c2 = expand_dims %c {axis=1} : tensor<32x1xi32, #blocked>
          %s = splat %stride : tensor<32x1xi32, #blocked>
          %o = binary %c2, %s {op=mul} : tensor<32x1xi32, #blocked>
          %rb = broadcast %r2 : tensor<32x64xi32, #blocked>
          %ob = broadcast %o : tensor<32x64xi32, #blocked>
          %i = binary %rb, %ob {op=add} : tensor<32x64xi32, #blocked>
          %xs = splat %x : tensor<32x64xptr<f32>, #blocked>
          %p = ptr_add %xs, %i : tensor<32x64xptr<f32>, #blocked>
          %v = load %p : tensor<32x64xf32, #blocked>
          store %p, %v
          return
        }",
    );
}

#[test]
fn auto_travels_backward_forward_and_round_loops() {
    check(
        "resolve-auto",
        "
        #b = Blocked([2], [32], [4], [0])
        kernel @k(%x: ptr<f32>, %n: i32) warps(4) {
          %0 = constant {value=0} : i32
          %1 = constant {value=1} : i32
          %init = constant {value=0.0} : tensor<256xf32, auto>
          %sum = for %0, %n, %1, [%init] (%k: i32, %acc: tensor<256xf32, auto>) {
            %one = constant {value=1.0} : tensor<256xf32, auto>
            %next = binary %acc, %one {op=add} : tensor<256xf32, auto>
            yield [%next]
          } : tensor<256xf32, auto>
          %twice = binary %sum, %sum {op=add} : tensor<256xf32, auto>
          %fixed = set_layout %twice : tensor<256xf32, #b>
          %r = arange {start=0, end=256} : tensor<256xi32, #b>
          %xs = splat %x : tensor<256xptr<f32>, #b>
          %p = ptr_add %xs, %r : tensor<256xptr<f32>, #b>
          store %p, %fixed
          return
        }",
        "
        #blocked = Blocked([2], [32], [4], [0])
        kernel @k(%x: ptr<f32>, %n: i32) warps(4) stage(resolved) {
          %0 = constant {value=0} : i32
          %1 = constant {value=1} : i32
          %init = constant {value=0.0} : tensor<256xf32, #blocked>
          %sum = for %0, %n, %1, [%init] (%k: i32, %acc: tensor<256xf32, #blocked>) {
            %one = constant {value=1.0} : tensor<256xf32, #blocked>
            %next = binary %acc, %one {op=add} : tensor<256xf32, #blocked>
            yield [%next]
          } : tensor<256xf32, #blocked>
          %twice = binary %sum, %sum {op=add} : tensor<256xf32, #blocked>
          %r = arange {start=0, end=256} : tensor<256xi32, #blocked>
          %xs = splat %x : tensor<256xptr<f32>, #blocked>
          %p = ptr_add %xs, %r : tensor<256xptr<f32>, #blocked>
          store %p, %twice
          return
        }",
    );
}

#[test]
fn auto_goes_through_while_if_reduce_and_expand_dims() {
    check(
        "resolve-auto",
        "
        #p = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        kernel @k(%x: ptr<f32>, %c: i1) warps(4) {
          %a = constant {value=0.0} : tensor<64x32xf32, auto>
          %w = while [%a] (%p: tensor<64x32xf32, auto>) {
            condition %c, [%p]
          } (%q: tensor<64x32xf32, auto>) {
            %m = reduce [%q] {axis=1} (%l: f32, %r: f32) {
              %max = binary %l, %r {op=max} : f32
              yield [%max]
            } : tensor<64xf32, auto>
            %e = expand_dims %m {axis=1} : tensor<64x1xf32, auto>
            %b = broadcast %e : tensor<64x32xf32, auto>
            yield [%b]
          } : tensor<64x32xf32, auto>
          %s = if %c () {
            yield [%w]
          } () {
            %z = constant {value=1.0} : tensor<64x32xf32, auto>
            yield [%z]
          } : tensor<64x32xf32, auto>
          %fixed = set_layout %s : tensor<64x32xf32, #p>
          print [%fixed] {prefix=\"s\"}
          return
        }",
        "
        #blocked = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        #slice = Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
        kernel @k(%x: ptr<f32>, %c: i1) warps(4) stage(resolved) {
          %a = constant {value=0.0} : tensor<64x32xf32, #blocked>
          %w = while [%a] (%p: tensor<64x32xf32, #blocked>) {
            condition %c, [%p]
          } (%q: tensor<64x32xf32, #blocked>) {
            %m = reduce [%q] {axis=1} (%l: f32, %r: f32) {
              %max = binary %l, %r {op=max} : f32
              yield [%max]
            } : tensor<64xf32, #slice>
            %e = expand_dims %m {axis=1} : tensor<64x1xf32, #blocked>
            %b = broadcast %e : tensor<64x32xf32, #blocked>
            yield [%b]
          } : tensor<64x32xf32, #blocked>
          %s = if %c () {
            yield [%w]
          } () {
            %z = constant {value=1.0} : tensor<64x32xf32, #blocked>
            yield [%z]
          } : tensor<64x32xf32, #blocked>
          print [%s] {prefix=\"s\"}
          return
        }",
    );
}

#[test]
fn a_layout_that_may_vary_yields_to_one_that_may_not() {
    // The reshape would give its result a layout that follows from the operand's; the result has a seed of its own.
    let text = "
        #a = Blocked([4], [32], [4], [0])
        #b = Blocked([1, 4], [8, 4], [4, 1], [1, 0])
        kernel @k() warps(4) {
          %r = arange {start=0, end=512} : tensor<512xi32, auto>
          %m = reshape %r : tensor<32x16xi32, auto>
          %one = set_layout %r : tensor<512xi32, #a>
          %two = set_layout %m : tensor<32x16xi32, #b>
          print [%one, %two] {prefix=\"x\"}
          return
        }";
    let (func, found) = apply("resolve-auto", text);
    assert!(found.is_empty(), "{found}");
    let printed = ir::text::print(&func);
    assert!(
        printed.contains("= Blocked([1, 4], [8, 4], [4, 1], [1, 0])\n"),
        "{printed}"
    );
    // Where no reshape can have both, what is there and what is wanted are named with their origins.
    let text = text.replace(
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
        "Blocked([1, 1], [8, 4], [4, 1], [1, 0])",
    );
    let (_, found) = apply("resolve-auto", &text);
    let found = found.to_string();
    assert!(found.starts_with("error[TK0001]: `reshape` gives tensor<32x16xi32, Blocked([1, 4], [8, 4], [4, 1], [1, 0])>"), "{found}");
    assert!(
        found
            .contains("::: test.tile:6:3: this `set_layout` asks for Blocked([4], [32], [4], [0])"),
        "{found}"
    );
    assert!(
        found.contains(
            "::: test.tile:7:3: this `set_layout` asks for Blocked([1, 1], [8, 4], [4, 1], [1, 0])"
        ),
        "{found}"
    );
}

#[test]
fn auto_conflicts_name_both_origins_and_the_value_between() {
    check_error(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #b = Blocked([1], [32], [4], [0])
        kernel @k(%x: ptr<i32>) warps(4) {
          %i = arange {start=0, end=512} : tensor<512xi32, auto>
          %xs = splat %x : tensor<512xptr<i32>, auto>
          %p = ptr_add %xs, %i : tensor<512xptr<i32>, auto>
          %one = load %p : tensor<512xi32, auto>
          %twice = binary %one, %one {op=add} : tensor<512xi32, auto>
          %neg = unary %one {op=neg} : tensor<512xi32, auto>
          %a = set_layout %twice : tensor<512xi32, #a>
          %b = set_layout %neg : tensor<512xi32, #b>
          print [%a, %b] {prefix=\"x\"}
          return
        }",
        "
        error[TK0004]: two layouts reach `one`, a 512xi32 tensor: Blocked([4], [32], [4], [0]) and Blocked([1], [32], [4], [0])
          --> test.tile:7:3
              it can have only one of them
          ::: test.tile:10:3: this `set_layout` leads to Blocked([4], [32], [4], [0])
          ::: test.tile:11:3: this `set_layout` leads to Blocked([1], [32], [4], [0])
          = note: Blocked([4], [32], [4], [0]) comes from the `set_layout` through `+`
          = note: Blocked([1], [32], [4], [0]) comes from the `set_layout` through `neg`
          = help: write `.convert_layout(Auto)` between the two, or compute the value once for each",
    );
}

#[test]
fn auto_that_nothing_decides_names_the_maker() {
    check_error(
        "resolve-auto",
        "
        kernel @k(%x: ptr<f32>) warps(4) {
          %r = arange {start=0, end=64} : tensor<64xi32, auto>
          %xs = splat %x : tensor<64xptr<f32>, auto>
          %p = ptr_add %xs, %r : tensor<64xptr<f32>, auto>
          %v = load %p : tensor<64xf32, auto>
          store %p, %v
          return
        }",
        "
        error[TK0003]: no operation determines the layout of `r`, a 64xi32 tensor
          --> test.tile:2:3
              made here, and no operation on it has a layout
          = help: give it a layout where it is made, `Blocked::new([1], [32], [4], [0])`, say, or set it with `set_layout`",
    );
}

#[test]
fn auto_that_is_no_slice_cannot_be_expanded() {
    check_error(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        kernel @k() warps(4) {
          %r = arange {start=0, end=512} : tensor<512xi32, auto>
          %x = set_layout %r : tensor<512xi32, #a>
          %e = expand_dims %r {axis=1} : tensor<512x1xi32, auto>
          print [%x, %e] {prefix=\"x\"}
          return
        }",
        "
        error[TK0002]: cannot expand_dims Blocked([4], [32], [4], [0]): it is no slice, and Slice(1, ...) is needed
          --> test.tile:5:3
          ::: test.tile:3:3: this is tensor<512xi32, Blocked([4], [32], [4], [0])>
          ::: test.tile:4:3: this `set_layout` asks for Blocked([4], [32], [4], [0])
          = help: make it with `Slice::new(1, parent)` or `Auto`, or convert what was loaded by `.convert_layout(Auto)`; `reshape` puts a dimension of 1 into any layout",
    );
}

#[test]
fn a_reduction_is_not_any_layout() {
    check_error(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #p = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        kernel @k() warps(4) {
          %m = constant {value=1.0} : tensor<64x32xf32, auto>
          %x = set_layout %m : tensor<64x32xf32, #p>
          %s = reduce [%m] {axis=1} (%l: f32, %r: f32) {
            %max = binary %l, %r {op=max} : f32
            yield [%max]
          } : tensor<64xf32, auto>
          %y = set_layout %s : tensor<64xf32, #a>
          print [%x, %y] {prefix=\"x\"}
          return
        }",
        "
        error[TK0004]: two layouts reach `s`, a 64xf32 tensor: Blocked([4], [32], [4], [0]) and Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
          --> test.tile:6:3
              it can have only one of them
          ::: test.tile:10:3: this `set_layout` asks for Blocked([4], [32], [4], [0])
          ::: test.tile:5:3: this `set_layout` leads to Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
          = note: Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0])) comes from the `set_layout` through `reduce`
          = help: write `.convert_layout(Auto)` between the two, or compute the value once for each",
    );
}
