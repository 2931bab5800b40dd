//! Closures that change what they capture. While one is alive, it borrows the variables, so a loop or branch that calls it could not
//! carry them. They are passed at each call instead:
//!
//! ```text
//! let mut add = |x| sum += x;         let add = |sum: &mut _, x| *sum += x;
//! for i in range(0, n) { add(i); }    for i in range(0, n) { add(&mut sum, i); }
//! ```

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream as Tokens, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprClosure, ExprPath, Pat, PatIdent, PatType, Stmt, Token, parse_quote};

use super::rewriter::Rewriter;
use super::scope::Binding;
use super::uses::{is_assignment, places, root_ident};

impl Rewriter {
    /// Turns such a closure and its calls in the statements after it, if one of them stands in a loop or branch and nothing
    /// but calls uses it. Gives the statements that stand before it then.
    pub(super) fn lend_captures(&self, stmt: &mut Stmt, rest: &mut [Stmt]) -> Vec<Stmt> {
        let Some((pattern, closure)) = bound_closure(stmt) else {
            return Vec::new();
        };
        let (name, is_mut) = (pattern.ident.clone(), pattern.mutability.is_some());
        let mut calls = Calls::of(&name);
        for stmt in rest.iter() {
            calls.visit_stmt(stmt);
        }
        if calls.is_used_otherwise || !calls.is_in_region {
            return Vec::new();
        }
        let Some(lent) = self.changed_captures(closure, is_mut) else {
            return Vec::new();
        };
        lend(closure, &lent);
        if let Stmt::Local(local) = stmt {
            unmut(&mut local.pat);
        }
        let types = lent.iter().map(|ident| {
            let (held, span) = (held_type(ident), ident.span());
            let ty = quote_spanned!(span=> let #held = ::tilekit::rt::type_of(&#ident););
            parse_quote!(#ty)
        });
        let types = types.collect();
        let mut pass = Pass { name, lent };
        for stmt in rest {
            pass.visit_stmt_mut(stmt);
        }
        types
    }

    /// The captured variables that the closure changes; `None` if there are none, or one that cannot be passed. One that is `mut` changes by methods whose values are not used.
    fn changed_captures(&self, closure: &ExprClosure, is_mut: bool) -> Option<Vec<Ident>> {
        let mut body = Body::default();
        body.visit_expr_closure(closure);
        if is_mut {
            body.call_at_the_end(&closure.body);
            body.updated.append(&mut body.called);
        }
        let mut lent: Vec<Ident> = Vec::new();
        for ident in body.changed {
            let name = ident.unraw().to_string();
            if body.bound.contains(&name) {
                // The closure's own, unless it shadows one that is captured.
                if self.is_captured(&name) {
                    return None;
                }
                continue;
            }
            if body.in_macros.contains(&name) || !self.can_be_lent(&name) {
                return None;
            }
            if !lent.contains(&ident) {
                lent.push(ident);
            }
        }
        let updated = body.updated.into_iter().filter(|ident| {
            let name = ident.unraw().to_string();
            !body.bound.contains(&name)
                && !body.in_macros.contains(&name)
                && self.can_be_lent(&name)
        });
        for ident in updated {
            if !lent.contains(&ident) {
                lent.push(ident);
            }
        }
        (!lent.is_empty()).then_some(lent)
    }

    fn is_captured(&self, name: &str) -> bool {
        !self.scopes.get(name).is_empty()
    }

    fn can_be_lent(&self, name: &str) -> bool {
        let variables = self.scopes.get(name);
        variables.first().is_some_and(|variable| {
            variable.binding == Binding::Mutable
                && variable.cfgs.is_empty()
                && self.scopes.has_value(variable)
        })
    }
}

/// The author's body of a closure, and the variables that each call passes.
pub(super) fn own_body(body: &mut Expr) -> (Vec<Ident>, &mut Expr) {
    let mut lent = Vec::new();
    if let Expr::Block(block) = &*body {
        for stmt in &block.block.stmts {
            match stmt {
                Stmt::Local(local) if is_lent(local) => {
                    if let Pat::Ident(pattern) = &local.pat {
                        lent.push(pattern.ident.clone());
                    }
                }
                _ => break,
            }
        }
    }
    if lent.is_empty() {
        return (lent, body);
    }
    let Expr::Block(block) = body else {
        unreachable!("the body of a closure that borrows variables is a block");
    };
    match block.block.stmts.last_mut() {
        Some(Stmt::Expr(own, None)) => (lent, own),
        _ => unreachable!("the author's body stands at the end of the block"),
    }
}

/// `let x = ::tilekit::rt::lent(..)`
fn is_lent(local: &syn::Local) -> bool {
    let Some(init) = &local.init else {
        return false;
    };
    let Expr::Call(call) = &*init.expr else {
        return false;
    };
    let Expr::Path(path) = &*call.func else {
        return false;
    };
    let names: Vec<String> = path
        .path
        .segments
        .iter()
        .map(|s| s.ident.to_string())
        .collect();
    names == ["tilekit", "rt", "lent"]
}

/// `let name = |..| ..;`
fn bound_closure(stmt: &mut Stmt) -> Option<(&PatIdent, &mut ExprClosure)> {
    let Stmt::Local(local) = stmt else {
        return None;
    };
    let (Pat::Ident(pattern), Some(init)) = (&local.pat, &mut local.init) else {
        return None;
    };
    match &mut *init.expr {
        Expr::Closure(closure)
            if closure.capture.is_none()
                && closure.asyncness.is_none()
                && init.diverge.is_none() =>
        {
            Some((pattern, closure))
        }
        _ => None,
    }
}

fn unmut(pattern: &mut Pat) {
    if let Pat::Ident(pattern) = pattern {
        pattern.mutability = None;
    }
}

/// Where the type of a variable is kept, which the closure could not infer.
fn held_type(ident: &Ident) -> Ident {
    quote::format_ident!(
        "__type_of_{}",
        ident.unraw(),
        span = proc_macro2::Span::mixed_site()
    )
}

/// Gives the closure a parameter for each variable, behind which its body finds it.
fn lend(closure: &mut ExprClosure, lent: &[Ident]) {
    let mut behind = Behind(lent);
    behind.visit_expr_mut(&mut closure.body);
    let typed = lent.iter().map(|ident| {
        let (held, span) = (held_type(ident), ident.span());
        quote_spanned!(span=> let #ident = ::tilekit::rt::lent(#held, #ident);)
    });
    let body = &closure.body;
    *closure.body = parse_quote!({ #(#typed)* #body });
    for ident in lent.iter().rev() {
        let reference = PatType {
            attrs: Vec::new(),
            pat: parse_quote!(#ident),
            colon_token: <Token![:]>::default(),
            ty: parse_quote!(&mut _),
        };
        closure.inputs.insert(0, Pat::Type(reference));
    }
}

/// Dereferences the references that replace variables.
struct Behind<'a>(&'a [Ident]);

impl VisitMut for Behind<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Path(path) = expr {
            if path.path.get_ident().is_some_and(|i| self.0.contains(i)) {
                let path = path.clone();
                *expr = parse_quote!(*#path);
            }
            return;
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    fn visit_field_value_mut(&mut self, field: &mut syn::FieldValue) {
        field.colon_token.get_or_insert(<Token![:]>::default());
        visit_mut::visit_field_value_mut(self, field);
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

/// Passes the variables at each call.
struct Pass {
    name: Ident,
    lent: Vec<Ident>,
}

impl VisitMut for Pass {
    fn visit_expr_call_mut(&mut self, call: &mut syn::ExprCall) {
        visit_mut::visit_expr_call_mut(self, call);
        if is_named(&call.func, &self.name) {
            for ident in self.lent.iter().rev() {
                call.args.insert(0, parse_quote!(&mut #ident));
            }
        }
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

fn is_named(expr: &Expr, name: &Ident) -> bool {
    matches!(expr, Expr::Path(path) if path.path.get_ident() == Some(name))
}

/// How the statements after a closure use it.
struct Calls<'a> {
    name: &'a Ident,
    is_used_otherwise: bool,
    is_in_region: bool,
    depth: usize,
}

impl<'a> Calls<'a> {
    fn of(name: &'a Ident) -> Self {
        Calls {
            name,
            is_used_otherwise: false,
            is_in_region: false,
            depth: 0,
        }
    }

    fn region(&mut self, visit: impl FnOnce(&mut Self)) {
        self.depth += 1;
        visit(self);
        self.depth -= 1;
    }
}

impl<'b> Visit<'b> for Calls<'_> {
    fn visit_expr_call(&mut self, call: &'b syn::ExprCall) {
        if is_named(&call.func, self.name) {
            self.is_in_region |= self.depth > 0;
        } else {
            self.visit_expr(&call.func);
        }
        call.args
            .iter()
            .for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_path(&mut self, path: &'b ExprPath) {
        self.is_used_otherwise |= path.path.get_ident() == Some(self.name);
    }

    fn visit_pat_ident(&mut self, pattern: &'b PatIdent) {
        self.is_used_otherwise |= pattern.ident == *self.name;
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, mac: &'b syn::Macro) {
        self.is_used_otherwise |= mentions(mac.tokens.clone(), &mut |ident| ident == self.name);
    }

    fn visit_expr_if(&mut self, branch: &'b syn::ExprIf) {
        self.region(|calls| visit::visit_expr_if(calls, branch));
    }

    fn visit_expr_closure(&mut self, closure: &'b ExprClosure) {
        self.region(|calls| visit::visit_expr_closure(calls, closure));
    }

    fn visit_expr_for_loop(&mut self, f: &'b syn::ExprForLoop) {
        self.region(|calls| visit::visit_expr_for_loop(calls, f));
    }

    fn visit_expr_while(&mut self, w: &'b syn::ExprWhile) {
        self.region(|calls| visit::visit_expr_while(calls, w));
    }
}

fn mentions(tokens: Tokens, is_it: &mut dyn FnMut(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => is_it(&ident),
        TokenTree::Group(group) => mentions(group.stream(), is_it),
        _ => false,
    })
}

/// What a closure does with variables.
#[derive(Default)]
struct Body {
    /// Assigned, or lent as `&mut`.
    changed: Vec<Ident>,
    /// Changed by `update`: accumulators, and cells, which are not `mut`.
    updated: Vec<Ident>,
    /// Methods of these are called, whose values are not used.
    called: Vec<Ident>,
    bound: HashSet<String>,
    in_macros: HashSet<String>,
}

impl Body {
    /// The value of a closure that changes nothing else is `()`, or it need not be `mut`.
    fn call_at_the_end(&mut self, body: &Expr) {
        let end = match body {
            Expr::Block(block) => match block.block.stmts.last() {
                Some(Stmt::Expr(end, None)) => end,
                _ => return,
            },
            end => end,
        };
        if self.changed.is_empty() && self.updated.is_empty() && self.called.is_empty() {
            self.call(end);
        }
    }

    fn call(&mut self, expr: &Expr) {
        if let Expr::MethodCall(call) = expr {
            self.called.extend(root_ident(&call.receiver));
        }
    }
}

impl<'a> Visit<'a> for Body {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt {
            self.call(expr);
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr_assign(&mut self, assign: &'a syn::ExprAssign) {
        let places = places(&assign.left);
        self.changed
            .extend(places.into_iter().filter_map(root_ident));
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        if is_assignment(&binary.op) {
            self.changed.extend(root_ident(&binary.left));
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_reference(&mut self, reference: &'a syn::ExprReference) {
        if reference.mutability.is_some() {
            self.changed.extend(root_ident(&reference.expr));
        }
        visit::visit_expr_reference(self, reference);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if call.method == "update" {
            self.updated.extend(root_ident(&call.receiver));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
        self.bound.insert(pattern.ident.unraw().to_string());
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        mentions(mac.tokens.clone(), &mut |ident| {
            self.in_macros.insert(ident.unraw().to_string());
            false
        });
    }
}
