//! Which kernels and cases are meant.

use std::collections::HashSet;

use protocol::similarity;

use crate::case::CaseEntry;

use super::catalog::{CaseItem, Catalog, KernelItem, RunItem, Variant};

/// Parts of names. None selects all; a whole name selects only what is called so.
pub(super) struct Selection<'a> {
    filters: &'a [String],
    is_exact: Vec<bool>,
}

impl<'a> Selection<'a> {
    /// What `filters` mean in `catalog`.
    pub(super) fn new(filters: &'a [String], catalog: &Catalog) -> Selection<'a> {
        let names: HashSet<String> = names(catalog).into_iter().chain(paths(catalog)).collect();
        let is_exact = filters
            .iter()
            .map(|filter| names.contains(filter))
            .collect();
        Selection { filters, is_exact }
    }

    /// The cases that may be meant once their sizes are chosen: a filter that names a variant is one of all of its kernel, for other
    /// sizes may launch another variant.
    pub(super) fn cases_at_any_size(
        filters: &[String],
        catalog: &Catalog,
    ) -> Vec<&'static CaseEntry> {
        let functions = filters.iter().map(|filter| filter.split('<').next());
        let functions: Vec<String> = functions.flatten().map(str::to_string).collect();
        let selection = Selection::new(&functions, catalog);
        let is_meant = |case: &&CaseItem| case.runs.iter().any(|run| selection.run(case, run));
        let meant = catalog.cases.iter().filter(is_meant);
        meant.map(|case| case.entry).collect()
    }

    fn selects(&self, names: &[&str]) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        let mut filters = self.filters.iter().zip(&self.is_exact);
        filters.any(|(filter, is_exact)| {
            names.iter().any(|name| {
                if *is_exact {
                    name == filter
                } else {
                    name.contains(filter.as_str())
                }
            })
        })
    }

    /// Is the variant meant?
    pub(super) fn variant(&self, kernel: &KernelItem, variant: &Variant) -> bool {
        let path = kernel.path_of(variant);
        let mut names = vec![kernel.entry.name, &path, &variant.display];
        names.extend(&variant.cases);
        self.selects(&names)
    }

    /// Is the kernel meant, or one of its variants?
    pub(super) fn kernel(&self, kernel: &KernelItem) -> bool {
        self.selects(&[kernel.entry.name, kernel.entry.module])
            || kernel
                .variants
                .iter()
                .any(|variant| self.variant(kernel, variant))
    }

    /// Is the run of the case meant?
    pub(super) fn run(&self, case: &CaseItem, run: &RunItem) -> bool {
        let (launched, path) = (run.kernels(), case.path());
        let paths = run.kernel_paths();
        let functions = launched
            .iter()
            .map(|name| name.split('<').next().unwrap_or(name));
        let mut names: Vec<&str> = vec![case.entry.name, &path];
        names.extend(functions);
        names.extend(launched.iter().chain(&paths).map(String::as_str));
        self.selects(&names)
    }

    fn any_kernel(&self, catalog: &Catalog) -> bool {
        catalog.kernels.iter().any(|kernel| self.kernel(kernel))
    }

    fn any_run(&self, catalog: &Catalog) -> bool {
        let mut cases = catalog.cases.iter();
        cases.any(|case| case.runs.iter().any(|run| self.run(case, run)))
    }
}

/// The whole names, with their modules.
fn paths(catalog: &Catalog) -> impl Iterator<Item = String> {
    let variants = catalog
        .variants()
        .map(|(kernel, variant)| kernel.path_of(variant));
    variants.chain(catalog.cases.iter().map(CaseItem::path))
}

/// Everything that can be meant, by its short name.
fn names(catalog: &Catalog) -> Vec<String> {
    let kernels = catalog
        .kernels
        .iter()
        .map(|kernel| kernel.entry.name.to_string());
    let variants = catalog
        .variants()
        .map(|(_, variant)| variant.display.clone());
    let cases = catalog.cases.iter().map(|case| case.entry.name.to_string());
    kernels.chain(variants).chain(cases).collect()
}

/// The filters that are part of no name.
pub(super) fn unknown_names(filters: &[String], catalog: &Catalog) -> Vec<String> {
    let is_unknown = |filter: &&String| {
        let only = Selection::new(std::slice::from_ref(*filter), catalog);
        !only.any_kernel(catalog) && !only.any_run(catalog)
    };
    filters.iter().filter(is_unknown).cloned().collect()
}

/// The filters that are part of names of kernels alone which no case launches.
pub(super) fn unlaunched_names(filters: &[String], catalog: &Catalog) -> Vec<String> {
    let is_unlaunched = |filter: &&String| {
        let only = Selection::new(std::slice::from_ref(*filter), catalog);
        only.any_kernel(catalog) && !only.any_run(catalog)
    };
    filters.iter().filter(is_unlaunched).cloned().collect()
}

/// The names nearest to what was requested and not found.
pub(super) fn near(filters: &[String], catalog: &Catalog) -> Vec<String> {
    let mut names = names(catalog);
    names.sort();
    names.dedup();
    let score = |name: &String| {
        let best = filters
            .iter()
            .map(|filter| similarity(filter, name))
            .fold(0.0, f64::max);
        (best * 1000.0) as i64
    };
    names.sort_by_key(|name| std::cmp::Reverse(score(name)));
    names.truncate(5);
    names
}
