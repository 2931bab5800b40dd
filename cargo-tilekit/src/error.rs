//! Everything that can go wrong before or beside the harness.

use std::path::{Path, PathBuf};

use protocol::Exit;
use protocol::config::ConfigError;
use protocol::{MessageFormat, Remark};

/// The result of a command.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Error {
    /// A message with its exit.
    Message(Exit, Box<Remark>),
    /// A mistake in a configuration file.
    Config(Box<ConfigError>),
    /// Cargo has said what is wrong.
    Said(Exit),
}

impl Error {
    /// An error that ends the tool with `exit`.
    pub(crate) fn new(exit: Exit, remark: Remark) -> Error {
        Error::Message(exit, Box::new(remark))
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Error {
        Error::new(Exit::Usage, Remark::error(message).with_help(help))
    }

    /// A file or folder that could not be read or written.
    pub(crate) fn io(what: &str, path: &Path, error: &std::io::Error) -> Error {
        let message = format!("{} cannot be {what}: {error}", path.display());
        Error::new(Exit::Internal, Remark::error(message))
    }

    /// A program that could not be started.
    pub(crate) fn spawn(exit: Exit, program: impl Into<PathBuf>, error: &std::io::Error) -> Error {
        let program: PathBuf = program.into();
        let message = format!("`{}` cannot be started: {error}", program.display());
        Error::new(exit, Remark::error(message))
    }

    /// What the tool ends with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Error::Message(exit, _) | Error::Said(exit) => *exit,
            Error::Config(_) => Exit::Usage,
        }
    }

    /// The whole text; it ends in a newline unless it is empty.
    pub(crate) fn render(&self, format: MessageFormat, color: bool) -> String {
        match self {
            Error::Message(_, remark) => remark.render(format, color),
            Error::Config(error) => error.render(format, color),
            Error::Said(_) => String::new(),
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Error {
        Error::Config(Box::new(error))
    }
}
