//! Reads files as verified modules, and writes modules: as TVMScript, or by readers and writers of plugins. The command line and programs
//! that embed passhost read every module here.

mod foreign;
mod formats;
mod input;
mod params;
mod reader;
mod rules;
mod weights;
mod writer;

use self::formats::Chosen;
use self::input::Contents;
pub use self::input::Input;
pub(crate) use self::input::missing;
use self::rules::Rules;
use self::weights::InFolder;
pub(crate) use self::writer::WrittenAs;
use crate::context::PassContext;
use crate::engine::Engine;
use crate::report::Report;
use crate::report::error::{Error, input_warning};
use crate::verify::{Violation, verify_module, verify_read};
use passhost_lang::ir::Module;
use passhost_lang::names::syntax::TVMSCRIPT_EXTENSION;
use std::ops::Range;
use std::sync::Arc;

/// Returns true if a text is probably TVMScript, although a different format was selected.
pub(crate) fn looks_like_module(text: &str) -> bool {
    let decorated =
        |line: &str| ["@I.ir_module", "@R.function", "@T.prim_func"].iter().any(|start| line.starts_with(start));
    text.lines().map(str::trim_start).any(decorated)
}

/// The result of reading an input: a module or an error, and the warnings of the reader.
#[derive(Debug)]
#[must_use]
pub struct Reading {
    /// The module, or all mistakes in the input. [`Error::reports`] shows it with lines and remedies.
    pub module: Result<Module, Error>,
    input: Input,
    noticed: Noticed,
}

/// The warnings of a reader.
#[derive(Debug)]
enum Noticed {
    /// Warnings about a text, with their places.
    Text(Arc<str>, Vec<script::Diagnostic>),
    /// Warnings about a file in another format.
    Reports(Vec<Report>),
}

impl Reading {
    /// Returns the warnings of the reader, as reports with their places, in the order of the text.
    pub fn warnings(&self) -> impl ExactSizeIterator<Item = Report> + '_ {
        let n = match &self.noticed {
            Noticed::Text(_, noticed) => noticed.len(),
            Noticed::Reports(reports) => reports.len(),
        };
        (0..n).map(|at| match &self.noticed {
            Noticed::Text(text, noticed) => input_warning(&self.input.origin, text, &noticed[at]),
            Noticed::Reports(reports) => reports[at].clone(),
        })
    }

    fn failed(input: &Input, error: Error) -> Reading {
        Reading { module: Err(error), input: input.clone(), noticed: Noticed::Reports(Vec::new()) }
    }
}

impl Engine {
    /// Reads a module and verifies it with the operators of this engine, as `passhost run` does. The format is determined by the request
    /// of the input, otherwise by the file extension, otherwise by the first bytes. An ill-formed module is an error, unless the input is
    /// [unchecked](script::ReadOptions::unchecked). If the rule of an operator fails, that is an error of its plugin. A reader sees the
    /// [current context](crate::PassContext::current).
    pub fn read_module(&self, input: &Input) -> Reading {
        self.read_module_in(input, &PassContext::current())
    }

    /// Reads a module; `context` is the context of the reader.
    pub(crate) fn read_module_in(&self, input: &Input, context: &PassContext) -> Reading {
        let Reading { module, input, noticed } = self.read_unbound(input, context);
        let module = match &input.params {
            Some(path) => module.and_then(|module| self.bound(&module, path)),
            None => module,
        };
        Reading { module, input, noticed }
    }

    fn read_unbound(&self, input: &Input, context: &PassContext) -> Reading {
        match self.chosen(input) {
            Ok(Chosen::Text) => match self.text_of(input) {
                Ok(text) => self.read_text(input, text),
                Err(error) => Reading::failed(input, error),
            },
            Ok(Chosen::Reader(format, options)) => self.read_by(input, format, &options, context),
            Err(error) => Reading::failed(input, error),
        }
    }

    /// Tries out the plugin that reads an input, if the lockfile does not contain the plugin.
    ///
    /// # Errors
    /// If no reader matches the input, or the plugin is rejected.
    pub(crate) fn prepare(&self, input: &Input) -> Result<(), Error> {
        match self.chosen(input)? {
            Chosen::Text => Ok(()),
            Chosen::Reader(format, _) => self.try_unknown(format.owner),
        }
    }

    /// Returns true if an input is read as TVMScript.
    pub(crate) fn reads_text(&self, input: &Input) -> bool {
        matches!(self.chosen(input), Ok(Chosen::Text))
    }

    /// Returns the text of an input. If the input has a different format, it is read, and the module is printed.
    ///
    /// # Errors
    /// If it is not a text, or cannot be read.
    pub(crate) fn as_text(&self, input: &Input) -> Result<Arc<str>, Error> {
        match self.chosen(input)? {
            Chosen::Text if input.params.is_none() => self.text_of(input),
            _ => Ok(self.print_module(&self.read_module(input).module?)?.into()),
        }
    }

    fn read_text(&self, input: &Input, text: Arc<str>) -> Reading {
        let rules = Rules::of(self);
        let weights = InFolder::of(input.path());
        let (module, noticed) = match script::read_from(&text, &rules, input.options, &weights) {
            Ok(read) if input.options.unchecked => (Ok(read.module), read.warnings),
            Ok(read) => (self.verified(input, read.module, &rules), read.warnings),
            Err(error) => (Err(self.unreadable(input, &text, error)), Vec::new()),
        };
        let module = module.map_err(|error| match rules.broke() {
            true => Error::Rule(Box::new(error)),
            false => error,
        });
        Reading { module, input: input.clone(), noticed: Noticed::Text(text, noticed) }
    }

    /// Returns the bytes of an input as text.
    fn text_of(&self, input: &Input) -> Result<Arc<str>, Error> {
        if let Contents::Text(text) = &input.contents {
            return Ok(Arc::clone(text));
        }
        let bytes = input.copied()?;
        let wrong = |message: String| {
            let (origin, help) = (input.origin.clone(), "TVMScript is UTF-8 text".to_string());
            Error::InputFile { origin, message, help }
        };
        if let Some(form) = foreign::of_bytes(&bytes) {
            return Err(self.in_another_form(input, form));
        }
        let line_of = |bytes: &[u8], at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        // `contains` is much faster than `position`.
        if bytes.contains(&0) {
            let at = bytes.iter().take_while(|byte| **byte != 0).count();
            return Err(wrong(format!("not text: byte {at}, in line {}, is 0", line_of(&bytes, at))));
        }
        String::from_utf8(bytes).map(Arc::from).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = line_of(error.as_bytes(), at);
            wrong(format!("not UTF-8: byte {at}, in line {line}, is invalid"))
        })
    }

    /// Prints a module as TVMScript, which [`Engine::read_module`] and TVM can read.
    ///
    /// # Errors
    /// If a part of the module cannot be printed.
    pub fn print_module(&self, module: &Module) -> Result<String, Error> {
        Ok(script::print(module, self)?)
    }

    /// Prints a module for people. If its constants take 64 KiB or more in total, their data is omitted, as in TVM's
    /// `script()`, and the text cannot be read.
    ///
    /// # Errors
    /// If a part of the module cannot be printed.
    pub fn print_without_data(&self, module: &Module) -> Result<String, Error> {
        Ok(script::print_without_data(module, self)?)
    }

    fn verified(&self, input: &Input, module: Module, rules: &Rules<'_>) -> Result<Module, Error> {
        let _span = self.span("verification", "verify", || serde_json::json!({}));
        let verify = if input.strict { verify_module } else { verify_read };
        match verify(&module, rules) {
            Ok(()) => Ok(module),
            Err(violation) => Err(self.ill_formed(&input.origin, &module, &violation)),
        }
    }

    /// Returns the error about a violation. The place is in the printed module, because nodes do not record their place
    /// in the text that was read.
    fn ill_formed(&self, origin: &str, module: &Module, violation: &Violation) -> Error {
        let (origin, message) = (origin.to_string(), violation.to_string());
        Error::IllFormed { origin, message, place: self.place_of(module, violation) }
    }

    /// Returns the module as text, and the place of a violation in it.
    fn place_of(&self, module: &Module, violation: &Violation) -> Option<(String, Range<usize>)> {
        let printed = script::print_shown(module, self).ok()?;
        let span = printed.spans.get(&violation.function)?.get(violation.node)?.clone();
        (!span.is_empty()).then_some((printed.text, span))
    }

    /// Returns the error about a text that is not a module; the text may be in another language.
    fn unreadable(&self, input: &Input, text: &Arc<str>, error: script::ReadError) -> Error {
        if let Some(form) = foreign::of_text(text) {
            return self.in_another_form(input, form);
        }
        let own = ["txt", TVMSCRIPT_EXTENSION];
        let is_tvmscript = ["I.ir_module", "R.function", "prim_func"].iter().any(|word| text.contains(word));
        match input.extension().filter(|extension| !own.contains(&extension.as_str()) && !is_tvmscript) {
            Some(extension) => self.in_no_form(input, &extension),
            None => Error::Input { origin: input.origin.clone(), text: Arc::clone(text), error },
        }
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
        script::read(ILL_FORMED, &engine).expect("the text itself is correct");
        let error = engine.read_module(&Input::text("model.py", ILL_FORMED)).module.expect_err("is verified");
        assert!(matches!(error, Error::IllFormed { .. }), "{error}");
        let shown: String = error.reports().iter().map(|report| report.render(false)).collect();
        assert!(shown.contains("--> <model.py, as read>:") && shown.contains("sets relax.force_pure"), "{shown}");
    }

    #[test]
    fn bytes_that_are_not_a_text_are_refused_with_a_place() {
        for (bytes, expected) in [
            (&b"# a\nb\0"[..], "input a: not text: byte 5, in line 2, is 0"),
            (b"# a\nb\xff", "input a: not UTF-8: byte 5, in line 2, is invalid"),
            (
                b"\x7fELF",
                "input a: looks like a compiled library or program, which no plugin in the manifest reads (formats: tvmscript (.py))",
            ),
        ] {
            let input = Input::stream("a", bytes).expect("can be read");
            let error = Engine::default().read_module(&input).module.expect_err("is refused");
            assert_eq!(error.to_string(), expected);
        }
    }
}
