//! Files that appear whole or not at all.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Writes `content` to `path` by way of a temporary file beside it, so that a reader never sees half of it and an
/// interrupted write leaves the old file. Behind a link the file is written that it leads to, which need not be there yet. A device and a pipe are written to: a file
/// in the place of `/dev/null` would be everybody's loss.
///
/// # Errors
/// The path, and what is there or what the operating system says.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let with_path = |error: io::Error| failed(path, "written", &error);
    let target = behind_links(path).map_err(with_path)?;
    let found = fs::metadata(&target);
    let kind = found.as_ref().ok().map(fs::Metadata::file_type);
    if let Some(kind) = kind.filter(|kind| !kind.is_file()) {
        return write_to(&target, kind, content).map_err(with_path);
    }
    let folder = target.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).map_err(with_path)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(with_path)?;
    file.write_all(content).map_err(with_path)?;
    file.persist(&target)
        .map_err(|error| with_path(error.error))?;
    // A temporary file is its owner's only; what stands there afterwards is an ordinary file.
    let permissions = found.map_or_else(|_| ordinary(), |found| found.permissions());
    fs::set_permissions(&target, permissions).map_err(with_path)
}

/// Where the last of the links from `path` on leads to, whether something is there or not.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// Linux follows as many.
    const MOST_LINKS: usize = 40;
    let mut target = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&target) else {
            return Ok(target);
        };
        // That of a link begins at its folder, unless it begins at the root.
        target.pop();
        target.push(next);
    }
    Err(io::Error::other("its links lead to no file"))
}

/// Writes to what is no regular file.
fn write_to(path: &Path, kind: FileType, content: &[u8]) -> io::Result<()> {
    if kind.is_char_device() || kind.is_fifo() {
        let mut file = OpenOptions::new().write(true).open(path)?;
        return file.write_all(content);
    }
    let found = kind_of(kind).unwrap_or("something else");
    Err(io::Error::other(format!(
        "found {found}, expected a regular file"
    )))
}

/// The room that is tried before a file is appended to, bytes: more than the figures of one case take.
const TRIED_BYTES: usize = 4096;

/// Whether `path` can be appended to, room on its disk included: so many bytes are written and taken away again.
///
/// # Errors
/// The path, and what the operating system says.
pub(super) fn check_appendable(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|file| try_room(&file))
        .map_err(|error| failed(path, "written", &error))
}

fn try_room(mut file: &File) -> io::Result<()> {
    let facts = file.metadata()?;
    if facts.is_file() {
        let written = file
            .write_all(&[b'\n'; TRIED_BYTES])
            .and_then(|()| file.sync_data());
        file.set_len(facts.len())?;
        return written;
    }
    // Nothing can be taken away from a pipe or a terminal again.
    if facts.file_type().is_char_device() && !file.is_terminal() {
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads a regular file; none where nothing is there. A device may have no end, and a pipe waits for whoever writes to it.
///
/// # Errors
/// The path, and what it is or what the operating system says.
pub(super) fn read_regular(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let found = fs::metadata(path).and_then(|facts| match kind_of(facts.file_type()) {
        None => fs::read(path),
        Some(kind) => Err(io::Error::other(format!(
            "found {kind}, expected a regular file"
        ))),
    });
    match found {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, "read", &error)),
    }
}

/// What is there in place of a regular file.
fn kind_of(found: FileType) -> Option<&'static str> {
    let kinds = [
        (found.is_dir(), "a folder"),
        (found.is_char_device(), "a character device"),
        (found.is_block_device(), "a block device"),
        (found.is_fifo(), "a pipe"),
        (found.is_socket(), "a socket"),
    ];
    kinds.into_iter().find_map(|(is, kind)| is.then_some(kind))
}

/// Removes a file.
///
/// # Errors
/// The path, and what the operating system says.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).map_err(|error| failed(path, "removed", &error))
}

/// `PATH cannot be written: REASON`.
pub(super) fn failed(path: &Path, what: &str, error: &io::Error) -> io::Error {
    let text = error.to_string();
    // Behind the reason tempfile names the file that it made up.
    let reason = text.split(" at path \"").next().unwrap_or(&text);
    let text = format!("{} cannot be {what}: {reason}", path.display());
    io::Error::new(error.kind(), text)
}

/// What a new file is allowed by default: readable for all, writable for its owner.
fn ordinary() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_folders_are_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b/c.txt");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(
            fs::read_dir(path.parent().expect("a folder"))
                .expect("read")
                .count(),
            1
        );
    }

    #[test]
    fn a_link_stays_one_and_the_file_behind_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "one").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write_whole(&link, b"two").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).expect("read"), b"two");
    }

    /// The link was replaced.
    #[test]
    fn a_file_is_made_where_a_link_leads_to_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("second", at("first")).expect("a link");
        std::os::unix::fs::symlink(at("file"), at("second")).expect("a link");
        write_whole(&at("first"), b"one").expect("written");
        assert!(at("first").is_symlink() && at("second").is_symlink());
        assert_eq!(fs::read(at("file")).expect("read"), b"one");
        std::os::unix::fs::symlink("ring", at("ring")).expect("a link");
        let error = write_whole(&at("ring"), b"one").expect_err("a ring of links");
        let expected = "ring cannot be written: its links lead to no file";
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(at("ring").is_symlink());
    }

    /// The administrator may rename a file over `/dev/null`.
    #[test]
    fn no_file_takes_the_place_of_a_device_a_pipe_or_a_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (null, full) = (folder.path().join("null"), folder.path().join("full"));
        std::os::unix::fs::symlink("/dev/null", &null).expect("a link");
        std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
        write_whole(&null, b"one").expect("written");
        let error = write_whole(&full, b"one").expect_err("the device is full");
        assert!(
            error
                .to_string()
                .contains("full cannot be written: No space"),
            "{error}"
        );
        for device in [&null, &full] {
            let kind = fs::metadata(device).expect("it is there").file_type();
            assert!(device.is_symlink() && kind.is_char_device());
        }
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let error = write_whole(&socket, b"one").expect_err("a socket");
        let expected = "socket cannot be written: found a socket, expected a regular file";
        assert!(error.to_string().ends_with(expected), "{error}");
    }

    #[test]
    fn an_error_names_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), "").expect("written");
        let error =
            write_whole(&folder.path().join("file/x"), b"").expect_err("a file is no folder");
        let text = error.to_string();
        assert!(text.contains("file/x cannot be written: "), "{text}");
        let gone = remove(&folder.path().join("gone")).expect_err("it is not there");
        assert!(
            gone.to_string().contains("gone cannot be removed: "),
            "{gone}"
        );
    }

    /// Whose end may never come.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        assert_eq!(read_regular(&path).expect("none"), None);
        fs::write(&path, "one").expect("written");
        assert_eq!(
            read_regular(&path).expect("read").as_deref(),
            Some(&b"one"[..])
        );
        let _socket = UnixListener::bind(folder.path().join("socket")).expect("a socket");
        for (path, kind) in [
            (Path::new("/dev/null"), "a character device"),
            (folder.path(), "a folder"),
            (&folder.path().join("socket"), "a socket"),
        ] {
            let error = read_regular(path).expect_err(kind).to_string();
            let path = path.display();
            let expected = format!("{path} cannot be read: found {kind}, expected a regular file");
            assert_eq!(error, expected);
        }
    }

    /// Not even the administrator may make files below `/proc`.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_does_not_speak_of_temporary_files() {
        let error = write_whole(Path::new("/proc/x"), b"").expect_err("no file can be there");
        let text = error.to_string();
        assert!(
            text.starts_with("/proc/x cannot be written: ") && !text.contains(".tmp"),
            "{text}"
        );
    }
}
