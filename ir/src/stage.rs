//! Stages of a function, and what holds in each.

use std::fmt;
use std::str::FromStr;

/// What the verifier guarantees of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// As traced: types fit, values are used in scope, every region is ended. Layouts may be open.
    #[default]
    Built,
    /// Every layout is concrete and fits its shape and the number of warps; no `set_layout` is left.
    Resolved,
    /// Shared memory, barriers and warps are planned: emission cannot fail because of what the author wrote.
    Allocated,
}

impl Stage {
    /// The word in the text form and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Built => "built",
            Stage::Resolved => "resolved",
            Stage::Allocated => "allocated",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stage {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [Stage::Built, Stage::Resolved, Stage::Allocated]
            .into_iter()
            .find(|s| s.name() == text)
            .ok_or_else(|| format!("`{text}` is no stage: built, resolved or allocated"))
    }
}
