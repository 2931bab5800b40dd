//! `return`, `break`, `continue` and `?`: plain Rust under trace-time conditions, exits of loops and functions of the kernel under runtime conditions.
//!
//! An exit leaves the innermost arm or body of a runtime branch or loop, after it has recorded its target. Types tell which that is, so the expansion
//! asks each of those around, innermost first:
//!
//! ```text
//! break 'rows    match if1.inside() {
//!                    Inside::Kernel(exit) => { exit.leave(loop1.target(), "break", ..); break 'arm1; }
//!                    Inside::Host(host) => { if1.host(host); }
//!                }
//!                ..
//!                break 'rows
//! ```

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, Lifetime, parse_quote};

use super::exits::{Kind, Loop, Scope};
use super::flow::Missing;
use super::rewriter::Rewriter;

/// Under a runtime condition: `kernel`, then the path to the end of its arm or body.
fn ask(state: &Ident, exit: &Ident, kernel: &Tokens, jump: &Tokens) -> Tokens {
    quote! {
        match #state.inside() {
            ::tilekit::rt::Inside::Kernel(#exit) => { let _ = #kernel; #jump; }
            ::tilekit::rt::Inside::Host(__host) => { let _ = #state.host(__host); }
        }
    }
}

impl Rewriter {
    pub(super) fn exit(&mut self, expr: &mut Expr) {
        let span = expr.span();
        let (what, target) = match expr {
            Expr::Try(e) => {
                self.visit_expr_mut(&mut e.expr);
                self.question(e);
                return;
            }
            Expr::Return(e) => {
                if let Some(value) = &mut e.expr {
                    self.visit_expr_mut(value);
                }
                ("return", self.exits.function())
            }
            Expr::Break(e) => {
                if let Some(value) = &mut e.expr {
                    self.visit_expr_mut(value);
                }
                let target = self.exits.target(e.label.as_ref());
                self.name_target(target, &mut e.label);
                if let Some(target) = target {
                    self.meet_break(target, span);
                }
                ("break", target.map(|target| self.value_of(target, e)))
            }
            Expr::Continue(e) => {
                let target = self.exits.target(e.label.as_ref());
                self.name_target(target, &mut e.label);
                ("continue", target)
            }
            _ => return,
        };
        self.scopes.flow.end();
        // A `break` to nowhere is left to rustc.
        let Some(target) = target else { return };
        if self.exits.is_open(target) {
            *expr = self.way_out(expr, what, target, span);
            return;
        }
        let is_block = matches!(self.exits.0[target].kind, Kind::Block(_));
        let what = if is_block {
            "break out of a block"
        } else {
            what
        };
        let depth = self.exits.depth(target);
        let guard = quote_spanned!(span=> ::tilekit::rt::leaving(#what, #depth));
        if let (Kind::Value(scope), Expr::Break(e)) = (&self.exits.0[target].kind, &*expr) {
            let (label, value) = (&scope.label, &e.expr);
            *expr = parse_quote!({ #guard; break #label ::core::option::Option::Some(#value) });
            return;
        }
        *expr = parse_quote!({ #guard; #expr });
    }

    /// Where a `break` goes that gives its loop a value: what is around the loop.
    fn value_of(&self, target: usize, e: &syn::ExprBreak) -> usize {
        match &self.exits.0[target].kind {
            Kind::Loop(l) if l.has_value && e.expr.is_some() => target - 1,
            _ => target,
        }
    }

    /// `?` leaves under trace-time conditions alone.
    fn question(&mut self, e: &mut syn::ExprTry) {
        let Some(function) = self.exits.function() else {
            return;
        };
        let depth = self.exits.depth(function);
        let (inner, span) = (&e.expr, e.question_token.span);
        let asked = if let Some(Scope { state, .. }) = self.exits.scope() {
            quote_spanned!(span=> #state.question(#inner))
        } else {
            quote!(#inner)
        };
        let guarded = quote_spanned!(span=> ::tilekit::rt::question(#asked, #depth));
        *e.expr = Expr::Verbatim(guarded);
    }

    /// Names the loop that a `break` or `continue` goes to.
    fn name_target(&self, target: Option<usize>, label: &mut Option<Lifetime>) {
        if let (None, Some(target)) = (&label, target)
            && let Kind::Loop(l) = &self.exits.0[target].kind
        {
            label.clone_from(&l.name);
        }
    }

    /// A `break` takes along what is known here.
    fn meet_break(&mut self, target: usize, span: Span) {
        let missing = Missing::new(span, "before this `break`");
        match &mut self.exits.0[target].breaks {
            Some(flow) => flow.meet(missing, &self.scopes.flow, missing),
            none => *none = Some(self.scopes.flow.clone()),
        }
    }

    /// Asks all scopes around whether their condition is a runtime one, and leaves.
    fn way_out(&mut self, expr: &Expr, what: &str, target: usize, span: Span) -> Expr {
        let exit = Ident::new("__exit", Span::mixed_site());
        let between = self.exits.between(target);
        let (value, kernel, own, last) = match &self.exits.0[target].kind {
            Kind::Function(Some(scope)) | Kind::Value(scope) => {
                let Scope { state, label, .. } = scope;
                let given = Ident::new("__given", Span::mixed_site());
                let value = match expr {
                    Expr::Return(syn::ExprReturn {
                        expr: Some(value), ..
                    })
                    | Expr::Break(syn::ExprBreak {
                        expr: Some(value), ..
                    }) => quote!(let #given = #value;),
                    _ => quote!(let #given = ();),
                };
                let reach = scope.reach(&|name| self.scopes.is_hidden(name, scope.scopes));
                let kernel = quote_spanned!(span=> #exit.give(&mut #state, #given, #reach));
                let last = quote!(break #label ::core::option::Option::Some(#given));
                (value, kernel, None, last)
            }
            Kind::Loop(l) => {
                let goal = if let Some(state) = &l.state {
                    quote!(#state.target())
                } else {
                    quote!(::tilekit::rt::ExitTarget::host())
                };
                let reach = self.reach_of_loop(target, l);
                let kernel = quote_spanned!(span=> #exit.leave(#goal, #what, #reach));
                let name = &l.name;
                let own = l.state.clone().map(|state| (state, quote!(continue #name)));
                (Tokens::new(), kernel, own, quote!(#expr))
            }
            _ => (Tokens::new(), Tokens::new(), None, quote!(#expr)),
        };
        let ways = between.iter().chain(&own);
        let asked = ways.map(|(state, jump)| ask(state, &exit, &kernel, jump));
        parse_quote!({ #value #(#asked)* #last })
    }

    /// After an `if` of which no arm goes on: the way to the end of what is around, out to where the exits in it go.
    pub(super) fn way_on(&mut self, target: usize) -> Tokens {
        let exit = Ident::new("__exit", Span::mixed_site());
        let between = self.exits.between(target);
        let nothing = quote!(#exit.pass());
        let (own, last) = match &self.exits.0[target].kind {
            Kind::Function(Some(Scope { label, .. })) | Kind::Value(Scope { label, .. }) => {
                (None, quote!(break #label ::core::option::Option::None))
            }
            Kind::Loop(l) => {
                let name = &l.name;
                let own = l.state.clone().map(|state| (state, quote!(continue #name)));
                (
                    own,
                    quote!(::core::unreachable!("the exit of a host loop is reported")),
                )
            }
            _ => (
                None,
                quote!(::core::unreachable!("exits go to loops and functions")),
            ),
        };
        let ways = between.iter().chain(&own);
        let asked = ways.map(|(state, jump)| ask(state, &exit, &nothing, jump));
        quote!(#(#asked)* #last)
    }

    /// The variables of a loop as they are here. What another variable hides was kept where it was hidden; what an arm on the way uses up is
    /// gone.
    fn reach_of_loop(&self, target: usize, l: &Loop) -> Tokens {
        let between = &self.exits.0[target + 1..];
        let is_gone = |name: &str| {
            between.iter().any(|exit| match &exit.kind {
                Kind::Arm(arm) => arm.uses.uses_up(name),
                _ => false,
            })
        };
        let is_seen = |ident: &Ident| {
            let name = syn::ext::IdentExt::unraw(ident).to_string();
            !self.scopes.is_hidden(&name, l.scopes) && !is_gone(&name)
        };
        let closure = self
            .scopes
            .carry_where(&l.uses, Span::mixed_site(), true, &is_seen);
        closure.with(&Tokens::new())
    }
}
