//! `#[device]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{ItemFn, ReturnType, Type, parse_quote, parse2};

use crate::attributes::expect_none;
use crate::rewrite::rewrite_body;

/// The function tells the trace that it was entered, and from where; its body stands in a closure, which unlike the function
/// does not hand its caller's place on to the operations inside.
pub(crate) fn expand(attributes: Tokens, item: Tokens) -> syn::Result<Tokens> {
    expect_none(&attributes, "#[device]")?;
    let mut function: ItemFn = parse2(item)?;
    if let Some(token) = &function.sig.asyncness {
        return Err(syn::Error::new_spanned(
            token,
            "a device function is not `async`",
        ));
    }
    rewrite_body(&function.sig, &mut function.block)?;
    let name = function.sig.ident.to_string();
    let body = &function.block;
    let output = match &function.sig.output {
        ReturnType::Type(arrow, ty) if !matches!(&**ty, Type::ImplTrait(_)) => quote!(#arrow #ty),
        _ => quote!(),
    };
    function.block = parse_quote!({
        let _frame = ::tilekit::rt::enter(#name);
        (move || #output #body)()
    });
    function.attrs.push(parse_quote!(#[track_caller]));
    function.attrs.push(parse_quote!(#[allow(clippy::all, clippy::pedantic, unused_braces, unused_parens, unused_mut, unused_assignments, unused_labels, reason = "the body is rewritten")]));
    Ok(quote!(#function))
}
