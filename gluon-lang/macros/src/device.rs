//! `#[device]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, ItemFn, ReturnType, Signature, parse2};

use crate::kernel::allowed;
use crate::rewrite::{lift_returns, rewrite};

/// The function itself is `#[track_caller]`, to learn where it was called; its body is a closure, which is not, so that
/// the operations in it have places of their own.
pub(crate) fn expand(attribute: Tokens, item: Tokens) -> syn::Result<Tokens> {
    if !attribute.is_empty() {
        return Err(syn::Error::new_spanned(
            attribute,
            "`#[device]` takes no arguments",
        ));
    }
    let mut f: ItemFn = parse2(item)?;
    check_signature(&f.sig)?;
    check_attributes(&f.attrs)?;
    lift_returns(&mut f.block);
    let mistakes = rewrite(&f.sig, &mut f.block);
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = &f;
    let name = sig.ident.unraw().to_string();
    let allowed = allowed();
    let output = closure_output(&sig.output);
    Ok(quote! {
        #(#attrs)*
        #[track_caller]
        #allowed
        #vis #sig {
            #mistakes
            let __frame = ::tilekit::rt::enter(#name);
            ::tilekit::rt::body(move || #output #block)
        }
    })
}

/// One of the macros stands on a function, and once.
pub(crate) fn check_attributes(attributes: &[Attribute]) -> syn::Result<()> {
    let is_ours = |a: &&Attribute| {
        let last = a.path().segments.last();
        last.is_some_and(|s| s.ident == "kernel" || s.ident == "device")
    };
    match attributes.iter().find(is_ours) {
        Some(second) => Err(syn::Error::new_spanned(
            second,
            "a function has one attribute `#[kernel]` or `#[device]`",
        )),
        None => Ok(()),
    }
}

/// What no traced function can be.
pub(crate) fn check_signature(signature: &Signature) -> syn::Result<()> {
    let refuse = |tokens: &dyn quote::ToTokens, what: &str| {
        Err(syn::Error::new_spanned(
            tokens,
            format!("a function that is traced cannot be `{what}`"),
        ))
    };
    if let Some(token) = &signature.constness {
        return refuse(token, "const");
    }
    if let Some(token) = &signature.asyncness {
        return refuse(token, "async");
    }
    if let Some(token) = &signature.abi {
        return refuse(token, "extern");
    }
    Ok(())
}

/// A closure cannot say `impl Trait`; then its type is inferred.
fn closure_output(output: &ReturnType) -> Tokens {
    let ReturnType::Type(arrow, ty) = output else {
        return quote!(-> ());
    };
    if quote!(#ty).to_string().contains("impl ") {
        return Tokens::new();
    }
    quote!(#arrow #ty)
}
