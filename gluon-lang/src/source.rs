//! How the author's files are named: relative to the workspace, whichever way they were compiled.
//!
//! rustc names files of a workspace's members relative to its root, and those of a path dependency absolutely. The package of a generated
//! harness is such a dependency, and the names end up in PTX: in line tables, and in the text of device assertions.

use std::path::Path;
use std::sync::OnceLock;

static WORKSPACE: OnceLock<String> = OnceLock::new();

/// Names files below `workspace` relative to it from now on. Only the first call in a process counts.
pub fn name_files_below(workspace: &Path) {
    // A folder that is not text is none that rustc has named a file by.
    if let Some(folder) = workspace.to_str() {
        WORKSPACE.get_or_init(|| folder.to_owned());
    }
}

/// The name of a file that rustc calls `file`.
pub fn name_of(file: &str) -> &str {
    match WORKSPACE.get() {
        Some(workspace) => below(file, workspace),
        None => file,
    }
}

fn below<'f>(file: &'f str, workspace: &str) -> &'f str {
    let separators = ['/', '\\'];
    let rest = file.strip_prefix(workspace.trim_end_matches(separators));
    // `/home/me/kernels2/lib.rs` is not below `/home/me/kernels`.
    rest.and_then(|rest| rest.strip_prefix(separators))
        .unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_workspace_are_named_relative_to_it() {
        for (file, expected) in [
            ("/home/me/kernels/src/lib.rs", "src/lib.rs"),
            ("/home/me/kernels/member/src/a.rs", "member/src/a.rs"),
            (
                "/home/me/kernels2/src/lib.rs",
                "/home/me/kernels2/src/lib.rs",
            ),
            ("src/lib.rs", "src/lib.rs"),
        ] {
            assert_eq!(below(file, "/home/me/kernels"), expected);
            assert_eq!(below(file, "/home/me/kernels/"), expected);
        }
        assert_eq!(below("C:\\w\\src\\lib.rs", "C:\\w"), "src\\lib.rs");
    }
}
