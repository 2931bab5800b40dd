//! `#[derive(KernelParam)]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Member, Type, parse_quote_spanned};

use crate::promise::{Promised, is_promise, promised};

pub(crate) fn expand(item: &DeriveInput) -> syn::Result<Tokens> {
    let fields = fields_of(item)?;
    let types: Vec<&Type> = fields.iter().map(|field| &field.ty).collect();
    let members = fields.members();
    let (mut parts, mut checks) = (Vec::new(), Vec::new());
    for (field, member) in fields.iter().zip(members.clone()) {
        let promised = promised(&promises_of(field), &field.ty)?;
        parts.push(part(field, &member, &promised));
        checks.extend(promised.checks);
    }
    let name = &item.ident;
    let mut generics = item.generics.clone();
    let (_, arguments, _) = item.generics.split_for_impl();
    let clause = generics.make_where_clause();
    for ty in &types {
        clause
            .predicates
            .push(parse_quote_spanned!(ty.span()=> #ty: ::tilekit::rt::InAggregates));
    }
    clause
        .predicates
        .push(parse_quote_spanned!(name.span()=> Self: ::core::marker::Copy + 'static));
    let (params, _, clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #params ::tilekit::rt::KernelParam for #name #arguments #clause {
            type Handle = Self;
        }
        #[automatically_derived]
        impl #params ::tilekit::rt::InAggregates for #name #arguments #clause {}
        #[automatically_derived]
        impl #params ::tilekit::rt::ParamStruct for #name #arguments #clause {
            type Fields = (#(#types,)*);
        }
        #[automatically_derived]
        impl #params ::tilekit::rt::ParamHandle for #name #arguments #clause {
            type Host = Self;
            fn parts(__parts: &mut ::tilekit::rt::Parts) {
                #(#checks)*
                #(#parts)*
            }
            fn declare(__next: &mut ::tilekit::rt::NextParam) -> Self {
                Self { #(#members: <#types as ::tilekit::rt::ParamHandle>::declare(__next)),* }
            }
        }
    })
}

fn fields_of(item: &DeriveInput) -> syn::Result<&Fields> {
    match &item.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(data) => Err(syn::Error::new(
            data.enum_token.span,
            "an enum cannot be a parameter of a kernel: which variant it is would be known at the launch only",
        )),
        Data::Union(data) => Err(syn::Error::new(
            data.union_token.span,
            "a union cannot be a parameter of a kernel: its active field is unknown",
        )),
    }
}

fn promises_of(field: &Field) -> Vec<Attribute> {
    let attributes = field.attrs.iter().filter(|a| is_promise(a));
    attributes.cloned().collect()
}

/// The statement that lists the parameters of a field.
fn part(field: &Field, member: &Member, promised: &Promised) -> Tokens {
    let name = match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    let (ty, promises) = (&field.ty, &promised.value);
    quote! {
        __parts.promised(#promises, |__parts| {
            __parts.within(#name, <#ty as ::tilekit::rt::ParamHandle>::parts);
        });
    }
}
