//! The variant that a verb about one is about.

use crate::harness::Exit;
use crate::harness::catalog::{KernelItem, Variant};
use crate::harness::context::Done;
use crate::harness::speak::Speaker;
use crate::report::Remark;

/// The one variant that is meant. Where a kernel has several, the first of an exact kernel name is not guessed.
pub(super) fn only<'c>(
    variants: &[(&KernelItem, &'c Variant)],
    kernel: &str,
    speaker: &Speaker,
) -> Done<&'c Variant> {
    if let [(_, variant)] = variants {
        return Ok(variant);
    }
    let named = variants.iter();
    let names: Vec<String> = named
        .map(|&(kernel, variant)| clear_name(variants, kernel, variant))
        .collect();
    let remark = Remark::error(format!("`{kernel}` can mean {} variants", names.len()))
        .with_help(format!("choose one of '{}'", names.join("', '")));
    speaker.failure(&remark);
    Err(Exit::Usage)
}

/// The name of a variant, with its module where another is called so too.
fn clear_name(
    variants: &[(&KernelItem, &Variant)],
    kernel: &KernelItem,
    variant: &Variant,
) -> String {
    let mut same = variants
        .iter()
        .filter(|(_, other)| other.display == variant.display);
    match (same.next(), same.next()) {
        (_, Some(_)) => kernel.path_of(variant),
        _ => variant.display.clone(),
    }
}
