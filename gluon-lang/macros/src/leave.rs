//! `if condition { return; }` as a statement of the function's own body: the rest moves into the other arm.

use syn::{Block, Expr, ExprBlock, ExprIf, Stmt, Token};

/// Moves what follows each early return into an `else`.
pub(crate) fn move_rest_behind_returns(block: &mut Block) {
    let Some(at) = block.stmts.iter().position(is_early_return) else {
        return;
    };
    let rest = block.stmts.split_off(at + 1);
    let Some(Stmt::Expr(Expr::If(mut early), _)) = block.stmts.pop() else {
        return;
    };
    let returned = take_return(&mut early.then_branch);
    if let Some(value) = returned {
        early.then_branch.stmts.push(Stmt::Expr(value, None));
    }
    let mut rest = Block {
        brace_token: block.brace_token,
        stmts: rest,
    };
    move_rest_behind_returns(&mut rest);
    let rest = ExprBlock {
        attrs: Vec::new(),
        label: None,
        block: rest,
    };
    early.else_branch = Some((<Token![else]>::default(), Box::new(Expr::Block(rest))));
    block.stmts.push(Stmt::Expr(Expr::If(early), None));
}

fn is_early_return(statement: &Stmt) -> bool {
    let Stmt::Expr(
        Expr::If(ExprIf {
            cond,
            then_branch,
            else_branch: None,
            ..
        }),
        _,
    ) = statement
    else {
        return false;
    };
    let is_plain = !matches!(**cond, Expr::Let(_) | Expr::Const(_));
    is_plain
        && matches!(
            then_branch.stmts.last(),
            Some(Stmt::Expr(Expr::Return(_), _))
        )
}

/// Takes the `return` off the end of a block, and gives its value.
fn take_return(block: &mut Block) -> Option<Expr> {
    match block.stmts.pop() {
        Some(Stmt::Expr(Expr::Return(r), _)) => r.expr.map(|e| *e),
        other => {
            block.stmts.extend(other);
            None
        }
    }
}
