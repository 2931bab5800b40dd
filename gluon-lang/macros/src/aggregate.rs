//! `#[derive(Aggregate)]`.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Fields, Index, parse_quote, parse2};

pub(crate) fn expand(item: Tokens) -> syn::Result<Tokens> {
    let input: DeriveInput = parse2(item)?;
    let ident = &input.ident;
    let mut generics = input.generics.clone();
    // A parameter that only names an element type needs no more; one that is a field itself must be carried.
    let fields: Vec<syn::Type> = field_types(&input.data);
    let has_types = input.generics.type_params().next().is_some();
    if has_types {
        let clause = generics.make_where_clause();
        for ty in &fields {
            clause
                .predicates
                .push(parse_quote!(#ty: ::tilekit::rt::Carry));
        }
    }
    let body = match &input.data {
        Data::Struct(data) => walk_struct(&data.fields),
        Data::Enum(data) => walk_enum(data),
        Data::Union(_) => {
            return Err(syn::Error::new_spanned(
                ident,
                "a union cannot live across loops of the kernel",
            ));
        }
    };
    let (impl_generics, _, clause) = generics.split_for_impl();
    let (_, type_generics, _) = input.generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics ::tilekit::rt::Carry for #ident #type_generics #clause {
            fn walk(&mut self, walker: &mut ::tilekit::rt::Walker<'_>) {
                let _ = &walker;
                #body
            }
        }
    })
}

fn field_types(data: &Data) -> Vec<syn::Type> {
    match data {
        Data::Struct(data) => data.fields.iter().map(|f| f.ty.clone()).collect(),
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|v| v.fields.iter().map(|f| f.ty.clone()))
            .collect(),
        Data::Union(_) => Vec::new(),
    }
}

fn walk_struct(fields: &Fields) -> Tokens {
    let walks = fields
        .iter()
        .enumerate()
        .map(|(i, field)| match &field.ident {
            Some(name) => {
                let text = name.to_string();
                quote!(walker.field(#text, &mut self.#name);)
            }
            None => {
                let (text, index) = (i.to_string(), Index::from(i));
                quote!(walker.field(#text, &mut self.#index);)
            }
        });
    quote!(#(#walks)*)
}

fn walk_enum(data: &syn::DataEnum) -> Tokens {
    let arms = data.variants.iter().map(|variant| {
        let (ident, text) = (&variant.ident, variant.ident.to_string());
        let names: Vec<_> = (0..variant.fields.len())
            .map(|i| format_ident!("field_{i}"))
            .collect();
        let labels = variant
            .fields
            .iter()
            .enumerate()
            .map(|(i, f)| f.ident.as_ref().map_or(i.to_string(), ToString::to_string));
        let pattern = match &variant.fields {
            Fields::Named(fields) => {
                let keys = fields.named.iter().map(|f| &f.ident);
                quote!({ #(#keys: #names),* })
            }
            Fields::Unnamed(_) => quote!((#(#names),*)),
            Fields::Unit => quote!(),
        };
        quote!(Self::#ident #pattern => { walker.form(&#text); #(walker.field(#labels, #names);)* })
    });
    quote!(match self { #(#arms)* })
}
