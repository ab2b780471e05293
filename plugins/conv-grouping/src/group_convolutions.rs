//! Groups two successive convolutions into a private function.
//!
//! *Expects* functions in A-normal form without dead bindings. *Keeps* what is computed. *Never* puts one convolution
//! into two groups, or a value into a group that something outside needs, but for the last one.

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
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((1, 8, 8, 8), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")):
    ///     a = R.nn.conv2d(x, w)
    ///     b = R.nn.relu(a)
    ///     c = R.nn.conv2d(b, w)
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function(private=True)
    /// def fused_conv2d_conv2d(
    ///     x: R.Tensor((1, 8, 8, 8), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")
    /// ) -> R.Tensor((1, 8, 8, 8), "float32"):
    ///     R.func_attr({"Composite": "acme.conv2d_conv2d"})
    ///     with R.dataflow():
    ///         a = R.nn.conv2d(x, w)
    ///         b = R.nn.relu(a)
    ///         c = R.nn.conv2d(b, w)
    ///         R.output(c)
    ///     return c
    ///
    /// @R.function
    /// def main(x: R.Tensor((1, 8, 8, 8), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")):
    ///     cls = Module
    ///     c = cls.fused_conv2d_conv2d(x, w)
    ///     return c
    /// ```
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

declare_config! {
    /// Most groups that are formed in one function; without it, as many as there are.
    ///
    /// To find the group that makes a difference.
    pub MOST: i64 = "acme.group_convolutions.most" { range: 0.. }
}

fn group_convolutions(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    options.through.iter().try_for_each(|op| ctx.check_operator(op))?;
    let most = MOST.get(ctx).unwrap_or(i64::MAX);
    let mut functions = module.edit();
    let mut groups = 0;
    for (name, body) in
        module.functions().filter(|(_, body)| body.function().is_some_and(|function| !function.is_closed()))
    {
        let chains = Chains { module, through: &options.through, users: body.users(), regions: body.regions() };
        let mut edit = body.edit();
        let mut formed = 0;
        // Greedy from the front: what stands in a group starts no other one.
        for first in body.bindings() {
            if formed == most {
                break;
            }
            let (name_of_group, mark, group) = match chains.from(first, &edit) {
                Some((Kind::Operator, group)) => {
                    ("fused_conv2d_conv2d", ("Composite", "acme.conv2d_conv2d".into()), group)
                }
                Some((Kind::PrimFunc, group)) => ("fused_conv_conv", ("Primitive", Attr::Bool(true)), group),
                None => continue,
            };
            let outlined = edit.outline(&mut functions, &group, name_of_group, &[mark]);
            outlined.map_err(|error| error.in_function(name))?;
            formed += 1;
        }
        functions.set(name, edit.finish()?);
        groups += formed;
    }
    ctx.statistic("groups formed", usize::try_from(groups).unwrap_or_default());
    Ok(functions.finish())
}

/// What a convolution is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Operator,
    PrimFunc,
}

/// What tells how convolutions follow each other in one function.
struct Chains<'b> {
    module: &'b Module,
    through: &'b [String],
    users: Users,
    regions: Regions<'b>,
}

impl<'b> Chains<'b> {
    /// The bindings from a convolution to the next one.
    fn from(&self, first: Value<'b>, edit: &Edit<'b>) -> Option<(Kind, Vec<Value<'b>>)> {
        let (kind, _) = self.convolution(first).filter(|_| !edit.is_removed(first))?;
        let (mut group, mut value) = (vec![first], first);
        loop {
            let user = self.next(value).filter(|user| !edit.is_removed(*user))?;
            group.push(user);
            if self.convolution(user) == Some((kind, value)) {
                return Some((kind, group));
            }
            let call = user.as_call()?;
            value = match call.op().filter(|op| self.through.iter().any(|through| through == op))? {
                "relax.add" if !call.args().any(|arg| arg != value && is_bias(arg)) => return None,
                "relax.nn.batch_norm" => {
                    let normalized = self.next(user).filter(|get| get.as_tuple_get().is_some_and(|(_, i)| i == 0))?;
                    group.push(normalized);
                    normalized
                }
                _ => user,
            };
        }
    }

    /// The one binding that uses a value, if it can stand in a group with it.
    fn next(&self, value: Value<'b>) -> Option<Value<'b>> {
        let user = self.users.only_binding(value)?;
        (self.regions.same(value, user) && !user.has_effect()).then_some(user)
    }

    /// What kind of convolution a value is, and the value that it is applied to.
    fn convolution(&self, value: Value<'b>) -> Option<(Kind, Value<'b>)> {
        let call = value.as_call()?;
        match call.op()? {
            "relax.nn.conv2d" => Some((Kind::Operator, call.arg(0)?)),
            "relax.call_tir" => {
                let kind = self.module.get(call.arg(0)?.as_global()?)?.root().attr("my_op_kind")?;
                (kind.as_str() == Some("convolution")).then_some((Kind::PrimFunc, call.arg(1)?.operand(0)?))
            }
            _ => None,
        }
    }
}

/// Whether a value has more than one element along at most one axis.
fn is_bias(value: Value<'_>) -> bool {
    value.ty().static_dims().is_some_and(|dims| dims.into_iter().filter(|dim| *dim != 1).count() <= 1)
}
