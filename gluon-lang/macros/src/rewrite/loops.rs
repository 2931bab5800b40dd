//! `for` and `while`.

use std::collections::HashSet;

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprRange, Label, Lifetime, Pat, RangeLimits, Stmt, Token, parse_quote};

use super::branch::has_let;
use super::exits::{Found, Loop, record};
use super::flow::{Flow, Missing};
use super::later::Later;
use super::rewriter::Rewriter;
use super::uses::Uses;

/// A host range `low..high`, alone or with adapters: if its bounds are runtime values, rustc reports what to write.
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
        let has_exits = Found::in_block(&f.body).any;
        self.enter_loop(&depth, f.label.as_ref(), Some(&state), uses, has_exits);
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
        let has_exits = Found::in_block(&w.body).any;
        let followed = (!is_host).then_some(&state);
        self.enter_loop(&depth, w.label.as_ref(), followed, uses, has_exits);
        self.scopes.open_before(Later::again(&w.body));
        self.scopes.open();
        let test = self.fresh("depth");
        self.exits.enter_test(test);
        self.visit_expr_mut(&mut w.cond);
        self.exits.leave_function();
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

    fn enter_loop(
        &mut self,
        depth: &Ident,
        label: Option<&Label>,
        state: Option<&Ident>,
        uses: Uses,
        has_exits: bool,
    ) {
        let entered = Loop {
            name: label.map(|l| l.name.clone()),
            state: state.cloned(),
            uses,
            scopes: self.scopes.depth(),
            has_exits,
            has_value: false,
            goes_to: None,
        };
        self.exits.enter_loop(depth.clone(), entered);
    }

    /// Before a `let`: enclosing loops keep the variables that it shadows.
    pub(super) fn hide(&self, pattern: &Pat) -> Vec<Stmt> {
        let mut bound = Bound::default();
        bound.visit_pat(pattern);
        let mut out = Vec::new();
        for (l, state) in self.exits.loops().filter(|(l, _)| l.has_exits) {
            let is_hidden = |ident: &Ident| {
                let name = ident.unraw().to_string();
                bound.0.contains(&name) && !self.scopes.is_hidden(&name, l.scopes)
            };
            let closure = self
                .scopes
                .carry_where(&l.uses, Span::mixed_site(), true, &is_hidden);
            if !closure.is_empty() {
                let closure = closure.with(&Tokens::new());
                out.push(parse_quote!(#state.hide(#closure);));
            }
        }
        out
    }

    /// Every loop gets a label: the arms of branches are in blocks that have one, through which a `break` without one cannot
    /// pass.
    pub(super) fn label(&mut self, label: &mut Option<Label>) {
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
        let left = self.exits.leave_loop();
        if let Some(breaks) = left.breaks {
            let missing = Missing::new(b.block.span(), "on every exit of this block");
            self.scopes.flow.meet(missing, &breaks, missing);
        }
        if left.is_used {
            let (record, inner) = (record(&depth), quote!(#b));
            *expr = parse_quote!({ #record #inner });
        }
    }

    /// After a loop that may have no iteration: returns the statement that records the targets of its `break`s.
    fn leave_loop(&mut self, before: Flow, span: Span, depth: &Ident) -> Option<Stmt> {
        let left = self.exits.leave_loop();
        let missing = Missing::new(span, "if this loop has no iteration");
        let body = std::mem::replace(&mut self.scopes.flow, before);
        for flow in left.breaks.iter().chain([&body]) {
            self.scopes.flow.meet(missing, flow, missing);
        }
        left.is_used.then(|| record(depth))
    }
}

/// The names that a pattern binds.
#[derive(Default)]
struct Bound(HashSet<String>);

impl<'a> Visit<'a> for Bound {
    fn visit_pat_ident(&mut self, ident: &'a syn::PatIdent) {
        self.0.insert(ident.ident.unraw().to_string());
        syn::visit::visit_pat_ident(self, ident);
    }

    fn visit_expr(&mut self, _: &'a Expr) {}
}
