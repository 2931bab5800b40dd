//! A Python package: an extension module over `tilekit-python`, which maturin makes a wheel of, and for each kernel a function
//! with its names of arguments, documentation and types.

use std::fmt::Write;

use launch::{DataType, Manifest, Parameter, Role};

use super::exported::{Exported, File};
use super::names::of_python;

/// Files that are the same in every package.
const SAME: [(&str, &str); 3] = [
    ("_dispatch.py", include_str!("core/python/_dispatch.py")),
    ("_torch.py", include_str!("core/python/_torch.py")),
    ("_types.pyi", include_str!("core/python/_types.pyi")),
];

pub(super) fn files(package: &str, kernels: &[Exported]) -> Vec<File> {
    let name = format!("{package}-exported");
    let module = name.replace('-', "_");
    let inside = |file: &str| format!("python/{module}/{file}");
    let mut texts = vec![
        ("Cargo.toml".to_owned(), cargo(&name, &module)),
        (
            "pyproject.toml".to_owned(),
            project(package, &name, &module),
        ),
        ("src/lib.rs".to_owned(), library(package, kernels)),
        (inside("__init__.py"), functions(package, kernels)),
        (inside("__init__.pyi"), stubs(kernels)),
        (inside("_native.pyi"), native_stubs(kernels)),
        (inside("py.typed"), String::new()),
    ];
    texts.extend(SAME.map(|(file, text)| (inside(file), text.to_owned())));
    let mut files = Vec::new();
    for kernel in kernels {
        let name = &kernel.manifest.name;
        texts.push((inside(&format!("{name}.ptx")), kernel.ptx.clone()));
        texts.push((format!("src/{name}.json"), kernel.text.clone()));
        files.push((format!("src/{name}.cubin"), kernel.cubin.clone()));
    }
    files.extend(
        texts
            .into_iter()
            .map(|(path, text)| (path, text.into_bytes())),
    );
    files
}

const RELEASE: &str = env!("CARGO_PKG_VERSION");

fn cargo(name: &str, module: &str) -> String {
    format!(
        "# Written by `cargo tilekit export --to python`, TileKit {RELEASE}.\n[package]\nname = \"{name}\"\nversion = \"0.0.0\"\n\
         edition = \"2024\"\n\n[lib]\nname = \"{module}\"\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n\
         tilekit-python = \"{RELEASE}\"\n\n[profile.release]\nlto = \"thin\"\ncodegen-units = 1\n\n[workspace]\n"
    )
}

fn project(package: &str, name: &str, module: &str) -> String {
    format!(
        "# Written by `cargo tilekit export --to python`, TileKit {RELEASE}.\n[build-system]\nrequires = [\"maturin>=1.9.4,<2\"]\n\
         build-backend = \"maturin\"\n\n[project]\nname = \"{name}\"\nversion = \"0.0.0\"\n\
         description = \"Kernels of {package}, by TileKit\"\nrequires-python = \">=3.10\"\n\n[tool.maturin]\n\
         module-name = \"{module}._native\"\npython-source = \"python\"\n"
    )
}

fn library(package: &str, kernels: &[Exported]) -> String {
    let names: Vec<&str> = names(kernels).collect();
    format!(
        "//! Kernels of `{package}`, written by `cargo tilekit export --to python`, TileKit {RELEASE}.\n\n\
         tilekit_python::module! {{\n    _native:\n    {}\n}}\n",
        names.join(",\n    ")
    )
}

fn names(kernels: &[Exported]) -> impl Iterator<Item = &str> {
    kernels.iter().map(|kernel| kernel.manifest.name.as_str())
}

/// `__init__.py`
fn functions(package: &str, kernels: &[Exported]) -> String {
    let mut text = format!(
        "\"\"\"Kernels of `{package}`, written by `cargo tilekit export --to python`, TileKit {RELEASE}.\"\"\"\n\n\
         from . import _dispatch, _native\n\n__all__ = [\n"
    );
    for name in names(kernels) {
        let _ = writeln!(text, "    \"{name}\",");
    }
    text.push_str("    \"warm\",\n]\n\n\ndef warm(device=0):\n    \"\"\"Loads all kernels on this GPU: before a stream is captured.\"\"\"\n    for name in __all__[:-1]:\n        getattr(_native, name).warm(device)\n");
    for kernel in kernels {
        text.push_str(&function(kernel));
    }
    text
}

fn function(kernel: &Exported) -> String {
    let manifest = &kernel.manifest;
    let name = &manifest.name;
    let Call {
        positional,
        named,
        passed,
    } = Call::of(manifest);
    let arguments = positional.join(", ");
    // A tuple of one has a comma.
    let tuple = if positional.len() == 1 { "," } else { "" };
    let list = signature(&positional, &named);
    let passed = [&["stream"], &passed[..]].concat().join(", ");
    let compiled = match (manifest.grid.is_none(), manifest.waits_for_previous) {
        (false, false) => format!("({arguments}{tuple})"),
        (true, false) => format!("({arguments}, _dispatch.counts(grid))"),
        (false, true) => format!("({arguments}, overlap)"),
        (true, true) => format!("({arguments}, _dispatch.counts(grid), overlap)"),
    };
    format!(
        "\n\ndef {name}({list}):\n{}    if _dispatch.is_compiling():\n        \
         return _dispatch.enter(\"{name}\", {compiled}, stream)\n    _launch_{name}(({arguments}{tuple}), {passed})\n\n\n\
         {name}.kernel = _native.{name}\n{name}.warm = _native.{name}.warm\n_launch_{name} = _native.{name}.launch\n",
        documentation(kernel)
    )
}

/// How Python calls a kernel.
struct Call {
    /// Names of arguments.
    positional: Vec<String>,
    /// What is passed by name alone, with its default.
    named: Vec<&'static str>,
    /// What follows the stream in the call of the extension module.
    passed: Vec<&'static str>,
}

impl Call {
    fn of(manifest: &Manifest) -> Call {
        let positional = manifest.arguments().map(argument).collect();
        let (mut named, mut passed) = (Vec::new(), Vec::new());
        if manifest.grid.is_none() {
            named.push("grid");
            passed.push("grid");
        }
        named.push("stream=None");
        if manifest.waits_for_previous {
            if passed.is_empty() {
                passed.push("None");
            }
            named.push("overlap=False");
            passed.push("overlap");
        }
        Call {
            positional,
            named,
            passed,
        }
    }
}

fn signature(positional: &[String], named: &[&str]) -> String {
    let mut list: Vec<&str> = positional.iter().map(String::as_str).collect();
    list.push("*");
    list.extend(named);
    list.join(", ")
}

fn argument(parameter: &Parameter) -> String {
    of_python(&parameter.name, &["stream", "grid", "overlap"])
}

/// The docstring: the author's words, then arguments, what a launch keeps, and what is raised.
fn documentation(kernel: &Exported) -> String {
    let manifest = &kernel.manifest;
    let mut lines: Vec<String> = kernel.docs.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        lines.push(format!(
            "Puts a launch of `{}` on a stream.",
            manifest.kernel
        ));
    }
    lines.extend([
        String::new(),
        format!("`{}`, compiled for {}.", manifest.kernel, manifest.arch),
    ]);
    lines.extend([String::new(), "Arguments:".to_owned()]);
    lines.extend(
        manifest
            .arguments()
            .map(|parameter| format!("    {}", described(parameter))),
    );
    if manifest.grid.is_none() {
        lines.push("    grid: CTAs along x, y and z: one to three ints".to_owned());
    }
    lines.push("    stream: its handle, or a stream of torch or CuPy; the one on which the tensors' framework works".to_owned());
    if manifest.waits_for_previous {
        lines.push("    overlap: whether it may begin before the launch in front of it on the stream has ended".to_owned());
    }
    if !manifest.requires.is_empty() {
        lines.extend([String::new(), "Every launch keeps:".to_owned()]);
        lines.extend(
            manifest
                .requires
                .iter()
                .map(|condition| format!("    {condition}")),
        );
    }
    lines.extend([
        String::new(),
        "The launch is enqueued and not waited for. TypeError for a type, ValueError for a shape, stride, address or".to_owned(),
        "device that does not fit, RuntimeError for what driver or GPU refuse.".to_owned(),
    ]);
    let mut text = String::from("    \"\"\"");
    for (at, line) in lines.iter().enumerate() {
        let line = line.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
        let indent = if at == 0 || line.is_empty() {
            ""
        } else {
            "    "
        };
        let _ = writeln!(text, "{indent}{line}");
    }
    text.push_str("    \"\"\"\n");
    text
}

/// `x: bf16[rows, cols], read`
fn described(parameter: &Parameter) -> String {
    let (name, kind) = (argument(parameter), parameter.role.data_type());
    if let Role::Scalar { .. } = parameter.role {
        return format!("{name}: {kind}");
    }
    let shape = parameter.shape().map(|shape| {
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        format!("[{}]", shape.join(", "))
    });
    let shape = shape.unwrap_or_else(|| ", of any shape".to_owned());
    let access = if parameter.is_written {
        "written"
    } else {
        "read"
    };
    format!("{name}: {kind}{shape}, {access}")
}

/// `__init__.pyi`: functions that also have the kernel and `warm`.
fn stubs(kernels: &[Exported]) -> String {
    let mut text = String::from(
        "from typing import Protocol\n\nfrom ._native import Kernel\nfrom ._types import Grid as Grid, Stream as Stream, Tensor as Tensor\n",
    );
    for kernel in kernels {
        let manifest = &kernel.manifest;
        let typed: Vec<String> = manifest
            .arguments()
            .map(|parameter| format!("{}: {}", argument(parameter), python_type(parameter)))
            .collect();
        let mut named = Vec::new();
        if manifest.grid.is_none() {
            named.push("grid: Grid");
        }
        named.push("stream: Stream = None");
        if manifest.waits_for_previous {
            named.push("overlap: bool = False");
        }
        let (name, list) = (&manifest.name, signature(&typed, &named));
        let _ = write!(
            text,
            "\nclass _{name}(Protocol):\n    @property\n    def kernel(self) -> Kernel: ...\n    \
             def warm(self, device: int = 0) -> None: ...\n    def __call__(self, {list}) -> None: ...\n\n{name}: _{name}\n"
        );
    }
    text.push_str("\ndef warm(device: int = 0) -> None: ...\n");
    text
}

fn python_type(parameter: &Parameter) -> &'static str {
    match (&parameter.role, parameter.role.data_type()) {
        (Role::Scalar { .. }, DataType::I1) => "bool",
        (Role::Scalar { .. }, DataType::F16 | DataType::Bf16 | DataType::F32 | DataType::F64) => {
            "float"
        }
        (Role::Scalar { .. }, _) => "int",
        _ => "Tensor",
    }
}

fn native_stubs(kernels: &[Exported]) -> String {
    let mut text = include_str!("core/python/_native.pyi").to_owned();
    for name in names(kernels) {
        let _ = writeln!(text, "{name}: Kernel");
    }
    text
}
