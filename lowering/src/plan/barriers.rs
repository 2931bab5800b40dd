//! `place-barriers`: all threads meet where one could otherwise write shared memory that another still reads, or read
//! what another has not written yet.
//!
//! The walk keeps the bytes that were read and written since all threads met last. An instruction that clashes with them
//! gets a barrier before it, and no other does. Loops are walked until the bytes pending at their start settle, so that the
//! end of one iteration is held against the beginning of the next.

use cranelift_entity::EntitySet;
use gluon_lang::diag::Diagnostics;
use gluon_lang::entity::{Inst, Region};
use gluon_lang::ir::{Func, Spaces};
use gluon_lang::ops::sync::Barrier;
use gluon_lang::ops::{Op, Scratch, flow};

use crate::emit::scratch::{self, Meeting};

/// Puts a `barrier` before every instruction that needs one.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    if func.shared_bytes == 0 {
        return;
    }
    let mut walk = Walk {
        func,
        needed: EntitySet::new(),
    };
    walk.region(func.body, Pending::default());
    let needed = walk.needed;
    if !needed.is_empty() {
        insert(func, func.body, &needed);
    }
}

/// Bytes of shared memory, as disjoint ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bytes(Vec<(u32, u32)>);

impl Bytes {
    fn of(scratch: Scratch) -> Bytes {
        Bytes(if scratch.is_none() {
            Vec::new()
        } else {
            vec![(scratch.start, scratch.end())]
        })
    }

    fn meets(&self, other: &Bytes) -> bool {
        self.0
            .iter()
            .any(|a| other.0.iter().any(|b| a.0 < b.1 && b.0 < a.1))
    }

    fn add(&mut self, other: &Bytes) {
        if other.0.is_empty() {
            return;
        }
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for &(start, end) in &self.0 {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        self.0 = merged;
    }
}

/// What was done to shared memory since all threads met last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pending {
    read: Bytes,
    written: Bytes,
}

impl Pending {
    fn add(&mut self, other: &Pending) {
        self.read.add(&other.read);
        self.written.add(&other.written);
    }

    fn clashes_with(&self, next: &Pending) -> bool {
        next.read.meets(&self.written)
            || next.written.meets(&self.written)
            || next.written.meets(&self.read)
    }
}

/// What one instruction does: before its threads meet, and after, if they do.
struct Access {
    before: Pending,
    after: Option<Pending>,
}

struct Walk<'f> {
    func: &'f Func,
    needed: EntitySet<Inst>,
}

impl Walk<'_> {
    /// What is pending at the end of a region that is entered with `pending`.
    fn region(&mut self, region: Region, mut pending: Pending) -> Pending {
        let func = self.func;
        for &inst in &func.region(region).insts {
            let access = access(func, inst);
            if self.needed.contains(inst) || pending.clashes_with(&access.before) {
                self.needed.insert(inst);
                pending = Pending::default();
            }
            match access.after {
                Some(after) => pending = after,
                None => pending.add(&access.before),
            }
            pending = self.inner(inst, pending);
        }
        pending
    }

    /// What is pending after the regions of an instruction.
    fn inner(&mut self, inst: Inst, pending: Pending) -> Pending {
        let regions = self.func.op(inst).regions();
        if regions.is_empty() {
            return pending;
        }
        if !flow::is_loop(self.func.op(inst)) {
            let mut after = Pending::default();
            for region in regions {
                after.add(&self.region(region, pending.clone()));
            }
            return after;
        }
        let mut start = pending;
        loop {
            let mut left = start.clone();
            let mut end = start.clone();
            for (at, &region) in regions.iter().enumerate() {
                end = self.region(region, end);
                // A loop is left after its first region: the test of a `while`, the body of a `for`.
                if at == 0 {
                    left.add(&end);
                }
            }
            let mut around = start.clone();
            around.add(&end);
            if around == start {
                return left;
            }
            start = around;
        }
    }
}

fn access(func: &Func, inst: Inst) -> Access {
    let rules = func.op(inst).rules();
    let effects = rules.effects();
    if effects.is_barrier {
        return Access {
            before: Pending::default(),
            after: Some(Pending::default()),
        };
    }
    let scratch = Bytes::of(rules.scratch().unwrap_or_default());
    let whole = || Bytes(vec![(0, func.shared_bytes)]);
    let mut before = Pending {
        read: Bytes::default(),
        written: scratch.clone(),
    };
    if effects.reads.intersects(Spaces::SHARED) {
        before.read.add(&whole());
    }
    if effects.writes.intersects(Spaces::SHARED) {
        before.written.add(&whole());
    }
    let meets = !scratch.0.is_empty() && scratch::need(func, inst).meeting == Meeting::Cta;
    let read_back = Pending {
        read: scratch,
        written: Bytes::default(),
    };
    if meets {
        return Access {
            before,
            after: Some(read_back),
        };
    }
    Access {
        before,
        after: None,
    }
}

fn insert(func: &mut Func, region: Region, needed: &EntitySet<Inst>) {
    let old = func.region(region).insts.clone();
    let mut new = Vec::with_capacity(old.len() + 1);
    for &inst in &old {
        if needed.contains(inst) {
            let barrier = func.make_inst(
                Op::from(Barrier {}),
                gluon_lang::ops::Types::new(),
                func.loc(inst),
            );
            new.push(barrier);
        }
        new.push(inst);
        for inner in func.op(inst).regions() {
            insert(func, inner, needed);
        }
    }
    if new.len() != old.len() {
        func.set_insts(region, new);
    }
}
