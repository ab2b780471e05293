//! Lists and opens the plugins of a request, and reads its module.

use super::grants::without_effect;
use crate::cli::arguments::{InputArgs, IsolateArgs};
use crate::cli::building::Building;
use crate::cli::listing::listed_of;
use crate::cli::messages::Messages;
use crate::context::PassContext;
use crate::engine::Engine;
use crate::plugins::loader::Listed;
use crate::plugins::lock::Keeper;
use crate::plugins::manifest::Manifest;
use crate::report::error::{Error, exit};
use crate::text::Input;
use crate::{process, workers};
use passhost_lang::ir::Module;
use registry::Plan;
use std::sync::Arc;

/// Opens the input module.
pub(in crate::cli) fn read_input(args: &InputArgs) -> Result<Input, Error> {
    let input = match args.input.as_os_str() == "-" {
        true => Input::stream_as("<stdin>", std::io::stdin().lock(), args.from.as_deref()),
        false => Input::file_as(&args.input, args.from.as_deref()),
    };
    input.map(|input| input.params(args.params.clone()))
}

/// Creates the engine of a manifest, and lists its plugins.
pub(in crate::cli) fn engine(
    manifest: &Manifest,
    keeper: Keeper,
    isolate: &IsolateArgs,
    messages: Messages,
) -> Result<Arc<Engine>, Error> {
    messages.reports(without_effect(manifest, isolate).into_iter(), "warnings");
    let building = Building::new(messages);
    let engine = Arc::new(listed_of(manifest, keeper, &building, messages)?);
    engine.isolates(isolate.isolation());
    engine.tries_first(try_out);
    engine.prints_to(move |text| messages.text("printed", text));
    Ok(engine)
}

/// Opens the plugins of the plan, and tries out the plugin that reads the input.
pub(super) fn open(engine: &Engine, plan: &Plan, input: &Input, messages: Messages) -> Result<(), Error> {
    engine.prepare(input)?;
    engine.open_for(plan)?.iter().for_each(|warning| messages.report(warning));
    Ok(())
}

/// Reads the input module, and reports the warnings of its reader.
pub(in crate::cli) fn read(
    engine: &Engine,
    context: &PassContext,
    input: &Input,
    messages: Messages,
) -> Result<Module, Error> {
    let reading = engine.read_module_in(input, context);
    messages.reports(reading.warnings(), "warnings");
    reading.module
}

/// Returns an error if this process is a copy that a plugin forked.
pub(in crate::cli) fn in_the_original_process() -> Result<(), Error> {
    if process::is_original() {
        return Ok(());
    }
    let message = "a plugin forked the process, and the copy continued the run".to_string();
    let help = "the copy does not write anything; a plugin that forks must end its child".to_string();
    Err(Error::Ended { message, help, code: exit::PLUGIN })
}

/// Opens a library that is not in the lockfile in a process of its own, because a damaged library or a faulty
/// constructor would end this process without a message.
///
/// # Errors
/// If opening the library ends that process.
fn try_out(listed: &Listed) -> Result<(), Error> {
    match workers::try_out(listed, None) {
        // A missing worker is not the plugin's fault.
        Err(Error::Request { message, .. }) => {
            tracing::warn!(%message, file = %listed.file.display(), "not tested in its own process");
            Ok(())
        }
        tried => tried,
    }
}
