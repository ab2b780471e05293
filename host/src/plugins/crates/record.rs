//! The record of a library that cargo built: its inputs with their hashes, and whether passhost requested the build. `--locked` relies on it,
//! so it is stored in the user's own cache folder rather than next to the library, where others may write. Without such a folder nothing is
//! recorded.
//!
//! Cargo compares times, so it does not notice an overwritten library, or sources replaced by older files. The hashes in the record detect
//! both.

use crate::files::replace;
use crate::plugins::hashes::{cache_folder, hex};
use crate::plugins::lock::CratePin;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The record of one library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Folder of its crate, because in a shared target folder the library of another crate can have the same name.
    pub(super) folder: String,
    /// The inputs of the crate, as in the lockfile.
    pub(crate) pin: CratePin,
    /// Digest of everything that cargo read.
    pub(super) compiled: String,
    /// sha256 of the library.
    pub(super) library: String,
    /// True if cargo built the library when passhost requested a build; false if the library already existed.
    pub(super) built: bool,
    /// Hash of the names, sizes and times of all inputs and of the library.
    pub(super) stamps: String,
}

/// Returns the path of a library's record.
pub(super) fn path_of(library: &Path) -> Option<PathBuf> {
    let name = hex(&Sha256::digest(library.as_os_str().as_encoded_bytes()));
    Some(cache_folder()?.join("builds").join(&name[..32]).with_extension("json"))
}

impl Record {
    /// Reads the record of a library. Returns `None` if it is missing or damaged.
    pub(super) fn read(library: &Path) -> Option<Record> {
        Record::parse(&std::fs::read_to_string(path_of(library)?).ok()?)
    }

    fn parse(text: &str) -> Option<Record> {
        let record: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| record[name].as_str().map(str::to_string);
        let table = |name: &str| -> Option<BTreeMap<String, String>> {
            let digest = |(name, digest): (&String, &Value)| Some((name.clone(), digest.as_str()?.to_string()));
            record[name].as_object()?.iter().map(digest).collect()
        };
        Some(Record {
            folder: field("crate")?,
            pin: CratePin { sources: field("sources")?, inputs: table("inputs")?, env: table("env")? },
            compiled: field("compiled")?,
            library: field("library")?,
            built: record["built"].as_bool()?,
            stamps: field("stamps")?,
        })
    }

    fn text(&self) -> String {
        let Record { folder, pin: CratePin { sources, inputs, env }, compiled, library, built, stamps } = self;
        let record = json!({
            "crate": folder, "sources": sources, "inputs": inputs, "env": env, "compiled": compiled,
            "library": library, "built": built, "stamps": stamps,
        });
        record.to_string()
    }

    /// Writes the record. A failure is only logged, because the library can be built again.
    pub(super) fn write(&self, library: &Path) {
        let Some(path) = path_of(library) else { return };
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = made.and_then(|()| replace(&path, self.text())) {
            tracing::debug!(%error, path = %path.display(), "the build is not recorded");
        }
    }

    /// Returns true if both records describe the same library and the same state of the crate.
    pub(super) fn is_of(&self, now: &Record) -> bool {
        let Record { folder, pin, compiled, library, built: _, stamps: _ } = self;
        (folder, pin, compiled, library) == (&now.folder, &now.pin, &now.compiled, &now.library)
    }

    /// Returns true if the record describes an older state of the crate, but the library is still the same: cargo, which compares times, did
    /// not notice a changed file.
    pub(super) fn is_of_older_files(&self, now: &Record) -> bool {
        self.folder == now.folder && self.library == now.library && self.compiled != now.compiled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = |text: &str| text.to_string();
        let some = BTreeMap::from([(text("a \"b\"\n"), text("2"))]);
        for (others, built) in [(BTreeMap::new(), true), (some, false)] {
            let pin = CratePin { sources: text("1"), inputs: others.clone(), env: others };
            let (folder, compiled) = (text("/a folder/x"), text("3"));
            let record = Record { folder, pin, compiled, library: text("4"), built, stamps: text("5") };
            assert_eq!(Record::parse(&record.text()), Some(record.clone()));
            for end in 0..record.text().len() {
                assert_eq!(Record::parse(&record.text()[..end]), None);
            }
        }
        assert_eq!(Record::parse("crate x\n"), None);
    }
}
