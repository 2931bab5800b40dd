//! Waits for groups (`wgmma`, `cp.async`, `cp.async.bulk`) at which no more groups can be open than they admit.

use ptx::{Inst, Instruction, Operand, Stmt};

use super::flow::{Facts, find};

/// So many open groups, or any number more.
const MANY: u32 = 32;

/// The most groups of one kind that a thread can have open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Groups {
    open: u32,
    /// Operations that belong to no group yet may be in flight.
    has_uncommitted: bool,
}

impl Groups {
    const UNKNOWN: Groups = Groups {
        open: MANY,
        has_uncommitted: true,
    };

    fn join(&mut self, other: Groups) {
        self.open = self.open.max(other.open);
        self.has_uncommitted |= other.has_uncommitted;
    }

    fn commit(&mut self, guarded: bool) {
        self.open = (self.open + 1).min(MANY);
        self.has_uncommitted &= guarded;
    }

    fn wait(&mut self, pending: u32) {
        self.open = self.open.min(pending);
    }
}

/// The most groups that a thread can have open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Open {
    products: Groups,
    copies: Groups,
    /// Groups of bulk copies that may still read their sources.
    bulk_reads: Groups,
    /// Groups of bulk copies that are not complete.
    bulk: Groups,
}

/// The waits that wait for nothing.
pub(super) fn find_waits(statements: &[&Stmt]) -> Vec<usize> {
    let is_redundant = |open: &Open, _: usize, i: &Instruction| open.satisfies(&i.inst);
    find(statements, Open::default(), is_redundant)
}

impl Open {
    /// Is the instruction a wait that is over at once?
    fn satisfies(&self, inst: &Inst) -> bool {
        let admits = |groups: Groups, pending: Operand| {
            number(pending).is_some_and(|pending| groups.open < MANY && groups.open <= pending)
        };
        match inst {
            Inst::WgmmaWaitGroup(wait) => admits(self.products, wait.pending),
            Inst::CpAsyncWaitGroup(wait) => admits(self.copies, wait.pending),
            Inst::CpAsyncWaitAll(_) => self.copies == Groups::default(),
            Inst::BulkWaitGroup(wait) if wait.read => admits(self.bulk_reads, wait.pending),
            Inst::BulkWaitGroup(wait) => admits(self.bulk, wait.pending),
            _ => false,
        }
    }

    fn wait(&mut self, inst: &Inst) {
        match inst {
            Inst::WgmmaWaitGroup(wait) => {
                self.products.wait(number(wait.pending).unwrap_or(MANY));
            }
            Inst::CpAsyncWaitGroup(wait) => self.copies.wait(number(wait.pending).unwrap_or(MANY)),
            Inst::CpAsyncWaitAll(_) => self.copies = Groups::default(),
            Inst::BulkWaitGroup(wait) => {
                let pending = number(wait.pending).unwrap_or(MANY);
                self.bulk_reads.wait(pending);
                if !wait.read {
                    self.bulk.wait(pending);
                }
            }
            _ => {}
        }
    }
}

impl Facts for Open {
    fn join(&mut self, other: &Open) {
        self.products.join(other.products);
        self.copies.join(other.copies);
        self.bulk_reads.join(other.bulk_reads);
        self.bulk.join(other.bulk);
    }

    fn pass(&mut self, instruction: &Instruction) {
        let guarded = instruction.guard.is_some();
        match &instruction.inst {
            Inst::Wgmma(_) => self.products.has_uncommitted = true,
            Inst::WgmmaCommitGroup(_) => self.products.commit(guarded),
            Inst::CpAsync(_) => self.copies.has_uncommitted = true,
            Inst::CpAsyncCommitGroup(_) => self.copies.commit(guarded),
            Inst::BulkCommitGroup(_) => {
                self.bulk_reads.commit(guarded);
                self.bulk.commit(guarded);
            }
            // Who is called may leave any of them open.
            Inst::Call(_) => {
                *self = Open {
                    products: Groups::UNKNOWN,
                    copies: Groups::UNKNOWN,
                    bulk_reads: Groups::UNKNOWN,
                    bulk: Groups::UNKNOWN,
                };
            }
            // A guarded wait is one of some threads.
            inst if !guarded => self.wait(inst),
            _ => {}
        }
    }
}

fn number(operand: Operand) -> Option<u32> {
    match operand {
        Operand::Int(value) => u32::try_from(value).ok(),
        _ => None,
    }
}
