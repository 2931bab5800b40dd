//! Where text goes: requested data to standard output, everything else to standard error.

use std::io::Write;

use protocol::request::{self, ColorChoice};
use protocol::{MessageFormat, Remark};

use crate::cli::{Color, OutputOptions};
use crate::error::Error;

/// The two streams, with colours where they are wanted.
pub(crate) struct Terminal {
    color: ColorChoice,
    format: MessageFormat,
    quiet: bool,
    verbose: bool,
}

impl Terminal {
    /// What the options ask for.
    pub(crate) fn new(options: OutputOptions) -> Terminal {
        let environment = std::env::var("CARGO_TERM_COLOR").ok();
        Terminal {
            color: color_choice(options.color, environment.as_deref()),
            format: options.message_format.into(),
            quiet: options.quiet,
            verbose: options.verbose,
        }
    }

    /// The same for a harness.
    pub(crate) fn for_harness(&self) -> request::OutputOptions {
        request::OutputOptions {
            format: self.format,
            color: self.color,
            quiet: self.quiet,
            verbose: self.verbose,
        }
    }

    /// For cargo's own messages.
    pub(crate) fn color_flag(&self) -> &'static str {
        match self.color {
            ColorChoice::Auto => "auto",
            ColorChoice::Always => "always",
            ColorChoice::Never => "never",
        }
    }

    pub(crate) fn format(&self) -> MessageFormat {
        self.format
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The letters that a line of standard output has room for: what `COLUMNS` says, else the width of the terminal; any number in a
    /// file or a pipe.
    pub(crate) fn width() -> Option<usize> {
        let said = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok());
        let measured = || {
            let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
            Some(usize::from(size.ws_col))
        };
        said.or_else(measured).filter(|width| *width > 0)
    }

    /// Prints requested data. A reader that has gone away, such as `head`, is no error; a full disk ends the program.
    pub(crate) fn print(&self, text: &str) {
        let mut stream = anstream::AutoStream::new(std::io::stdout(), self.anstream());
        let written = stream
            .write_all(text.as_bytes())
            .and_then(|()| stream.flush());
        protocol::expect_written(written);
    }

    /// Prints `text` for people, or `object` for machines.
    pub(crate) fn tell(&self, text: &str, object: impl FnOnce() -> serde_json::Value) {
        if self.format == MessageFormat::Json {
            self.print(&format!("{}\n", object()));
        } else {
            self.print(text);
        }
    }

    /// Says something of the tool itself.
    pub(crate) fn remark(&self, remark: &Remark) {
        if !self.quiet {
            self.say(&remark.render(self.format, true));
        }
    }

    /// Says why the tool ends.
    pub(crate) fn error(&self, error: &Error) {
        self.say(&error.render(self.format, true));
    }

    /// Passes on what a harness has said as JSON: all of it to machines, to people the diagnostics in it.
    pub(crate) fn pass_on(&self, said: &str) {
        if self.format == MessageFormat::Json {
            return self.print(said);
        }
        let objects = said.lines().map(serde_json::from_str::<serde_json::Value>);
        for object in objects.filter_map(Result::ok) {
            let of = |key: &str| object[key].as_str().unwrap_or_default();
            if of("$message_type") != "diagnostic" {
                continue;
            }
            if self.format == MessageFormat::Short {
                self.say(&format!("{}: {}\n", of("level"), of("message")));
            } else {
                self.say(of("rendered"));
            }
        }
    }

    /// Machines read one stream: with JSON, errors are data too.
    fn say(&self, text: &str) {
        if self.format == MessageFormat::Json {
            self.print(text);
        } else {
            let mut stream = anstream::AutoStream::new(std::io::stderr(), self.anstream());
            let _ = stream.write_all(text.as_bytes());
        }
    }

    fn anstream(&self) -> anstream::ColorChoice {
        match self.color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
    }
}

/// The flag, else the setting of cargo for its own messages. `NO_COLOR` and `CLICOLOR_FORCE` decide what is left to auto.
fn color_choice(flag: Option<Color>, cargo: Option<&str>) -> ColorChoice {
    match (flag, cargo) {
        (Some(Color::Always), _) | (None, Some("always")) => ColorChoice::Always,
        (Some(Color::Never), _) | (None, Some("never")) => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_outweighs_the_environment() {
        for (flag, cargo, expected) in [
            (None, None, ColorChoice::Auto),
            (None, Some("never"), ColorChoice::Never),
            (Some(Color::Always), Some("never"), ColorChoice::Always),
            (Some(Color::Auto), Some("never"), ColorChoice::Auto),
            (None, Some("sometimes"), ColorChoice::Auto),
        ] {
            assert_eq!(color_choice(flag, cargo), expected);
        }
    }
}
