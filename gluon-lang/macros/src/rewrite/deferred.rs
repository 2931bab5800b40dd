//! Variables that are initialized after their `let`: how the arms of a branch initialize them, and the error for one that is read before.

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Expr, Macro, parse_quote};

use super::flow::{Declared, Flow, Missing, State};
use super::rewriter::Rewriter;
use super::uses::is_function;

/// A point that two arms start from.
pub(super) struct Fork {
    flow: Flow,
    /// How many assignments stand before it.
    assignments: usize,
}

/// How the arms of a branch initialize variables.
#[derive(Default)]
pub(super) struct Arms {
    /// Those that both arms give a value, and where the second one does.
    given: Vec<(Declared, Span)>,
    /// Those that the second arm uses for itself, as the first did.
    apart: Vec<Declared>,
}

impl Arms {
    /// The declarations in front of the first arm.
    pub(super) fn first(&self) -> Tokens {
        declarations(self.given.iter().map(|(declared, _)| declared))
    }

    /// The same of the second.
    pub(super) fn second(&self) -> Tokens {
        let given = self.given.iter().map(|(declared, _)| declared);
        declarations(given.chain(&self.apart))
    }

    /// The values of the two arms, `value` and `other`, with those of the variables. The second has the types of the first,
    /// which is in `then`.
    pub(super) fn values(
        &self,
        value: &Ident,
        other: &Ident,
        then: &Ident,
    ) -> (Tokens, Tokens, Tokens) {
        let span = other.span();
        if self.given.is_empty() {
            let same = quote_spanned!(span=> ::tilekit::rt::as_other_arm(&#then, #other));
            return (quote!(#value), Tokens::new(), same);
        }
        let same = quote_spanned!(span=> ::tilekit::rt::as_other_value(&#then, #other));
        let types = self.same_types(then);
        let types = quote!(let #other = #same; #types);
        (self.pack(value), types, self.pack(other))
    }

    fn pack(&self, value: &Ident) -> Tokens {
        let nothing = quote!(());
        let lets = self
            .given
            .iter()
            .rev()
            .fold(nothing, |rest, (declared, _)| {
                let (ident, name) = (&declared.ident, declared.ident.unraw().to_string());
                quote!(::tilekit::rt::Lets { name: #name, value: #ident, rest: #rest })
            });
        quote!(::tilekit::rt::WithLets { value: #value, lets: #lets })
    }

    /// Statements by which the second arm's variables have the types of the first's, which `then` holds: where they do not,
    /// rustc shows the assignment.
    fn same_types(&self, then: &Ident) -> Tokens {
        let mut probe = quote!(::tilekit::rt::lets_of(&#then));
        let mut out = Tokens::new();
        for (declared, at) in &self.given {
            let mut ident = declared.ident.clone();
            ident.set_span(at.resolved_at(ident.span()));
            let same = quote_spanned!(at.resolved_at(Span::mixed_site())=> ::tilekit::rt::as_other_let(#probe, #ident));
            out.extend(quote!(let #ident = #same;));
            probe = quote!(::tilekit::rt::rest_of(#probe));
        }
        out
    }

    /// Gives the variables their values out of what the branch gives; the rest is its value.
    pub(super) fn unpack(&self, all: &Ident, end: &Tokens) -> Tokens {
        if self.given.is_empty() {
            return quote! {
                #[allow(unreachable_code, unused_braces, reason = "an arm may leave")]
                let #all = #end;
                #all
            };
        }
        let mut lets = quote!(#all.lets);
        let mut out = quote! {
            #[allow(unreachable_code, unused_braces, reason = "an arm may leave")]
            let #all = #end;
        };
        for (declared, _) in &self.given {
            let ident = &declared.ident;
            out.extend(quote!(#ident = #lets.value;));
            lets = quote!(#lets.rest);
        }
        quote!(#out #all.value)
    }
}

fn declarations<'a>(all: impl Iterator<Item = &'a Declared>) -> Tokens {
    let declare = |declared: &Declared| {
        let Declared {
            ident,
            mutability,
            ty,
        } = declared;
        let ty = ty.as_ref().map(|ty| quote!(: #ty));
        quote! {
            #[allow(
                unused_mut,
                unused_variables,
                unused_assignments,
                clippy::needless_late_init,
                reason = "the author declared it for all arms"
            )]
            let #mutability #ident #ty;
        }
    };
    all.map(declare).collect()
}

impl Rewriter {
    /// The state before the branch, to which the second arm returns.
    pub(super) fn fork(&self) -> Fork {
        Fork {
            flow: self.scopes.flow.clone(),
            assignments: self.scopes.assignments.len(),
        }
    }

    /// The first of two arms ends here, the second begins where `before` was.
    pub(super) fn other_arm(&mut self, before: &Fork) -> Fork {
        let then = self.fork();
        self.scopes.flow = before.flow.clone();
        then
    }

    /// Joins the states at the ends of two arms.
    pub(super) fn join_arms(&mut self, before: &Fork, then: Fork, branch: &syn::ExprIf) -> Arms {
        let touched = |from: usize, to: usize, variable: usize| {
            self.scopes.assignments[from..to].contains(&variable)
        };
        let (first, second) = (before.assignments, then.assignments);
        let (before, then) = (&before.flow, then.flow);
        let otherwise = std::mem::take(&mut self.scopes.flow);
        let span = branch.if_token.span;
        let then_missing = Missing::new(span, "in the first arm of this `if`");
        let missing = match &branch.else_branch {
            Some((token, _)) => Missing::new(token.span, "in this `else`"),
            None => Missing::new(span, "where the condition of this `if` is false"),
        };
        let mut arms = Arms::default();
        let both_end = then.is_dead && otherwise.is_dead;
        for variable in 0..before.states.len() {
            let has_value = matches!(before.state(variable), State::Yes(_));
            let declared = || self.scopes.declared(variable).clone();
            if has_value || both_end {
                continue;
            }
            if then.gives(variable) && otherwise.gives(variable) {
                let at = match (otherwise.state(variable), then.state(variable)) {
                    (State::Yes(at), _) | (_, State::Yes(at)) => at,
                    _ => missing.span,
                };
                arms.given.push((declared(), at));
            } else if touched(first, second, variable)
                && touched(second, self.scopes.assignments.len(), variable)
            {
                arms.apart.push(declared());
            }
        }
        let mut after = then;
        after.meet(then_missing, &otherwise, missing);
        after.states.truncate(before.states.len());
        self.scopes.flow = after;
        arms
    }

    /// A variable that is read: it must be initialized on every path.
    pub(super) fn read(&mut self, expr: &mut Expr) {
        let Expr::Path(path) = expr else { return };
        let Some(ident) = path.path.get_ident() else {
            return;
        };
        let name = ident.unraw().to_string();
        let Some(variable) = self.scopes.deferred(&name) else {
            return;
        };
        if let State::Perhaps(missing) = self.scopes.flow.state(variable) {
            let message = format!(
                "`{name}` is not assigned {}, and used after it: assign it there too, or initialize it where it is declared",
                missing.what
            );
            // Replaces the expression, so that rustc does not report the same.
            *expr = Expr::Verbatim(quote_spanned!(missing.span=> ::core::compile_error!(#message)));
            self.scopes.flow.assign(variable, missing.span);
        }
    }

    /// `x = ..`: from here on the variable has a value.
    pub(super) fn assignment(&mut self, assign: &mut syn::ExprAssign) {
        self.visit_expr_mut(&mut assign.right);
        self.assigned(&mut assign.left);
    }

    fn assigned(&mut self, place: &mut Expr) {
        match place {
            Expr::Paren(e) => self.assigned(&mut e.expr),
            Expr::Tuple(e) => e.elems.iter_mut().for_each(|e| self.assigned(e)),
            Expr::Array(e) => e.elems.iter_mut().for_each(|e| self.assigned(e)),
            Expr::Struct(e) => e.fields.iter_mut().for_each(|f| self.assigned(&mut f.expr)),
            Expr::Call(e) if !is_function(&e.func) => {
                e.args.iter_mut().for_each(|e| self.assigned(e));
            }
            Expr::Path(path) => {
                let Some(ident) = path.path.get_ident() else {
                    return;
                };
                if let Some(variable) = self.scopes.deferred(&ident.unraw().to_string()) {
                    self.scopes.flow.assign(variable, ident.span());
                    self.scopes.assignments.push(variable);
                }
            }
            other => self.visit_expr_mut(other),
        }
    }

    /// After these nothing continues.
    pub(super) fn ends(&mut self, mac: &Macro) {
        const END: [&str; 4] = ["panic", "unreachable", "todo", "unimplemented"];
        let last = mac.path.segments.last();
        if last.is_some_and(|s| END.iter().any(|known| s.ident == known)) {
            self.scopes.flow.end();
        }
    }
}

/// The `let` of a variable that is `mut` for the sake of an arm.
pub(super) fn allow_mut(attributes: &mut Vec<Attribute>) {
    attributes
        .push(parse_quote!(#[allow(unused_mut, reason = "an arm may be all that changes it")]));
}
