//! What a pass gets and gives: the context, errors, and batches of functions.

use crate::abi::services::{self, CtxRecord, Query};
use crate::ir::{Body, Call, SealError, Value};
use crate::meta::OptionValue;
use crate::op::{Infer, InferError, Inferred};
use std::fmt;

/// Why a pass failed. It says only why; the host adds pass, plugin, function and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassError {
    /// What was found, and what would be right.
    pub message: String,
    /// Position of the node that it is about.
    pub node: Option<usize>,
    /// Name of the function that it is about, where a pass works on more than one.
    pub function: Option<String>,
}

impl PassError {
    /// Says why.
    pub fn new(message: impl Into<String>) -> PassError {
        PassError { message: message.into(), node: None, function: None }
    }

    /// Says where: at this value of the function that the pass was given.
    pub fn at(mut self, value: Value<'_>) -> PassError {
        self.node = value.index();
        self
    }

    /// Says in which function.
    pub fn in_function(mut self, name: &str) -> PassError {
        self.function.get_or_insert_with(|| name.to_string());
        self
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PassError {}

impl From<SealError> for PassError {
    fn from(error: SealError) -> PassError {
        PassError::new(format!("the result is not valid: {error}"))
    }
}

impl From<InferError> for PassError {
    fn from(error: InferError) -> PassError {
        PassError::new(error.to_string())
    }
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Severity {
    /// The pass will fail.
    Error = 1,
    /// Something that is probably not meant.
    Warning = 2,
    /// Something good to know.
    Remark = 3,
}

/// The context of a run, as a pass sees it.
pub struct Ctx {
    record: *const CtxRecord,
}

impl Ctx {
    pub(crate) fn over(record: *const CtxRecord) -> Ctx {
        Ctx { record }
    }

    /// A context without a host, for tests: opt_level 2, no config.
    pub fn detached() -> Ctx {
        Ctx { record: std::ptr::null() }
    }

    /// The context that is current on this thread, as in TVM's `PassContext.current()`.
    pub fn current() -> Ctx {
        Ctx { record: services::current() }
    }

    /// The opt_level of the run.
    pub fn opt_level(&self) -> i32 {
        services::record(self.record).map_or(2, |record| record.opt_level)
    }

    /// Value of a config key; `None` where it is neither set nor has a default.
    pub fn config(&self, key: &str) -> Option<OptionValue> {
        let text = services::query(self.record, Query::Config, key)?;
        OptionValue::parse(&text).ok()
    }

    /// Name of the running pass.
    pub fn pass_name(&self) -> String {
        services::query(self.record, Query::PassName, "").unwrap_or_default()
    }

    /// The compilation target, as a name or as JSON.
    pub fn target(&self) -> Option<String> {
        services::query(self.record, Query::Target, "")
    }

    /// Reports an error, a warning or a remark, at a value of the function that is being worked on, if one is given.
    pub fn diagnose(&self, severity: Severity, at: Option<Value<'_>>, message: &str) {
        services::diagnose(self.record, severity, at.and_then(Value::index), message);
    }

    /// Reports a warning.
    pub fn warning(&self, at: Value<'_>, message: &str) {
        self.diagnose(Severity::Warning, Some(at), message);
    }

    /// Reports a remark.
    pub fn remark(&self, at: Value<'_>, message: &str) {
        self.diagnose(Severity::Remark, Some(at), message);
    }

    /// The function as TVMScript.
    ///
    /// # Errors
    /// Without a host.
    pub fn print(&self, body: &Body) -> Result<String, PassError> {
        services::print(body).ok_or_else(|| PassError::new("no host: printing needs one"))
    }
}

impl Infer for Ctx {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        services::infer(call)
    }
}

/// The functions that a function pass is run over, and what became of them.
pub struct Batch<'a> {
    bodies: &'a [&'a Body],
    out: &'a mut Vec<Result<Body, PassError>>,
    ctx: &'a Ctx,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(bodies: &'a [&'a Body], out: &'a mut Vec<Result<Body, PassError>>, ctx: &'a Ctx) -> Batch<'a> {
        Batch { bodies, out, ctx }
    }

    /// Runs `f` on every function, in order.
    pub fn each(&mut self, mut f: impl FnMut(&Body, &Ctx) -> Result<Body, PassError>) {
        for body in self.bodies {
            let result = f(body, self.ctx);
            self.out.push(result);
        }
    }
}
