//! What `inspect` shows.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What `inspect` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The tile IR at a stage: `built`, `resolved` or `allocated`.
    Stage(String),
    /// The tile IR after the pass of this name.
    After(String),
    /// The PTX.
    Ptx,
    /// The machine code, disassembled.
    Sass,
    /// The author's lines with costs, and beneath each what was made of it.
    Source(SourceView),
    /// The same as a page of HTML, written to this file.
    Page(PathBuf),
}

/// How the author's lines are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceView {
    /// What is shown beneath each line.
    pub beneath: Vec<Beneath>,
    /// The only line that is shown.
    pub at: Option<SourceLine>,
    /// Letters that a line of the terminal has room for.
    pub width: Option<usize>,
}

/// A form of a kernel that stands beneath a source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beneath {
    /// Tile IR from which PTX is emitted.
    Ir,
    /// PTX.
    Ptx,
    /// Machine code.
    Sass,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// The end of the file's name; without, a line of any file.
    pub file: Option<String>,
    /// Its number, from 1.
    pub line: u32,
}

impl FromStr for SourceLine {
    type Err = String;

    /// `12` or `src/lib.rs:12`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) => (Some(file.to_string()), line),
            None => (None, text),
        };
        let number = line.parse().ok().filter(|line| *line > 0);
        let is_named = file.as_ref().is_none_or(|file| !file.is_empty());
        number
            .filter(|_| is_named)
            .map(|line| SourceLine { file, line })
            .ok_or_else(|| format!("`{text}` is no line: write 12 or src/lib.rs:12"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_refused_with_their_form() {
        let line = |file: Option<&str>, line| {
            Ok(SourceLine {
                file: file.map(str::to_string),
                line,
            })
        };
        assert_eq!("12".parse(), line(None, 12));
        assert_eq!("src/lib.rs:9".parse(), line(Some("src/lib.rs"), 9));
        for text in ["", "0", ":3", "a", "a:b", "src/lib.rs"] {
            let found = text.parse::<SourceLine>();
            assert!(
                found.is_err_and(|error| error.contains("write 12")),
                "{text}"
            );
        }
    }
}
