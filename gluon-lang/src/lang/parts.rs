//! The parameters that one parameter of a signature is: one for each element of an array and for each field of a struct.

/// What every launch promises of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// The divisor promised, where it is not the usual one: bytes for a pointer's address.
    pub divisor: Option<u32>,
    /// `#[readonly]`: nothing is stored there while the kernel runs.
    pub is_readonly: bool,
}

/// One parameter of a kernel in IR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The author's names from the parameter of the signature on: `["source", "pitch"]`, `["strides", "0"]`.
    pub(super) path: Vec<String>,
    pub(super) promises: Promises,
}

impl Part {
    /// The parameter or field that the author writes promises at: elements of arrays have none of their own.
    pub(super) fn written(&self) -> String {
        let is_index = |name: &&String| name.bytes().all(|digit| digit.is_ascii_digit());
        let indices = self.path.iter().rev().take_while(is_index).count();
        self.path[..self.path.len() - indices].join(".")
    }
}

/// The parameters that those of a signature are, in order.
#[derive(Debug, Default)]
pub struct Parts {
    path: Vec<String>,
    promises: Promises,
    all: Vec<Part>,
}

impl Parts {
    /// The parameter at hand is one.
    pub fn add(&mut self) {
        self.all.push(Part {
            path: self.path.clone(),
            promises: self.promises,
        });
    }

    /// The parameters of an element or field of this name. What is promised of an array is promised of each element.
    pub fn within(&mut self, name: &str, parts: impl FnOnce(&mut Parts)) {
        self.path.push(name.to_owned());
        parts(self);
        self.path.pop();
    }

    /// The parameters of a field of which something is promised.
    pub fn promised(&mut self, promises: Promises, parts: impl FnOnce(&mut Parts)) {
        let outer = std::mem::replace(&mut self.promises, promises);
        parts(self);
        self.promises = outer;
    }

    pub(super) fn all(self) -> Vec<Part> {
        self.all
    }
}
