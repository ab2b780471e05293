//! Readers and writers of file formats, by name and by extension.

use super::{Names, Owner, OwnerId, Registry, RegistryError};
use crate::pipeline::{Named, Pipeline, PipelineError, Stage, resolve};
use passhost_lang::metadata::{FormatInfo, OptionValue};
use passhost_lang::names::nearest;
use passhost_lang::names::syntax::TVMSCRIPT;
use std::collections::HashSet;
use std::fmt;

/// The direction of a conversion: from files to modules, or vice versa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Files to modules.
    Read,
    /// Modules to files.
    Write,
}

impl Direction {
    fn named(self) -> Named {
        match self {
            Direction::Read => Named::Reader,
            Direction::Write => Named::Writer,
        }
    }
}

/// Formats the direction as `reader` or `writer`.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named().fmt(f)
    }
}

/// A plugin's reader or writer.
#[derive(Clone, Copy, Debug)]
pub struct Format<'r> {
    /// Name, extensions, options and documentation.
    pub info: &'r FormatInfo,
    /// The plugin that declares the format.
    pub owner: OwnerId,
    /// The position among the plugin's readers or writers.
    pub at: usize,
}

impl Format<'_> {
    /// Returns the values of all options, in the order of their declaration.
    ///
    /// # Errors
    /// If an option is unknown, has the wrong type, is given twice, or is missing.
    pub fn options(
        &self,
        direction: Direction,
        given: &[(String, OptionValue)],
    ) -> Result<Vec<OptionValue>, PipelineError> {
        resolve(direction.named(), &self.info.name, &self.info.options, given)
    }
}

/// Parses the name of a format with options, such as `onnx{strict=true}`.
///
/// # Errors
/// If the string has a different form.
pub fn asked(direction: Direction, text: &str) -> Result<Stage, PipelineError> {
    Pipeline::one_format(direction.named(), text)
}

impl Registry {
    fn names(&self, direction: Direction) -> &Names<FormatInfo> {
        match direction {
            Direction::Read => &self.readers,
            Direction::Write => &self.writers,
        }
    }

    /// Checks the readers or the writers of a plugin before they are added.
    ///
    /// # Errors
    /// If a name is taken, or a declaration is invalid.
    pub(crate) fn check_formats(
        &self,
        owner: &Owner,
        direction: Direction,
        formats: &[FormatInfo],
    ) -> Result<(), RegistryError> {
        let mut fresh = HashSet::new();
        for info in formats {
            let kind = direction.named().word();
            let name = info.name.clone();
            if let Some((field, why)) = info.wrong() {
                return Err(RegistryError::BadField { kind, name, owner: owner.describe(), field, why });
            }
            let first = self.names(direction).owner(&name).map(|id| self.owner(id).describe());
            if let Some(first) = first.or_else(|| (!fresh.insert(&info.name)).then(|| owner.describe())) {
                return Err(RegistryError::Duplicate { kind, name, first, second: owner.describe() });
            }
        }
        Ok(())
    }

    /// Returns the readers or the writers, in the order of addition.
    pub fn formats(&self, direction: Direction) -> impl Iterator<Item = (&FormatInfo, OwnerId)> {
        self.names(direction).iter()
    }

    /// Returns a reader or a writer by its name.
    pub fn format(&self, direction: Direction, name: &str) -> Option<Format<'_>> {
        self.names(direction).get(name).map(|(info, owner, at)| Format { info, owner, at })
    }

    /// Finds a reader or a writer by its name.
    ///
    /// # Errors
    /// If there is none; the error lists all names.
    pub fn find_format(&self, direction: Direction, name: &str) -> Result<Format<'_>, RegistryError> {
        self.format(direction, name).ok_or_else(|| {
            let known = || self.formats(direction).map(|(info, _)| info.name.as_str()).chain([TVMSCRIPT]);
            let near = nearest(name, known());
            let known = known().map(str::to_string).collect();
            RegistryError::UnknownFormat { direction, name: name.to_string(), near, known }
        })
    }

    /// Returns the reader or the writer for files with an extension. Ignores case.
    ///
    /// # Errors
    /// If several formats match.
    pub fn format_of_extension(
        &self,
        direction: Direction,
        extension: &str,
    ) -> Result<Option<Format<'_>>, RegistryError> {
        let is_one = |info: &FormatInfo| info.extensions.iter().any(|own| own.eq_ignore_ascii_case(extension));
        self.only(direction, &format!("files with the extension `{extension}`"), is_one)
    }

    /// Returns the reader for files that begin with these bytes.
    ///
    /// # Errors
    /// If several readers match.
    pub fn reader_of_bytes(&self, bytes: &[u8]) -> Result<Option<Format<'_>>, RegistryError> {
        let is_one = |info: &FormatInfo| info.begins.iter().any(|begin| bytes.starts_with(begin));
        self.only(Direction::Read, "files that begin like this one", is_one)
    }

    fn only(
        &self,
        direction: Direction,
        files: &str,
        is_one: impl Fn(&FormatInfo) -> bool,
    ) -> Result<Option<Format<'_>>, RegistryError> {
        let found: Vec<_> = self.formats(direction).filter(|(info, _)| is_one(info)).collect();
        match found.as_slice() {
            [] => Ok(None),
            [(info, _)] => Ok(self.format(direction, &info.name)),
            several => {
                let describe = |(info, owner): &(&FormatInfo, OwnerId)| {
                    format!("`{}` of {}", info.name, self.owner(*owner).describe())
                };
                let candidates = several.iter().map(describe).collect();
                Err(RegistryError::AmbiguousFormat { direction, files: files.to_string(), candidates })
            }
        }
    }
}
