//! What `build` and `export` write.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file that `build` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Emit {
    /// Tile IR after resolution.
    Ir,
    /// PTX.
    Ptx,
    /// Machine code.
    Cubin,
    /// Machine code, disassembled.
    Sass,
}

impl Emit {
    /// The ending of its file's name.
    pub const fn extension(self) -> &'static str {
        match self {
            Emit::Ir => "ir",
            Emit::Ptx => "ptx",
            Emit::Cubin => "cubin",
            Emit::Sass => "sass",
        }
    }
}

/// The language of an exported package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A package that depends on `tilekit-launch` alone.
    Rust,
    /// C99 and `CMake`.
    C,
    /// A Python package, which maturin makes a wheel of.
    Python,
}

impl Language {
    /// Its name on the command line, and of the folder that is the default.
    pub const fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Python => "python",
        }
    }
}

/// A kernel's text edited by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replace {
    /// Use this PTX for the kernel whose entry it defines.
    Ptx(PathBuf),
    /// Lower this tile IR for the kernel that it names.
    Ir(PathBuf),
    /// Use the compiled kernels again.
    Nothing,
}
