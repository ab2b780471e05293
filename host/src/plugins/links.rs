//! Finds the libraries that the dynamic loader opens together with a library, and the folders in which it looks for them, from the
//! entries of the library.

use crate::plugins::library::Library;
use crate::plugins::object_file::ObjectError;
use object::elf::{
    DT_AUDIT, DT_AUXILIARY, DT_DEPAUDIT, DT_FILTER, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::macho::{LoadCommandIterator, LoadCommandVariant};
use object::read::{ReadCache, ReadRef};
use object::{Endian, File};
use std::fmt;
use std::ops::Range;

/// An entry of a library that makes the dynamic loader open other libraries, or search other folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Name of the entry in tools such as `readelf -d` and `otool -l`.
    kind: &'static str,
    /// A library, or folders.
    value: String,
    /// True if it can only lead to system libraries.
    system: bool,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.value)
    }
}

impl Link {
    /// Returns true if it refers to the location of the library itself.
    pub(crate) fn is_beside(&self) -> bool {
        ["$ORIGIN", "${ORIGIN}", "@loader_path"].iter().any(|mark| self.value.contains(mark))
    }

    /// Returns true if it can lead to a library outside of the system.
    pub(crate) fn is_outside(&self) -> bool {
        !self.system
    }
}

/// The reason why a file cannot be read.
type Reason = Box<dyn std::error::Error + Send + Sync>;

/// Returns all entries of a library that lead to other libraries.
///
/// # Errors
/// If it is not a library.
pub(crate) fn links(library: &Library) -> Result<Vec<Link>, ObjectError> {
    links_in(&ReadCache::new(library.reader())).map_err(|error| ObjectError::NotALibrary(error.to_string()))
}

fn links_in<'d>(data: impl ReadRef<'d>) -> Result<Vec<Link>, Reason> {
    match File::parse(data)? {
        File::Elf32(file) => of_elf(file.elf_header(), file.endian(), data),
        File::Elf64(file) => of_elf(file.elf_header(), file.endian(), data),
        File::MachO32(file) => of_macho(file.endian(), file.macho_load_commands()?),
        File::MachO64(file) => of_macho(file.endian(), file.macho_load_commands()?),
        // Imports in PE images are names without folders.
        _ => Ok(Vec::new()),
    }
}

/// Reads the program headers of an ELF file, as the dynamic loader does; sections may differ from them.
fn of_elf<'d, H: FileHeader>(header: &H, endian: H::Endian, data: impl ReadRef<'d>) -> Result<Vec<Link>, Reason> {
    let segments = header.program_headers(endian, data)?;
    let (mut strings, mut names) = (None, Vec::new());
    for segment in segments {
        let entries = segment.dynamic(endian, data)?.unwrap_or_default().iter();
        for entry in entries.map(|entry| (entry.tag(endian), entry.val(endian))).take_while(|(tag, _)| tag.0 != 0) {
            let kind = match entry.0 {
                DT_STRTAB => {
                    strings = Some(entry.1);
                    continue;
                }
                DT_NEEDED => "NEEDED",
                DT_RPATH => "RPATH",
                DT_RUNPATH => "RUNPATH",
                DT_AUXILIARY => "AUXILIARY",
                DT_FILTER => "FILTER",
                DT_AUDIT => "AUDIT",
                DT_DEPAUDIT => "DEPAUDIT",
                _ => continue,
            };
            names.push((kind, entry.1));
        }
    }
    let strings = strings.and_then(|address| {
        let loaded = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
        loaded.filter_map(|segment| rest_from(segment, endian, address)).next()
    });
    names.into_iter().map(|(kind, at)| elf_link(kind, data, strings.clone().unwrap_or_default(), at)).collect()
}

/// Returns the file range of a segment from an address to the segment's end.
fn rest_from<P: ProgramHeader>(segment: &P, endian: P::Endian, address: u64) -> Option<Range<u64>> {
    let at = address.checked_sub(segment.p_vaddr(endian).into())?;
    let (from, len): (u64, u64) = (segment.p_offset(endian).into(), segment.p_filesz(endian).into());
    (at < len).then_some(from.checked_add(at)?..from.checked_add(len)?)
}

/// Reads an entry whose text is at offset `at` of the string table `strings`.
fn elf_link<'d>(kind: &'static str, data: impl ReadRef<'d>, strings: Range<u64>, at: u64) -> Result<Link, Reason> {
    let from = strings.start.checked_add(at).filter(|from| *from < strings.end);
    let text = from.and_then(|from| data.read_bytes_at_until(from..strings.end, 0).ok());
    let Some(text) = text else { return Err("an entry of its dynamic section is not a string".into()) };
    let value = String::from_utf8_lossy(text).into_owned();
    // The loader searches the system libraries for a bare name. It expands `$LIB` and similar to paths with folders.
    let system = kind == "NEEDED" && !value.contains(['/', '$']);
    Ok(Link { kind, value, system })
}

fn of_macho<E: Endian>(endian: E, commands: LoadCommandIterator<'_, E>) -> Result<Vec<Link>, Reason> {
    let mut links = Vec::new();
    let mut commands = commands;
    while let Some(command) = commands.next()? {
        let (kind, name) = match command.variant()? {
            LoadCommandVariant::Dylib(dylib) => ("LC_LOAD_DYLIB", dylib.dylib.name),
            LoadCommandVariant::Rpath(rpath) => ("LC_RPATH", rpath.path),
            _ => continue,
        };
        let value = String::from_utf8_lossy(command.string(endian, name)?).into_owned();
        let of_system = ["/usr/lib/", "/System/Library/"].iter().any(|folder| value.starts_with(folder));
        let system = kind == "LC_LOAD_DYLIB" && of_system && !value.contains("/../");
        links.push(Link { kind, value, system });
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a Mach-O load command from its number, its number of fields before the name, and the name.
    fn command(number: u32, fields: usize, name: &str) -> Vec<u8> {
        let start = 12 + 4 * fields;
        let len = (start + name.len() + 1).next_multiple_of(8);
        let mut out: Vec<u8> = [number, len as u32, start as u32].iter().flat_map(|word| word.to_le_bytes()).collect();
        out.resize(start, 0);
        out.extend(name.as_bytes());
        out.resize(len, 0);
        out
    }

    fn mach_o(commands: &[Vec<u8>]) -> Vec<u8> {
        let (n, len) = (commands.len() as u32, commands.concat().len() as u32);
        let header = [0xfeed_facf, 0x0100_0007, 3, 6, n, len, 0, 0];
        [header.iter().flat_map(|word: &u32| word.to_le_bytes()).collect(), commands.concat()].concat()
    }

    #[test]
    fn mach_o_names_libraries_and_folders() {
        let file = mach_o(&[
            command(0xd, 3, "@rpath/libplugin.dylib"),
            command(0xc, 3, "/usr/lib/libSystem.B.dylib"),
            command(0xc, 3, "@rpath/libother.dylib"),
            command(0x8000_0018, 3, "/opt/lib/libweak.dylib"),
            command(0xc, 3, "/usr/lib/../../tmp/libx.dylib"),
            command(0x8000_001c, 0, "@loader_path/../lib"),
        ]);
        let links = links_in(file.as_slice()).expect("a Mach-O file");
        let outside: Vec<String> = links.iter().filter(|link| link.is_outside()).map(Link::to_string).collect();
        let expected = [
            "LC_LOAD_DYLIB @rpath/libother.dylib",
            "LC_LOAD_DYLIB /opt/lib/libweak.dylib",
            "LC_LOAD_DYLIB /usr/lib/../../tmp/libx.dylib",
            "LC_RPATH @loader_path/../lib",
        ];
        assert_eq!((links.len(), outside), (5, expected.map(String::from).to_vec()));
        assert!(links[4].is_beside() && !links[0].is_beside());
    }

    #[test]
    fn only_bare_names_of_elf_are_of_the_system() {
        let strings = b"\0libc.so.6\0/opt/libx.so\0$LIB\0lib/y.so\0cut";
        let outside = |kind, at| {
            elf_link(kind, strings.as_slice(), 0..strings.len() as u64, at).ok().map(|link| link.is_outside())
        };
        assert_eq!([1, 11, 24, 29].map(|at| outside("NEEDED", at)), [false, true, true, true].map(Some));
        for kind in ["RPATH", "RUNPATH", "AUXILIARY", "FILTER", "AUDIT", "DEPAUDIT"] {
            assert_eq!(outside(kind, 1), Some(true), "{kind}");
        }
        assert_eq!([38, 1_000].map(|at| outside("NEEDED", at)), [None, None]);
    }
}
