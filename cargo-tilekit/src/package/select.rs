//! Which package is meant.

use std::path::Path;

use protocol::Exit;
use protocol::Remark;

use super::{Metadata, Package};
use crate::error::{Error, Result};

/// The package that is called `named`, else the innermost one around `folder`, else the workspace's default.
///
/// # Errors
/// No such package, several that could be meant, or one that can have no kernels, with the reason.
pub(crate) fn select<'a>(
    metadata: &'a Metadata,
    named: Option<&str>,
    folder: &Path,
) -> Result<&'a Package> {
    let package = match named {
        Some(name) => by_name(metadata, name)?,
        None => match around(metadata, folder) {
            Some(package) => package,
            None => by_default(metadata)?,
        },
    };
    check(package, metadata)?;
    Ok(package)
}

fn by_name<'a>(metadata: &'a Metadata, name: &str) -> Result<&'a Package> {
    let found = metadata
        .packages
        .iter()
        .find(|package| package.name == name);
    found.ok_or_else(|| {
        Error::usage(
            format!("the workspace has no package `{name}`"),
            format!(
                "it has {}",
                names(&metadata.packages.iter().collect::<Vec<_>>())
            ),
        )
    })
}

fn around<'a>(metadata: &'a Metadata, folder: &Path) -> Option<&'a Package> {
    let packages = metadata.packages.iter();
    packages
        .filter(|package| folder.starts_with(package.root()))
        .max_by_key(|package| package.root().components().count())
}

/// What is meant at the root of a workspace that is no package itself.
fn by_default(metadata: &Metadata) -> Result<&Package> {
    let config = metadata
        .custom
        .as_ref()
        .and_then(|custom| custom.tilekit.as_ref());
    if let Some(config) = config {
        return by_name(metadata, &config.default_package);
    }
    let with_stub: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.has_stub())
        .collect();
    let with_kernels: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.uses_tilekit())
        .collect();
    match (&with_stub[..], &with_kernels[..]) {
        ([only], _) | ([], [only]) => Ok(only),
        ([], []) => Err(Error::new(
            Exit::NothingSelected,
            Remark::error(
                "no package of this workspace depends on `tilekit`, so there are no kernels",
            )
            .with_help("`cargo tilekit init` in the folder of the package that is to have kernels adds the dependency"),
        )),
        ([], several) | (several, _) => Err(Error::usage(
            "several packages of this workspace can have kernels",
            format!(
                "choose one with -p: {}; or write `[workspace.metadata.tilekit]` with `default-package` into the \
                 workspace's Cargo.toml",
                names(several)
            ),
        )),
    }
}

fn names(packages: &[&Package]) -> String {
    let names: Vec<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    names.join(", ")
}

/// Refuses packages in which no harness could find a kernel.
fn check(package: &Package, metadata: &Metadata) -> Result<()> {
    let Package { name, .. } = package;
    if package.has_stub() {
        return Ok(());
    }
    if !package.uses_tilekit() {
        let others: Vec<&Package> = metadata
            .packages
            .iter()
            .filter(|other| other.uses_tilekit())
            .collect();
        let help = if others.is_empty() {
            "`cargo tilekit init` adds the dependency".to_string()
        } else {
            format!(
                "`cargo tilekit init` adds the dependency; or choose another package with -p: {}",
                names(&others)
            )
        };
        let remark = Remark::error(format!(
            "package `{name}` has no kernels: it does not depend on `tilekit`"
        ));
        return Err(Error::new(Exit::NothingSelected, remark.with_help(help)));
    }
    if package.library().is_none() {
        let remark = Remark::error(format!(
            "the kernels of package `{name}` cannot be reached: it has only binaries"
        ))
        .with_note("a harness is a program of its own, and a program links libraries only")
        .with_help("move the kernels to src/lib.rs; the binary then uses them from there");
        return Err(Error::new(Exit::NothingSelected, remark));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::MessageFormat;

    use super::*;

    /// Packages as `name:kinds:dependencies`, each in its own folder of the workspace `/w`.
    fn workspace(packages: &[&str], default: Option<&str>) -> Metadata {
        let packages: Vec<_> = packages
            .iter()
            .map(|package| {
                let parts: Vec<&str> = package.split(':').collect();
                let targets: Vec<_> = parts[1]
                    .split(',')
                    .map(|kind| {
                        let name = if kind == "test" { "tilekit" } else { parts[0] };
                        serde_json::json!({ "name": name, "kind": [kind] })
                    })
                    .collect();
                let dependencies: Vec<_> = parts[2]
                    .split(',')
                    .map(|name| serde_json::json!({ "name": name }))
                    .collect();
                let folder = if parts[0] == "root" { "/w".into() } else { format!("/w/{}", parts[0]) };
                serde_json::json!({
                    "name": parts[0], "id": parts[0], "manifest_path": format!("{folder}/Cargo.toml"),
                    "dependencies": dependencies, "targets": targets,
                })
            })
            .collect();
        let config =
            default.map(|name| serde_json::json!({ "tilekit": { "default-package": name } }));
        let json = serde_json::json!({
            "packages": packages, "workspace_root": "/w", "target_directory": "/w/target", "metadata": config,
        });
        Metadata::parse(json.to_string().as_bytes()).expect("metadata")
    }

    #[track_caller]
    fn check_selected(metadata: &Metadata, named: Option<&str>, folder: &str, expected: &str) {
        let found = match select(metadata, named, Path::new(folder)) {
            Ok(package) => package.name.clone(),
            Err(error) => format!(
                "{} {}",
                error.exit().code(),
                error.render(MessageFormat::Short, false).trim_end()
            ),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_innermost_package_around_the_folder_is_meant() {
        let workspace = workspace(
            &["root:lib:tilekit", "inner:lib:tilekit", "plain:lib:serde"],
            None,
        );
        check_selected(&workspace, None, "/w/inner/src", "inner");
        check_selected(&workspace, None, "/w/src", "root");
        check_selected(&workspace, Some("inner"), "/w", "inner");
        check_selected(
            &workspace,
            Some("iner"),
            "/w",
            "2 error: the workspace has no package `iner`",
        );
        check_selected(
            &workspace,
            None,
            "/w/plain",
            "4 error: package `plain` has no kernels: it does not depend on `tilekit`",
        );
    }

    #[test]
    fn at_the_root_the_only_package_with_a_harness_is_meant() {
        check_selected(
            &workspace(&["a:lib,test:tilekit", "b:lib:tilekit"], None),
            None,
            "/w",
            "a",
        );
        check_selected(
            &workspace(&["a:lib:serde", "b:lib:tilekit"], None),
            None,
            "/w",
            "b",
        );
        let two = ["a:lib,test:tilekit", "b:lib,test:tilekit"];
        check_selected(&workspace(&two, Some("b")), None, "/w", "b");
        check_selected(
            &workspace(&two, None),
            None,
            "/w",
            "2 error: several packages of this workspace can have kernels",
        );
        check_selected(
            &workspace(&["a:lib:serde"], None),
            None,
            "/w",
            "4 error: no package of this workspace depends on `tilekit`, so there are no kernels",
        );
    }

    #[test]
    fn a_package_of_binaries_gets_the_help_to_make_a_library() {
        check_selected(
            &workspace(&["root:bin:tilekit"], None),
            None,
            "/w",
            "4 error: the kernels of package `root` cannot be reached: it has only binaries",
        );
    }

    #[test]
    fn an_unknown_key_of_the_workspace_is_an_error() {
        let json = br#"{ "packages": [], "workspace_root": "/w", "target_directory": "/t",
            "metadata": { "tilekit": { "default": "x" } } }"#;
        let error = Metadata::parse(json).expect_err("an unknown key");
        assert_eq!(error.exit(), Exit::MetadataFailed);
        assert!(
            error
                .render(MessageFormat::Human, false)
                .contains("default-package")
        );
    }
}
