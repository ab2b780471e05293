//! Creates libraries that must be refused: a valid library with some changed bytes, or files for other
//! systems.

use object::{Object, ObjectSection};
use std::ops::Range;
use std::path::Path;

/// The bytes of a built plugin, which tests damage.
pub(crate) struct Library(pub(crate) Vec<u8>);

/// A field of the metadata: tag and content.
pub(crate) type Field = (u16, Vec<u8>);

/// Tags of fields. The tags are repeated here as numbers, because the format must not change with the code.
pub(crate) mod tag {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const API: u16 = 3;
    pub(crate) const FINGERPRINT: u16 = 4;
    pub(crate) const PASS: u16 = 16;
    pub(crate) const OPERATOR: u16 = 17;
    pub(crate) const CONFIG: u16 = 18;
    pub(crate) const PROPERTY: u16 = 19;
    pub(crate) const COMPOSITE: u16 = 20;
    pub(crate) const DOC: u16 = 32;
    pub(crate) const REQUIRED: u16 = 34;
    pub(crate) const GRANULARITY: u16 = 36;
    pub(crate) const ESTABLISHES: u16 = 38;
    pub(crate) const PRESERVES: u16 = 39;
    pub(crate) const OPTION: u16 = 41;
}

/// Length of magic, format, tag and length before the fields.
const HEAD: usize = 16;

impl Library {
    pub(crate) fn read(path: &Path) -> Library {
        Library(std::fs::read(path).expect("a library that was built"))
    }

    /// Returns the range of a section in the file.
    pub(super) fn section(&self, name: &str) -> Range<usize> {
        let object = object::File::parse(&*self.0).expect("an object file");
        let (at, len) = object.section_by_name(name).and_then(|section| section.file_range()).expect(name);
        at as usize..(at + len) as usize
    }

    /// Sets the size of a section in the section table.
    pub(super) fn section_size(&mut self, name: &str, size: u64) {
        let range = self.section(name);
        // Offset and size are adjacent in the record of a section.
        let record = [(range.start as u64).to_le_bytes(), (range.len() as u64).to_le_bytes()].concat();
        let found = self.0.windows(record.len()).rposition(|window| window == record).expect("its record");
        self.0[found + 8..found + 16].copy_from_slice(&size.to_le_bytes());
    }

    /// Returns the only occurrence of these bytes in a section.
    fn find(&self, section: &str, bytes: &[u8]) -> usize {
        let range = self.section(section);
        let windows = self.0[range.clone()].windows(bytes.len()).enumerate();
        let found: Vec<usize> = windows.filter(|(_, window)| *window == bytes).map(|(at, _)| at).collect();
        assert_eq!(found.len(), 1, "{} in {section}", bytes.escape_ascii());
        range.start + found[0]
    }

    pub(super) fn replace(mut self, section: &str, old: &[u8], new: &[u8]) -> Library {
        assert_eq!(old.len(), new.len());
        let at = self.find(section, old);
        self.0[at..at + new.len()].copy_from_slice(new);
        self
    }

    /// Changes bytes of the entry table from `at` on. The table is found by its first eight bytes.
    pub(crate) fn entry(mut self, at: usize, bytes: &[u8]) -> Library {
        let table = self.find(".data.rel.ro", &0x5041_5353_484f_5354_u64.to_le_bytes());
        self.0[table + at..table + at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Changes bytes of the metadata section from `at` on.
    pub(super) fn metadata_at(mut self, at: usize, bytes: &[u8]) -> Library {
        let start = self.section(".passhost").start + at;
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Rewrites the fields of the metadata. Removing the documentation of the first pass makes room.
    pub(crate) fn metadata(mut self, change: impl FnOnce(&mut Vec<Field>)) -> Library {
        let section = self.section(".passhost");
        let len = u32::from_le_bytes(self.0[section.start + HEAD - 4..][..4].try_into().expect("4 bytes")) as usize;
        let mut all = fields(&self.0[section.start + HEAD..][..len]);
        edit(&mut all, tag::PASS, |pass| content(pass, tag::DOC).clear());
        change(&mut all);
        let new = bytes(&all);
        assert!(new.len() <= len, "the documentation of the first pass makes too little room");
        self.0[section.start + HEAD..section.end].fill(0);
        self.0[section.start + HEAD..][..new.len()].copy_from_slice(&new);
        self.metadata_at(HEAD - 4, &(new.len() as u32).to_le_bytes())
    }
}

pub(super) fn fields(mut bytes: &[u8]) -> Vec<Field> {
    let mut out = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<6>() {
        let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        out.push((u16::from_le_bytes([head[0], head[1]]), rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    out
}

pub(super) fn bytes(fields: &[Field]) -> Vec<u8> {
    let field =
        |(tag, content): &Field| [&tag.to_le_bytes()[..], &(content.len() as u32).to_le_bytes(), content].concat();
    fields.iter().flat_map(field).collect()
}

/// Returns the content of the first field with that tag.
pub(crate) fn content(fields: &mut [Field], tag: u16) -> &mut Vec<u8> {
    &mut fields.iter_mut().find(|field| field.0 == tag).expect("a field with that tag").1
}

/// Changes the nested fields of the first field with that tag.
pub(super) fn edit(all: &mut [Field], tag: u16, change: impl FnOnce(&mut Vec<Field>)) {
    let content = content(all, tag);
    let mut inner = fields(content);
    change(&mut inner);
    *content = bytes(&inner);
}

/// Returns a library for macOS: an object file marked as a library.
pub(super) fn mach_o() -> Vec<u8> {
    use object::write::{Object, StandardSegment};
    let (format, architecture) = (object::BinaryFormat::MachO, object::Architecture::Aarch64);
    let mut object = Object::new(format, architecture, object::Endianness::Little);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    let section = object.add_section(segment, b"__passhost".to_vec(), object::SectionKind::Data);
    object.append_section_data(section, b"PASSHOST", 8);
    let mut bytes = object.write().expect("a Mach-O file");
    bytes[12..16].copy_from_slice(&object::macho::MH_DYLIB.0.to_le_bytes());
    bytes
}

/// Returns a library for Windows.
pub(super) fn pe() -> Vec<u8> {
    use object::pe;
    let mut bytes = Vec::new();
    let data = b"PASSHOST";
    let mut writer = object::write::pe::Writer::new(true, 0x1000, 0x200, &mut bytes);
    writer.reserve_dos_header();
    writer.reserve_nt_headers(16);
    writer.reserve_section_headers(1);
    let section = writer.reserve_rdata_section(data.len() as u32);
    writer.write_empty_dos_header().expect("room for a header");
    writer.write_nt_headers(object::write::pe::NtHeaders {
        machine: pe::IMAGE_FILE_MACHINE_AMD64,
        time_date_stamp: 0,
        characteristics: pe::IMAGE_FILE_DLL | pe::IMAGE_FILE_EXECUTABLE_IMAGE | pe::IMAGE_FILE_LARGE_ADDRESS_AWARE,
        major_linker_version: 14,
        minor_linker_version: 0,
        address_of_entry_point: 0,
        image_base: 0x1_8000_0000,
        major_operating_system_version: 6,
        minor_operating_system_version: 0,
        major_image_version: 0,
        minor_image_version: 0,
        major_subsystem_version: 6,
        minor_subsystem_version: 0,
        subsystem: pe::IMAGE_SUBSYSTEM_WINDOWS_CUI,
        dll_characteristics: pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE,
        size_of_stack_reserve: 0,
        size_of_stack_commit: 0,
        size_of_heap_reserve: 0,
        size_of_heap_commit: 0,
    });
    writer.write_section_headers();
    writer.write_section(section.file_offset, data);
    bytes
}
