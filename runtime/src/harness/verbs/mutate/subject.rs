//! Kernels to be broken, and their mutants.

use std::collections::HashMap;

use diag::{Call, Place};
use ptx::{Body, LocId, Module, Mutation, MutationKind};

use crate::harness::catalog::{CaseItem, Catalog, KernelItem, RunItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::select::Selection;
use crate::kernel::{Compiled, Compiler};

/// A run of a case.
pub(in crate::harness::verbs) type Run<'c> = (&'c CaseItem, &'c RunItem);

/// A variant, compiled, with the runs that launch it.
pub(super) struct Subject {
    /// Its whole name, with its module.
    pub(super) name: String,
    /// The [`path`](crate::Instance::path) of the instance that cases launch.
    pub(super) path: String,
    pub(super) compiled: Compiled,
    /// Indices of the runs that launch it.
    pub(super) runs: Vec<usize>,
    mutations: Vec<Mutation>,
    /// The line of each statement of each body in its text.
    lines: Vec<Vec<u32>>,
}

/// One way to break a kernel.
pub(super) struct Mutant<'s> {
    pub(super) subject: &'s Subject,
    pub(super) mutation: Mutation,
    /// The line of the instruction in the kernel's PTX, from one.
    pub(super) ptx_line: u32,
    /// The instruction.
    pub(super) ptx: String,
    /// Where the author wrote it.
    pub(super) place: Option<Place>,
}

/// What is broken, and in which runs.
pub(super) struct Work<'w> {
    pub(super) subjects: &'w [Subject],
    pub(super) mutants: &'w [Mutant<'w>],
    pub(super) runs: &'w [Run<'w>],
}

/// The runs that fit the emulator. Where a case is named, kernels are tried in that case alone.
pub(in crate::harness::verbs) fn runs_of<'c>(
    context: &Context,
    catalog: &'c Catalog,
    filters: &[String],
) -> Vec<Run<'c>> {
    let selection = Selection::new(filters, catalog);
    let limit_bytes = context.tensor_limit(&crate::Device::emulator());
    let all = catalog
        .cases
        .iter()
        .flat_map(|case| case.runs.iter().map(move |run| (case, run)));
    all.filter(|(case, run)| {
        let fits = limit_bytes.is_none_or(|limit| run.described.tensor_bytes <= limit);
        fits && run.failure.is_none() && selection.run(case, run)
    })
    .collect()
}

/// The variants that some run launches, with their mutations of these kinds.
pub(super) fn subjects(
    context: &Context,
    variants: &[(&KernelItem, &Variant)],
    runs: &[Run<'_>],
    kinds: &[MutationKind],
) -> Done<Vec<Subject>> {
    let mut found = Vec::new();
    for (kernel, variant) in variants {
        if let Some(mut subject) = subject(context, kernel, variant, runs)? {
            subject
                .mutations
                .retain(|mutation| kinds.contains(&mutation.kind));
            found.push(subject);
        }
    }
    Ok(found)
}

/// A variant with all its mutations, if some run launches it.
pub(super) fn subject(
    context: &Context,
    kernel: &KernelItem,
    variant: &Variant,
    runs: &[Run<'_>],
) -> Done<Option<Subject>> {
    let mut launching = Vec::new();
    let mut path = None;
    for (at, (_, run)) in runs.iter().enumerate() {
        if let Some(instance) = kernel.launched(variant, run) {
            launching.push(at);
            path = Some(instance.path().to_string());
        }
    }
    let Some(path) = path else { return Ok(None) };
    let compiled = Compiler::default().compile(&variant.instance);
    let compiled = compiled.map_err(|error| context.speaker.error(&variant.display, &error))?;
    Ok(Some(Subject {
        name: kernel.path_of(variant),
        path,
        lines: compiled.module().statement_lines(),
        mutations: compiled.module().mutations(),
        compiled,
        runs: launching,
    }))
}

impl Mutant<'_> {
    /// What it is called while it runs.
    pub(super) fn title(&self) -> String {
        format!("{} in {}", self.mutation.kind, self.subject.display())
    }

    /// The author's line, with the calls through which it was inlined.
    pub(super) fn place_text(&self) -> String {
        match &self.place {
            Some(place) => place.to_string(),
            None => format!("no line of the source, in {}", self.subject.display()),
        }
    }
}

impl Subject {
    /// The kernel with one instruction changed.
    pub(super) fn broken(&self, mutation: &Mutation) -> Compiled {
        let module = self.compiled.module().mutated(mutation);
        let module = module.expect("a mutation is one of its module");
        self.compiled.with_module(module)
    }

    /// The mutation that a name and a place stand for.
    pub(super) fn mutation(&self, kind: &str, body: usize, statement: usize) -> Option<Mutation> {
        let mut all = self.mutations.iter();
        let found = all.find(|mutation| {
            mutation.kind.name() == kind && (mutation.body, mutation.statement) == (body, statement)
        });
        found.copied()
    }

    /// Its name without its module.
    pub(super) fn display(&self) -> &str {
        self.compiled.display()
    }

    pub(super) fn mutants(&self) -> Vec<Mutant<'_>> {
        let module = self.compiled.module();
        let mut places = HashMap::new();
        let mut mutants = Vec::new();
        for mutation in &self.mutations {
            let (body, statement) = (mutation.body, mutation.statement);
            let found = module
                .bodies()
                .nth(body)
                .and_then(|found| Some((found, found.statements.get(statement)?.instruction()?)));
            let Some((body, instruction)) = found else {
                continue;
            };
            let key = (mutation.body, instruction.loc);
            let place = places
                .entry(key)
                .or_insert_with(|| place(module, body, instruction.loc));
            let params = module
                .entry(&self.compiled.info().entry)
                .map_or(&[][..], |entry| &entry.params);
            mutants.push(Mutant {
                subject: self,
                mutation: *mutation,
                ptx_line: self.lines[mutation.body][statement],
                ptx: instruction.to_text(module, body, params),
                place: place.clone(),
            });
        }
        mutants
    }
}

/// The author's place of `loc`, with the calls through which it was inlined.
fn place(module: &Module, body: &Body, loc: Option<LocId>) -> Option<Place> {
    let name = |names: &[String], at: u32| names.get(at as usize).cloned().unwrap_or_default();
    let first = body.locations.get(loc?.0 as usize)?;
    let mut calls = Vec::new();
    let mut next = first.inlined;
    while let Some(inlined) = next {
        let Some(call) = body.locations.get(inlined.at.0 as usize) else {
            break;
        };
        calls.push(Call {
            function: name(&module.inlined_functions, inlined.function).into(),
            file: name(&module.files, call.file).into(),
            line: call.line,
            column: call.column.max(1),
        });
        next = call.inlined;
    }
    Some(Place {
        file: name(&module.files, first.file).into(),
        line: first.line,
        column: first.column.max(1),
        calls,
    })
}
