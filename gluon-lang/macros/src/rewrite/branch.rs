//! `if`.

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Expr, Lifetime, Stmt, parse_quote};

use super::deferred::Arms;
use super::exits::Arm;
use super::owned::Owned;
use super::rewriter::Rewriter;
use super::uses::Uses;

/// Is it an `if let`, or a chain with one? Patterns are matched on the host.
pub(super) fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(b) if matches!(b.op, BinOp::And(_)) => has_let(&b.left) || has_let(&b.right),
        _ => false,
    }
}

impl Rewriter {
    pub(super) fn branch(&mut self, expr: &mut Expr) {
        let Expr::If(i) = expr else { return };
        if has_let(&i.cond) || matches!(*i.cond, Expr::Const(_)) {
            self.host_branch(i);
            return;
        }
        let mut uses = Uses::default();
        let (mut first, mut second) = (Uses::default(), Uses::default());
        uses.visit_block(&i.then_branch);
        first.visit_block(&i.then_branch);
        if let Some((_, otherwise)) = &i.else_branch {
            uses.visit_expr(otherwise);
            second.visit_expr(otherwise);
        }
        let written_exits = leaves(&i.then_branch)
            && matches!(&i.else_branch, Some((_, e)) if matches!(&**e, Expr::Block(b) if leaves(&b.block)));
        let owned = self.owned(&uses);
        let carry = self.scopes.carry(&uses, i.if_token.span, false, &owned);
        self.visit_expr_mut(&mut i.cond);
        let before = self.fork();
        let state = self.fresh("if");
        let (then_label, then_goes) = self.arm(&state, (&uses, false), |this| {
            this.visit_block_mut(&mut i.then_branch);
        });
        let then_end = self.other_arm(&before);
        // Where the arms disagree, rustc reports the second.
        let mut other_span = i.if_token.span;
        let mut left = Left {
            then: then_goes.map(|_| then_label),
            ..Left::default()
        };
        let mut goes_to = then_goes;
        let otherwise = if let Some((token, otherwise)) = &mut i.else_branch {
            other_span = value_span(otherwise).unwrap_or(token.span);
            let (label, goes) = self.arm(&state, (&uses, true), |this| {
                this.visit_expr_mut(otherwise);
            });
            left.otherwise = goes.map(|_| label);
            goes_to = goes_to.into_iter().chain(goes).min();
            quote!(#otherwise)
        } else {
            quote!({})
        };
        left.is_nothing = written_exits;
        left.way_on = goes_to.map(|target| self.way_on(target));
        let arms = self.join_arms(&before, then_end, i);
        let names = self.names(i, other_span, &uses, state);
        let taken = [first, second].map(|arm| {
            let taken = owned.iter().map(|owned| owned.take(&names.state, &arm));
            taken.collect::<Tokens>()
        });
        let owned = (owned.iter().map(Owned::put).collect(), taken);
        *expr = names.expand(i, &carry, &otherwise, &arms, &owned, &left);
    }

    /// The names of one expansion. Type errors of a value are shown where the author gives it.
    fn names(&mut self, i: &syn::ExprIf, other: Span, uses: &Uses, state: Ident) -> Names {
        let at = |span: Span, mut ident: Ident| {
            ident.set_span(span.resolved_at(Span::mixed_site()));
            ident
        };
        let first = i.if_token.span;
        let last = i.then_branch.stmts.last().map_or(first, Spanned::span);
        let label = Lifetime::new(&format!("'{}", self.fresh("arms")), Span::mixed_site());
        Names {
            state,
            value: self.fresh("value"),
            other: at(other, self.fresh("other")),
            then_value: at(first, self.fresh("then")),
            else_value: at(first, self.fresh("else")),
            // A wrong type is reported where the first arm gives the value.
            all: at(last, self.fresh("all")),
            // A macro may hold a `break`, which could not pass the label.
            label: (!uses.is_opaque()).then_some(label),
        }
    }

    /// Rewrites an arm; returns the label of its end, and the outermost target of the exits in it.
    fn arm(
        &mut self,
        state: &Ident,
        (uses, is_last): (&Uses, bool),
        visit: impl FnOnce(&mut Self),
    ) -> (Lifetime, Option<usize>) {
        let label = Lifetime::new(&format!("'{}", self.fresh("arm")), Span::mixed_site());
        let jump = if is_last {
            quote!(break #label ::core::option::Option::None)
        } else {
            quote!(break #label)
        };
        let depth = self.fresh("depth");
        let arm = Arm {
            state: state.clone(),
            jump,
            uses: uses.clone(),
            goes_to: None,
        };
        self.exits.enter_arm(depth, arm);
        visit(self);
        (label, self.exits.leave_arm())
    }

    /// Binds what the patterns of a condition bind.
    pub(super) fn bind_lets(&mut self, condition: &Expr) {
        Lets(self).visit_expr(condition);
    }

    fn host_branch(&mut self, i: &mut syn::ExprIf) {
        self.scopes.open();
        if !matches!(*i.cond, Expr::Const(_)) {
            self.visit_expr_mut(&mut i.cond);
        }
        self.bind_lets(&i.cond);
        let before = self.fork();
        self.visit_block_mut(&mut i.then_branch);
        self.scopes.close();
        let then_end = self.other_arm(&before);
        if let Some((_, otherwise)) = &mut i.else_branch {
            self.visit_expr_mut(otherwise);
        }
        // The arms stay as they are written, so that rustc sees what they assign.
        self.join_arms(&before, then_end, i);
    }
}

/// The position of the value of an `else`.
fn value_span(otherwise: &Expr) -> Option<Span> {
    let Expr::Block(block) = otherwise else {
        return Some(otherwise.span());
    };
    match block.block.stmts.last()? {
        Stmt::Expr(value, None) => Some(value.span()),
        _ => None,
    }
}

/// Finds the patterns of a condition.
struct Lets<'a>(&'a mut Rewriter);

impl<'b> Visit<'b> for Lets<'_> {
    fn visit_expr_let(&mut self, l: &'b syn::ExprLet) {
        self.0.scopes.add_matched(&l.pat, &l.expr, &[]);
    }
    fn visit_expr_closure(&mut self, _: &'b syn::ExprClosure) {}
    fn visit_expr_block(&mut self, _: &'b syn::ExprBlock) {}
}

/// How the arms of an `if` are left early.
#[derive(Default)]
struct Left {
    /// The ends of the arms that are.
    then: Option<Lifetime>,
    otherwise: Option<Lifetime>,
    /// The code after the `if` if no arm falls through; none if no arm exits.
    way_on: Option<Tokens>,
    /// Both arms end in exits, so that no value says which type it has.
    is_nothing: bool,
}

/// What the expansion of an `if` brings in.
struct Names {
    state: Ident,
    value: Ident,
    other: Ident,
    then_value: Ident,
    else_value: Ident,
    all: Ident,
    label: Option<Lifetime>,
}

impl Names {
    /// `owned` is the code before the branch and in each arm for the accumulators that the arms move.
    fn expand(
        &self,
        i: &syn::ExprIf,
        carry: &Tokens,
        otherwise: &Tokens,
        arms: &Arms,
        (put, [take_first, take_second]): &(Tokens, [Tokens; 2]),
        left: &Left,
    ) -> Expr {
        let Names {
            state,
            value,
            other,
            then_value,
            else_value,
            ..
        } = self;
        let (cond, then) = (&i.cond, &i.then_branch);
        let begin = quote_spanned!(i.if_token.span=> ::tilekit::rt::Branch::begin(#cond));
        // A value that no branch can yield is reported at the `if`.
        let span = i.if_token.span.resolved_at(Span::mixed_site());
        let lent = quote_spanned!(span=> &mut #then_value);
        let next = quote_spanned!(span=> #state.otherwise(#carry, #lent));
        let end = match &left.way_on {
            None => quote_spanned!(span=> #state.end(#carry, #then_value, #else_value)),
            Some(way_on) => quote_spanned! {span=>
                match #state.end_left(#carry, #then_value, #else_value) {
                    ::tilekit::rt::Ended::Value(__value) => __value,
                    ::tilekit::rt::Ended::Left(__left) => {
                        let _ = ::tilekit::rt::left(__left);
                        #way_on
                    }
                }
            },
        };
        let (first_end, second_end) = (
            labelled(left.then.as_ref()),
            labelled(left.otherwise.as_ref()),
        );
        let (first, second) = (arms.first(), arms.second());
        let (given, types, others) = arms.values(value, other, then_value);
        let (given, others) = (self.decided(&given), self.decided(&others));
        let label = self.label.as_ref().map(|label| quote!(#label:));
        let nothing = left.is_nothing.then(|| quote!(: ()));
        let result = quote! {
            #label {
                let mut #state = #begin;
                #put
                let mut #then_value = ::core::option::Option::None;
                if #state.then(#carry) {
                    #first
                    #take_first
                    #first_end {
                        let #value #nothing = #then;
                        #then_value = #given;
                    }
                }
                let #else_value = if #next {
                    #second
                    #take_second
                    #second_end {
                        let #other = #otherwise;
                        #types
                        #others
                    }
                } else {
                    ::core::option::Option::None
                };
                #end
            }
        };
        let result = arms.unpack(&self.all, &result);
        parse_quote!({ #result })
    }

    /// After an arm. Where the condition is known at trace time, it leaves the expansion, so that what it uses up is there for the other.
    fn decided(&self, given: &Tokens) -> Tokens {
        let (state, value) = (&self.state, &self.value);
        let alone = if let Some(label) = &self.label {
            quote!(break #label #value)
        } else {
            quote!(::core::option::Option::Some(#value))
        };
        let again = Ident::new("__again", Span::mixed_site());
        quote! {
            match #state.decided(#given) {
                ::tilekit::rt::Decided::Alone(#value) => #alone,
                ::tilekit::rt::Decided::Both(#value, #again) => {
                    #state.go_on(#again);
                    ::core::option::Option::Some(#value)
                }
            }
        }
    }
}

fn labelled(end: Option<&Lifetime>) -> Option<Tokens> {
    end.map(|label| quote!(#label:))
}

/// Does a block end in an exit?
fn leaves(block: &syn::Block) -> bool {
    let last = block.stmts.last();
    matches!(
        last,
        Some(Stmt::Expr(
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_),
            _
        ))
    )
}
