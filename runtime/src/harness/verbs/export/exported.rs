//! What is exported, before it is written in a language.

use launch::Manifest;

/// A kernel as every language gets it.
pub(super) struct Exported {
    pub(super) manifest: Manifest,
    /// The manifest as JSON.
    pub(super) text: String,
    pub(super) cubin: Vec<u8>,
    pub(super) ptx: String,
    /// What its author says of it.
    pub(super) docs: &'static str,
    /// The name of the kernel of its gradients.
    pub(super) backward: Option<String>,
}

/// A file of the package: its path in it, and what it holds.
pub(super) type File = (String, Vec<u8>);
