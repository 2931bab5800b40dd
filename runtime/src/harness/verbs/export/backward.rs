//! The kernel of a kernel's gradients, `backward(..)` of its signature, and how its arguments follow from those of the forward pass:
//! by their names.
//!
//! ```text
//! swiglu(gate, up, out)                        reads gate and up, writes out
//! swiglu_backward(gate, up, dout, dgate, dup)  gate, up, out: as the forward pass had them
//!                                              dout: the gradient of what it wrote; dgate, dup: written, of what it read
//! ```

use launch::{Expression, Manifest, Parameter, Role};

use super::exported::Exported;
use crate::harness::artifact::FileNames;
use crate::harness::catalog::{KernelItem, Variant};

/// The exported name of `function` with the constants of `variant`, among the kernels that are exported.
pub(super) fn exported_name(
    names: &FileNames,
    exported: &[(&KernelItem, &Variant)],
    (kernel, variant): (&KernelItem, &Variant),
    function: &str,
) -> Option<String> {
    let constants = variant.display.strip_prefix(kernel.entry.name)?;
    let display = format!("{function}{constants}");
    let mut found = exported
        .iter()
        .filter(|(_, other)| other.display == display);
    found
        .next()
        .map(|(kernel, variant)| super::name_of(names, kernel, variant))
}

/// What does not fit of a kernel's gradients.
pub(super) fn check(forward: &Manifest, kernels: &[Exported], name: &str) -> Result<(), String> {
    check_sizes(forward)?;
    let mut found = kernels.iter().map(|kernel| &kernel.manifest);
    let Some(backward) = found.find(|manifest| manifest.name == name) else {
        // It was refused itself, which is said already.
        return Ok(());
    };
    for parameter in backward.arguments() {
        fits(forward, parameter).map_err(|expected| {
            format!(
                "its gradients cannot be exported: `{}` of `{}` is {expected}; rename it, or remove `backward(..)` from the signature of \
                 `{}`",
                parameter.name, backward.kernel, forward.kernel
            )
        })?;
    }
    Ok(())
}

/// What the forward pass writes is allocated before it, so its extents follow from what it reads.
fn check_sizes(forward: &Manifest) -> Result<(), String> {
    let known: Vec<&Expression> = forward
        .arguments()
        .filter(|p| !p.is_written)
        .filter_map(Parameter::shape)
        .flatten()
        .collect();
    for parameter in forward.arguments().filter(|p| p.is_written) {
        let mut unknown = None;
        for extent in parameter.shape().unwrap_or_default() {
            extent.for_each_leaf(&mut |leaf| {
                let is_known = matches!(leaf, Expression::Number(_)) || known.contains(&leaf);
                if !is_known {
                    unknown = Some(leaf.to_string());
                }
            });
        }
        if let Some(leaf) = unknown {
            return Err(format!(
                "its gradients cannot be exported: `{}` is written and has an extent of `{leaf}`, which is the size of no tensor that is \
                 only read; remove `backward(..)` from its signature",
                parameter.name
            ));
        }
    }
    Ok(())
}

/// Whether this argument of the backward pass follows from those of the forward pass; else what it must be.
fn fits(forward: &Manifest, parameter: &Parameter) -> Result<(), &'static str> {
    let find = |name: &str| forward.arguments().find(|argument| argument.name == name);
    if let Role::Scalar { .. } = parameter.role {
        return match find(&parameter.name) {
            Some(same) if matches!(same.role, Role::Scalar { .. }) => Ok(()),
            _ => Err("no number that the forward pass takes"),
        };
    }
    let of = parameter.name.strip_prefix('d').and_then(find);
    let is_tensor = |of: &Parameter| !matches!(of.role, Role::Scalar { .. });
    match of.filter(|of| is_tensor(of)) {
        Some(of) if parameter.is_written == of.is_written => Err(if of.is_written {
            "written, and the gradient of what the forward pass writes, which is only read"
        } else {
            "not written, and the gradient of what the forward pass reads"
        }),
        Some(_) => Ok(()),
        None if parameter.is_written => {
            Err("written, and no `d` before the name of a tensor that the forward pass reads")
        }
        None => match find(&parameter.name).filter(|same| is_tensor(same)) {
            Some(_) => Ok(()),
            None => Err("neither a tensor of the forward pass nor `d` before the name of one"),
        },
    }
}
