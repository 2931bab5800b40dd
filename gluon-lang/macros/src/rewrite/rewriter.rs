//! The state of the rewriting of one body.

use proc_macro2::{Ident, Span};
use quote::format_ident;

use super::exits::Exits;
use super::scope::Scopes;

/// Rewrites one body.
pub(super) struct Rewriter {
    pub(super) scopes: Scopes,
    pub(super) exits: Exits,
    pub(super) errors: Vec<syn::Error>,
    /// Numbers the names that the expansion brings in.
    pub(super) next: usize,
}

impl Rewriter {
    /// A name of the expansion's own, which neither the author's code nor an editor's completion sees.
    pub(super) fn fresh(&mut self, what: &str) -> Ident {
        self.next += 1;
        format_ident!("__{what}{}", self.next, span = Span::mixed_site())
    }
}
