//! A harness for a package that has no `tests/tilekit.rs`: a crate of its own below `target/`.
//!
//! It is a workspace of its own, so what decides how the package is resolved is copied: `Cargo.lock`, `[patch]`, and the
//! way in which the package names `tilekit`.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::Exit;
use protocol::Remark;
use toml::{Table, Value};

use super::{Metadata, Package};
use crate::cli::CargoOptions;
use crate::error::{Error, Result};

/// Writes the crate and returns its `Cargo.toml`.
///
/// # Errors
/// Files that cannot be read or written, and `--locked`, which such a crate cannot keep.
pub(super) fn write(
    metadata: &Metadata,
    package: &Package,
    options: &CargoOptions,
) -> Result<PathBuf> {
    if options.locked {
        let remark = Remark::error(format!(
            "package `{}` has no tests/tilekit.rs, and a generated harness needs a lock file of its own",
            package.name
        ));
        let remark = remark.with_help("run `cargo tilekit init` once, or leave --locked off");
        return Err(Error::new(Exit::Usage, remark));
    }
    let folder = metadata
        .target_directory
        .join("tilekit/harness")
        .join(&package.name);
    let sources = folder.join("src");
    fs::create_dir_all(&sources).map_err(|error| Error::io("made", &sources, &error))?;
    let root = read_manifest(&metadata.workspace_root.join("Cargo.toml"))?;
    let own = read_manifest(&package.manifest_path)?;
    let manifest = manifest(package, &own, &root, &metadata.workspace_root, options)?;
    let text = toml::to_string(&manifest).expect("a table made of tables that were read");
    let library = package
        .library()
        .expect("a package without library was refused before");
    let path = folder.join("Cargo.toml");
    write_if_changed(&path, &text)?;
    let main = format!("//! Runs the kernels of `{library}`.\n\ntilekit::harness!({library});\n");
    write_if_changed(&sources.join("main.rs"), &main)?;
    copy_lock(&metadata.workspace_root, &folder)?;
    Ok(path)
}

fn read_manifest(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
    text.parse().map_err(|error| {
        let message = format!("{} cannot be understood: {error}", path.display());
        Error::new(Exit::MetadataFailed, Remark::error(message))
    })
}

/// A file that is written again is compiled again.
fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| Error::io("written", path, &error))
}

/// The workspace's choice of versions, unless it is the one that was copied last. Cargo adds the harness itself to it.
fn copy_lock(workspace: &Path, folder: &Path) -> Result<()> {
    let (from, kept) = (workspace.join("Cargo.lock"), folder.join("workspace.lock"));
    let Ok(text) = fs::read_to_string(&from) else {
        return Ok(());
    };
    if fs::read_to_string(&kept).is_ok_and(|found| found == text) {
        return Ok(());
    }
    let lock = folder.join("Cargo.lock");
    fs::write(&lock, &text).map_err(|error| Error::io("written", &lock, &error))?;
    fs::write(&kept, &text).map_err(|error| Error::io("written", &kept, &error))
}

fn manifest(
    package: &Package,
    own: &Table,
    root: &Table,
    workspace: &Path,
    options: &CargoOptions,
) -> Result<Table> {
    let mut manifest = Table::new();
    let mut about = Table::new();
    about.insert(
        "name".into(),
        format!("tilekit-harness-of-{}", package.name).into(),
    );
    about.insert("version".into(), "0.0.0".into());
    about.insert("edition".into(), "2024".into());
    about.insert("publish".into(), false.into());
    manifest.insert("package".into(), about.into());
    // Without this cargo would look for a workspace above, and find the package's.
    manifest.insert("workspace".into(), Table::new().into());
    let mut dependencies = Table::new();
    dependencies.insert(
        "tilekit".into(),
        tilekit_dependency(package, own, root, workspace)?,
    );
    dependencies.insert(package.name.clone(), package_dependency(package, options));
    manifest.insert("dependencies".into(), dependencies.into());
    for section in ["patch", "profile"] {
        if let Some(found) = root.get(section) {
            let found = if section == "patch" {
                with_absolute_paths(found, workspace)
            } else {
                found.clone()
            };
            manifest.insert(section.into(), found);
        }
    }
    Ok(manifest)
}

fn package_dependency(package: &Package, options: &CargoOptions) -> Value {
    let mut table = Table::new();
    table.insert("path".into(), package.root().display().to_string().into());
    if options.no_default_features {
        table.insert("default-features".into(), false.into());
    }
    let split = |list: &String| -> Vec<String> {
        let names = list.split([',', ' ']).filter(|name| !name.is_empty());
        names.map(str::to_string).collect()
    };
    let features: Vec<Value> = options
        .features
        .iter()
        .flat_map(split)
        .map(Value::from)
        .collect();
    if !features.is_empty() {
        table.insert("features".into(), features.into());
    }
    table.into()
}

/// The package's own words for where `tilekit` comes from, so that both mean the same crate.
fn tilekit_dependency(
    package: &Package,
    own: &Table,
    root: &Table,
    workspace: &Path,
) -> Result<Value> {
    let found =
        find_dependency(own.get("dependencies")).map(|(key, value)| (key, value, package.root()));
    let is_inherited =
        |value: &Value| value.get("workspace").and_then(Value::as_bool) == Some(true);
    let found = match found {
        Some((key, value, _)) if is_inherited(value) => root
            .get("workspace")
            .and_then(|table| table.get("dependencies")?.get(key))
            .map(|value| (value, workspace)),
        other => other.map(|(_, value, base)| (value, base)),
    };
    let Some((value, base)) = found else {
        let remark = Remark::error(format!(
            "package `{}` has no tests/tilekit.rs, and its [dependencies] do not say where `tilekit` comes from",
            package.name
        ));
        return Err(Error::new(
            Exit::Usage,
            remark.with_help("run `cargo tilekit init` once"),
        ));
    };
    let mut value = with_absolute_paths(value, base);
    if let Some(table) = value.as_table_mut() {
        for key in ["package", "optional", "public"] {
            table.remove(key);
        }
    }
    Ok(value)
}

/// The dependency on `tilekit` and the key it stands under, which may be another name.
fn find_dependency(dependencies: Option<&Value>) -> Option<(&str, &Value)> {
    let table = dependencies?.as_table()?;
    table
        .iter()
        .find(
            |(key, value)| match value.get("package").and_then(Value::as_str) {
                Some(package) => package == "tilekit",
                None => *key == "tilekit",
            },
        )
        .map(|(key, value)| (key.as_str(), value))
}

/// The same with every `path` relative to `base` made absolute.
fn with_absolute_paths(value: &Value, base: &Path) -> Value {
    let Some(table) = value.as_table() else {
        return value.clone();
    };
    let absolute = |(key, value): (&String, &Value)| {
        let value = match value.as_str().filter(|_| key == "path") {
            Some(path) => base.join(path).display().to_string().into(),
            None => with_absolute_paths(value, base),
        };
        (key.clone(), value)
    };
    Value::Table(table.iter().map(absolute).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        serde_json::from_str(
            r#"{ "name": "my-kernels", "id": "x", "manifest_path": "/w/kernels/Cargo.toml", "dependencies": [],
                 "targets": [{ "name": "my_kernels", "kind": ["lib"] }] }"#,
        )
        .expect("a package")
    }

    #[track_caller]
    fn check(own: &str, root: &str, options: &CargoOptions, expected: &str) {
        let (own, root) = (own.parse().expect("TOML"), root.parse().expect("TOML"));
        let found = manifest(&package(), &own, &root, Path::new("/w"), options);
        let mut found = found.expect("a manifest");
        let about = found.remove("package").expect("a package");
        assert_eq!(
            about["name"].as_str(),
            Some("tilekit-harness-of-my-kernels")
        );
        assert_eq!(found.remove("workspace"), Some(Table::new().into()));
        assert_eq!(found, expected.parse().expect("TOML"));
    }

    #[test]
    fn paths_features_and_patches_are_taken_over() {
        let options = CargoOptions {
            features: vec!["a,b".into(), "c".into()],
            no_default_features: true,
            ..CargoOptions::default()
        };
        check(
            "[dependencies.tilekit]\npath = \"../tk\"\noptional = true\n",
            "[patch.crates-io]\nhalf = { path = \"half\" }\n",
            &options,
            "\
[dependencies.tilekit]
path = \"/w/kernels/../tk\"

[dependencies.my-kernels]
path = \"/w/kernels\"
default-features = false
features = [\"a\", \"b\", \"c\"]

[patch.crates-io.half]
path = \"/w/half\"
",
        );
    }

    #[test]
    fn an_inherited_and_renamed_dependency_is_followed() {
        check(
            "[dependencies]\ntk = { workspace = true, package = \"tilekit\" }\n",
            "[workspace.dependencies]\ntk = { git = \"g\", package = \"tilekit\" }\n[profile.dev]\nopt-level = 1\n",
            &CargoOptions::default(),
            "\
[dependencies.tilekit]
git = \"g\"

[dependencies.my-kernels]
path = \"/w/kernels\"

[profile.dev]
opt-level = 1
",
        );
    }

    #[test]
    fn a_dependency_that_is_not_said_asks_for_init() {
        let error = manifest(
            &package(),
            &Table::new(),
            &Table::new(),
            Path::new("/w"),
            &CargoOptions::default(),
        );
        assert_eq!(error.expect_err("no dependency").exit(), Exit::Usage);
    }
}
