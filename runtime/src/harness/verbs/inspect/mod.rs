//! `inspect`: one variant at one stage, or the author's lines with what was made of them, with what they cost.

mod blame;
mod collect;
mod memory;
mod occupancy;
mod page;
mod places;
mod ptx_lines;
mod sheet;
mod tally;
mod terminal;
mod tiles;

use std::path::Path;
use std::str::FromStr;

use ir::Stage;
use lowering::{PIPELINE, StopAt};
use serde_json::json;

use super::check_variant;
use super::meant::only;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::artifact::{accesses, assembly_line, comment, facts, ir_text, without_head};
use crate::harness::catalog::Variant;
use crate::harness::context::{Context, Done};
use crate::harness::files::write_whole;
use crate::harness::request::{SourceView, View};
use crate::harness::speak::Speaker;
use crate::kernel::Compiled;
use crate::ptxas::{Assembled, Environment, disassemble};
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};
pub(super) use blame::Blame;
use tally::LineCost;

pub(in crate::harness) fn inspect(context: &Context, kernel: &str, view: &View) -> Done {
    let catalog = context.declared_catalog()?;
    let filters = [kernel.to_string()];
    let variants = context.variants(&catalog, &filters)?;
    let variant = only(&variants, kernel, &context.speaker)?;
    let replaced = context.replaced()?;
    let speaker = &context.speaker;
    let compiled = check_variant(variant, &Context::compiler(&replaced), speaker)?;
    match view {
        View::Source(view) => return lines(variant, &compiled, view, context),
        View::Page(file) => return write_page(variant, &compiled, file, context),
        View::Stage(_) | View::After(_) | View::Ptx | View::Sass => {}
    }
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

/// The author's lines.
fn lines(variant: &Variant, compiled: &Compiled, view: &SourceView, context: &Context) -> Done {
    let speaker = &context.speaker;
    let sheet = collect::sheet(variant, compiled, &context.sources())
        .map_err(|error| speaker.error(&variant.display, &error))?;
    if let Some(at) = &view.at
        && !sheet.lines.iter().any(|line| sheet.is_at(line, at))
    {
        let name = |line: &LineCost| format!("{}:{}", sheet.files[line.file].name, line.line);
        let lines: Vec<String> = sheet.lines.iter().map(name).collect();
        let remark = Remark::error(format!("nothing was made of line {}", at.line));
        speaker.failure(&remark.with_help(format!("lines with code: {}", lines.join(", "))));
        return Err(Exit::Usage);
    }
    speaker.tell(&terminal::text(&sheet, view), || {
        let mut object = json!({ "reason": "tilekit-source" });
        object["sheet"] = serde_json::to_value(&sheet).expect("a sheet of strings and numbers");
        object
    });
    Ok(Exit::Success)
}

fn write_page(variant: &Variant, compiled: &Compiled, file: &Path, context: &Context) -> Done {
    let speaker = &context.speaker;
    let sheet = collect::sheet(variant, compiled, &context.sources())
        .map_err(|error| speaker.error(&variant.display, &error))?;
    for note in &sheet.notes {
        speaker.remark(&Remark::warning(note.clone()));
    }
    let text = page::page(&sheet);
    write_whole(file, text.as_bytes()).map_err(|error| {
        speaker.failure(&Remark::error(error.to_string()));
        Exit::Usage
    })?;
    let shown = file.display().to_string();
    speaker.tell(&format!("{shown}\n"), || {
        json!({ "reason": "tilekit-page", "variant": variant.display, "path": shown, "bytes": text.len() })
    });
    Ok(Exit::Success)
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
        View::Source(_) | View::Page(_) => unreachable!("they are shown by lines"),
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
