//! Where NCCL is.

use std::path::{Path, PathBuf};

use libloading::Library;

use crate::library::{first, open};
use crate::ptxas::Environment;

/// The file, whose interface has been the same since release 2.0.
const FILE: &str = "libnccl.so.2";

/// Version and place of the NCCL that `bench` would use on this machine.
///
/// # Errors
/// Why there is none.
pub fn find() -> Result<String, String> {
    search(Environment::of_process().library_folders(), |file| {
        Ok(format!("{} {}", version(&open(file)?)?, file.display()))
    })
}

/// What `load` makes of the first library that it accepts. Of the folders, `None` stands for what the loader knows.
///
/// # Errors
/// Where there is none: the help, and what is wrong with those that were found.
pub fn search<T>(
    folders: impl Iterator<Item = Option<PathBuf>>,
    load: impl Fn(&Path) -> Result<T, String>,
) -> Result<T, String> {
    let lack = "no NCCL was found in $CUDA_HOME, $CUDA_PATH, by the loader (LD_LIBRARY_PATH), in /usr/local/cuda* or in Python's packages; \
                `pip install nvidia-nccl-cu13`, or set LD_LIBRARY_PATH";
    first(folders, &[FILE.to_string()], lack, load)
}

/// The release, such as `2.28.9`.
///
/// # Errors
/// It is another library.
#[allow(unsafe_code, reason = "a foreign function of NCCL")]
pub fn version(library: &Library) -> Result<String, String> {
    // SAFETY: the signature is that of `nccl.h`.
    let function =
        unsafe { library.get::<unsafe extern "C" fn(*mut i32) -> u32>(b"ncclGetVersion") };
    let function = function.map_err(|_| "it has no `ncclGetVersion`".to_string())?;
    let mut number = 0;
    // SAFETY: writes one integer.
    let status = unsafe { function(&raw mut number) };
    if status != 0 {
        return Err(format!("ncclGetVersion: status {status}"));
    }
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
        search([Some(folder.to_path_buf())].into_iter(), open)
    }

    #[test]
    fn a_search_that_finds_nothing_gives_a_help_and_names_what_is_no_library() {
        let folder = tempfile::tempdir().expect("a folder");
        let why = search_in(folder.path()).expect_err("an empty folder");
        assert!(why.contains("pip install nvidia-nccl-cu13"), "{why}");
        let file = folder.path().join(FILE);
        std::fs::write(&file, "text").expect("a file");
        let why = search_in(folder.path()).expect_err("no library");
        assert!(why.contains(&file.display().to_string()), "{why}");
    }
}
