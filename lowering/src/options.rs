//! What the caller of the pipeline may choose.

use crate::trace::TraceOptions;

/// Where a kernel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the tracer of this process, which has verified it: it is not verified again.
    Tracer,
    /// From text, which anybody may have edited.
    Text,
}

/// How to lower. None of it changes what the kernel computes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the passes after which the IR is kept as text, or `all`.
    pub print_after: Vec<String>,
    /// Run the verifier after every pass, and not only where a stage begins.
    pub verify_each_pass: bool,
    /// Where the kernel comes from.
    pub source: Source,
    /// Run the passes that only make the kernel cheaper.
    pub optimises: bool,
    /// Emit `.loc` lines, so that tools and reports find the author's lines.
    pub emits_locations: bool,
    /// Make the kernel record what happens when; it takes the buffer for that as one parameter more.
    pub trace: Option<TraceOptions>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            print_after: Vec::new(),
            verify_each_pass: cfg!(debug_assertions),
            source: Source::Text,
            optimises: true,
            emits_locations: true,
            trace: None,
        }
    }
}

impl Options {
    /// Is the IR to be kept after the pass of this name?
    pub(crate) fn prints_after(&self, pass: &str) -> bool {
        self.print_after
            .iter()
            .any(|name| name == pass || name == "all")
    }
}
