//! Instruments, which observe every pass of a run and may veto it, but cannot change the module.

use crate::PassError;
use crate::declare::contributions::InstrumentDecl;
use crate::declare::declarations::{check_options, fail, is_blank, is_full_name, same, write_options};
use crate::declare::pass::Ctx;
use crate::ir::Module;
use crate::metadata::wire::{Writer, tag};
use crate::metadata::{Granularity, OptionValue, Required};

/// The description of a pass that an instrument receives.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PassFacts<'a> {
    /// Full name, `namespace.Name`.
    pub name: &'a str,
    /// Lowest opt_level at which the pass runs without being required.
    pub opt_level: i32,
    /// The unit that the pass processes.
    pub granularity: Granularity,
    /// Passes whose effect holds before the pass.
    pub required: &'a [Required],
    /// Plugin of the pass.
    pub plugin: &'a str,
    /// Number of the step, from 1, as in `passhost plan`.
    pub position: usize,
}

impl<'a> PassFacts<'a> {
    /// Creates the facts, for callers of instruments, such as tests.
    pub fn new(
        name: &'a str,
        plugin: &'a str,
        granularity: Granularity,
        opt_level: i32,
        required: &'a [Required],
        position: usize,
    ) -> PassFacts<'a> {
        PassFacts { name, opt_level, granularity, required, plugin, position }
    }
}

/// Observes every pass of a run. An instrument is called on a single thread, and cannot change the module. The context
/// of the run is [`Ctx::current`], which also prints functions.
///
/// An error from any method stops the run. An instrument whose `run_before` succeeded gets exactly one `run_after` or
/// `run_failed` for that pass.
///
/// A `tracing` span entered in `run_before` may be left in `run_after` or `run_failed`, and a span entered in `enter`
/// may be left in `exit`. Spans that are still entered at the end of these methods are left automatically, and spans
/// entered in any other method are left at its end.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an instrument: it does not implement `PassInstrument`",
    label = "`new` of an instrument must return one",
    note = "write `impl PassInstrument for {Self} {{ … }}`; every method has a default"
)]
pub trait PassInstrument {
    /// Called when the context of the run is entered.
    ///
    /// # Errors
    /// If the run must not start. Instruments already entered are exited.
    fn enter(&mut self) -> Result<(), PassError> {
        Ok(())
    }

    /// Called when the context of the run is left, even after a failure.
    ///
    /// # Errors
    /// On any problem; the remaining instruments are not exited.
    fn exit(&mut self) -> Result<(), PassError> {
        Ok(())
    }

    /// Returns true if a pass may run. All instruments are called, and all must agree. Not called for passes that the
    /// context requires.
    ///
    /// # Errors
    /// If the run must stop.
    fn should_run(&mut self, _module: &Module, _pass: &PassFacts<'_>) -> Result<bool, PassError> {
        Ok(true)
    }

    /// Called before a pass runs.
    ///
    /// # Errors
    /// If the pass must not run and the run must stop.
    fn run_before(&mut self, _module: &Module, _pass: &PassFacts<'_>) -> Result<(), PassError> {
        Ok(())
    }

    /// Called after a pass ran; `module` is its verified result.
    ///
    /// # Errors
    /// If the run must stop.
    fn run_after(&mut self, _module: &Module, _pass: &PassFacts<'_>) -> Result<(), PassError> {
        Ok(())
    }

    /// Called after a pass failed, or could not start because another instrument failed. `module` is the module before
    /// the pass.
    ///
    /// # Errors
    /// On any problem; reported together with the first failure.
    fn run_failed(&mut self, _module: &Module, _pass: &PassFacts<'_>, _message: &str) -> Result<(), PassError> {
        Ok(())
    }
}

/// A function that creates an instrument. Options are in declaration order.
pub type NewInstrument = fn(&[OptionValue], &Ctx) -> Result<Box<dyn PassInstrument>, PassError>;

/// Boxes the result of an instrument's `new`.
#[doc(hidden)]
pub fn boxed<I: PassInstrument + 'static>(made: Result<I, PassError>) -> Result<Box<dyn PassInstrument>, PassError> {
    made.map(|instrument| Box::new(instrument) as Box<dyn PassInstrument>)
}

impl InstrumentDecl {
    /// Returns this declaration after checking its names and strings.
    pub const fn checked(self) -> InstrumentDecl {
        let name = self.name;
        if !is_full_name(name) {
            fail(&["`", name, "` is not the name of an instrument: write `namespace.Name`, as in `acme.Counter`"]);
        }
        if is_blank(self.doc) {
            fail(&["instrument `", name, "` lacks documentation: write `/// What it does.` above its declaration"]);
        }
        check_options("instrument", name, self.options);
        self
    }
}

/// Checks all instruments of a plugin at compile time.
pub(crate) const fn check(instruments: &[&InstrumentDecl]) {
    let mut i = 0;
    while i < instruments.len() {
        let name = instruments[i].name;
        let mut j = 0;
        while j < i {
            if same(instruments[j].name, name) {
                fail(&["two instruments of the plugin are called `", name, "`; rename one of them"]);
            }
            j += 1;
        }
        i += 1;
    }
}

/// Writes the instruments of a plugin into its metadata.
pub(crate) const fn write<const N: usize>(w: &mut Writer<N>, instruments: &[&InstrumentDecl]) {
    let mut i = 0;
    while i < instruments.len() {
        let instrument = instruments[i];
        let at = w.open(tag::INSTRUMENT);
        w.field(tag::NAME, instrument.name.as_bytes());
        w.field(tag::DOC, instrument.doc.as_bytes());
        write_options(w, instrument.options);
        w.close(at);
        i += 1;
    }
}

/// Declares an instrument: its name, its options, and the function that creates an instrument for a run.
///
/// ```
/// use plugin_api::declare::instrument::{PassFacts, PassInstrument};
/// use plugin_api::prelude::*;
///
/// declare_instrument! {
///     /// Counts passes, and stops the run when there are too many.
///     pub COUNTER = "acme.Counter" {
///         options: CounterOptions {
///             /// So many may run.
///             most: i64 = 100,
///         },
///         new: Counter::new,
///     }
/// }
///
/// struct Counter {
///     left: i64,
/// }
///
/// impl Counter {
///     fn new(options: &CounterOptions, _: &Ctx) -> Result<Counter, PassError> {
///         Ok(Counter { left: options.most })
///     }
/// }
///
/// impl PassInstrument for Counter {
///     fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
///         if self.left == 0 {
///             bail!("too many passes: `{}` is one more than there may be", pass.name);
///         }
///         self.left -= 1;
///         Ok(())
///     }
/// }
/// # let _ = (COUNTER, Counter::new(&CounterOptions::default(), &Ctx::detached()).map(|counter| counter.left));
/// ```
///
/// `new` is a `fn(&Options, &Ctx) -> Result<impl PassInstrument, PassError>`; without `options`, that argument is
/// omitted. Options are as in [`declare_pass!`](crate::declare_pass). The declaration goes into the list `instruments`
/// of [`export_plugin!`](crate::export_plugin).
#[macro_export]
macro_rules! declare_instrument {
    ($(#[doc = $doc:literal])* $vis:vis $NAME:ident = $name:literal { $($facts:tt)* }) => {
        $crate::__instrument! { @facts { [$($doc)*] [$vis] $NAME $name } { [] [] } $($facts)* , }
    };
    ($($other:tt)*) => {
        compile_error!(
            "an instrument is declared like `pub NAME = \"namespace.Name\" { options: Options { … }, new: a_function }`"
        );
    };
}

/// Implementation of [`declare_instrument!`]; not for direct use. `@facts` assigns the facts to slots: options, new.
#[doc(hidden)]
#[macro_export]
macro_rules! __instrument {
    (@facts $h:tt { [] $n:tt } options: $v:ident $w:tt, $($rest:tt)*) => {
        $crate::__instrument! { @facts $h { [$v $w] $n } $($rest)* }
    };
    (@facts $h:tt { $o:tt [] } new: $v:expr, $($rest:tt)*) => {
        $crate::__instrument! { @facts $h { $o [$v] } $($rest)* }
    };
    (@facts $h:tt $slots:tt $(,)?) => { $crate::__instrument! { @declare $h $slots } };
    // A key that did not match any arm above: it is unknown or repeated, or its value has the wrong kind.
    (@facts $h:tt $slots:tt options $($rest:tt)*) => {
        compile_error!(
            "`options` may appear once in an instrument, as `options: Options { /// How often.\n times: i64 = 1 }`"
        );
    };
    (@facts $h:tt $slots:tt new $($rest:tt)*) => {
        compile_error!("`new` may appear once in an instrument, as `new: a_function`");
    };
    (@facts $h:tt $slots:tt $key:ident $($rest:tt)*) => {
        compile_error!(concat!("an instrument has no field `", stringify!($key), "`; it has only `new` and `options`"));
    };
    (@facts $h:tt $slots:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "found `", stringify!($($rest)*), "` where a field of an instrument is expected, as `new: a_function`"
        ));
    };

    (@declare { $doc:tt $vis:tt $NAME:ident $name:literal } { $o:tt [] }) => {
        compile_error!(concat!(
            "`new` of instrument `", $name, "` is missing; name the function that creates the instrument for a run"
        ));
    };
    (@declare { [$($doc:literal)*] [$vis:vis] $NAME:ident $name:literal } {
        [$($Options:ident $fields:tt)?] [$new:expr]
    }) => {
        $($crate::__options! { [$vis] $Options $name $fields })?

        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::contributions::InstrumentDecl = $crate::declare::contributions::InstrumentDecl {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            options: $crate::__pass!(@decls $($Options)?),
            new: $crate::__instrument!(@new $new $(, $Options)?),
        }
        .checked();
    };

    (@new $new:expr) => {
        |_, ctx| {
            let new: fn(&$crate::declare::pass::Ctx) -> Result<_, $crate::PassError> = $new;
            $crate::declare::instrument::boxed(new(ctx))
        }
    };
    (@new $new:expr, $Options:ident) => {
        |values, ctx| {
            let new: fn(&$Options, &$crate::declare::pass::Ctx) -> Result<_, $crate::PassError> = $new;
            $crate::declare::instrument::boxed(new(&$Options::from_values(values)?, ctx))
        }
    };
}
