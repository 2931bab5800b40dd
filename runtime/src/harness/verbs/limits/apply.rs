//! Which limits a variant has: those of its kernel, and above them those of its own name.

use std::collections::BTreeMap;

use protocol::config::{ConfigError, KernelLimits, Limit, Quantity};
use protocol::nearest;

use crate::harness::catalog::{Catalog, KernelItem, Variant};
use crate::harness::context::{Context, Done};

/// The tables of the configuration by their names.
type Tables = BTreeMap<String, KernelLimits>;

/// The names under which a variant may have limits, the most general first.
fn names_of(kernel: &KernelItem, variant: &Variant) -> [String; 4] {
    let entry = kernel.entry;
    [
        entry.name.to_string(),
        format!("{}::{}", entry.module, entry.name),
        variant.display.clone(),
        kernel.path_of(variant),
    ]
}

/// The limits of a variant; a more special name outweighs a more general one, limit by limit.
pub(super) fn limits_of(
    tables: &Tables,
    kernel: &KernelItem,
    variant: &Variant,
) -> BTreeMap<Quantity, Limit> {
    let named = names_of(kernel, variant);
    let found = named.iter().filter_map(|name| tables.get(name));
    found
        .flat_map(KernelLimits::iter)
        .map(|(quantity, limit)| (quantity, limit.clone()))
        .collect()
}

/// A limit that holds for nothing is a mistake.
pub(in crate::harness::verbs) fn check_names(context: &Context, catalog: &Catalog) -> Done<()> {
    let tables = context.limits();
    if tables.is_empty() {
        return Ok(());
    }
    // At sizes of the command line other variants may be launched.
    let declared = context.declared_catalog()?;
    match mistake(tables, [catalog, &declared]) {
        None => Ok(()),
        Some(mistake) => Err(context.misconfigured(&mistake)),
    }
}

/// A table that is of no kernel, or a limit of a kind of instructions that there is not: it would limit nothing and say nothing.
fn mistake(tables: &Tables, catalogs: [&Catalog; 2]) -> Option<ConfigError> {
    let variants = || catalogs.into_iter().flat_map(Catalog::variants);
    let mut names: Vec<String> = variants()
        .flat_map(|(kernel, variant)| names_of(kernel, variant))
        .collect();
    // A kernel that nothing launches has no variant, and is one all the same.
    let kernels = catalogs.into_iter().flat_map(|catalog| &catalog.kernels);
    names.extend(kernels.map(|kernel| kernel.entry.name.to_string()));
    for (name, limits) in tables {
        if !names.contains(name) {
            let meant = nearest(name, names.iter().map(String::as_str));
            let help = meant.map_or_else(
                || "`cargo tilekit list` names all".to_string(),
                |meant| format!("perhaps \"{meant}\"; `cargo tilekit list` names all"),
            );
            let text = format!("no kernel and no variant is called `{name}`");
            return Some(limits.mistake(text).with_help(help));
        }
        if let Some(found) = unknown_kind(limits) {
            return Some(found);
        }
    }
    None
}

fn unknown_kind(limits: &KernelLimits) -> Option<ConfigError> {
    let (kind, span, file) = limits.kinds().find(|(kind, ..)| !ptx::is_kind(kind))?;
    let known: Vec<String> = ptx::kinds().collect();
    let meant = nearest(kind, known.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |meant| format!("perhaps \"{meant}\"; "));
    let text = format!("no kind of instructions is called `{kind}`");
    let help = format!("{meant}there are all, {}", known.join(", "));
    Some(ConfigError::at(file, span, text).with_help(help))
}
