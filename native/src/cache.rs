//! A cache of object code on disk, keyed by content.
//!
//! The code in the cache is executed, so the folder and its files must belong to the user, and other users must not
//! have write access. Each file ends with a keyed hash (HMAC-SHA256) of its name and its content. The key is a
//! random file in the folder that only the user can read. If a file was damaged, renamed or created elsewhere, its
//! hash does not match, and it is replaced.

use sha2::{Digest, Sha256};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Name of the file that contains the secret key.
const SECRET: &str = "key";
/// Size of the key and of a hash, in bytes.
const HASH: usize = 32;
/// Maximum size of a cached file; the code of any PrimFunc is smaller.
const LARGEST: u64 = 64 << 20;

/// A folder of object code. The name of a file is the hash of its source. Unreadable or damaged files are replaced;
/// an unwritable folder is not an error.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    /// The key, set after the folder was checked; `None` if the folder is not used.
    secret: Arc<OnceLock<Option<Secret>>>,
}

struct Secret([u8; HASH]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Cache {
    /// Creates a cache in a folder, which is created on first use.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: Some(folder.into()), secret: Arc::default() }
    }

    /// Creates a disabled cache: everything is compiled.
    pub fn none() -> Cache {
        Cache { folder: None, secret: Arc::default() }
    }

    /// Returns the folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the name of the code generated from `texts`.
    pub(crate) fn key(texts: &[&str]) -> String {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the object code stored under `key`, if it exists and is intact.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let (secret, path) = (self.secret()?, self.path(key)?);
        let mut bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("{} in the cache of native code is ignored: {error}", path.display());
                return None;
            }
        };
        let hash = bytes.len().checked_sub(HASH).map(|length| bytes.split_off(length));
        if hash.is_some_and(|hash| is_same(&hash, &secret.hash(key, &bytes))) {
            return Some(bytes);
        }
        tracing::warn!("{key} in the cache of native code is damaged or belongs to another user; it is compiled again");
        None
    }

    /// Stores object code. Processes may store the same entry concurrently, because complete files are renamed into
    /// place.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        let (Some(secret), Some(path)) = (self.secret(), self.path(key)) else { return };
        if bytes.len() as u64 + HASH as u64 > LARGEST {
            return;
        }
        let Some(folder) = path.parent() else { return };
        let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
            file.write_all(bytes)?;
            file.write_all(&secret.hash(key, bytes))?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        });
        if let Err(error) = written {
            tracing::debug!("native code could not be stored in {}: {error}", folder.display());
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.o")))
    }

    /// Returns the key of the folder. The first call checks the folder.
    fn secret(&self) -> Option<&Secret> {
        let folder = self.folder.as_ref()?;
        let look = || match Secret::of(folder) {
            Ok(secret) => Some(secret),
            // Warns, because a folder of another user is dangerous. Other failures are ignored, because the cache is
            // optional.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && folder.is_dir() => {
                tracing::warn!("the cache of native code {} is ignored: {error}", folder.display());
                None
            }
            Err(error) => {
                tracing::debug!("the cache of native code {} is ignored: {error}", folder.display());
                None
            }
        };
        self.secret.get_or_init(look).as_ref()
    }
}

impl Secret {
    /// Returns the key of a folder. Creates the folder and the key if necessary.
    fn of(folder: &Path) -> io::Result<Secret> {
        make(folder)?;
        own(&fs::metadata(folder)?, "the folder")?;
        let path = folder.join(SECRET);
        if let Some(secret) = Secret::read(&path) {
            return Ok(secret);
        }
        let mut secret = [0; HASH];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        // Temporary files are private to the user.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&secret)?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(Secret(secret)),
            // Another process created the file first, or the existing file is unusable.
            Err(error) => match Secret::read(&path) {
                Some(secret) => Ok(secret),
                None => error.file.persist(&path).map(|_| Secret(secret)).map_err(|error| error.error),
            },
        }
    }

    fn read(path: &Path) -> Option<Secret> {
        let file = open(path).ok()?;
        is_private(&file.metadata().ok()?).then_some(())?;
        let mut bytes = Vec::new();
        file.take(HASH as u64 + 1).read_to_end(&mut bytes).ok()?;
        bytes.try_into().ok().map(Secret)
    }

    /// Returns the HMAC-SHA256 of an entry. All names have the same length, so the boundary to the content is
    /// unambiguous.
    fn hash(&self, name: &str, content: &[u8]) -> [u8; HASH] {
        const BLOCK: usize = 64;
        let padded = |with: u8| {
            let mut block = [with; BLOCK];
            block.iter_mut().zip(self.0).for_each(|(byte, key)| *byte ^= key);
            block
        };
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(name).chain_update(content).finalize();
        Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
    }
}

/// Compares all bytes in constant time.
fn is_same(one: &[u8], other: &[u8; HASH]) -> bool {
    one.len() == HASH && one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// Reads a file that belongs to the user and is not too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let data = file.metadata()?;
    own(&data, "it")?;
    let too_large = || io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20));
    if data.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(data.len()).unwrap_or(0));
    // The file may grow during the read.
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// Opens a regular file; rejects links, and does not wait for pipes or devices.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Creates a folder that is private to the user.
fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Rejects files that belong to another user or are writable by others.
#[cfg(unix)]
fn own(data: &Metadata, what: &str) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let denied = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let (owner, user) = (data.uid(), user());
    if owner != user {
        return denied(format!(
            "{what} belongs to user {owner}, but the current user is {user}; set XDG_CACHE_HOME to another folder"
        ));
    }
    if data.mode() & 0o022 != 0 {
        return denied(format!("other users can write to {what}; run `chmod go-w` on it"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn own(_: &Metadata, _: &str) -> io::Result<()> {
    Ok(())
}

/// Returns true if other users cannot read a file.
#[cfg(unix)]
fn is_private(data: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.uid() == user() && data.mode() & 0o077 == 0
}

#[cfg(not(unix))]
fn is_private(_: &Metadata) -> bool {
    true
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "geteuid needs unsafe code")]
fn user() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const NAMES: [&str; 2] = ["00000000000000000000000000000001", "00000000000000000000000000000002"];

    fn filled() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("native");
        let cache = Cache::new(&own);
        for (at, name) in NAMES.iter().enumerate() {
            cache.put(name, &[at as u8; 100]);
            assert_eq!(cache.get(name), Some(vec![at as u8; 100]));
        }
        (folder, own)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    #[test]
    fn an_entry_has_one_name_and_one_key() {
        let (_folder, own) = filled();
        let [a, b] = NAMES.map(|name| own.join(format!("{name}.o")));
        assert_eq!(fs::metadata(own.join(SECRET)).expect("a key").permissions().mode() & 0o777, 0o600);
        let saved = fs::read(&a).expect("an entry");
        fs::copy(&b, &a).expect("a copy");
        assert_eq!(Cache::new(&own).get(NAMES[0]), None, "another entry");
        for bit in 0..saved.len() * 8 {
            let mut damaged = saved.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&a, damaged).expect("written");
            assert_eq!(Cache::new(&own).get(NAMES[0]), None, "bit {bit}");
        }
        fs::write(&a, &saved).expect("written");
        assert!(Cache::new(&own).get(NAMES[0]).is_some());
        // Entries of a different folder have a different key. A key readable by other users is considered compromised.
        let (_other, other) = filled();
        fs::copy(other.join(format!("{}.o", NAMES[0])), &a).expect("a copy");
        assert_eq!(Cache::new(&own).get(NAMES[0]), None);
        mode(&own.join(SECRET), 0o644);
        assert_eq!(Cache::new(&own).get(NAMES[1]), None);
        assert_eq!(fs::metadata(own.join(SECRET)).expect("a key").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_others_can_write_to_is_not_used() {
        let (_folder, own) = filled();
        let entry = own.join(format!("{}.o", NAMES[0]));
        for (path, wrong, right) in [(&own, 0o777, 0o700), (&own, 0o720, 0o700), (&entry, 0o606, 0o600)] {
            mode(path, wrong);
            let cache = Cache::new(&own);
            assert_eq!(cache.get(NAMES[0]), None, "{wrong:o}");
            let files = fs::read_dir(&own).expect("a folder").count();
            if path == &own {
                cache.put("00000000000000000000000000000003", b"x");
                assert_eq!(fs::read_dir(&own).expect("a folder").count(), files);
            }
            mode(path, right);
            assert!(Cache::new(&own).get(NAMES[0]).is_some());
        }
    }

    #[test]
    fn files_of_other_kinds_are_not_waited_for() {
        let (folder, own) = filled();
        let entry = own.join(format!("{}.o", NAMES[0]));
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&entry, &elsewhere).expect("moved");
        symlink(&elsewhere, &entry).expect("a link");
        assert_eq!(Cache::new(&own).get(NAMES[0]), None);
        fs::remove_file(&entry).expect("removed");
        let pipe = std::process::Command::new("mkfifo").arg(&entry).status().expect("mkfifo");
        assert!(pipe.success());
        assert_eq!(Cache::new(&own).get(NAMES[0]), None);
        fs::remove_file(&entry).expect("removed");
        fs::create_dir(&entry).expect("a folder");
        assert_eq!(Cache::new(&own).get(NAMES[0]), None);
        fs::remove_dir(&entry).expect("removed");
        File::create(&entry).expect("a file").set_len(6 << 30).expect("a large file");
        assert_eq!(Cache::new(&own).get(NAMES[0]), None);
        Cache::new(&own).put(NAMES[0], b"x");
        assert_eq!(Cache::new(&own).get(NAMES[0]), Some(b"x".to_vec()), "it is made again");
    }
}
