//! `if`.

use quote::{quote, quote_spanned};
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Expr, parse_quote};

use super::Rewriter;
use super::scope::Uses;

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
        let (then_value, else_value) = (self.fresh("then"), self.fresh("else"));
        let carry = self.scopes.carry(&uses, i.if_token.span, false);
        self.visit_expr_mut(&mut i.cond);
        self.visit_block_mut(&mut i.then_branch);
        let otherwise = if let Some((_, otherwise)) = &mut i.else_branch {
            self.visit_expr_mut(otherwise);
            quote!(#otherwise)
        } else {
            quote!({})
        };
        let (cond, then) = (&i.cond, &i.then_branch);
        let begin = quote_spanned!(i.if_token.span=> ::tilekit::rt::Branch::begin(#cond));
        *expr = parse_quote!({
            let mut #state = #begin;
            #[allow(unreachable_code, unused_braces, reason = "an arm may leave")]
            let mut #then_value = if #state.then(#carry) {
                let #value = #then;
                ::core::option::Option::Some(#value)
            } else {
                ::core::option::Option::None
            };
            #[allow(unreachable_code, unused_braces, reason = "an arm may leave")]
            let #else_value = if #state.otherwise(#carry, &mut #then_value) {
                let #value = #otherwise;
                ::core::option::Option::Some(#value)
            } else {
                ::core::option::Option::None
            };
            #state.end(#carry, #then_value, #else_value)
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
        self.visit_block_mut(&mut i.then_branch);
        self.scopes.close();
        if let Some((_, otherwise)) = &mut i.else_branch {
            self.visit_expr_mut(otherwise);
        }
    }
}

/// Finds the patterns of a condition.
struct Lets<'a>(&'a mut Rewriter);

impl<'b> Visit<'b> for Lets<'_> {
    fn visit_expr_let(&mut self, l: &'b syn::ExprLet) {
        self.0.scopes.add_pattern(&l.pat);
    }
    fn visit_expr_closure(&mut self, _: &'b syn::ExprClosure) {}
    fn visit_expr_block(&mut self, _: &'b syn::ExprBlock) {}
}
