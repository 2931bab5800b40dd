//! `tilekit.toml` and `[package.metadata.tilekit]`: what a package says once instead of on every command line.
//!
//! `[package.metadata.tilekit]` < `tilekit.toml` < environment (`TILEKIT_DEVICE`, `TILEKIT_SIZES`) < command line. An
//! unknown key is an error at its place, because an ignored misspelling would have no effect.

mod error;
mod limits;
mod value;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::request::{DeviceChoice, SizeOverride};

pub use error::ConfigError;
pub use limits::{KernelLimits, Limit, Quantity, with_limits};
pub use value::Values;

/// What a package's configuration says; what is unsaid has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// What kernels run on.
    #[serde(default, deserialize_with = "value::device")]
    pub device: Option<DeviceChoice>,
    /// The folder of the snapshots, relative to the package.
    #[serde(default, deserialize_with = "value::folder")]
    pub snapshots: Option<PathBuf>,
    /// The most tensors that a case may have on the emulator, MiB, unless its sizes are chosen on the command line.
    #[serde(default, deserialize_with = "value::mib")]
    pub emulator_tensor_mib: Option<usize>,
    /// Sizes by name, for every case that has a size of this name.
    #[serde(default)]
    pub sizes: BTreeMap<String, Values>,
    /// What holds for one case only, by the case's name.
    #[serde(default)]
    pub cases: BTreeMap<String, CaseConfig>,
    /// The most that kernels may cost, by the name of a kernel or of a variant.
    #[serde(default, deserialize_with = "limits::tables")]
    pub limits: BTreeMap<String, KernelLimits>,
}

/// What holds for one case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseConfig {
    /// Its sizes by name.
    #[serde(default)]
    pub sizes: BTreeMap<String, Values>,
}

/// The part of a `Cargo.toml` that concerns us.
#[derive(Deserialize)]
struct Manifest {
    package: Option<ManifestPackage>,
}

#[derive(Deserialize)]
struct ManifestPackage {
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    tilekit: Option<Config>,
}

impl Config {
    /// What the package in `root` says in both its files.
    ///
    /// # Errors
    /// A file that is no TOML, an unknown key, or a value of the wrong kind, at its place.
    pub fn of_package(root: &Path) -> Result<Config, ConfigError> {
        let base = match read(&root.join("Cargo.toml"))? {
            Some((file, text)) => parse::<Manifest>(&file, &text)?
                .package
                .and_then(|package| package.metadata?.tilekit)
                .unwrap_or_default()
                .of_file(&file),
            None => Config::default(),
        };
        match read(&root.join("tilekit.toml"))? {
            Some((file, text)) => Ok(base.overlaid(Config::of_text(&file, &text)?)),
            None => Ok(base),
        }
    }

    /// What the text of a `tilekit.toml` says; `file` names it in mistakes.
    ///
    /// # Errors
    /// A text that is no TOML, an unknown key, or a value of the wrong kind, at its place.
    pub fn of_text(file: &Path, text: &str) -> Result<Config, ConfigError> {
        Ok(parse::<Config>(file, text)?.of_file(file))
    }

    /// The same, whose limits say which file they stand in.
    fn of_file(mut self, file: &Path) -> Config {
        for limits in self.limits.values_mut() {
            limits.are_of(file);
        }
        self
    }

    /// `self` where `other` says nothing.
    fn overlaid(mut self, other: Config) -> Config {
        self.device = other.device.or(self.device);
        self.emulator_tensor_mib = other.emulator_tensor_mib.or(self.emulator_tensor_mib);
        self.snapshots = other.snapshots.or(self.snapshots);
        self.sizes.extend(other.sizes);
        for (name, case) in other.cases {
            self.cases.entry(name).or_default().sizes.extend(case.sizes);
        }
        for (name, limits) in other.limits {
            let base = self.limits.remove(&name).unwrap_or_default();
            self.limits.insert(name, base.overlaid(limits));
        }
        self
    }

    /// The sizes for a case whose sizes are called `known`, the weightier last; `env` and then `flags` outweigh files.
    ///
    /// General sizes are for the cases that have them. What is said for this case or on the command line is passed on
    /// even if the case has no such size, for that is a mistake.
    pub fn sizes_of(
        &self,
        case: &str,
        known: &[&str],
        env: &[SizeOverride],
        flags: &[SizeOverride],
    ) -> Vec<(String, Vec<usize>)> {
        let of_map = |map: &BTreeMap<String, Values>| -> Vec<(String, Vec<usize>)> {
            map.iter()
                .map(|(name, values)| (name.clone(), values.to_vec()))
                .collect()
        };
        let of_list = |list: &[SizeOverride]| -> Vec<(String, Vec<usize>)> {
            list.iter()
                .map(|size| (size.name.clone(), size.values.clone()))
                .collect()
        };
        let is_known = |(name, _): &(String, Vec<usize>)| known.contains(&name.as_str());
        let mut sizes: Vec<_> = of_map(&self.sizes).into_iter().filter(is_known).collect();
        sizes.extend(
            self.cases
                .get(case)
                .map(|case| of_map(&case.sizes))
                .unwrap_or_default(),
        );
        sizes.extend(of_list(env).into_iter().filter(is_known));
        sizes.extend(of_list(flags));
        sizes
    }
}

/// A file and its text; `None` where there is none.
fn read(path: &Path) -> Result<Option<(PathBuf, String)>, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some((path.to_path_buf(), text))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::of(
            path,
            String::new(),
            0..0,
            format!("this file cannot be read: {error}"),
        )),
    }
}

fn parse<T: for<'de> Deserialize<'de>>(file: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        ConfigError::of(file, text.to_string(), span, error.message())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageFormat;

    fn package(
        manifest: &str,
        config: Option<&str>,
    ) -> (tempfile::TempDir, Result<Config, ConfigError>) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
        if let Some(config) = config {
            fs::write(folder.path().join("tilekit.toml"), config).expect("a file");
        }
        let found = Config::of_package(folder.path());
        (folder, found)
    }

    #[track_caller]
    fn check_error(manifest: &str, config: Option<&str>, expected: &str) {
        let (folder, found) = package(manifest, config);
        let text = found
            .expect_err("a mistake")
            .render(MessageFormat::Human, false);
        let text = text.replace(&format!("{}/", folder.path().display()), "");
        assert_eq!(text, expected);
    }

    const PLAIN: &str = "[package]\nname = \"mine\"\n";

    #[test]
    fn the_file_overrides_the_manifest_and_the_command_line_overrides_both() {
        let manifest = "[package]\nname = \"mine\"\n[package.metadata.tilekit]\ndevice = \"cuda\"\nsizes = { n = 8, m = 3 }\n";
        let (_folder, config) = package(
            manifest,
            Some("sizes.n = [1, 2]\n[cases.add.sizes]\nm = 5\n"),
        );
        let config = config.expect("a configuration");
        assert_eq!(config.device, Some(DeviceChoice::Cuda));
        let sizes = |flags: &[SizeOverride]| {
            let sizes = config.sizes_of("add", &["n", "m"], &[], flags);
            let last = |name: &str| {
                sizes
                    .iter()
                    .rev()
                    .find(|size| size.0 == name)
                    .map(|size| size.1.clone())
            };
            (last("n"), last("m"))
        };
        assert_eq!(sizes(&[]), (Some(vec![1, 2]), Some(vec![5])));
        assert_eq!(
            sizes(&["m=9".parse().expect("a size")]),
            (Some(vec![1, 2]), Some(vec![9]))
        );
        assert_eq!(config.sizes_of("other", &["k"], &[], &[]), []);
    }

    #[test]
    fn unknown_keys_are_errors_at_their_place() {
        check_error(
            PLAIN,
            Some("device = \"emulator\"\nsize = 3\n"),
            "\
error: unknown field `size`
 --> tilekit.toml:2:1
  |
2 | size = 3
  | ^^^^
  |
  = help: perhaps `sizes`; expected one of `device`, `snapshots`, `emulator-tensor-mib`, `sizes`, `cases`, `limits`
",
        );
        check_error(
            "[package]\nname = \"mine\"\n\n[package.metadata.tilekit]\ndevise = 1\n",
            None,
            "\
error: unknown field `devise`
 --> Cargo.toml:5:1
  |
5 | devise = 1
  | ^^^^^^
  |
  = help: perhaps `device`; expected one of `device`, `snapshots`, `emulator-tensor-mib`, `sizes`, `cases`, `limits`
",
        );
    }

    #[test]
    fn wrong_values_are_errors_that_name_the_expected_form() {
        check_error(
            PLAIN,
            Some("device = \"gpu\"\n"),
            "\
error: `gpu` is no device
 --> tilekit.toml:1:10
  |
1 | device = \"gpu\"
  |          ^^^^^
  |
  = help: expected one of `auto`, `cuda`, `emulator`
",
        );
        check_error(
            PLAIN,
            Some("device = 3\n"),
            "\
error: invalid type: integer `3`
 --> tilekit.toml:1:10
  |
1 | device = 3
  |          ^
  |
  = help: expected one of `auto`, `cuda`, `emulator`
",
        );
        check_error(
            PLAIN,
            Some("emulator-tensor-mib = 0.5\n"),
            "\
error: `0.5` is no size
 --> tilekit.toml:1:23
  |
1 | emulator-tensor-mib = 0.5
  |                       ^^^
  |
  = help: expected a whole number of MiB, such as 64
",
        );
        check_error(
            PLAIN,
            Some("emulator-tensor-mib = -1\n"),
            "\
error: `-1` is no size
 --> tilekit.toml:1:23
  |
1 | emulator-tensor-mib = -1
  |                       ^^
  |
  = help: expected a whole number of MiB, such as 64
",
        );
        check_error(
            PLAIN,
            Some("[sizes]\nn = \"big\"\n"),
            "\
error: expected a whole number or a list of them that is not empty
 --> tilekit.toml:2:5
  |
2 | n = \"big\"
  |     ^^^^^
",
        );
        check_error(
            PLAIN,
            Some("[sizes]\nn = []\n"),
            "\
error: expected a whole number or a list of them that is not empty
 --> tilekit.toml:2:5
  |
2 | n = []
  |     ^^
",
        );
        check_error(
            PLAIN,
            Some("[sizes\n"),
            "\
error: unclosed table
 --> tilekit.toml:1:7
  |
1 | [sizes
  |       ^
  |
  = help: expected `]`
",
        );
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_not_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tilekit.toml")).expect("a folder in its place");
        let error = Config::of_package(folder.path()).expect_err("a mistake");
        for (format, expected) in [
            (MessageFormat::Human, "tilekit.toml"),
            (
                MessageFormat::Short,
                "tilekit.toml:1: error: this file cannot be read",
            ),
            (MessageFormat::Json, "this file cannot be read"),
        ] {
            let text = error.render(format, false);
            assert!(text.contains(expected), "{text}");
        }
        fs::remove_dir(folder.path().join("tilekit.toml")).expect("removed");
        fs::write(folder.path().join("tilekit.toml"), b"\xff").expect("a file");
        assert!(Config::of_package(folder.path()).is_err());
    }
}
