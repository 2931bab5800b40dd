//! Clean-up of what was emitted: dead computations are dropped.
//!
//! ptxas drops them too; here it is for whoever reads the PTX, and for the emulator, which executes every line.

use ptx::{Inst, Instruction, Reg, Role, Stmt};

use super::code::Code;

/// Drops pure instructions whose results are not read, and what only they read.
pub(super) fn remove_unused(code: &mut Code) {
    let mut reads = Reads::default();
    for list in code.lists_mut() {
        for i in list.iter().filter_map(Stmt::instruction) {
            visit_read(i, |reg| *reads.of(reg) += 1);
        }
    }
    for list in code.lists_mut().into_iter().rev() {
        let mut is_kept = vec![true; list.len()];
        // Backwards, so that what only a dropped instruction read is visited after it. A loop may hold reads that stand before
        // the write; these keep their instruction, which costs a line at most.
        for (statement, is_kept) in list.iter().zip(&mut is_kept).rev() {
            let Some(i) = statement.instruction() else {
                continue;
            };
            if is_pure(&i.inst) && writes_unread(&i.inst, &mut reads) {
                *is_kept = false;
                visit_read(i, |reg| *reads.of(reg) -= 1);
            }
        }
        let mut is_kept = is_kept.into_iter();
        list.retain(|_| is_kept.next() == Some(true));
    }
}

/// How often each register is read.
#[derive(Default)]
struct Reads(Vec<u32>);

impl Reads {
    fn of(&mut self, reg: Reg) -> &mut u32 {
        let at = reg.0 as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        &mut self.0[at]
    }
}

/// Visits the registers that an instruction reads.
fn visit_read(instruction: &Instruction, mut visit: impl FnMut(Reg)) {
    instruction.guard.iter().for_each(|guard| visit(guard.reg));
    instruction.inst.visit_registers(|reg, role| {
        if role != Role::Write {
            visit(reg);
        }
    });
}

fn writes_unread(inst: &Inst, reads: &mut Reads) -> bool {
    let mut is_unread = true;
    inst.visit_registers(|reg, role| {
        is_unread &= role == Role::Read || *reads.of(reg) == 0;
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
