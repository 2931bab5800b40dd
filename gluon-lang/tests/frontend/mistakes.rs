//! Kernels that are wrong, and what is said of them: each mistake once, at its place, with a help.

use diag::Code;
use gluon_lang::lang::prelude::*;

use crate::support::mistakes;

fn vector() -> Blocked {
    Blocked::new([1], [32], [1], [0])
}

/// One kernel, its name and what is said of it.
macro_rules! mistake {
    ($test:ident, $kernel:expr) => {
        #[test]
        fn $test() {
            insta::assert_snapshot!(mistakes($kernel));
        }
    };
}

#[kernel(warps = 1)]
fn shapes_differ(out: Ptr<i32>) {
    let a = arange(0..32, vector());
    let b = arange(0..64, vector());
    let c = a + b;
    // All that follows from the mistake is silent.
    out.at(c * 2).store(c.sum(0).scalar() + c);
    for i in range(0, c.sum(0).scalar()) {
        out.at(i + a).store(c);
    }
}
mistake!(shapes_that_differ, shapes_differ);

#[kernel(warps = 1)]
fn shape_of_mistake(out: Ptr<i32>) {
    let rows = Smem::<i32>::alloc([2, 32], Swizzled::new(1, 1, 2, [1, 0]));
    let row = rows.index(1);
    // What the shape decides is not known.
    let len: u32 = row.shape().iter().product();
    let half = arange(0..len / row.shape()[0], vector()).reshape(row.shape());
    out.at(half).store(row.load(vector()));
}
mistake!(the_shape_of_a_mistake, shape_of_mistake);

#[kernel(warps = 1)]
fn layouts_differ(out: Ptr<i32>) {
    let a = arange(0..64, vector());
    let b = arange(0..64, Blocked::new([2], [32], [1], [0]));
    out.at(a).mask(a < b).store(a);
}
mistake!(layouts_that_differ, layouts_differ);

#[kernel(warps = 1)]
fn ranks_differ(out: Ptr<i32>) {
    let a = arange(0..64, Auto);
    let b = zeros::<i32>([64, 64], Auto);
    out.at(select(a > b, a, b)).store(0);
}
mistake!(ranks_that_differ, ranks_differ);

#[kernel(warps = 1)]
fn no_power_of_two(out: Ptr<i32>) {
    let a = arange(0..100, Coalesced);
    out.at(a).store(a + 1);
}
mistake!(sizes_that_are_no_powers_of_two, no_power_of_two);

#[kernel(warps = 8)]
fn warps_differ(out: Ptr<i32>) {
    let a = arange(0..64, vector());
    out.at(a).store(a);
}
mistake!(layouts_for_other_warps, warps_differ);

#[kernel(warps = 1)]
fn carried_type(x: Ptr<f32>, n: i32) {
    let mut acc = zeros::<f32>([32], vector());
    for _ in range(0, n) {
        acc = acc.convert_layout(Blocked::new([2], [32], [1], [0]));
    }
    x.at(arange(0..32, vector())).store(acc);
}
mistake!(a_loop_that_changes_a_type, carried_type);

#[kernel(warps = 1)]
fn arm_type(x: Ptr<f32>, n: i32) {
    let mut acc = zeros::<f32>([32], vector());
    if n > 0 {
        acc = zeros([64], vector());
    }
    x.at(arange(0..32, vector())).store(acc);
}
mistake!(a_branch_that_changes_a_type, arm_type);

#[kernel(warps = 1)]
fn host_in_loop(out: Ptr<i32>, n: i32) {
    let mut stage = 0;
    for i in range(0, n) {
        if i > 3 {
            out.at(i).store(stage);
        }
        stage += 1;
    }
    out.at(0).store(stage);
}
mistake!(host_state_changed_in_a_loop, host_in_loop);

#[kernel(warps = 1)]
fn host_in_while(out: Ptr<i32>, n: i32) {
    let mut stage = 0;
    let mut i = n;
    while i > 0 {
        stage += 1;
        i -= stage;
    }
    out.at(0).store(i);
}
mistake!(host_state_changed_in_a_while, host_in_while);

#[kernel(warps = 1)]
fn host_in_branch(out: Ptr<i32>, n: i32) {
    let mut stage = 0;
    for i in range(0, n) {
        if i > 2 {
            stage = 7;
        }
    }
    out.at(stage).store(n);
}
mistake!(host_state_changed_in_one_arm, host_in_branch);

#[kernel(warps = 1)]
fn host_value_of_if(out: Ptr<i32>, n: i32) {
    let stages = if n > 2 { 3 } else { 4 };
    out.at(stages).store(n);
}
mistake!(host_values_that_the_arms_disagree_on, host_value_of_if);

#[kernel(warps = 1)]
fn form_changed(out: Ptr<i32>, n: i32) {
    let mut last = None;
    let mut list = vec![n];
    if n > 3 {
        last = Some(n);
    }
    for i in range(0, n) {
        list.push(i);
    }
    if let Some(last) = last {
        out.at(0).store(last);
    }
}
mistake!(an_option_or_a_list_that_changes_its_form, form_changed);

fn assign(to: &mut Scalar<i32>, value: Scalar<i32>) {
    *to = value;
}

#[kernel(warps = 1)]
fn behind_a_reference(out: Ptr<i32>, n: i32) {
    let mut accs = [n, n + 1];
    for acc in accs.iter_mut().filter(|_| true) {
        for i in range(0, n) {
            assign(acc, i + n);
        }
    }
    out.at(0).store(accs[0]);
}
mistake!(a_change_behind_a_reference, behind_a_reference);

#[kernel(warps = 1)]
fn behind_a_reference_in_an_arm(out: Ptr<i32>, n: i32) {
    let mut accs = [n, n + 1];
    let zero = scalar(0);
    for acc in &mut accs {
        if n > 3 {
            // What is assigned was there before, so that it can be used anywhere.
            assign(acc, zero);
        } else {
            assign(acc, n);
        }
    }
    out.at(0).store(accs[0]);
}
mistake!(
    a_change_behind_a_reference_in_an_arm,
    behind_a_reference_in_an_arm
);

#[kernel(warps = 1)]
fn inside_cells(out: Ptr<i32>, n: i32) {
    let (cell, list) = (std::cell::Cell::new(n), std::cell::RefCell::new(vec![n]));
    let zero = scalar(0);
    if n > 3 {
        cell.set(zero);
    }
    for i in range(0, n) {
        list.borrow_mut()[0] = i + n;
    }
    out.at(0).store(cell.get());
}
mistake!(a_change_inside_a_cell, inside_cells);

#[kernel(warps = 1)]
fn break_out_of_block(out: Ptr<i32>, n: i32) {
    'stores: {
        if n > 3 {
            break 'stores;
        }
        out.at(0).store(n);
    }
    out.at(1).store(n);
}
mistake!(a_break_out_of_a_block, break_out_of_block);

/// Says nothing of what it holds.
struct Kept(std::cell::Cell<Scalar<i32>>);

impl Kept {
    fn put(&self, value: Scalar<i32>) {
        self.0.set(value);
    }
}

#[kernel(warps = 1)]
fn escapes_by_cell(out: Ptr<i32>, n: i32) {
    let kept = Kept(std::cell::Cell::new(n));
    for i in range(0, n) {
        kept.put(i);
    }
    out.at(0).store(kept.0.get());
}
mistake!(a_value_that_leaves_its_loop, escapes_by_cell);

#[kernel(warps = 1)]
fn question_in_loop(out: Ptr<i32>, n: i32) {
    let first = |k: i32| {
        for i in range(0, n) {
            if i > 3 {
                out.at(i).store(k);
                None?;
            }
        }
        Some(k)
    };
    let _ = first(1);
}
mistake!(a_question_in_a_loop, question_in_loop);

#[kernel(warps = 1)]
fn breaks_out_of_a_host_loop(out: Ptr<i32>, n: i32) {
    for k in 0..3 {
        if n > k {
            break;
        }
        out.at(k).store(n);
    }
}
mistake!(a_break_of_a_host_loop, breaks_out_of_a_host_loop);

#[kernel(warps = 1)]
fn returns_before_partitions(out: Ptr<i32>, n: i32) {
    for i in range(0, n) {
        if i == 3 {
            return;
        }
        out.at(i).store(i);
    }
    warp_specialize()
        .main(|| out.at(0).store(1))
        .worker(Warps(1), || out.at(1).store(1))
        .run();
}
mistake!(a_return_before_partitions, returns_before_partitions);

#[kernel(warps = 1)]
fn other_type_at_a_break(out: Ptr<i32>, n: i32) {
    let mut x = full::<i32>([32], 1, Coalesced);
    for i in range(0, n) {
        if i == 3 {
            x = full::<i32>([64], 2, Coalesced);
            break;
        }
        x += i;
    }
    out.at(arange(0..32, Coalesced)).store(x);
}
mistake!(another_shape_at_a_break, other_type_at_a_break);

#[kernel(warps = 1)]
fn host_state_at_a_break(out: Ptr<i32>, n: i32) {
    let mut stage = 0;
    for i in range(0, n) {
        if i == 3 {
            stage = 1;
            break;
        }
        out.at(i).store(stage);
    }
    out.at(0).store(stage);
}
mistake!(a_host_variable_changed_at_a_break, host_state_at_a_break);

#[kernel(warps = 1)]
fn continues(out: Ptr<i32>, n: i32) {
    for k in 0..3 {
        if n > k {
            continue;
        }
        out.at(k).store(n);
    }
}
mistake!(a_continue_in_a_branch, continues);

#[device]
fn first(list: &[Scalar<i32>], n: Scalar<i32>) -> Option<Scalar<i32>> {
    let mut sum = n;
    for i in range(0, n) {
        sum += *list.first()? + i;
    }
    Some(sum)
}

#[kernel(warps = 1)]
fn question_mark(out: Ptr<i32>, n: i32) {
    if let Some(x) = first(&[], n) {
        out.at(0).store(x);
    }
}
mistake!(a_question_mark_in_a_loop, question_mark);

macro_rules! or_leave {
    ($option:expr) => {
        match $option {
            Some(x) => x,
            None => return,
        }
    };
}

#[device]
fn leaves_by_macro(out: Ptr<i32>, n: Scalar<i32>) {
    for i in range(0, n) {
        let k = or_leave!(None::<i32>);
        out.at(i).store(k);
    }
}

#[kernel(warps = 1)]
fn hidden_return(out: Ptr<i32>, n: i32) {
    leaves_by_macro(out, n);
    out.at(0).store(n);
}
mistake!(a_return_that_a_macro_hides, hidden_return);

#[kernel(warps = 1)]
fn panics(out: Ptr<i32>, n: i32) {
    let sizes = [1, 2];
    for k in 0..3 {
        out.at(k).store(n + sizes[k]);
    }
}
mistake!(host_code_that_panics, panics);

#[kernel(warps = 1)]
fn panics_in_an_arm(out: Ptr<i32>, n: i32) {
    let x = if n > 3 {
        n
    } else {
        unreachable!("{n:?} is small")
    };
    out.at(0).store(x);
}
mistake!(host_code_that_panics_in_an_arm, panics_in_an_arm);

#[kernel(warps = 1)]
fn divided_by_zero(out: Ptr<i32>, f: Ptr<f32>, n: i32) {
    out.at(0).store(n / 0);
    out.at(1).store(out.at(arange(0..32, vector())).load() % 0);
    f.at(0).store(f.at(1).load() / 0);
}
mistake!(divisions_by_the_constant_zero, divided_by_zero);

#[kernel(warps = 1)]
fn unfit_constants(out: Ptr<u8>, f: Ptr<f16>, i: Ptr<f32>) {
    out.at(0).store(256);
    out.at(1).store(-1);
    f.at(0).store(1e6);
    i.at(0).store(16_777_217);
    f.at(2).store(0.1);
}
mistake!(host_numbers_that_do_not_fit, unfit_constants);

#[kernel(warps = 1)]
fn static_assertion<const N: usize>(out: Ptr<i32>) {
    static_assert!(N.is_power_of_two(), "N is {N}, which is no power of two");
    static_assert!(N > 7);
    out.at(0).store(N);
}
mistake!(a_static_assert_that_fails, static_assertion::<5>);

#[kernel(warps = 1)]
fn axes(out: Ptr<i32>) {
    let x = arange(0..32, vector());
    out.at(program_id(3)).store(x.sum(1).scalar());
    out.at(x.argmax(2).scalar()).store(0);
    out.at(x.expand_dims(0)).store(0);
    out.at(0).store(x.scalar());
}
mistake!(dimensions_that_do_not_exist, axes);

#[kernel(warps = 1)]
fn combines_with_effects(x: Ptr<i32>) {
    let v = arange(0..32, vector());
    let sum = v.reduce(0, |a, b| {
        x.at(a).store(b);
        a + b
    });
    x.at(0).store(sum.scalar());
}
mistake!(a_combine_function_with_effects, combines_with_effects);

#[kernel(warps = 1)]
fn caller(out: Ptr<i32>) {
    callee(out);
}

#[kernel(warps = 1)]
fn callee(out: Ptr<i32>) {
    out.at(0).store(1);
}
mistake!(a_kernel_that_calls_a_kernel, caller);

#[kernel(warps = 1)]
fn wrong_accesses(x: Ptr<i32>, n: i32) {
    let v = x.at(n).other(3).load();
    x.at(n).l2_prefetch(100).store(v);
    let _ = x.at(n).cache(CacheOp::Wt).load();
    x.at(n).mask(n > 0).other(1).store(2);
    x.at(n).cache(CacheOp::Cg).no_allocate().store(3);
    x.at(n).volatile().policy(L2Policy::EvictFirst).store(4);
    let tile = Smem::<i32>::alloc([32], Swizzled::plain([0]));
    let lanes = x.at(arange(0..32, Auto));
    lanes.policy(L2Policy::EvictLast).copy_to(tile);
    let _ = range(0, n).step(0);
    let _ = arange(5..5, Auto);
}
mistake!(accesses_and_ranges_that_cannot_be, wrong_accesses);

#[test]
fn an_operation_outside_a_kernel_says_so() {
    let panic = std::panic::catch_unwind(|| arange(0..4, Auto)).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains(Code::NotTraced.number()), "{message}");
    assert!(message.contains("mistakes.rs"), "{message}");
}

#[kernel(warps = 1)]
fn labelled_break(out: Ptr<i32>, n: i32) {
    'outer: for k in 0..3 {
        for i in range(0, n) {
            out.at(i).store(k);
            break 'outer;
        }
    }
}
mistake!(a_break_to_a_label_around_a_loop, labelled_break);

#[kernel(warps = 1)]
fn open_and_fixed(x: Ptr<f32>, n: i32) {
    let mut acc = zeros::<f32>([32], Auto);
    for i in range(0, n) {
        acc += x.at(arange(0..32, vector()) + i).load();
    }
    x.at(arange(0..32, vector())).store(acc);
}
mistake!(a_loop_that_decides_a_layout, open_and_fixed);

#[kernel(warps = 33)]
fn warps_beyond_a_cta(out: Ptr<i32>) {
    out.at(0).store(1);
}
mistake!(a_number_of_warps_that_cannot_be, warps_beyond_a_cta);

#[kernel(warps = 8, max_registers = 16, min_ctas_per_sm = 9)]
fn beyond_an_sm(out: Ptr<i32>) {
    out.at(0).store(1);
}
mistake!(shares_of_an_sm_that_cannot_be, beyond_an_sm);
