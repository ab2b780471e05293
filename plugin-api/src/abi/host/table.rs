//! The services in the host's table. Each service checks the arguments from the plugin, and catches host panics.

use crate::abi::host::spans;
use crate::abi::host::{Diagnostic, Wanted, with_frame, with_run};
use crate::declare::diagnostics::Severity;
use crate::ir::storage::body_handle::{Body, BodyHdr};
use crate::ir::storage::module_handle::{Module, ModuleHdr};
use crate::ir::storage::sections::RawView;
use crate::ir::storage::tensor::{Tensor, TensorHdr};
use crate::ir::{Call, Value};
use crate::metadata::wire::value_bytes;
use crate::services::evaluation::{EvaluationError, EvaluationLimits, Reason, encode_evaluation};
use crate::services::inferred::encode_inferred;
use crate::services::{
    DiagnosticRecord, LABEL, LogRecord, NO_NODE, NO_SPAN, Query, RawBytes, Services, Sink, SpanRecord, answer,
    read_function_key, wanted,
};
use crate::typing::operators::InferError;

/// Catches a panic of a service, so that it does not unwind into the plugin.
fn guarded<R>(fallback: R, f: impl FnOnce() -> R) -> R {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        // The payload's destructor could panic again.
        std::mem::forget(payload);
        fallback
    })
}

pub(crate) static SERVICES: Services = Services {
    size: std::mem::size_of::<Services>() as u32,
    reserved: 0,
    max_level: &crate::abi::host::log::MAX_LEVEL,
    seal: host_seal,
    module: host_module,
    module_with: host_module_with,
    tensor: host_tensor,
    infer: host_infer,
    print: host_print,
    current: crate::abi::host::current,
    query: host_query,
    diagnose: host_diagnose,
    log_enabled: host_log_enabled,
    log: host_log,
    span_wanted: host_span_wanted,
    span_new: host_span_new,
    span_record: host_span_record,
    span: host_span,
    statistic: host_statistic,
    show_module: host_show_module,
    legalize: host_legalize,
    evaluate: host_evaluate,
};

/// Copies the section table passed by a plugin, so that the plugin cannot change the table after the check. Checks
/// that addresses and lengths are plausible.
///
/// # Safety
/// The table is null or readable. The memory that it points to is not accessed here.
unsafe fn own_table<'a>(table: *const RawView<'a>) -> Result<RawView<'a>, String> {
    if table.is_null() {
        return Err("the address of the table of sections is null".to_string());
    }
    // SAFETY: guaranteed by the caller; addresses and lengths may have any value.
    let raw = unsafe { table.read_unaligned() };
    raw.plausible().map(|()| raw)
}

extern "C" fn host_seal(raw: *const RawView<'static>, error: Sink) -> *const BodyHdr {
    guarded(std::ptr::null(), || {
        // SAFETY: the plugin passes a table of sections, and sections that are alive and unchanged during the call.
        let raw = unsafe { own_table(raw) };
        let body = raw.and_then(|raw| {
            let tensors = raw.own_tensors()?;
            crate::ir::make::seal_here(&raw.with_tensors(&tensors)).map_err(|why| why.to_string())
        });
        body.map_or_else(
            |why| {
                error.put(why.as_bytes());
                std::ptr::null()
            },
            Body::into_ptr,
        )
    })
}

extern "C" fn host_module(
    names: *const RawBytes,
    bodies: *const *const BodyHdr,
    n: usize,
    meta: *const BodyHdr,
) -> *const ModuleHdr {
    // Maximum number of functions in a module. A larger number is a plugin bug that the host cannot handle.
    const MOST_FUNCTIONS: usize = 1 << 24;
    guarded(std::ptr::null(), || {
        if n > MOST_FUNCTIONS {
            crate::abi::host::no_module(format!(
                "passed {n} functions for one module to the host, more than the limit of {MOST_FUNCTIONS}"
            ));
            return std::ptr::null();
        }
        let mut functions = Vec::with_capacity(n);
        for i in 0..n {
            // SAFETY: the plugin passes `n` names and `n` handles.
            let (name, body) = unsafe { ((*names.add(i)).get(), *bodies.add(i)) };
            let Some(body) = Body::borrowed(body) else { return std::ptr::null() };
            functions.push((String::from_utf8_lossy(name).into_owned(), body));
        }
        functions.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(two) = functions.windows(2).find(|two| two[0].0 == two[1].0) {
            crate::abi::host::no_module(format!(
                "passed two functions called `{}` for one module to the host",
                two[0].0
            ));
            return std::ptr::null();
        }
        let given = !meta.is_null();
        let meta = Body::borrowed(meta);
        if given && meta.is_none() {
            return std::ptr::null();
        }
        Module::from_parts_here(functions, meta).into_ptr()
    })
}

extern "C" fn host_module_with(
    module: *const ModuleHdr,
    at: *const usize,
    bodies: *const *const BodyHdr,
    n: usize,
) -> *const ModuleHdr {
    guarded(std::ptr::null(), || {
        let most = Module::borrowed(module).map_or(0, |module| module.len());
        if n > most {
            let why = format!("passed {n} changed functions to the host for a module that has {most}");
            crate::abi::host::no_module(why);
            return std::ptr::null();
        }
        let mut changed = Vec::with_capacity(n);
        for i in 0..n {
            // SAFETY: the plugin passes `n` positions and `n` handles.
            let (at, body) = unsafe { (*at.add(i), *bodies.add(i)) };
            let Some(body) = Body::borrowed(body) else { return std::ptr::null() };
            changed.push((at, body));
        }
        match Module::borrowed(module) {
            Some(module) => module.with_bodies_here(changed).into_ptr(),
            None => std::ptr::null(),
        }
    })
}

extern "C" fn host_tensor(bytes: RawBytes) -> *const TensorHdr {
    // SAFETY: the bytes live during the call.
    guarded(std::ptr::null(), || Tensor::new_here(unsafe { bytes.get() }).into_ptr())
}

extern "C" fn host_infer(raw: *const RawView<'static>, node: u32, out: Sink) -> u32 {
    guarded(crate::services::inferred::NO_HOST, || {
        // SAFETY: the plugin passes a table of sections, and sections that are alive and unchanged during the call.
        let raw = match unsafe { own_table(raw) } {
            Ok(raw) => raw,
            Err(why) => {
                let (status, bytes) = encode_inferred(&Err(InferError::wrong(why)));
                out.put(&bytes);
                return status;
            }
        };
        let call = Call(Value { raw: &raw, op: node });
        let answer = with_frame(|frame| frame.services.infer(call));
        let name = || call.op().unwrap_or("a call").to_string();
        let (status, bytes) = encode_inferred(&answer.unwrap_or_else(|| Err(InferError::NoHost(name()))));
        out.put(&bytes);
        status
    })
}

extern "C" fn host_legalize(raw: *const RawView<'static>, node: u32, function: *mut *const BodyHdr, out: Sink) -> u32 {
    guarded(crate::services::inferred::NO_HOST, || {
        // SAFETY: the plugin passes a table of sections, and sections that are alive and unchanged during the call.
        let answer = match unsafe { own_table(raw) } {
            Ok(raw) => {
                let call = Call(Value { raw: &raw, op: node });
                let name = || call.op().unwrap_or("a call").to_string();
                let answer = with_frame(|frame| frame.services.legalize(call));
                answer.unwrap_or_else(|| Err(InferError::NoHost(name())))
            }
            Err(why) => Err(InferError::wrong(why)),
        };
        let (status, bytes, handle) = crate::services::legalized_answer(answer);
        // SAFETY: the plugin passes a place for one handle.
        unsafe { function.write(handle) };
        out.put(&bytes);
        status
    })
}

extern "C" fn host_evaluate(
    run: u64,
    function: *const BodyHdr,
    memory: u64,
    work: u64,
    result: *mut *const BodyHdr,
    out: Sink,
) -> u32 {
    guarded(Reason::NoHost as u32, || {
        let answer = match Body::borrowed(function) {
            Some(function) => {
                let limits = EvaluationLimits { memory, work };
                let answer = with_run(run, |frame| frame.services.evaluate(&function, limits));
                answer.unwrap_or_else(|| Err(EvaluationError::no_host()))
            }
            None => Err(EvaluationError::new(Reason::Wrong, "the value to evaluate is not a function of this host")),
        };
        let (status, bytes) = encode_evaluation(&answer);
        let handle = answer.map_or(std::ptr::null(), |evaluated| evaluated.function.into_ptr());
        // SAFETY: the plugin passes a place for one handle.
        unsafe { result.write(handle) };
        out.put(&bytes);
        status
    })
}

extern "C" fn host_print(body: *const BodyHdr, out: Sink) -> u32 {
    guarded(answer::NONE, || {
        let Some(body) = Body::borrowed(body) else { return answer::NONE };
        match with_frame(|frame| frame.services.print(&body)) {
            Some(text) => {
                out.put(text.as_bytes());
                answer::GIVEN
            }
            None => answer::NONE,
        }
    })
}

extern "C" fn host_query(run: u64, what: u32, key: RawBytes, out: Sink) -> u32 {
    guarded(answer::NONE, || {
        // SAFETY: the bytes live during the call.
        let key = unsafe { key.get() };
        let answer = with_run(run, |frame| match what {
            what if what == Query::Config as u32 => {
                frame.services.config(&String::from_utf8_lossy(key)).map(|value| value_bytes(&value))
            }
            what if what == Query::PassName as u32 => Some(frame.services.pass_name().into_bytes()),
            what if what == Query::Run as u32 => frame.services.run().map(|run| run.to_le_bytes().to_vec()),
            what if what == Query::Target as u32 => {
                let index = read_function_key(key);
                let own = index.and_then(|index| frame.body(index)).and_then(Body::target);
                own.or_else(|| frame.services.target()).map(String::into_bytes)
            }
            what if what == Query::FunctionName as u32 => {
                frame.function(read_function_key(key)?).map(|name| name.as_bytes().to_vec())
            }
            what if what == Query::Missed as u32 => {
                let (index, name) = key.split_at_checked(4)?;
                let named = (!name.is_empty()).then(|| String::from_utf8_lossy(name));
                let own = || frame.function(read_function_key(index)?);
                match frame.services.wanted(named.as_deref().or_else(own)) {
                    Wanted::Nothing => None,
                    Wanted::Missed => Some(b"*".to_vec()),
                    Wanted::At(variable) => Some(format!("@{variable}").into_bytes()),
                }
            }
            _ => None,
        });
        match answer.flatten() {
            Some(bytes) => {
                out.put(&bytes);
                answer::GIVEN
            }
            None => answer::NONE,
        }
    })
}

extern "C" fn host_diagnose(run: u64, record: *const DiagnosticRecord) {
    guarded((), || {
        // SAFETY: the record and its strings are alive during the call.
        let (record, name, message) = unsafe { (&*record, (*record).function.get(), (*record).message.get()) };
        let (name, message) = (String::from_utf8_lossy(name), String::from_utf8_lossy(message));
        let severity = match record.severity {
            what if what == Severity::Error as u32 => Severity::Error,
            what if what == Severity::Warning as u32 => Severity::Warning,
            what if what == Severity::Missed as u32 => Severity::Missed,
            what if what == Severity::Matched as u32 => Severity::Matched,
            _ => Severity::Remark,
        };
        let node = usize::try_from(record.node).ok().filter(|_| record.node != NO_NODE);
        let _ = with_run(run, |frame| {
            let named = (!name.is_empty()).then_some(&*name);
            let function = named.or_else(|| frame.function(record.index as usize));
            let diagnostic = Diagnostic { severity, function, node, message: &message };
            match record.severity {
                LABEL => frame.services.label(&diagnostic),
                _ => frame.services.diagnose(&diagnostic),
            }
        });
    });
}

extern "C" fn host_log_enabled(level: u32, target: RawBytes) -> u32 {
    // SAFETY: the bytes live during the call.
    let is_wanted = || unsafe { crate::abi::host::log::wanted(level, target) };
    guarded(wanted::NO, || if is_wanted() { wanted::YES } else { wanted::NO })
}

extern "C" fn host_log(record: *const LogRecord) {
    // SAFETY: the record and its strings are alive during the call.
    guarded((), || unsafe { crate::abi::host::log::take(record) });
}

extern "C" fn host_span_wanted(record: *const SpanRecord) -> u32 {
    // SAFETY: the record and its strings are alive during the call.
    let is_wanted = || unsafe { spans::wanted(record) };
    guarded(wanted::NO, || if is_wanted() { wanted::YES } else { wanted::NO })
}

extern "C" fn host_span_new(record: *const SpanRecord) -> u64 {
    // SAFETY: the record and its strings are alive during the call.
    guarded(NO_SPAN, || unsafe { spans::new(record) })
}

extern "C" fn host_span_record(span: u64, fields: RawBytes) {
    // SAFETY: the bytes live during the call.
    guarded((), || unsafe { spans::record(span, fields) });
}

extern "C" fn host_span(span: u64, what: u32, other: u64) -> u64 {
    guarded(NO_SPAN, || spans::happens(span, what, other))
}

extern "C" fn host_statistic(run: u64, name: RawBytes, n: u64) {
    guarded((), || {
        // SAFETY: the bytes live during the call.
        let name = String::from_utf8_lossy(unsafe { name.get() });
        let _ = with_run(run, |frame| frame.services.statistic(&name, n));
    });
}

extern "C" fn host_show_module(run: u64, module: *const ModuleHdr, header: RawBytes) -> u32 {
    guarded(answer::NONE, || {
        let Some(module) = Module::borrowed(module) else { return answer::NONE };
        // SAFETY: the bytes live during the call.
        let header = String::from_utf8_lossy(unsafe { header.get() });
        with_run(run, |frame| frame.services.show_module(&module, &header)).map_or(answer::NONE, |()| answer::GIVEN)
    })
}
