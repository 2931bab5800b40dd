//! What holds of every function that is traced, kernel or device function.

use syn::{Attribute, Signature, parse_quote};

/// One of the macros stands on a function, and once.
pub(crate) fn check_attributes(attributes: &[Attribute]) -> syn::Result<()> {
    let is_ours = |a: &&Attribute| {
        let last = a.path().segments.last();
        last.is_some_and(|s| s.ident == "kernel" || s.ident == "device")
    };
    match attributes.iter().find(is_ours) {
        Some(second) => Err(syn::Error::new_spanned(
            second,
            "a function has one attribute `#[kernel]` or `#[device]`",
        )),
        None => Ok(()),
    }
}

/// What no traced function can be.
pub(crate) fn check_signature(signature: &Signature) -> syn::Result<()> {
    let refuse = |tokens: &dyn quote::ToTokens, what: &str| {
        Err(syn::Error::new_spanned(
            tokens,
            format!("a function that is traced cannot be `{what}`"),
        ))
    };
    if let Some(token) = &signature.constness {
        return refuse(token, "const");
    }
    if let Some(token) = &signature.asyncness {
        return refuse(token, "async");
    }
    if let Some(token) = &signature.abi {
        return refuse(token, "extern");
    }
    Ok(())
}

/// Clippy judges what the macros make of the author's code: imports stand before his items, and the arms of rewritten
/// control flow give values that a `break` never reaches. A kernel takes what its launch passes, however much that is.
pub(crate) fn allowed() -> Attribute {
    parse_quote!(#[allow(
        clippy::items_after_statements,
        clippy::too_many_arguments,
        clippy::diverging_sub_expression,
        reason = "only rewritten code and kernels do this"
    )])
}
