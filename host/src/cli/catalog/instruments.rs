//! Lists and explains the instruments of plugins.

use crate::cli::show::{explain_option, heading, sha256, table};
use crate::engine::Engine;
use registry::{InstrumentId, Registry};

/// Lists all instruments, to be appended to the list of passes. Empty if there are none.
pub(super) fn list(registry: &Registry) -> String {
    let mut found: Vec<_> = registry.instruments().collect();
    if found.is_empty() {
        return String::new();
    }
    found.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let mut rows = vec![["INSTRUMENT", "PLUGIN", "WHAT IT DOES"].map(str::to_string).to_vec()];
    for (id, info) in found {
        let plugin = registry.instrument_owner(id).name.clone();
        rows.push(vec![info.name.clone(), plugin, info.summary()]);
    }
    format!("\n{}", table(&rows))
}

/// Explains one instrument.
pub(super) fn explain_instrument(engine: &Engine, instrument: InstrumentId) -> String {
    let registry = engine.registry();
    let (info, owner) = (registry.instrument(instrument), registry.instrument_owner(instrument));
    let mut out = heading(&format!("{} (instrument)", info.name), &info.doc);
    let mut rows = vec![
        vec!["plugin".to_string(), format!("{} {}", owner.name, owner.version)],
        vec!["file".to_string(), owner.file.as_ref().map_or("-".to_string(), |file| file.display().to_string())],
        vec!["sha256".to_string(), owner.file.as_deref().and_then(sha256).unwrap_or("-".to_string())],
    ];
    if let Some(listed) = engine.listed(registry.instrument_place(instrument).0) {
        rows.push(vec!["plugin API".to_string(), listed.meta.api.to_string()]);
        rows.push(vec!["built by".to_string(), format!("{} for {}", listed.meta.rustc, listed.meta.target)]);
    }
    out.push_str(&table(&rows));
    if !info.options.is_empty() {
        out.push_str("\noptions\n");
        info.options.iter().for_each(|option| explain_option(&mut out, option));
    }
    out
}
