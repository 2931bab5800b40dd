//! Additions to a `Cargo.toml` that leave the rest of it, comments included, as it is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use protocol::{Exit, Remark};
use toml::{Table, Value};

use crate::error::{Error, Result};

/// So that `cargo test --test tilekit` runs the harness.
const TEST_TARGET: &str = "\n[[test]]\nname = \"tilekit\"\nharness = false\n";

/// In the workspace's `Cargo.toml`; cargo ignores profiles elsewhere.
const PROFILE: &str = "\n# The emulator runs kernels in every test; unoptimised it is fifty times slower.\n\
                       [profile.dev.package.tilekit-emulator]\nopt-level = 3\n\
                       # References of matrix products.\n\
                       [profile.dev.package.matrixmultiply]\nopt-level = 3\n";

/// A manifest, and what it is to become.
pub(super) struct Manifest {
    path: PathBuf,
    before: String,
    text: String,
    table: Table,
}

impl Manifest {
    /// The one at `path`.
    ///
    /// # Errors
    /// It cannot be read or is no TOML.
    pub(super) fn read(path: &Path) -> Result<Manifest> {
        let text = fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
        let table = text.parse().map_err(|error| {
            let message = format!("{} cannot be understood: {error}", path.display());
            Error::new(Exit::MetadataFailed, Remark::error(message))
        })?;
        Ok(Manifest {
            path: path.to_path_buf(),
            before: text.clone(),
            text,
            table,
        })
    }

    /// Adds the test target of the harness, unless it is there.
    ///
    /// # Errors
    /// A test of this name that is no harness, or a table that cannot be extended.
    pub(super) fn add_test_target(&mut self) -> Result<()> {
        let tests = self.table.get("test").and_then(Value::as_array);
        let is_ours = |test: &&Value| test.get("name").and_then(Value::as_str) == Some("tilekit");
        match tests.and_then(|tests| tests.iter().find(is_ours)) {
            None => self.append(TEST_TARGET),
            Some(test) if test.get("harness").and_then(Value::as_bool) == Some(false) => Ok(()),
            Some(_) => Err(Error::usage(
                format!(
                    "the `[[test]]` called `tilekit` in {} lacks `harness = false`",
                    self.path.display()
                ),
                "add that line to it: the harness is a program of its own",
            )),
        }
    }

    /// Has the emulator and references optimised in the dev profile, unless the manifest says something of it.
    ///
    /// # Errors
    /// A table that cannot be extended.
    pub(super) fn add_profile(&mut self) -> Result<()> {
        let dev = self
            .table
            .get("profile")
            .and_then(|profiles| profiles.get("dev"));
        let found = dev.and_then(|dev| dev.get("package")?.get("tilekit-emulator"));
        if found.is_some() {
            return Ok(());
        }
        self.append(PROFILE)
    }

    /// Adds the crate `tilekit` of the folder `runtime` to the dependencies, of which the manifest has none yet. What cargo
    /// writes behind them stays behind them.
    ///
    /// # Errors
    /// A table that cannot be extended.
    pub(super) fn add_dependency(&mut self, runtime: &Path) -> Result<()> {
        const HEAD: &str = "[dependencies]\n";
        let place = Value::from(runtime.display().to_string());
        let section = format!("{HEAD}tilekit = {{ path = {place} }}\n");
        if !self.text.contains(HEAD) {
            return self.append(&format!("\n{section}"));
        }
        self.become_text(self.text.replacen(HEAD, &section, 1), &section)
    }

    fn append(&mut self, section: &str) -> Result<()> {
        self.become_text(format!("{}\n{section}", self.text.trim_end()), section)
    }

    /// A manifest that cargo could not read any more is never written: tables written inline cannot be extended below.
    fn become_text(&mut self, text: String, section: &str) -> Result<()> {
        self.table = text.parse().map_err(|_| {
            let lines: Vec<&str> = section
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .collect();
            Error::usage(
                format!(
                    "{} has tables that cannot be extended at its end",
                    self.path.display()
                ),
                format!("write what this says into them: {}", lines.join(" ")),
            )
        })?;
        self.text = text;
        Ok(())
    }

    /// Writes it if it has changed, whole or not at all, and says where.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn write(self) -> Result<Option<PathBuf>> {
        if self.text == self.before {
            return Ok(None);
        }
        self.replace()
            .map_err(|error| Error::io("written", &self.path, &error))?;
        Ok(Some(self.path))
    }

    fn replace(&self) -> std::io::Result<()> {
        // What a link names is replaced, and not the link.
        let path = self.path.canonicalize()?;
        let folder = path.parent().expect("a file is in a folder");
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(self.text.as_bytes())?;
        file.as_file()
            .set_permissions(fs::metadata(&path)?.permissions())?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::MessageFormat;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("Cargo.toml");
        fs::write(&path, text).expect("a file");
        (folder, path)
    }

    fn prepared(path: &Path) -> Result<Option<PathBuf>> {
        let mut manifest = Manifest::read(path)?;
        manifest.add_test_target()?;
        manifest.add_profile()?;
        manifest.write()
    }

    #[test]
    fn a_section_is_appended_once_and_the_rest_stays() {
        let (_folder, path) = file("[package] # mine\nname = \"x\"\n\n\n");
        assert_eq!(prepared(&path).expect("an edit"), Some(path.clone()));
        let text = fs::read_to_string(&path).expect("a file");
        assert!(
            text.starts_with("[package] # mine\nname = \"x\"\n\n[[test]]\n"),
            "{text}"
        );
        assert_eq!(prepared(&path).expect("no edit"), None);
    }

    #[test]
    fn what_cannot_be_extended_is_left_as_it_is() {
        for (text, wanted) in [
            (
                "profile = { dev = { debug = 1 } }\n",
                "[profile.dev.package.tilekit-emulator] opt-level = 3",
            ),
            ("test = []\n", "[[test]] name = \"tilekit\" harness = false"),
            ("[[test]]\nname = \"tilekit\"\n", "add that line to it"),
        ] {
            let (_folder, path) = file(text);
            let error = prepared(&path).expect_err("it cannot be extended");
            let said = error.render(MessageFormat::Human, false);
            assert!(said.contains(wanted), "{said}");
            assert_eq!(error.exit(), Exit::Usage);
            assert_eq!(fs::read_to_string(&path).expect("a file"), text);
        }
    }

    #[test]
    fn a_dependency_is_added_before_what_follows() {
        let (_folder, path) = file("[dependencies]\n\n[lints]\nworkspace = true\n");
        let mut manifest = Manifest::read(&path).expect("a manifest");
        manifest
            .add_dependency(Path::new("/tk"))
            .expect("it is added");
        manifest.write().expect("it is written");
        let text = fs::read_to_string(&path).expect("a file");
        assert_eq!(
            text,
            "[dependencies]\ntilekit = { path = \"/tk\" }\n\n[lints]\nworkspace = true\n"
        );
    }
}
