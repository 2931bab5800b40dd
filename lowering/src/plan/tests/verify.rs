//! Kernels at stage `Allocated` that were edited by hand: what emission relies on is checked for every op with scratch.

use diag::Diagnostics;
use ir::Func;
use ir::entity::Inst;
use ir::ops::Scratch;

use super::kernel;
use crate::plan::verify;
use crate::test::apply;

/// Every op that may have scratch, on `%a`, 512 `f32` that four warps hold, and on what is made of it.
const OPS: &[(&str, &str)] = &[
    (
        "convert_layout",
        "%res = convert_layout %a : tensor<512xf32, #other>",
    ),
    ("reduce", "%res = reduce [%a] {axis=0} MAX : f32"),
    (
        "scan",
        "%res = scan [%a] {axis=0} MAX : tensor<512xf32, #blocked>",
    ),
    (
        "sort",
        "%res = sort [%i] {axis=0, count=512} : tensor<512xi32, #blocked>",
    ),
    // The largest 8, as `top_k` has them.
    (
        "sort",
        "%res = sort [%i] {axis=0, count=8, is_descending=true} : tensor<8xi32, #blocked>",
    ),
    (
        "gather",
        "%res = gather %a, %i {axis=0} : tensor<512xf32, #blocked>",
    ),
    (
        "histogram",
        "%res = histogram %i : tensor<512xi32, #blocked>",
    ),
    ("atomic_rmw", "%res = atomic_rmw %p, %n {op=add} : i32"),
    ("atomic_cas", "%res = atomic_cas %p, %n, %n {} : i32"),
    (
        "atomic_load",
        "%res = atomic_load %p {semantics=acquire} : i32",
    ),
];

/// The kernel around `body` with its shared memory planned.
#[track_caller]
fn allocated(body: &str) -> Func {
    let made = "
        %a = constant {value=1.0} : tensor<512xf32, #blocked>
        %i = arange {start=0, end=512} : tensor<512xi32, #blocked>";
    let text = kernel("", &format!("{made}\n{body}"));
    let text = text.replace(
        "#blocked = ",
        "#other = Blocked([1], [32], [4], [0])\n#plain = Swizzled(1, 1, 1, [0])\n#blocked = ",
    );
    let text = text.replace("(%n: i32", "(%p: ptr<i32>, %n: i32");
    let (planned, found) = apply("plan-shared", &text);
    assert!(found.is_empty(), "{found}");
    let (func, found) = apply("place-barriers", &ir::text::print(&planned));
    assert!(found.is_empty(), "{found}");
    let found = verify::check(&func);
    assert!(found.is_empty(), "{found}\n{}", ir::text::print(&func));
    func
}

/// Uses of a result, so that it is not dead.
fn used(op: &str) -> String {
    format!("{op}\nprint [%res] {{prefix=\"r\"}}")
}

fn with_scratch(func: &Func) -> Vec<(Inst, Scratch)> {
    let insts = func.walk().into_iter();
    let given = |inst: Inst| func.op(inst).rules().scratch().filter(|s| !s.is_none());
    insts
        .filter_map(|inst| Some((inst, given(inst)?)))
        .collect()
}

fn give(func: &mut Func, inst: Inst, scratch: Scratch) -> Diagnostics {
    func.op_mut(inst).rules_mut().set_scratch(scratch);
    verify::check(func)
}

#[track_caller]
fn assert_says(found: &Diagnostics, wanted: &str) {
    let text = found.to_string();
    assert!(
        text.contains("error[TK0025]") && text.contains(wanted),
        "{text}\nnot\n{wanted}"
    );
}

#[test]
fn every_op_with_less_scratch_than_it_needs_is_refused() {
    for (name, op) in OPS {
        let mut func = allocated(&used(op));
        let found = with_scratch(&func);
        let [(inst, given)] = found[..] else {
            panic!("one op with scratch in `{op}`, and not {found:?}")
        };
        let less = Scratch {
            bytes: given.bytes.min(64) / 2,
            ..given
        };
        let found = give(&mut func, inst, less);
        assert_says(&found, &format!("the scratch of `{name}` needs "));
        let found = give(&mut func, inst, Scratch::NONE);
        assert_says(&found, &format!("bytes of shared memory, and has {}", 0));
    }
}

#[test]
fn every_op_whose_scratch_begins_out_of_line_or_ends_beyond_the_kernel_is_refused() {
    for (name, op) in OPS {
        let mut func = allocated(&used(op));
        let (inst, given) = with_scratch(&func)[0];
        let at = |start| Scratch { start, ..given };
        let found = give(&mut func, inst, at(4));
        assert_says(
            &found,
            &format!("the scratch of `{name}` must begin at a multiple of 16 bytes"),
        );
        let found = give(&mut func, inst, at(16));
        assert_says(&found, &format!("the scratch of `{name}` ends at byte "));
    }
}

#[test]
fn every_op_whose_scratch_lies_in_a_tile_that_is_alive_is_refused() {
    for (name, op) in OPS {
        let body = format!(
            "%live = smem_alloc init=%a : smem<512xf32, #plain>
            {}
            %again = smem_load %live : tensor<512xf32, #blocked>
            print [%again] {{prefix=\"again\"}}",
            used(op)
        );
        let mut func = allocated(&body);
        let (inst, given) = with_scratch(&func)[0];
        let tile = func.walk().into_iter();
        let tile = tile.filter_map(|inst| func.op(inst).rules().allocation());
        let start = tile
            .map(|tile| tile.start)
            .next()
            .expect("the tile is planned");
        func.shared_bytes = func.shared_bytes.max(start + given.bytes);
        let found = give(&mut func, inst, Scratch { start, ..given });
        assert_says(&found, "while both are live");
        assert_says(&found, &format!("the scratch of `{name}`"));
    }
}

#[test]
fn every_op_that_takes_scratch_again_without_a_barrier_is_refused() {
    for (name, op) in OPS {
        let again = op.replace("%res =", "%again =");
        let body = format!("{}\n{again}\nprint [%again] {{prefix=\"again\"}}", used(op));
        let mut func = allocated(&body);
        let found = with_scratch(&func);
        let [(_, first), (second, given)] = found[..] else {
            panic!("two ops with scratch, and not {found:?}")
        };
        let at = Scratch {
            start: first.start,
            ..given
        };
        let found = give(&mut func, second, at);
        assert_says(
            &found,
            &format!(
                "`{name}` accesses shared memory while another access to it may be outstanding: a CTA barrier (`barrier`) is missing before it"
            ),
        );
    }
}

#[test]
fn what_is_said_of_too_little_scratch_names_what_is_needed_and_what_there_is() {
    let mut func = allocated(&used(OPS[1].1));
    let (inst, given) = with_scratch(&func)[0];
    let found = give(&mut func, inst, Scratch { bytes: 8, ..given });
    assert_eq!(
        found.to_string().trim(),
        "error[TK0025]: the scratch of `reduce` needs 16 bytes of shared memory, and has 8
  --> test.tile:5:3
  = help: assign other bytes, or start from stage `resolved`, where shared memory is allocated again"
    );
}

/// Each CTA sends its parts to the others by `st.async`, and mbarriers order what is written and read.
#[test]
fn an_exchange_between_ctas_that_mbarriers_order_needs_no_barrier_of_the_cta() {
    let text = "
        #l = Blocked([1], [32], [1], [0], cta=[[1]])
        kernel @k(%out: ptr<i32>) warps(1) cluster(2, 1, 1) stage(resolved) {
          %v = arange {start=0, end=64} : tensor<64xi32, #l>
          %s = reduce [%v] {axis=0} (%a: i32, %b: i32) {
            %c = binary %a, %b {op=add} : i32
            yield [%c]
          } : i32
          store %out, %s
          return
        }";
    let (planned, _) = apply("plan-shared", text);
    let (func, _) = apply("place-barriers", &ir::text::print(&planned));
    assert!(!with_scratch(&func).is_empty());
    assert!(verify::check(&func).is_empty());
}
