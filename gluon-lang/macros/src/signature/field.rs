//! Fields of parameters that are structs, in a signature: `source.pitch = source.first.stride(0)`.

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Expr, Member, Token};

/// A field of a parameter, or a field of a field.
pub(super) struct FieldPath {
    pub(super) param: Ident,
    fields: Vec<Ident>,
}

impl FieldPath {
    /// What stands behind the name of a parameter, if that is fields.
    pub(super) fn after(param: &Ident, input: ParseStream) -> syn::Result<Option<FieldPath>> {
        let mut fields = Vec::new();
        while input.peek(Token![.]) {
            input.parse::<Token![.]>()?;
            fields.push(Ident::parse_any(input)?);
        }
        let param = param.clone();
        Ok((!fields.is_empty()).then_some(FieldPath { param, fields }))
    }

    /// What the parameter is called in IR and exports.
    pub(super) fn symbol(&self) -> Ident {
        let name = self
            .fields
            .iter()
            .fold(self.param.unraw().to_string(), join);
        format_ident!("{name}", span = self.param.span())
    }

    /// A statement in which rustc finds the field missing.
    pub(super) fn check(&self) -> Tokens {
        let span = self.fields.last().unwrap_or(&self.param).span();
        let value = self.value();
        quote_spanned!(span=> let _ = &#value;)
    }

    /// The field in the body.
    pub(super) fn value(&self) -> Tokens {
        let FieldPath { param, fields } = self;
        quote!(#param #(.#fields)*)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "what a fold takes")]
fn join(path: String, field: &Ident) -> String {
    format!("{path}_{}", field.unraw())
}

/// The parameter that an expression names, `x` or `source.first`, as it is called in IR and exports.
pub(super) fn symbol_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => Some(path.path.get_ident()?.unraw().to_string()),
        Expr::Field(field) => match &field.member {
            Member::Named(name) => Some(join(symbol_of(&field.base)?, name)),
            Member::Unnamed(_) => None,
        },
        _ => None,
    }
}
