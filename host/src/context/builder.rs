//! Builds a context, and checks all settings.

use super::PassContext;
use crate::engine::Engine;
use crate::instruments::Instrument;
use crate::plugins::target::Target;
use crate::report::error::Error;
use passhost_lang::metadata::OptionValue;
use registry::{Request, Selection};
use std::sync::Arc;

/// A context under construction.
#[derive(Default)]
pub struct ContextBuilder {
    own: Selection,
    tvm_compat: Option<bool>,
    config: Vec<(String, OptionValue)>,
    target: Option<String>,
    instruments: Vec<Instrument>,
    outer: Option<PassContext>,
}

impl ContextBuilder {
    /// Sets the opt_level, 2 by default. Passes with a higher opt_level are skipped unless another pass requires them.
    pub fn opt_level(mut self, opt_level: i32) -> Self {
        self.own.opt_level = Some(opt_level);
        self
    }

    /// Adds passes that run regardless of their opt_level.
    pub fn require<N: Into<String>>(mut self, passes: impl IntoIterator<Item = N>) -> Self {
        self.own.required.extend(passes.into_iter().map(Into::into));
        self
    }

    /// Adds passes that must not run.
    pub fn disable<N: Into<String>>(mut self, passes: impl IntoIterator<Item = N>) -> Self {
        self.own.disabled.extend(passes.into_iter().map(Into::into));
        self
    }

    /// Sets whether everything in the context is planned and run as in TVM 0.27, like `--tvm-compat`.
    pub fn tvm_compat(mut self, tvm_compat: bool) -> Self {
        self.tvm_compat = Some(tvm_compat);
        self
    }

    /// Sets a config option that a plugin declares.
    pub fn config(mut self, key: &str, value: OptionValue) -> Self {
        self.config.push((key.to_string(), value));
        self
    }

    /// Sets the compilation target, as a name or as JSON.
    pub fn target(mut self, target: &str) -> Self {
        self.target = Some(target.to_string());
        self
    }

    /// Appends an instrument.
    pub fn instrument(mut self, instrument: Instrument) -> Self {
        self.instruments.push(instrument);
        self
    }

    /// Adds an instrument of a plugin, as in `acme.Counter{every=2}`. It is created when the context is entered, and called after the
    /// instruments given as values.
    pub fn plugin_instrument(mut self, text: &str) -> Self {
        self.own.instruments.push(text.to_string());
        self
    }

    /// Inherits all settings that are not given here from the current context. The instruments of that context also observe the passes in
    /// this one, and are called before its own instruments.
    pub fn inherit(mut self) -> Self {
        self.outer = Some(PassContext::current());
        self
    }

    /// Builds the context, after checking all names and values against the plugins of `engine`.
    ///
    /// # Errors
    /// All mistakes in the settings.
    pub fn build(mut self, engine: &Arc<Engine>) -> Result<PassContext, Error> {
        let mut errors = Vec::new();
        self.own.source = "the context".to_string();
        let (mut selections, mut config, mut target) = (vec![self.own], std::collections::BTreeMap::new(), None);
        let (mut instruments, mut sequentials) = (Vec::new(), std::collections::BTreeSet::new());
        if let Some(outer) = self.outer {
            // Instruments of plugins are inherited as they are, rather than created again.
            let outers = outer.selections().iter().cloned();
            selections.extend(outers.map(|selection| Selection { instruments: Vec::new(), ..selection }));
            let settings = outer.settings();
            selections.push(Selection { opt_level: Some(settings.opt_level), ..Selection::default() });
            sequentials.clone_from(&settings.sequentials);
            (config, target) = (settings.values(), settings.target.clone());
            self.tvm_compat = self.tvm_compat.or(Some(settings.tvm_compat));
            match outer.instruments().try_borrow() {
                Ok(outer) => instruments = outer.inherited(),
                Err(_) => errors.push(super::being_called()),
            }
        }
        for (key, value) in self.config {
            match engine.config_value(&key, &value) {
                Ok(value) => drop(config.insert(key, (value, Arc::default()))),
                Err(error) => errors.push(Error::Config { of: "the context", error }),
            }
        }
        match self.target.as_deref().map(Target::parse).transpose() {
            Ok(own) => target = own.or(target),
            Err(error) => errors.push(error),
        }
        let request =
            Request { selections, sequentials, tvm_compat: self.tvm_compat.unwrap_or_default(), ..Request::default() };
        let context = PassContext::from_parts(engine, request, config, target);
        let context = Error::unless_any(errors, context)?;
        let all = instruments.into_iter().chain(self.instruments);
        all.for_each(|instrument| context.instruments().borrow_mut().push(instrument));
        Ok(context)
    }
}
