//! Clean-up of what was emitted: computations whose results nobody reads are dropped.
//!
//! ptxas drops them too; here it is for whoever reads the PTX, and for the emulator, which executes every line.

use std::collections::HashMap;

use ptx::{Inst, Reg, Role, Stmt};

use super::code::Code;

/// Drops pure instructions whose results are not read, and what only they read.
pub(super) fn remove_unused(code: &mut Code) {
    let mut reads: HashMap<Reg, u32> = HashMap::new();
    for list in code.lists_mut() {
        for i in list.iter().filter_map(Stmt::instruction) {
            if let Some(guard) = i.guard {
                *reads.entry(guard.reg).or_insert(0) += 1;
            }
            i.inst.visit_registers(|reg, role| {
                if role != Role::Write {
                    *reads.entry(reg).or_insert(0) += 1;
                }
            });
        }
    }
    // Backwards, so that what only a dropped instruction read is met after it. A loop may hold reads that stand before
    // the write; these keep their instruction, which costs a line at most.
    for list in code.lists_mut().into_iter().rev() {
        let mut kept: Vec<Stmt> = Vec::with_capacity(list.len());
        for statement in std::mem::take(list).into_iter().rev() {
            let unused = statement
                .instruction()
                .is_some_and(|i| is_pure(&i.inst) && writes_unread(&i.inst, &reads));
            if !unused {
                kept.push(statement);
                continue;
            }
            if let Some(i) = statement.instruction() {
                let guard = i.guard.map(|g| g.reg);
                let mut release = |reg: Reg| {
                    if let Some(count) = reads.get_mut(&reg) {
                        *count -= 1;
                    }
                };
                guard.into_iter().for_each(&mut release);
                i.inst.visit_registers(|reg, role| {
                    if role != Role::Write {
                        release(reg);
                    }
                });
            }
        }
        kept.reverse();
        *list = kept;
    }
}

fn writes_unread(inst: &Inst, reads: &HashMap<Reg, u32>) -> bool {
    let mut is_unread = true;
    inst.visit_registers(|reg, role| {
        let is_read = reads.get(&reg).is_some_and(|&count| count > 0);
        is_unread &= role == Role::Read || !is_read;
    });
    is_unread
}

/// Does the instruction do nothing but write its results?
pub(super) fn is_pure(inst: &Inst) -> bool {
    match inst {
        Inst::Mov(_)
        | Inst::Binary(_)
        | Inst::Unary(_)
        | Inst::Ternary(_)
        | Inst::Bfi(_)
        | Inst::Lop3(_)
        | Inst::Prmt(_)
        | Inst::Shf(_)
        | Inst::Setp(_)
        | Inst::Set(_)
        | Inst::Selp(_)
        | Inst::Slct(_)
        | Inst::Testp(_)
        | Inst::Cvt(_)
        | Inst::Cvta(_) => true,
        Inst::Ld(load) => load.space == Some(ptx::Space::Param),
        _ => false,
    }
}
