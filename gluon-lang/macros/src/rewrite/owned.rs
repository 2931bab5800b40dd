//! Variables that the arms of a branch move, such as accumulators. Both arms of a runtime branch are traced, one after the other, so each
//! arm gets the variable, and after the branch it is moved:
//!
//! ```text
//!                                            let mut slot = Some(acc);
//! if condition { f(acc.wait_all()) }         if state.then(..) { let acc = state.own(&mut slot); f(acc.wait_all()) }
//! else { g(acc.wait_all()) }                 ..
//! ```

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::quote;
use syn::ext::IdentExt;

use super::contents::Kind;
use super::rewriter::Rewriter;
use super::scope::{Binding, Variable};
use super::uses::Uses;

/// Such a variable.
pub(super) struct Owned {
    /// At its first use in the arms, where rustc reports the move.
    pub(super) ident: Ident,
    slot: Ident,
    is_mut: bool,
}

impl Rewriter {
    /// The variables that the arms of a branch may move, if they hold accumulators. One that is used after the branch and assigned in an
    /// arm is carried instead.
    pub(super) fn owned(&mut self, uses: &Uses) -> Vec<Owned> {
        let mut found = Vec::new();
        for ident in uses.mentioned() {
            let name = ident.unraw().to_string();
            let goes_on = uses.assigns(&name) && self.scopes.is_used_later(&name);
            let variables = self.scopes.get(&name);
            let Some(variable) = variables
                .first()
                .filter(|v| self.may_be_used_up(v, uses, &name))
            else {
                continue;
            };
            let is_mut = variable.binding == Binding::Mutable;
            if !goes_on {
                let (ident, slot) = (ident.clone(), self.fresh("slot"));
                found.push(Owned {
                    ident,
                    slot,
                    is_mut,
                });
            }
        }
        found
    }

    fn may_be_used_up(&self, variable: &Variable, uses: &Uses, name: &str) -> bool {
        let is_accumulator = variable.contents.kind == Kind::Accumulator && uses.gives_away(name);
        let is_given = match variable.binding {
            // A region carries it, so that both arms can have it.
            Binding::Mutable | Binding::Captured => {
                is_accumulator || uses.uses_up(name) || uses.only_gives_away(name)
            }
            Binding::Fixed => is_accumulator || uses.uses_up(name),
            _ => false,
        };
        is_given && variable.cfgs.is_empty() && self.scopes.has_value(variable)
    }
}

impl Owned {
    /// Before the branch: moves the accumulator into the slot that both arms read.
    pub(super) fn put(&self) -> Tokens {
        let Owned { ident, slot, .. } = self;
        // That the arms change it counts as a change of the author's variable.
        let lent = self.is_mut.then(|| quote!(let _ = &mut #ident;));
        quote!(#lent let mut #slot = ::core::option::Option::Some(#ident);)
    }

    /// At the start of an arm that uses it.
    pub(super) fn take(&self, state: &Ident, arm: &Uses) -> Tokens {
        let Owned {
            ident,
            slot,
            is_mut,
        } = self;
        if !arm.mentions(&ident.unraw().to_string()) {
            return Tokens::new();
        }
        let token = is_mut.then(|| quote!(mut));
        quote! {
            #[allow(unused_mut, reason = "the other arm may be all that changes it")]
            let #token #ident = #state.own(&mut #slot);
        }
    }
}
