//! Writes wheels, the archives that pip installs. The same content always gives the same bytes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use sha2::{Digest, Sha256};
use std::io::{self, Cursor, Write};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A wheel under construction.
pub(super) struct Wheel {
    /// Module name and version, joined as in the file name of the wheel.
    stem: String,
    files: Vec<(String, Vec<u8>)>,
}

impl Wheel {
    pub(super) fn new(module: &str, version: &str) -> Wheel {
        Wheel { stem: format!("{module}-{version}"), files: Vec::new() }
    }

    /// Returns the part of the file name before the tags.
    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    /// Adds a file to the wheel.
    pub(super) fn add(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push((path.to_string(), content.into()));
    }

    /// Returns the bytes of the archive.
    ///
    /// # Errors
    /// If a file is larger than an archive can hold.
    pub(super) fn finish(mut self, tag: &str, metadata: &str, entry_points: &str) -> io::Result<Vec<u8>> {
        let info = format!("{}.dist-info", self.stem);
        let generator = concat!("passhost ", env!("CARGO_PKG_VERSION"));
        let wheel =
            format!("Wheel-Version: 1.0\nGenerator: {generator}\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n");
        self.add(&format!("{info}/METADATA"), metadata);
        self.add(&format!("{info}/WHEEL"), wheel);
        self.add(&format!("{info}/entry_points.txt"), entry_points);
        let mut record = String::new();
        for (path, content) in &self.files {
            let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
            record += &format!("{path},sha256={hash},{}\n", content.len());
        }
        record += &format!("{info}/RECORD,,\n");
        self.add(&format!("{info}/RECORD"), record);
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(0o644);
        for (path, content) in &self.files {
            archive.start_file(path.as_str(), options.large_file(content.len() > u32::MAX as usize))?;
            archive.write_all(content)?;
        }
        Ok(archive.finish()?.into_inner())
    }
}

/// Returns the GNU C library release that a library needs, derived from the versions of its symbols; `None` if no
/// symbol has such a version.
pub(super) fn glibc_needed(library: &[u8]) -> Option<(u32, u32)> {
    let header = FileHeader64::<Endianness>::parse(library).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, library).ok()?;
    let (mut needed, strings) = sections.iter().find_map(|section| section.gnu_verneed(endian, library).ok()?)?;
    let strings = sections.strings(endian, library, strings).ok()?;
    let mut newest = None;
    while let Some((_, mut parts)) = needed.next().ok()? {
        while let Some(part) = parts.next().ok()? {
            let name = part.name(endian, strings).ok()?;
            newest = newest.max(std::str::from_utf8(name).ok().and_then(release));
        }
    }
    newest
}

/// Reads the major and minor number of a version such as `GLIBC_2.34` or `GLIBC_2.2.5`.
fn release(symbol: &str) -> Option<(u32, u32)> {
    let mut numbers = symbol.strip_prefix("GLIBC_")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_symbols() {
        assert_eq!(release("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(release("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(release("GLIBC_PRIVATE"), None);
        assert_eq!(release("GCC_3.0"), None);
        assert_eq!(glibc_needed(b"\x7fELF"), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn this_program_needs_a_c_library() {
        let program = std::fs::read("/proc/self/exe").expect("this program");
        assert!(glibc_needed(&program).is_some_and(|(major, minor)| major == 2 && minor >= 17));
    }
}
