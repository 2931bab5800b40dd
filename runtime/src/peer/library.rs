//! Where cuBLAS is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::cublas::Cublas;
use super::cublas_lt::CublasLt;
use super::dynamic::open;
use crate::ptxas::Environment;

/// The two libraries, of one release.
pub(super) struct Libraries {
    pub(super) cublas: Cublas,
    pub(super) lt: CublasLt,
    /// Such as `13.1.0`.
    pub(super) version: String,
    /// Where cublasLt was found; a bare name where the loader knew it.
    path: PathBuf,
}

/// Version and place of the cuBLAS that [`Peer::Cublas`](super::Peer::Cublas) would use on this machine.
///
/// # Errors
/// Why there is none.
pub fn find_cublas() -> Result<String, String> {
    libraries().map(|found| format!("{} {}", found.version, found.path.display()))
}

/// Releases that are understood, the preferred first: the part of the interface used here is the same in both.
const MAJORS: [u32; 2] = [13, 12];

/// The libraries of this machine, or why there are none; the answer is kept for the process.
pub(super) fn libraries() -> Result<&'static Libraries, String> {
    static FOUND: OnceLock<Result<Libraries, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| search(Environment::of_process().library_folders()))
        .as_ref()
        .map_err(Clone::clone)
}

/// The first folder whose libraries can be used. `None` stands for what the loader knows.
fn search(folders: impl Iterator<Item = Option<PathBuf>>) -> Result<Libraries, String> {
    let mut rejected = Vec::new();
    for folder in folders {
        for major in MAJORS {
            let file = |name: &str| {
                let file = format!("lib{name}.so.{major}");
                folder
                    .as_ref()
                    .map_or(PathBuf::from(&file), |at| at.join(&file))
            };
            let (lt, cublas) = (file("cublasLt"), file("cublas"));
            // Without a folder the loader says whether there is one.
            if folder.is_some() && !lt.is_file() {
                continue;
            }
            match load(&lt, &cublas) {
                Ok(libraries) => return Ok(libraries),
                Err(_) if folder.is_none() => {}
                Err(why) => rejected.push(format!("{}: {why}", lt.display())),
            }
        }
    }
    let mut text = "no cuBLAS was found in $CUDA_HOME, $CUDA_PATH, by the loader, in /usr/local/cuda* or in Python's \
                    packages; `pip install nvidia-cublas`, or set CUDA_HOME"
        .to_string();
    for why in rejected {
        text.push_str("; ");
        text.push_str(&why);
    }
    Err(text)
}

/// cublasLt first: cuBLAS needs it, and then finds it loaded whatever folder it is in.
fn load(lt: &Path, cublas: &Path) -> Result<Libraries, String> {
    let path = lt.to_path_buf();
    let lt = CublasLt::of(open(lt)?)?;
    let cublas = Cublas::of(open(cublas)?)?;
    let version = lt.version();
    Ok(Libraries {
        cublas,
        lt,
        version,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_the_search_says_what_to_do() {
        let empty = tempfile::tempdir().expect("a folder");
        let found = search([Some(empty.path().to_path_buf())].into_iter());
        let why = found
            .map(|found| found.version)
            .expect_err("an empty folder");
        assert!(why.contains("pip install nvidia-cublas"), "{why}");
    }

    #[test]
    fn a_file_that_is_no_library_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("libcublasLt.so.13");
        std::fs::write(&file, "text").expect("a file");
        let found = search([Some(folder.path().to_path_buf())].into_iter());
        let why = found.map(|found| found.version).expect_err("no library");
        assert!(why.contains(&file.display().to_string()), "{why}");
    }

    #[test]
    fn where_cublas_is_all_its_functions_are_found() {
        match libraries() {
            Ok(found) => {
                let is_known = MAJORS
                    .iter()
                    .any(|major| found.version.starts_with(&format!("{major}.")));
                assert!(is_known, "{}", found.version);
            }
            Err(why) => assert!(why.contains("no cuBLAS was found"), "{why}"),
        }
    }
}
