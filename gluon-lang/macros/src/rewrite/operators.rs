//! Comparisons, `&&`, `||`, and literals on the left of arithmetic.

use proc_macro2::Span;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Expr, Lit, UnOp, parse_quote};

use super::branch::has_let;
use super::rewriter::Rewriter;

impl Rewriter {
    pub(super) fn binary(&mut self, expr: &mut Expr) {
        let is_chain = has_let(expr);
        let Expr::Binary(b) = expr else { return };
        let is_literal = is_open_literal(&b.left) && !is_open_literal(&b.right);
        widen(b);
        self.visit_expr_mut(&mut b.left);
        self.visit_expr_mut(&mut b.right);
        let (left, right, span) = (&b.left, &b.right, b.op.span());
        let comparison = |family: &str, method: &str| {
            let family = syn::Ident::new(family, span);
            let method = syn::Ident::new(method, span);
            let call = quote_spanned!(span=> ::tilekit::rt::#family::#method(&(#left), &(#right)));
            Expr::Verbatim(call)
        };
        *expr = match &b.op {
            BinOp::Eq(_) => comparison("KernelEq", "equal"),
            BinOp::Ne(_) => comparison("KernelEq", "unequal"),
            BinOp::Lt(_) => comparison("KernelOrd", "less"),
            BinOp::Le(_) => comparison("KernelOrd", "at_most"),
            BinOp::Gt(_) => comparison("KernelOrd", "greater"),
            BinOp::Ge(_) => comparison("KernelOrd", "at_least"),
            BinOp::And(_) if !is_chain => self.logic(expr, true),
            BinOp::Or(_) => self.logic(expr, false),
            op if is_literal && is_arithmetic(op) => {
                let wrapped = quote_spanned!(left.span()=> ::tilekit::rt::LeftLiteral(#left));
                *b.left = Expr::Verbatim(wrapped);
                return;
            }
            _ => return,
        };
    }

    /// `x as f32`: for a runtime value, rustc reports what to write instead. A literal takes its type from the `as`, and is kept.
    pub(super) fn cast(&mut self, expr: &mut Expr) {
        let Expr::Cast(cast) = expr else { return };
        self.visit_expr_mut(&mut cast.expr);
        let may_be_ours = |e: &Expr| {
            matches!(
                e,
                Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_)
            )
        };
        if !may_be_ours(bare(&cast.expr)) {
            return;
        }
        let value = self.fresh("cast");
        let (inner, span) = (&cast.expr, cast.expr.span());
        let check = quote_spanned!(span=> (&::tilekit::rt::Casted(&#value)).check());
        let checked = quote_spanned!(span=> (match #inner { #value => { #check; #value } }));
        *cast.expr = Expr::Verbatim(checked);
    }

    fn logic(&mut self, expr: &Expr, is_and: bool) -> Expr {
        let Expr::Binary(b) = expr else {
            return expr.clone();
        };
        let (mut state, mut value) = (self.fresh("logic"), self.fresh("right"));
        state.set_span(b.op.span().resolved_at(Span::mixed_site()));
        value.set_span(b.right.span().resolved_at(Span::mixed_site()));
        // Parentheses that a reader needs beside `&&` are too much around an argument, and rustc would say so.
        let (left, right) = (bare(&b.left), bare(&b.right));
        let begin = quote_spanned!(b.op.span()=> ::tilekit::rt::Logic::begin(#left, #is_and));
        let skip = quote_spanned!(b.op.span()=> #state.skip());
        let join = quote_spanned!(b.op.span()=> #state.join(#value));
        parse_quote! {
            match #begin {
                mut #state => if #state.enter() {
                    let #value = #right;
                    #join
                } else {
                    #skip
                }
            }
        }
    }
}

/// An integer that is no i32, beside something that is no literal, takes the type of what is beside it: rustc would take it
/// for an i32, since it may stand beside values of many types.
fn widen(b: &mut syn::ExprBinary) {
    let (left, right) = (is_open_literal(&b.left), is_open_literal(&b.right));
    let literal = match (left, right) {
        (true, false) => &mut b.left,
        (false, true) => &mut b.right,
        _ => return,
    };
    let is_shift = matches!(
        b.op,
        BinOp::Shl(_) | BinOp::Shr(_) | BinOp::ShlAssign(_) | BinOp::ShrAssign(_)
    );
    let Some(value) = integer(literal).filter(|v| i32::try_from(*v).is_err() && !is_shift) else {
        return;
    };
    let value = proc_macro2::Literal::i128_suffixed(value);
    **literal = Expr::Verbatim(quote_spanned!(literal.span()=> ::tilekit::rt::WideLiteral(#value)));
}

/// The value of an expression of integer literals. One that divides by zero or leaves i128 is left to rustc.
fn integer(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(i) => i.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(e) => integer(&e.expr),
        Expr::Unary(e) if matches!(e.op, UnOp::Neg(_)) => integer(&e.expr)?.checked_neg(),
        Expr::Binary(e) => {
            let (left, right) = (integer(&e.left)?, integer(&e.right)?);
            let bits = u32::try_from(right).ok();
            match e.op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Div(_) => left.checked_div(right),
                BinOp::Rem(_) => left.checked_rem(right),
                BinOp::BitAnd(_) => Some(left & right),
                BinOp::BitOr(_) => Some(left | right),
                BinOp::BitXor(_) => Some(left ^ right),
                BinOp::Shl(_) => left.checked_mul(1_i128.checked_shl(bits?)?),
                BinOp::Shr(_) => left.checked_shr(bits?),
                _ => None,
            }
        }
        _ => None,
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => bare(&paren.expr),
        other => other,
    }
}

/// A number without a suffix, or an expression of such: its type is still open.
fn is_open_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(i) => i.suffix().is_empty(),
            Lit::Float(f) => f.suffix().is_empty(),
            _ => false,
        },
        Expr::Paren(e) => is_open_literal(&e.expr),
        Expr::Unary(e) => matches!(e.op, UnOp::Neg(_)) && is_open_literal(&e.expr),
        Expr::Binary(e) => is_open_literal(&e.left) && is_open_literal(&e.right),
        _ => false,
    }
}

fn is_arithmetic(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Rem(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_)
            | BinOp::BitXor(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_)
    )
}
