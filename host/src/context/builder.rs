//! How a context is made, with everything that it says checked.

use super::PassContext;
use crate::engine::Engine;
use crate::instruments::Instrument;
use crate::plugins::target::Target;
use crate::report::error::Error;
use passhost_lang::metadata::OptionValue;
use registry::{Request, Selection};
use std::sync::Arc;

/// A context that is being made.
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
    /// Passes with a higher opt_level are skipped unless something needs them; 2 where nobody says.
    pub fn opt_level(mut self, opt_level: i32) -> Self {
        self.own.opt_level = Some(opt_level);
        self
    }

    /// Passes that run whatever their opt_level.
    pub fn require<N: Into<String>>(mut self, passes: impl IntoIterator<Item = N>) -> Self {
        self.own.required.extend(passes.into_iter().map(Into::into));
        self
    }

    /// Passes that must not run.
    pub fn disable<N: Into<String>>(mut self, passes: impl IntoIterator<Item = N>) -> Self {
        self.own.disabled.extend(passes.into_iter().map(Into::into));
        self
    }

    /// Whether what runs in it is planned and run as TVM 0.27 does: what `--tvm-compat` says.
    pub fn tvm_compat(mut self, tvm_compat: bool) -> Self {
        self.tvm_compat = Some(tvm_compat);
        self
    }

    /// A value for a config option that a plugin declares.
    pub fn config(mut self, key: &str, value: OptionValue) -> Self {
        self.config.push((key.to_string(), value));
        self
    }

    /// The compilation target, as a name or as JSON.
    pub fn target(mut self, target: &str) -> Self {
        self.target = Some(target.to_string());
        self
    }

    /// An instrument, behind those given before.
    pub fn instrument(mut self, instrument: Instrument) -> Self {
        self.instruments.push(instrument);
        self
    }

    /// An instrument of a plugin, as in `acme.Counter{every=2}`; it is made when the context is entered, and called
    /// behind those that were given as values.
    pub fn plugin_instrument(mut self, text: &str) -> Self {
        self.own.instruments.push(text.to_string());
        self
    }

    /// Everything that it does not say itself is as in the context that is current now, whose instruments see its passes
    /// too, before its own.
    pub fn inherit(mut self) -> Self {
        self.outer = Some(PassContext::current());
        self
    }

    /// The context, with all names and values compared with what the plugins of `engine` have.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn build(mut self, engine: &Arc<Engine>) -> Result<PassContext, Error> {
        let mut errors = Vec::new();
        self.own.source = "the context".to_string();
        let (mut selections, mut config, mut target) = (vec![self.own], std::collections::BTreeMap::new(), None);
        let (mut instruments, mut sequentials) = (Vec::new(), std::collections::BTreeSet::new());
        if let Some(outer) = self.outer {
            // Its plugins' instruments are inherited as they are, and not made again.
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
