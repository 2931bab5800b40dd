//! `if condition { return; }` at the top level of a function: the rest moves into the `else`, so that the condition may be a runtime one.

use syn::{Block, Expr, ExprIf, ExprReturn, Stmt, Token, parse_quote};

use super::branch::has_let;
use super::scope::cfgs;

/// Moves what follows such an `if` into its `else`. The returned value becomes the value of the arm.
pub(crate) fn lift_returns(block: &mut Block) {
    let stmts = std::mem::take(&mut block.stmts);
    block.stmts = lift(stmts);
}

fn lift(mut stmts: Vec<Stmt>) -> Vec<Stmt> {
    let Some(at) = stmts.iter().position(returns_early) else {
        return_last(&mut stmts);
        return stmts;
    };
    let rest = stmts.split_off(at + 1);
    let Some(Stmt::Expr(Expr::If(branch), _)) = stmts.pop() else {
        return stmts;
    };
    let ExprIf {
        cond,
        mut then_branch,
        if_token,
        else_branch,
        ..
    } = branch;
    let mut otherwise: Vec<Stmt> = match else_branch {
        Some((_, other)) => match *other {
            Expr::Block(b) if b.label.is_none() => b.block.stmts,
            chained => vec![Stmt::Expr(chained, Some(<Token![;]>::default()))],
        },
        None => Vec::new(),
    };
    // What follows continues in the arm that does not return.
    let goes_on = if ends_in_return(&then_branch.stmts) {
        &mut otherwise
    } else {
        &mut then_branch.stmts
    };
    close_last(goes_on);
    goes_on.extend(rest);
    let (then, otherwise) = (lift(then_branch.stmts), lift(otherwise));
    let mut lifted: ExprIf = parse_quote!(if #cond { #(#then)* } else { #(#otherwise)* });
    lifted.if_token = if_token;
    stmts.push(Stmt::Expr(Expr::If(lifted), None));
    stmts
}

/// A `return` at the end is what the block gives.
fn return_last(stmts: &mut Vec<Stmt>) {
    if !ends_in_return(stmts) {
        return;
    }
    if let Some(Stmt::Expr(
        Expr::Return(ExprReturn {
            expr: Some(value), ..
        }),
        _,
    )) = stmts.pop()
    {
        stmts.push(Stmt::Expr(*value, None));
    }
}

fn ends_in_return(stmts: &[Stmt]) -> bool {
    matches!(stmts.last(), Some(Stmt::Expr(Expr::Return(r), _)) if r.attrs.is_empty())
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
    let returns_else = match &branch.else_branch {
        Some((_, other)) => {
            matches!(&**other, Expr::Block(b) if b.label.is_none() && ends_in_return(&b.block.stmts))
        }
        None => false,
    };
    // What follows an `if` that may not be there cannot move into it.
    cfgs(&branch.attrs).is_empty()
        && !has_let(&branch.cond)
        && !matches!(*branch.cond, Expr::Const(_))
        && (ends_in_return(&branch.then_branch.stmts) || returns_else)
}
