//! Reads text as a verified module, and prints modules. The command line and programs that embed passhost read modules here; there is no
//! other way from a file to a verified module.

mod foreign;
mod rules;

use self::foreign::Foreign;
use self::rules::Rules;
use crate::engine::Engine;
use crate::files::{read_large, read_stream};
use crate::report::Report;
use crate::report::error::{Error, input_warning};
use crate::verify::{Violation, verify_module, verify_read};
use passhost_lang::ir::Module;
use script::ReadOptions;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The text of a module, with its name for messages.
#[derive(Clone, Debug)]
pub struct Input {
    origin: String,
    text: Arc<str>,
    strict: bool,
    options: ReadOptions,
}

impl Input {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is too large, is not UTF-8, or is a model in another format, such as ONNX. The error explains how to convert it.
    pub fn file(path: impl AsRef<Path>) -> Result<Input, Error> {
        let (path, origin) = (path.as_ref(), path.as_ref().display().to_string());
        match read_large(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(path)),
            bytes => Input::of_bytes(origin, bytes),
        }
    }

    /// Reads a stream to its end. `origin` is its name in messages, such as `<stdin>`.
    ///
    /// # Errors
    /// As for [`Input::file`].
    pub fn stream(origin: impl Into<String>, stream: impl Read) -> Result<Input, Error> {
        Input::of_bytes(origin.into(), read_stream(stream))
    }

    /// Uses a text of the program. `origin` is its name in messages.
    pub fn text(origin: impl Into<String>, text: impl Into<Arc<str>>) -> Input {
        Input { origin: origin.into(), text: text.into(), strict: false, options: ReadOptions::default() }
    }

    /// Returns its name in messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the text.
    pub(crate) fn contents(&self) -> &str {
        &self.text
    }

    /// Sets whether a function is refused if its declared result type differs from the type that it returns. By default this is a warning, as
    /// in TVM.
    pub fn strict(self, strict: bool) -> Input {
        Input { strict, ..self }
    }

    /// Sets how the text is read. If it is read unchecked, the module is not verified either.
    pub fn options(self, options: ReadOptions) -> Input {
        Input { options, ..self }
    }

    fn of_bytes(origin: String, bytes: io::Result<Vec<u8>>) -> Result<Input, Error> {
        let wrong = |message: String, help: &str| {
            Err(Error::InputFile { origin: origin.clone(), message, help: help.to_string() })
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return wrong(error.to_string(), NAME_ONE),
        };
        if let Some(foreign) = foreign::of_bytes(&bytes) {
            return Err(in_another_form(origin, foreign));
        }
        let line_of = |bytes: &[u8], at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
            return wrong(format!("not a text: byte {at}, in line {}, is 0", line_of(&bytes, at)), UTF_8);
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Input::text(origin, text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let line = line_of(error.as_bytes(), at);
                wrong(format!("not UTF-8: first at byte {at}, line {line}"), UTF_8)
            }
        }
    }
}

const NAME_ONE: &str = "name a file with TVMScript, or `-` for standard input";
const UTF_8: &str = "TVMScript is UTF-8 text";

/// Returns true for a text that is probably TVMScript, although it is read as something else.
pub(crate) fn looks_like_module(text: &str) -> bool {
    ["@I.ir_module", "@R.function", "@T.prim_func"].iter().any(|decorator| text.contains(decorator))
}

/// Builds the error that a file does not exist.
pub(crate) fn missing(path: &Path) -> Error {
    let (origin, message) = (path.display().to_string(), "no such file".to_string());
    Error::InputFile { origin, message, help: NAME_ONE.to_string() }
}

fn in_another_form(origin: String, Foreign { what, help }: Foreign) -> Error {
    Error::InputFile { origin, message: format!("looks like {what}, not TVMScript"), help: help.to_string() }
}

/// The result of reading a text: a module, or the reason why it could not be read; and the warnings of the reader.
#[derive(Debug)]
#[must_use]
pub struct Reading {
    /// The module, or all mistakes in the text. [`Error::reports`] shows them with lines and remedies.
    pub module: Result<Module, Error>,
    input: Input,
    noticed: Vec<script::Diagnostic>,
}

impl Reading {
    /// Returns reports on what the reader accepted with a warning, in the order of the text, with their places.
    pub fn warnings(&self) -> impl ExactSizeIterator<Item = Report> + '_ {
        let Input { origin, text, .. } = &self.input;
        self.noticed.iter().map(move |warning| input_warning(origin, text, warning))
    }
}

impl Engine {
    /// Reads a module as TVMScript and verifies it with the operators of this engine, as `passhost run` does. An ill-formed module is an
    /// error, except for an [unchecked](ReadOptions::unchecked) input. If a rule of an operator fails, that is an error of its plugin.
    pub fn read_module(&self, input: &Input) -> Reading {
        let rules = Rules::of(self);
        let (module, noticed) = match script::read_with(&input.text, &rules, input.options) {
            Ok(read) if input.options.unchecked => (Ok(read.module), read.warnings),
            Ok(read) => (self.verified(input, read.module, &rules), read.warnings),
            Err(error) => (Err(unreadable(input, error)), Vec::new()),
        };
        let module = module.map_err(|error| match rules.broke() {
            true => Error::Rule(Box::new(error)),
            false => error,
        });
        Reading { module, input: input.clone(), noticed }
    }

    /// Prints a module as TVMScript, which [`Engine::read_module`] and TVM can read.
    ///
    /// # Errors
    /// If a part of it cannot be printed.
    pub fn print_module(&self, module: &Module) -> Result<String, Error> {
        Ok(script::print(module, self)?)
    }

    fn verified(&self, input: &Input, module: Module, rules: &Rules<'_>) -> Result<Module, Error> {
        let _span = self.span("verification", "verify", || serde_json::json!({}));
        let verify = if input.strict { verify_module } else { verify_read };
        match verify(&module, rules) {
            Ok(()) => Ok(module),
            Err(violation) => Err(self.ill_formed(&input.origin, &module, &violation)),
        }
    }

    /// Shows a violation in the printed module, because nodes have no place in the text that was read.
    fn ill_formed(&self, origin: &str, module: &Module, violation: &Violation) -> Error {
        let place = || {
            let printed = script::print_with_spans(module, self).ok()?;
            let span = printed.spans.get(&violation.function)?.get(violation.node)?.clone();
            (!span.is_empty()).then_some((printed.text, span))
        };
        Error::IllFormed { origin: origin.to_string(), message: violation.to_string(), place: place() }
    }
}

/// Explains why a text is not a module; it may be in another language.
fn unreadable(Input { origin, text, .. }: &Input, error: script::ReadError) -> Error {
    match foreign::of_text(text) {
        Some(foreign) => in_another_form(origin.clone(), foreign),
        None => Error::Input { origin: origin.clone(), text: Arc::clone(text), error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader accepts this text, but the verification refuses it.
    const ILL_FORMED: &str = "@I.ir_module\nclass Module:\n    @R.function(pure=False)\n    def main(x: R.Object) -> \
                              R.Object:\n        R.func_attr({\"relax.force_pure\": True})\n        return x\n";

    #[test]
    fn what_is_read_is_verified() {
        let engine = Engine::default();
        script::read(ILL_FORMED, &engine).expect("the text itself is right");
        let error = engine.read_module(&Input::text("model.py", ILL_FORMED)).module.expect_err("is verified");
        assert!(matches!(error, Error::IllFormed { .. }), "{error}");
        let shown: String = error.reports().iter().map(|report| report.render(false)).collect();
        assert!(shown.contains("--> <model.py, as read>:") && shown.contains("sets relax.force_pure"), "{shown}");
    }

    #[test]
    fn bytes_that_are_not_a_text_are_refused_with_a_place() {
        for (bytes, expected) in [
            (&b"# a\nb\0"[..], "input a: not a text: byte 5, in line 2, is 0"),
            (b"# a\nb\xff", "input a: not UTF-8: first at byte 5, line 2"),
            (b"\x7fELF", "input a: looks like a compiled library or program, not TVMScript"),
        ] {
            assert_eq!(Input::stream("a", bytes).expect_err("is refused").to_string(), expected);
        }
    }
}
