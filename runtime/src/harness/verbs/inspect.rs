//! `inspect`: one variant at one stage, with what it costs.

use std::str::FromStr;

use ir::Stage;
use lowering::{PIPELINE, StopAt};
use serde_json::json;

use super::check_variant;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::artifact::{accesses, assembly_line, comment, facts, ir_text, without_head};
use crate::harness::catalog::{KernelItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::request::View;
use crate::harness::speak::Speaker;
use crate::kernel::Compiled;
use crate::ptxas::{Assembled, Environment, disassemble};
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};

pub(in crate::harness) fn inspect(context: &Context, kernel: &str, view: &View) -> Done {
    let catalog = context.declared_catalog()?;
    let filters = [kernel.to_string()];
    let variants = context.variants(&catalog, &filters)?;
    let variant = only(&variants, kernel, &context.speaker)?;
    let replaced = context.replaced()?;
    let speaker = &context.speaker;
    let compiled = check_variant(variant, &Context::compiler(&replaced), speaker)?;
    let (assembled, exit) = assembled(&compiled, view, speaker)?;
    let body = body(variant, &compiled, assembled.as_ref(), view, speaker)?;
    let mut header = header(&compiled, assembled.as_ref());
    if !compiled.is_replaced() {
        let traced = variant
            .instance
            .trace()
            .and_then(|traced| accesses(&traced.func));
        header.extend(
            traced.map_err(|error| speaker.error(&variant.display, &Error::Kernel(error)))?,
        );
    }
    speaker.tell(&format!("{}{body}", comment(&header)), || {
        json!({
            "reason": "tilekit-inspect", "variant": variant.display, "facts": header, "text": body,
        })
    });
    Ok(exit)
}

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

/// Code where it is requested; otherwise only what ptxas says, where it is found. With the exit that it leads to: what is
/// shown without ptxas is shown even if it fails.
fn assembled(
    compiled: &Compiled,
    view: &View,
    speaker: &Speaker,
) -> Done<(Option<(Assembled, String)>, Exit)> {
    let toolchain = Toolchain::find(None);
    let is_needed = *view == View::Sass;
    if !is_needed && !toolchain.assembles() {
        return Ok((None, Exit::Success));
    }
    let checked = compiled.check_assembly();
    match checked.and_then(|()| toolchain.assemble(compiled.ptx())) {
        Ok(Image::Cubin { assembled, .. }) => {
            let version = toolchain.ptxas().map(|ptxas| ptxas.version);
            let report = assembled.report.entry(&compiled.info().entry);
            let line = version
                .zip(report)
                .map(|(version, report)| assembly_line(report, version));
            let found = (assembled.clone(), line.unwrap_or_default());
            Ok((Some(found), Exit::Success))
        }
        Ok(Image::Ptx(_)) => unreachable!("assembling gives a cubin or fails"),
        Err(error) => {
            let exit = speaker.error(compiled.display(), &error);
            if is_needed {
                Err(exit)
            } else {
                Ok((None, exit))
            }
        }
    }
}

fn header(compiled: &Compiled, assembled: Option<&(Assembled, String)>) -> Vec<String> {
    let mut lines = facts(compiled);
    if compiled.is_replaced() {
        lines.push(
            "edited by hand: `cargo tilekit build --reset` removes the edited text".to_string(),
        );
    }
    lines.extend(
        assembled
            .map(|(_, line)| line.clone())
            .filter(|line| !line.is_empty()),
    );
    lines
}

fn body(
    variant: &Variant,
    compiled: &Compiled,
    assembled: Option<&(Assembled, String)>,
    view: &View,
    speaker: &Speaker,
) -> Done<String> {
    let fail = |error: Error| speaker.error(&variant.display, &error);
    let ir = |stop: &StopAt| {
        let traced = variant
            .instance
            .trace()
            .map_err(|error| fail(Error::Kernel(error)))?;
        ir_text(traced.func, stop).map_err(|error| fail(Error::Kernel(error)))
    };
    match view {
        View::Stage(name) => {
            let stage = Stage::from_str(name).map_err(|error| {
                speaker.failure(&Remark::error(error));
                Exit::Usage
            })?;
            ir(&StopAt::Stage(stage))
        }
        View::After(pass) if PIPELINE.iter().all(|known| known.name != pass) => {
            speaker.failure(&no_such_pass(pass));
            Err(Exit::Usage)
        }
        View::After(pass) => ir(&StopAt::Pass(pass.clone())),
        View::Ptx => Ok(without_head(compiled.ptx()).to_string()),
        View::Sass => {
            let (assembled, _) = assembled.expect("code is assembled where it is needed");
            disassemble(&assembled.cubin, &Environment::of_process())
                .map_err(|error| fail(error.into()))
        }
    }
}

fn no_such_pass(name: &str) -> Remark {
    let mut names: Vec<&str> = Vec::new();
    for pass in PIPELINE {
        if !names.contains(&pass.name) {
            names.push(pass.name);
        }
    }
    Remark::error(format!("no pass is called `{name}`"))
        .with_help(format!("the passes are {}", names.join(", ")))
}
