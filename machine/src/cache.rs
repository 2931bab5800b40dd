//! Cubins kept on disk, so that a kernel is assembled once a machine.
//!
//! - The key is a hash of the PTX, of ptxas as a file and of its flags, so an entry can never be stale: another program of the same
//!   release, such as a script around it, has entries of its own.
//! - An entry is written to a temporary file and renamed, so that processes can share the folder without locks.
//! - An entry carries a hash of its content; one that does not match is removed and counts as absent.
//! - The folder is kept below a size by removing what was used longest ago.
//!
//! Nothing that goes wrong here can fail a launch: reading gives `None`, and a failed write is the caller's to ignore.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

pub use crate::kept::digest;
use crate::kept::{hex, user_folder};
use crate::ptxas::{Assembled, AssemblyReport};

/// The size that the folder is kept below, in bytes.
pub const DEFAULT_LIMIT_BYTES: u64 = 256 << 20;

/// First bytes of an entry; the digit is the version of this format.
const MAGIC: &[u8; 8] = b"TKCUBIN1";

const SUFFIX: &str = "cubin";

/// A temporary file older than this belonged to a process that died.
const ABANDONED: Duration = Duration::from_hours(1);

/// What a cubin is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// The key of what the ptxas of [this digest](CubinCache::digest_of) makes of this text with these flags.
    pub fn new(ptx: &str, ptxas: &str, flags: &[impl AsRef<str>]) -> Key {
        let mut hash = Sha256::new();
        for part in [ptx, ptxas]
            .into_iter()
            .chain(flags.iter().map(AsRef::as_ref))
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(hex(&hash.finalize()))
    }
}

/// A folder of cubins.
#[derive(Clone, Debug)]
pub struct CubinCache {
    folder: Option<PathBuf>,
    limit_bytes: u64,
}

impl CubinCache {
    /// The cache of this user: `$TILEKIT_CACHE_DIR`, else `$XDG_CACHE_HOME/tilekit`, else `~/.cache/tilekit`. An empty
    /// `$TILEKIT_CACHE_DIR` turns it off.
    pub fn of_user() -> CubinCache {
        let folder = user_folder();
        CubinCache {
            folder,
            limit_bytes: DEFAULT_LIMIT_BYTES,
        }
    }

    /// A cache in `folder` that stays below `limit_bytes`.
    pub fn at(folder: impl Into<PathBuf>, limit_bytes: u64) -> CubinCache {
        CubinCache {
            folder: Some(folder.into()),
            limit_bytes,
        }
    }

    /// A cache that keeps nothing.
    pub fn off() -> CubinCache {
        CubinCache {
            folder: None,
            limit_bytes: 0,
        }
    }

    /// Where the cubins are, unless the cache is off.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The digest of a program's file. Reading some 40 MB takes a moment, so it is kept beside the cubins under the file's path, size
    /// and time of change; none where nothing is kept.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn digest_of(&self, program: &Path) -> io::Result<Option<String>> {
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        let kept = folder.join(format!("{}.digest", digest(&identity(program)?)));
        let is_digest = |text: &String| text.len() == 64;
        if let Some(known) = fs::read_to_string(&kept).ok().filter(is_digest) {
            return Ok(Some(known));
        }
        let found = digest(&fs::read(program)?);
        // As everywhere here, a folder that cannot be written costs time alone.
        let _ = write_whole(folder, &kept, found.as_bytes());
        Ok(Some(found))
    }

    /// The cubin kept under `key`. One that was damaged is removed and not returned.
    pub fn get(&self, key: &Key) -> Option<Assembled> {
        let path = self.path(key)?;
        let content = fs::read(&path).ok()?;
        let Some(assembled) = decode(&content) else {
            let _ = fs::remove_file(&path);
            return None;
        };
        // The time of last use decides what is removed first; a read-only folder just does not keep it.
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(assembled)
    }

    /// Keeps `assembled` under `key`, then removes what was used longest ago if the folder has grown too large.
    ///
    /// # Errors
    /// What the file system says; the cache is then as it was, and a caller may continue without it.
    pub fn put(&self, key: &Key, assembled: &Assembled) -> io::Result<()> {
        let (Some(folder), Some(path)) = (&self.folder, self.path(key)) else {
            return Ok(());
        };
        write_whole(folder, &path, &encode(assembled))?;
        self.evict(folder)
    }

    /// Bytes and number of the cubins kept.
    ///
    /// # Errors
    /// What the file system says. A folder that does not exist yet holds nothing.
    pub fn size(&self) -> io::Result<(u64, usize)> {
        let Some(folder) = &self.folder else {
            return Ok((0, 0));
        };
        match entries(folder) {
            Ok(entries) => Ok((entries.iter().map(|entry| entry.bytes).sum(), entries.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((0, 0)),
            Err(error) => Err(error),
        }
    }

    fn path(&self, key: &Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(&key.0).with_extension(SUFFIX))
    }

    fn evict(&self, folder: &Path) -> io::Result<()> {
        let mut kept = entries(folder)?;
        kept.sort_by_key(|entry| entry.used);
        let mut total: u64 = kept.iter().map(|entry| entry.bytes).sum();
        for entry in kept {
            if total <= self.limit_bytes {
                break;
            }
            // Another process may have removed it already, which is as good.
            let _ = fs::remove_file(&entry.path);
            total -= entry.bytes;
        }
        Ok(())
    }
}

/// Where a file is, how large it is and when it was changed.
fn identity(file: &Path) -> io::Result<Vec<u8>> {
    let facts = fs::metadata(file)?;
    let changed = facts.modified()?.duration_since(SystemTime::UNIX_EPOCH);
    let changed = changed.map_or(0, |time| time.as_nanos());
    let place = fs::canonicalize(file)?;
    Ok(format!("{} {} {changed}", place.display(), facts.len()).into_bytes())
}

fn write_whole(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(".writing-")
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// The cubins in `folder`; temporary files of dead processes are removed on the way.
fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // A file that vanished since is another process' eviction.
        let Ok(facts) = fs::metadata(&path) else {
            continue;
        };
        let Ok(used) = facts.modified() else { continue };
        if path
            .extension()
            .is_some_and(|extension| extension == SUFFIX)
        {
            found.push(Entry {
                path,
                bytes: facts.len(),
                used,
            });
        } else if is_abandoned(&path, used) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(found)
}

fn is_abandoned(path: &Path, used: SystemTime) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(".writing-") && used.elapsed().is_ok_and(|age| age > ABANDONED)
}

/// Magic, hash of the rest, length of the log, log, cubin.
fn encode(assembled: &Assembled) -> Vec<u8> {
    let mut body = (assembled.log.len() as u64).to_le_bytes().to_vec();
    body.extend(assembled.log.as_bytes());
    body.extend(&assembled.cubin);
    let mut content = MAGIC.to_vec();
    content.extend(Sha256::digest(&body).as_slice());
    content.extend(body);
    content
}

fn decode(content: &[u8]) -> Option<Assembled> {
    let (hash, body) = content.strip_prefix(MAGIC)?.split_at_checked(32)?;
    if Sha256::digest(body).as_slice() != hash {
        return None;
    }
    let (length, rest) = body.split_first_chunk::<8>()?;
    let (log, cubin) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let log = String::from_utf8(log.to_vec()).ok()?;
    Some(Assembled {
        cubin: cubin.to_vec(),
        report: AssemblyReport::parse(&log),
        log,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "13.0.88";

    fn key(text: &str) -> Key {
        Key::new(text, RELEASE, &["-arch=sm_90a"])
    }

    fn sample(fill: u8, bytes: usize) -> Assembled {
        let log = format!(
            "ptxas info    : Compiling entry function 'k' for 'sm_90a'\nptxas info    : Used {fill} registers\n"
        );
        Assembled {
            cubin: vec![fill; bytes],
            report: AssemblyReport::parse(&log),
            log,
        }
    }

    fn cache(limit_bytes: u64) -> (tempfile::TempDir, CubinCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::at(folder.path().join("made/when/needed"), limit_bytes);
        (folder, cache)
    }

    #[test]
    fn a_stored_cubin_is_found() {
        let (_folder, cache) = cache(1 << 20);
        assert_eq!(cache.get(&key("a")), None);
        assert_eq!(cache.size().unwrap(), (0, 0));
        cache.put(&key("a"), &sample(7, 1000)).unwrap();
        assert_eq!(cache.get(&key("a")), Some(sample(7, 1000)));
        assert_eq!(cache.get(&key("b")), None);
        assert_eq!(cache.size().unwrap().1, 1);
    }

    #[test]
    fn a_program_is_known_by_its_content() {
        let (folder, cache) = cache(1 << 20);
        let program = folder.path().join("ptxas");
        let digest_of = || cache.digest_of(&program).unwrap().unwrap();
        fs::write(&program, "one").unwrap();
        let first = digest_of();
        assert_eq!((&first, &digest_of()), (&digest(b"one"), &digest(b"one")));
        fs::write(&program, "other").unwrap();
        assert_eq!(digest_of(), digest(b"other"));
        assert_eq!(cache.size().unwrap(), (0, 0), "no cubins");
        assert!(cache.digest_of(&folder.path().join("none")).is_err());
        assert_eq!(CubinCache::off().digest_of(&program).unwrap(), None);
    }

    #[test]
    fn the_key_separates_text_release_and_flags() {
        let newer = "13.0.89";
        let keys = [
            key("a"),
            Key::new("a", newer, &["-arch=sm_90a"]),
            Key::new("a", RELEASE, &["-arch=sm_90a", "-v"]),
            Key::new("a", RELEASE, &["-arch=sm_90", "a"]),
            Key::new("", RELEASE, &["a", "-arch=sm_90a"]),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }

    #[test]
    fn any_damaged_byte_and_any_truncation_is_a_miss_and_is_removed() {
        let (_folder, cache) = cache(1 << 20);
        cache.put(&key("a"), &sample(7, 50)).unwrap();
        let path = cache.path(&key("a")).unwrap();
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            for content in [&bad[..], &good[..at]] {
                fs::write(&path, content).unwrap();
                assert_eq!(cache.get(&key("a")), None, "byte {at}");
                assert!(!path.exists(), "byte {at}");
            }
        }
    }

    #[test]
    fn the_least_recently_used_cubin_is_evicted_first() {
        let (_folder, cache) = cache(3500);
        let age = |text: &str, seconds: u64| {
            let file = File::options()
                .append(true)
                .open(cache.path(&key(text)).unwrap())
                .unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
                .unwrap();
        };
        for (text, seconds) in [("a", 30), ("b", 20), ("c", 10)] {
            cache.put(&key(text), &sample(1, 900)).unwrap();
            age(text, seconds);
        }
        assert!(
            cache.get(&key("a")).is_some(),
            "reading makes it the newest"
        );
        cache.put(&key("d"), &sample(1, 900)).unwrap();
        let there = ["a", "b", "c", "d"].map(|text| cache.get(&key(text)).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert!(cache.size().unwrap().0 <= 3500);
    }

    #[test]
    fn files_of_a_dead_writer_are_cleared_and_those_of_a_living_one_kept() {
        let (_folder, cache) = cache(1 << 20);
        cache.put(&key("a"), &sample(1, 10)).unwrap();
        let (dead, living) = (
            cache.folder().unwrap().join(".writing-1"),
            cache.folder().unwrap().join(".writing-2"),
        );
        fs::write(&living, b"half").unwrap();
        let file = File::create(&dead).unwrap();
        file.set_modified(SystemTime::now() - 2 * ABANDONED)
            .unwrap();
        cache.put(&key("b"), &sample(1, 10)).unwrap();
        assert!(!dead.exists() && living.exists());
    }

    #[test]
    fn writers_and_readers_at_the_same_time_never_see_half_an_entry() {
        let (_folder, cache) = cache(20_000);
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..50u8 {
                        let name = format!("{}", round % 5);
                        // Every writer writes the same content for a key, as ptxas does.
                        cache.put(&key(&name), &sample(round % 5, 5000)).unwrap();
                        if let Some(found) = cache.get(&key(&name)) {
                            assert_eq!(found, sample(round % 5, 5000), "writer {writer}");
                        }
                    }
                });
            }
        });
        assert!(cache.size().unwrap().0 <= 20_000 + 6000);
    }

    #[test]
    fn a_folder_that_cannot_exist_is_a_write_error_and_a_read_miss() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        let cache = CubinCache::at(file.join("below"), 1000);
        assert!(cache.put(&key("a"), &sample(1, 10)).is_err());
        assert_eq!(cache.get(&key("a")), None);
        assert!(CubinCache::off().put(&key("a"), &sample(1, 10)).is_ok());
        assert_eq!(CubinCache::off().get(&key("a")), None);
    }
}
