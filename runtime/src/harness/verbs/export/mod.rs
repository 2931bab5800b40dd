//! `export`: kernels as a package for programs that know nothing of TileKit's compiler.

mod backward;
mod c;
mod docstring;
mod exported;
mod names;
mod python;
mod python_autograd;
mod rust;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use launch::Manifest;
use serde_json::json;

use exported::{Exported, File};

use super::check_variant;
use crate::harness::Exit;
use crate::harness::artifact::FileNames;
use crate::harness::catalog::{KernelItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::files::write_whole;
use crate::harness::request::Language;
use crate::harness::speak::Verdict;
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};

pub(in crate::harness) fn export(
    context: &Context,
    filters: &[String],
    to: Language,
    folder: Option<&Path>,
) -> Done {
    let place = &context.place;
    // `target/tilekit/export` beside `target/tilekit/<profile>/<package>`.
    let tilekit = place
        .artifacts
        .ancestors()
        .nth(2)
        .unwrap_or(&place.artifacts);
    let default = tilekit.join("export").join(to.name()).join(&place.name);
    let folder = folder.unwrap_or(&default);
    let catalog = context.declared_catalog()?;
    let variants = context.variants(&catalog, filters)?;
    let names = FileNames::new(&catalog);
    let replaced = context.replaced()?;
    let compiler = Context::compiler(&replaced);
    let toolchain = Toolchain::find(None);
    let mut verdict = Verdict::good();
    let mut kernels = Vec::new();
    for &(kernel, variant) in &variants {
        let name = name_of(&names, kernel, variant);
        let find = |function: &str| {
            backward::exported_name(&names, &variants, (kernel, variant), function)
        };
        let compiled = check_variant(variant, &compiler, &context.speaker);
        match compiled.and_then(|compiled| {
            one(
                context,
                &toolchain,
                (&name, kernel.entry.docs),
                variant,
                &compiled,
                &find,
            )
        }) {
            Ok(exported) => kernels.push(exported),
            Err(exit) => verdict.note(exit),
        }
    }
    if let Some(remark) = named_alike(&kernels) {
        verdict.note(context.speaker.failure(&remark));
    }
    for kernel in &kernels {
        let name = kernel.backward.as_deref();
        let checked = name.map_or(Ok(()), |name| {
            backward::check(&kernel.manifest, &kernels, name)
        });
        if let Err(what) = checked {
            let remark = Remark::error(format!("`{}`: {what}", kernel.manifest.kernel));
            verdict.note(context.speaker.failure(&remark));
        }
    }
    let files = match to {
        Language::Rust => rust::files(&context.place.name, &kernels),
        Language::C => c::files(&kernels),
        Language::Python => python::files(&context.place.name, &kernels),
    };
    // A package with some of what was asked for would be mistaken for the whole.
    if verdict.exit() == Exit::Success {
        write_package(context, folder, files, to)?;
    }
    Ok(verdict.exit())
}

/// Writes all files of a package, that first by which the next export knows the folder.
fn write_package(context: &Context, folder: &Path, mut files: Vec<File>, to: Language) -> Done<()> {
    let mark = match to {
        Language::C => "tilekitConfig.cmake",
        Language::Rust | Language::Python => "Cargo.toml",
    };
    if let Some(path) = not_exported(folder, &files, mark) {
        let what = format!("{} is there, and no export wrote it", path.display());
        let remark = Remark::error(what)
            .with_note("it would be overwritten; nothing was written")
            .with_help("name another folder with --out, or move the file away");
        context.speaker.failure(&remark);
        return Err(Exit::Usage);
    }
    files.sort_by_key(|(path, _)| path != mark);
    for (path, content) in files {
        write(context, &folder.join(path), &content)?;
    }
    Ok(())
}

/// A file that would be overwritten, in a folder that is no export's.
fn not_exported(folder: &Path, files: &[File], mark: &str) -> Option<PathBuf> {
    let begin = b"# Written by `cargo tilekit export --to ";
    let marked = std::fs::read(folder.join(mark));
    if marked.is_ok_and(|text| text.starts_with(begin)) {
        return None;
    }
    let mut paths = files.iter().map(|(path, _)| folder.join(path));
    paths.find(|path| path.symlink_metadata().is_ok())
}

/// Names of two kernels that are one in an export, where the second would take the place of the first.
fn named_alike(kernels: &[Exported]) -> Option<Remark> {
    let mut seen = BTreeMap::new();
    kernels.iter().find_map(|kernel| {
        let Manifest { name, kernel, .. } = &kernel.manifest;
        let other = seen.insert(name, kernel)?;
        let what = format!("`{other}` and `{kernel}` would both be exported as `{name}`");
        Some(Remark::error(what).with_help("rename one of them, or export them to two folders"))
    })
}

/// The name of a variant in an export.
fn name_of(names: &FileNames, kernel: &KernelItem, variant: &Variant) -> String {
    names.name(kernel, variant).replace('-', "_")
}

fn one(
    context: &Context,
    toolchain: &Toolchain,
    (name, docs): (&str, &'static str),
    variant: &Variant,
    compiled: &crate::kernel::Compiled,
    backward: &dyn Fn(&str) -> Option<String>,
) -> Done<Exported> {
    let speaker = &context.speaker;
    let failed = |error| speaker.error(compiled.display(), &error);
    compiled.check_assembly().map_err(failed)?;
    let assembled = match toolchain.assemble(compiled.ptx()).map_err(failed)? {
        Image::Cubin { assembled, .. } => assembled,
        Image::Ptx(_) => unreachable!("assembling gives a cubin or fails"),
    };
    let release = toolchain.ptxas().map(|ptxas| ptxas.version.to_string());
    let traced = variant
        .instance
        .trace()
        .map_err(|error| failed(crate::error::Error::Kernel(error)))?;
    let signature = traced.signature.as_ref();
    let function = signature.and_then(|signature| signature.backward);
    let backward = function.and_then(backward);
    if let (Some(function), None) = (function, &backward) {
        let about = compiled.display();
        let remark = Remark::note(format!("`{about}` is exported without its gradients"));
        speaker.remark(&remark.with_help(format!(
            "export `{function}` too, in an instance of the same constants"
        )));
    }
    let table = table::of(
        (name, backward.as_deref()),
        compiled,
        signature,
        &assembled.cubin,
        &release.unwrap_or_default(),
    );
    let text = table.map_err(|what| {
        let remark = Remark::error(format!(
            "`{}` cannot be exported: {what}",
            compiled.display()
        ));
        speaker.failure(&remark)
    })?;
    let manifest = Manifest::read(&text).map_err(|error| {
        let remark = Remark::error(format!(
            "the signature of `{}` cannot be exported: {error}",
            compiled.display()
        ));
        speaker.failure(&remark)
    })?;
    Ok(Exported {
        manifest,
        text,
        cubin: assembled.cubin,
        ptx: compiled.ptx().to_owned(),
        docs,
        backward,
    })
}

fn write(context: &Context, path: &Path, content: &[u8]) -> Done<()> {
    if let Err(error) = write_whole(path, content) {
        return Err(context.speaker.failure(&Remark::error(error.to_string())));
    }
    let path = path.display().to_string();
    context.speaker.tell(
        &format!("{path}\n"),
        || json!({ "reason": "tilekit-artifact", "kind": "export", "path": path }),
    );
    Ok(())
}
