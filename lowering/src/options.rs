//! What the caller of the pipeline may choose.

/// How to lower. None of it changes what the kernel computes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the passes after which the IR is kept as text, or `all`.
    pub print_after: Vec<String>,
    /// Run the verifier after every pass, and not only where a stage begins.
    pub verify_each_pass: bool,
    /// The tracer of this process built the kernel, and has verified it: it is not verified again. IR that was read from text is.
    pub is_traced: bool,
    /// Run the passes that only make the kernel cheaper.
    pub optimises: bool,
    /// Emit `.loc` lines, so that tools and reports find the author's lines.
    pub emits_locations: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            print_after: Vec::new(),
            verify_each_pass: cfg!(debug_assertions),
            is_traced: false,
            optimises: true,
            emits_locations: true,
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
