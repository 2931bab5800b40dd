//! `loop`: a host loop, or a runtime loop.
//!
//! Which of them it is must be known before its body is traced, and only types tell. The first `if` or `match` of the body that leaves
//! the loop determines it: the statements before it and its condition form a closure that is never called, whose type starts the loop.
//!
//! ```text
//! loop {                           let mut told = None;
//!     let v = x.at(i).load();      if false { tell(&mut told, || { let v = x.at(i).load(); v == 0 }); unreachable!() }
//!     if v == 0 { break; }         let mut loop1 = endless_loop(&told);
//!     i += 1;                      'loop1: loop { match loop1.again(..) { On => {} Ended(end) => break } .. }
//! }
//! ```
//!
//! The branch around the closure diverges, so that rustc regards nothing in it as moved or borrowed afterwards. A `break` with a value
//! leaves the loop as a `return` leaves a function.

use quote::{quote, quote_spanned};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprLoop, Label, Lifetime, Stmt, parse_quote};

use super::branch::has_let;
use super::exits::{Left, Loop, record};
use super::later::Later;
use super::rewriter::Rewriter;
use super::uses::Uses;

impl Rewriter {
    pub(super) fn endless_loop(&mut self, expr: &mut Expr) {
        let Expr::Loop(l) = expr else { return };
        self.label(&mut l.label);
        match decision(l) {
            Some(decision) => {
                let decision = self.told_by(&decision);
                *expr = self.decided_loop(l, &decision);
            }
            None => self.host_loop(expr),
        }
    }

    /// A `loop` without an exit under a condition, which is a host loop.
    fn host_loop(&mut self, expr: &mut Expr) {
        let Expr::Loop(l) = expr else { return };
        let depth = self.fresh("depth");
        let entered = Loop {
            name: l.label.as_ref().map(|l| l.name.clone()),
            state: None,
            uses: Uses::default(),
            scopes: self.scopes.depth(),
            has_exits: false,
            has_value: false,
            goes_to: None,
        };
        self.exits.enter_loop(depth.clone(), entered);
        let before = self.scopes.flow.clone();
        self.scopes.open_before(Later::again(&l.body));
        self.visit_block_mut(&mut l.body);
        self.scopes.close();
        let left = self.exits.leave_loop();
        // What follows is reached by a `break` alone.
        self.scopes.flow = left.breaks.unwrap_or(before);
        if left.is_used {
            let (record, inner) = (record(&depth), quote!(#l));
            *expr = parse_quote!({ #record #inner });
        }
    }

    /// The closure whose result has the type of the condition.
    fn told_by(&mut self, decision: &Block) -> Expr {
        let mut closure: Expr = parse_quote!(|| #decision);
        let (errors, assignments) = (self.errors.len(), self.scopes.assignments.len());
        self.visit_expr_mut(&mut closure);
        // The body itself is rewritten later.
        self.errors.truncate(errors);
        self.scopes.assignments.truncate(assignments);
        closure
    }

    fn decided_loop(&mut self, l: &mut ExprLoop, told_by: &Expr) -> Expr {
        let ways = Ways::of(l);
        let scope = ways.has_value.then(|| self.scope_of_loop(&l.body));
        let value_depth = self.fresh("depth");
        if let Some(scope) = &scope {
            self.exits.enter_value(value_depth.clone(), scope.clone());
        }
        let inner = self.loop_with_state(l, told_by, &ways);
        let Some(scope) = scope else { return inner };
        let is_used = self.exits.leave_loop().is_used;
        let record = is_used.then(|| record(&value_depth));
        let around = scope.around(&quote!(#inner), &quote!(_));
        parse_quote!({ #record #around })
    }

    fn loop_with_state(&mut self, l: &mut ExprLoop, told_by: &Expr, ways: &Ways) -> Expr {
        let (state, depth, told) = (self.fresh("loop"), self.fresh("depth"), self.fresh("told"));
        let mut uses = Uses::default();
        uses.visit_block(&l.body);
        let span = l.loop_token.span;
        let carry = self.scopes.carry(&uses, span, true, &[]);
        let name = l.label.as_ref().map(|l| l.name.clone());
        let entered = Loop {
            name: name.clone(),
            state: Some(state.clone()),
            uses,
            scopes: self.scopes.depth(),
            has_exits: true,
            has_value: ways.has_value,
            goes_to: None,
        };
        self.exits.enter_loop(depth.clone(), entered);
        let before = self.scopes.flow.clone();
        self.scopes.open_before(Later::again(&l.body));
        self.scopes.open();
        self.visit_block_mut(&mut l.body);
        self.scopes.close();
        self.scopes.close();
        let Left {
            is_used,
            breaks,
            goes_to,
        } = self.exits.leave_loop();
        self.scopes.flow = breaks.unwrap_or(before);
        let record = is_used.then(|| record(&depth));
        let after = (!ways.has_break).then(|| {
            // If `break`s give a value, control continues after the scope around the loop, which was entered last.
            let around = ways.has_value.then(|| self.exits.innermost());
            let way_on = around.or(goes_to).map(|target| self.way_on(target));
            let way_on = way_on.unwrap_or_else(|| quote!(::core::unreachable!()));
            quote_spanned!(span=> #state.never_ends(); #way_on)
        });
        let (body, label) = (&l.body, &l.label);
        let begin = quote_spanned!(span=> ::tilekit::rt::endless_loop(&#told));
        parse_quote!({
            #record
            let mut #told = ::core::option::Option::None;
            #[allow(warnings, reason = "the code is that of the loop, which rustc sees below")]
            {
                if false {
                    ::tilekit::rt::tell(&mut #told, #told_by);
                    ::core::unreachable!()
                }
            }
            let mut #state = #begin;
            #label loop {
                match #state.again(#carry) {
                    ::tilekit::rt::Again::On => {}
                    ::tilekit::rt::Again::Ended(__end) => { let _ = #state.end(__end); break #name }
                }
                let () = #body;
            }
            #after
        })
    }
}

/// What determines the kind of the loop: the statements before the first branch that leaves it, without exits, and the condition of that branch.
fn decision(l: &ExprLoop) -> Option<Block> {
    let label = l.label.as_ref();
    let leaves = |stmt: &&Stmt| Ways::of_stmt(stmt, label).leaves;
    let at = l.body.stmts.iter().position(|stmt| leaves(&stmt))?;
    let condition = condition(&l.body.stmts[at])?;
    let mut block: Block = parse_quote!({});
    block.stmts = l.body.stmts[..at].to_vec();
    block.stmts.push(Stmt::Expr(condition, None));
    // Exits inside the condition, and of inner loops before it, are kept.
    WithoutExits::default().visit_block_mut(&mut block);
    Some(block)
}

/// What a statement branches on: a condition, or the number of a `match`.
fn condition(stmt: &Stmt) -> Option<Expr> {
    let branch = match stmt {
        Stmt::Expr(expr, _) => expr,
        Stmt::Local(local) => {
            let init = local.init.as_ref()?;
            if init.diverge.is_some() {
                return None;
            }
            &init.expr
        }
        _ => return None,
    };
    match branch {
        Expr::If(i) if !has_let(&i.cond) && !matches!(*i.cond, Expr::Const(_)) => {
            Some((*i.cond).clone())
        }
        Expr::Match(m) if Rewriter::is_number_match(m) => {
            let number = &m.expr;
            Some(parse_quote!(::tilekit::rt::matched(&(#number))))
        }
        _ => None,
    }
}

/// How code leaves the loop around it.
#[derive(Default)]
pub(super) struct Ways {
    /// The labels of loops and blocks inside.
    inside: Vec<String>,
    /// How many loops are open inside.
    depth: usize,
    own: Option<String>,
    /// It leaves the loop, or begins it again.
    leaves: bool,
    /// A `break` goes to its end.
    has_break: bool,
    /// One of them gives a value.
    has_value: bool,
}

impl Ways {
    fn of(l: &ExprLoop) -> Ways {
        let mut ways = Ways::in_loop(l.label.as_ref());
        ways.visit_block(&l.body);
        // A `break` with a value goes to the end of the scope around the loop.
        ways.has_break &= !ways.has_value;
        ways
    }

    fn of_stmt(stmt: &Stmt, label: Option<&Label>) -> Ways {
        let mut ways = Ways::in_loop(label);
        ways.visit_stmt(stmt);
        ways
    }

    fn in_loop(label: Option<&Label>) -> Ways {
        Ways {
            own: label.map(|label| label.name.ident.to_string()),
            ..Ways::default()
        }
    }

    fn inner(&mut self, label: Option<&Label>, is_loop: bool, visit: impl FnOnce(&mut Self)) {
        let known = self.inside.len();
        self.inside
            .extend(label.map(|label| label.name.ident.to_string()));
        self.depth += usize::from(is_loop);
        visit(self);
        self.depth -= usize::from(is_loop);
        self.inside.truncate(known);
    }

    /// Does an exit with this label stay inside?
    fn stays(&self, label: Option<&Lifetime>) -> bool {
        match label {
            Some(label) => self.inside.contains(&label.ident.to_string()),
            None => self.depth > 0,
        }
    }

    /// Does one that does not stay go to the loop itself?
    fn is_own(&self, label: Option<&Lifetime>) -> bool {
        label.is_none_or(|label| self.own.as_deref() == Some(&*label.ident.to_string()))
    }
}

impl<'a> Visit<'a> for Ways {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::ForLoop(f) => {
                self.visit_expr(&f.expr);
                self.inner(f.label.as_ref(), true, |ways| ways.visit_block(&f.body));
            }
            Expr::While(w) => self.inner(w.label.as_ref(), true, |ways| {
                ways.visit_expr(&w.cond);
                ways.visit_block(&w.body);
            }),
            Expr::Loop(l) => self.inner(l.label.as_ref(), true, |ways| ways.visit_block(&l.body)),
            Expr::Block(b) if b.label.is_some() => {
                self.inner(b.label.as_ref(), false, |ways| ways.visit_block(&b.block));
            }
            Expr::Closure(_) | Expr::Async(_) => {}
            Expr::Return(_) => self.leaves = true,
            Expr::Break(b) => {
                if !self.stays(b.label.as_ref()) {
                    self.leaves = true;
                    let is_own = self.is_own(b.label.as_ref());
                    self.has_break |= is_own;
                    self.has_value |= is_own && b.expr.is_some();
                }
                visit::visit_expr(self, expr);
            }
            Expr::Continue(c) => self.leaves |= !self.stays(c.label.as_ref()),
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_item(&mut self, _: &'a syn::Item) {}
}

/// Replaces the exits out of the code by diverging expressions.
#[derive(Default)]
struct WithoutExits(Ways);

impl WithoutExits {
    fn inner(&mut self, label: Option<Label>, is_loop: bool, visit: impl FnOnce(&mut Self)) {
        let known = self.0.inside.len();
        self.0
            .inside
            .extend(label.map(|label| label.name.ident.to_string()));
        self.0.depth += usize::from(is_loop);
        visit(self);
        self.0.depth -= usize::from(is_loop);
        self.0.inside.truncate(known);
    }
}

impl VisitMut for WithoutExits {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let never = || -> Expr { parse_quote!(::core::unreachable!()) };
        match expr {
            Expr::ForLoop(f) => {
                self.visit_expr_mut(&mut f.expr);
                self.inner(f.label.clone(), true, |this| {
                    this.visit_block_mut(&mut f.body);
                });
            }
            Expr::While(w) => self.inner(w.label.clone(), true, |this| {
                this.visit_expr_mut(&mut w.cond);
                this.visit_block_mut(&mut w.body);
            }),
            Expr::Loop(l) => {
                self.inner(l.label.clone(), true, |this| {
                    this.visit_block_mut(&mut l.body);
                });
            }
            Expr::Block(b) if b.label.is_some() => {
                let label = b.label.clone();
                self.inner(label, false, |this| this.visit_block_mut(&mut b.block));
            }
            Expr::Closure(_) | Expr::Async(_) => {}
            Expr::Return(_) => *expr = never(),
            Expr::Break(b) if !self.0.stays(b.label.as_ref()) => *expr = never(),
            Expr::Continue(c) if !self.0.stays(c.label.as_ref()) => *expr = never(),
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}
