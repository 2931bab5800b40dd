//! A mistake in a configuration, at its place in the file.

use std::ops::Range;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::MessageFormat;
use crate::rustc_json::{InFile, render_in_file};

/// A mistake in a configuration, rendered with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) file: PathBuf,
    pub(super) text: String,
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

impl ConfigError {
    /// The whole text; it ends in a newline.
    pub fn render(&self, format: MessageFormat, color: bool) -> String {
        match format {
            MessageFormat::Human => self.human(color),
            MessageFormat::Short => self.short(),
            MessageFormat::Json => {
                let (title, help) = self.title_and_help();
                let at = InFile {
                    file: &self.file.display().to_string(),
                    text: &self.text,
                    range: self.span.clone(),
                };
                render_in_file(title, help.as_deref(), &at, self.human(false))
            }
        }
    }

    fn title_and_help(&self) -> (&str, Option<String>) {
        match self.message.split_once(", expected ") {
            Some((title, expected)) => (title, Some(format!("expected {expected}"))),
            None => (self.message.as_str(), None),
        }
    }

    fn short(&self) -> String {
        let line = self.text[..self.span.start].matches('\n').count() + 1;
        let (file, (title, _)) = (self.file.display(), self.title_and_help());
        format!("{file}:{line}: error: {title}\n")
    }

    fn human(&self, color: bool) -> String {
        let snippet = Snippet::source(self.text.as_str())
            .path(self.file.display().to_string())
            .annotation(AnnotationKind::Primary.span(self.span.clone()));
        let (title, help) = self.title_and_help();
        let mut group = Level::ERROR.primary_title(title).element(snippet);
        if let Some(help) = help {
            group = group.element(Level::HELP.message(help));
        }
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group]) + "\n"
    }
}
