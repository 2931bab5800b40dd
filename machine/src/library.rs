//! Libraries of NVIDIA that are loaded where there are some.

use std::path::{Path, PathBuf};

use libloading::Library;

/// What `load` makes of the first file with one of these names, the preferred first, that it accepts. Of the folders, `None` stands for what the
/// loader knows.
///
/// # Errors
/// Where there is none: `lack`, and what is wrong with those that were found.
pub(crate) fn first<T>(
    folders: impl Iterator<Item = Option<PathBuf>>,
    names: &[String],
    lack: &str,
    load: impl Fn(&Path) -> Result<T, String>,
) -> Result<T, String> {
    let mut rejected = Vec::new();
    for folder in folders {
        for name in names {
            let file = folder
                .as_ref()
                .map_or(PathBuf::from(name), |at| at.join(name));
            // Without a folder the loader says whether there is one.
            if folder.is_some() && !file.is_file() {
                continue;
            }
            match load(&file) {
                Ok(loaded) => return Ok(loaded),
                Err(_) if folder.is_none() => {}
                Err(why) => rejected.push(format!("; {}: {why}", file.display())),
            }
        }
    }
    Err(lack.to_string() + &rejected.concat())
}

/// Opens a library file.
///
/// # Errors
/// What the loader says.
#[allow(unsafe_code, reason = "a library's initialisers")]
pub fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: opening runs the library's initialisers, which is what it is opened for.
    unsafe { Library::new(path) }.map_err(|error| error.to_string())
}
