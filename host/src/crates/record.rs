//! What passhost knows of a library that cargo built: from which files, with which content, and whether it was passhost
//! that had it built. It lies beside the library, for this machine alone.
//!
//! Cargo judges by times. So a library that was written over, or sources that were replaced by older files, look to it as
//! if nothing had happened; the hashes here tell.

use crate::output::replace;
use std::path::{Path, PathBuf};

/// The record of one library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Folder of its crate: in a shared target folder, the library of another crate can have the same name.
    pub(super) folder: String,
    /// Digest of what the crate is made of, as the lockfile has it.
    pub(crate) sources: String,
    /// Digest of the other files that cargo read, as the lockfile has it, if there are any.
    pub(crate) inputs: Option<String>,
    /// Digest of all files that cargo read.
    pub(super) compiled: String,
    /// sha256 of the library.
    pub(super) library: String,
    /// Whether cargo built it when passhost asked for that. If not, it was there already.
    pub(super) built: bool,
    /// Hash of names, sizes and times of everything, the library, too.
    pub(super) stamps: String,
}

const HEAD: &str = "# What passhost knows of the library beside this file. To delete it costs a build, no more.";

/// Where the record of a library is.
fn path_of(library: &Path) -> PathBuf {
    library.with_extension("passhost")
}

impl Record {
    /// The record of a library; nothing if there is none, or it is damaged.
    pub(super) fn read(library: &Path) -> Option<Record> {
        let text = std::fs::read_to_string(path_of(library)).ok()?;
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut field = |name: &str| {
            let value = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
            Some(value.to_string())
        };
        let folder = field("crate")?;
        let sources = field("sources")?;
        let inputs = field("inputs").map(|inputs| (inputs != "none").then_some(inputs))?;
        let (compiled, library) = (field("compiled")?, field("library")?);
        let built = field("built")? == "yes";
        Some(Record { folder, sources, inputs, compiled, library, built, stamps: field("stamps")? })
    }

    /// Writes the record. One that cannot be written is only logged: the library is built again some time.
    pub(super) fn write(&self, library: &Path) {
        let Record { folder, sources, inputs, compiled, library: hash, built, stamps } = self;
        let (inputs, built) = (inputs.as_deref().unwrap_or("none"), if *built { "yes" } else { "no" });
        let text = format!(
            "{HEAD}\ncrate {folder}\nsources {sources}\ninputs {inputs}\ncompiled {compiled}\nlibrary {hash}\n\
             built {built}\nstamps {stamps}\n"
        );
        if let Err(error) = replace(&path_of(library), &text) {
            tracing::debug!(%error, path = %path_of(library).display(), "the build is not recorded");
        }
    }

    /// Whether both are of the same crate as it is now, and of the same library.
    pub(super) fn is_of(&self, now: &Record) -> bool {
        let Record { folder, sources, inputs, compiled, library, built: _, stamps: _ } = self;
        (folder, sources, inputs) == (&now.folder, &now.sources, &now.inputs)
            && (compiled, library) == (&now.compiled, &now.library)
    }

    /// Whether it is of an older state of the crate, from which the library is still: cargo, which goes by times, did not
    /// see that a file changed.
    pub(super) fn is_of_older_files(&self, now: &Record) -> bool {
        self.folder == now.folder && self.library == now.library && self.compiled != now.compiled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("libx.so");
        assert_eq!(Record::read(&library), None);
        let text = |text: &str| text.to_string();
        for (inputs, built) in [(None, true), (Some(text("2")), false)] {
            let (folder, sources, compiled) = (text("/a folder/x"), text("1"), text("3"));
            let record = Record { folder, sources, inputs, compiled, library: text("4"), built, stamps: text("5") };
            record.write(&library);
            assert_eq!(Record::read(&library), Some(record));
        }
        std::fs::write(path_of(&library), "crate x\n").expect("a file");
        assert_eq!(Record::read(&library), None);
    }
}
