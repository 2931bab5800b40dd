//! `list`: every kernel and its variants.

use gluon_lang::rt::Traced;
use ir::Func;
use serde_json::{Value, json};

use crate::harness::Exit;
use crate::harness::catalog::{Catalog, KernelItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::select::Selection;
use crate::harness::speak::Verdict;
use gluon_lang::source::name_of;

pub(in crate::harness) fn list(context: &Context, filters: &[String]) -> Done {
    let catalog = context.catalog(filters)?;
    let selection = Selection::new(filters, &catalog);
    let kernels = catalog
        .kernels
        .iter()
        .filter(|kernel| selection.kernel(kernel))
        .collect();
    let kernels: Vec<&KernelItem> = context.expect_some(kernels, filters, &catalog)?;
    let mut verdict = Verdict::good();
    for kernel in kernels {
        context
            .speaker
            .tell(&head(kernel), || kernel_event(kernel, &catalog));
        for variant in kernel
            .variants
            .iter()
            .filter(|variant| selection.variant(kernel, variant))
        {
            match variant.instance.trace() {
                Ok(traced) => {
                    let text = format!("  {}\n", describe(variant, &traced));
                    context
                        .speaker
                        .tell(&text, || variant_event(kernel, variant, &traced));
                }
                Err(diagnostics) => {
                    context.speaker.tell(&format!("  {} is wrong\n", variant.display), || {
                        json!({ "reason": "tilekit-variant", "kernel": kernel.entry.name, "variant": variant.display,
                                "status": "wrong" })
                    });
                    context.speaker.diagnostics(&diagnostics);
                    verdict.note(Exit::Diagnostics);
                }
            }
        }
    }
    Ok(verdict.exit())
}

/// The kernel's own line.
fn head(kernel: &KernelItem) -> String {
    let entry = kernel.entry;
    let bold = anstyle::Style::new().bold();
    let none = if kernel.variants.is_empty() {
        "  (no variants: no case launches it, and it declares no instances)"
    } else {
        ""
    };
    format!(
        "{bold}{}{bold:#}  {}:{}{none}\n",
        entry.name,
        name_of(entry.file),
        entry.line
    )
}

/// Such as `vector_add<1024>  warps=4  (x: ptr<f32>, n: i32)  cases: vector_add_case`.
fn describe(variant: &Variant, traced: &Traced) -> String {
    let func = &traced.func;
    let from = if variant.cases.is_empty() {
        "declared".to_string()
    } else {
        format!("cases: {}", variant.cases.join(", "))
    };
    format!(
        "{}  warps={}  ({})  {from}",
        traced.display,
        func.warps,
        parameters(func).join(", ")
    )
}

fn parameters(func: &Func) -> Vec<String> {
    func.params
        .iter()
        .map(|param| format!("{}: {}", param.name, func.ty(param.value)))
        .collect()
}

fn kernel_event(kernel: &KernelItem, catalog: &Catalog) -> Value {
    let entry = kernel.entry;
    let launched_by = |case: &&str| {
        kernel
            .variants
            .iter()
            .any(|variant| variant.cases.contains(case))
    };
    let cases: Vec<&str> = catalog
        .cases
        .iter()
        .map(|case| case.entry.name)
        .filter(launched_by)
        .collect();
    json!({
        "reason": "tilekit-kernel", "kernel": entry.name, "module": entry.module, "file": name_of(entry.file),
        "line": entry.line, "variants": kernel.variants.len(), "cases": cases,
    })
}

fn variant_event(kernel: &KernelItem, variant: &Variant, traced: &Traced) -> Value {
    json!({
        "reason": "tilekit-variant", "kernel": kernel.entry.name, "variant": &*traced.display,
        "symbol": &*traced.func.name, "warps": traced.func.warps, "parameters": parameters(&traced.func),
        "cases": variant.cases,
    })
}
