//! Computations that only cold code reads move into it.
//!
//! The predicates of the single elements of a masked run are needed only where the mask cuts the run. In line they would
//! cost every thread their instructions and registers.

use ptx::{Inst, Reg, Role, Stmt};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::Code;
use super::tidy::is_pure;

/// Moves every pure computation whose results are read in cold blocks alone to the beginning of each that reads it.
pub(super) fn sink_into_cold(code: &mut Code) {
    let [prologue, body, cold] = code.lists_mut();
    if cold.is_empty() {
        return;
    }
    let mut reads = FxHashMap::default();
    let mut writes = FxHashMap::default();
    for list in [&*prologue, &*body] {
        count(list, Some(&mut reads), &mut writes);
    }
    count(cold, None, &mut writes);
    let wanted: FxHashSet<Reg> = cold.iter().flat_map(reads_of).collect();
    let mut found = Sunk {
        reads,
        writes,
        wanted,
        statements: Vec::new(),
    };
    // Backwards, so that what only a moved instruction read is visited after it.
    found.take_from(body);
    found.take_from(prologue);
    found.statements.reverse();
    *cold = found.place(std::mem::take(cold));
}

/// What moves, and facts about the registers.
struct Sunk {
    /// How often hot code reads a register.
    reads: FxHashMap<Reg, u32>,
    /// How many statements write a register.
    writes: FxHashMap<Reg, u32>,
    /// Registers that cold code reads, or what moves there.
    wanted: FxHashSet<Reg>,
    /// What moves.
    statements: Vec<Stmt>,
}

impl Sunk {
    fn take_from(&mut self, list: &mut Vec<Stmt>) {
        let mut kept = Vec::with_capacity(list.len());
        for statement in std::mem::take(list).into_iter().rev() {
            if !self.sinks(&statement) {
                kept.push(statement);
                continue;
            }
            for reg in reads_of(&statement) {
                self.reads.entry(reg).and_modify(|n| *n -= 1);
                self.wanted.insert(reg);
            }
            self.statements.push(statement);
        }
        kept.reverse();
        *list = kept;
    }

    /// Is the statement pure, read by cold code alone, and the same wherever it stands? It is the same if nothing that it
    /// reads is ever written again: a loop's variables are.
    fn sinks(&self, statement: &Stmt) -> bool {
        let Some(i) = statement.instruction() else {
            return false;
        };
        if i.guard.is_some() || !is_pure(&i.inst) || matches!(i.inst, Inst::Ld(_)) {
            return false;
        }
        let once = |reg: &Reg| self.writes.get(reg) == Some(&1);
        let results = writes_of(statement);
        results.iter().any(|reg| self.wanted.contains(reg))
            && results
                .iter()
                .all(|reg| once(reg) && self.reads.get(reg).is_none_or(|&n| n == 0))
            && reads_of(statement).iter().all(once)
    }

    /// The cold blocks, each with what it reads of the moved before it. A block begins where one before it has ended with
    /// a jump.
    fn place(&self, cold: Vec<Stmt>) -> Vec<Stmt> {
        let mut placed = Vec::with_capacity(cold.len() + self.statements.len());
        let mut block: Vec<Stmt> = Vec::new();
        for statement in cold {
            let ends = is_jump(&statement);
            block.push(statement);
            if ends {
                self.place_block(std::mem::take(&mut block), &mut placed);
            }
        }
        self.place_block(block, &mut placed);
        placed
    }

    fn place_block(&self, block: Vec<Stmt>, placed: &mut Vec<Stmt>) {
        let mut needed: FxHashSet<Reg> = block.iter().flat_map(reads_of).collect();
        let mut moved = Vec::new();
        for statement in self.statements.iter().rev() {
            if writes_of(statement).iter().any(|reg| needed.contains(reg)) {
                needed.extend(reads_of(statement));
                moved.push(statement.clone());
            }
        }
        let mut block = block.into_iter();
        placed.extend(block.next());
        placed.extend(moved.into_iter().rev());
        placed.extend(block);
    }
}

/// Does nothing come after this statement, in the order in which they stand?
fn is_jump(statement: &Stmt) -> bool {
    let leaves = |inst: &Inst| {
        matches!(
            inst,
            Inst::Bra(_) | Inst::Trap(_) | Inst::Exit(_) | Inst::Ret(_)
        )
    };
    let jump = statement.instruction();
    jump.is_some_and(|i| i.guard.is_none() && leaves(&i.inst))
}

fn count(list: &[Stmt], reads: Option<&mut FxHashMap<Reg, u32>>, writes: &mut FxHashMap<Reg, u32>) {
    for reg in list.iter().flat_map(writes_of) {
        *writes.entry(reg).or_insert(0) += 1;
    }
    if let Some(reads) = reads {
        for reg in list.iter().flat_map(reads_of) {
            *reads.entry(reg).or_insert(0) += 1;
        }
    }
}

fn reads_of(statement: &Stmt) -> Vec<Reg> {
    let mut found = Vec::new();
    if let Some(i) = statement.instruction() {
        found.extend(i.guard.map(|g| g.reg));
        i.inst.visit_registers(|reg, role| {
            if role != Role::Write {
                found.push(reg);
            }
        });
    }
    found
}

fn writes_of(statement: &Stmt) -> Vec<Reg> {
    let mut found = Vec::new();
    if let Some(i) = statement.instruction() {
        i.inst.visit_registers(|reg, role| {
            if role != Role::Read {
                found.push(reg);
            }
        });
    }
    found
}
