//! Sites (places in the code that can end a run) and their messages.

use super::Field;
use super::function::Function;
use runtime::program::Access;
use runtime::{Fault, FaultKind};

/// Maximum number of values of a site.
pub(crate) const MOST_VALUES: usize = 128;
/// The negative numbers of special sites: for a fault stored by a callback, and for a call that must be interpreted.
pub(crate) const OF_CALLBACK: i64 = -1;
pub(crate) const INTERPRET: i64 = -2;

/// A place in the code that ends the run.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    kind: Kind,
    /// Number of values that belong to the index.
    index: usize,
    place: String,
}

#[derive(Clone, Debug)]
enum Kind {
    OutOfBounds { of: String },
    DivisionByZero,
    Assertion { message: String },
}

impl Site {
    /// Builds the fault from the values of the site.
    pub(crate) fn fault(&self, values: &[i64]) -> Fault {
        let (index, shape) = values.split_at(self.index.min(values.len()));
        let kind = match &self.kind {
            Kind::OutOfBounds { of } => {
                FaultKind::OutOfBounds { of: of.clone(), index: index.to_vec(), shape: shape.to_vec() }
            }
            Kind::DivisionByZero => FaultKind::DivisionByZero,
            Kind::Assertion { message } => FaultKind::Assertion { message: message.clone() },
        };
        let fault = Fault::from(kind);
        if self.place.is_empty() { fault } else { fault.at(self.place.clone()) }
    }
}

impl Site {
    /// Returns the message without the values.
    pub(super) fn text(&self) -> String {
        let what = match &self.kind {
            Kind::OutOfBounds { of } => format!("an index is outside of {of}"),
            Kind::DivisionByZero => FaultKind::DivisionByZero.to_string(),
            Kind::Assertion { message } => message.clone(),
        };
        if self.place.is_empty() { what } else { format!("{what}; at {}", self.place) }
    }
}

impl Function<'_, '_> {
    fn site(&mut self, kind: Kind, index: usize, place: Option<u32>) -> i64 {
        let places = &self.module.program.places;
        let place = place.and_then(|place| places.get(place as usize)).cloned().unwrap_or_default();
        self.module.sites.push(Site { kind, index, place });
        self.module.sites.len() as i64 - 1
    }

    /// Ends the run unless a condition holds.
    fn unless(&mut self, holds: &str, site: i64, values: &[String]) {
        self.otherwise(holds, |function| function.end_at(site, values));
    }

    /// Emits code that ends the run unless a condition holds. The code is rarely executed, and therefore out of
    /// line.
    fn otherwise(&mut self, holds: &str, ends: impl FnOnce(&mut Self)) {
        let (bad, good) = (self.label(), self.label());
        self.line(format_args!("br i1 {holds}, label %{good}, label %{bad}, !prof !0"));
        self.module.declared.insert("!0 = !{!\"branch_weights\", i32 1000000, i32 1}".to_string());
        self.start(&bad);
        ends(self);
        self.start(&good);
    }

    /// Ends the run.
    fn end_at(&mut self, site: i64, values: &[String]) {
        let at = self.context_at(Field::Site);
        self.line(format_args!("store i64 {site}, ptr {at}, align 8"));
        let at = self.context_at(Field::NValues);
        self.line(format_args!("store i64 {}, ptr {at}, align 8", values.len().min(MOST_VALUES)));
        let all = self.context_field(Field::Values, "ptr");
        for (n, value) in values.iter().take(MOST_VALUES).enumerate() {
            let at = self.op(format_args!("getelementptr i64, ptr {all}, i64 {n}"));
            self.line(format_args!("store i64 {value}, ptr {at}, align 8"));
        }
        self.ret("1");
    }

    /// Requests the interpreter unless a condition holds.
    pub(super) fn interpret_unless(&mut self, holds: &str) {
        self.unless(holds, INTERPRET, &[]);
    }

    /// Checks for division by zero.
    pub(super) fn divides(&mut self, is_fine: &str, place: u32) {
        let site = self.site(Kind::DivisionByZero, 0, Some(place));
        self.unless(is_fine, site, &[]);
    }

    /// Checks an assertion of the program.
    pub(super) fn asserted(&mut self, holds: &str, message: &str, place: u32) {
        let site = self.site(Kind::Assertion { message: message.to_string() }, 0, Some(place));
        self.unless(holds, site, &[]);
    }

    /// Checks that an iterator is within its range.
    pub(super) fn within(&mut self, holds: &str, what: &str, [value, extent]: [&str; 2], place: u32) {
        let site = self.site(Kind::OutOfBounds { of: what.to_string() }, 1, Some(place));
        self.unless(holds, site, &[value.to_string(), extent.to_string()]);
    }

    /// Checks that an index is within the extents of its buffer. The values for the message are computed only if the
    /// check fails.
    pub(super) fn in_extents(&mut self, holds: &str, access: &Access) {
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let of = format!("`{}`", buffer.name);
        let site = self.site(Kind::OutOfBounds { of }, access.index.len(), Some(access.place));
        self.otherwise(holds, |function| {
            let values: Vec<String> =
                access.index.iter().chain(&buffer.shape).map(|form| function.form(form)).collect();
            function.end_at(site, &values);
        });
    }

    /// Checks that a position is within memory.
    pub(super) fn in_memory(&mut self, holds: &str, access: &Access, [position, elements]: [&str; 2]) {
        let buffer = &self.module.program.buffers[access.buffer as usize];
        let of = format!("the memory of `{}`", self.module.program.storages[buffer.storage as usize].name);
        let site = self.site(Kind::OutOfBounds { of }, 1, Some(access.place));
        self.unless(holds, site, &[position.to_string(), elements.to_string()]);
    }
}
