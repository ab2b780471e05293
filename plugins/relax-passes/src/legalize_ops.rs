//! Turns calls of operators into calls of PrimFuncs that compute them.
//!
//! *Expects* any module. *Keeps* calls of operators without a legalization. *Never* changes computed values.

use crate::devices::{Devices, Target};
use plugin_api::ir::erase::seen_outside;
use plugin_api::ir::{AttrsId, TypeId};
use plugin_api::prelude::*;
use plugin_api::typing::infer_types::infer_types;
use plugin_api::typing::legalized::{LegalizedArg, Replacement};
use plugin_api::walk::value_key::{ValueForm, value_form};
use std::collections::{BTreeMap, BTreeSet, HashMap};

declare_pass! {
    /// Replaces calls of operators by calls of PrimFuncs that compute them.
    ///
    /// The plugin of an operator declares its computation. Calls that compute the same function of their arguments share one
    /// PrimFunc, unless their results are on virtual devices with different targets: then each target has its own PrimFunc,
    /// with the attribute `target`. Expects any module. Results never change.
    ///
    /// Keeps the calls from which legalizations are built: `relax.call_*`, `relax.invoke_*`, `relax.make_closure`,
    /// `relax.builtin.*`, `relax.memory.*` and `relax.vm.*`. Keeps `relax.cumprod`, `relax.cumsum` and
    /// `relax.ewise_fma`, which passes for a target replace. Keeps operators without a legalization, and calls with
    /// unknown shapes; a remark names each of them with the reason.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     y = R.exp(x)
    ///     return y
    /// ```
    /// ```relax after
    /// @T.prim_func(private=True, s_tir=True)
    /// def tir_exp(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), compute: T.Buffer((T.int64(2), T.int64(3)), "float32")):
    ///     T.func_attr({"tirx.noalias": True})
    ///     for i0, i1 in T.grid(T.int64(2), T.int64(3)):
    ///         with T.sblock("compute"):
    ///             v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
    ///             T.reads(x[v_i0, v_i1])
    ///             T.writes(compute[v_i0, v_i1])
    ///             compute[v_i0, v_i1] = T.exp(x[v_i0, v_i1])
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     y = R.call_tir(cls.tir_exp, (x,), out_ty=R.Tensor((2, 3), "float32"))
    ///     return y
    /// ```
    pub module pass LEGALIZE_OPS = "relax.LegalizeOps" {
        opt_level: 0,
        preserves: ["relax.no_dataflow"],
        options: Options {
            /// Operators whose calls are kept, such as `relax.nn.conv2d`.
            skip_ops: Vec<String> = [],
            /// True to report a warning instead of a remark for each call of an operator without a legalization.
            enable_warning: bool = false,
        },
        run: legalize_ops,
    }
}

fn legalize_ops(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    options.skip_ops.iter().try_for_each(|op| ctx.check_operator(op)).map_err(PassError::of_option)?;
    let mut functions = PrimFuncs::of(module);
    let mut count = 0;
    for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
        let (mut has_new_types, mut known) = (false, HashMap::<Vec<u32>, PrimCall>::new());
        let legalized = body.try_rewrite(|value, rw| {
            let Some((call, op)) = value.as_call().and_then(|call| Some((call, call.op()?))) else {
                return Ok(Action::Keep);
            };
            if options.skip_ops.iter().any(|skipped| skipped == op) {
                return Ok(Action::Keep);
            }
            let form = value_form(value);
            if let Some(call) = known.get(&form.key) {
                count += 1;
                return Ok(Action::Replace(call.write(&form, rw)));
            }
            let Some(legalized) = legalization(call, op, options, (ctx, name))? else { return Ok(Action::Keep) };
            count += 1;
            let v = match legalized.replacement() {
                Some(Replacement::Function(function)) => {
                    let call = functions.call(value, &form, &legalized, function, rw)?;
                    has_new_types |= call.out != value.ty().to_owned();
                    let v = call.write(&form, rw);
                    if call.is_of_form(rw.body()) {
                        known.insert(form.key, call);
                    }
                    v
                }
                Some(Replacement::Argument(arg)) => return Ok(alias(value, argument(arg.value(rw.body()), rw), rw)),
                Some(Replacement::Constant(array)) => {
                    let constant = rw.array(&array);
                    return Ok(alias(value, constant, rw));
                }
                Some(Replacement::Packed(packed)) => {
                    // An annotation may have sizes that are known only at run time.
                    let ty = ctx.infer(call).map_or_else(|_| value.ty().to_owned(), |inferred| inferred.ty);
                    call_packed(value, &packed, &ty, rw)
                }
                _ => return Err(no_function(value, op)),
            };
            Ok::<_, PassError>(Action::Replace(v))
        });
        let legalized = match legalized {
            Ok(body) if has_new_types => infer_types(&body, ctx).and_then(with_result_type),
            other => other,
        };
        functions.module.set(name, legalized.map_err(|error| error.in_function(name))?);
    }
    ctx.statistic("calls legalized", count);
    Ok(functions.module.finish())
}

/// Returns the legalization of a call. If there is none, reports the reason in a remark.
fn legalization(
    call: Call<'_>,
    op: &str,
    options: &Options,
    (ctx, function): (&Ctx, &str),
) -> Result<Option<Legalized>, PassError> {
    let stays = |why: &str| {
        ctx.diagnostics().in_function(function).remark(call.value(), &format!("`{op}` is kept: {why}"));
        Ok(None)
    };
    if LATER.contains(&op) {
        return stays("passes for a target replace it");
    }
    match ctx.legalize(call) {
        Ok(Some(legalized)) => Ok(Some(legalized)),
        Ok(None) if CALLS.iter().any(|prefix| op.starts_with(prefix)) => Ok(None),
        Ok(None) if options.enable_warning => {
            let what = format!("`{op}` is kept: it lacks a legalization");
            ctx.diagnostics().in_function(function).warning(call.value(), &what);
            Ok(None)
        }
        Ok(None) => stays("it lacks a legalization"),
        Err(InferError::Panicked(fault)) => Err(PassError::new(fault).at(call.value())),
        Err(error) => stays(&error.to_string()),
    }
}

/// Operators to which other operators are legalized: operators that call functions, and operators of the virtual
/// machine.
const CALLS: [&str; 6] =
    ["relax.call_", "relax.invoke_", "relax.make_closure", "relax.builtin.", "relax.memory.", "relax.vm."];

/// Operators that are kept, as in TVM, because passes for the target replace them. They are legalized when executed.
const LATER: [&str; 3] = ["relax.cumprod", "relax.cumsum", "relax.ewise_fma"];

/// Updates the result type of a function to the type of the value that it returns, as callers see it.
fn with_result_type(body: Body) -> Result<Body, PassError> {
    let Some(function) = body.function() else { return Ok(body) };
    let Some(result) = function.result() else { return Ok(body) };
    let params: Vec<Type> = function.params().map(|param| param.ty().to_owned()).collect();
    let mut known: Vec<Sym> = function.params().filter_map(Value::symbol).collect();
    params.iter().for_each(|param| param.each_defined(&mut |sym| known.push(sym)));
    let ret = seen_outside(result.ty().to_owned(), &|sym| !known.contains(&sym));
    let mut edit = body.edit();
    edit.set_signature(params, ret);
    Ok(edit.finish()?)
}

fn no_function(value: Value<'_>, op: &str) -> PassError {
    pass_error!(at value, "the legalization of `{op}` must be a PrimFunc, or a function that returns an argument, a constant or an external \
                           function; this is a fault of its plugin")
}

/// Binds the new value to the name of a binding, or substitutes it for an unnamed expression.
fn alias<'b>(value: Value<'b>, v: V, rw: &mut Rewriter<'b>) -> Action {
    if !value.is_bound() {
        return Action::Replace(v);
    }
    rw.edit().make_alias(value, v);
    Action::Keep
}

/// Returns the text of an attribute, which TVM prints as `R.str("…")`.
fn text(attr: Attr) -> Option<String> {
    match attr {
        Attr::Str(text) => Some(text),
        Attr::Object(name, parts) if name == "R.str" => parts.into_iter().find_map(|(_, part)| text(part)),
        _ => None,
    }
}

/// Emits a call of an external function with the arguments of a call.
fn call_packed<'b>(value: Value<'b>, packed: &str, ty: &Type, rw: &mut Rewriter<'b>) -> V {
    let Some(call) = value.as_call() else { return rw.v(value) };
    let mut args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
    let format = call.attr("format").map(AttrView::to_owned).and_then(text).unwrap_or_default();
    let effect = value.has_effect();
    let b = rw.edit().builder();
    let out = b.ty(ty);
    // The runtime's function for printing takes the text before the values; its function for assertions takes the text
    // after the condition.
    match call.op() {
        Some("relax.print") => args.insert(0, b.string(&format)),
        Some("relax.assert_op") => args.insert(1.min(args.len()), b.string(&format)),
        _ => {}
    }
    let callee = b.op(if effect { "relax.call_packed" } else { "relax.call_pure_packed" });
    let mut operands = vec![b.extern_func(packed, TypeId::NONE)];
    operands.extend(args);
    operands.push(b.type_arg(out));
    rw.edit().call(callee, &operands, AttrsId::NONE, out, effect, None)
}

/// The functions of the module, and the functions that the pass added, by hash.
struct PrimFuncs {
    module: plugin_api::ir::ModuleEdit,
    devices: Devices,
    added: Vec<Added>,
    /// The indices of the added functions with a hash.
    by_hash: BTreeMap<u64, Vec<usize>>,
    /// For each name, the number to append at its next use; 0 for none.
    numbers: BTreeMap<String, u32>,
    /// The names of all `Added`. The module may have such a function only under a name with a target.
    taken: BTreeSet<String>,
}

/// A function that the pass computed. The module has a copy of it for each target.
struct Added {
    name: String,
    function: Body,
    copies: Vec<(Option<Target>, String)>,
}

impl PrimFuncs {
    fn of(module: &Module) -> PrimFuncs {
        PrimFuncs {
            module: module.edit(),
            devices: Devices::of(module),
            added: Vec::new(),
            by_hash: BTreeMap::new(),
            numbers: BTreeMap::new(),
            taken: BTreeSet::new(),
        }
    }

    /// Returns a name that neither the module nor an added function has: the stem, if necessary with a number.
    fn free_name(&mut self, stem: &str) -> String {
        let number = self.numbers.entry(stem.to_string()).or_default();
        loop {
            let name = if *number == 0 { stem.to_string() } else { format!("{stem}{number}") };
            *number += 1;
            if self.module.get(&name).is_none() && !self.taken.contains(&name) {
                return name;
            }
        }
    }

    /// Returns the index of an added function, reusing an equal function that was added before.
    fn added(&mut self, legalized: &Legalized) -> usize {
        let function = &legalized.function;
        let hash = function.structural_hash();
        let known = self.by_hash.get(&hash).into_iter().flatten();
        let known = known.copied().find(|at| self.added[*at].function.structural_eq(function));
        known.unwrap_or_else(|| {
            let name = self.free_name(&legalized.name);
            self.taken.insert(name.clone());
            let at = self.added.len();
            self.added.push(Added { name, function: function.clone(), copies: Vec::new() });
            self.by_hash.entry(hash).or_default().push(at);
            at
        })
    }

    /// Returns the name of the copy of an added function for a target.
    fn name_of(&mut self, legalized: &Legalized, target: Option<&Target>) -> Result<String, PassError> {
        let at = self.added(legalized);
        let (function, Added { name: own, copies, .. }) = (&legalized.function, &self.added[at]);
        if let Some((_, name)) = copies.iter().find(|(of, _)| of.as_ref() == target) {
            return Ok(name.clone());
        }
        let (name, body) = match target {
            None => (own.clone(), function.clone()),
            Some(target) => {
                let stem = format!("{own}_{}", target.kind);
                let mut edit = function.edit();
                edit.set_attr(function.root(), "target", target.attr.clone());
                let body = edit.finish()?;
                (self.free_name(&stem), body)
            }
        };
        self.module.set(name.clone(), body);
        self.added[at].copies.push((target.cloned(), name.clone()));
        Ok(name)
    }

    /// Emits the call of a PrimFunc that replaces a call of an operator.
    fn call<'b>(
        &mut self,
        value: Value<'b>,
        form: &ValueForm<'b>,
        legalized: &Legalized,
        function: &Body,
        rw: &mut Rewriter<'b>,
    ) -> Result<PrimCall, PassError> {
        let place = |arg: &LegalizedArg| form.values.iter().position(|value| *value == arg.value(rw.body()).0);
        let args = legalized.args.iter().map(|arg| (*arg, place(arg))).collect();
        let out = legalized.result_type(&value.ty().to_owned());
        let target = self.devices.target_of(&out).cloned();
        let callee = rw.edit().function_of(&self.name_of(legalized, target.as_ref())?, function);
        Ok(PrimCall { callee, args, symbols: legalized.symbols.clone(), out })
    }
}

/// The call of a PrimFunc that replaces all operator calls of one form.
struct PrimCall {
    callee: V,
    /// Each argument, and its position among the values of the form.
    args: Vec<(LegalizedArg, Option<usize>)>,
    symbols: Vec<Sym>,
    out: Type,
}

impl PrimCall {
    /// Returns true if the call differs from other calls of its form only in the values of the form.
    fn is_of_form(&self, body: &Body) -> bool {
        self.args.iter().all(|(arg, place)| place.is_some() || arg.value(body).0.is_leaf())
    }

    fn write<'b>(&self, form: &ValueForm<'b>, rw: &mut Rewriter<'b>) -> V {
        let mut args = Vec::with_capacity(self.args.len() + self.symbols.len());
        for (arg, place) in &self.args {
            let (value, field) = arg.value(rw.body());
            let value = place.and_then(|place| form.values.get(place).copied()).unwrap_or(value);
            args.push(argument((value, field), rw));
        }
        for sym in &self.symbols {
            args.push(rw.symbol(*sym));
        }
        rw.call_tir(self.callee, &args, None, &self.out)
    }
}

/// Returns an argument, or one element of an argument that is a tuple.
fn argument<'b>((value, field): (Value<'b>, Option<u32>), rw: &mut Rewriter<'b>) -> V {
    let v = rw.v(value);
    let Some(field) = field else { return v };
    let element = rw.tuple_get(v, field);
    rw.emit(element, "gv")
}
