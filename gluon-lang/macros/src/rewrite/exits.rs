//! `return`, `break`, `continue` and `?`: free on the host, refused where the kernel decides at run time.

use proc_macro2::{Ident, Span};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, Label, Lifetime, Stmt, parse_quote};

use super::Rewriter;
use super::deferred::{Flow, Missing};

/// The functions and loops around, innermost last.
#[derive(Default)]
pub(super) struct Exits(Vec<Exit>);

struct Exit {
    /// Holds how many regions were open where this was entered.
    depth: Ident,
    kind: Kind,
    is_used: bool,
    /// What is known where its `break`s meet.
    breaks: Option<Flow>,
}

enum Kind {
    Function,
    Loop(Option<Lifetime>),
    Block(Option<Lifetime>),
}

impl Exit {
    /// Names the loop that a `break` or `continue` goes to, and gives its depth.
    fn go_to(&self, label: &mut Option<Lifetime>) -> Ident {
        if let (None, Kind::Loop(name)) = (&label, &self.kind) {
            label.clone_from(name);
        }
        self.depth.clone()
    }
}

impl Exits {
    pub(super) fn enter_function(&mut self, depth: Ident) {
        self.0.push(Exit {
            depth,
            kind: Kind::Function,
            is_used: false,
            breaks: None,
        });
    }

    /// Did anything leave early?
    pub(super) fn leave_function(&mut self) -> bool {
        self.0.pop().is_some_and(|exit| exit.is_used)
    }

    pub(super) fn enter_loop(&mut self, depth: Ident, label: Option<&Label>) {
        self.0.push(Exit {
            depth,
            kind: Kind::Loop(label.map(|l| l.name.clone())),
            is_used: false,
            breaks: None,
        });
    }

    pub(super) fn enter_block(&mut self, depth: Ident, label: Option<&Label>) {
        self.0.push(Exit {
            depth,
            kind: Kind::Block(label.map(|l| l.name.clone())),
            is_used: false,
            breaks: None,
        });
    }

    /// The same of a loop or block, and what is known where its `break`s meet.
    pub(super) fn leave_loop(&mut self) -> (bool, Option<Flow>) {
        let exit = self.0.pop();
        exit.map_or((false, None), |exit| (exit.is_used, exit.breaks))
    }

    /// The depth that a `return` or `?` goes to.
    fn function(&mut self) -> Option<Ident> {
        let exit = self.find(|kind| matches!(kind, Kind::Function))?;
        Some(exit.depth.clone())
    }

    /// The depth that a `break` or `continue` goes to.
    fn target(&mut self, label: Option<&Lifetime>) -> Option<&mut Exit> {
        let is_it = |name: &Option<Lifetime>| match (name, label) {
            (Some(name), Some(label)) => name.ident == label.ident,
            _ => false,
        };
        self.find(|kind| match kind {
            Kind::Function => false,
            Kind::Loop(name) => label.is_none() || is_it(name),
            Kind::Block(name) => is_it(name),
        })
    }

    fn find(&mut self, is_it: impl Fn(&Kind) -> bool) -> Option<&mut Exit> {
        let exit = self.0.iter_mut().rev().find(|exit| is_it(&exit.kind))?;
        exit.is_used = true;
        Some(exit)
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
                ("break", self.break_to(&mut e.label, span))
            }
            Expr::Continue(e) => {
                let exit = self.exits.target(e.label.as_ref());
                let depth = exit.map(|exit| exit.go_to(&mut e.label));
                ("continue", depth)
            }
            _ => return,
        };
        self.scopes.flow.end();
        // A `break` to nowhere is left to rustc.
        let Some(depth) = depth else { return };
        let guard = quote_spanned!(span=> ::tilekit::rt::leaving(#what, #depth));
        *expr = parse_quote!({ #guard; #expr });
    }
    /// The depth that a `break` goes to, which takes along what is known here.
    fn break_to(&mut self, label: &mut Option<Lifetime>, span: Span) -> Option<Ident> {
        let exit = self.exits.target(label.as_ref())?;
        let missing = Missing::new(span, "before this `break`");
        match &mut exit.breaks {
            Some(flow) => flow.meet(missing, &self.scopes.flow, missing),
            None => exit.breaks = Some(self.scopes.flow.clone()),
        }
        Some(exit.go_to(label))
    }
}
