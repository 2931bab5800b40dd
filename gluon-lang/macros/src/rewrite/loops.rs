//! `for`, `while` and `loop`.

use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, Pat, parse_quote};

use super::Rewriter;
use super::branch::has_let;
use super::exits::record;
use super::uses::Uses;

impl Rewriter {
    pub(super) fn for_loop(&mut self, expr: &mut Expr) {
        let Expr::ForLoop(f) = expr else { return };
        let mut uses = Uses::default();
        uses.visit_block(&f.body);
        let (state, depth, item) = (self.fresh("loop"), self.fresh("depth"), self.fresh("item"));
        let carry = self.scopes.carry(&uses, f.for_token.span, true);
        let iterated = f.expr.clone();
        self.visit_expr_mut(&mut f.expr);
        self.exits.enter_loop(depth.clone(), f.label.as_ref());
        self.scopes.open();
        self.scopes.add_items(&f.pat, &iterated);
        self.visit_block_mut(&mut f.body);
        self.scopes.close();
        let record = self.exits.leave_loop().then(|| record(&depth));
        let name = match &*f.pat {
            Pat::Ident(ident) => ident.ident.unraw().to_string(),
            _ => String::new(),
        };
        let (pat, range, body, label) = (&f.pat, &f.expr, &f.body.stmts, &f.label);
        // The whole call takes the author's span, so that the place of the loop is its `for`.
        let into_loop =
            quote_spanned!(f.for_token.span=> ::tilekit::rt::IntoLoop::into_loop(#range));
        *expr = parse_quote! {
            match #into_loop {
                mut #state => {
                    #record
                    #label while let ::core::option::Option::Some(#item) = #state.step(#name, #carry) {
                        let #pat = #item;
                        #(#body)*
                    }
                }
            }
        };
    }

    pub(super) fn while_loop(&mut self, expr: &mut Expr) {
        let Expr::While(w) = expr else { return };
        let (state, depth, condition) = (
            self.fresh("while"),
            self.fresh("depth"),
            self.fresh("condition"),
        );
        let mut uses = Uses::default();
        uses.visit_expr(&w.cond);
        uses.visit_block(&w.body);
        let carry = self.scopes.carry(&uses, w.while_token.span, true);
        let is_host = has_let(&w.cond) || matches!(*w.cond, Expr::Const(_));
        self.exits.enter_loop(depth.clone(), w.label.as_ref());
        self.scopes.open();
        self.visit_expr_mut(&mut w.cond);
        self.bind_lets(&w.cond);
        self.visit_block_mut(&mut w.body);
        self.scopes.close();
        let record = self.exits.leave_loop().then(|| record(&depth));
        if is_host {
            let inner = &*w;
            *expr = parse_quote!({ #record #inner });
            return;
        }
        let (cond, body, label) = (&w.cond, &w.body, &w.label);
        let start = quote_spanned!(w.while_token.span=> ::tilekit::rt::while_loop(|| #cond));
        *expr = parse_quote!({
            #record
            // The closure is never called: it only tells the type of the condition.
            let mut #state = #start;
            #label while #state.test(#carry) && {
                let #condition = #cond;
                #state.decide(#condition, #carry)
            } #body
        });
    }

    pub(super) fn endless_loop(&mut self, expr: &mut Expr) {
        let Expr::Loop(l) = expr else { return };
        let depth = self.fresh("depth");
        self.exits.enter_loop(depth.clone(), l.label.as_ref());
        self.visit_block_mut(&mut l.body);
        if self.exits.leave_loop() {
            let (record, inner) = (record(&depth), quote!(#l));
            *expr = parse_quote!({ #record #inner });
        }
    }

    /// A block that a `break` with its label may leave.
    pub(super) fn labelled_block(&mut self, expr: &mut Expr) {
        let Expr::Block(b) = expr else { return };
        let depth = self.fresh("depth");
        self.exits.enter_block(depth.clone(), b.label.as_ref());
        self.visit_block_mut(&mut b.block);
        if self.exits.leave_loop() {
            let (record, inner) = (record(&depth), quote!(#b));
            *expr = parse_quote!({ #record #inner });
        }
    }
}
