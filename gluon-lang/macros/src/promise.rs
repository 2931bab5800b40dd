//! What launches promise of a parameter or a field: `#[multiple_of(16)]`, `#[align(4)]`, `#[readonly]`.

use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Lit, Type};

pub(crate) fn is_promise(attribute: &Attribute) -> bool {
    is_divisor(attribute) || is_readonly(attribute)
}

fn is_divisor(attribute: &Attribute) -> bool {
    attribute.path().is_ident("align") || attribute.path().is_ident("multiple_of")
}

fn is_readonly(attribute: &Attribute) -> bool {
    attribute.path().is_ident("readonly")
}

/// What attributes promise.
pub(crate) struct Promised {
    /// A `Promises`, as a constant expression.
    pub(crate) value: Tokens,
    /// Statements that are an error at the type, where it can promise nothing of the kind.
    pub(crate) checks: Vec<Tokens>,
}

/// What the attributes of a parameter or field of this type promise.
pub(crate) fn promised(attributes: &[Attribute], ty: &Type) -> syn::Result<Promised> {
    let mut divisor = quote!(::core::option::Option::None);
    let mut is_read_only = false;
    let mut checks = Vec::new();
    for attribute in attributes {
        if is_divisor(attribute) {
            let number = number(attribute)?;
            divisor = quote!(::core::option::Option::Some(const { (#number) as u32 }));
            checks.push(
                quote_spanned!(ty.span()=> ::tilekit::rt::only_numbers_are_multiples::<#ty>();),
            );
        } else {
            attribute.meta.require_path_only()?;
            is_read_only = true;
            // Of a number this is an error at its type: there is nothing that could be read.
            checks.push(
                quote_spanned!(ty.span()=> ::tilekit::rt::only_pointers_are_readonly::<#ty>();),
            );
        }
    }
    let value = quote!(::tilekit::rt::Promises {
        divisor: #divisor,
        is_readonly: #is_read_only,
    });
    Ok(Promised { value, checks })
}

/// The divisor that `#[align(16)]` or `#[multiple_of(16)]` says.
fn number(attribute: &Attribute) -> syn::Result<Expr> {
    let number: Expr = attribute.parse_args()?;
    if let Expr::Lit(literal) = &number
        && let Lit::Int(int) = &literal.lit
        && !int.base10_parse::<u32>()?.is_power_of_two()
    {
        return Err(syn::Error::new_spanned(
            literal,
            "a divisor that launches promise is a power of two",
        ));
    }
    Ok(number)
}
