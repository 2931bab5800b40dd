//! Where two layouts of one value are wanted, it is made twice if it is cheap, and reported if it is not.

use crate::test::{apply, check, check_error};

#[test]
fn an_index_and_a_mask_are_made_for_each_access() {
    // The store is sure of four bytes only, so it wants one element where the load wants four.
    check(
        "resolve-coalesced",
        "
        kernel @k(%x: ptr<f32> {divisor=16}, %y: ptr<f32> {divisor=4}, %n: i32) warps(4) {
          %i = arange {start=0, end=1024} : tensor<1024xi32, coalesced>
          %ns = splat %n : tensor<1024xi32, coalesced>
          %mask = compare %i, %ns {op=lt} : tensor<1024xi1, coalesced>
          %xs = splat %x : tensor<1024xptr<f32>, coalesced>
          %xp = ptr_add %xs, %i : tensor<1024xptr<f32>, coalesced>
          %v = load %xp, mask=%mask : tensor<1024xf32, coalesced>
          %w = convert_layout %v : tensor<1024xf32, coalesced>
          %ys = splat %y : tensor<1024xptr<f32>, coalesced>
          %yp = ptr_add %ys, %i : tensor<1024xptr<f32>, coalesced>
          store %yp, %w, mask=%mask
          return
        }",
        "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([1], [32], [4], [0])
        kernel @k(%x: ptr<f32> {divisor=16}, %y: ptr<f32> {divisor=4}, %n: i32) warps(4) {
          %i = arange {start=0, end=1024} : tensor<1024xi32, #blocked>
          %i.1 = arange {start=0, end=1024} : tensor<1024xi32, #blocked1>
          %ns = splat %n : tensor<1024xi32, #blocked>
          %ns.1 = splat %n : tensor<1024xi32, #blocked1>
          %mask = compare %i, %ns {op=lt} : tensor<1024xi1, #blocked>
          %mask.1 = compare %i.1, %ns.1 {op=lt} : tensor<1024xi1, #blocked1>
          %xs = splat %x : tensor<1024xptr<f32>, #blocked>
          %xp = ptr_add %xs, %i : tensor<1024xptr<f32>, #blocked>
          %v = load %xp, mask=%mask : tensor<1024xf32, #blocked>
          %w = convert_layout %v : tensor<1024xf32, #blocked1>
          %ys = splat %y : tensor<1024xptr<f32>, #blocked1>
          %yp = ptr_add %ys, %i.1 : tensor<1024xptr<f32>, #blocked1>
          store %yp, %w, mask=%mask.1
          return
        }",
    );
}

#[test]
fn a_column_is_made_for_the_row_and_for_the_tile() {
    // Two shapes, so two layouts: what the small load reads is converted where it meets the large one.
    check(
        "resolve-coalesced",
        "
        kernel @k(%x: ptr<bf16> {divisor=16}, %bias: ptr<f32> {divisor=16}, %s: i32 {divisor=16}) warps(4) {
          %c = arange {start=0, end=512} : tensor<512xi32, coalesced>
          %col = expand_dims %c {axis=0} : tensor<1x512xi32, coalesced>
          %bs = splat %bias : tensor<1x512xptr<f32>, coalesced>
          %bp = ptr_add %bs, %col : tensor<1x512xptr<f32>, coalesced>
          %b = load %bp : tensor<1x512xf32, coalesced>
          %r = arange {start=0, end=2} : tensor<2xi32, coalesced>
          %row = expand_dims %r {axis=1} : tensor<2x1xi32, coalesced>
          %ss = splat %s : tensor<2x1xi32, coalesced>
          %rs = binary %row, %ss {op=mul} : tensor<2x1xi32, coalesced>
          %rb = broadcast %rs : tensor<2x512xi32, coalesced>
          %cb = broadcast %col : tensor<2x512xi32, coalesced>
          %at = binary %rb, %cb {op=add} : tensor<2x512xi32, coalesced>
          %xs = splat %x : tensor<2x512xptr<bf16>, coalesced>
          %xp = ptr_add %xs, %at : tensor<2x512xptr<bf16>, coalesced>
          %v = load %xp : tensor<2x512xbf16, coalesced>
          %w = cast %v : tensor<2x512xf32, coalesced>
          %bc = convert_layout %b : tensor<1x512xf32, coalesced>
          %bb = broadcast %bc : tensor<2x512xf32, coalesced>
          %sum = binary %w, %bb {op=add} : tensor<2x512xf32, coalesced>
          print [%sum] {prefix=\"sum\"}
          return
        }",
        "
        #slice = Slice(0, Blocked([1, 4], [1, 32], [1, 4], [1, 0]))
        #slice1 = Slice(0, Blocked([1, 8], [1, 32], [2, 2], [1, 0]))
        #blocked = Blocked([1, 4], [1, 32], [1, 4], [1, 0])
        #blocked1 = Blocked([1, 8], [1, 32], [2, 2], [1, 0])
        #slice2 = Slice(1, Blocked([1, 8], [1, 32], [2, 2], [1, 0]))
        kernel @k(%x: ptr<bf16> {divisor=16}, %bias: ptr<f32> {divisor=16}, %s: i32 {divisor=16}) warps(4) {
          %c = arange {start=0, end=512} : tensor<512xi32, #slice>
          %c.1 = arange {start=0, end=512} : tensor<512xi32, #slice1>
          %col = expand_dims %c {axis=0} : tensor<1x512xi32, #blocked>
          %col.1 = expand_dims %c.1 {axis=0} : tensor<1x512xi32, #blocked1>
          %bs = splat %bias : tensor<1x512xptr<f32>, #blocked>
          %bp = ptr_add %bs, %col : tensor<1x512xptr<f32>, #blocked>
          %b = load %bp : tensor<1x512xf32, #blocked>
          %r = arange {start=0, end=2} : tensor<2xi32, #slice2>
          %row = expand_dims %r {axis=1} : tensor<2x1xi32, #blocked1>
          %ss = splat %s : tensor<2x1xi32, #blocked1>
          %rs = binary %row, %ss {op=mul} : tensor<2x1xi32, #blocked1>
          %rb = broadcast %rs : tensor<2x512xi32, #blocked1>
          %cb = broadcast %col.1 : tensor<2x512xi32, #blocked1>
          %at = binary %rb, %cb {op=add} : tensor<2x512xi32, #blocked1>
          %xs = splat %x : tensor<2x512xptr<bf16>, #blocked1>
          %xp = ptr_add %xs, %at : tensor<2x512xptr<bf16>, #blocked1>
          %v = load %xp : tensor<2x512xbf16, #blocked1>
          %w = cast %v : tensor<2x512xf32, #blocked1>
          %bc = convert_layout %b : tensor<1x512xf32, #blocked1>
          %bb = broadcast %bc : tensor<2x512xf32, #blocked1>
          %sum = binary %w, %bb {op=add} : tensor<2x512xf32, #blocked1>
          print [%sum] {prefix=\"sum\"}
          return
        }",
    );
}

#[test]
fn pointers_that_two_loads_share_are_made_twice() {
    // Neither load decides: the contradiction shows at their results, and the pointers between give way.
    check(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #b = Blocked([1], [32], [4], [0])
        kernel @k(%x: ptr<f32>) warps(4) {
          %i = arange {start=0, end=512} : tensor<512xi32, auto>
          %one = constant {value=1} : tensor<512xi32, auto>
          %j = binary %i, %one {op=add} : tensor<512xi32, auto>
          %xs = splat %x : tensor<512xptr<f32>, auto>
          %p = ptr_add %xs, %j : tensor<512xptr<f32>, auto>
          %v = load %p : tensor<512xf32, auto>
          %w = load %p {is_volatile=true} : tensor<512xf32, auto>
          %va = set_layout %v : tensor<512xf32, #a>
          %wb = set_layout %w : tensor<512xf32, #b>
          print [%va, %wb] {prefix=\"x\"}
          return
        }",
        "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([1], [32], [4], [0])
        kernel @k(%x: ptr<f32>) warps(4) stage(resolved) {
          %i = arange {start=0, end=512} : tensor<512xi32, #blocked>
          %i.1 = arange {start=0, end=512} : tensor<512xi32, #blocked1>
          %one = constant {value=1} : tensor<512xi32, #blocked>
          %one.1 = constant {value=1} : tensor<512xi32, #blocked1>
          %j = binary %i, %one {op=add} : tensor<512xi32, #blocked>
          %j.1 = binary %i.1, %one.1 {op=add} : tensor<512xi32, #blocked1>
          %xs = splat %x : tensor<512xptr<f32>, #blocked>
          %xs.1 = splat %x : tensor<512xptr<f32>, #blocked1>
          %p = ptr_add %xs, %j : tensor<512xptr<f32>, #blocked>
          %p.1 = ptr_add %xs.1, %j.1 : tensor<512xptr<f32>, #blocked1>
          %v = load %p : tensor<512xf32, #blocked>
          %w = load %p.1 {is_volatile=true} : tensor<512xf32, #blocked1>
          print [%v, %w] {prefix=\"x\"}
          return
        }",
    );
}

#[test]
fn two_accumulators_start_from_one_constant_in_two_layouts() {
    check(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #b = Blocked([1], [32], [4], [0])
        kernel @k(%n: i32, %x: ptr<f32>) warps(4) {
          %0 = constant {value=0} : i32
          %1 = constant {value=1} : i32
          %z = constant {value=0} : tensor<512xi32, auto>
          %s, %t = for %0, %n, %1, [%z, %z] (%k: i32, %p: tensor<512xi32, auto>, %q: tensor<512xi32, auto>) {
            %i = arange {start=0, end=512} : tensor<512xi32, auto>
            %p1 = binary %p, %i {op=add} : tensor<512xi32, auto>
            %q1 = binary %q, %i {op=sub} : tensor<512xi32, auto>
            yield [%p1, %q1]
          } : tensor<512xi32, auto>, tensor<512xi32, auto>
          %sa = set_layout %s : tensor<512xi32, #a>
          %tb = set_layout %t : tensor<512xi32, #b>
          print [%sa, %tb] {prefix=\"x\"}
          return
        }",
        "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([1], [32], [4], [0])
        kernel @k(%n: i32, %x: ptr<f32>) warps(4) stage(resolved) {
          %0 = constant {value=0} : i32
          %1 = constant {value=1} : i32
          %z = constant {value=0} : tensor<512xi32, #blocked>
          %z.1 = constant {value=0} : tensor<512xi32, #blocked1>
          %s, %t = for %0, %n, %1, [%z, %z.1] (%k: i32, %p: tensor<512xi32, #blocked>, %q: tensor<512xi32, #blocked1>) {
            %i = arange {start=0, end=512} : tensor<512xi32, #blocked>
            %i.1 = arange {start=0, end=512} : tensor<512xi32, #blocked1>
            %p1 = binary %p, %i {op=add} : tensor<512xi32, #blocked>
            %q1 = binary %q, %i.1 {op=sub} : tensor<512xi32, #blocked1>
            yield [%p1, %q1]
          } : tensor<512xi32, #blocked>, tensor<512xi32, #blocked1>
          print [%s, %t] {prefix=\"x\"}
          return
        }",
    );
}

#[test]
fn branches_and_whiles_yield_the_right_copy() {
    // One value comes into two slots of each: only the use in the slot of the other layout is moved.
    check(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #b = Blocked([1], [32], [4], [0])
        kernel @k(%c: i1) warps(4) {
          %i = arange {start=0, end=512} : tensor<512xi32, auto>
          %s, %t = if %c () {
            %two = binary %i, %i {op=add} : tensor<512xi32, auto>
            yield [%i, %two]
          } () {
            yield [%i, %i]
          } : tensor<512xi32, auto>, tensor<512xi32, auto>
          %w, %u = while [%i, %i] (%p: tensor<512xi32, auto>, %q: tensor<512xi32, auto>) {
            condition %c, [%p, %i]
          } (%p.1: tensor<512xi32, auto>, %q.1: tensor<512xi32, auto>) {
            yield [%p.1, %q.1]
          } : tensor<512xi32, auto>, tensor<512xi32, auto>
          %sa = set_layout %s : tensor<512xi32, #a>
          %tb = set_layout %t : tensor<512xi32, #b>
          %wa = set_layout %w : tensor<512xi32, #b>
          %ub = set_layout %u : tensor<512xi32, #a>
          print [%sa, %tb, %wa, %ub] {prefix=\"x\"}
          return
        }",
        "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([1], [32], [4], [0])
        kernel @k(%c: i1) warps(4) stage(resolved) {
          %i = arange {start=0, end=512} : tensor<512xi32, #blocked>
          %i.1 = arange {start=0, end=512} : tensor<512xi32, #blocked1>
          %s, %t = if %c () {
            %two = binary %i.1, %i.1 {op=add} : tensor<512xi32, #blocked1>
            yield [%i, %two]
          } () {
            yield [%i, %i.1]
          } : tensor<512xi32, #blocked>, tensor<512xi32, #blocked1>
          %w, %u = while [%i.1, %i] (%p: tensor<512xi32, #blocked1>, %q: tensor<512xi32, #blocked>) {
            condition %c, [%p, %i]
          } (%p.1: tensor<512xi32, #blocked1>, %q.1: tensor<512xi32, #blocked>) {
            yield [%p.1, %q.1]
          } : tensor<512xi32, #blocked1>, tensor<512xi32, #blocked>
          print [%s, %t, %w, %u] {prefix=\"x\"}
          return
        }",
    );
}

#[test]
fn a_slice_is_made_for_each_dimension_and_for_itself() {
    check(
        "resolve-auto",
        "
        #b = Blocked([2], [32], [4], [0])
        #p = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        kernel @k() warps(4) {
          %i = arange {start=0, end=32} : tensor<32xi32, auto>
          %e = expand_dims %i {axis=0} : tensor<1x32xi32, auto>
          %f = expand_dims %i {axis=1} : tensor<32x1xi32, auto>
          %g = broadcast %e : tensor<32x32xi32, auto>
          %h = broadcast %f : tensor<32x32xi32, auto>
          %s = binary %g, %h {op=add} : tensor<32x32xi32, auto>
          %sp = set_layout %s : tensor<32x32xi32, #p>
          %ib = set_layout %i : tensor<32xi32, #b>
          print [%sp, %ib] {prefix=\"x\"}
          return
        }",
        "
        #blocked = Blocked([2], [32], [4], [0])
        #slice = Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
        #slice1 = Slice(0, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
        #blocked1 = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        kernel @k() warps(4) stage(resolved) {
          %i = arange {start=0, end=32} : tensor<32xi32, #blocked>
          %i.1 = arange {start=0, end=32} : tensor<32xi32, #slice>
          %i.2 = arange {start=0, end=32} : tensor<32xi32, #slice1>
          %e = expand_dims %i.2 {axis=0} : tensor<1x32xi32, #blocked1>
          %f = expand_dims %i.1 {axis=1} : tensor<32x1xi32, #blocked1>
          %g = broadcast %e : tensor<32x32xi32, #blocked1>
          %h = broadcast %f : tensor<32x32xi32, #blocked1>
          %s = binary %g, %h {op=add} : tensor<32x32xi32, #blocked1>
          print [%s, %i] {prefix=\"x\"}
          return
        }",
    );
}

#[test]
fn what_a_load_gives_is_not_made_twice() {
    check_error(
        "resolve-coalesced",
        "
        kernel @k(%x: ptr<i8> {divisor=16}, %y: ptr<f32> {divisor=16}) warps(4) {
          %i = arange {start=0, end=4096} : tensor<4096xi32, coalesced>
          %xs = splat %x : tensor<4096xptr<i8>, coalesced>
          %xp = ptr_add %xs, %i : tensor<4096xptr<i8>, coalesced>
          %v = load %xp : tensor<4096xi8, coalesced>
          %w = cast %v : tensor<4096xf32, coalesced>
          %ys = splat %y : tensor<4096xptr<f32>, coalesced>
          %yp = ptr_add %ys, %i : tensor<4096xptr<f32>, coalesced>
          store %yp, %w
          return
        }",
        "
        error[TK0004]: two layouts reach `v`, a 4096xi8 tensor: Blocked([16], [32], [4], [0]) and Blocked([4], [32], [4], [0])
          --> test.tile:5:3
              it can have only one of them
          ::: test.tile:5:3: this `load` chooses Blocked([16], [32], [4], [0])
          ::: test.tile:9:3: this `store` leads to Blocked([4], [32], [4], [0])
          = note: Blocked([4], [32], [4], [0]) comes from the `store` through `cast`
          = help: write `.convert_layout(Coalesced)` between the two, or compute the value once for each",
    );
}

#[test]
fn what_a_loop_carries_is_not_made_twice() {
    check_error(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #b = Blocked([1], [32], [4], [0])
        kernel @k(%n: i32) warps(4) {
          %0 = constant {value=0} : i32
          %1 = constant {value=1} : i32
          %z = constant {value=0} : tensor<512xi32, auto>
          %s = for %0, %n, %1, [%z] (%k: i32, %p: tensor<512xi32, auto>) {
            %p1 = binary %p, %p {op=add} : tensor<512xi32, auto>
            yield [%p1]
          } : tensor<512xi32, auto>
          %sa = set_layout %s : tensor<512xi32, #a>
          %tb = set_layout %s : tensor<512xi32, #b>
          print [%sa, %tb] {prefix=\"x\"}
          return
        }",
        "
        error[TK0004]: two layouts reach `s`, a 512xi32 tensor: Blocked([4], [32], [4], [0]) and Blocked([1], [32], [4], [0])
          --> test.tile:7:3
              it can have only one of them
          ::: test.tile:11:3: this `set_layout` asks for Blocked([4], [32], [4], [0])
          ::: test.tile:12:3: this `set_layout` asks for Blocked([1], [32], [4], [0])
          = help: write `.convert_layout(Auto)` between the two, or compute the value once for each",
    );
}

#[test]
fn what_a_reduction_gives_is_not_made_twice() {
    check_error(
        "resolve-auto",
        "
        #a = Blocked([4], [32], [4], [0])
        #p = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        kernel @k() warps(4) {
          %i = arange {start=0, end=32} : tensor<32xi32, auto>
          %e = expand_dims %i {axis=0} : tensor<1x32xi32, auto>
          %m = broadcast %e : tensor<64x32xi32, auto>
          %s = reduce [%m] {axis=1} (%l: i32, %r: i32) {
            %max = binary %l, %r {op=max} : i32
            yield [%max]
          } : tensor<64xi32, auto>
          %x = set_layout %m : tensor<64x32xi32, #p>
          %y = set_layout %s : tensor<64xi32, #a>
          print [%x, %y] {prefix=\"x\"}
          return
        }",
        "
        error[TK0004]: two layouts reach `s`, a 64xi32 tensor: Blocked([4], [32], [4], [0]) and Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
          --> test.tile:7:3
              it can have only one of them
          ::: test.tile:12:3: this `set_layout` asks for Blocked([4], [32], [4], [0])
          ::: test.tile:11:3: this `set_layout` leads to Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
          = note: Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0])) comes from the `set_layout` through `reduce`
          = help: write `.convert_layout(Auto)` between the two, or compute the value once for each",
    );
}

#[test]
fn a_chain_of_doublings_is_copied_once() {
    // Each value is used twice by the next: a copy for each way to it would be 2^40 copies.
    let doubling = |at: u32| {
        let before = at - 1;
        format!("%v{at} = binary %v{before}, %v{before} {{op=add}} : tensor<512xi32, auto>\n")
    };
    let doublings = (1..=40).map(doubling).collect::<Vec<_>>().concat();
    let text = format!(
        "
#a = Blocked([4], [32], [4], [0])
#b = Blocked([1], [32], [4], [0])
kernel @k() warps(4) {{
%v0 = constant {{value=1}} : tensor<512xi32, auto>
{doublings}%x = set_layout %v40 : tensor<512xi32, #a>
%y = set_layout %v40 : tensor<512xi32, #b>
print [%x, %y] {{prefix=\"x\"}}
return
}}"
    );
    let (func, found) = apply("resolve-auto", &text);
    assert!(found.is_empty(), "{found}");
    assert_eq!(func.walk().len(), 2 * 41 + 2);
}

#[test]
fn copies_of_two_widths_share_an_index_and_a_mask() {
    // Connected by the index, both loads would take eight elements, and the store of f32 four: there each chooses.
    check(
        "resolve-coalesced",
        "
        kernel @k(%x: ptr<f32> {divisor=16}, %y: ptr<f16> {divisor=16}, %n: i32) warps(4) {
          %i = arange {start=0, end=1024} : tensor<1024xi32, coalesced>
          %ns = splat %n : tensor<1024xi32, coalesced>
          %m = compare %i, %ns {op=lt} : tensor<1024xi1, coalesced>
          %xs = splat %x : tensor<1024xptr<f32>, coalesced>
          %xp = ptr_add %xs, %i : tensor<1024xptr<f32>, coalesced>
          %v = load %xp, mask=%m : tensor<1024xf32, coalesced>
          %ys = splat %y : tensor<1024xptr<f16>, coalesced>
          %yp = ptr_add %ys, %i : tensor<1024xptr<f16>, coalesced>
          %w = load %yp, mask=%m : tensor<1024xf16, coalesced>
          store %xp, %v, mask=%m
          store %yp, %w, mask=%m
          return
        }",
        "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([8], [32], [4], [0])
        kernel @k(%x: ptr<f32> {divisor=16}, %y: ptr<f16> {divisor=16}, %n: i32) warps(4) {
          %i = arange {start=0, end=1024} : tensor<1024xi32, #blocked>
          %i.1 = arange {start=0, end=1024} : tensor<1024xi32, #blocked1>
          %ns = splat %n : tensor<1024xi32, #blocked>
          %ns.1 = splat %n : tensor<1024xi32, #blocked1>
          %m = compare %i, %ns {op=lt} : tensor<1024xi1, #blocked>
          %m.1 = compare %i.1, %ns.1 {op=lt} : tensor<1024xi1, #blocked1>
          %xs = splat %x : tensor<1024xptr<f32>, #blocked>
          %xp = ptr_add %xs, %i : tensor<1024xptr<f32>, #blocked>
          %v = load %xp, mask=%m : tensor<1024xf32, #blocked>
          %ys = splat %y : tensor<1024xptr<f16>, #blocked1>
          %yp = ptr_add %ys, %i.1 : tensor<1024xptr<f16>, #blocked1>
          %w = load %yp, mask=%m.1 : tensor<1024xf16, #blocked1>
          store %xp, %v, mask=%m
          store %yp, %w, mask=%m.1
          return
        }",
    );
}

#[test]
fn loads_of_two_widths_that_share_an_index_agree_where_they_can() {
    // Without the stores nothing contradicts: eight elements for both, as connected accesses have it.
    let (func, found) = apply(
        "resolve-coalesced",
        "
        kernel @k(%x: ptr<f32> {divisor=16}, %y: ptr<f16> {divisor=16}) warps(4) {
          %i = arange {start=0, end=1024} : tensor<1024xi32, coalesced>
          %xs = splat %x : tensor<1024xptr<f32>, coalesced>
          %xp = ptr_add %xs, %i : tensor<1024xptr<f32>, coalesced>
          %v = load %xp : tensor<1024xf32, coalesced>
          %ys = splat %y : tensor<1024xptr<f16>, coalesced>
          %yp = ptr_add %ys, %i : tensor<1024xptr<f16>, coalesced>
          %w = load %yp : tensor<1024xf16, coalesced>
          print [%v, %w] {prefix=\"x\"}
          return
        }",
    );
    assert!(found.is_empty(), "{found}");
    let text = ir::text::print(&func);
    assert!(
        text.contains("#blocked = Blocked([8], [32], [4], [0])\nkernel"),
        "{text}"
    );
}
