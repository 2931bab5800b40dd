//! `#[case]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Expr, ItemFn, parse2};

use crate::attributes::CaseArguments;

pub(crate) fn expand(attributes: Tokens, item: Tokens) -> syn::Result<Tokens> {
    let arguments: CaseArguments = parse2(attributes)?;
    let function: ItemFn = parse2(item)?;
    let ident = &function.sig.ident;
    let name = ident.to_string();
    let mut sizes = Vec::new();
    for (size, values) in &arguments.sizes {
        let Expr::Array(list) = values else {
            return Err(syn::Error::new_spanned(
                values,
                "a size has a list of values, such as `n = [1_000, 1 << 20]`",
            ));
        };
        if list.elems.is_empty() {
            return Err(syn::Error::new_spanned(
                values,
                "a size has at least one value",
            ));
        }
        let text = size.to_string();
        sizes.push(quote!(::tilekit::case::SizeList { name: #text, values: &#list }));
    }
    Ok(quote! {
        #function
        ::tilekit::rt::inventory::submit! {
            ::tilekit::case::CaseEntry {
                name: #name,
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: ::core::line!(),
                sizes: &[#(#sizes),*],
                function: #ident,
            }
        }
    })
}
