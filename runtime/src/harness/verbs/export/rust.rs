//! A Rust package: a module for each kernel, with its manifest and its cubin inside of the program.

use std::fmt::Write;

use launch::{DataType, Manifest, Parameter, Role};

use super::exported::{Exported, File};
use super::names::{RUST, apart_from, plain};

pub(super) fn files(package: &str, kernels: &[Exported]) -> Vec<File> {
    let version = env!("CARGO_PKG_VERSION");
    let cargo = format!(
        "# Written by `cargo tilekit export --to rust`, TileKit {version}.\n[package]\nname = \"{package}-exported\"\n\
         version = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\ntilekit-launch = \"{version}\"\n\n\
         # Its own, so that it builds in the folder of another workspace.\n[workspace]\n"
    );
    let mut library = format!(
        "//! Kernels of `{package}`, written by `cargo tilekit export --to rust`, TileKit {version}.\n\npub use tilekit_launch;\n\n"
    );
    let mut files = vec![("Cargo.toml".to_owned(), cargo.into_bytes())];
    for kernel in kernels {
        let name = module_of(&kernel.manifest);
        let _ = writeln!(library, "pub mod {name};");
        files.push((
            format!("src/{name}.rs"),
            module(&kernel.manifest).into_bytes(),
        ));
        files.push((format!("src/{name}.json"), kernel.text.clone().into_bytes()));
        files.push((format!("src/{name}.cubin"), kernel.cubin.clone()));
    }
    library.push_str(&warm(kernels));
    files.push(("src/lib.rs".to_owned(), library.into_bytes()));
    files
}

/// The function that loads all kernels.
fn warm(kernels: &[Exported]) -> String {
    let mut text = String::from(
        "\n/// Loads all kernels in this context, so that no later launch loads: before a stream is captured.\n///\n/// # Errors\n\
         /// No driver, a GPU that cannot run them, or what the driver refuses.\n\
         pub fn warm(context: &tilekit_launch::Context) -> Result<(), tilekit_launch::Error> {\n",
    );
    for kernel in kernels {
        let _ = writeln!(
            text,
            "    {}::PROGRAM.warm(context)?;",
            module_of(&kernel.manifest)
        );
    }
    text + "    Ok(())\n}\n"
}

/// The name of a kernel's module, whose file is neither that of the library nor one of a program.
fn module_of(manifest: &Manifest) -> String {
    let taken = [RUST, &["lib", "main", "tilekit_launch"]].concat();
    apart_from(&taken, &manifest.name)
}

fn module(manifest: &Manifest) -> String {
    let Manifest {
        kernel,
        tilekit,
        ptxas,
        ..
    } = manifest;
    let name = module_of(manifest);
    let mut text = format!(
        "//! `{kernel}`, by TileKit {tilekit} and ptxas {ptxas}.\n\nuse tilekit_launch::{{Aligned, Argument, Error, Program, \
         Queue}};\n\nstatic CODE: &Aligned<[u8]> = &Aligned(*include_bytes!(\"{name}.cubin\"));\n\n/// The kernel, for \
         launches without types and for `warm`.\npub static PROGRAM: Program = Program::new(include_str!(\"{name}.json\"), \
         CODE);\n\n/// Puts a launch of `{kernel}` on `queue`.\n///\n"
    );
    for line in facts(manifest) {
        let _ = writeln!(text, "/// - {line}");
    }
    text.push_str(
        "///\n/// # Errors\n/// What does not fit, or what the driver refuses.\n#[allow(clippy::too_many_arguments)]\npub fn launch(\n    queue: &Queue<'_>,\n",
    );
    if manifest.grid.is_none() {
        text.push_str("    grid: [i64; 3],\n");
    }
    for parameter in manifest.arguments() {
        let _ = writeln!(
            text,
            "    {}: {},",
            argument(parameter),
            rust_type(parameter)
        );
    }
    let grid = if manifest.grid.is_none() {
        "Some(grid)"
    } else {
        "None"
    };
    let _ = write!(text, ") -> Result<(), Error> {{\n    let arguments = [\n");
    for parameter in manifest.arguments() {
        let name = argument(parameter);
        let _ = match parameter.role {
            Role::Scalar { .. } => writeln!(text, "        Argument::scalar({name}),"),
            _ => writeln!(text, "        Argument::Tensor({name}.tensor()),"),
        };
    }
    let _ = write!(
        text,
        "    ];\n    PROGRAM.launch(queue, {grid}, &arguments)\n}}\n"
    );
    text
}

/// Shapes, the grid and what every launch keeps, a line each.
fn facts(manifest: &Manifest) -> Vec<String> {
    let mut lines = Vec::new();
    for parameter in manifest.arguments() {
        if let Some(shape) = parameter.shape() {
            let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            lines.push(format!("`{}: [{}]`", parameter.name, shape.join(", ")));
        }
    }
    if let Some(grid) = &manifest.grid {
        let grid: Vec<String> = grid.iter().map(ToString::to_string).collect();
        lines.push(format!("grid `[{}]`", grid.join(", ")));
    }
    lines.extend(
        manifest
            .requires
            .iter()
            .map(|condition| format!("`{condition}`")),
    );
    lines
}

fn argument(parameter: &Parameter) -> String {
    plain(&parameter.name, &["queue", "grid", "arguments"])
}

fn rust_type(parameter: &Parameter) -> String {
    let element = match parameter.role.data_type() {
        DataType::I1 => "bool".to_owned(),
        DataType::F16 => "tilekit_launch::F16".to_owned(),
        DataType::Bf16 => "tilekit_launch::Bf16".to_owned(),
        DataType::E4m3 => "tilekit_launch::E4m3".to_owned(),
        DataType::E5m2 => "tilekit_launch::E5m2".to_owned(),
        DataType::E4m3b15 => "tilekit_launch::E4m3b15".to_owned(),
        DataType::E2m1 => "tilekit_launch::E2m1".to_owned(),
        DataType::E8m0 => "tilekit_launch::E8m0".to_owned(),
        plain => plain.name().to_owned(),
    };
    match parameter.role {
        Role::Scalar { .. } => element,
        _ if parameter.is_written => format!("&mut tilekit_launch::ViewMut<'_, {element}>"),
        _ => format!("&tilekit_launch::View<'_, {element}>"),
    }
}
