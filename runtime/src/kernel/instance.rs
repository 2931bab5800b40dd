//! Kernels without their types.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use diag::Diagnostics;
use gluon_lang::lang::{KernelFn, Traced};
use gluon_lang::rt::{KernelEntry, KernelInstance};

/// A kernel without its types: what can be listed, compiled and shown.
#[derive(Clone)]
pub struct Instance {
    trace: Arc<dyn Fn() -> Result<Traced, Diagnostics> + Send + Sync>,
    type_name: Cow<'static, str>,
}

impl Instance {
    /// That of a kernel function.
    pub fn of<H, K: KernelFn<H> + Send + Sync + 'static>(kernel: K) -> Instance {
        Instance {
            type_name: kernel.path(),
            trace: Arc::new(move || kernel.trace()),
        }
    }

    /// Runs the function once and records what it does.
    ///
    /// # Errors
    /// What is wrong with the kernel.
    pub fn trace(&self) -> Result<Traced, Diagnostics> {
        (self.trace)()
    }

    /// The function's full path with its compile-time parameters, as rustc writes it: unique in the program. For people
    /// there is [`display`](Self::display).
    pub fn path(&self) -> &str {
        &self.type_name
    }

    /// Its name with its compile-time parameters, for people: `vector_add<1024>`.
    pub fn display(&self) -> String {
        display_of(&self.type_name)
    }
}

/// `vector_add<1024>` of `examples::vector_add::vector_add<1024>`: names without their modules. One pass over bytes: each command writes
/// the names of all that a package launches, also where nothing is optimised.
pub(crate) fn display_of(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut text = String::with_capacity(path.len());
    let (mut name, mut at) = (0, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b':' {
            name = at + 1;
        } else if !(byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()) {
            text.push_str(&path[name..at]);
            match byte {
                b' ' => {}
                b',' => text.push_str(", "),
                other => text.push(char::from(other)),
            }
            name = at + 1;
        }
        at += 1;
    }
    text.push_str(&path[name..]);
    text
}

impl Instance {
    /// That of an instance which the kernel's attribute declares.
    pub(crate) fn declared(entry: &KernelEntry, instance: &KernelInstance) -> Instance {
        let arguments = instance.arguments;
        let path = format!("{}::{}", entry.module, entry.name);
        let path = if arguments.is_empty() {
            path
        } else {
            format!("{path}<{arguments}>")
        };
        let trace = instance.trace;
        Instance {
            trace: Arc::new(trace),
            type_name: path.into(),
        }
    }
}

impl PartialEq for Instance {
    fn eq(&self, other: &Instance) -> bool {
        self.type_name == other.type_name
    }
}

impl Eq for Instance {}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({})", self.type_name)
    }
}

#[cfg(test)]
mod tests {
    use super::display_of;

    #[test]
    fn paths_of_functions_are_shortened() {
        for (path, expected) in [
            ("examples::vector_add::vector_add<1024>", "vector_add<1024>"),
            (
                "a::softmax<half::bfloat::bf16, 4096>",
                "softmax<bf16, 4096>",
            ),
            ("a::k<a::Pair<f32,a::b::C>,8>", "k<Pair<f32, C>, 8>"),
            ("a::plain", "plain"),
        ] {
            assert_eq!(display_of(path), expected);
        }
    }
}
