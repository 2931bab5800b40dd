//! Loops that carry accumulators in flight: which are unrolled, and how they are entered.

use ir::text::print;

use crate::test::apply;

/// A loop from 0 to `%n` that carries `%a`, which begins with `init`, with this body; then a wait for what it leaves.
fn kernel(init: &str, body: &str) -> String {
    format!(
        "#w = Wgmma([4, 1], [64, 8, 16])
#s = Nvmma(32, 16)
#t = Nvmma(32, 16, transposed=true)
kernel @k(%n: i32) warps(4) stage(resolved) {{
  %zero = constant {{value=0}} : i32
  %one = constant {{value=1}} : i32
  %left = smem_alloc : smem<64x16xbf16, #s>
  %right = smem_alloc : smem<8x16xbf16, #s>
  %turned = smem_permute %right {{order=[1, 0]}} : smem<16x8xbf16, #t>
  %z = constant {{value=0.0}} : tensor<64x8xf32, #w>
{init}  %r = for %zero, %n, %one, [%first] (%i: i32, %a: in_flight<64x8xf32, #w>) {{
{body}  }} : in_flight<64x8xf32, #w>
  %end = wgmma_wait [%r] {{pending=0}} : tensor<64x8xf32, #w>
  print [%end] {{prefix=\"end\"}}
  return
}}
"
    )
}

const BLANK: &str = "  %first = accumulator %z : in_flight<64x8xf32, #w>\n";
const STARTED: &str = "  %before = accumulator %z : in_flight<64x8xf32, #w>
  %first = wgmma %left, %turned, %before {promote_every=0} : in_flight<64x8xf32, #w>
";
const BEGIN: &str = "    %new = accumulator %z : in_flight<64x8xf32, #w>
    %b = wgmma %left, %turned, %new {promote_every=0} : in_flight<64x8xf32, #w>
";
const END_OF_OLD: &str = "    %t = wgmma_wait [%a] {pending=1} : tensor<64x8xf32, #w>
    print [%t] {prefix=\"t\"}
";

/// The ops of the kernel after the pass that are among these, in order, those in regions indented.
#[track_caller]
fn check(init: &str, body: &str, expected: &[&str]) {
    let (func, found) = apply("rotate-accumulators", &kernel(init, body));
    assert!(found.is_empty(), "{found}");
    let text = print(&func);
    let interesting = [
        " for ",
        " wgmma_wait ",
        " wgmma ",
        " accumulator ",
        "yield ",
    ];
    let ops: Vec<String> = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter(|l| interesting.iter().any(|op| l.contains(op)))
        .map(|l| {
            l.split([':', '{'])
                .next()
                .unwrap_or(l)
                .trim_end()
                .to_owned()
        })
        .collect();
    assert_eq!(ops, expected, "{text}");
}

#[test]
fn accumulator_added_to_in_each_iteration_stays() {
    let body = "    %b = wgmma %left, %turned, %a {promote_every=0} : in_flight<64x8xf32, #w>\n    yield [%b]\n";
    check(
        BLANK,
        body,
        &[
            "  %first = accumulator %z",
            "  %r = for %zero, %n, %one, [%first] (%i",
            "    %b = wgmma %left, %turned, %a",
            "    yield [%b]",
            "  %end = wgmma_wait [%r]",
        ],
    );
}

#[test]
fn accumulator_that_ends_before_the_next_begins_is_not_unrolled() {
    let end = END_OF_OLD.replace("pending=1", "pending=0");
    check(
        BLANK,
        &format!("{end}{BEGIN}    yield [%b]\n"),
        &[
            "  %first = accumulator %z",
            "  %r = for %zero, %n, %one, [%first] (%0",
            "    %1 = wgmma_wait [%a]",
            "    %2 = accumulator %1",
            "    %t = wgmma_wait [%2]",
            "    %new = accumulator %z",
            "    %b = wgmma %left, %turned, %new",
            "    yield [%b]",
            "  %end = wgmma_wait [%r]",
        ],
    );
}

#[test]
fn product_in_flight_before_the_loop_ends_there() {
    let end = END_OF_OLD.replace("pending=1", "pending=0");
    check(
        STARTED,
        &format!("{end}{BEGIN}    yield [%b]\n"),
        &[
            "  %before = accumulator %z",
            "  %first = wgmma %left, %turned, %before",
            "  %0 = wgmma_wait [%first]",
            "  %1 = accumulator %0",
            "  %r = for %zero, %n, %one, [%1] (%2",
            "    %3 = wgmma_wait [%a]",
            "    %4 = accumulator %3",
            "    %t = wgmma_wait [%4]",
            "    %new = accumulator %z",
            "    %b = wgmma %left, %turned, %new",
            "    yield [%b]",
            "  %end = wgmma_wait [%r]",
        ],
    );
}

#[test]
fn two_accumulators_in_flight_unroll_the_loop_by_two() {
    check(
        BLANK,
        &format!("{BEGIN}{END_OF_OLD}    yield [%b]\n"),
        &[
            "  %first = accumulator %z",
            "  %6, %7 = for %zero, %3, %5, [%zero, %first] (%8",
            "    %new = accumulator %z",
            "    %10 = wgmma_wait [%a]",
            "    %11 = accumulator %10",
            "    %b = wgmma %left, %turned, %new",
            "    %t = wgmma_wait [%11]",
            "    %new.1 = accumulator %z",
            "    %13 = wgmma_wait [%b]",
            "    %14 = accumulator %13",
            "    %b.1 = wgmma %left, %turned, %new.1",
            "    %t.1 = wgmma_wait [%14]",
            "    yield [%17, %b.1]",
            "  %18 = wgmma_wait [%7]",
            "  %19 = for %6, %n, %one, [%18] (%20",
            "    %21 = accumulator %a.1",
            "    %new.2 = accumulator %z",
            "    %b.2 = wgmma %left, %turned, %new.2",
            "    %t.2 = wgmma_wait [%21]",
            "    %22 = wgmma_wait [%b.2]",
            "    yield [%22]",
            "  %r = accumulator %19",
            "  %end = wgmma_wait [%r]",
        ],
    );
}
