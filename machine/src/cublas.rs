//! Where cuBLAS is.

#![allow(unsafe_code, reason = "a foreign function of cublasLt")]

use std::path::{Path, PathBuf};

use libloading::Library;

use crate::library::first;
pub use crate::library::open;
use crate::ptxas::Environment;

/// Releases that are understood, the preferred first: the part of the interface used here is the same in both.
pub const MAJORS: [u32; 2] = [13, 12];

/// Version and place of the cuBLAS that `bench` would use on this machine.
///
/// # Errors
/// Why there is none.
pub fn find() -> Result<String, String> {
    search(Environment::of_process().library_folders(), |lt, cublas| {
        let version = version(&open(lt)?)?;
        open(cublas)?;
        Ok(format!("{version} {}", lt.display()))
    })
}

/// What `load` makes of the first cublasLt and cuBLAS, in this order, that it accepts. Of the folders, `None` stands for
/// what the loader knows.
///
/// # Errors
/// Where there is none: the help, and what is wrong with those that were found.
pub fn search<T>(
    folders: impl Iterator<Item = Option<PathBuf>>,
    load: impl Fn(&Path, &Path) -> Result<T, String>,
) -> Result<T, String> {
    let names = MAJORS.map(|major| format!("libcublasLt.so.{major}"));
    let lack = "no cuBLAS was found in $CUDA_HOME, $CUDA_PATH, by the loader, in /usr/local/cuda* or in Python's packages; \
                `pip install nvidia-cublas`, or set CUDA_HOME";
    // cublasLt first: cuBLAS needs it, and then finds it loaded whatever folder it is in.
    first(folders, &names, lack, |lt| {
        let name = lt.file_name().unwrap_or_default().to_string_lossy();
        load(lt, &lt.with_file_name(name.replace("cublasLt", "cublas")))
    })
}

/// The release of cublasLt, such as `13.1.0`.
///
/// # Errors
/// It is another library.
pub fn version(lt: &Library) -> Result<String, String> {
    // SAFETY: the signature is that of `cublasLt.h`.
    let function = unsafe { lt.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion") };
    let function = function.map_err(|_| "it has no `cublasLtGetVersion`".to_string())?;
    // SAFETY: no preconditions.
    let number = unsafe { function() };
    Ok(format!(
        "{}.{}.{}",
        number / 10_000,
        number / 100 % 100,
        number % 100
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search_in(folder: &Path) -> Result<Library, String> {
        search([Some(folder.to_path_buf())].into_iter(), |lt, _| open(lt))
    }

    #[test]
    fn a_search_that_finds_nothing_gives_a_help() {
        let empty = tempfile::tempdir().expect("a folder");
        let why = search_in(empty.path()).expect_err("an empty folder");
        assert!(why.contains("pip install nvidia-cublas"), "{why}");
    }

    #[test]
    fn a_file_that_is_no_library_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("libcublasLt.so.13");
        std::fs::write(&file, "text").expect("a file");
        let why = search_in(folder.path()).expect_err("no library");
        assert!(why.contains(&file.display().to_string()), "{why}");
    }
}
