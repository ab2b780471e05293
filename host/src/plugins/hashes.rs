//! Hashes files, and caches the hashes across runs: a file is not read again if its device, inode, size and times match a file that was
//! hashed before.
//!
//! The cache is in the user's own cache folder, one file per manifest. The folder of the plugins may be writable by others, or not writable
//! at all. Anyone who can write to the user's cache folder can already act as the user. `--locked` and `passhost lock` do not use the cache.

use crate::files::{read_small, replace};
use crate::plugins::library::Reader;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Formats a digest as 64 hexadecimal digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Minimum age of a file whose hash is cached. A more recent file can change again without a visible change of its times, because times are
/// this coarse on some systems.
const SETTLED: Duration = Duration::from_secs(2);

/// The state of a file: device, inode, size, time of change and of modification (seconds, nanoseconds).
pub(crate) type Stamp = [i128; 7];

/// Hashes files.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    /// Path of the cache; without one, every file is hashed.
    memory: Option<PathBuf>,
    known: BTreeMap<Stamp, String>,
    used: BTreeMap<Stamp, String>,
}

impl Hashes {
    /// Creates an instance without a cache.
    pub(crate) fn fresh() -> Hashes {
        Hashes::default()
    }

    /// Creates an instance with the cache of a manifest.
    pub(crate) fn remembered(manifest: &Path) -> Hashes {
        let Some(folder) = cache_folder() else { return Hashes::fresh() };
        let manifest = manifest.canonicalize().unwrap_or_else(|_| manifest.to_path_buf());
        let name = hex(&Sha256::digest(manifest.as_os_str().as_encoded_bytes()));
        Hashes::at(folder.join(format!("hashes-{}", &name[..16])))
    }

    fn at(memory: PathBuf) -> Hashes {
        let text = read_small(&memory).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        // Damaged lines are ignored.
        let known = text.lines().filter_map(read_line).collect();
        Hashes { memory: Some(memory), known, used: BTreeMap::new() }
    }

    /// Returns the sha256 of a file's content.
    pub(crate) fn sha256(&mut self, path: &Path) -> io::Result<String> {
        self.sha256_of(&File::open(path)?)
    }

    /// Returns the sha256 of an open file's content.
    pub(crate) fn sha256_of(&mut self, file: &File) -> io::Result<String> {
        let Some(stamp) = self.memory.as_ref().and_then(|_| stamp(&file.metadata().ok()?)) else {
            return content(file);
        };
        let hash = match self.known.get(&stamp) {
            Some(hash) => hash.clone(),
            None => content(file)?,
        };
        if file.metadata().is_ok_and(|after| settled(&after) && self::stamp(&after) == Some(stamp)) {
            self.used.insert(stamp, hash.clone());
        }
        Ok(hash)
    }

    /// Writes the cache, with the entries used in this run, if it changed. A failure is only logged, because files can be hashed again.
    pub(crate) fn save(&self) {
        let Some(memory) = self.memory.as_ref().filter(|_| self.used != self.known) else { return };
        let numbers = |stamp: &Stamp| stamp.map(|number| number.to_string()).join(" ");
        let text: String = self.used.iter().map(|(stamp, hash)| format!("{} {hash}\n", numbers(stamp))).collect();
        let folder = memory.parent().unwrap_or(Path::new("."));
        if let Err(error) = std::fs::create_dir_all(folder).and_then(|()| replace(memory, &text)) {
            tracing::debug!(%error, path = %memory.display(), "hashes are not remembered");
        }
    }
}

fn content(file: &File) -> io::Result<String> {
    let mut file = Reader::of(file);
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            n => digest.update(&buffer[..n]),
        }
    }
}

fn read_line(line: &str) -> Option<(Stamp, String)> {
    let mut words = line.split(' ');
    let mut stamp = [0; 7];
    for slot in &mut stamp {
        *slot = words.next()?.parse().ok()?;
    }
    let hash = words.next().filter(|hash| crate::plugins::lock::is_hash(hash))?;
    Some((stamp, hash.to_string()))
}

fn settled(found: &Metadata) -> bool {
    let changed = found.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    changed.is_some_and(|age| age >= SETTLED) && changed_long_ago(found)
}

#[cfg(unix)]
fn changed_long_ago(found: &Metadata) -> bool {
    let changed = std::os::unix::fs::MetadataExt::ctime(found);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    i128::from(changed) + i128::from(SETTLED.as_secs()) <= i128::from(now)
}

#[cfg(not(unix))]
fn changed_long_ago(_: &Metadata) -> bool {
    true
}

#[cfg(unix)]
pub(crate) fn stamp(found: &Metadata) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    Some([
        found.dev().into(),
        found.ino().into(),
        found.size().into(),
        found.ctime().into(),
        found.ctime_nsec().into(),
        found.mtime().into(),
        found.mtime_nsec().into(),
    ])
}

/// Systems other than Unix lack a reliable stamp.
#[cfg(not(unix))]
pub(crate) fn stamp(_: &Metadata) -> Option<Stamp> {
    None
}

/// Returns the folder for this user's caches.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    let folder = match variable("XDG_CACHE_HOME") {
        Some(folder) => folder,
        None if cfg!(windows) => variable("LOCALAPPDATA")?,
        None => variable("HOME")?.join(below_home),
    };
    Some(folder.join("passhost"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Returns a file that was last changed long ago.
    fn old() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")
    }

    #[test]
    fn what_is_known_is_not_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let stamp = stamp(&std::fs::metadata(old()).expect("a file")).expect("a stamp");
        let known = "0".repeat(64);
        let line = format!("{} {known}\nno line of numbers\n", stamp.map(|n| n.to_string()).join(" "));
        std::fs::write(folder.path().join("memory"), line).expect("a file");
        let mut hashes = Hashes::at(folder.path().join("memory"));
        assert_eq!(hashes.sha256(&old()).expect("a hash"), known);
        assert_ne!(Hashes::fresh().sha256(&old()).expect("a hash"), known);
    }

    #[test]
    fn what_was_read_is_known_the_next_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = folder.path().join("below/memory");
        let mut hashes = Hashes::at(memory.clone());
        let hash = hashes.sha256(&old()).expect("a hash");
        // A file this recent can change again within the same time stamp.
        std::fs::write(folder.path().join("new"), "new").expect("a file");
        hashes.sha256(&folder.path().join("new")).expect("a hash");
        hashes.save();
        let again = Hashes::at(memory);
        assert_eq!(again.known.values().collect::<Vec<_>>(), [&hash]);
    }
}
