//! Shows places in printed modules.

use super::ShownPlace;
use crate::engine::Engine;
use passhost_lang::ir::Module;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A printed module in which places can be shown.
pub(super) struct Shown {
    what: String,
    text: Arc<str>,
    spans: BTreeMap<String, Vec<Range<usize>>>,
}

impl Shown {
    /// Prints a module; messages call it `what`.
    pub(super) fn new(engine: &Engine, module: &Module, what: &str) -> Shown {
        // If a module cannot be printed, its nodes do not have places.
        let printed = script::print_shown(module, engine);
        let (text, spans) = printed.map_or_else(|_| Default::default(), |printed| (printed.text, printed.spans));
        Shown { what: format!("<{what}>"), text: text.into(), spans }
    }

    /// Returns the place of a node, if it has one.
    pub(super) fn place(&self, function: &str, node: usize) -> Option<ShownPlace> {
        let span = self.spans.get(function)?.get(node)?.clone();
        (!span.is_empty()).then(|| (self.what.clone(), Arc::clone(&self.text), span))
    }
}
