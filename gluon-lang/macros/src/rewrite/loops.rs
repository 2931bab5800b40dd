//! `for`, `while` and `loop`.

use proc_macro2::{Ident, Span};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprRange, Label, Lifetime, Pat, RangeLimits, Stmt, Token, parse_quote};

use super::Rewriter;
use super::branch::has_let;
use super::deferred::{Flow, Missing};
use super::exits::record;
use super::later::Later;
use super::uses::Uses;

/// `low..high` of the host, alone or with adapters: where its ends are values of the kernel, rustc says what to write.
fn host_range(iterated: &mut Expr) {
    match iterated {
        Expr::Paren(paren) => host_range(&mut paren.expr),
        Expr::MethodCall(call) => host_range(&mut call.receiver),
        Expr::Range(ExprRange {
            start: Some(low),
            end: Some(high),
            limits,
            ..
        }) => {
            let method = match limits {
                RangeLimits::HalfOpen(_) => "up_to",
                RangeLimits::Closed(_) => "through",
            };
            let span = limits.span();
            let method = Ident::new(method, span);
            *iterated =
                Expr::Verbatim(quote_spanned!(span=> ::tilekit::rt::HostEnd::#method(#low, #high)));
        }
        _ => {}
    }
}

impl Rewriter {
    pub(super) fn for_loop(&mut self, expr: &mut Expr) {
        let Expr::ForLoop(f) = expr else { return };
        self.label(&mut f.label);
        let mut uses = Uses::default();
        uses.visit_block(&f.body);
        let (state, depth, item) = (self.fresh("loop"), self.fresh("depth"), self.fresh("item"));
        let carry = self.scopes.carry(&uses, f.for_token.span, true, &[]);
        let iterated = f.expr.clone();
        self.visit_expr_mut(&mut f.expr);
        host_range(&mut f.expr);
        self.exits.enter_loop(depth.clone(), f.label.as_ref());
        self.scopes.open_before(Later::again(&f.body));
        self.scopes.open();
        self.scopes.add_items(&f.pat, &iterated);
        let before = self.scopes.flow.clone();
        self.visit_block_mut(&mut f.body);
        self.scopes.close();
        self.scopes.close();
        let record = self.leave_loop(before, f.for_token.span, &depth);
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
        self.label(&mut w.label);
        let (state, depth, condition) = (
            self.fresh("while"),
            self.fresh("depth"),
            self.fresh("condition"),
        );
        let mut uses = Uses::default();
        uses.visit_expr(&w.cond);
        uses.visit_block(&w.body);
        let carry = self.scopes.carry(&uses, w.while_token.span, true, &[]);
        let is_host = has_let(&w.cond) || matches!(*w.cond, Expr::Const(_));
        self.exits.enter_loop(depth.clone(), w.label.as_ref());
        self.scopes.open_before(Later::again(&w.body));
        self.scopes.open();
        self.visit_expr_mut(&mut w.cond);
        self.bind_lets(&w.cond);
        let before = self.scopes.flow.clone();
        self.visit_block_mut(&mut w.body);
        self.scopes.close();
        self.scopes.close();
        let record = self.leave_loop(before, w.while_token.span, &depth);
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
        self.label(&mut l.label);
        let depth = self.fresh("depth");
        self.exits.enter_loop(depth.clone(), l.label.as_ref());
        let before = self.scopes.flow.clone();
        self.scopes.open_before(Later::again(&l.body));
        self.visit_block_mut(&mut l.body);
        self.scopes.close();
        let (is_left, breaks) = self.exits.leave_loop();
        // What follows is reached by a `break` alone.
        self.scopes.flow = breaks.unwrap_or(before);
        if is_left {
            let (record, inner) = (record(&depth), quote!(#l));
            *expr = parse_quote!({ #record #inner });
        }
    }

    /// Every loop gets a label: the arms of branches are in blocks that have one, through which a `break` without one cannot
    /// pass.
    fn label(&mut self, label: &mut Option<Label>) {
        if label.is_none() {
            let name = self.fresh("loop").to_string();
            *label = Some(Label {
                name: Lifetime::new(&format!("'{name}"), Span::mixed_site()),
                colon_token: <Token![:]>::default(),
            });
        }
    }

    /// A block that a `break` with its label may leave.
    pub(super) fn labelled_block(&mut self, expr: &mut Expr) {
        let Expr::Block(b) = expr else { return };
        let depth = self.fresh("depth");
        self.exits.enter_block(depth.clone(), b.label.as_ref());
        self.visit_block_mut(&mut b.block);
        let (is_left, breaks) = self.exits.leave_loop();
        if let Some(breaks) = breaks {
            let missing = Missing::new(b.block.span(), "by every way out of this block");
            self.scopes.flow.meet(missing, &breaks, missing);
        }
        if is_left {
            let (record, inner) = (record(&depth), quote!(#b));
            *expr = parse_quote!({ #record #inner });
        }
    }

    /// After a loop that may not run at all: gives the statement that takes down where its `break`s go.
    fn leave_loop(&mut self, before: Flow, span: Span, depth: &Ident) -> Option<Stmt> {
        let (is_left, breaks) = self.exits.leave_loop();
        let missing = Missing::new(span, "if this loop does not run");
        let body = std::mem::replace(&mut self.scopes.flow, before);
        for flow in breaks.iter().chain([&body]) {
            self.scopes.flow.meet(missing, flow, missing);
        }
        is_left.then(|| record(depth))
    }
}
