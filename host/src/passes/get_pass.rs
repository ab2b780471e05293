//! The process-wide `GetPass`: the names of all loaded plugins, for embedders that want one registry per process.

use crate::engine::Engine;
use crate::engine::made::MadePass;
use crate::passes::Pass;
use crate::plugins::manifest::Manifest;
use crate::report::error::Error;
use std::sync::{Arc, PoisonError, RwLock};

static GLOBAL: RwLock<Option<Arc<Engine>>> = RwLock::new(None);

/// Lists the plugins of a manifest and makes them the plugins of this process.
///
/// # Errors
/// The first plugin that is refused. The previous plugins then stay.
pub fn load_manifest(manifest: &Manifest) -> Result<Arc<Engine>, Error> {
    Ok(for_the_process(Engine::new(manifest)?))
}

/// Like [`load_manifest`], but refuses plugins that differ from the lockfile, as [`Engine::locked`] does.
///
/// # Errors
/// The first plugin that is refused. The previous plugins then stay.
pub fn load_locked(manifest: &Manifest) -> Result<Arc<Engine>, Error> {
    Ok(for_the_process(Engine::locked(manifest)?))
}

fn for_the_process(engine: Engine) -> Arc<Engine> {
    let engine = Arc::new(engine);
    *GLOBAL.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&engine));
    engine
}

/// Returns the engine of the process, if a manifest was loaded.
pub fn engine() -> Option<Arc<Engine>> {
    GLOBAL.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Finds a pass that can be run, by full name, or by short name if it is unique (TVM's `GetPass`).
///
/// # Errors
/// If no manifest was loaded and no pass was registered, or the name is unknown or ambiguous.
pub fn get_pass(name: &str) -> Result<Pass, Error> {
    let engine = engine().ok_or_else(|| Error::Request {
        message: format!("unknown pass `{name}`: plugins were not loaded"),
        help: "call load_manifest first".to_string(),
    })?;
    Pass::find(&engine, name)
}

/// Adds a pass of this program to the passes of the process. Passes that were obtained before this call do not find
/// the new pass.
///
/// # Errors
/// If the name of the pass is taken or invalid.
pub fn register_pass(pass: MadePass) -> Result<Pass, Error> {
    let name = pass.info().name.clone();
    let mut global = GLOBAL.write().unwrap_or_else(PoisonError::into_inner);
    let mut engine = global.as_deref().cloned().unwrap_or_default();
    engine.add_pass(pass)?;
    let engine = Arc::new(engine);
    let pass = Pass::find(&engine, &name)?;
    *global = Some(engine);
    Ok(pass)
}
