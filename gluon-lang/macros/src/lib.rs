//! The attribute macros of the TileKit language.
//!
//! `#[kernel]` and `#[device]` rewrite control flow and comparisons, and nothing else: types, calls, methods, closures,
//! operators and `match` stay plain Rust. What they expand to lives in `gluon_lang::rt`, reached as `::tilekit::rt`.

mod aggregate;
mod case;
mod device;
mod kernel;
mod kernel_param;
mod promise;
mod rewrite;
mod signature;
mod traced;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;

/// Makes a function a kernel: it is traced, not called.
///
/// ```text
/// #[kernel(warps = 4)]
/// pub fn vector_add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) { .. }
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `warps = 4` | warps in a CTA, 1 to 32 |
/// | `instances(<1024>, <2048>)` | the generic arguments to build ahead of time |
/// | `deny(conversions, uncoalesced, bank_conflicts, spills)` | what the compiler must not do silently |
/// | `max_registers = 128` | cap on registers per thread |
/// | `min_ctas_per_sm = 2` | CTAs that must fit an SM: they share its registers, also those that partitions redistribute |
/// | `cluster = [2, 1, 1]` | CTAs of a cluster in x, y and z; `cluster = 2` along x; of one CTA it may use operations of clusters too |
/// | `signature(x: [rows, cols], ..)` | how a launch follows from its tensors, for exports: shapes with named sizes, `row_stride = x.stride(0)`, `grid = cdiv(rows, 4)`, `requires(cols <= COLS)`; `backward(kernel)` names the kernel of its gradients |
/// | `cooperative` | CTAs wait for one another (`GridBarrier`): a launch is refused whose grid cannot be resident as a whole |
///
/// A parameter is an element type, which is a scalar in the body, a `Ptr` or a `TensorMap`. `#[multiple_of(16)] n: i32` and
/// `#[align(4)] p: Ptr<f32>` say what every launch promises; pointers are 16-byte aligned unless said otherwise.
/// `#[readonly] x: Ptr<f32>` says that nothing stores to what `x` points to while the kernel runs, so that loads may go past
/// the coherent cache (`ld.global.nc`): a store through it does not compile, and a launch that passes a buffer for it which
/// overlaps one that the kernel stores to is refused, and so is one that overlaps an earlier launch which does.
/// `#[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>` says what one copy moves and how it lies in shared memory, and
/// `#[im2col(4, [PIXELS, CHANNELS], Nvmma::B128)]` the same for pixels of an image of 4 dimensions.
/// An array of numbers or of `Ptr` is a parameter for each element: `strides: [i64; 3]` is `strides_0` to `strides_2` in IR and exports, and an array in
/// the body and at a launch.
/// A struct of numbers, `Ptr` and arrays under `#[derive(KernelParam)]` is a parameter for each field: `source: Rows<f32>` is `source_first` and
/// `source_pitch` in IR and exports, and a tuple of the fields' arguments at a launch.
/// `#[fixed] tile: Tile` as the first parameter is a value of the host that is known while the kernel is traced, of any type that is `Copy` and
/// `Display`: `fixed(kernel, tile)` is the kernel with that value.
/// Numbers of the attribute, `#[block(..)]` and `#[multiple_of(..)]` take expressions. Those of the attribute and of blocks may name const generics and the `#[fixed]` parameter:
/// `#[kernel(warps = tile.warps(), cluster = tile.ctas)]`. So one kernel serves CTAs by themselves and in clusters.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(attribute, item, kernel::expand)
}

/// Lets a function of a kernel's use loops and branches of the kernel, and records its calls in places.
#[proc_macro_attribute]
pub fn device(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(attribute, item, device::expand)
}

/// Registers a function as a case of the kernels beside it: `#[case(sizes(n = [1_000, 1 << 20]))]`.
#[proc_macro_attribute]
pub fn case(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(attribute, item, case::expand)
}

/// Lets a struct or enum of handles and host values live across loops and branches of a kernel.
#[proc_macro_derive(Aggregate)]
pub fn aggregate(item: TokenStream) -> TokenStream {
    let expanded = syn::parse(item).and_then(|item| aggregate::expand(&item));
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// Lets a struct of handles be a parameter of kernels.
///
/// ```text
/// #[derive(Clone, Copy, Aggregate, KernelParam)]
/// pub struct Rows<T> { pub first: Ptr<T>, #[multiple_of(8)] pub pitch: Scalar<i32> }
/// ```
///
/// Its fields are `Scalar`, `Ptr`, arrays of them and structs of their own under this derive. `#[multiple_of(..)]`, `#[align(..)]` and `#[readonly]` of a field say
/// what every launch promises, as at parameters of `#[kernel]`.
#[proc_macro_derive(KernelParam, attributes(multiple_of, align, readonly))]
pub fn kernel_param(item: TokenStream) -> TokenStream {
    let expanded = syn::parse(item).and_then(|item| kernel_param::expand(&item));
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// On a mistake the author's own tokens stay, so that an editor continues working.
fn expand(
    attribute: TokenStream,
    item: TokenStream,
    work: fn(Tokens, Tokens) -> syn::Result<Tokens>,
) -> TokenStream {
    let original: Tokens = item.clone().into();
    match work(attribute.into(), item.into()) {
        Ok(expanded) => expanded.into(),
        Err(error) => {
            let error = error.to_compile_error();
            let original = kernel::without_promises(original);
            quote!(#error #original).into()
        }
    }
}
