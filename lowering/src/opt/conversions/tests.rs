use crate::test::{apply, check, check_error};

const HEAD: &str = "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([1], [32], [4], [0])
        kernel @k(%n: i32) warps(4) stage(resolved) {
          %a = arange {start=0, end=512} : tensor<512xi32, #blocked>
          %b = arange {start=0, end=512} : tensor<512xi32, #blocked1>
          print [%b] {prefix=\"b\"}";

#[track_caller]
fn check_body(body: &str, expected: &str) {
    let kernel = |body: &str| {
        let lines: Vec<String> = body
            .lines()
            .map(|l| format!("\n          {}", l.trim()))
            .collect();
        format!("{HEAD}{}\n          return\n        }}", lines.concat())
    };
    check("remove-conversions", &kernel(body), &kernel(expected));
}

#[test]
fn two_in_a_row_are_one() {
    check_body(
        "%c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %c : tensor<512xi32, #blocked>
            print [%d] {prefix=\"d\"}",
        "%c = convert_layout %a : tensor<512xi32, #blocked1>
            print [%a] {prefix=\"d\"}",
    );
}

#[test]
fn what_is_the_same_everywhere_is_made_where_it_is_wanted() {
    check_body(
        "%z = constant {value=1.0} : tensor<512xf32, #blocked>
            %c = convert_layout %z : tensor<512xf32, #blocked1>
            %s = splat %n : tensor<512xi32, #blocked>
            %d = convert_layout %s : tensor<512xi32, #blocked1>
            print [%c, %d] {prefix=\"c\"}",
        "%z = constant {value=1.0} : tensor<512xf32, #blocked>
            %c = constant {value=1.0} : tensor<512xf32, #blocked1>
            %s = splat %n : tensor<512xi32, #blocked>
            %d = splat %n : tensor<512xi32, #blocked1>
            print [%c, %d] {prefix=\"c\"}",
    );
}

#[test]
fn two_side_by_side_sink() {
    check_body(
        "%t = unary %a {op=neg} : tensor<512xi32, #blocked>
            %c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %t : tensor<512xi32, #blocked1>
            %s = binary %c, %d {op=add} : tensor<512xi32, #blocked1>
            print [%s] {prefix=\"s\"}",
        "%t = unary %a {op=neg} : tensor<512xi32, #blocked>
            %c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %t : tensor<512xi32, #blocked1>
            %0 = binary %a, %t {op=add} : tensor<512xi32, #blocked>
            %s = convert_layout %0 : tensor<512xi32, #blocked1>
            print [%s] {prefix=\"s\"}",
    );
    // Where one is wanted converted anyway, nothing is won.
    let used = "%t = unary %a {op=neg} : tensor<512xi32, #blocked>
            %c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %t : tensor<512xi32, #blocked1>
            %s = binary %c, %d {op=add} : tensor<512xi32, #blocked1>
            print [%s, %d] {prefix=\"s\"}";
    check_body(used, used);
}

#[test]
fn two_before_arithmetic_with_a_direction_of_rounding_sink() {
    check_body(
        "%f = cast %a : tensor<512xf32, #blocked>
            %g = unary %f {op=neg} : tensor<512xf32, #blocked>
            %c = convert_layout %f : tensor<512xf32, #blocked1>
            %d = convert_layout %g : tensor<512xf32, #blocked1>
            %s = rounded [%c, %d] {op=add, direction=rz} : tensor<512xf32, #blocked1>
            print [%s] {prefix=\"s\"}",
        "%f = cast %a : tensor<512xf32, #blocked>
            %g = unary %f {op=neg} : tensor<512xf32, #blocked>
            %c = convert_layout %f : tensor<512xf32, #blocked1>
            %d = convert_layout %g : tensor<512xf32, #blocked1>
            %0 = rounded [%f, %g] {op=add, direction=rz} : tensor<512xf32, #blocked>
            %s = convert_layout %0 : tensor<512xf32, #blocked1>
            print [%s] {prefix=\"s\"}",
    );
}

#[test]
fn a_conversion_rises_above_a_widening_cast() {
    check_body(
        "%w = cast %a : tensor<512xi64, #blocked>
            %c = convert_layout %w : tensor<512xi64, #blocked1>
            print [%c] {prefix=\"c\"}",
        "%w = cast %a : tensor<512xi64, #blocked>
            %0 = convert_layout %a : tensor<512xi32, #blocked1>
            %c = cast %0 : tensor<512xi64, #blocked1>
            print [%c] {prefix=\"c\"}",
    );
    // A narrowing one leaves less to convert.
    let narrow = "%w = cast %a : tensor<512xi16, #blocked>
            %c = convert_layout %w : tensor<512xi16, #blocked1>
            print [%c] {prefix=\"c\"}";
    check_body(narrow, narrow);
}

#[test]
fn one_is_undone_and_another_rises() {
    check_body(
        "%c = convert_layout %a : tensor<512xi32, #blocked>
            %w = cast %c : tensor<512xi64, #blocked>
            %d = convert_layout %w : tensor<512xi64, #blocked1>
            print [%d] {prefix=\"d\"}",
        "%w = cast %a : tensor<512xi64, #blocked>
            %0 = convert_layout %a : tensor<512xi32, #blocked1>
            %d = cast %0 : tensor<512xi64, #blocked1>
            print [%d] {prefix=\"d\"}",
    );
}

#[test]
fn what_must_be_trivial_is_held_to_it() {
    let text = format!(
        "{HEAD}\n          %c = convert_layout %a {{is_trivial=true}} : tensor<512xi32, #blocked1>\n          print [%c] {{prefix=\"c\"}}\n          return\n        }}"
    );
    check_error(
            "remove-conversions",
            &text,
            "
            error[TK0030]: this conversion must be trivial, and it moves data between threads
              --> test.tile:7:3
              = note: from tensor<512xi32, Blocked([4], [32], [4], [0])>
              = note: which is register=[[1], [2]] lane=[[4], [8], [16], [32], [64]] warp=[[128], [256]] block=[] -> dim0 512
              = note: to tensor<512xi32, Blocked([1], [32], [4], [0])>
              = note: which is register=[[128], [256]] lane=[[1], [2], [4], [8], [16]] warp=[[32], [64]] block=[] -> dim0 512
              = note: a warp takes 1 store, 1 load, 8 wavefronts, 1 barrier of the CTA, 2048 bytes of shared memory
              = help: use layouts in which each element has the same owner, or `convert_layout`, which may move data",
        );
    let free = text.replace(
        "Blocked([1], [32], [4], [0])",
        "Linear(register=[[2], [1]], lane=[[4], [8], [16], [32], [64]], warp=[[128], [256]])",
    );
    let (_, found) = apply("remove-conversions", &free);
    assert!(found.is_empty(), "{found}");
}

#[test]
fn a_kernel_may_deny_conversions() {
    let text = format!(
        "{}\n          %c = convert_layout %a : tensor<512xi32, #blocked1>\n          print [%c] {{prefix=\"c\"}}\n          return\n        }}",
        HEAD.replace("warps(4)", "warps(4) deny(conversions)")
    );
    let (_, found) = apply("remove-conversions", &text);
    assert!(
        found.to_string().starts_with(
            "error[TK0030]: this conversion moves data between threads, and the kernel denies"
        ),
        "{found}"
    );
}
