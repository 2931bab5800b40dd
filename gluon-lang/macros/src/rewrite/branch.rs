//! `if`.

use proc_macro2::Span;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Expr, Stmt, parse_quote};

use super::Rewriter;
use super::uses::Uses;

/// Is it an `if let`, or a chain with one? Patterns are matched on the host.
pub(super) fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => has_let(&b.left) || has_let(&b.right),
        _ => false,
    }
}

impl Rewriter {
    pub(super) fn branch(&mut self, expr: &mut Expr) {
        let Expr::If(i) = expr else { return };
        if has_let(&i.cond) || matches!(*i.cond, Expr::Const(_)) {
            self.host_branch(i);
            return;
        }
        let mut uses = Uses::default();
        uses.visit_block(&i.then_branch);
        if let Some((_, otherwise)) = &i.else_branch {
            uses.visit_expr(otherwise);
        }
        let (state, value) = (self.fresh("if"), self.fresh("value"));
        let mut other = self.fresh("other");
        let (mut then_value, mut else_value) = (self.fresh("then"), self.fresh("else"));
        for ident in [&mut then_value, &mut else_value] {
            ident.set_span(i.if_token.span.resolved_at(Span::mixed_site()));
        }
        let carry = self.scopes.carry(&uses, i.if_token.span, false);
        self.visit_expr_mut(&mut i.cond);
        let before = self.fork();
        self.visit_block_mut(&mut i.then_branch);
        let then_end = self.other_arm(&before);
        // Where the arms disagree, it is the second that rustc complains of.
        let mut other_span = i.if_token.span;
        let otherwise = if let Some((token, otherwise)) = &mut i.else_branch {
            other_span = value_span(otherwise).unwrap_or(token.span);
            self.visit_expr_mut(otherwise);
            quote!(#otherwise)
        } else {
            quote!({})
        };
        let arms = self.join_arms(&before, then_end, i);
        let (cond, then) = (&i.cond, &i.then_branch);
        let other_span = other_span.resolved_at(Span::mixed_site());
        other.set_span(other_span);
        let begin = quote_spanned!(i.if_token.span=> ::tilekit::rt::Branch::begin(#cond));
        // A value that no branch can give is shown at the `if`.
        let span = i.if_token.span.resolved_at(Span::mixed_site());
        let lent = quote_spanned!(span=> &mut #then_value);
        let next = quote_spanned!(span=> #state.otherwise(#carry, #lent));
        let end = quote_spanned!(span=> #state.end(#carry, #then_value, #else_value));
        let (first, second) = (arms.first(), arms.second());
        let (given, others) = arms.values(&value, &other, &then_value);
        // What is wanted of the value is told where the first arm gives it.
        let mut all = self.fresh("all");
        let last = i.then_branch.stmts.last().map(Spanned::span);
        all.set_span(last.unwrap_or(span).resolved_at(Span::mixed_site()));
        let end = arms.unpack(&all, &end);
        *expr = parse_quote!({
            let mut #state = #begin;
            #[allow(unreachable_code, unused_braces, reason = "an arm may leave")]
            let mut #then_value = if #state.then(#carry) {
                #first
                let #value = #then;
                ::core::option::Option::Some(#given)
            } else {
                ::core::option::Option::None
            };
            #[allow(unreachable_code, unused_braces, reason = "an arm may leave")]
            let #else_value = if #next {
                #second
                let #other = #otherwise;
                #others
            } else {
                ::core::option::Option::None
            };
            #end
        });
    }

    /// Binds what the patterns of a condition bind.
    pub(super) fn bind_lets(&mut self, condition: &Expr) {
        Lets(self).visit_expr(condition);
    }

    fn host_branch(&mut self, i: &mut syn::ExprIf) {
        self.scopes.open();
        if !matches!(*i.cond, Expr::Const(_)) {
            self.visit_expr_mut(&mut i.cond);
        }
        self.bind_lets(&i.cond);
        let before = self.fork();
        self.visit_block_mut(&mut i.then_branch);
        self.scopes.close();
        let then_end = self.other_arm(&before);
        if let Some((_, otherwise)) = &mut i.else_branch {
            self.visit_expr_mut(otherwise);
        }
        // The arms stay as they are written, so that rustc sees what they assign.
        self.join_arms(&before, then_end, i);
    }
}

/// Where the value of an `else` stands.
fn value_span(otherwise: &Expr) -> Option<Span> {
    let Expr::Block(block) = otherwise else {
        return Some(otherwise.span());
    };
    match block.block.stmts.last()? {
        Stmt::Expr(value, None) => Some(value.span()),
        _ => None,
    }
}

/// Finds the patterns of a condition.
struct Lets<'a>(&'a mut Rewriter);

impl<'b> Visit<'b> for Lets<'_> {
    fn visit_expr_let(&mut self, l: &'b syn::ExprLet) {
        self.0.scopes.add_matched(&l.pat, &l.expr, &[]);
    }
    fn visit_expr_closure(&mut self, _: &'b syn::ExprClosure) {}
    fn visit_expr_block(&mut self, _: &'b syn::ExprBlock) {}
}
