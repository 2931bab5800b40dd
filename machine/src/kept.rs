//! Where this user's files are kept, and the digests by which they are known.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// The folder of this user: `$TILEKIT_CACHE_DIR`, else `$XDG_CACHE_HOME/tilekit`, else `~/.cache/tilekit`. None if `$TILEKIT_CACHE_DIR` is
/// empty.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let set = |path: &PathBuf| !path.as_os_str().is_empty();
    match variable("TILEKIT_CACHE_DIR") {
        Some(folder) => Some(folder).filter(set),
        // A relative one is to be passed over (XDG Base Directory Specification).
        None => variable("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| variable("HOME").filter(set).map(|home| home.join(".cache")))
            .map(|caches| caches.join("tilekit")),
    }
}

/// The SHA-256 of these bytes, in hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
