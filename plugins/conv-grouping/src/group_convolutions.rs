//! Groups two successive convolutions into a private function.
//!
//! *Expects* functions in A-normal form without dead bindings. *Keeps* what is computed. *Never* puts one convolution
//! into two groups, or a value into a group that something outside needs, but for the last one.
//!
//! Before: `a = R.nn.conv2d(x, w1); b = R.nn.relu(a); c = R.nn.conv2d(b, w2)`. After: `c = cls.fused_conv2d_conv2d(x, w1,
//! w2)`, a private function marked `Composite`.

use plugin_api::ir::ModuleEdit;
use plugin_api::prelude::*;

declare_pass! {
    /// Groups two successive convolutions into a private function.
    ///
    /// Two convolutions succeed each other directly, or through operators that nothing else uses. Groups are formed
    /// from the front, without overlap. A convolution is `R.nn.conv2d` (the function is marked `Composite`), or
    /// `R.call_tir` of a PrimFunc with `my_op_kind = "convolution"` (marked `Primitive`).
    ///
    /// Expects functions in A-normal form without dead bindings. Keeps what is computed. Never puts a value into a group
    /// that something outside needs, but for the last one.
    pub module pass GROUP_CONVOLUTIONS = "acme.GroupConvolutions" {
        opt_level: 0,
        required: ["relax.Normalize", "relax.DeadCodeElimination"],
        preserves: ["relax.Normalize", "relax.anf", "relax.no_dataflow"],
        options: Options {
            /// Operators that may stand between the two; `relax.add` only with a bias, `relax.nn.batch_norm` only where
            /// nothing but its first result is used.
            through: Vec<String> = ["relax.add", "relax.nn.relu"],
        },
        run: group_convolutions,
    }
}

fn group_convolutions(module: &Module, options: &Options, _: &Ctx) -> Result<Module, PassError> {
    let mut functions = module.edit();
    for (name, body) in module.functions().filter(|(_, body)| body.function().is_some_and(is_open)) {
        let uses = Uses::new(body);
        let mut edit = body.edit();
        let mut end = 0;
        for first in body.bindings() {
            // Greedy from the front: what stands in a group starts no other one.
            if first.index().is_none_or(|at| at < end && uses.taken(at)) {
                continue;
            }
            let Some(kind) = convolution(first, module) else { continue };
            let Some(group) = uses.follow(first, kind, module, &options.through) else { continue };
            end = group.iter().map(|value| value.end()).max().unwrap_or(0);
            uses.take(&group);
            kind.outline(&mut edit, &mut functions, &group).map_err(|error| error.in_function(name))?;
        }
        functions.set(name, edit.finish()?);
    }
    Ok(functions.finish())
}

/// Neither a group itself nor marked to be left alone.
fn is_open(function: Function<'_>) -> bool {
    let marked = ["Primitive", "Composite", "Codegen"].iter().any(|key| function.attr(key).is_some());
    !marked && !function.skips_optimization()
}

/// What a convolution is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Operator,
    PrimFunc,
}

impl Kind {
    fn outline(self, edit: &mut Edit<'_>, module: &mut ModuleEdit, group: &[Value<'_>]) -> Result<String, PassError> {
        match self {
            Kind::Operator => {
                let mark = [("Composite", Attr::from("acme.conv2d_conv2d"))];
                edit.outline(module, group, "fused_conv2d_conv2d", &mark)
            }
            Kind::PrimFunc => edit.outline(module, group, "fused_conv_conv", &[("Primitive", Attr::Bool(true))]),
        }
    }
}

fn convolution(value: Value<'_>, module: &Module) -> Option<Kind> {
    let call = value.as_call()?;
    match call.op()? {
        "relax.nn.conv2d" => Some(Kind::Operator),
        "relax.call_tir" => {
            let Expr::GlobalVar(name) = call.arg(0)?.view() else { return None };
            let kind = module.get(name)?.root().attr("my_op_kind")?;
            (kind.as_str() == Some("convolution")).then_some(Kind::PrimFunc)
        }
        _ => None,
    }
}

/// The value that a convolution is applied to.
fn data(value: Value<'_>, kind: Kind) -> Option<Value<'_>> {
    match kind {
        Kind::Operator => value.as_call()?.arg(0),
        Kind::PrimFunc => value.as_call()?.arg(1)?.operand(0),
    }
}

/// Who uses what, and what stands in a group.
struct Uses<'b> {
    body: &'b Body,
    /// Users of each node; a user of a nested tuple is that of the tuple.
    users: Vec<Vec<usize>>,
    taken: std::cell::RefCell<Vec<bool>>,
}

impl<'b> Uses<'b> {
    fn new(body: &'b Body) -> Uses<'b> {
        let mut users = vec![Vec::new(); body.len()];
        for user in body.values() {
            for at in user.operands().filter_map(Value::index) {
                users[at].extend(user.index());
            }
        }
        Uses { body, users, taken: vec![false; body.len()].into() }
    }

    fn taken(&self, at: usize) -> bool {
        self.taken.borrow()[at]
    }

    fn take(&self, group: &[Value<'_>]) {
        group.iter().filter_map(|value| value.index()).for_each(|at| self.taken.borrow_mut()[at] = true);
    }

    /// The one binding that uses a value; `None` if there are more, or if it is visible outside its block.
    fn only_user(&self, value: Value<'_>) -> Option<Value<'b>> {
        let [user] = self.users.get(value.index()?)?.as_slice() else { return None };
        let user = self.body.value_at(*user);
        if user.is_nested() { self.only_user(user) } else { Some(user).filter(|user| user.is_binding()) }
    }

    /// The bindings from a convolution to the next one.
    fn follow(&self, first: Value<'b>, kind: Kind, module: &Module, through: &[String]) -> Option<Vec<Value<'b>>> {
        let (mut group, mut value) = (vec![first], first);
        loop {
            let user = self.only_user(value)?;
            if convolution(user, module) == Some(kind) && data(user, kind) == Some(value) {
                group.push(user);
                group.sort_by_key(|value| value.index());
                return Some(group);
            }
            let call = user.as_call().filter(|call| call.op().is_some_and(|op| through.iter().any(|t| t == op)))?;
            group.push(user);
            value = match call.op()? {
                "relax.add" if !is_bias_add(call, value) => return None,
                "relax.nn.batch_norm" => {
                    let normalized =
                        self.only_user(user).filter(|get| get.as_tuple_get().is_some_and(|(_, i)| i == 0))?;
                    group.push(normalized);
                    normalized
                }
                _ => user,
            };
        }
    }
}

/// Whether what is added to `value` is a bias: more than one element along at most one axis.
fn is_bias_add(call: Call<'_>, value: Value<'_>) -> bool {
    let other = call.args().find(|arg| *arg != value);
    let long = |dims: Vec<i64>| dims.into_iter().filter(|dim| *dim != 1).count() <= 1;
    other.and_then(|other| other.ty().static_dims()).is_some_and(long)
}
