//! The zip file: its entries, by name. Stored entries are parts of the mapped file; compressed entries are inflated.

use importer::tensor::Res;
use plugin_api::declare::formats::FileBytes;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::ops::Range;
use zip::{CompressionMethod, ZipArchive};

/// Maximum number of entries.
const MOST_ENTRIES: usize = 1 << 20;
/// A compressed entry may inflate to this many times its size, plus a few bytes.
const EXPANSION: u64 = 200;
const SMALL: u64 = 1 << 20;
/// Maximum size of a program as JSON.
const LONGEST_TEXT: u64 = 1 << 30;

struct Entry {
    data: Range<usize>,
    size: u64,
    is_stored: bool,
}

/// An archive that `torch.export.save` wrote.
pub(crate) struct Archive {
    file: FileBytes,
    /// Inflates entries. A clone shares the directory of the archive, which is read once.
    zip: ZipArchive<Cursor<FileBytes>>,
    entries: BTreeMap<String, Entry>,
    /// The folder that contains all entries, with `/` at its end.
    root: String,
}

impl Archive {
    /// Opens an archive. All entries must lie within the file.
    pub(crate) fn open(file: FileBytes) -> Res<Archive> {
        let broken = |error: zip::result::ZipError| {
            format!("it is not a complete zip archive: {error}; check that it was written or downloaded completely")
        };
        let mut entries = BTreeMap::new();
        let mut zip = ZipArchive::new(Cursor::new(file.clone())).map_err(broken)?;
        if zip.len() > MOST_ENTRIES {
            return Err(format!("the archive has {} entries; at most {MOST_ENTRIES} are supported", zip.len()));
        }
        for at in 0..zip.len() {
            let entry = zip.by_index_raw(at).map_err(broken)?;
            let name = entry.name().map_err(broken)?.into_owned();
            if entry.is_dir() {
                continue;
            }
            if entry.encrypted() {
                return Err(format!("the entry `{name}` is encrypted"));
            }
            let is_stored = match entry.compression() {
                CompressionMethod::Stored => true,
                CompressionMethod::Deflated => false,
                other => return Err(format!("the entry `{name}` is compressed by {other}; store or deflate it")),
            };
            let (start, packed, size) = (entry.data_start(), entry.compressed_size(), entry.size());
            let data = start.and_then(|start| {
                let end = start.checked_add(packed).filter(|end| *end <= file.bytes().len() as u64)?;
                Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
            });
            let data = data.filter(|_| !is_stored || packed == size);
            let data = data.ok_or_else(|| format!("the entry `{name}` does not lie within the archive"))?;
            entries.insert(name, Entry { data, size, is_stored });
        }
        let root = root_of(&entries)?;
        Ok(Archive { file, zip, entries, root })
    }

    /// Returns true if there is an entry with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(&format!("{}{name}", self.root))
    }

    /// Returns the names of the entries in a folder with an extension, without both.
    pub(crate) fn names(&self, folder: &str, extension: &str) -> Vec<&str> {
        let prefix = format!("{}{folder}/", self.root);
        let names = self.entries.keys().filter_map(|name| name.strip_prefix(&prefix)?.strip_suffix(extension));
        names.filter(|name| !name.contains('/')).collect()
    }

    /// Returns the content of an entry.
    pub(crate) fn content(&self, name: &str) -> Res<Cow<'_, [u8]>> {
        let missing = || format!("the archive lacks the entry `{name}`");
        let entry = self.entries.get(&format!("{}{name}", self.root)).ok_or_else(missing)?;
        let data = &self.file.bytes()[entry.data.clone()];
        if entry.is_stored {
            return Ok(Cow::Borrowed(data));
        }
        let most = (data.len() as u64).saturating_mul(EXPANSION).saturating_add(SMALL);
        if entry.size > most {
            return Err(format!(
                "the entry `{name}` inflates from {} to {} bytes, which is not plausible; store it uncompressed",
                data.len(),
                entry.size
            ));
        }
        let mut zip = self.zip.clone();
        let reader = zip.by_name(&format!("{}{name}", self.root)).map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        let read = reader.take(entry.size + 1).read_to_end(&mut content);
        read.map_err(|error| format!("the entry `{name}` cannot be inflated: {error}"))?;
        match content.len() as u64 == entry.size {
            true => Ok(Cow::Owned(content)),
            false => Err(format!("the entry `{name}` does not have the size that the archive states")),
        }
    }

    /// Returns an entry as text.
    pub(crate) fn text(&self, name: &str) -> Res<Cow<'_, str>> {
        let content = self.content(name)?;
        if content.len() as u64 > LONGEST_TEXT {
            return Err(format!("the entry `{name}` is longer than {LONGEST_TEXT} bytes"));
        }
        let text = match content {
            Cow::Borrowed(bytes) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        };
        text.ok_or_else(|| format!("the entry `{name}` is not UTF-8"))
    }
}

/// Returns the folder that contains all entries, and refuses archives of other forms.
fn root_of(entries: &BTreeMap<String, Entry>) -> Res<String> {
    let root = entries.keys().find_map(|name| {
        let root = name.strip_suffix("archive_format")?;
        (root.is_empty() || root.strip_suffix('/').is_some_and(|folder| !folder.contains('/')))
            .then(|| root.to_string())
    });
    if let Some(root) = root {
        return Ok(root);
    }
    let has = |end: &str| entries.keys().any(|name| name == end || name.ends_with(&format!("/{end}")));
    Err(if has("serialized_exported_program.json") {
        "the archive has the form of PyTorch 2.7 and earlier; export the model again with PyTorch 2.8 or newer"
    } else if has("constants.pkl") {
        "the archive is a TorchScript model; export the model by `torch.export.export` and `torch.export.save`"
    } else if has("data.pkl") {
        "the archive contains pickled objects of `torch.save`; export the model by `torch.export.export` and \
         `torch.export.save`"
    } else {
        "the zip archive was not written by `torch.export.save`: it lacks the entry `archive_format`"
    }
    .to_string())
}
