//! The output of a harness: requested data to standard output, everything else to standard error.

use std::collections::HashSet;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use diag::{Diagnostic, Diagnostics, Severity};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol::expect_written;
use serde_json::Value;

use super::Exit;
use super::exit::exit_of;
use super::request::{ColorChoice, OutputOptions};
use crate::error::Error;
use crate::report::{MessageFormat, Remark, Reporter, Sources, fault_diagnostic};

/// The two streams, with colours and in the form that are wanted.
pub(super) struct Speaker {
    options: OutputOptions,
    reporter: Reporter,
    /// Where requested data goes.
    data: Mutex<File>,
    bar: ProgressBar,
    shown: Mutex<Shown>,
}

/// The diagnostics that were shown.
#[derive(Default)]
struct Shown {
    texts: HashSet<String>,
    errors: usize,
    warnings: usize,
}

impl Speaker {
    /// Writes in the form that `options` select, requested data to `data`, and quotes the author's lines from `sources`.
    pub(super) fn new(options: OutputOptions, sources: Sources, data: File) -> Speaker {
        // What is not wanted of the styles is taken away by the stream.
        let reporter = Reporter {
            format: options.format,
            color: true,
            sources,
        };
        Speaker {
            options,
            reporter,
            data: Mutex::new(data),
            bar: ProgressBar::hidden(),
            shown: Mutex::default(),
        }
    }

    /// Is JSON wanted?
    pub(super) fn is_json(&self) -> bool {
        self.options.format == MessageFormat::Json
    }

    /// The form of messages.
    pub(super) fn format(&self) -> MessageFormat {
        self.options.format
    }

    pub(super) fn is_verbose(&self) -> bool {
        self.options.verbose
    }

    /// Prints requested data for people. A reader that has gone away, such as `head`, is no error; a full disk ends the
    /// program.
    pub(super) fn print(&self, text: &str) {
        self.bar.suspend(|| {
            let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
            let mut stream = anstream::AutoStream::new(&mut *data, self.color());
            let written = stream
                .write_all(text.as_bytes())
                .and_then(|()| stream.flush());
            expect_written(written);
        });
    }

    /// Prints one JSON object.
    pub(super) fn event(&self, object: &Value) {
        self.print(&format!("{object}\n"));
    }

    /// Prints `text` for people, or `object` for machines.
    pub(super) fn tell(&self, text: &str, object: impl FnOnce() -> Value) {
        if self.is_json() {
            self.event(&object());
        } else {
            self.print(text);
        }
    }

    /// Shows what is wrong with a kernel, or may be. What was shown before, for another size or instance of the same
    /// kernel, is not shown again.
    pub(super) fn diagnostics(&self, diagnostics: &Diagnostics) {
        for diagnostic in &diagnostics.0 {
            self.show_once(self.key_of(diagnostic), diagnostic);
        }
    }

    /// How many errors among them are still to be shown.
    pub(super) fn errors_to_show(&self, diagnostics: &Diagnostics) -> usize {
        let errors = diagnostics
            .0
            .iter()
            .filter(|d| d.severity == Severity::Error);
        let keys: HashSet<String> = errors.map(|d| self.key_of(d)).collect();
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter()
            .filter(|&key| !shown.texts.contains(key))
            .count()
    }

    /// What is shown once, whatever instance it is of, as the notes say.
    fn key_of(&self, diagnostic: &Diagnostic) -> String {
        let mut mistake = diagnostic.clone();
        mistake.notes.clear();
        self.reporter.render(&mistake)
    }

    fn show_once(&self, key: String, diagnostic: &Diagnostic) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if !shown.texts.insert(key) {
            return;
        }
        match diagnostic.severity {
            Severity::Error => shown.errors += 1,
            Severity::Warning => shown.warnings += 1,
        }
        let mut text = self.reporter.render(diagnostic);
        if self.format() == MessageFormat::Human {
            // As rustc separates them.
            text.push('\n');
        }
        self.say(&text);
    }

    /// How many diagnostics were shown, such as `2 errors, 1 warning`; none if there were none.
    pub(super) fn diagnostics_shown(&self) -> Option<String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = [(shown.errors, "error"), (shown.warnings, "warning")];
        let words: Vec<String> = counts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| count(number, noun))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Says from time to time that ptxas is still at work, where somebody reads that.
    pub(super) fn watch_ptxas(&self) {
        if self.options.quiet || self.is_json() {
            return;
        }
        machine::ptxas::watch(|taken| {
            let text = format!("ptxas has worked on this kernel for {} s", taken.as_secs());
            eprint!("{}", Remark::note(text).render(MessageFormat::Human, false));
        });
    }

    /// Says something that is no result: left out if quiet is wanted.
    pub(super) fn remark(&self, remark: &Remark) {
        if !self.options.quiet {
            self.say(&remark.render(self.options.format, true));
        }
    }

    /// Says what failed.
    pub(super) fn failure(&self, remark: &Remark) -> Exit {
        self.say(&remark.render(self.options.format, true));
        Exit::Internal
    }

    /// Shows an error with what it was about, and says what it ends the tool with.
    pub(super) fn error(&self, about: &str, error: &Error) -> Exit {
        match error {
            Error::Kernel(diagnostics) => self.diagnostics(diagnostics),
            Error::Fault(fault) => {
                let diagnostic = fault_diagnostic(fault).note(about);
                self.show_once(self.reporter.render(&diagnostic), &diagnostic);
            }
            other => self.say(&remark_of(about, other).render(self.options.format, true)),
        }
        exit_of(error)
    }

    /// Machines read one stream: with JSON, errors are data too.
    pub(super) fn say(&self, text: &str) {
        if self.is_json() {
            return self.print(text);
        }
        self.bar.suspend(|| {
            let mut stream = anstream::AutoStream::new(std::io::stderr(), self.color());
            let _ = stream.write_all(text.as_bytes());
        });
    }

    fn color(&self) -> anstream::ColorChoice {
        match self.options.color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
    }

    /// Shows progress over `total` steps, where somebody watches.
    pub(super) fn begin(&mut self, total: usize) {
        self.begin_as(total, "{spinner} {pos}/{len} {wide_msg}");
    }

    /// The same with the time that is left.
    pub(super) fn begin_long(&mut self, total: usize) {
        self.begin_as(total, "{spinner} {pos}/{len}, {eta} left  {wide_msg}");
    }

    fn begin_as(&mut self, total: usize, template: &str) {
        let is_watched = std::io::stderr().is_terminal() && std::env::var_os("CI").is_none();
        if self.options.quiet || self.is_json() || !is_watched {
            return;
        }
        let style = ProgressStyle::with_template(template);
        self.bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        self.bar
            .set_style(style.expect("a template of known fields"));
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// The next step begins.
    pub(super) fn step(&self, what: &str) {
        self.bar.set_message(what.to_string());
    }

    /// It has ended.
    pub(super) fn stepped(&self) {
        self.bar.inc(1);
    }

    /// All steps have ended.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The first line of an error, with what it was about; its other lines are notes.
fn remark_of(about: &str, error: &Error) -> Remark {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    lines.fold(Remark::error(titled(about, first)), Remark::with_note)
}

/// What happened behind what it happened to, which is not named twice: some errors name their case themselves.
fn titled(about: &str, first: &str) -> String {
    if about.is_empty() {
        return first.to_string();
    }
    let subject = about.split(" at ").next().unwrap_or(about);
    let rest = [about, subject].into_iter().find_map(|known| {
        first
            .strip_prefix(known)
            .filter(|rest| rest.starts_with([' ', ':']))
    });
    match rest {
        Some(rest) => format!("{about}{rest}"),
        None => format!("{about}: {first}"),
    }
}

/// `1 kernel`, `2 kernels`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// What a verb has come to so far: the first failure decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict(Exit);

impl Verdict {
    /// Nothing has failed.
    pub(super) const fn good() -> Verdict {
        Verdict(Exit::Success)
    }

    /// Notes how a step ended.
    pub(super) fn note(&mut self, exit: Exit) {
        if self.0 == Exit::Success {
            self.0 = exit;
        }
    }

    /// How the verb ends.
    pub(super) const fn exit(self) -> Exit {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use diag::Code;

    use super::*;

    #[test]
    fn errors_that_were_shown_are_counted_no_more() {
        let data = tempfile::tempfile().expect("a file");
        let speaker = Speaker::new(OutputOptions::default(), Sources::default(), data);
        let error = |message: &str| Diagnostic::error(Code::ShapeMismatch, None, message);
        let found = Diagnostics(vec![
            error("a").note("while tracing `k<1>`"),
            error("a").note("while tracing `k<2>`"),
            error("b"),
            error("c").warning(),
        ]);
        assert_eq!(speaker.errors_to_show(&found), 2);
        speaker.diagnostics(&found);
        assert_eq!(speaker.errors_to_show(&found), 0);
        assert_eq!(
            speaker.diagnostics_shown().as_deref(),
            Some("2 errors, 1 warning")
        );
    }

    #[test]
    fn what_an_error_is_about_is_named_once() {
        let check = |about: &str, first: &str, expected: &str| {
            assert_eq!(titled(about, first), expected);
        };
        check("", "no driver", "no driver");
        check(
            "case `a` at n=3",
            "out[0] differs",
            "case `a` at n=3: out[0] differs",
        );
        check(
            "case `a` at n=3",
            "case `a` at n=3 has 8 bytes",
            "case `a` at n=3 has 8 bytes",
        );
        check(
            "case `a` at n=3",
            "case `a` compares nothing",
            "case `a` at n=3 compares nothing",
        );
        check(
            "case `a`",
            "case `a` compares nothing",
            "case `a` compares nothing",
        );
        check(
            "case `a` at n=3",
            "case `a`: its space has no candidates",
            "case `a` at n=3: its space has no candidates",
        );
        check(
            "case `a`",
            "case `ab` compares nothing",
            "case `a`: case `ab` compares nothing",
        );
    }
}
