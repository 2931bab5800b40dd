//! Expressions that yield `&mut`s: variables bound to them change other variables.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Expr, ExprMethodCall, ExprReference, Pat};

/// What a pattern binds of an expression.
#[derive(Clone, Copy)]
pub(super) enum Lends {
    /// No `&mut` that is seen.
    Nothing,
    /// A `&mut` in some of its variables, perhaps.
    Perhaps,
    /// A `&mut` in each of its variables.
    References,
}

/// What `pattern` binds of `init`.
pub(super) fn lends(pattern: &Pat, init: &Expr) -> Lends {
    let is_certain = match bare(init) {
        // A pattern that is matched through a `&mut` binds `&mut`s.
        Expr::Reference(r) if r.mutability.is_some() => !matches!(pattern, Pat::Reference(_)),
        Expr::MethodCall(call) if gives_an_iterator(&call.method) => return Lends::Nothing,
        Expr::MethodCall(call) => gives_an_option(&call.method) && binds_what_is_there(pattern),
        _ => false,
    };
    certain_or(is_certain, init)
}

/// What `pattern` binds of each item of `iterated`.
pub(super) fn lends_items(pattern: &Pat, iterated: &Expr) -> Lends {
    let is_certain = match bare(iterated) {
        Expr::MethodCall(call) => {
            (call.method == "iter_mut" || call.method == "values_mut")
                && !matches!(pattern, Pat::Reference(_))
        }
        _ => false,
    };
    certain_or(is_certain, iterated)
}

/// An iterator made of another one: the call, and the two patterns of its items where they are pairs.
pub(super) fn adapted<'a>(
    pattern: &'a Pat,
    iterated: &'a Expr,
) -> Option<(&'a ExprMethodCall, Option<(&'a Pat, &'a Pat)>)> {
    let Expr::MethodCall(call) = bare(iterated) else {
        return None;
    };
    if call.method == "enumerate" || call.method == "zip" {
        let Pat::Tuple(pair) = pattern else {
            return None;
        };
        let mut sides = pair.elems.iter();
        return Some((call, Some((sides.next()?, sides.next()?))));
    }
    let keeps_items = ["rev", "skip", "take", "step_by"];
    keeps_items
        .iter()
        .any(|known| call.method == known)
        .then_some((call, None))
}

fn certain_or(is_certain: bool, init: &Expr) -> Lends {
    let mut finder = Finder(false);
    finder.visit_expr(init);
    match (is_certain, finder.0) {
        (true, _) => Lends::References,
        (false, true) => Lends::Perhaps,
        (false, false) => Lends::Nothing,
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => bare(&paren.expr),
        other => other,
    }
}

fn gives_an_option(method: &Ident) -> bool {
    ["as_mut", "as_deref_mut", "get_mut", "first_mut", "last_mut"]
        .iter()
        .any(|known| method == known)
}

/// An iterator is no reference itself, and may be used up.
fn gives_an_iterator(method: &Ident) -> bool {
    const ITERATORS: [&str; 14] = [
        "chain",
        "chunks_exact_mut",
        "chunks_mut",
        "enumerate",
        "filter",
        "iter_mut",
        "map",
        "peekable",
        "rev",
        "skip",
        "step_by",
        "take",
        "values_mut",
        "zip",
    ];
    ITERATORS.iter().any(|known| method == known)
}

/// `Some(x)` or `Ok(x)`.
fn binds_what_is_there(pattern: &Pat) -> bool {
    let Pat::TupleStruct(tuple) = pattern else {
        return false;
    };
    let last = tuple.path.segments.last();
    last.is_some_and(|s| s.ident == "Some" || s.ident == "Ok")
        && matches!(tuple.elems.first(), Some(Pat::Ident(_)))
}

/// Looks for `&mut`, and for methods that are named for what they lend.
struct Finder(bool);

impl<'a> Visit<'a> for Finder {
    fn visit_expr_reference(&mut self, reference: &'a ExprReference) {
        self.0 |= reference.mutability.is_some();
        visit::visit_expr_reference(self, reference);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        self.0 |= call.method.to_string().ends_with("_mut");
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
}
