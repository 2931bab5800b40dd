//! What holds before each statement of the emitted code, on every path that leads there.

use std::ops::Range;

use ptx::{Inst, Instruction, Label, Stmt};
use rustc_hash::FxHashMap;

/// What is known at a place.
pub(super) trait Facts: Clone + PartialEq {
    /// What holds where two paths meet: no more than on either.
    fn join(&mut self, other: &Self);

    /// What holds behind an instruction.
    fn pass(&mut self, instruction: &Instruction);
}

/// The indices of the instructions for which `is_redundant` holds, given what is known in front of them. `start` holds at the first statement.
pub(super) fn find<F: Facts>(
    statements: &[&Stmt],
    start: F,
    is_redundant: impl Fn(&F, usize, &Instruction) -> bool,
) -> Vec<usize> {
    let blocks = Blocks::of(statements);
    let begins = blocks.solve(statements, start);
    let mut found = Vec::new();
    for (range, begin) in blocks.ranges.iter().zip(begins) {
        // No path leads to a block without facts.
        let Some(mut facts) = begin else { continue };
        for at in range.clone() {
            let Some(instruction) = statements[at].instruction() else {
                continue;
            };
            if is_redundant(&facts, at, instruction) {
                found.push(at);
            }
            facts.pass(instruction);
        }
    }
    found
}

/// Runs of statements that are entered at their first and left at their last.
struct Blocks {
    ranges: Vec<Range<usize>>,
    /// Where each leads.
    next: Vec<Vec<usize>>,
}

impl Blocks {
    fn of(statements: &[&Stmt]) -> Blocks {
        let ranges = ranges(statements);
        let mut labels: FxHashMap<Label, usize> = FxHashMap::default();
        for (block, range) in ranges.iter().enumerate() {
            for statement in &statements[range.clone()] {
                if let Stmt::Label(label) = statement {
                    labels.insert(*label, block);
                }
            }
        }
        let next = ranges.iter().enumerate().map(|(block, range)| {
            let last = range.clone().next_back().map(|at| statements[at]);
            let last = last.and_then(Stmt::instruction);
            let target = last.and_then(|last| match &last.inst {
                Inst::Bra(branch) => labels.get(&branch.target).copied(),
                _ => None,
            });
            let falls = last.is_none_or(|last| !ends_block(&last.inst) || last.guard.is_some());
            let below = (falls && block + 1 < ranges.len()).then_some(block + 1);
            target.into_iter().chain(below).collect()
        });
        Blocks {
            next: next.collect(),
            ranges,
        }
    }

    /// What holds where each block begins; nothing for blocks that are never entered.
    fn solve<F: Facts>(&self, statements: &[&Stmt], start: F) -> Vec<Option<F>> {
        let mut begins: Vec<Option<F>> = vec![None; self.ranges.len()];
        let Some(first) = begins.first_mut() else {
            return begins;
        };
        *first = Some(start);
        let mut open = vec![0];
        while let Some(block) = open.pop() {
            let Some(mut facts) = begins[block].clone() else {
                continue;
            };
            let statements = &statements[self.ranges[block].clone()];
            for instruction in statements.iter().filter_map(|s| s.instruction()) {
                facts.pass(instruction);
            }
            for &next in &self.next[block] {
                let joined = match &begins[next] {
                    None => facts.clone(),
                    Some(known) => {
                        let mut joined = known.clone();
                        joined.join(&facts);
                        joined
                    }
                };
                if begins[next].as_ref() != Some(&joined) {
                    begins[next] = Some(joined);
                    open.push(next);
                }
            }
        }
        begins
    }
}

fn ranges(statements: &[&Stmt]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for (at, statement) in statements.iter().enumerate() {
        if matches!(statement, Stmt::Label(_)) && at > start {
            ranges.push(start..at);
            start = at;
        }
        if statement.instruction().is_some_and(|i| ends_block(&i.inst)) {
            ranges.push(start..at + 1);
            start = at + 1;
        }
    }
    if start < statements.len() {
        ranges.push(start..statements.len());
    }
    ranges
}

fn ends_block(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::Bra(_) | Inst::Ret(_) | Inst::Exit(_) | Inst::Trap(_)
    )
}
