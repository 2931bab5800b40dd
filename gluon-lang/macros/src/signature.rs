//! `signature(..)` of `#[kernel]`: how a launch follows from its tensors.

mod names;
mod rule;
#[cfg(test)]
mod tests;

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Expr, ItemFn, Path, Token, bracketed, parenthesized};

use names::Names;

/// What the author writes: `x: [rows, cols], row_stride = x.stride(0), grid = rows, requires(cols <= COLS)`.
pub(crate) struct Signature {
    at: Span,
    tensors: Vec<(Ident, Vec<Expr>)>,
    rules: Vec<(Ident, Expr)>,
    requires: Vec<Expr>,
    /// The kernel of its gradients.
    backward: Option<Path>,
}

impl Signature {
    pub(crate) fn parse(at: Span, input: ParseStream) -> syn::Result<Signature> {
        let mut signature = Signature {
            at,
            tensors: Vec::new(),
            rules: Vec::new(),
            requires: Vec::new(),
            backward: None,
        };
        let list;
        parenthesized!(list in input);
        while !list.is_empty() {
            signature.item(&list)?;
            if !list.is_empty() {
                list.parse::<Token![,]>()?;
            }
        }
        Ok(signature)
    }

    fn item(&mut self, input: ParseStream) -> syn::Result<()> {
        let name = Ident::parse_any(input)?;
        if input.peek(Token![:]) {
            input.parse::<Token![:]>()?;
            let extents;
            bracketed!(extents in input);
            let extents: Punctuated<Expr, Token![,]> = Punctuated::parse_terminated(&extents)?;
            self.tensors.push((name, extents.into_iter().collect()));
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            self.rules.push((name, input.parse()?));
        } else if name == "requires" {
            let conditions;
            parenthesized!(conditions in input);
            let conditions: Punctuated<Expr, Token![,]> =
                Punctuated::parse_terminated(&conditions)?;
            self.requires.extend(conditions);
        } else if name == "backward" {
            let path;
            parenthesized!(path in input);
            let path: Path = path.parse()?;
            if self.backward.replace(path).is_some() {
                return Err(syn::Error::new(name.span(), "`backward` is given twice"));
            }
        } else {
            return Err(syn::Error::new(
                name.span(),
                "expected `x: [rows, cols]`, `row_stride = x.stride(0)`, `grid = cdiv(rows, 4)`, `requires(cols <= COLS)` or \
                 `backward(kernel)`",
            ));
        }
        Ok(())
    }

    /// The statement that says it to the trace.
    pub(crate) fn statement(&self, f: &ItemFn) -> syn::Result<Tokens> {
        let names = Names::of(self, f)?;
        let tensors = self.tensors.iter().map(|(name, extents)| {
            let name = name.unraw().to_string();
            let extents: Vec<Tokens> = extents
                .iter()
                .map(|extent| names.text(extent))
                .collect::<syn::Result<_>>()?;
            Ok(quote!((#name, ::std::vec![#(#extents),*])))
        });
        let tensors: Vec<Tokens> = tensors.collect::<syn::Result<_>>()?;
        let mut scalars = Vec::new();
        let mut grid = quote!(::core::option::Option::None);
        for (name, value) in &self.rules {
            if name == "grid" {
                let counts = names.grid(value)?;
                grid = quote!(::core::option::Option::Some([#(#counts),*]));
                continue;
            }
            let (name, value) = (name.unraw().to_string(), names.text(value)?);
            scalars.push(quote!((#name, #value)));
        }
        let same = names.scalars.intersection(&names.sizes);
        scalars.extend(same.map(|name| quote!((#name, ::std::string::String::from(#name)))));
        let requires: Vec<Tokens> = self
            .requires
            .iter()
            .map(|condition| names.condition(condition))
            .collect::<syn::Result<_>>()?;
        let backward = self.backward.as_ref().map(|path| {
            let name = path
                .segments
                .last()
                .map(|last| last.ident.unraw().to_string());
            // The import makes a name that is no function's an error of rustc's, at its line.
            quote! {{
                #[allow(unused_imports)]
                use self::#path as _;
                #name
            }}
        });
        let none = quote!(::core::option::Option::None);
        let backward = backward.map_or(none, |name| quote!(::core::option::Option::Some(#name)));
        Ok(quote! {
            ::tilekit::rt::set_signature(::tilekit::rt::Signature {
                tensors: ::std::vec![#(#tensors),*],
                scalars: ::std::vec![#(#scalars),*],
                grid: #grid,
                requires: ::std::vec![#(#requires),*],
                backward: #backward,
            });
        })
    }
}
