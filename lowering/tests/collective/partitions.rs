//! The same where warps part: before that, when some warps have no tile, and after, when each partition is on its own.

use ir::elem::DType;

use crate::kernel::{from_bytes, run};

/// Sorts numbers, looks them up, counts them, adds the counts up, takes a ticket, and stores `base + 1 + i`: every step
/// hands data between all warps.
fn steps(tag: &str, warps: u32, base: u32, counter: u32) -> String {
    let len = warps * 64;
    let tile = format!("tensor<{len}xi32, #p{warps}>");
    let lines = [
        format!("%i = arange {{start=0, end={len}}} : {tile}"),
        format!("%seven = constant {{value=7}} : {tile}"),
        format!("%last = constant {{value={}}} : {tile}", len - 1),
        format!("%far = binary %i, %seven {{op=mul}} : {tile}"),
        format!("%mixed = binary %far, %last {{op=and}} : {tile}"),
        format!("%sorted = sort [%mixed] {{axis=0, count={len}}} : {tile}"),
        format!("%found = gather %mixed, %sorted {{axis=0}} : {tile}"),
        format!("%counts = histogram %found : {tile}"),
        "%sums = scan [%counts] {axis=0} (%a: i32, %b: i32) {".into(),
        "%c = binary %a, %b {op=add} : i32".into(),
        "yield [%c]".into(),
        format!("}} : {tile}"),
        format!("%which = constant {{value={counter}}} : i32"),
        "%one = constant {value=1} : i32".into(),
        "%ticket = ptr_add %counters, %which : ptr<i32>".into(),
        "%old = atomic_rmw %ticket, %one {op=add} : i32".into(),
        format!("%olds = splat %old : {tile}"),
        format!("%base = constant {{value={base}}} : {tile}"),
        format!("%shifted = binary %sums, %base {{op=add}} : {tile}"),
        format!("%all = binary %shifted, %olds {{op=add}} : {tile}"),
        format!("%at = binary %i, %base {{op=add}} : {tile}"),
        format!("%to = splat %out : tensor<{len}xptr<i32>, #p{warps}>"),
        format!("%place = ptr_add %to, %at : tensor<{len}xptr<i32>, #p{warps}>"),
        "store %place, %all".into(),
    ];
    let own = |line: &String| {
        let tagged = line.replace('%', &format!("%{tag}_"));
        let shared = tagged.replace(&format!("%{tag}_out"), "%out");
        format!(
            "    {}\n",
            shared.replace(&format!("%{tag}_counters"), "%counters")
        )
    };
    lines.iter().map(own).collect()
}

/// Steps of one partition: what values are named with, warps, the first place of `%out`, the counter of the ticket.
pub(crate) type Steps = fn(tag: &str, warps: u32, base: u32, counter: u32) -> String;

/// Partitions of so many warps, each after the steps of all warps of the first: places of `%out` hold `first`, `first + 1`, .., and
/// each counter was drawn from once.
#[track_caller]
pub(crate) fn check_partitions(
    warps: &[u32],
    layouts: impl Fn(u32) -> String,
    steps: Steps,
    first: u64,
) {
    let mut sizes = warps.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    let mut text: String = sizes.into_iter().map(layouts).collect();
    text += &format!(
        "kernel @k(%counters: ptr<i32> {{divisor=16}}, %out: ptr<i32> {{divisor=16}}) warps({}) {{\n",
        warps[0]
    );
    text += &steps("before", warps[0], 0, 0);
    let registers = vec![0; warps.len()];
    text += &format!("  warp_specialize {{warps={warps:?}, registers={registers:?}}} ");
    let mut base = warps[0] * 64;
    for (at, &warps) in warps.iter().enumerate() {
        let body = steps(&format!("t{at}"), warps, base, at as u32 + 1);
        text += &format!("() {{\n{body}    yield []\n  }} ");
        base += warps * 64;
    }
    text += "\n  return\n}\n";
    let found = run(&text, 1, &[vec![0; 64], vec![0; base as usize * 4]]);
    let wanted: Vec<u64> = (first..first + u64::from(base)).collect();
    assert_eq!(from_bytes(&found[1], DType::I32), wanted, "{text}");
    let tickets = from_bytes(&found[0], DType::I32);
    let is_taken = |(at, &n): (usize, &u64)| n == u64::from(at <= warps.len());
    assert!(tickets.iter().enumerate().all(is_taken), "{tickets:?}");
}

#[track_caller]
fn check(warps: &[u32]) {
    let row = |w| format!("#p{w} = Blocked([1], [32], [{w}], [0])\n");
    check_partitions(warps, row, steps, 1);
}

#[test]
fn partitions_work_beside_each_other() {
    check(&[4, 1]);
    check(&[4, 2, 1]);
    check(&[8, 4, 2]);
}
