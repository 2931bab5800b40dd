//! `#[device]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::ext::IdentExt;
use syn::{ItemFn, ReturnType, parse2};

use crate::rewrite::{lift_returns, rewrite};
use crate::traced::{allowed, check_attributes, check_signature};

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
