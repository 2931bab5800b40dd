//! `if condition { return; }` at the top of a function: what follows moves into the `else`, so that the kernel may decide.

use syn::{Block, Expr, ExprIf, Stmt, Token, parse_quote};

use super::branch::has_let;

/// Moves what follows such an `if` into its `else`. What is returned becomes the value of the arm.
pub(crate) fn lift_returns(block: &mut Block) {
    let stmts = std::mem::take(&mut block.stmts);
    block.stmts = lift(stmts);
}

fn lift(mut stmts: Vec<Stmt>) -> Vec<Stmt> {
    let Some(at) = stmts.iter().position(returns_early) else {
        return stmts;
    };
    let rest = lift(stmts.split_off(at + 1));
    let Some(Stmt::Expr(Expr::If(mut branch), _)) = stmts.pop() else {
        return stmts;
    };
    let returned = match branch.then_branch.stmts.pop() {
        Some(Stmt::Expr(Expr::Return(r), _)) => r.expr,
        _ => None,
    };
    if let Some(value) = returned {
        branch.then_branch.stmts.push(Stmt::Expr(*value, None));
    }
    let mut otherwise: Vec<Stmt> = match branch.else_branch.take() {
        Some((_, other)) => match *other {
            Expr::Block(b) if b.label.is_none() => b.block.stmts,
            chained => vec![Stmt::Expr(chained, Some(<Token![;]>::default()))],
        },
        None => Vec::new(),
    };
    close_last(&mut otherwise);
    otherwise.extend(rest);
    let otherwise = lift(otherwise);
    let ExprIf {
        cond,
        then_branch,
        if_token,
        ..
    } = branch;
    let mut lifted: ExprIf = parse_quote!(if #cond #then_branch else { #(#otherwise)* });
    lifted.if_token = if_token;
    stmts.push(Stmt::Expr(Expr::If(lifted), None));
    stmts
}

/// The end of an `else` block is a statement once something follows it.
fn close_last(stmts: &mut [Stmt]) {
    if let Some(Stmt::Expr(_, semicolon @ None)) = stmts.last_mut() {
        *semicolon = Some(<Token![;]>::default());
    }
}

fn returns_early(stmt: &Stmt) -> bool {
    let Stmt::Expr(Expr::If(branch), _) = stmt else {
        return false;
    };
    let last = branch.then_branch.stmts.last();
    !has_let(&branch.cond)
        && !matches!(*branch.cond, Expr::Const(_))
        && matches!(last, Some(Stmt::Expr(Expr::Return(_), _)))
}
