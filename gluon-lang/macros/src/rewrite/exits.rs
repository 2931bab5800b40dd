//! `return`, `break`, `continue` and `?`: free on the host, refused where the kernel decides at run time.

use proc_macro2::Ident;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, Label, Lifetime, Stmt, parse_quote};

use super::Rewriter;

/// The functions and loops around, innermost last.
#[derive(Default)]
pub(super) struct Exits(Vec<Exit>);

struct Exit {
    /// Holds how many regions were open where this was entered.
    depth: Ident,
    kind: Kind,
    is_used: bool,
}

enum Kind {
    Function,
    Loop(Option<String>),
    Block(Option<String>),
}

impl Exits {
    pub(super) fn enter_function(&mut self, depth: Ident) {
        self.0.push(Exit {
            depth,
            kind: Kind::Function,
            is_used: false,
        });
    }

    /// Did anything leave early?
    pub(super) fn leave_function(&mut self) -> bool {
        self.0.pop().is_some_and(|exit| exit.is_used)
    }

    pub(super) fn enter_loop(&mut self, depth: Ident, label: Option<&Label>) {
        self.0.push(Exit {
            depth,
            kind: Kind::Loop(label.map(|l| l.name.ident.to_string())),
            is_used: false,
        });
    }

    pub(super) fn enter_block(&mut self, depth: Ident, label: Option<&Label>) {
        self.0.push(Exit {
            depth,
            kind: Kind::Block(label.map(|l| l.name.ident.to_string())),
            is_used: false,
        });
    }

    pub(super) fn leave_loop(&mut self) -> bool {
        self.leave_function()
    }

    /// The depth that a `return` or `?` goes to.
    fn function(&mut self) -> Option<Ident> {
        self.find(|kind| matches!(kind, Kind::Function))
    }

    /// The depth that a `break` or `continue` goes to.
    fn target(&mut self, label: Option<&Lifetime>) -> Option<Ident> {
        let label = label.map(|l| l.ident.to_string());
        self.find(|kind| match kind {
            Kind::Function => false,
            Kind::Loop(name) => label.is_none() || *name == label,
            Kind::Block(name) => label.is_some() && *name == label,
        })
    }

    fn find(&mut self, is_it: impl Fn(&Kind) -> bool) -> Option<Ident> {
        let exit = self.0.iter_mut().rev().find(|exit| is_it(&exit.kind))?;
        exit.is_used = true;
        Some(exit.depth.clone())
    }
}

/// Takes down how many regions are open.
pub(super) fn record(depth: &Ident) -> Stmt {
    parse_quote!(let #depth = ::tilekit::rt::depth();)
}

impl Rewriter {
    pub(super) fn exit(&mut self, expr: &mut Expr) {
        let span = expr.span();
        let (what, depth) = match expr {
            Expr::Try(e) => {
                self.visit_expr_mut(&mut e.expr);
                if let Some(depth) = self.exits.function() {
                    let (inner, span) = (&e.expr, e.question_token.span);
                    let guarded = quote_spanned!(span=> ::tilekit::rt::question(#inner, #depth));
                    *e.expr = Expr::Verbatim(guarded);
                }
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
                ("break", self.exits.target(e.label.as_ref()))
            }
            Expr::Continue(e) => ("continue", self.exits.target(e.label.as_ref())),
            _ => return,
        };
        // A `break` to nowhere is left to rustc.
        let Some(depth) = depth else { return };
        let guard = quote_spanned!(span=> ::tilekit::rt::leaving(#what, #depth));
        *expr = parse_quote!({ #guard; #expr });
    }
}
