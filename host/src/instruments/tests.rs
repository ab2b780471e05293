//! Tests the rules for calling instruments, using instruments of this process that log their calls.

use super::*;
use passhost_lang::ir::Body;
use passhost_lang::metadata::Granularity;

/// The logged calls, in order.
type Log = Rc<RefCell<Vec<String>>>;

/// An instrument that logs all events, and fails in some of them.
struct Recorder {
    name: &'static str,
    fails: &'static [&'static str],
    log: Log,
}

impl Recorder {
    fn told(&self, event: &str, pass: &str) -> Result<(), PassError> {
        self.log.borrow_mut().push(format!("{}.{event} {pass}", self.name).trim_end().to_string());
        assert!(!self.fails.contains(&"panic") || !self.fails.contains(&event), "{} panics", self.name);
        if self.fails.contains(&event) { Err(PassError::new(format!("{} fails", self.name))) } else { Ok(()) }
    }
}

impl PassInstrument for Recorder {
    fn enter(&mut self) -> Result<(), PassError> {
        self.told("enter", "")
    }

    fn exit(&mut self) -> Result<(), PassError> {
        self.told("exit", "")
    }

    fn should_run(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        self.told("should_run", pass.name).map(|()| pass.name != "t.Vetoed" || self.name == "a")
    }

    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.told("run_before", pass.name)
    }

    fn run_after(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.told("run_after", pass.name)
    }

    fn run_failed(&mut self, _: &Module, pass: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        self.told("run_failed", pass.name)
    }
}

fn recorder(name: &'static str, fails: &'static [&'static str], log: &Log) -> Instrument {
    Instrument::new(name, Box::new(Recorder { name, fails, log: Rc::clone(log) }))
}

fn list(instruments: &[(&'static str, &'static [&'static str])]) -> (Instruments, Log) {
    let log = Log::default();
    let mut list = Instruments::default();
    instruments.iter().for_each(|(name, fails)| list.push(recorder(name, fails, &log)));
    (list, log)
}

fn pass(name: &str) -> PassFacts<'_> {
    PassFacts::new(name, "t", Granularity::Module, 0, &[], 1)
}

fn module() -> Module {
    Module::new(Vec::<(String, Body)>::new())
}

fn messages(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

const PLAIN: &[&str] = &[];

/// The time of a pass excludes what other instruments do before and after it.
#[test]
fn clocks_begin_last_and_end_first() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", PLAIN)]);
    list.list.insert(1, Instrument { clock: true, ..recorder("t", PLAIN, &log) });
    let started = list.run_before(&module(), &pass("t.P")).expect("all may begin");
    list.run_after(started, &module(), &pass("t.P")).expect("nothing fails");
    let ran = ["a.run_before t.P", "b.run_before t.P", "t.run_before t.P"];
    assert_eq!(log.borrow()[..3], ran);
    assert_eq!(log.borrow()[3..], ["t.run_after t.P", "a.run_after t.P", "b.run_after t.P"]);
    log.borrow_mut().clear();
    let started = list.run_before(&module(), &pass("t.P")).expect("all may begin");
    list.run_failed(started, &module(), &pass("t.P"), "it failed");
    assert_eq!(log.borrow()[..3], ran);
    assert_eq!(log.borrow()[3..], ["t.run_failed t.P", "a.run_failed t.P", "b.run_failed t.P"]);
}

/// Passes are nested, as in a Sequential. If a third instrument fails, the inner pass ends first for all instruments.
#[test]
fn what_was_begun_ends_once_and_the_inner_pass_first() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", &["run_failed"]), ("c", PLAIN)]);
    let module = module();
    let outer = list.run_before(&module, &pass("t.Outer")).expect("all may begin");
    let inner = list.run_before(&module, &pass("t.Inner")).expect("all may begin");
    log.borrow_mut().clear();
    list.run_failed(inner, &module, &pass("t.Inner"), "it failed");
    list.run_failed(outer, &module, &pass("t.Outer"), "it failed");
    let called = ["a", "b", "c"].map(|name| format!("{name}.run_failed t.Inner")).into_iter();
    let called: Vec<String> = called.chain(["a", "b", "c"].map(|name| format!("{name}.run_failed t.Outer"))).collect();
    assert_eq!(*log.borrow(), called);
    let told = messages(&list.take_failures());
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], "instrument `b` of plugin `host`, run_failed of step 1, pass `t.Inner`: b fails");
}

#[test]
fn all_are_asked_and_all_must_agree() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", PLAIN), ("c", PLAIN)]);
    let vetoes = list.should_run(&module(), &pass("t.Vetoed")).expect("nobody fails");
    assert_eq!(vetoes, ["b", "c"]);
    assert_eq!(*log.borrow(), ["a.should_run t.Vetoed", "b.should_run t.Vetoed", "c.should_run t.Vetoed"]);
    assert_eq!(list.should_run(&module(), &pass("t.Other")).expect("nobody fails"), Vec::<String>::new());
}

#[test]
fn when_enter_fails_those_entered_are_exited_in_reverse_and_the_list_is_cleared() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", &["exit"]), ("c", &["enter"]), ("d", PLAIN)]);
    let error = list.enter().expect_err("`c` fails").to_string();
    assert_eq!(error, "instrument `c` of plugin `host`, enter: c fails");
    assert_eq!(*log.borrow(), ["a.enter", "b.enter", "c.enter", "b.exit", "a.exit"]);
    assert!(list.is_empty());
    assert_eq!(messages(&list.take_failures()), ["instrument `b` of plugin `host`, exit: b fails"]);
}

#[test]
fn when_exit_fails_later_ones_are_not_exited_and_the_list_is_cleared() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", &["exit"]), ("c", PLAIN)]);
    list.enter().expect("all enter");
    log.borrow_mut().clear();
    let error = list.exit().expect_err("`b` fails").to_string();
    assert_eq!(error, "instrument `b` of plugin `host`, exit: b fails");
    assert_eq!(*log.borrow(), ["a.exit", "b.exit"]);
    assert!(list.is_empty());
}

#[test]
fn when_run_before_fails_only_those_that_began_are_told() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", &["run_before"]), ("c", PLAIN)]);
    let error = list.run_before(&module(), &pass("t.P")).expect_err("`b` fails").to_string();
    assert_eq!(error, "instrument `b` of plugin `host`, run_before of step 1, pass `t.P`: b fails");
    assert_eq!(*log.borrow(), ["a.run_before t.P", "b.run_before t.P", "a.run_failed t.P"]);
    assert!(!list.is_empty());
}

#[test]
fn when_run_after_fails_the_others_are_told_nevertheless() {
    let (mut list, log) = list(&[("a", &["run_after"]), ("b", &["run_after"]), ("c", PLAIN)]);
    let module = module();
    let started = list.run_before(&module, &pass("t.P")).expect("all may begin");
    log.borrow_mut().clear();
    let error = list.run_after(started, &module, &pass("t.P")).expect_err("`a` fails").to_string();
    assert_eq!(error, "instrument `a` of plugin `host`, run_after of step 1, pass `t.P`: a fails");
    assert_eq!(*log.borrow(), ["a.run_after t.P", "b.run_after t.P", "c.run_after t.P"]);
    assert_eq!(
        messages(&list.take_failures()),
        ["instrument `b` of plugin `host`, run_after of step 1, pass `t.P`: b fails"]
    );
}

#[test]
fn replacing_exits_the_old_and_enters_the_new() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", PLAIN)]);
    list.enter().expect("all enter");
    list.replace(vec![recorder("c", PLAIN, &log)]).expect("`c` enters");
    list.exit().expect("`c` exits");
    assert_eq!(*log.borrow(), ["a.enter", "b.enter", "a.exit", "b.exit", "c.enter", "c.exit"]);
}

/// An instrument that fails is left out if the run keeps going, and the other instruments are not affected.
#[test]
fn who_fails_in_a_run_that_goes_on_is_not_called_again() {
    let (mut list, log) = list(&[("a", &["should_run"]), ("b", &["run_before"]), ("c", PLAIN)]);
    list.mode(Mode { keep_going: true, ..Mode::default() });
    let module = module();
    list.enter().expect("nothing stops");
    assert_eq!(list.should_run(&module, &pass("t.P")).expect("nothing stops"), Vec::<String>::new());
    let started = list.run_before(&module, &pass("t.P")).expect("nothing stops");
    list.run_after(started, &module, &pass("t.P")).expect("nothing stops");
    list.exit().expect("nothing stops");
    let after_enter: Vec<String> = log.borrow()[3..].to_vec();
    assert_eq!(
        after_enter,
        [
            "a.should_run t.P",
            "b.should_run t.P",
            "c.should_run t.P",
            "b.run_before t.P",
            "c.run_before t.P",
            "c.run_after t.P",
            "c.exit"
        ]
    );
    assert_eq!(list.take_failures().len(), 2);
}

/// A panic is a failure like any other: started instruments are ended, and entered instruments are exited.
#[test]
fn a_panic_of_an_instrument_is_its_failure() {
    let (mut panics, log) = list(&[("a", PLAIN), ("b", &["panic", "run_before"]), ("c", PLAIN)]);
    panics.enter().expect("nothing fails");
    log.borrow_mut().clear();
    let error = panics.run_before(&module(), &pass("t.P")).expect_err("`b` panics");
    assert!(error.to_string().ends_with("panicked: b panics"), "{error}");
    assert_eq!(*log.borrow(), ["a.run_before t.P", "b.run_before t.P", "a.run_failed t.P"]);
    log.borrow_mut().clear();
    panics.exit().expect("an instrument that panicked is not called again");
    assert_eq!(*log.borrow(), ["a.exit", "c.exit"]);
    let (mut panics, log) = list(&[("a", PLAIN), ("b", &["panic", "enter"])]);
    panics.enter().expect_err("`b` panics");
    assert_eq!(*log.borrow(), ["a.enter", "b.enter", "a.exit"]);
}

/// A failure of an instrument in a TVM-compatible run ends the calls of all instruments for that pass.
#[test]
fn as_tvm_nobody_hears_of_an_end_once_anybody_failed() {
    let (mut list, log) = list(&[("a", PLAIN), ("b", &["run_before"]), ("c", PLAIN)]);
    list.mode(Mode { compat: Compat::Tvm, ..Mode::default() });
    list.run_before(&module(), &pass("t.P")).expect_err("`b` fails");
    assert_eq!(*log.borrow(), ["a.run_before t.P", "b.run_before t.P"]);
    let (mut list, log) = super::tests::list(&[("a", PLAIN), ("b", &["run_after"]), ("c", PLAIN)]);
    list.mode(Mode { compat: Compat::Tvm, ..Mode::default() });
    let started = list.run_before(&module(), &pass("t.P")).expect("all may begin");
    log.borrow_mut().clear();
    list.run_after(started, &module(), &pass("t.P")).expect_err("`b` fails");
    assert_eq!(*log.borrow(), ["a.run_after t.P", "b.run_after t.P"]);
    let started = list.run_before(&module(), &pass("t.P")).expect("all may begin");
    log.borrow_mut().clear();
    list.run_failed(started, &module(), &pass("t.P"), "it failed");
    assert!(log.borrow().is_empty());
}
