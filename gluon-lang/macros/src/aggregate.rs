//! `#[derive(Aggregate)]`.

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Index, Variant};

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<Tokens> {
    let (walk, look, fork) = match &item.data {
        Data::Struct(data) => (
            walk_struct(&data.fields, &Way::WALK),
            walk_struct(&data.fields, &Way::LOOK),
            fork_struct(&data.fields),
        ),
        Data::Enum(data) => {
            let walks = data.variants.iter().map(|v| walk_variant(v, &Way::WALK));
            let looks = data.variants.iter().map(|v| walk_variant(v, &Way::LOOK));
            let forks = data.variants.iter().map(fork_variant);
            (
                quote!(match self { #(#walks)* }),
                quote!(match self { #(#looks)* }),
                quote!(match self { #(#forks)* }),
            )
        }
        Data::Union(data) => {
            return Err(syn::Error::new(
                data.union_token.span,
                "a union cannot be an `Aggregate`: its active field is unknown",
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
            fn fork(&self) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(#fork)
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
    let form = variant.ident.unraw().to_string();
    let (pattern, members) = bind_fields(variant);
    let walks = variant.fields.iter().zip(&members).enumerate();
    let walks = walks.map(|(i, (field, (_, bound)))| {
        let name = match &field.ident {
            Some(ident) => ident.unraw().to_string(),
            None => i.to_string(),
        };
        quote_spanned!(field.ty.span()=> __walker.#method(#name, #bound);)
    });
    let says_form = way.is_mut.then(|| quote!(__walker.form(&#form);));
    quote!(#pattern => {
        #says_form
        #(#walks)*
    })
}

/// A pattern for the variant, and of each field how it is named in an expression and what the pattern binds it to.
fn bind_fields(variant: &Variant) -> (Tokens, Vec<(Tokens, Ident)>) {
    let ident = &variant.ident;
    let members = variant.fields.iter().enumerate().map(|(i, field)| {
        let member = member(field, i);
        (member, format_ident!("__field{i}"))
    });
    let members: Vec<_> = members.collect();
    let bound = members
        .iter()
        .map(|(member, bound)| quote!(#member: #bound));
    (quote!(Self::#ident { #(#bound),* }), members)
}

/// How a field is named in an expression.
fn member(field: &syn::Field, index: usize) -> Tokens {
    let index = Index::from(index);
    let named = field.ident.as_ref().map(|ident| quote!(#ident));
    named.unwrap_or_else(|| quote!(#index))
}

fn fork_struct(fields: &Fields) -> Tokens {
    let forks = fields.iter().enumerate().map(|(i, field)| {
        let member = member(field, i);
        quote_spanned!(field.ty.span()=> #member: ::tilekit::rt::Carry::fork(&self.#member)?)
    });
    quote!(Self { #(#forks),* })
}

fn fork_variant(variant: &Variant) -> Tokens {
    let ident = &variant.ident;
    let (pattern, members) = bind_fields(variant);
    let forks = members.iter().zip(&variant.fields).map(|((member, bound), field)| {
        quote_spanned!(field.ty.span()=> #member: ::tilekit::rt::Carry::fork(#bound)?)
    });
    quote!(#pattern => Self::#ident { #(#forks),* },)
}

fn field_types(data: &Data) -> Vec<syn::Type> {
    let of = |fields: &Fields| fields.iter().map(|f| f.ty.clone()).collect::<Vec<_>>();
    match data {
        Data::Struct(data) => of(&data.fields),
        Data::Enum(data) => data.variants.iter().flat_map(|v| of(&v.fields)).collect(),
        Data::Union(_) => Vec::new(),
    }
}
