//! `build --from-ptx`, `--from-ir` and `--reset`: kernels edited by hand.

use std::path::Path;

use diag::Place;
use diag::{Code, Diagnostic, Diagnostics};
use lowering::LaunchInfo;
use serde_json::json;

use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::harness::files::read_regular;
use crate::harness::replaced::Replaced;
use crate::harness::request::Replace;
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;

pub(in crate::harness) fn replace(context: &Context, what: &Replace) -> Done {
    match what {
        Replace::Ptx(path) => {
            let text = read(path, context)?;
            let module = ptx::Module::parse(&text).map_err(|error| {
                let at = place(path, error.line, error.column);
                wrong(
                    context,
                    Diagnostic::error(Code::BadText, Some(at), error.message),
                )
            })?;
            check(context, path, &text, &module)?;
            install(context, path, &module, &text)
        }
        Replace::Ir(path) => {
            let text = read(path, context)?;
            let name = path.display().to_string();
            let func = ir::text::parse(&name, &text).map_err(|error| {
                let at = place(path, error.line, error.column);
                wrong(
                    context,
                    Diagnostic::error(Code::BadText, Some(at), error.message).help(error.help),
                )
            })?;
            let lowered =
                lowering::compile(func, &lowering::Options::default()).map_err(|diagnostics| {
                    context.speaker.diagnostics(&diagnostics);
                    Exit::Diagnostics
                })?;
            install(context, path, &lowered.module, &lowered.module.to_text())
        }
        Replace::Nothing => reset(context),
    }
}

fn read(path: &Path, context: &Context) -> Done<String> {
    let unread = |what: String| {
        let help = "name a file that `cargo tilekit build` or `inspect` printed and you edited";
        context
            .speaker
            .failure(&Remark::error(what).with_help(help));
        Exit::Usage
    };
    let gone = || format!("{} cannot be read: it is gone", path.display());
    let found = read_regular(path).map_err(|error| unread(error.to_string()))?;
    String::from_utf8(found.ok_or_else(|| unread(gone()))?).map_err(|error| {
        let error = error.utf8_error();
        unread(format!("{} cannot be read: {error}", path.display()))
    })
}

fn place(path: &Path, line: u32, column: u32) -> Place {
    Place {
        file: path.display().to_string().into(),
        line,
        column,
        calls: Vec::new(),
    }
}

fn wrong(context: &Context, diagnostic: Diagnostic) -> Exit {
    context.speaker.diagnostics(&Diagnostics::from(diagnostic));
    Exit::Diagnostics
}

/// Shows what ptxas would have against the text, each at its line.
fn check(context: &Context, path: &Path, text: &str, module: &ptx::Module) -> Done<()> {
    let errors = module.check();
    if errors.is_empty() {
        return Ok(());
    }
    for error in errors {
        let at = line_of(text, &error.instruction).map_or_else(
            || place(path, 1, 1),
            |(line, column)| place(path, line, column),
        );
        let diagnostic = Diagnostic::error(Code::PtxCheck, Some(at), error.problem.to_string());
        let diagnostic = if error.function.is_empty() {
            diagnostic
        } else {
            diagnostic.note(format!("in `{}`", error.function))
        };
        context.speaker.diagnostics(&Diagnostics::from(diagnostic));
    }
    Err(Exit::Diagnostics)
}

/// The first line that holds an instruction, and the column where it begins; spaces do not count.
fn line_of(text: &str, instruction: &str) -> Option<(u32, u32)> {
    let squeezed = |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
    let wanted = squeezed(instruction.trim_end_matches(';'));
    if wanted.is_empty() {
        return None;
    }
    let (at, line) = text
        .lines()
        .enumerate()
        .find(|(_, line)| squeezed(line).contains(&wanted))?;
    let column = line.chars().take_while(|c| c.is_whitespace()).count();
    Some((at as u32 + 1, column as u32 + 1))
}

/// Keeps the module for its entry, if a kernel has an entry of that name that is launched in the same way.
fn install(context: &Context, path: &Path, module: &ptx::Module, text: &str) -> Done {
    let speaker = &context.speaker;
    let refuse = |message: String| {
        let at = Some(place(path, 1, 1));
        wrong(context, Diagnostic::error(Code::BadText, at, message))
    };
    let [entry] = &module.entries[..] else {
        return Err(refuse(format!(
            "the file defines {} entries; one replaces one kernel",
            module.entries.len()
        )));
    };
    let compiled = compiled_with_entry(context, &entry.name)?;
    check_launch(entry, compiled.info()).map_err(refuse)?;
    let kept = Replaced::keep(&context.place.overrides, &entry.name, text, path);
    let kept = kept.map_err(|error| speaker.failure(&Remark::error(error.to_string())))?;
    let kept = kept.display().to_string();
    speaker.tell(&format!("{kept}\n"), || {
        json!({ "reason": "tilekit-replaced", "variant": compiled.display(), "entry": entry.name, "path": kept })
    });
    let text = format!(
        "from now on `run` uses this text for `{}`",
        compiled.display()
    );
    speaker.remark(&Remark::note(text).with_help("`cargo tilekit build --reset` removes it"));
    Ok(Exit::Success)
}

/// The one variant whose entry has this name.
fn compiled_with_entry(context: &Context, name: &str) -> Done<Compiled> {
    let catalog = context.declared_catalog()?;
    let compiler = Compiler::default();
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for (kernel, variant) in catalog.variants() {
        let Ok(compiled) = compiler.compile(&variant.instance) else {
            continue;
        };
        known.push(format!("`{}`", compiled.info().entry));
        if *compiled.info().entry == *name {
            found.push((kernel.path_of(variant), compiled));
        }
    }
    let refuse = |remark: Remark, exit| {
        context.speaker.failure(&remark);
        Err(exit)
    };
    match found.len() {
        1 => Ok(found.remove(0).1),
        0 => {
            let message = format!(
                "the file defines the entry `{name}`, and no kernel has an entry of that name"
            );
            let help = format!("the kernels' entries are {}", known.join(", "));
            refuse(
                Remark::error(message).with_help(help),
                Exit::NothingSelected,
            )
        }
        _ => {
            let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
            let message = format!("`{}` have one entry, `{name}`", paths.join("` and `"));
            let help = "an edited text is kept by its entry: give the kernels different names";
            refuse(Remark::error(message).with_help(help), Exit::Usage)
        }
    }
}

/// The launch stays as the kernel's own, so the edited text has to fit it.
fn check_launch(entry: &ptx::Entry, info: &LaunchInfo) -> Result<(), String> {
    let (given, wanted) = (entry.params.len(), info.params.len());
    if given != wanted {
        return Err(format!(
            "`{}` takes {given} parameters, and the kernel is launched with {wanted}",
            entry.name
        ));
    }
    Ok(())
}

fn reset(context: &Context) -> Done {
    let names = Replaced::reset(&context.place.overrides)
        .map_err(|error| context.speaker.failure(&Remark::error(error.to_string())))?;
    for name in &names {
        context.speaker.tell(
            &format!("{name}\n"),
            || json!({ "reason": "tilekit-restored", "entry": name }),
        );
    }
    let text = if names.is_empty() {
        "no kernel was edited by hand"
    } else {
        "these are compiled from Rust again"
    };
    context.speaker.remark(&Remark::note(text));
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn an_instruction_is_found_whatever_its_spaces() {
        let text = "{\n\tret;\n\tmov.u32   %r1,%tid.x;\n}";
        assert_eq!(line_of(text, "mov.u32 %r1, %tid.x;"), Some((3, 2)));
        assert_eq!(line_of(text, "mov.u32 %r2, %tid.x;"), None);
        assert_eq!(line_of(text, ""), None);
    }
}
