//! `match` on one number: a chain of `if`s, which are host or runtime branches by the type of the number.
//!
//! ```text
//! match x {            let number = x;
//!     0 => a,          let _ = || match rt::number_of(&number) { 0 => (), 1..=3 if rt::guard() => (), n => () };
//!     1..=3 if g => b, if number == 0 { a }
//!     n => c(n),       else if number >= 1 && number <= 3 && g { b }
//! }                    else { let n = number; c(n) }
//! ```
//!
//! The closure is never called: by it rustc finds a `match` that is not exhaustive, and arms that are never reached.

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Arm, Expr, ExprMatch, Lit, Pat, PatIdent, PatRange, RangeLimits, parse_quote};

use super::rewriter::Rewriter;

impl Rewriter {
    /// Is it a `match` on a number, with patterns of numbers alone?
    pub(super) fn is_number_match(m: &ExprMatch) -> bool {
        let is_plain = |arm: &Arm| arm.attrs.is_empty() && is_of_numbers(guarded(&arm.pat).0);
        !is_of_the_host(&m.expr)
            && m.arms.iter().all(is_plain)
            && m.arms.iter().any(|arm| names_a_number(guarded(&arm.pat).0))
    }

    pub(super) fn number_match(&mut self, expr: &mut Expr) {
        let Expr::Match(m) = expr else { return };
        self.visit_expr_mut(&mut m.expr);
        let (value, number) = (self.fresh("matched"), self.fresh("number"));
        let mut chain = chain(&m.arms, &value, &number);
        self.visit_expr_mut(&mut chain);
        let (scrutinee, span) = (&m.expr, m.expr.span());
        let taken = quote_spanned!(span=> ::tilekit::rt::matched(&#value));
        let all = quote_spanned!(span=> ::tilekit::rt::number_of(&#value));
        let arms = m.arms.iter().map(|arm| {
            let (pattern, guard) = guarded(&arm.pat);
            let guard = guard.map(|_| quote!(if ::tilekit::rt::guard()));
            quote!(#pattern #guard => (),)
        });
        *expr = parse_quote!({
            let #value = #scrutinee;
            let #number = #taken;
            #[allow(unused_variables, reason = "the arms themselves bind them again")]
            let _ = || match #all { #(#arms)* };
            #chain
        });
    }
}

/// Is it surely a number of the host? Its `match` stays as it is, with arms that rustc brings to one type.
fn is_of_the_host(scrutinee: &Expr) -> bool {
    match scrutinee {
        Expr::Lit(_) => true,
        Expr::Paren(e) => is_of_the_host(&e.expr),
        Expr::Binary(e) => is_of_the_host(&e.left) && is_of_the_host(&e.right),
        Expr::MethodCall(call) => call.method == "len",
        Expr::Call(call) => last_name(&call.func).is_some_and(|name| name == "size_of"),
        Expr::Path(_) => {
            last_name(scrutinee).is_some_and(|name| !name.chars().any(char::is_lowercase))
        }
        _ => false,
    }
}

fn last_name(path: &Expr) -> Option<String> {
    match path {
        Expr::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        _ => None,
    }
}

/// A pattern and what stands after its `if`.
fn guarded(pattern: &Pat) -> (&Pat, Option<&Expr>) {
    match pattern {
        Pat::Guard(guard) => (&guard.pat, Some(&guard.guard)),
        other => (other, None),
    }
}

/// The arms as a chain of `if`s.
fn chain(arms: &[Arm], value: &Ident, number: &Ident) -> Expr {
    let Some((arm, rest)) = arms.split_first() else {
        return parse_quote!(::core::unreachable!(
            "rustc wants a `match` to be exhaustive"
        ));
    };
    let (pattern, guard) = guarded(&arm.pat);
    let body = body(arm, value);
    // rustc sees to it that the last arm is for all that is left.
    let is_left = rest.is_empty() && guard.is_none();
    let test = test(pattern, number).filter(|_| !is_left);
    let guard = guard.map(|guard| {
        let binding = binding(pattern, value);
        if binding.is_empty() {
            quote!((#guard))
        } else {
            quote!({ #binding #guard })
        }
    });
    let condition = match (test, guard) {
        (None, None) => return body,
        (Some(test), None) => quote!(#test),
        (None, Some(guard)) => guard,
        (Some(test), Some(guard)) => {
            let and = quote_spanned!(pattern.span()=> &&);
            quote!((#test) #and #guard)
        }
    };
    let otherwise = block(chain(rest, value, number));
    let token = quote_spanned!(pattern.span()=> if);
    let parsed: syn::Result<Expr> = syn::parse2(quote!(#token #condition #body else #otherwise));
    parsed.unwrap_or_else(|error| Expr::Verbatim(error.to_compile_error()))
}

/// What an arm does, as a block.
fn body(arm: &Arm, value: &Ident) -> Expr {
    let (pattern, guard) = guarded(&arm.pat);
    let (binding, body) = (binding(pattern, value), &arm.body);
    if binding.is_empty() {
        return block((**body).clone());
    }
    // It may be for the guard alone.
    let allowed = guard.map(|_| quote!(#[allow(unused_variables, reason = "the guard uses it")]));
    parse_quote!({ #allowed #binding #body })
}

fn block(expr: Expr) -> Expr {
    match expr {
        Expr::Block(ref b) if b.label.is_none() && b.attrs.is_empty() => expr,
        Expr::If(_) => expr,
        other => parse_quote!({ #other }),
    }
}

/// The variable that a pattern binds.
fn binding(pattern: &Pat, value: &Ident) -> Tokens {
    match pattern {
        Pat::Paren(paren) => binding(&paren.pat, value),
        Pat::Ident(ident) if is_binding(ident) => {
            let (mutability, name) = (&ident.mutability, &ident.ident);
            quote!(let #mutability #name = #value;)
        }
        _ => Tokens::new(),
    }
}

/// A name without small letters is a constant's.
fn is_binding(ident: &PatIdent) -> bool {
    let name = ident.ident.to_string();
    ident.subpat.is_some()
        || ident.mutability.is_some()
        || name
            .chars()
            .any(|c| c.is_lowercase() || c == '_' && name.len() == 1)
}

/// Whether the number fits the pattern; nothing where it always does.
fn test(pattern: &Pat, number: &Ident) -> Option<Expr> {
    let span = pattern.span();
    let compare = |op: Tokens, bound: Tokens| -> Expr {
        let number = Ident::new(&number.to_string(), number.span().located_at(span));
        parse_quote!(#number #op #bound)
    };
    match pattern {
        Pat::Lit(literal) => match &literal.lit {
            Lit::Bool(b) if b.value => Some(parse_quote!(#number)),
            Lit::Bool(_) => Some(parse_quote!(!#number)),
            literal => Some(compare(quote_spanned!(span=> ==), quote!(#literal))),
        },
        Pat::Path(path) => Some(compare(quote_spanned!(span=> ==), quote!(#path))),
        Pat::Ident(ident) if !is_binding(ident) => {
            let name = &ident.ident;
            Some(compare(quote_spanned!(span=> ==), quote!(#name)))
        }
        Pat::Ident(ident) => test(&ident.subpat.as_ref()?.1, number),
        Pat::Paren(paren) => test(&paren.pat, number),
        Pat::Range(range) => Some(in_range(range, &compare)),
        Pat::Or(or) => {
            let mut tests = or.cases.iter().map(|case| test(case, number));
            let first = tests.next()??;
            tests.try_fold(first, |all, test| {
                let test = test?;
                let either = quote_spanned!(span=> ||);
                Some(parse_quote!(#all #either #test))
            })
        }
        _ => None,
    }
}

fn in_range(range: &PatRange, compare: &dyn Fn(Tokens, Tokens) -> Expr) -> Expr {
    let span = range.span();
    let low = range
        .start
        .as_ref()
        .map(|low| compare(quote_spanned!(span=> >=), quote!(#low)));
    let high = range.end.as_ref().map(|high| {
        let op = match range.limits {
            RangeLimits::HalfOpen(_) => quote_spanned!(span=> <),
            RangeLimits::Closed(_) => quote_spanned!(span=> <=),
        };
        compare(op, quote!(#high))
    });
    match (low, high) {
        (Some(low), Some(high)) => {
            let and = quote_spanned!(span=> &&);
            parse_quote!((#low #and #high))
        }
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => parse_quote!(true),
    }
}

/// Numbers, ranges of them, names and `_`, and alternatives of these.
fn is_of_numbers(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(literal) => is_number(&literal.lit),
        Pat::Range(_) | Pat::Wild(_) | Pat::Path(_) => true,
        Pat::Or(or) => or
            .cases
            .iter()
            .all(|case| is_of_numbers(case) && !matches!(case, Pat::Ident(_))),
        Pat::Ident(ident) => {
            ident.by_ref.is_none() && ident.subpat.as_ref().is_none_or(|(_, p)| is_of_numbers(p))
        }
        Pat::Paren(paren) => is_of_numbers(&paren.pat),
        _ => false,
    }
}

fn is_number(literal: &Lit) -> bool {
    matches!(literal, Lit::Int(_) | Lit::Float(_) | Lit::Bool(_))
}

/// Is it compared with a number, as a whole?
fn names_a_number(pattern: &Pat) -> bool {
    match pattern {
        Pat::Lit(literal) => is_number(&literal.lit),
        Pat::Range(range) => {
            let ends = [&range.start, &range.end].into_iter().flatten();
            ends.into_iter().all(|end| !is_character(end))
        }
        Pat::Or(or) => or.cases.iter().any(names_a_number),
        Pat::Ident(PatIdent {
            subpat: Some((_, inner)),
            ..
        }) => names_a_number(inner),
        Pat::Paren(paren) => names_a_number(&paren.pat),
        _ => false,
    }
}

fn is_character(end: &Expr) -> bool {
    matches!(end, Expr::Lit(literal) if !is_number(&literal.lit))
}
