//! `#[kernel]`.

use proc_macro2::{Ident, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    AngleBracketedGenericArguments, Attribute, Expr, FnArg, GenericParam, Generics, ItemFn, Lit,
    Meta, Pat, PatType, ReturnType, Token, parenthesized, parse_quote, parse_quote_spanned, parse2,
};

use crate::promise::{Promised, is_promise, promised};
use crate::rewrite::{cfgs, lift_returns, rewrite};
use crate::signature::Signature;
use crate::traced::{allowed, check_attributes, check_signature};

/// What the attribute says.
#[derive(Default)]
struct Arguments {
    warps: Option<Expr>,
    max_registers: Option<Expr>,
    min_ctas_per_sm: Option<Expr>,
    cluster: Option<Expr>,
    is_cooperative: bool,
    instances: Vec<AngleBracketedGenericArguments>,
    denied: Vec<Ident>,
    signature: Option<Signature>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut arguments = Arguments::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            arguments.argument(&name, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn argument(&mut self, name: &Ident, input: ParseStream) -> syn::Result<()> {
        let number = |slot: &mut Option<Expr>| {
            input.parse::<Token![=]>()?;
            if slot.is_some() {
                return Err(syn::Error::new(
                    name.span(),
                    format!("`{name}` is given twice"),
                ));
            }
            *slot = Some(input.parse()?);
            Ok(())
        };
        match name.to_string().as_str() {
            "warps" => number(&mut self.warps),
            "max_registers" => number(&mut self.max_registers),
            "min_ctas_per_sm" => number(&mut self.min_ctas_per_sm),
            "cluster" => number(&mut self.cluster),
            "cooperative" => {
                self.is_cooperative = true;
                Ok(())
            }
            "signature" if self.signature.is_some() => {
                Err(syn::Error::new(name.span(), "`signature` is given twice"))
            }
            "signature" => {
                self.signature = Some(Signature::parse(name.span(), input)?);
                Ok(())
            }
            "instances" => {
                let list;
                parenthesized!(list in input);
                let parsed: Punctuated<AngleBracketedGenericArguments, Token![,]> =
                    Punctuated::parse_terminated(&list)?;
                self.instances.extend(parsed);
                Ok(())
            }
            "deny" => {
                let list;
                parenthesized!(list in input);
                self.denied
                    .extend(Punctuated::<Ident, Token![,]>::parse_terminated(&list)?);
                Ok(())
            }
            _ => Err(syn::Error::new(
                name.span(),
                "expected `warps = 4`, `instances(<..>, ..)`, `deny(..)`, `max_registers = 128`, `min_ctas_per_sm = 2`, `cluster = [2, 1, 1]`, `cooperative` or `signature(x: [rows, cols], ..)`",
            )),
        }
    }

    fn contracts(&self) -> syn::Result<Tokens> {
        const WORDS: [&str; 4] = ["conversions", "uncoalesced", "bank_conflicts", "spills"];
        let is_known = |word: &&Ident| WORDS.iter().any(|w| *word == w);
        if let Some(word) = self.denied.iter().find(|w| !is_known(w)) {
            return Err(syn::Error::new(
                word.span(),
                "expected `conversions`, `uncoalesced`, `bank_conflicts` and `spills`",
            ));
        }
        let fields = WORDS.map(|word| {
            let field = quote::format_ident!("denies_{word}");
            let is_denied = self.denied.iter().any(|w| w == word);
            quote!(#field: #is_denied)
        });
        Ok(quote!(::tilekit::rt::Contracts { #(#fields),* }))
    }
}

pub(crate) fn expand(attribute: Tokens, item: Tokens) -> syn::Result<Tokens> {
    let arguments: Arguments = parse2(attribute)?;
    let mut f: ItemFn = parse2(item)?;
    check_signature(&f.sig)?;
    check_attributes(&f.attrs)?;
    check_kernel(&f, &arguments)?;
    let mut params = take_params(&mut f)?;
    if let Some(signature) = &arguments.signature {
        params.blocks.push(signature.statement(&f)?);
    }
    check_fixed(&arguments, &params)?;
    lift_returns(&mut f.block);
    let mistakes = rewrite(&f.sig, &mut f.block);
    let begin = begin(&f, &arguments, &params)?;
    // After the imports, which are items and may stand first.
    f.block.stmts.insert(1, begin);
    let entry = entry(&f, &arguments, params.fixed.is_some());
    f.attrs.push(allowed());
    Ok(quote!(#f #entry #mistakes))
}

fn check_kernel(f: &ItemFn, arguments: &Arguments) -> syn::Result<()> {
    if let ReturnType::Type(_, ty) = &f.sig.output {
        return Err(syn::Error::new_spanned(
            ty,
            "a kernel returns nothing; store its results through a `Ptr`",
        ));
    }
    let mut generics = f.sig.generics.params.iter();
    if let Some(lifetime) = generics.find(|p| matches!(p, GenericParam::Lifetime(_))) {
        return Err(syn::Error::new_spanned(
            lifetime,
            "a kernel has no lifetimes: its parameters are values, `Ptr` and `TensorMap`",
        ));
    }
    if f.sig.inputs.len() > 40 {
        return Err(syn::Error::new_spanned(
            &f.sig.inputs,
            "a kernel takes up to 40 parameters",
        ));
    }
    match arguments.instances.first() {
        Some(instance) if f.sig.generics.params.is_empty() => Err(syn::Error::new_spanned(
            instance,
            "this kernel is not generic and has one instance: remove `instances(..)`",
        )),
        _ => Ok(()),
    }
}

/// What the attributes of the parameters say.
#[derive(Default)]
struct Params {
    /// Of each its name and divisor, as constant expressions.
    heads: Vec<Tokens>,
    /// Statements that give the tensor maps their blocks, and the kernel its signature.
    blocks: Vec<Tokens>,
    /// The parameter that is known while the kernel is traced.
    fixed: Option<Ident>,
}

/// The value of a `#[fixed]` parameter is an expression of the host, which no list of generic arguments has.
fn check_fixed(arguments: &Arguments, params: &Params) -> syn::Result<()> {
    match (arguments.instances.first(), &params.fixed) {
        (Some(instance), Some(name)) => Err(syn::Error::new_spanned(
            instance,
            format!(
                "`{name}` is `#[fixed]`: the cases of this kernel say which values there are; remove `instances(..)`"
            ),
        )),
        _ => Ok(()),
    }
}

fn take_params(f: &mut ItemFn) -> syn::Result<Params> {
    let mut params = Params::default();
    for (index, input) in f.sig.inputs.iter_mut().enumerate() {
        let FnArg::Typed(param) = input else {
            return Err(syn::Error::new_spanned(
                input,
                "a kernel is a free function, without `self`",
            ));
        };
        if let Some(attribute) = take_fixed(param)? {
            if index > 0 {
                return Err(syn::Error::new_spanned(
                    attribute,
                    "only the first parameter of a kernel can be `#[fixed]`; several values are one struct",
                ));
            }
            params.fixed = Some(name_of(param)?.clone());
            continue;
        }
        take_param(param, &mut params)?;
    }
    Ok(params)
}

fn name_of(param: &PatType) -> syn::Result<&Ident> {
    match &*param.pat {
        Pat::Ident(ident) => Ok(&ident.ident),
        pattern => Err(syn::Error::new_spanned(
            pattern,
            "a parameter of a kernel is a name, not a pattern",
        )),
    }
}

/// The attribute `#[fixed]`, which the parameter loses.
fn take_fixed(param: &mut PatType) -> syn::Result<Option<Attribute>> {
    let Some(at) = param.attrs.iter().position(is_fixed) else {
        return Ok(None);
    };
    let attribute = param.attrs.remove(at);
    attribute.meta.require_path_only()?;
    Ok(Some(attribute))
}

fn is_fixed(attribute: &Attribute) -> bool {
    attribute.path().is_ident("fixed")
}

fn take_param(param: &mut PatType, params: &mut Params) -> syn::Result<()> {
    let ident = name_of(param)?.clone();
    let name = ident.unraw().to_string();
    let mut kept = Vec::new();
    let mut promises = Vec::new();
    for attribute in std::mem::take(&mut param.attrs) {
        if is_block(&attribute) {
            params.blocks.push(block(&attribute, &ident)?);
        } else if is_promise(&attribute) {
            promises.push(attribute);
        } else {
            kept.push(attribute);
        }
    }
    param.attrs = kept;
    let ty = param.ty.clone();
    let Promised { value, checks } = promised(&promises, &ty)?;
    params.blocks.extend(checks);
    *param.ty = parse_quote_spanned!(ty.span()=> ::tilekit::rt::Param<#ty>);
    let written = &param.ty;
    let cfgs = cfgs(&param.attrs);
    let head = quote!(#(#cfgs)* ::tilekit::rt::ParamHead {
        name: #name,
        parts: <#written as ::tilekit::rt::ParamHandle>::parts,
        promises: #value,
    });
    params.heads.push(head);
    Ok(())
}

/// A function as written, without the attributes that only the macro knows: rustc has nothing to say about them.
pub(crate) fn without_promises(item: Tokens) -> Tokens {
    let Ok(mut f) = parse2::<ItemFn>(item.clone()) else {
        return item;
    };
    for input in &mut f.sig.inputs {
        if let FnArg::Typed(param) = input {
            param
                .attrs
                .retain(|a| !is_promise(a) && !is_block(a) && !is_fixed(a));
        }
    }
    quote!(#f)
}

fn is_block(attribute: &Attribute) -> bool {
    attribute.path().is_ident("block") || attribute.path().is_ident("im2col")
}

/// The statement for `#[block([BM, BK], layout)]` or `#[im2col(rank, [PIXELS, CHANNELS], layout)]`.
fn block(attribute: &Attribute, param: &Ident) -> syn::Result<Tokens> {
    let list = attribute.parse_args_with(Punctuated::<Expr, Token![,]>::parse_terminated)?;
    let is_tiled = attribute.path().is_ident("block");
    let (wanted, function, usage) = if is_tiled {
        (
            2,
            quote!(set_block),
            "`#[block([64, 64], Nvmma::B128)]`: the block of one copy and its layout in shared memory",
        )
    } else {
        (
            3,
            quote!(set_im2col),
            "`#[im2col(4, [128, 64], Nvmma::B128)]`: the tensor's rank, the pixels and channels of one copy and their layout in shared memory",
        )
    };
    if list.len() != wanted {
        return Err(syn::Error::new_spanned(attribute, usage));
    }
    let list = list.iter();
    Ok(quote_spanned!(attribute.span()=> ::tilekit::rt::#function(#param, #(#list),*);))
}

/// The first statement of the body: who this is.
fn begin(f: &ItemFn, arguments: &Arguments, params: &Params) -> syn::Result<syn::Stmt> {
    let name = f.sig.ident.unraw().to_string();
    let option = |value: &Option<Expr>| {
        let some = value
            .as_ref()
            .map(|value| quote!(::core::option::Option::Some(::tilekit::rt::count(#value))));
        some.unwrap_or_else(|| quote!(::core::option::Option::None))
    };
    let warps = arguments.warps.clone().unwrap_or_else(|| parse_quote!(4));
    let (max_registers, min_ctas_per_sm) = (
        option(&arguments.max_registers),
        option(&arguments.min_ctas_per_sm),
    );
    let cluster = arguments.cluster.as_ref();
    let cluster = cluster
        .map(|cluster| quote!(::core::option::Option::Some(::tilekit::rt::cluster(#cluster))));
    let cluster = cluster.unwrap_or_else(|| quote!(::core::option::Option::None));
    let (contracts, is_cooperative) = (arguments.contracts()?, arguments.is_cooperative);
    let Params {
        heads,
        blocks,
        fixed,
    } = params;
    let mut generics = generic_arguments(&f.sig.generics);
    generics.extend(
        fixed
            .iter()
            .map(|name| quote!(::tilekit::rt::const_arg(&#name))),
    );
    let head = quote! {
        &::tilekit::rt::KernelHead {
            name: #name,
            warps: ::tilekit::rt::count(#warps),
            max_registers: #max_registers,
            min_ctas_per_sm: #min_ctas_per_sm,
            cluster: #cluster,
            is_cooperative: #is_cooperative,
            contracts: #contracts,
            params: &[#(#heads),*],
        }
    };
    // The call takes the span of the name, which is the place of the kernel as a whole.
    let call =
        quote_spanned!(f.sig.ident.span()=> ::tilekit::rt::begin_kernel(#head, &[#(#generics),*]));
    Ok(parse_quote! {
        #[allow(clippy::unnecessary_cast, unused_parens, reason = "a divisor may be any integer")]
        { #call; #(#blocks)* }
    })
}

fn generic_arguments(generics: &Generics) -> Vec<Tokens> {
    let argument = |param: &GenericParam| match param {
        GenericParam::Const(c) => {
            let name = &c.ident;
            Some(quote!(::tilekit::rt::const_arg(#name)))
        }
        GenericParam::Type(t) => {
            let name = &t.ident;
            Some(quote!(::tilekit::rt::type_arg::<#name>()))
        }
        GenericParam::Lifetime(_) => None,
    };
    generics.params.iter().filter_map(argument).collect()
}

/// The lines of its documentation that are written out.
fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Str(line) => Some(line.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        });
    let lines: Vec<String> = lines
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n")
}

/// What tools find the kernel by.
fn entry(f: &ItemFn, arguments: &Arguments, is_fixed: bool) -> Tokens {
    let ident = &f.sig.ident;
    let name = ident.unraw().to_string();
    // Of what has a fixed parameter nothing is known before a case gives it a value, as of a generic kernel.
    let is_generic = is_fixed || !f.sig.generics.params.is_empty();
    let line = quote_spanned!(ident.span()=> ::core::line!());
    let docs = docs(&f.attrs);
    let cfgs = f.attrs.iter().filter(|a| a.path().is_ident("cfg"));
    let instance = |written: &str, path: Tokens| {
        quote!(::tilekit::rt::KernelInstance {
            arguments: #written,
            trace: || ::tilekit::rt::KernelFn::trace(#path),
        })
    };
    let instances: Vec<Tokens> = if is_generic {
        let declared = arguments.instances.iter();
        declared
            .map(|arguments| {
                let list = &arguments.args;
                let written: Vec<String> = list
                    .iter()
                    .map(|a| quote!(#a).to_string().replace(' ', ""))
                    .collect();
                instance(
                    &written.join(", "),
                    quote_spanned!(arguments.span()=> #ident::<#list>),
                )
            })
            .collect()
    } else {
        vec![instance("", quote!(#ident))]
    };
    quote! {
        #(#cfgs)*
        const _: () = {
            ::tilekit::rt::inventory::submit! {
                ::tilekit::rt::KernelEntry {
                    name: #name,
                    module: ::core::module_path!(),
                    file: ::core::file!(),
                    line: #line,
                    docs: #docs,
                    is_generic: #is_generic,
                    instances: &[#(#instances),*],
                }
            }
        };
    }
}
