//! Errors in the words of clap and cargo, as messages of our own: with JSON, machines read these too.

use std::process::{Command, Stdio};

use protocol::Exit;
use protocol::{MessageFormat, Remark};

use crate::error::{Error, Result};

/// What clap has against the command line.
pub(crate) fn clap_remark(error: &clap::Error) -> Remark {
    let text = error.to_string();
    let mut paragraphs = paragraphs(&text);
    let first = paragraphs.next().unwrap_or_default();
    let message: Vec<&str> = first.lines().map(str::trim).collect();
    let mut remark = Remark::error(without_level(&message.join(" ")));
    for paragraph in paragraphs {
        remark = match paragraph.strip_prefix("tip: ") {
            Some(tip) => remark.with_note(tip),
            None if paragraph.starts_with("For more information") => remark,
            None => remark.with_note(paragraph),
        };
    }
    remark.with_help("`cargo tilekit VERB --help` lists what can be written")
}

/// Runs `cargo VERB` to its end and returns what it printed.
///
/// # Errors
/// `exit`: cargo has shown why it failed, or the error says it where a machine listens.
pub(crate) fn run_cargo(
    command: &mut Command,
    verb: &str,
    exit: Exit,
    format: MessageFormat,
) -> Result<Vec<u8>> {
    let is_json = format == MessageFormat::Json;
    if !is_json {
        command.stderr(Stdio::inherit());
    }
    let output = command
        .output()
        .map_err(|error| Error::spawn(exit, command.get_program(), &error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    if !is_json {
        return Err(Error::Said(exit));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(exit, cargo_remark(verb, &said)))
}

/// Why cargo failed, of all that it said.
pub(crate) fn cargo_remark(program: &str, said: &str) -> Remark {
    let said = anstream::adapter::strip_str(said).to_string();
    // What comes before is progress.
    let begin = said
        .starts_with("error")
        .then_some(0)
        .or_else(|| said.find("\nerror").map(|at| at + 1));
    let Some(begin) = begin else {
        let remark = Remark::error(format!("`{program}` failed"));
        return paragraphs(&said).fold(remark, Remark::with_note);
    };
    let (first, rest) = said[begin..]
        .split_once('\n')
        .unwrap_or((&said[begin..], ""));
    paragraphs(rest).fold(Remark::error(without_level(first)), Remark::with_note)
}

fn without_level(message: &str) -> &str {
    message.strip_prefix("error: ").unwrap_or(message)
}

fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n")
        .map(str::trim)
        .filter(|paragraph| !paragraph.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_error_is_found_behind_its_progress() {
        let said =
            "    Updating index\nerror: failed to parse manifest\n\nCaused by:\n  missing `name`\n";
        let expected =
            Remark::error("failed to parse manifest").with_note("Caused by:\n  missing `name`");
        assert_eq!(cargo_remark("cargo metadata", said), expected);
    }

    #[test]
    fn a_failure_without_an_error_still_says_something() {
        assert_eq!(
            cargo_remark("cargo metadata", "killed\n"),
            Remark::error("`cargo metadata` failed").with_note("killed")
        );
    }
}
