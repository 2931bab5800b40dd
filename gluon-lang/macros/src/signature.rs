//! `signature(..)` of `#[kernel]`: how a launch follows from its tensors.

mod field;
mod names;
mod rule;
#[cfg(test)]
mod tests;

use proc_macro2::{Ident, Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, ItemFn, Path, Token, bracketed, parenthesized};

use field::FieldPath;
use names::Names;

/// What the author writes: `x: [rows, cols], row_stride = x.stride(0), grid = rows, requires(cols <= COLS)`.
pub(crate) struct Signature {
    at: Span,
    tensors: Vec<(Ident, Vec<Expr>)>,
    /// The corners of the windows of im2col maps.
    windows: Vec<(Ident, [Vec<Expr>; 2])>,
    /// The steps of tensor maps.
    steps: Vec<(Ident, Vec<Expr>)>,
    rules: Vec<(Ident, Expr)>,
    requires: Vec<Expr>,
    /// The kernel of its gradients.
    backward: Option<Path>,
    /// Fields of parameters that are structs, which tensors and rules go by.
    fields: Vec<FieldPath>,
}

impl Signature {
    pub(crate) fn parse(at: Span, input: ParseStream) -> syn::Result<Signature> {
        let mut signature = Signature {
            at,
            tensors: Vec::new(),
            windows: Vec::new(),
            steps: Vec::new(),
            rules: Vec::new(),
            requires: Vec::new(),
            backward: None,
            fields: Vec::new(),
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
        let mut name = Ident::parse_any(input)?;
        let field = FieldPath::after(&name, input)?;
        if let Some(field) = &field {
            name = field.symbol();
        }
        if input.peek(Token![:]) {
            input.parse::<Token![:]>()?;
            self.fields.extend(field);
            self.tensors.push((name, list(input)?));
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            self.fields.extend(field);
            self.rules.push((name, input.parse()?));
        } else if name == "requires" {
            let conditions;
            parenthesized!(conditions in input);
            let conditions: Punctuated<Expr, Token![,]> =
                Punctuated::parse_terminated(&conditions)?;
            self.requires.extend(conditions);
        } else if name == "window" {
            let window;
            parenthesized!(window in input);
            let (image, lower) = listed(&window)?;
            window.parse::<Token![,]>()?;
            self.windows.push((image, [lower, list(&window)?]));
            window.parse::<Option<Token![,]>>()?;
        } else if name == "steps" {
            let steps;
            parenthesized!(steps in input);
            self.steps.push(listed(&steps)?);
            steps.parse::<Option<Token![,]>>()?;
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
                "expected `x: [rows, cols]`, `row_stride = x.stride(0)`, `grid = cdiv(rows, 4)`, `requires(cols <= COLS)`, \
                 `window(x, [-1, -1], [-1, -1])`, `steps(x, [1, 2, 2, 1])` or `backward(kernel)`",
            ));
        }
        Ok(())
    }

    /// The statement that says it to the trace.
    pub(crate) fn statement(&self, f: &ItemFn) -> syn::Result<Tokens> {
        let names = Names::of(self, f)?;
        let texts = |rules: &[Expr]| -> syn::Result<Tokens> {
            let texts = rules.iter().map(|rule| names.text(rule));
            let texts: Vec<Tokens> = texts.collect::<syn::Result<_>>()?;
            Ok(quote!(::std::vec![#(#texts),*]))
        };
        let tensors = self.tensors.iter().map(|(name, extents)| {
            let (name, extents) = (name.unraw().to_string(), texts(extents)?);
            Ok(quote!((#name, #extents)))
        });
        let tensors: Vec<Tokens> = tensors.collect::<syn::Result<_>>()?;
        let windows = self.windows.iter().map(|(name, [lower, upper])| {
            let (name, lower, upper) = (name.unraw().to_string(), texts(lower)?, texts(upper)?);
            Ok(quote!((#name, [#lower, #upper])))
        });
        let windows: Vec<Tokens> = windows.collect::<syn::Result<_>>()?;
        let steps = self.steps.iter().map(|(name, steps)| {
            let (name, steps) = (name.unraw().to_string(), texts(steps)?);
            Ok(quote!((#name, #steps)))
        });
        let steps: Vec<Tokens> = steps.collect::<syn::Result<_>>()?;
        let mut scalars = Vec::new();
        // Statements that are errors of rustc's, at the rule, where fields or lengths are others.
        let mut checks: Vec<Tokens> = self.fields.iter().map(FieldPath::check).collect();
        let mut grid = quote!(::core::option::Option::None);
        for (name, value) in &self.rules {
            if name == "grid" {
                let counts = names.grid(value)?;
                grid = quote!(::core::option::Option::Some([#(#counts),*]));
                continue;
            }
            if let Some(elements) = names.elements(name, value)? {
                let count = elements.len();
                let field = self.fields.iter().find(|field| field.symbol() == *name);
                let array = field.map_or_else(|| quote!(#name), FieldPath::value);
                checks.push(quote_spanned!(value.span()=> let _: [_; #count] = #array;));
                for (at, element) in elements.iter().enumerate() {
                    let (name, value) = (format!("{}_{at}", name.unraw()), names.text(element)?);
                    scalars.push(quote!((::std::string::String::from(#name), #value)));
                }
                continue;
            }
            let (name, value) = (name.unraw().to_string(), names.text(value)?);
            scalars.push(quote!((::std::string::String::from(#name), #value)));
        }
        let same = names.scalars.intersection(&names.sizes);
        scalars.extend(same.map(
            |name| quote!((::std::string::String::from(#name), ::std::string::String::from(#name))),
        ));
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
            #(#checks)*
            ::tilekit::rt::set_signature(::tilekit::rt::Signature {
                tensors: ::std::vec![#(#tensors),*],
                windows: ::std::vec![#(#windows),*],
                steps: ::std::vec![#(#steps),*],
                scalars: ::std::vec![#(#scalars),*],
                grid: #grid,
                requires: ::std::vec![#(#requires),*],
                backward: #backward,
            });
        })
    }
}

/// `[a, b]`
fn list(input: ParseStream) -> syn::Result<Vec<Expr>> {
    let rules;
    bracketed!(rules in input);
    let rules: Punctuated<Expr, Token![,]> = Punctuated::parse_terminated(&rules)?;
    Ok(rules.into_iter().collect())
}

/// `x, [a, b]`
fn listed(input: ParseStream) -> syn::Result<(Ident, Vec<Expr>)> {
    let name = Ident::parse_any(input)?;
    input.parse::<Token![,]>()?;
    Ok((name, list(input)?))
}
