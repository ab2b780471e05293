//! Writes the page that shows a run.

use super::show;
use crate::cli::instruments;
use crate::engine::Engine;
use crate::files::Output;
use crate::page::{self, About};
use crate::report::error::Error;
use crate::run::RunReport;
use crate::run::validate::{Checked, ValidatedStep};
use registry::{Pipeline, Plan};
use std::path::Path;

/// A page to write at the end of the run.
pub(super) struct Page {
    file: Output,
    /// True if only the data of the page is written.
    is_data: bool,
}

impl Page {
    /// Checks the file for the page.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn to(shown: &Path) -> Result<Page, Error> {
        let is_data = shown.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        Ok(Page { file: Output::look(shown)?, is_data })
    }

    /// Writes the page.
    ///
    /// # Errors
    /// If a module of the run cannot be printed, or the file cannot be written.
    pub(super) fn write(
        &self,
        engine: &Engine,
        (input, pipeline, plan): (&str, &Pipeline, &Plan),
        seen: &instruments::Seen,
        report: &RunReport,
        (steps, checked): (&[ValidatedStep], &[Checked]),
    ) -> Result<(), Error> {
        let Some(trace) = &seen.trace else { return Ok(()) };
        let summary = show::summary_rows(report, engine.registry(), page::MOST_ROWS);
        let data = page::data(engine, &About { input, pipeline, plan, summary, trace, checked }, report, steps)?;
        self.file.write(&if self.is_data { format!("{data}\n") } else { page::html(&data)? })
    }
}
