//! Device functions, closures and generics.

use gluon_lang::lang::prelude::*;
use ir::text::print_with_locations;

use crate::support::{ir, shown};

#[device]
fn scaled<T: Float, const N: usize>(x: [Tensor<T>; N], by: T) -> Tensor<T> {
    let mut sum = x[0];
    for i in 1..N {
        sum += x[i];
    }
    inner(sum) * by
}

#[device]
fn inner<T: Float>(x: Tensor<T>) -> Tensor<T> {
    x.exp2()
}

#[kernel(warps = 1)]
fn calls<T: Float>(x: Ptr<T>, by: f32) {
    let at = arange(0..32, Auto);
    let v = x.at(at).load();
    let y = scaled([v, v], T::ONE);
    let add = |a: Tensor<T>| a + v;
    x.at(at).store(add(y) * by.cast::<T>());
}

#[test]
fn device_functions_and_closures_are_inlined() {
    insta::assert_snapshot!(ir(calls::<bf16>));
}

#[test]
fn a_place_knows_the_calls_around_it() {
    let traced = calls::<f32>.trace().unwrap();
    let func = &traced.func;
    let exp2 = func
        .walk()
        .into_iter()
        .find(|i| format!("{:?}", func.op(*i)).contains("Exp2"))
        .unwrap();
    insta::assert_snapshot!(
        shown(func.place(exp2).as_ref()),
        @"`exp2()` in inner called at `inner(sum) * by` in scaled called at `scaled([v, v], T::ONE);`"
    );
    assert!(print_with_locations(func).contains("in inner called at"));
}

impl<T: Float> Accumulator<T> {
    #[device]
    fn push(mut self, x: Tensor<T>) -> Self {
        self.sum += x;
        if self.count < 8 {
            self.count += 1;
        }
        self
    }
}

#[derive(Clone, Copy, Aggregate)]
struct Accumulator<T: Float> {
    sum: Tensor<T>,
    count: Scalar<i32>,
}

#[kernel(warps = 1)]
fn methods(x: Ptr<f32>, n: i32) {
    let at = arange(0..32, Blocked::new([1], [32], [1], [0]));
    let mut acc = Accumulator {
        sum: zeros([32], at.layout()),
        count: scalar(0),
    };
    for i in range(0, n) {
        acc = acc.push(x.at(at + i * 32).load());
    }
    x.at(at).store(acc.sum / acc.count.cast::<f32>());
}

#[test]
fn methods_can_be_device_functions() {
    insta::assert_snapshot!(ir(methods));
}

#[device]
fn first_or(list: &[Scalar<i32>], other: Scalar<i32>) -> Option<Scalar<i32>> {
    let first = list.first()?;
    if *first == 0 {
        return Some(other);
    }
    Some(*first)
}

#[kernel(warps = 1)]
fn question(out: Ptr<i32>, n: i32) {
    if let Some(x) = first_or(&[n, n + 1], n) {
        out.at(0).store(x);
    }
    if first_or(&[], n).is_some() {
        out.at(1).store(n);
    }
}

#[test]
fn question_marks_and_early_returns_in_device_functions() {
    insta::assert_snapshot!(ir(question));
}

#[derive(Clone, Copy, Aggregate)]
struct Lent {
    low: Scalar<i32>,
    high: Scalar<i32>,
}

impl Lent {
    #[device]
    fn lower(&mut self) -> &mut Scalar<i32> {
        self.high += 1;
        &mut self.low
    }

    #[device]
    fn sum(self: Box<Self>) -> Scalar<i32> {
        self.low + self.high
    }
}

#[device]
fn slot(list: &mut [Scalar<i32>], at: usize) -> Option<&mut Scalar<i32>> {
    let slot = list.get_mut(at)?;
    *slot *= 2;
    Some(slot)
}

#[kernel(warps = 1)]
fn lends(out: Ptr<i32>, n: i32) {
    let mut lent = Lent { low: n, high: n };
    *lent.lower() = n * 3;
    let mut list = [n; 2];
    if let Some(slot) = slot(&mut list, 1) {
        *slot -= 1;
    }
    out.at(0).store(Box::new(lent).sum() + list[1]);
}

#[test]
fn device_functions_give_back_what_they_were_lent() {
    insta::assert_snapshot!(ir(lends));
}

#[device]
fn twice<T: Element>(f: impl Fn(Tensor<T>) -> Tensor<T>, x: Tensor<T>) -> Tensor<T> {
    f(f(x))
}

#[kernel(warps = 1)]
fn higher_order(x: Ptr<f32>, n: i32) {
    let at = arange(0..32, Auto);
    let v = x.at(at).load();
    let grown = twice(
        |v| {
            let mut w = v;
            for _ in range(0, n) {
                w *= v;
            }
            if n > 2 {
                return w + 1.0;
            }
            w
        },
        v,
    );
    x.at(at).store(grown);
}

/// The early `return` of the closure moves its rest into the other arm, as a function's does.
#[test]
fn closures_have_loops_and_early_returns() {
    insta::assert_snapshot!(ir(higher_order));
}

#[kernel(warps = 1)]
fn reading_closure(out: Ptr<i32>, n: i32) {
    let mut last = n - 1;
    last += n;
    let cut = |v: Scalar<i32>| {
        let mut v = v;
        if v > last {
            v = last;
        }
        for i in range(0, last) {
            v += i;
        }
        v
    };
    out.store(cut(last) + last);
}

/// That it compiles is what is tested: `cut` is not `mut`, and `last` may be passed to it.
#[test]
fn a_closure_that_only_reads_borrows_as_in_rust() {
    assert!(reading_closure.trace().is_ok());
}

#[derive(Clone, Copy, Aggregate)]
struct Counted {
    sum: Scalar<i32>,
    count: Scalar<i32>,
}

impl Counted {
    #[device]
    fn add(&mut self, x: Scalar<i32>) {
        self.sum += x;
        self.count += 1;
    }
}

#[kernel(warps = 1)]
fn closures_that_change_by_methods(x: Ptr<i32>, out: Ptr<i32>, n: i32) {
    let zero = Counted {
        sum: scalar(0),
        count: scalar(0),
    };
    let (mut all, mut even, mut steps) = (zero, zero, scalar(0));
    let mut add = |x: Scalar<i32>| all.add(x);
    let mut add_even = |x: Scalar<i32>| {
        even.add(x);
        steps += 1;
    };
    for i in range(0, n) {
        add(x.at(i).load());
        if i % 2 == 0 {
            add_even(x.at(i).load());
        }
    }
    out.at(0).store(all.sum + all.count);
    out.at(1).store(even.sum + steps);
}

#[kernel(warps = 1)]
fn a_loop_that_reads_what_a_closure_borrows(x: Ptr<i32>, out: Ptr<i32>, n: i32) {
    let mut first = x.at(0).load();
    let above = |x: Scalar<i32>| x - first;
    let mut sum = scalar(0);
    for i in range(0, n) {
        sum += above(x.at(i).load()) * first;
    }
    first += sum;
    out.store(first);
}

/// As the same without closures.
#[test]
fn closures_change_by_methods_what_loops_carry() {
    insta::assert_snapshot!(ir(closures_that_change_by_methods));
}

/// That it compiles is what is tested: the loop carries `sum` alone.
#[test]
fn a_loop_borrows_what_a_closure_has_borrowed_as_in_rust() {
    assert!(a_loop_that_reads_what_a_closure_borrows.trace().is_ok());
}

#[kernel(warps = 1)]
fn return_deep_in_closure(out: Ptr<i32>, n: i32) {
    let store = |k: i32| {
        for i in range(0, n) {
            if i > k {
                return;
            }
            out.at(i).store(k);
        }
    };
    store(1);
}

#[test]
fn a_return_in_a_loop_of_a_closure() {
    insta::assert_snapshot!(ir(return_deep_in_closure));
}

#[kernel(warps = 1)]
fn traces_another(out: Ptr<i32>) {
    let inner = traced_inside.trace().expect("it is right");
    out.at(0).store(inner.func.inst_count());
}

#[kernel(warps = 2)]
fn traced_inside(out: Ptr<i32>, n: i32) {
    out.at(n).store(n);
}

#[test]
fn a_kernel_may_look_at_the_trace_of_another() {
    insta::assert_snapshot!(ir(traces_another));
}

#[test]
fn threads_trace_at_the_same_time() {
    let expected = ir(methods);
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| ir(methods))).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), expected);
    }
}
