//! Handles the messages of a worker in the host: answers its questions from the current context, and records its reports.

use super::logs;
use super::words::{ask, tell};
use super::worker::Worker;
use passhost_lang::typing::operators::InferError;
use plugin_api::abi::host::{Diagnostic, Wanted, with_services};
use plugin_api::abi::relay::{
    Forged, Known, Reader, Writer, put_evaluated, put_inferred, put_legalized, put_values, take_call,
};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::services::evaluation::{EvaluationError, EvaluationLimits, Reason};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the answer to a question. An evaluation is limited by `most` and by its own limits, whichever are lower. The
/// table of objects that both processes share is unlocked while the host works.
pub(super) fn answer(
    known: &Mutex<Known>,
    most: EvaluationLimits,
    from: &mut Reader<'_>,
    out: &mut Writer,
) -> Result<(), Forged> {
    match from.byte()? {
        ask::INFER => {
            let part = take_call(&mut lock(known), from)?;
            let call = part.call().ok_or_else(|| Forged::new("its request does not contain a call"))?;
            let name = call.op().unwrap_or("a call").to_string();
            let answer = with_services(|services| services.infer(call));
            put_inferred(out, &answer.unwrap_or(Err(InferError::NoHost(name))));
        }
        ask::LEGALIZE => {
            let part = take_call(&mut lock(known), from)?;
            let call = part.call().ok_or_else(|| Forged::new("its request does not contain a call"))?;
            let name = call.op().unwrap_or("a call").to_string();
            let answer = with_services(|services| services.legalize(call));
            put_legalized(&mut lock(known), out, &answer.unwrap_or(Err(InferError::NoHost(name))));
        }
        ask::EVALUATE => {
            let function = lock(known).take_body(from)?;
            let (memory, work) = (from.number()?.min(most.memory), from.number()?.min(most.work));
            let limits = EvaluationLimits { memory, work };
            let none = || {
                EvaluationError::new(
                    Reason::NoHost,
                    "calls cannot be evaluated, because the code does not run in a host",
                )
            };
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
        ask::PUT => {
            let (name, bytes) = (from.text()?, from.block()?);
            out.byte(u8::from(with_services(|services| services.put(name, bytes)).unwrap_or(false)));
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
        _ => return Err(Forged::new("its request is undefined")),
    }
    Ok(())
}

/// Records a message that needs no answer. Messages beyond the limits of a call or run are dropped.
pub(super) fn hear(worker: &Worker, known: &Mutex<Known>, from: &mut Reader<'_>) -> Result<(), Forged> {
    let what = from.byte()?;
    let spans = || worker.spans.lock().unwrap_or_else(PoisonError::into_inner);
    match what {
        tell::DIAGNOSE | tell::LABEL => diagnose(worker, what, from)?,
        tell::STATISTIC => {
            let (name, n) = (from.text()?, from.number()?);
            if worker.counts(name) {
                let _ = with_services(|services| services.statistic(name, n));
            }
        }
        tell::SHOW => {
            let module = lock(known).take_module(from)?;
            let header = from.text()?;
            let bytes: usize = module.functions().map(|(name, body)| name.len() + body.byte_size()).sum();
            if worker.hears((bytes + header.len()) as u64) {
                let _ = with_services(|services| services.show_module(&module, header));
            }
        }
        tell::LOG => logs::log(worker, from)?,
        tell::SPAN => {
            let span = logs::span(from)?;
            if worker.hears(span.bytes()) {
                spans().make(span);
            }
        }
        tell::RECORD => {
            let (number, values) = (from.number()?, logs::pairs(from)?);
            if worker.hears(logs::bytes(&values)) {
                spans().record(number, &values);
            }
        }
        tell::ENTER => spans().enter(from.number()?),
        tell::EXIT => spans().exit(from.number()?),
        tell::CLOSE => spans().close(from.number()?),
        tell::HERE => {
            let kept = from.byte()? != 0;
            if !worker.here.swap(true, Ordering::Relaxed) {
                worker.kept.store(kept, Ordering::Relaxed);
            }
        }
        tell::FOLLOWS => spans().follows(from.number()?, from.number()?),
        _ => return Err(Forged::new("its report is undefined")),
    }
    Ok(())
}

/// Records a diagnostic, or a label of the last diagnostic.
fn diagnose(worker: &Worker, what: u8, from: &mut Reader<'_>) -> Result<(), Forged> {
    let severity = severity(from.byte()?)?;
    let function = from.maybe_text()?;
    let node = Some(from.number()?).filter(|node| *node != u64::MAX).map(|node| node as usize);
    let message = from.text()?;
    let heard = worker.hears((message.len() + function.map_or(0, str::len)) as u64);
    let error = severity == Severity::Error && what == tell::DIAGNOSE;
    let message = match heard {
        true => Some(message),
        false if error => worker.talk().hears_error(message),
        false => None,
    };
    let Some(message) = message else { return Ok(()) };
    let diagnostic = Diagnostic { severity, function: function.filter(|_| heard), node, message };
    let _ = with_services(|services| match what {
        tell::LABEL => services.label(&diagnostic),
        _ => services.diagnose(&diagnostic),
    });
    Ok(())
}

fn severity(number: u8) -> Result<Severity, Forged> {
    use Severity::*;
    let known = [Error, Warning, Remark, Missed, Matched].into_iter().find(|known| *known as u32 == u32::from(number));
    known.ok_or_else(|| Forged::new("a diagnostic has an undefined severity"))
}
