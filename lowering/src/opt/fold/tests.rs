use crate::test::check;

/// The pass turns the lines of `body` into those of `expected`; `%n`, `%f`, `%x` and `%c` are parameters.
#[track_caller]
fn check_body(body: &str, expected: &str) {
    let kernel = |body: &str| {
        let lines: Vec<String> = body
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .map(|l| format!("  {l}\n"))
            .collect();
        let layouts = if body.contains("#blocked") {
            "#blocked = Blocked([4], [32], [4], [0])\n"
        } else {
            ""
        };
        let head = "kernel @k(%n: i32, %f: f32, %x: ptr<f32> {divisor=16}, %c: i1) warps(4) stage(resolved) {";
        format!("{layouts}{head}\n{}  return\n}}\n", lines.concat())
    };
    let (expected, input) = (kernel(expected), kernel(body));
    // Indentation of regions is the printer's; only the order of lines and words counts here.
    let (func, found) = crate::test::apply("fold", &input);
    assert!(found.is_empty(), "{found}");
    let words = |text: &str| {
        text.lines()
            .map(|l| l.trim().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let text = ir::text::print(&func);
    assert_eq!(words(&text), words(&expected), "{text}");
}

#[test]
fn integers_are_computed() {
    check_body(
        "%a = constant {value=6} : i32
        %b = constant {value=7} : i32
        %p = binary %a, %b {op=mul} : i32
        %l = compare %p, %a {op=gt} : i1
        assume %c
        print [%p, %l] {prefix=\"p\"}",
        "%a = constant {value=6} : i32
        %b = constant {value=7} : i32
        %p = constant {value=42} : i32
        %l = constant {value=1} : i1
        assume %c
        print [%p, %l] {prefix=\"p\"}",
    );
}

#[test]
fn promises_stay_and_decide_the_rest() {
    check_body(
        "%zero = constant {value=0} : i32
        %eight = constant {value=8} : i32
        %some = compare %n, %zero {op=gt} : i1
        %rest = binary %n, %eight {op=rem} : i32
        %whole = compare %rest, %zero {op=eq} : i1
        %both = binary %some, %whole {op=and} : i1
        assume %both
        %always = compare %eight, %zero {op=gt} : i1
        assume %always
        %few = compare %n, %zero {op=le} : i1
        print [%few] {prefix=\"p\"}",
        "%zero = constant {value=0} : i32
        %eight = constant {value=8} : i32
        %some = compare %n, %zero {op=gt} : i1
        %rest = binary %n, %eight {op=rem} : i32
        %whole = compare %rest, %zero {op=eq} : i1
        %both = binary %some, %whole {op=and} : i1
        assume %both
        %always = constant {value=1} : i1
        %few = constant {value=0} : i1
        print [%few] {prefix=\"p\"}",
    );
}

#[test]
fn identities_leave_the_operand() {
    check_body(
        "%zero = constant {value=0} : i32
        %one = constant {value=1} : i32
        %a = binary %n, %zero {op=add} : i32
        %b = binary %one, %a {op=mul} : i32
        %d = binary %b, %one {op=div} : i32
        %e = binary %d, %d {op=and} : i32
        %g = unary %e {op=neg} : i32
        %h = unary %g {op=neg} : i32
        %i = cast %h : i64
        %j = cast %i : i64
        %m = binary %n, %n {op=sub} : i32
        %q = binary %n, %zero {op=mul} : i32
        %same = compare %n, %n {op=le} : i1
        print [%j, %m, %q, %same] {prefix=\"p\"}",
        "%zero = constant {value=0} : i32
        %one = constant {value=1} : i32
        %g = unary %n {op=neg} : i32
        %i = cast %n : i64
        %m = constant {value=0} : i32
        %q = constant {value=0} : i32
        %same = constant {value=1} : i1
        print [%i, %m, %q, %same] {prefix=\"p\"}",
    );
}

#[test]
fn floats_only_where_it_is_exact() {
    check_body(
        "%zero = constant {value=0.0} : f32
        %minus = constant {value=-0.0} : f32
        %one = constant {value=1.0} : f32
        %tenth = constant {value=0.1} : f32
        %a = binary %f, %minus {op=add} : f32
        %b = binary %a, %zero {op=sub} : f32
        %d = binary %one, %b {op=mul} : f32
        %kept = binary %d, %zero {op=add} : f32
        %not = compare %f, %f {op=eq} : i1
        %also = binary %f, %zero {op=mul} : f32
        %sum = binary %tenth, %tenth {op=add} : f32
        %half = cast %tenth : f16
        print [%kept, %not, %also, %sum, %half] {prefix=\"p\"}",
        "%zero = constant {value=0.0} : f32
        %minus = constant {value=-0.0} : f32
        %one = constant {value=1.0} : f32
        %tenth = constant {value=0.1} : f32
        %kept = binary %f, %zero {op=add} : f32
        %not = compare %f, %f {op=eq} : i1
        %also = binary %f, %zero {op=mul} : f32
        %sum = constant {value=0.20000000298023224} : f32
        %half = constant {value=0.0999755859375} : f16
        print [%kept, %not, %also, %sum, %half] {prefix=\"p\"}",
    );
}

#[test]
fn constants_are_rounded_once_and_zeros_left_alone() {
    check_body(
        "%above = constant {value=1.0004882812509095} : f64
        %half = cast %above : f16
        %minus = constant {value=-0.0} : f32
        %zero = constant {value=0.0} : f32
        %kept = binary %minus, %zero {op=max} : f32
        print [%half, %kept] {prefix=\"p\"}",
        "%above = constant {value=1.0004882812509095} : f64
        %half = constant {value=1.0009765625} : f16
        %minus = constant {value=-0.0} : f32
        %zero = constant {value=0.0} : f32
        %kept = binary %minus, %zero {op=max} : f32
        print [%half, %kept] {prefix=\"p\"}",
    );
}

#[test]
fn constants_stand_on_the_right() {
    check_body(
        "%two = constant {value=2} : i32
        %a = binary %two, %n {op=add} : i32
        %b = binary %two, %n {op=sub} : i32
        %l = compare %two, %n {op=lt} : i1
        print [%a, %b, %l] {prefix=\"p\"}",
        "%two = constant {value=2} : i32
        %a = binary %n, %two {op=add} : i32
        %b = binary %two, %n {op=sub} : i32
        %l = compare %n, %two {op=gt} : i1
        print [%a, %b, %l] {prefix=\"p\"}",
    );
}

#[test]
fn casts_through_a_wider_type_disappear() {
    check_body(
        "%a = cast %n : i64
        %b = cast %a : i32
        %d = cast %f : f16
        %e = cast %d : f32
        %g = cast %n : u64
        %h = cast %g : i32
        print [%b, %e, %h] {prefix=\"p\"}",
        "%a = cast %n : i64
        %d = cast %f : f16
        %e = cast %d : f32
        %g = cast %n : u64
        %h = cast %g : i32
        print [%n, %e, %h] {prefix=\"p\"}",
    );
}

#[test]
fn constant_masks_are_folded() {
    check_body(
        "%yes = constant {value=1} : i1
        %no = constant {value=0} : i1
        %a = load %x, mask=%yes, other=%f : f32
        %b = load %x, mask=%no, other=%f : f32
        %d = load %x, mask=%c, other=%f : f32
        store %x, %a, mask=%no
        store %x, %b, mask=%yes
        store %x, %d, mask=%c
        assert %yes {message=\"never\"}",
        "%yes = constant {value=1} : i1
        %no = constant {value=0} : i1
        %a = load %x : f32
        %d = load %x, mask=%c, other=%f : f32
        store %x, %f
        store %x, %d, mask=%c",
    );
}

#[test]
fn equal_elements_do_not_move() {
    check(
        "fold",
        "
        #p = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        #q = Blocked([4, 1], [4, 8], [4, 1], [1, 0])
        #rows = Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
        kernel @k(%n: i32) warps(4) stage(resolved) {
          %s = splat %n : tensor<64xi32, #rows>
          %e = expand_dims %s {axis=1} : tensor<64x1xi32, #p>
          %b = broadcast %e : tensor<64x32xi32, #p>
          %v = convert_layout %b : tensor<64x32xi32, #q>
          print [%v] {prefix=\"v\"}
          return
        }",
        "
        #slice = Slice(1, Blocked([1, 4], [4, 8], [4, 1], [1, 0]))
        #blocked = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
        #blocked1 = Blocked([4, 1], [4, 8], [4, 1], [1, 0])
        kernel @k(%n: i32) warps(4) stage(resolved) {
          %s = splat %n : tensor<64xi32, #slice>
          %e = splat %n : tensor<64x1xi32, #blocked>
          %b = splat %n : tensor<64x32xi32, #blocked>
          %v = splat %n : tensor<64x32xi32, #blocked1>
          print [%v] {prefix=\"v\"}
          return
        }",
    );
}

#[test]
fn decided_branches_and_loops_dissolve() {
    check_body(
        "%yes = constant {value=1} : i1
        %zero = constant {value=0} : i32
        %eight = constant {value=8} : i32
        %a = if %yes () {
          %t = binary %n, %eight {op=add} : i32
          yield [%t]
        } () {
          yield [%n]
        } : i32
        %once = for %zero, %eight, %eight, [%a] (%i: i32, %v: i32) {
          %w = binary %v, %i {op=add} : i32
          %z = binary %w, %v {op=mul} : i32
          yield [%z]
        } : i32
        %never = for %eight, %zero, %eight, [%once] (%i.1: i32, %v.1: i32) {
          yield [%i.1]
        } : i32
        %twice = for %zero, %eight, %n, [%never] (%i.2: i32, %v.2: i32) {
          yield [%i.2]
        } : i32
        print [%twice] {prefix=\"p\"}",
        "%yes = constant {value=1} : i1
        %zero = constant {value=0} : i32
        %eight = constant {value=8} : i32
        %t = binary %n, %eight {op=add} : i32
        %z = binary %t, %t {op=mul} : i32
        %twice = for %zero, %eight, %n, [%z] (%i: i32, %v: i32) {
          yield [%i]
        } : i32
        print [%twice] {prefix=\"p\"}",
    );
}

#[test]
fn loops_imply_their_bounds() {
    let around = |body: &str| {
        format!(
            "%zero = constant {{value=0}} : i32
            %step = constant {{value=512}} : i32
            %h = hint %n {{kind=multiple_of, values=[512]}} : i32
            %r = arange {{start=0, end=512}} : tensor<512xi32, #blocked>
            for %zero, %h, %step, [] (%i: i32) {{
              %is = splat %i : tensor<512xi32, #blocked>
              %at = binary %is, %r {{op=add}} : tensor<512xi32, #blocked>
              %hs = splat %h : tensor<512xi32, #blocked>
              {body}
              yield []
            }}"
        )
    };
    check_body(
        &around(
            "%mask = compare %at, %hs {op=lt} : tensor<512xi1, #blocked>\nprint [%mask] {prefix=\"m\"}",
        ),
        &around(
            "%mask = constant {value=1} : tensor<512xi1, #blocked>\nprint [%mask] {prefix=\"m\"}",
        ),
    );
    // With any other end the last step may reach past it.
    let ragged = |body: &str| around(body).replace("values=[512]", "values=[256]");
    let kept =
        "%mask = compare %at, %hs {op=lt} : tensor<512xi1, #blocked>\nprint [%mask] {prefix=\"m\"}";
    check_body(&ragged(kept), &ragged(kept));
    check_body(
        &ragged("%in = compare %i, %h {op=lt} : i1\nprint [%in] {prefix=\"m\"}"),
        &ragged("%in = constant {value=1} : i1\nprint [%in] {prefix=\"m\"}"),
    );
}
