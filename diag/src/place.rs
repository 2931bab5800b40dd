//! A place in the author's source.

use std::fmt;
use std::sync::Arc;

/// A place by value: what a diagnostic carries beyond the life of its function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The source file, as the compiler named it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The device-function calls around it, innermost first.
    pub calls: Vec<Call>,
}

/// One call in the chain of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The device function called.
    pub function: Arc<str>,
    /// File of the call.
    pub file: Arc<str>,
    /// Line of the call, from 1.
    pub line: u32,
    /// Column of the call, from 1.
    pub column: u32,
}

impl Place {
    /// The calls, innermost first, each once: a function that calls itself does so at one place.
    pub fn distinct_calls(&self) -> Vec<&Call> {
        let mut calls: Vec<&Call> = Vec::new();
        for call in &self.calls {
            if !calls.contains(&call) {
                calls.push(call);
            }
        }
        calls
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        for call in self.distinct_calls() {
            let Call {
                function,
                file,
                line,
                column,
            } = call;
            write!(f, " in {function} called at {file}:{line}:{column}")?;
        }
        Ok(())
    }
}
