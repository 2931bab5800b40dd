//! `#[case]`.

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, ItemFn, Token, bracketed, parenthesized, parse2};

/// `sizes(n = [1_000, 1 << 20], k = [64])`.
#[derive(Default)]
struct Arguments {
    sizes: Vec<Size>,
}

struct Size {
    name: Ident,
    values: Punctuated<Expr, Token![,]>,
}

impl Parse for Size {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let list;
        bracketed!(list in input);
        let values = Punctuated::parse_terminated(&list)?;
        if values.is_empty() {
            return Err(syn::Error::new(
                list.span(),
                format!("the size `{name}` has no value, so the case would never run"),
            ));
        }
        Ok(Size { name, values })
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut arguments = Arguments::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            if name != "sizes" {
                return Err(syn::Error::new(
                    name.span(),
                    "expected `sizes(n = [1_000, 1 << 20])`, or nothing",
                ));
            }
            let list;
            parenthesized!(list in input);
            arguments
                .sizes
                .extend(Punctuated::<Size, Token![,]>::parse_terminated(&list)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

pub(crate) fn expand(attribute: Tokens, item: Tokens) -> syn::Result<Tokens> {
    let arguments: Arguments = parse2(attribute)?;
    let f: ItemFn = parse2(item)?;
    check(&f)?;
    let ident = &f.sig.ident;
    let name = ident.unraw().to_string();
    let line = quote_spanned!(ident.span()=> ::core::line!());
    let sizes = arguments.sizes.iter().map(|size| {
        let (name, values) = (size.name.unraw().to_string(), &size.values);
        quote!(::tilekit::case::SizeList { name: #name, values: &[#values] })
    });
    let cfgs = f.attrs.iter().filter(|a| a.path().is_ident("cfg"));
    Ok(quote! {
        #f
        #(#cfgs)*
        const _: () = {
            ::tilekit::rt::inventory::submit! {
                ::tilekit::case::CaseEntry {
                    name: #name,
                    module: ::core::module_path!(),
                    file: ::core::file!(),
                    line: #line,
                    sizes: &[#(#sizes),*],
                    function: #ident,
                }
            }
        };
    })
}

fn check(f: &ItemFn) -> syn::Result<()> {
    if !f.sig.generics.params.is_empty() {
        let message = "a case is not generic: name the instances that it launches";
        return Err(syn::Error::new_spanned(&f.sig.generics, message));
    }
    if f.sig.inputs.len() != 1 {
        let message = "a case takes one argument, `case: &mut Case`, and gives a `CaseResult`";
        return Err(syn::Error::new_spanned(&f.sig, message));
    }
    Ok(())
}
