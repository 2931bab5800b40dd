//! Runs of instructions that one thread executes: a branch around them instead of a guard before each.
//!
//! ptxas has the whole warp vote on each of these guards, and computes the operands in every thread.

use ptx::{Bra, Inst, Instruction, LocId, Predicate, Stmt};

use super::code::Code;

/// So many instructions are worth a branch.
const SHORTEST: usize = 4;

/// Puts a branch around every long run of the body.
pub(super) fn branch_around_runs(code: &mut Code) {
    let body = std::mem::take(code.lists_mut()[1]);
    let runs: Vec<Run> = body
        .chunk_by(|a, b| guard(a).is_some() && guard(a) == guard(b))
        .map(Run::of)
        .collect();
    let mut all = Vec::with_capacity(body.len() + 8);
    let mut rest = body.into_iter();
    for run in runs {
        let statements = rest.by_ref().take(run.len);
        let Some(guard) = run.guard.filter(|_| run.len >= SHORTEST) else {
            all.extend(statements);
            continue;
        };
        let over = code.label("not_first");
        let branch = Instruction {
            guard: Some(Predicate {
                negated: !guard.negated,
                ..guard
            }),
            inst: Bra::new(over).into(),
            loc: run.loc,
        };
        all.push(Stmt::Inst(branch));
        all.extend(statements.map(without_guard));
        all.push(Stmt::Label(over));
    }
    *code.lists_mut()[1] = all;
}

/// Statements with one guard, or one without.
struct Run {
    len: usize,
    guard: Option<Predicate>,
    loc: Option<LocId>,
}

impl Run {
    fn of(statements: &[Stmt]) -> Run {
        Run {
            len: statements.len(),
            guard: guard(&statements[0]),
            loc: statements[0].instruction().and_then(|i| i.loc),
        }
    }
}

/// The guard of an instruction that issues an asynchronous operation or arrives at a barrier, and writes no register.
fn guard(statement: &Stmt) -> Option<Predicate> {
    let Instruction { guard, inst, .. } = statement.instruction()?;
    let is_of_one_thread = matches!(
        inst,
        Inst::MbarrierInit(_)
            | Inst::MbarrierInval(_)
            | Inst::FenceMbarrierInit(_)
            | Inst::PrefetchTensormap(_)
            | Inst::TensorStore(_)
            | Inst::TensorReduce(_)
            | Inst::BulkStore(_)
            | Inst::BulkReduce(_)
            | Inst::BulkCommitGroup(_)
    );
    guard.filter(|_| is_of_one_thread)
}

fn without_guard(mut statement: Stmt) -> Stmt {
    if let Stmt::Inst(instruction) = &mut statement {
        instruction.guard = None;
    }
    statement
}
