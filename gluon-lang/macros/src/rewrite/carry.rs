//! The variables that a loop or branch names and may change, which its expansion passes to the trace.

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{ToTokens, quote, quote_spanned};
use syn::Attribute;
use syn::ext::IdentExt;

use super::contents::Kind;
use super::owned::Owned;
use super::scope::{Binding, Scopes, Variable};
use super::uses::Uses;

impl Scopes {
    /// The closure that passes every variable that the region names and may change to a carrier. Its errors are reported at `span`, those
    /// of a variable at its first use.
    ///
    /// Variables that may be a `&mut` or refer to a cell are watched: an iteration would read through them what the previous one wrote,
    /// an arm what the other wrote. A variable that an arm may have moved cannot be read. The arms have `owned`
    /// for themselves.
    pub(super) fn carry(&self, uses: &Uses, span: Span, is_loop: bool, owned: &[Owned]) -> Tokens {
        let is_carried = |ident: &Ident| !owned.iter().any(|owned| owned.ident == *ident);
        let closure = self.carry_where(uses, span, is_loop, &is_carried);
        let carrier = &closure.carrier;
        let (fields, cells) = (
            self.changed_fields(uses, carrier, is_loop),
            self.other_cells(uses, carrier),
        );
        closure.with(&quote!(#fields #cells))
    }

    /// The same of the variables that `is_carried` names.
    pub(super) fn carry_where(
        &self,
        uses: &Uses,
        span: Span,
        is_loop: bool,
        is_carried: &dyn Fn(&Ident) -> bool,
    ) -> CarryClosure {
        let span = span.resolved_at(Span::mixed_site());
        let carrier = &Ident::new("__carrier", span);
        let mentioned = uses
            .mentioned()
            .iter()
            .filter(|ident| is_carried(ident))
            .flat_map(|ident| {
                let name = ident.unraw().to_string();
                let variables = self.get(&name).into_iter();
                let there = variables.filter(|variable| self.has_value(variable));
                there.filter_map(move |variable| {
                    let how = self.how(variable, uses, &name, is_loop)?;
                    Some(add(how, (carrier, ident, &name), &variable.cfgs))
                })
            });
        CarryClosure {
            carrier: carrier.clone(),
            statements: mentioned.collect(),
        }
    }

    /// How a region deals with a variable that it mentions.
    fn how(&self, variable: &Variable, uses: &Uses, name: &str, is_loop: bool) -> Option<How> {
        let is_shared = variable.contents.is_shared;
        let is_there = is_loop || is_shared || !uses.moves(name);
        let is_plain = variable.contents.kind == Kind::Plain;
        match variable.binding {
            // What a closure has borrowed is not carried, which would borrow it as `&mut`.
            Binding::Mutable if variable.stays_borrowed(uses, name) => {
                (is_loop && !is_plain).then_some(How::Watched)
            }
            Binding::Mutable => Some(How::Itself),
            Binding::Reference => Some(How::WhatItRefersTo),
            Binding::LentReference => is_there.then_some(How::WhatItRefersTo),
            Binding::Lent | Binding::Fixed if uses.changes_behind(name) => {
                Some(How::WhatItRefersTo)
            }
            Binding::Lent => is_there.then_some(How::Watched),
            Binding::Fixed | Binding::Captured if is_plain => None,
            Binding::Fixed if uses.changes_in_part(name) => is_there.then_some(How::Watched),
            Binding::Fixed | Binding::Captured if is_loop => Some(How::Watched),
            Binding::Fixed | Binding::Captured => {
                let is_seen = uses.lends(name) && (is_shared || self.is_used_later(name));
                is_seen.then_some(How::Watched)
            }
        }
    }

    /// Cells in fields of variables of which the trace knows nothing.
    fn changed_fields(&self, uses: &Uses, carrier: &Ident, is_loop: bool) -> Tokens {
        let mut out = Tokens::new();
        for (name, place) in uses.changed_cells() {
            let variables = self.get(name);
            let is_fixed = |v: &&Variable| v.binding == Binding::Fixed && v.cfgs.is_empty();
            if variables.first().is_some_and(is_fixed) && (is_loop || !uses.moves(name)) {
                let text = place.to_token_stream().to_string().replace(' ', "");
                out.extend(watch(Span::call_site(), carrier, place, &text));
            }
        }
        out
    }

    /// Cells that the region does not mention, but may reach all the same: through a closure, or something else that leads
    /// to them.
    fn other_cells(&self, uses: &Uses, carrier: &Ident) -> Tokens {
        let mut names: Vec<&String> = self.open.iter().flat_map(|scope| scope.keys()).collect();
        names.sort();
        names.dedup();
        let mut out = Tokens::new();
        for name in names {
            let variables = self.get(name);
            let is_cell = |v: &&Variable| {
                v.contents.kind == Kind::Cell && v.binding == Binding::Fixed && v.cfgs.is_empty()
            };
            let is_mentioned = uses.mentioned().iter().any(|ident| ident == name);
            let Some(cell) = variables.first().filter(|v| is_cell(v)) else {
                continue;
            };
            if !is_mentioned && (cell.contents.is_shared || self.is_used_later(name)) {
                out.extend(watch(cell.ident.span(), carrier, &cell.ident, name));
            }
        }
        out
    }
}

/// The closure that passes variables to a carrier.
pub(super) struct CarryClosure {
    carrier: Ident,
    statements: Tokens,
}

impl CarryClosure {
    /// The closure, with further statements.
    pub(super) fn with(&self, others: &Tokens) -> Tokens {
        let CarryClosure {
            carrier,
            statements,
        } = self;
        quote_spanned!(carrier.span()=> |#carrier: &mut _| { let _ = &#carrier; #statements #others })
    }

    /// Does it pass no variable?
    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

/// How a region deals with a variable.
#[derive(Clone, Copy)]
enum How {
    Itself,
    WhatItRefersTo,
    Watched,
}

/// The statement for one variable.
fn add(how: How, (carrier, ident, name): (&Ident, &Ident, &str), cfgs: &[Attribute]) -> Tokens {
    let span = ident.span();
    let add = match how {
        How::Itself => quote_spanned!(span=> #carrier.add(#name, &mut #ident);),
        How::WhatItRefersTo => quote_spanned!(span=> #carrier.add(#name, &mut *#ident);),
        How::Watched => watch(span, carrier, ident, name),
    };
    if cfgs.is_empty() {
        add
    } else {
        quote!(#(#cfgs)* { #add })
    }
}

fn watch(span: Span, carrier: &Ident, place: &impl ToTokens, name: &str) -> Tokens {
    quote_spanned! { span=>
        (&&::tilekit::rt::Watched(&#place)).watch(#carrier, #name);
    }
}
