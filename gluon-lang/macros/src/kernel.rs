//! `#[kernel]`.

use proc_macro2::TokenStream as Tokens;
use quote::{quote, quote_spanned};
use syn::{FnArg, GenericParam, Ident, ItemFn, Pat, ReturnType, Stmt, Type, parse_quote, parse2};

use crate::attributes::{KernelArguments, contract_field, take_divisor};
use crate::rewrite::rewrite_body;

pub(crate) fn expand(attributes: Tokens, item: Tokens) -> syn::Result<Tokens> {
    let arguments: KernelArguments = parse2(attributes)?;
    let mut function: ItemFn = parse2(item)?;
    check_signature(&function)?;
    let heads = param_heads(&mut function)?;
    rewrite_body(&function.sig, &mut function.block)?;
    let begin = begin(&function, &arguments, &heads)?;
    // After the imports that the rewriting put first.
    function.block.stmts.insert(1, begin);
    function.attrs.push(parse_quote!(#[allow(clippy::all, clippy::pedantic, unused_braces, unused_parens, unused_mut, unused_assignments, unused_labels, reason = "the body is rewritten")]));
    let entry = entry(&function, &arguments, &heads);
    Ok(quote!(#function #entry))
}

fn check_signature(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    let refuse =
        |tokens: &dyn quote::ToTokens, message: &str| Err(syn::Error::new_spanned(tokens, message));
    if let Some(token) = &signature.asyncness {
        return refuse(token, "a kernel is not `async`");
    }
    if !matches!(signature.safety, syn::Safety::Default) {
        return refuse(
            &signature.safety,
            "a kernel is not `unsafe`: it is traced, and its accesses are checked by the emulator",
        );
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && !matches!(&**ty, Type::Tuple(t) if t.elems.is_empty())
    {
        return refuse(
            ty,
            "a kernel returns nothing: it stores its results through its pointers",
        );
    }
    if let Some(lifetime) = signature.generics.lifetimes().next() {
        return refuse(lifetime, "a kernel has no lifetimes: handles are `Copy`");
    }
    Ok(())
}

/// Takes the promises off the parameters, and turns host types into handles.
fn param_heads(function: &mut ItemFn) -> syn::Result<Vec<Tokens>> {
    let mut heads = Vec::new();
    for input in &mut function.sig.inputs {
        let FnArg::Typed(typed) = input else {
            return Err(syn::Error::new_spanned(
                input,
                "a kernel is a plain function, without `self`",
            ));
        };
        let Pat::Ident(ident) = &*typed.pat else {
            return Err(syn::Error::new_spanned(
                &typed.pat,
                "a kernel's parameter is a name, which shows in its PTX",
            ));
        };
        let name = ident.ident.to_string();
        let divisor = match take_divisor(&mut typed.attrs)? {
            Some(number) => quote!(Some(#number)),
            None => quote!(None),
        };
        heads.push(quote!(::tilekit::rt::ParamHead { name: #name, divisor: #divisor }));
        if !is_pointer(&typed.ty) {
            let ty = &typed.ty;
            *typed.ty = parse_quote!(::tilekit::rt::Param<#ty>);
        }
    }
    Ok(heads)
}

/// `Ptr<..>` stands as it is, so that an editor shows what the author wrote.
fn is_pointer(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "Ptr"))
}

fn begin(function: &ItemFn, arguments: &KernelArguments, heads: &[Tokens]) -> syn::Result<Stmt> {
    let name = function.sig.ident.to_string();
    let warps = arguments.warps.as_ref().map_or(quote!(4), |e| quote!(#e));
    let option = |e: &Option<syn::Expr>| e.as_ref().map_or(quote!(None), |e| quote!(Some(#e)));
    let (max_registers, min_ctas) = (
        option(&arguments.max_registers),
        option(&arguments.min_ctas_per_sm),
    );
    let denied: Vec<Ident> = arguments
        .denied
        .iter()
        .map(contract_field)
        .collect::<syn::Result<_>>()?;
    let generics = function
        .sig
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(t) => {
                let ident = &t.ident;
                Some(quote!(::tilekit::rt::type_arg::<#ident>()))
            }
            GenericParam::Const(c) => {
                let ident = &c.ident;
                Some(quote!(::tilekit::rt::const_arg(#ident)))
            }
            GenericParam::Lifetime(_) => None,
        });
    let span = function.sig.ident.span();
    let call = quote_spanned!(span=> ::tilekit::rt::begin_kernel);
    Ok(parse_quote!(
        #call(
            &::tilekit::rt::KernelHead {
                name: #name,
                warps: #warps,
                max_registers: #max_registers,
                min_ctas_per_sm: #min_ctas,
                contracts: ::tilekit::rt::Contracts { #(#denied: true,)* ..::tilekit::rt::Contracts::default() },
                params: const { &[#(#heads),*] },
            },
            &[#(#generics),*],
        );
    ))
}

/// What tools find of the kernel.
fn entry(function: &ItemFn, arguments: &KernelArguments, heads: &[Tokens]) -> Tokens {
    let ident = &function.sig.ident;
    let name = ident.to_string();
    let is_generic = !function.sig.generics.params.is_empty();
    let mut instances: Vec<Tokens> = arguments
        .instances
        .iter()
        .map(|list| {
            let (args, text) = (&list.args, text_of(list));
            quote!(::tilekit::rt::KernelInstance {
                arguments: #text,
                trace: || ::tilekit::rt::KernelFn::trace(#ident::<#args>),
            })
        })
        .collect();
    if !is_generic {
        instances.push(quote!(::tilekit::rt::KernelInstance {
            arguments: "",
            trace: || ::tilekit::rt::KernelFn::trace(#ident),
        }));
    }
    quote! {
        ::tilekit::rt::inventory::submit! {
            ::tilekit::rt::KernelEntry {
                name: #name,
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: ::core::line!(),
                params: &[#(#heads),*],
                is_generic: #is_generic,
                instances: &[#(#instances),*],
            }
        }
    }
}

/// The arguments as the author would write them.
fn text_of(list: &syn::AngleBracketedGenericArguments) -> String {
    let args = &list.args;
    let parts = args.iter().map(|a| quote!(#a).to_string().replace(' ', ""));
    parts.collect::<Vec<_>>().join(", ")
}
