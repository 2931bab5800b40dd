//! The arguments of the attributes.

use proc_macro2::TokenStream as Tokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{AngleBracketedGenericArguments, Attribute, Expr, Ident, LitInt, Token, parenthesized};

/// What `#[kernel(..)]` says.
#[derive(Default)]
pub(crate) struct KernelArguments {
    pub(crate) warps: Option<Expr>,
    pub(crate) instances: Vec<AngleBracketedGenericArguments>,
    pub(crate) denied: Vec<Ident>,
    pub(crate) max_registers: Option<Expr>,
    pub(crate) min_ctas_per_sm: Option<Expr>,
}

/// What may be denied, as the field of the contract that says so.
pub(crate) fn contract_field(word: &Ident) -> syn::Result<Ident> {
    let field = match word.to_string().as_str() {
        "conversions" => "denies_conversions",
        "uncoalesced" => "denies_uncoalesced",
        "bank_conflicts" => "denies_bank_conflicts",
        "spills" => "denies_spills",
        _ => {
            return Err(syn::Error::new(
                word.span(),
                "a kernel denies `conversions`, `uncoalesced`, `bank_conflicts` or `spills`",
            ));
        }
    };
    Ok(Ident::new(field, word.span()))
}

impl Parse for KernelArguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = KernelArguments::default();
        while !input.is_empty() {
            arguments.one(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl KernelArguments {
    fn one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let word: Ident = input.parse()?;
        match word.to_string().as_str() {
            "warps" => self.warps = Some(value(input)?),
            "max_registers" => self.max_registers = Some(value(input)?),
            "min_ctas_per_sm" => self.min_ctas_per_sm = Some(value(input)?),
            "instances" => {
                let list;
                parenthesized!(list in input);
                self.instances.extend(
                    Punctuated::<AngleBracketedGenericArguments, Token![,]>::parse_terminated(
                        &list,
                    )?,
                );
            }
            "deny" => {
                let list;
                parenthesized!(list in input);
                self.denied
                    .extend(Punctuated::<Ident, Token![,]>::parse_terminated(&list)?);
            }
            _ => {
                return Err(syn::Error::new(
                    word.span(),
                    "a kernel's attribute takes `warps = ..`, `instances(..)`, `deny(..)`, `max_registers = ..` and `min_ctas_per_sm = ..`",
                ));
            }
        }
        Ok(())
    }
}

fn value(input: ParseStream<'_>) -> syn::Result<Expr> {
    input.parse::<Token![=]>()?;
    input.parse()
}

/// The divisor that a parameter's attributes promise; they are taken off, since only the macro knows them.
pub(crate) fn take_divisor(attributes: &mut Vec<Attribute>) -> syn::Result<Option<LitInt>> {
    let mut divisor = None;
    let mut rest = Vec::new();
    for attribute in attributes.drain(..) {
        if !attribute.path().is_ident("multiple_of") && !attribute.path().is_ident("align") {
            rest.push(attribute);
            continue;
        }
        let number: LitInt = attribute.parse_args()?;
        let is_power = number.base10_parse::<u32>().is_ok_and(u32::is_power_of_two);
        if !is_power {
            return Err(syn::Error::new(
                number.span(),
                "a power of two is wanted, such as `#[multiple_of(16)]`",
            ));
        }
        divisor = Some(number);
    }
    *attributes = rest;
    Ok(divisor)
}

/// What `#[case(..)]` says: sizes by name.
#[derive(Default)]
pub(crate) struct CaseArguments {
    pub(crate) sizes: Vec<(Ident, Expr)>,
}

impl Parse for CaseArguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = CaseArguments::default();
        while !input.is_empty() {
            let word: Ident = input.parse()?;
            if word != "sizes" {
                return Err(syn::Error::new(
                    word.span(),
                    "a case's attribute takes `sizes(name = [..], ..)`",
                ));
            }
            let list;
            parenthesized!(list in input);
            while !list.is_empty() {
                let name: Ident = list.parse()?;
                list.parse::<Token![=]>()?;
                arguments.sizes.push((name, list.parse()?));
                if !list.is_empty() {
                    list.parse::<Token![,]>()?;
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

/// Refuses arguments where there are none.
pub(crate) fn expect_none(attributes: &Tokens, what: &str) -> syn::Result<()> {
    if attributes.is_empty() {
        return Ok(());
    }
    Err(syn::Error::new_spanned(
        attributes,
        format!("`{what}` takes no arguments"),
    ))
}
