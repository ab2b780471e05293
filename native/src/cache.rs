//! Object code on disk, by its content.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// A folder of object code. Files have the hash of what they were made from as names; a file that cannot be read or is
/// damaged is made again, and a folder that cannot be written is no fault.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// In a folder, which is made when it is needed.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: Some(folder.into()) }
    }

    /// None: everything is compiled.
    pub fn none() -> Cache {
        Cache { folder: None }
    }

    /// The folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The name of what is made from texts.
    pub(crate) fn key(texts: &[&str]) -> String {
        let mut all = String::new();
        for text in texts {
            all.push_str(&format!("{} ", text.len()));
            all.push_str(text);
        }
        format!("{:032x}", xxh3_128(all.as_bytes()))
    }

    /// The object code of a name, if it is there and whole.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        // To read a pipe would wait, and to read a device might not end.
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let mut bytes = fs::read(&path).ok()?;
        let sum = bytes.split_off(bytes.len().checked_sub(8)?);
        if sum == xxh3_64(&bytes).to_le_bytes() {
            return Some(bytes);
        }
        tracing::warn!("{key} in the cache of native code is damaged, and is made again");
        None
    }

    /// Keeps object code. Two processes may do so at once: a file appears whole.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        let Some(path) = self.path(key) else { return };
        let Some(folder) = path.parent() else { return };
        let written = fs::create_dir_all(folder).and_then(|()| {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(bytes)?;
            file.write_all(&xxh3_64(bytes).to_le_bytes())?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        });
        if let Err(error) = written {
            tracing::debug!("native code is not kept in {}: {error}", folder.display());
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.o")))
    }
}
