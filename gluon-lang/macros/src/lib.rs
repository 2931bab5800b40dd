//! The attribute macros of the TileKit language.
//!
//! `#[kernel]` and `#[device]` keep a function's types, calls, methods, closures and patterns as rustc sees them. They
//! rewrite loops, branches, comparisons, `&&` and `||`, and ways out, into calls of `::tilekit::rt`, whose traits decide by
//! type whether the host or the kernel is meant.

mod aggregate;
mod attributes;
mod case;
mod device;
mod kernel;
mod leave;
mod rewrite;
mod scope;
mod uses;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;

/// A kernel: `#[kernel(warps = 4, instances(<1024>), deny(conversions), max_registers = 128, min_ctas_per_sm = 2)]`.
///
/// `warps` is the number of warps in a CTA and may use the function's const generics; without it there are 4. `instances`
/// lists arguments of a generic kernel to build without a case. Parameters take `#[multiple_of(16)]` (integers) and
/// `#[align(4)]` (pointers, in bytes; 16 without it).
#[proc_macro_attribute]
pub fn kernel(attributes: TokenStream, item: TokenStream) -> TokenStream {
    or_original(item, |item| kernel::expand(attributes.into(), item))
}

/// A function that kernels call. Its control flow is rewritten as a kernel's is, and its calls show in diagnostics.
#[proc_macro_attribute]
pub fn device(attributes: TokenStream, item: TokenStream) -> TokenStream {
    or_original(item, |item| device::expand(attributes.into(), item))
}

/// A case of a kernel: `#[case(sizes(n = [1_000, 1 << 20]))]` on a `fn(&mut Case) -> CaseResult`.
#[proc_macro_attribute]
pub fn case(attributes: TokenStream, item: TokenStream) -> TokenStream {
    or_original(item, |item| case::expand(attributes.into(), item))
}

/// Lets a struct or enum of handles live across loops and branches of the kernel. Its type parameters must be able to.
#[proc_macro_derive(Aggregate)]
pub fn aggregate(item: TokenStream) -> TokenStream {
    aggregate::expand(item.into())
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// The author's tokens stay where they were when they cannot be expanded, so that the editor goes on working.
fn or_original(
    item: TokenStream,
    expand: impl FnOnce(Tokens) -> syn::Result<Tokens>,
) -> TokenStream {
    let original: Tokens = item.clone().into();
    match expand(item.into()) {
        Ok(tokens) => tokens.into(),
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#original #error).into()
        }
    }
}
