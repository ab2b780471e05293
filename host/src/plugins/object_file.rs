//! Inspects the file of a plugin before it is opened: its kind, its completeness, and its metadata section. No code of the plugin runs. A
//! truncated library would crash the process inside the dynamic loader.

use crate::plugins::library::Library;
use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use object::read::{ReadCache, ReadRef};
use object::{Architecture, BinaryFormat, Endianness, Object, ObjectKind, ObjectSection, ObjectSegment};
use std::path::Path;

/// Maximum size of the metadata in bytes; 100,000 passes with some lines of documentation each need less.
const MAX_METADATA: u64 = 64 << 20;

/// The reason why a file is not a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The file cannot be opened.
    #[error("{0}")]
    Open(String),
    /// The file was written to or replaced while it was in use.
    #[error("changed while it was being opened")]
    Changed,
    /// The file is not a regular file.
    #[error("is {0}, not a file")]
    NotAFile(&'static str),
    /// The file is not a shared library.
    #[error("is not a shared library ({0})")]
    NotALibrary(String),
    /// The library is for another system.
    #[error("is a library for {found}, but this host runs on {host}")]
    Foreign {
        /// Format and architecture of the file.
        found: String,
        /// Format and architecture of the host.
        host: String,
    },
    /// The file ends too early.
    #[error("is truncated: {what} ends at byte {end}, but the file at byte {len}")]
    Truncated {
        /// The incomplete part of the file.
        what: String,
        /// Offset at which that part ends.
        end: u64,
        /// Length of the file.
        len: u64,
    },
    /// The metadata section is too large.
    #[error("its section `.passhost` has {0} bytes, more than {MAX_METADATA}")]
    TooLarge(u64),
    /// The metadata section is missing.
    #[error("is not a passhost plugin: the section `.passhost` is missing")]
    NoMetadata,
}

impl ObjectError {
    /// Returns advice on what to do.
    pub fn help(&self) -> &'static str {
        match self {
            ObjectError::Open(_) => "correct the path in the manifest, or build the plugin first",
            ObjectError::Changed => "run the command again once the plugin is built",
            ObjectError::NotAFile(_) | ObjectError::NotALibrary(_) => {
                "give the library that cargo builds for a crate of crate-type cdylib"
            }
            ObjectError::Foreign { .. } => "build the plugin for this system, or list it as `crate`",
            ObjectError::Truncated { .. } | ObjectError::TooLarge(_) => "copy or build it again",
            ObjectError::NoMetadata => "its crate must call `export_plugin!` of passhost-plugin-api",
        }
    }
}

/// Reads the metadata section of a library for this host.
///
/// # Errors
/// The first fault of the file.
pub fn metadata(path: &Path) -> Result<Vec<u8>, ObjectError> {
    metadata_if(&Library::open(path)?, || true)
}

/// Like [`metadata`]. Calls `allowed` once the file is known to be a complete library for this system, and returns
/// `None` if `allowed` returns false.
///
/// # Errors
/// As for [`metadata`].
pub fn metadata_if(library: &Library, allowed: impl FnOnce() -> bool) -> Result<Vec<u8>, ObjectError> {
    let file = library.file();
    let len = file.metadata().map_err(|error| ObjectError::Open(error.to_string()))?.len();
    let cache = ReadCache::new(library.reader());
    let not_a_library = |error: object::Error| ObjectError::NotALibrary(error.to_string());
    let object =
        object::File::parse(&cache).map_err(|error| elf_cut_off(&cache, len).unwrap_or(not_a_library(error)))?;
    check_system(&object)?;
    check_whole(&object, len)?;
    if !allowed() {
        return Ok(Vec::new());
    }
    section(&object)
}

/// Reads the metadata section of a library for any system.
///
/// # Errors
/// If it is not a plugin.
pub fn metadata_of_any_system(library: &[u8]) -> Result<Vec<u8>, ObjectError> {
    let object = object::File::parse(library).map_err(|error| ObjectError::NotALibrary(error.to_string()))?;
    check_whole(&object, library.len() as u64)?;
    section(&object)
}

fn section<'d, R: ReadRef<'d>>(object: &object::File<'d, R>) -> Result<Vec<u8>, ObjectError> {
    // In PE images, linkers truncate section names to eight bytes.
    let names = [".passhost", ".passhos", "__passhost"];
    let section = object.sections().find(|section| section.name().is_ok_and(|name| names.contains(&name)));
    let section = section.ok_or(ObjectError::NoMetadata)?;
    if section.size() > MAX_METADATA {
        return Err(ObjectError::TooLarge(section.size()));
    }
    let data = section.data().map_err(|error| ObjectError::NotALibrary(error.to_string()))?;
    Ok(data.to_vec())
}

/// Returns an error if an ELF file ends before its section table, which linkers write last.
fn elf_cut_off<'d>(data: impl ReadRef<'d>, len: u64) -> Option<ObjectError> {
    let truncated = |what: &str, end: u64| Some(ObjectError::Truncated { what: what.to_string(), end, len });
    if data.read_bytes_at(0, 4).ok()? != object::elf::ELFMAG.as_slice() {
        return None;
    }
    let size = size_of::<FileHeader64<Endianness>>() as u64;
    if len < size {
        return truncated("its header", size);
    }
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let table = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    let end = header.e_shoff(endian).saturating_add(table);
    if end > len { truncated("its table of sections", end) } else { None }
}

fn check_system<'d, R: object::ReadRef<'d>>(object: &object::File<'d, R>) -> Result<(), ObjectError> {
    if object.kind() != ObjectKind::Dynamic {
        let kind = format!("{:?}", object.kind()).to_lowercase();
        return Err(ObjectError::NotALibrary(format!("an object file of kind {kind}")));
    }
    let format = if cfg!(target_os = "macos") {
        BinaryFormat::MachO
    } else if cfg!(windows) {
        BinaryFormat::Pe
    } else {
        BinaryFormat::Elf
    };
    let host_architecture = match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        "x86" => Architecture::I386,
        "riscv64" => Architecture::Riscv64,
        _ => object.architecture(),
    };
    if object.format() != format || object.architecture() != host_architecture {
        return Err(ObjectError::Foreign {
            found: format!("{:?} {:?}", object.format(), object.architecture()),
            host: format!("{format:?} {host_architecture:?}"),
        });
    }
    Ok(())
}

fn check_whole<'d>(object: &impl Object<'d>, len: u64) -> Result<(), ObjectError> {
    let truncated = |what: String, end: u64| ObjectError::Truncated { what, end, len };
    for segment in object.segments() {
        let (start, size) = segment.file_range();
        let end = start.saturating_add(size);
        if end > len {
            return Err(truncated("a segment".to_string(), end));
        }
    }
    for section in object.sections() {
        if let Some((start, size)) = section.file_range() {
            let end = start.saturating_add(size);
            if end > len {
                return Err(truncated(format!("section {}", section.name().unwrap_or("?")), end));
            }
        }
    }
    Ok(())
}
