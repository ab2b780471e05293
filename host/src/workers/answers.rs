//! What a worker asks and tells, answered by the host's current context.

use super::logs;
use super::words::{ask, tell};
use super::worker::Worker;
use plugin_api::abi::host::{Diagnostic, Wanted, with_services};
use plugin_api::abi::relay::{
    Forged, Known, Reader, Writer, put_evaluated, put_inferred, put_legalized, put_values, take_call,
};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::services::evaluation::{EvaluationError, EvaluationLimits, Reason};
use plugin_api::typing::operators::InferError;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the answer to a question. The table of what both know is free while the host works.
pub(super) fn answer(known: &Mutex<Known>, from: &mut Reader<'_>, out: &mut Writer) -> Result<(), Forged> {
    match from.byte()? {
        ask::INFER => {
            let part = take_call(&mut lock(known), from)?;
            let call = part.call().ok_or_else(|| Forged::new("it asks about no call"))?;
            let name = call.op().unwrap_or("a call").to_string();
            let answer = with_services(|services| services.infer(call));
            put_inferred(out, &answer.unwrap_or(Err(InferError::NoHost(name))));
        }
        ask::LEGALIZE => {
            let part = take_call(&mut lock(known), from)?;
            let call = part.call().ok_or_else(|| Forged::new("it asks about no call"))?;
            let name = call.op().unwrap_or("a call").to_string();
            let answer = with_services(|services| services.legalize(call));
            put_legalized(&mut lock(known), out, &answer.unwrap_or(Err(InferError::NoHost(name))));
        }
        ask::EVALUATE => {
            let function = lock(known).take_body(from)?;
            let limits = EvaluationLimits { memory: from.number()?, work: from.number()? };
            let none = || EvaluationError::new(Reason::NoHost, "no host runs this code, so nothing is evaluated");
            let answer = with_services(|services| services.evaluate(&function, limits)).unwrap_or_else(|| Err(none()));
            put_evaluated(&mut lock(known), out, &answer);
        }
        ask::PRINT => {
            let body = lock(known).take_body(from)?;
            out.text(&with_services(|services| services.print(&body)).unwrap_or_default());
        }
        ask::CONFIG => {
            let key = from.text()?;
            let value = with_services(|services| services.config(key)).flatten();
            put_values(out, value.as_slice());
        }
        ask::TARGET => out.maybe_text(with_services(|services| services.target()).flatten().as_deref()),
        ask::WANTED => {
            let function = from.maybe_text()?;
            match with_services(|services| services.wanted(function)).unwrap_or(Wanted::Nothing) {
                Wanted::Nothing => out.byte(0),
                Wanted::Missed => out.byte(1),
                Wanted::At(variable) => {
                    out.byte(2);
                    out.text(&variable);
                }
            }
        }
        _ => return Err(Forged::new("it asks what there is not")),
    }
    Ok(())
}

/// Takes what has no answer.
pub(super) fn hear(worker: &Worker, known: &Mutex<Known>, from: &mut Reader<'_>) -> Result<(), Forged> {
    let what = from.byte()?;
    let spans = || worker.spans.lock().unwrap_or_else(PoisonError::into_inner);
    match what {
        tell::DIAGNOSE | tell::LABEL => {
            let severity = severity(from.byte()?)?;
            let function = from.maybe_text()?;
            let node = Some(from.number()?).filter(|node| *node != u64::MAX).map(|node| node as usize);
            let diagnostic = Diagnostic { severity, function, node, message: from.text()? };
            let _ = with_services(|services| match what {
                tell::LABEL => services.label(&diagnostic),
                _ => services.diagnose(&diagnostic),
            });
        }
        tell::STATISTIC => {
            let (name, n) = (from.text()?, from.number()?);
            let _ = with_services(|services| services.statistic(name, n));
        }
        tell::SHOW => {
            let module = lock(known).take_module(from)?;
            let header = from.text()?;
            let _ = with_services(|services| services.show_module(&module, header));
        }
        tell::LOG => logs::log(worker, from)?,
        tell::SPAN => spans().make(from)?,
        tell::RECORD => {
            let number = from.number()?;
            spans().record(number, from)?;
        }
        tell::ENTER => spans().enter(from.number()?),
        tell::EXIT => spans().exit(from.number()?),
        tell::CLOSE => spans().close(from.number()?),
        tell::HERE => worker.here.store(true, Ordering::Relaxed),
        tell::FOLLOWS => spans().follows(from.number()?, from.number()?),
        _ => return Err(Forged::new("it tells what there is not")),
    }
    Ok(())
}

fn severity(number: u8) -> Result<Severity, Forged> {
    use Severity::*;
    let known = [Error, Warning, Remark, Missed, Matched].into_iter().find(|known| *known as u32 == u32::from(number));
    known.ok_or_else(|| Forged::new("a diagnostic has a severity that there is not"))
}
