mod allocations;
mod async_proxy;
mod budgets;
mod clusters;
mod conversions;
mod verify;

use crate::test::{check, check_error};

/// A kernel around `body`; `MAX` stands for a combine region.
fn kernel(head: &str, body: &str) -> String {
    let max = "(%l: f32, %r: f32) {
        %m = binary %l, %r {op=max} : f32
        yield [%m]
      }";
    let lines: Vec<String> = body
        .replace("MAX", max)
        .lines()
        .map(|l| format!("  {}\n", l.trim()))
        .collect();
    // The text reads back whatever its indentation; what the pass leaves is printed with its own.
    let body = lines.concat();
    format!(
        "#blocked = Blocked([4], [32], [4], [0])\nkernel @k(%n: i32, %c: i1) warps(4){head} stage(resolved) {{\n{body}  return\n}}\n"
    )
}

/// What `pass` makes of the lines of `body`, counting only lines that say something of shared memory.
#[track_caller]
fn check_lines(pass: &str, head: &str, body: &str, expected: &[&str]) {
    let (func, found) = crate::test::apply(pass, &kernel(head, body));
    assert!(found.is_empty(), "{found}");
    let text = ir::text::print(&func);
    let words = ["barrier", "reduce", "for", "while", "if", "else"];
    assert_eq!(lines_of(&text, &words), expected, "{text}");
}

/// The lines of a kernel that hold one of the words, each as its op and the bytes planned for it.
fn lines_of(text: &str, words: &[&str]) -> Vec<String> {
    let short = |line: &str| {
        let line = line.split_once(" = ").map_or(line, |(_, op)| op).trim();
        if line.starts_with("} () {") {
            return "else".to_owned();
        }
        let name = line.split([' ', '}']).next().unwrap_or("");
        let planned = ["scratch=", "bytes="]
            .iter()
            .find_map(|field| line.split_once(field));
        let bytes = planned
            .and_then(|(_, rest)| rest.split([',', '}']).next())
            .filter(|b| b.contains(".."));
        format!("{name} {}", bytes.unwrap_or("")).trim().to_owned()
    };
    let body = text.lines().filter(|l| l.starts_with(' ')).map(short);
    body.filter(|l| words.iter().any(|w| l.starts_with(w)))
        .collect()
}

const TWO: &str = "
    %a = constant {value=1.0} : tensor<512xf32, #blocked>
    %x = reduce [%a] {axis=0} MAX : f32
    %y = reduce [%a] {axis=0} MAX : f32";

#[test]
fn scratch_that_is_still_read_is_not_given_away() {
    check_lines("plan-shared", "", TWO, &["reduce 0..16", "reduce 16..32"]);
}

#[test]
fn scratch_is_reused_after_a_barrier() {
    let three = format!("{TWO}\n%z = reduce [%a] {{axis=0}} MAX : f32");
    check_lines(
        "plan-shared",
        "",
        &three,
        &["reduce 0..16", "reduce 16..32", "reduce 0..16"],
    );
    let met = TWO.replace("%y =", "barrier\n%y =");
    check_lines(
        "plan-shared",
        "",
        &met,
        &["reduce 0..16", "barrier", "reduce 0..16"],
    );
}

#[test]
fn an_op_that_stays_within_threads_needs_none() {
    check(
        "plan-shared",
        "
        #a = Blocked([4], [32], [4], [0])
        #b = Linear(register=[[2], [1]], lane=[[4], [8], [16], [32], [64]], warp=[[128], [256]])
        kernel @k() warps(4) stage(resolved) {
          %a = constant {value=1.0} : tensor<512xf32, #a>
          %b = convert_layout %a : tensor<512xf32, #b>
          print [%b] {prefix=\"b\"}
          return
        }",
        "
        #blocked = Blocked([4], [32], [4], [0])
        #linear = Linear(register=[[2], [1]], lane=[[4], [8], [16], [32], [64]], warp=[[128], [256]])
        kernel @k() warps(4) stage(resolved) {
          %a = constant {value=1.0} : tensor<512xf32, #blocked>
          %b = convert_layout %a : tensor<512xf32, #linear>
          print [%b] {prefix=\"b\"}
          return
        }",
    );
}

#[test]
fn large_scratch_is_shared_and_then_costs_a_barrier() {
    // 16384 bytes twice would cost a CTA on the SM, whose threads allow sixteen.
    let text = "
        #blocked = Blocked([1, 4], [8, 4], [4, 1], [1, 0])
        #blocked1 = Blocked([4, 1], [4, 8], [1, 4], [0, 1])
        kernel @k() warps(4) stage(resolved) {
          %a = constant {value=1.0} : tensor<64x64xf32, #blocked>
          %b = convert_layout %a : tensor<64x64xf32, #blocked1>
          %c = convert_layout %b : tensor<64x64xf32, #blocked>
          print [%c] {prefix=\"c\"}
          return
        }";
    let planned = text
        .replace(
            "%b = convert_layout %a",
            "%b = convert_layout %a {scratch=0..16384}",
        )
        .replace(
            "%c = convert_layout %b",
            "%c = convert_layout %b {scratch=0..16384}",
        )
        .replace("warps(4)", "warps(4) shared_bytes(16384)");
    check("plan-shared", text, &planned);
    let with_barrier = planned
        .replace("  %c =", "  barrier\n          %c =")
        .replace("resolved", "allocated");
    check("place-barriers", &planned, &with_barrier);
}

#[test]
fn more_than_there_is_is_reported_with_a_map() {
    check_error(
        "plan-shared",
        "
        #blocked = Blocked([1, 256], [32, 1], [8, 1], [1, 0])
        #blocked1 = Blocked([256, 1], [1, 32], [1, 8], [0, 1])
        kernel @k() warps(8) stage(resolved) {
          %a = constant {value=1.0} : tensor<256x256xf32, #blocked>
          %b = convert_layout %a : tensor<256x256xf32, #blocked1>
          print [%b] {prefix=\"b\"}
          return
        }",
        "
        error[TK0020]: the kernel needs 262144 bytes of shared memory, and a CTA can have 232448
          --> test.tile:5:3
          ::: test.tile:5:3: 262144 bytes at 0 for the scratch of this `convert_layout` of tensor<256x256xf32, Blocked([1, 256], [32, 1], [8, 1], [1, 0])>
          = help: use smaller tiles, fewer stages or narrower elements, or layouts between which less data moves",
    );
}

#[test]
fn ctas_that_must_fit_share_the_bytes() {
    check_error(
        "plan-shared",
        "
        #rows = Swizzled(1, 1, 1, [1, 0])
        kernel @k() warps(4) min_ctas_per_sm(2) stage(resolved) {
          %a = smem_alloc : smem<256x128xf32, #rows>
          smem_keep %a
          return
        }",
        "
        error[TK0020]: the kernel needs 131072 bytes of shared memory, and a CTA can have 115712 where 2 fit an SM
          --> test.tile:3:3
          ::: test.tile:3:3: 131072 bytes at 0 for `a`, smem<256x128xf32, Swizzled(1, 1, 1, [1, 0])>
          = help: use smaller tiles, fewer stages or narrower elements, or layouts between which less data moves",
    );
}

#[test]
fn barriers_on_a_straight_line() {
    let apart = TWO.replacen("axis=0", "axis=0, scratch=0..16", 1).replacen(
        "axis=0}",
        "axis=0, scratch=16..32}",
        1,
    );
    check_lines(
        "place-barriers",
        " shared_bytes(32)",
        &apart,
        &["reduce 0..16", "reduce 16..32"],
    );
    let same = TWO.replace("axis=0", "axis=0, scratch=0..16");
    check_lines(
        "place-barriers",
        " shared_bytes(16)",
        &same,
        &["reduce 0..16", "barrier", "reduce 0..16"],
    );
    let met = same.replace("%y =", "barrier\n%y =");
    check_lines(
        "place-barriers",
        " shared_bytes(16)",
        &met,
        &["reduce 0..16", "barrier", "reduce 0..16"],
    );
    // The meeting inside the second lets the third take the bytes of the first.
    let third = format!("{apart}\n%z = reduce [%a] {{axis=0, scratch=0..16}} MAX : f32");
    check_lines(
        "place-barriers",
        " shared_bytes(32)",
        &third,
        &["reduce 0..16", "reduce 16..32", "reduce 0..16"],
    );
}

#[test]
fn barriers_around_a_loop() {
    let one = "
        %zero = constant {value=0} : i32
        %one = constant {value=1} : i32
        %a = constant {value=1.0} : tensor<512xf32, #blocked>
        for %zero, %n, %one, [] (%i: i32) {
          %x = reduce [%a] {axis=0, scratch=0..16} MAX : f32
          yield []
        }";
    check_lines(
        "place-barriers",
        " shared_bytes(16)",
        one,
        &["for", "barrier", "reduce 0..16"],
    );
    // Two with bytes of their own protect each other round the loop.
    let two = one.replace(
        "yield []",
        "%y = reduce [%a] {axis=0, scratch=16..32} MAX : f32\nyield []",
    );
    check_lines(
        "place-barriers",
        " shared_bytes(32)",
        &two,
        &["for", "reduce 0..16", "reduce 16..32"],
    );
    // A loop may run no iteration at all: what was pending before it still is after it.
    let around = "
        %zero = constant {value=0} : i32
        %one = constant {value=1} : i32
        %a = constant {value=1.0} : tensor<512xf32, #blocked>
        %x = reduce [%a] {axis=0, scratch=0..16} MAX : f32
        for %zero, %n, %one, [] (%i: i32) {
          barrier
          yield []
        }
        %y = reduce [%a] {axis=0, scratch=0..16} MAX : f32";
    check_lines(
        "place-barriers",
        " shared_bytes(16)",
        around,
        &["reduce 0..16", "for", "barrier", "barrier", "reduce 0..16"],
    );
}

#[test]
fn barriers_around_a_while() {
    // The test of a loop runs once more than its body.
    let text = "
        %a = constant {value=1.0} : tensor<512xf32, #blocked>
        while [] () {
          %x = reduce [%a] {axis=0, scratch=0..16} MAX : f32
          condition %c, []
        } () {
          %y = reduce [%a] {axis=0, scratch=16..32} MAX : f32
          yield []
        }
        %z = reduce [%a] {axis=0, scratch=0..16} MAX : f32";
    let expected = [
        "while",
        "reduce 0..16",
        "else",
        "reduce 16..32",
        "barrier",
        "reduce 0..16",
    ];
    check_lines("place-barriers", " shared_bytes(32)", text, &expected);
}

#[test]
fn barriers_in_branches() {
    let text = "
        %a = constant {value=1.0} : tensor<512xf32, #blocked>
        %x = reduce [%a] {axis=0, scratch=0..16} MAX : f32
        if %c () {
          %y = reduce [%a] {axis=0, scratch=0..16} MAX : f32
          yield []
        } () {
          yield []
        }
        %z = reduce [%a] {axis=0, scratch=0..16} MAX : f32";
    let expected = [
        "reduce 0..16",
        "if",
        "barrier",
        "reduce 0..16",
        "else",
        "barrier",
        "reduce 0..16",
    ];
    check_lines("place-barriers", " shared_bytes(16)", text, &expected);
}
