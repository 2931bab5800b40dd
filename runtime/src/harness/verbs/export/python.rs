//! A Python package: an extension module over `tilekit-python`, which maturin makes a wheel of, and for each kernel a function
//! with its names of arguments, documentation and types.

use std::fmt::Write;

use launch::{DataType, Manifest, Parameter, Role};

use super::docstring::{argument, docstring};
use super::exported::{Exported, File};
use super::names::{RUST, of_python};
use super::python_autograd;

/// Files that are the same in every package.
const SAME: [(&str, &str); 4] = [
    ("_cast.py", include_str!("core/python/_cast.py")),
    ("_dispatch.py", include_str!("core/python/_dispatch.py")),
    ("_torch.py", include_str!("core/python/_torch.py")),
    ("_types.pyi", include_str!("core/python/_types.pyi")),
];

pub(super) fn files(package: &str, kernels: &[Exported]) -> Vec<File> {
    let name = format!("{package}-exported");
    let module = module_of(package);
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
        (
            inside("_autograd.py"),
            python_autograd::functions(package, kernels),
        ),
        (inside("_native.pyi"), native_stubs(kernels)),
        (inside("py.typed"), String::new()),
    ];
    texts.extend(SAME.map(|(file, text)| (inside(file), text.to_owned())));
    let mut files = Vec::new();
    for kernel in kernels {
        let name = name_of(&kernel.manifest);
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

/// The name of the Python package.
pub(super) fn module_of(package: &str) -> String {
    format!("{package}-exported").replace('-', "_")
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
    let names: Vec<String> = kernels
        .iter()
        .map(|kernel| name_of(&kernel.manifest))
        .map(|name| format!("{name} as __tvm_ffi_{name}"))
        .collect();
    format!(
        "//! Kernels of `{package}`, written by `cargo tilekit export --to python`, TileKit {RELEASE}.\n\n\
         tilekit_python::module! {{\n    _native:\n    {}\n}}\n",
        names.join(",\n    ")
    )
}

/// The name of a kernel's function, which is none of Python's words and, in the extension module, none of Rust's, and not that which loads
/// all of them.
pub(super) fn name_of(manifest: &Manifest) -> String {
    let taken = [RUST, &["warm"]].concat();
    of_python(&manifest.name, &taken)
}

/// `__init__.py`
fn functions(package: &str, kernels: &[Exported]) -> String {
    let mut text = format!(
        "\"\"\"Kernels of `{package}`, written by `cargo tilekit export --to python`, TileKit {RELEASE}.\"\"\"\n\n\
         from sys import modules as _modules\n\nfrom . import _dispatch, _native\n\n__all__ = [\n"
    );
    for name in kernels.iter().map(|kernel| name_of(&kernel.manifest)) {
        let _ = writeln!(text, "    \"{name}\",");
    }
    text.push_str("    \"warm\",\n]\n\n\ndef warm(device=0):\n    \"\"\"Loads all kernels on this GPU: before a stream is captured.\"\"\"\n    for name in __all__[:-1]:\n        getattr(_native, name).warm(device)\n");
    for kernel in kernels {
        text.push_str(&function(kernel));
    }
    for (kernel, _) in python_autograd::pairs(kernels) {
        let name = name_of(&kernel.manifest);
        let _ = write!(
            text,
            "\n\n{name}.differentiable = _dispatch.differentiable(\"{name}\")\n"
        );
    }
    text
}

fn function(kernel: &Exported) -> String {
    let (manifest, name) = (&kernel.manifest, name_of(&kernel.manifest));
    let Call {
        positional,
        named,
        passed,
    } = Call::of(manifest);
    let list = signature(&positional, &named);
    let passed = [&["stream"], &passed[..]].concat().join(", ");
    let mut compiled = positional.clone();
    if manifest.grid.is_none() {
        compiled.push("_dispatch.counts(grid)".to_owned());
    }
    if manifest.waits_for_previous {
        compiled.push("overlap".to_owned());
    }
    let (arguments, compiled) = (tuple(&positional), tuple(&compiled));
    format!(
        "\n\ndef {name}({list}):\n{}    if _asks_{name} and \"torch._dynamo\" in _modules and _dispatch.is_compiling(\"{name}\"):\n        \
         return _dispatch.enter(\"{name}\", {compiled}, stream)\n    _launch_{name}({arguments}, {passed})\n\n\n\
         {name}.kernel = _native.{name}\n{name}.warm = _native.{name}.warm\n_launch_{name} = _native.{name}.launch\n_asks_{name} = True\n",
        docstring(kernel)
    )
}

/// That of one has a comma.
pub(super) fn tuple(names: &[String]) -> String {
    let comma = if names.len() == 1 { "," } else { "" };
    format!("({}{comma})", names.join(", "))
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

/// `__init__.pyi`: functions that also have the kernel and `warm`.
fn stubs(kernels: &[Exported]) -> String {
    let mut text = String::from(
        "from typing import Any, Protocol\n\nfrom ._native import Kernel\nfrom ._types import Grid as Grid, Stream as Stream, Tensor as Tensor\n",
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
        let (name, list) = (name_of(&kernel.manifest), signature(&typed, &named));
        let differentiable = if kernel.backward.is_some() {
            "    def differentiable(self, *inputs: Any) -> Any: ...\n"
        } else {
            ""
        };
        let _ = write!(
            text,
            "\nclass _{name}(Protocol):\n    @property\n    def kernel(self) -> Kernel: ...\n    \
             def warm(self, device: int = 0) -> None: ...\n{differentiable}    def __call__(self, {list}) -> None: ...\n\n{name}: _{name}\n"
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
    for name in kernels.iter().map(|kernel| name_of(&kernel.manifest)) {
        let _ = writeln!(text, "{name}: Kernel");
    }
    text
}
