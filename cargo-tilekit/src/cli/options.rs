//! Options of every verb: which package, how it is compiled, and what is printed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use protocol::MessageFormat;

/// Which package, and how it is compiled.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of cargo's own"
)]
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Package")]
pub(crate) struct CargoOptions {
    /// The package with the kernels [default: that of the current folder]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) package: Option<String>,
    /// Path to its Cargo.toml
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Features to turn on, separated by commas
    #[arg(short = 'F', long, global = true, value_name = "FEATURES")]
    pub(crate) features: Vec<String>,
    /// Turn all features on
    #[arg(long, global = true)]
    pub(crate) all_features: bool,
    /// Leave the default features off
    #[arg(long, global = true)]
    pub(crate) no_default_features: bool,
    /// Cargo profile of the package [default: dev; release for `bench`, `mutate`, `tune` and `build --timings`]
    #[arg(
        long,
        global = true,
        value_name = "PROFILE",
        conflicts_with = "release"
    )]
    pub(crate) profile: Option<String>,
    /// The same as `--profile release`
    #[arg(short, long, global = true)]
    pub(crate) release: bool,
    /// Folder of build outputs
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) target_dir: Option<PathBuf>,
    /// Refuse to change Cargo.lock
    #[arg(long, global = true)]
    pub(crate) locked: bool,
    /// Never use the network
    #[arg(long, global = true)]
    pub(crate) offline: bool,
    /// Settings of cargo's configuration, none of the command line.
    #[arg(skip)]
    pub(crate) settings: Vec<String>,
}

/// Options of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Print results and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more progress
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// When to colour [default: as cargo, else auto]
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<Color>,
    /// Form of results and diagnostics; json is one object a line, diagnostics in rustc's schema
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(crate) message_format: Format,
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// `--message-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Human,
    Short,
    Json,
}

impl OutputOptions {
    /// Options that determine how errors in the rest of the command line are reported.
    pub(crate) fn of_wrong_line(arguments: impl Iterator<Item = OsString>) -> OutputOptions {
        let arguments: Vec<String> = arguments
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        let joined = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix("--message-format="));
        let apart = arguments
            .windows(2)
            .filter(|pair| pair[0] == "--message-format")
            .map(|pair| pair[1].as_str());
        let format = joined
            .chain(apart)
            .find_map(|word| Format::from_str(word, false).ok());
        OutputOptions {
            message_format: format.unwrap_or_default(),
            ..OutputOptions::default()
        }
    }
}

impl CargoOptions {
    /// The profile that the package is compiled with, if the command line names one.
    pub(crate) fn named_profile(&self) -> Option<&str> {
        if self.release {
            return Some("release");
        }
        self.profile.as_deref()
    }
}

impl From<Format> for MessageFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Human => MessageFormat::Human,
            Format::Short => MessageFormat::Short,
            Format::Json => MessageFormat::Json,
        }
    }
}
