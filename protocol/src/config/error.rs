//! A mistake in a configuration, at its place in the file.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::MessageFormat;
use crate::near::nearest;
use crate::rustc_json::{InFile, render_in_file};

/// A mistake in a configuration, rendered with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    text: String,
    span: Range<usize>,
    said: Box<Said>,
}

/// What is said at the place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    title: String,
    notes: Vec<String>,
    help: Option<String>,
}

impl ConfigError {
    /// A mistake in a text; behind `, expected ` the message has the help.
    pub(super) fn of(
        file: &Path,
        text: String,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> ConfigError {
        let message = message.into();
        let (title, help) = match message.split_once(", expected ") {
            Some((title, expected)) => (title.to_string(), Some(help(title, expected))),
            None => (message, None),
        };
        ConfigError {
            file: file.to_path_buf(),
            text,
            span,
            said: Box::new(Said {
                title,
                notes: Vec::new(),
                help,
            }),
        }
    }

    /// A mistake at these bytes of a file.
    pub fn at(file: &Path, span: Range<usize>, message: impl Into<String>) -> ConfigError {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The file may have changed since it was read.
        let span = if text.get(span.clone()).is_some() {
            span
        } else {
            0..0
        };
        ConfigError::of(file, text, span, message)
    }

    /// With a fact below it.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> ConfigError {
        self.said.notes.push(note.into());
        self
    }

    /// With a help.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> ConfigError {
        self.said.help = Some(help.into());
        self
    }

    /// The whole text; it ends in a newline.
    pub fn render(&self, format: MessageFormat, color: bool) -> String {
        match format {
            MessageFormat::Human => self.human(color),
            MessageFormat::Short => self.short(),
            MessageFormat::Json => {
                let at = InFile {
                    file: &self.file.display().to_string(),
                    text: &self.text,
                    range: self.span.clone(),
                };
                render_in_file(
                    (
                        &self.said.title,
                        &self.said.notes,
                        self.said.help.as_deref(),
                    ),
                    &at,
                    self.human(false),
                )
            }
        }
    }

    fn short(&self) -> String {
        let line = self.text[..self.span.start].matches('\n').count() + 1;
        let (file, title) = (self.file.display(), &self.said.title);
        format!("{file}:{line}: error: {title}\n")
    }

    fn human(&self, color: bool) -> String {
        let snippet = Snippet::source(self.text.as_str())
            .path(self.file.display().to_string())
            .annotation(AnnotationKind::Primary.span(self.span.clone()));
        let notes = self.said.notes.iter().map(|note| Level::NOTE.message(note));
        let help = self.said.help.iter().map(|help| Level::HELP.message(help));
        let group = Level::ERROR
            .primary_title(self.said.title.as_str())
            .element(snippet)
            .elements(notes.chain(help));
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group]) + "\n"
    }
}

/// What was expected, and first the name that was probably meant.
fn help(title: &str, expected: &str) -> String {
    let quoted = |text: &'_ str| -> Vec<String> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let (wrong, names) = (quoted(title), quoted(expected));
    let meant = wrong
        .first()
        .and_then(|wrong| nearest(wrong, names.iter().map(String::as_str)));
    match meant {
        Some(meant) if names.len() > 1 => format!("perhaps `{meant}`; expected {expected}"),
        _ => format!("expected {expected}"),
    }
}
