//! `#[derive(Aggregate)]`.

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Index, Variant};

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<Tokens> {
    let (walk, look) = match &item.data {
        Data::Struct(data) => (
            walk_struct(&data.fields, &Way::WALK),
            walk_struct(&data.fields, &Way::LOOK),
        ),
        Data::Enum(data) => {
            let walks = data.variants.iter().map(|v| walk_variant(v, &Way::WALK));
            let looks = data.variants.iter().map(|v| walk_variant(v, &Way::LOOK));
            (
                quote!(match self { #(#walks)* }),
                quote!(match self { #(#looks)* }),
            )
        }
        Data::Union(data) => {
            return Err(syn::Error::new(
                data.union_token.span,
                "a union cannot say what it holds",
            ));
        }
    };
    let name = &item.ident;
    let mut generics = item.generics.clone();
    if !generics.params.is_empty() {
        let types: Vec<syn::Type> = field_types(&item.data);
        let clause = generics.make_where_clause();
        for ty in types {
            clause
                .predicates
                .push(syn::parse_quote!(#ty: ::tilekit::rt::Carry));
        }
    }
    let (params, arguments, clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #params ::tilekit::rt::Carry for #name #arguments #clause {
            fn walk(&mut self, __walker: &mut ::tilekit::rt::Walker<'_>) {
                #walk
            }
            fn look(&self, __walker: &mut ::tilekit::rt::Walker<'_>) {
                #look
            }
        }
    })
}

/// How the parts are shown.
struct Way {
    method: &'static str,
    is_mut: bool,
}

impl Way {
    const WALK: Way = Way {
        method: "field",
        is_mut: true,
    };
    const LOOK: Way = Way {
        method: "look",
        is_mut: false,
    };

    fn method(&self) -> Ident {
        format_ident!("{}", self.method)
    }
}

fn walk_struct(fields: &Fields, way: &Way) -> Tokens {
    let (method, token) = (way.method(), way.is_mut.then(|| quote!(mut)));
    let walks = fields.iter().enumerate().map(|(i, field)| {
        let index = Index::from(i);
        let (member, name) = match &field.ident {
            Some(ident) => (quote!(#ident), ident.unraw().to_string()),
            None => (quote!(#index), i.to_string()),
        };
        quote_spanned!(field.ty.span()=> __walker.#method(#name, &#token self.#member);)
    });
    quote!(#(#walks)*)
}

fn walk_variant(variant: &Variant, way: &Way) -> Tokens {
    let method = way.method();
    let (ident, form) = (&variant.ident, variant.ident.unraw().to_string());
    let bound: Vec<_> = (0..variant.fields.len())
        .map(|i| format_ident!("__field{i}"))
        .collect();
    let walks = variant
        .fields
        .iter()
        .zip(&bound)
        .enumerate()
        .map(|(i, (field, bound))| {
            let name = field
                .ident
                .as_ref()
                .map_or_else(|| i.to_string(), |ident| ident.unraw().to_string());
            quote_spanned!(field.ty.span()=> __walker.#method(#name, #bound);)
        });
    let pattern = match &variant.fields {
        Fields::Named(fields) => {
            let names = fields.named.iter().map(|f| &f.ident);
            quote!(Self::#ident { #(#names: #bound),* })
        }
        Fields::Unnamed(_) => quote!(Self::#ident(#(#bound),*)),
        Fields::Unit => quote!(Self::#ident),
    };
    let says_form = way.is_mut.then(|| quote!(__walker.form(&#form);));
    quote!(#pattern => {
        #says_form
        #(#walks)*
    })
}

fn field_types(data: &Data) -> Vec<syn::Type> {
    let of = |fields: &Fields| fields.iter().map(|f| f.ty.clone()).collect::<Vec<_>>();
    match data {
        Data::Struct(data) => of(&data.fields),
        Data::Enum(data) => data.variants.iter().flat_map(|v| of(&v.fields)).collect(),
        Data::Union(_) => Vec::new(),
    }
}
