//! Passes that misbehave in various ways.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;
use plugin_api::tvm::ExprMutator;

export_plugin! { passes: [PING, PONG, PANICS, FAILS, WRONG_TYPE, USES_REMOVED, WARNS, DIVIDES, REWRITES, MISSPELLS] }

declare_pass! {
    /// Looks for an operator whose name is misspelt.
    pub function pass MISSPELLS = "bad.Misspells" { opt_level: 0, run: misspells }
}

fn misspells(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let inner = is_op("relax.nn.conv2d", ..).bind("inner");
    let pattern = is_op("relax.nn.rellu", [inner]);
    ctx.matcher(&pattern).rewrite(body, |found, rw| Ok(Action::Replace(rw.v(found.get("inner")?))))
}

declare_pass! {
    /// Requires `bad.Pong`.
    pub function pass PING = "bad.Ping" { opt_level: 0, required: ["bad.Pong"], run: nothing }
}

declare_pass! {
    /// Requires `bad.Ping`.
    pub function pass PONG = "bad.Pong" { opt_level: 0, required: ["bad.Ping"], run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

declare_pass! {
    /// Panics.
    pub function pass PANICS = "bad.Panics" { opt_level: 0, run: panics }
}

#[allow(clippy::panic, reason = "the pass panics on purpose")]
fn panics(_: &Body, _: &Ctx) -> Result<Body, PassError> {
    panic!("the pass lost its way");
}

declare_pass! {
    /// Returns an error at a binding.
    pub function pass FAILS = "bad.Fails" { opt_level: 0, run: fails }
}

fn fails(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    match body.bindings().nth(1) {
        Some(value) => Err(PassError::new("this binding is not to its taste").at(value)),
        None => Ok(body.clone()),
    }
}

declare_pass! {
    /// Gives the first binding an impossible type.
    pub function pass WRONG_TYPE = "bad.WrongType" { opt_level: 0, run: wrong_type }
}

fn wrong_type(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(value) = body.bindings().next() {
        let v = edit.v(value);
        edit.set_type(v, &Type::tensor([1i64, 2, 3], DType::F16));
    }
    Ok(edit.finish()?)
}

declare_pass! {
    /// Removes a binding that is still used.
    pub function pass USES_REMOVED = "bad.UsesRemoved" { opt_level: 0, run: uses_removed }
}

fn uses_removed(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    if let Some(value) = body.bindings().next() {
        edit.remove(value);
    }
    Ok(edit.finish()?)
}

declare_pass! {
    /// Warns about the first binding of each function.
    pub function pass WARNS = "bad.Warns" { opt_level: 0, run: warns }
}

fn warns(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    if let Some(value) = body.bindings().next() {
        ctx.diagnostics().warning(value, "the first binding");
    }
    Ok(body.clone())
}

declare_pass! {
    /// Calls an operator that no plugin declares.
    pub function pass DIVIDES = "bad.Divides" { opt_level: 0, run: divides }
}

struct Divides;

impl<'b> ExprMutator<'b> for Divides {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let (Some(a), Some(b)) = (call.arg(0), call.arg(1)) else { return Ok(Action::Keep) };
        let args = [rw.v(a), rw.v(b)];
        // The name is not a literal, because `passhost check` reports literals.
        let undeclared = "relax.div";
        Ok(Action::Replace(rw.call(undeclared, &args, &[], &a.ty().to_owned())))
    }
}

fn divides(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Divides.mutate(body)
}

declare_pass! {
    /// Rewrites each `R.nn.relu`. All calls but one keep their values.
    pub function pass REWRITES = "bad.Rewrites" {
        opt_level: 0,
        options: Wrong {
            /// The fault of that call: nothing, type, value, operator, panic, or the mark of the
            /// library.
            how: String = "nothing",
            /// The number of that call, from 1.
            at: i64 = 1,
            /// If not 0, selects each call with this first dimension instead.
            dim: i64 = 0,
        },
        run: rewrites,
    }
}

/// A test overwrites the mark in a copy of the library, which makes it a different plugin.
static MARK: [u8; 24] = *b"the mark of bad: nothing";

struct Rewrites<'w> {
    wrong: &'w Wrong,
    how: &'w str,
    seen: i64,
}

impl<'b> ExprMutator<'b> for Rewrites<'_> {
    #[allow(clippy::panic, reason = "the pass panics on purpose")]
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let Some(x) = call.value().as_call_to("relax.nn.relu").and_then(|relu| relu.arg(0)) else {
            return Ok(Action::Keep);
        };
        self.seen += 1;
        let shape = x.ty().dims().and_then(|mut dims| dims.next()).and_then(|dim| dim.as_int());
        let is_it = if self.wrong.dim > 0 { shape == Some(self.wrong.dim) } else { self.seen == self.wrong.at };
        let (arg, ty) = (rw.v(x), x.ty().to_owned());
        let (op, ty) = match self.how {
            "panic" if is_it => panic!("the pass lost its way"),
            "type" if is_it => ("relax.nn.relu", Type::tensor([1i64, 2, 3], DType::F16)),
            "value" if is_it => ("relax.exp", ty),
            "operator" if is_it => ("relax.nn.rleu", ty),
            _ => ("relax.nn.relu", ty),
        };
        Ok(Action::Replace(rw.call(op, &[arg], &[], &ty)))
    }
}

fn rewrites(body: &Body, wrong: &Wrong, _: &Ctx) -> Result<Body, PassError> {
    let mark = std::str::from_utf8(&std::hint::black_box(&MARK)[17..]).unwrap_or_default().trim_end();
    let how = if wrong.how == "marked" { mark } else { &wrong.how };
    Rewrites { wrong, how, seen: 0 }.mutate(body)
}
