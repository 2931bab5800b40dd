//! Cells, alone and behind what leads to them: a change by a loop or branch of the kernel is reported, on whatever path, and
//! what nothing changes is not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gluon_lang::lang::prelude::*;

use crate::support::{ir, mistakes};

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
fn behind_counts(out: Ptr<i32>, n: i32) {
    let zero = scalar(0);
    let kept = Rc::new(Cell::new(n));
    if n > 3 {
        kept.set(zero);
    }
    let list = Rc::new(RefCell::new(vec![n, n]));
    for i in range(0, n) {
        list.borrow_mut()[1] = zero;
        out.at(i).store(0);
    }
    let rounds = Rc::new(Cell::new(0));
    for i in range(0, n) {
        rounds.set(rounds.get() + 1);
        out.at(i).store(1);
    }
    let items = Rc::new(RefCell::new(Vec::new()));
    let mut i = n;
    while i > 0 {
        items.borrow_mut().push(zero);
        i -= 1;
    }
    out.at(0)
        .store(kept.get() + list.borrow()[1] + rounds.get() + items.borrow().len());
}
mistake!(cells_behind_counted_references, behind_counts);

#[derive(Clone, Aggregate)]
struct Counter {
    step: Scalar<i32>,
    count: Rc<Cell<Scalar<i32>>>,
    seen: Cell<u32>,
}

impl Counter {
    fn new(n: Scalar<i32>) -> Counter {
        Counter {
            step: n,
            count: Rc::new(Cell::new(n)),
            seen: Cell::new(0),
        }
    }
    fn reset(&self) {
        self.count.set(self.step);
    }
    fn see(&self) {
        self.seen.set(self.seen.get() + 1);
    }
    #[device]
    fn reset_if(&self, n: Scalar<i32>) {
        if n > 4 {
            self.count.set(n);
        }
    }
}

#[kernel(warps = 1)]
fn in_aggregates(out: Ptr<i32>, n: i32) {
    let one = scalar(1);
    let counter = Counter::new(n);
    counter.count.set(one);
    if n > 3 {
        counter.reset();
    }
    let other = Counter::new(n);
    for i in range(0, n) {
        other.see();
        out.at(i).store(0);
    }
    let third = Counter::new(one);
    third.reset_if(n);
    let fields = Some((n, [Counter::new(n)]));
    if let Some((_, all)) = &fields {
        if n > 5 {
            all[0].see();
        }
    }
    out.at(0)
        .store(counter.count.get() + other.seen.get() + third.count.get());
    let seen = fields.map(|(_, all)| all[0].seen.get());
    out.at(1).store(seen.unwrap_or(0));
}
mistake!(cells_in_aggregates, in_aggregates);

/// Nothing is derived, so nothing is known but what the code says.
struct Opaque {
    count: Cell<Scalar<i32>>,
}

impl Opaque {
    #[device]
    fn reset_if(&self, n: Scalar<i32>) {
        let zero = scalar(0);
        if n > 3 {
            self.count.set(zero);
        }
    }
}

#[kernel(warps = 1)]
fn in_opaque_fields(out: Ptr<i32>, n: i32) {
    let opaque = Opaque {
        count: Cell::new(n),
    };
    opaque.reset_if(n);
    for i in range(0, n) {
        opaque.count.set(n);
        out.at(i).store(0);
    }
    out.at(0).store(opaque.count.get());
}
mistake!(cells_in_fields_of_anything, in_opaque_fields);

#[device]
fn set_if(cell: &Cell<Scalar<i32>>, n: Scalar<i32>) {
    let zero = scalar(0);
    if n > 3 {
        cell.set(zero);
    }
}

fn set(cell: &Cell<Scalar<i32>>, to: Scalar<i32>) {
    cell.set(to);
}

#[kernel(warps = 1)]
fn by_functions(out: Ptr<i32>, n: i32) {
    let zero = scalar(0);
    let (first, second) = (Cell::new(n), Cell::new(n));
    set_if(&first, n);
    if n > 3 {
        set(&second, zero);
    }
    let cell = Cell::new(n);
    let reset = || cell.set(zero);
    if n > 4 {
        reset();
    }
    let shared = Rc::new(Cell::new(n));
    let alias = Rc::clone(&shared);
    let reset_shared = move || alias.set(zero);
    for i in range(0, n) {
        out.at(i).store(i);
        reset_shared();
    }
    out.at(0)
        .store(first.get() + second.get() + cell.get() + shared.get());
}
mistake!(cells_that_functions_and_closures_change, by_functions);

#[kernel(warps = 1)]
fn references_that_move(out: Ptr<i32>, n: i32) {
    let (one, two) = (n + 1, n + 2);
    let mut which = &one;
    if n > 3 {
        which = &two;
    }
    out.at(0).store(*which);
}

#[kernel(warps = 1)]
fn index_in_a_cell(out: Ptr<i32>, n: i32) {
    let kept = Rc::new(Cell::new(n));
    for i in range(0, n) {
        kept.set(i);
    }
    out.at(0).store(kept.get());
}
mistake!(an_index_that_a_cell_keeps, index_in_a_cell);

/// The text names an address.
#[test]
fn a_reference_that_leads_elsewhere_after_a_branch() {
    let told = mistakes(references_that_move);
    let wanted = "TK0009 host-state-changed: the host variable `which` is a reference to 0x";
    assert!(told.starts_with(wanted), "{told}");
}

#[kernel(warps = 1)]
fn left_alone(out: Ptr<i32>, n: i32) {
    let zero = scalar(0);
    let (cell, list) = (Cell::new(n), Rc::new(RefCell::new(vec![zero, n])));
    let counter = Counter::new(n);
    // Reads change nothing, and branches taken at trace time may change cells.
    for i in range(0, n) {
        out.at(i)
            .store(cell.get() + list.borrow()[1] + counter.count.get());
    }
    for k in 0..3 {
        cell.set(cell.get() + k);
        counter.see();
    }
    if n > 3 {
        out.at(cell.get()).store(counter.seen.get());
        // A cell of the arm's own.
        let own = Cell::new(zero);
        own.set(n);
        out.at(1).store(own.get());
    }
    // What holds the cell itself carries it.
    let mut owned = Counter::new(n);
    let mut held = list.borrow_mut();
    for i in range(0, n) {
        held[0] += i;
        owned.step += i;
    }
    drop(held);
    let first = list.borrow()[0];
    out.at(2).store(first + owned.step);
}

#[test]
fn cells_that_nothing_changes_are_left_alone() {
    insta::assert_snapshot!(ir(left_alone));
}
