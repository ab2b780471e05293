//! Tests A-normal form: breaking up a function and normalizing it restores the function.

use super::{brief, cases, choices, made, shown};
use passhost::verify::verify_module;
use passhost_tests::engine;
use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;
use plugin_api::rewrite::mutators::ExprMutatorBase;
use plugin_api::tvm::ExprMutator;
use plugin_api::typing::infer_types::infer_types;
use plugin_api::typing::normalize::{first_not_normal, normalize};
use proptest::prelude::*;

/// Inlines bindings that have one user in the same block. Returns the function and their number.
pub(super) fn broken_up(body: &Body, choose: impl Fn(usize) -> bool) -> (Body, usize) {
    let (users, parents, mut edit, mut n) = (body.users(), body.parents(), body.edit(), 0);
    for value in body.bindings() {
        let at = value.index().expect("a node");
        // A match_cast may define symbolic variables that other bindings mention, and a scalar is a symbolic variable
        // itself.
        let plain = matches!(value.kind(), kind::CALL | kind::TUPLE_GET) && value.symbol().is_none();
        let block = body.value_at(parents[at] as usize);
        let output = block.kind() == kind::DATAFLOW && !value.has(flag::INNER);
        let mut of = users.each(value);
        let (Some(user), None) = (of.next(), of.next()) else { continue };
        let once = user.operands().filter(|operand| *operand == value).count() == 1;
        // A call directly before its alias or match_cast becomes the value of that binding.
        let same_block = parents[user.index().expect("a node")] == parents[at];
        if plain
            && !output
            && once
            && same_block
            && !matches!(user.kind(), kind::ALIAS | kind::MATCH_CAST)
            && choose(at)
        {
            let v = edit.v(value);
            edit.update(v, |node| node.flags &= !(flag::BOUND | flag::INNER));
            n += 1;
        }
    }
    (edit.finish().unwrap_or_else(|error| panic!("{error}\n{}", plugin_api::walk::dump::dump(body))), n)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn normalize_undoes_nesting(bytes in choices(), mask in any::<u64>()) {
        let module = made(&bytes);
        let mut nested = module.edit();
        for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
            prop_assert_eq!(first_not_normal(body), None, "the builder gives A-normal form");
            // A nested expression is evaluated directly before its user, so only adjacent expressions keep their order.
            let users = body.users();
            let before_user = |at: usize| users.each(body.value_at(at)).next().and_then(Value::index) == Some(at + 1);
            let (broken, n) = broken_up(body, |at| mask >> (at % 64) & 1 == 1 && before_user(at));
            prop_assert_eq!(first_not_normal(&broken).is_some(), n > 0);
            let normal = normalize(&broken, engine()).expect("well-typed");
            prop_assert_eq!(first_not_normal(&normal), None);
            // Results may be declared with wider types than inferred.
            let whole = normalize(body, engine()).expect("well-typed");
            prop_assert!(normal.structural_eq(&whole), "{}\n{}", plugin_api::walk::dump::dump(&whole), plugin_api::walk::dump::dump(&normal));
            prop_assert!(normalize(&normal, engine()).expect("well-typed").same(&normal));
            nested.set(name, broken);
        }
        // The nested form is also well-formed, prints, and parses back.
        let nested = nested.finish();
        prop_assert_eq!(verify_module(&nested, engine()), Ok(()), "{}", brief(&nested));
        let printed = shown(&nested);
        let again = script::read(&printed, engine());
        let again = again.map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
        prop_assert_eq!(verify_module(&again, engine()), Ok(()), "{}", printed);
    }

    /// Missing types are inferred, and equal the original types.
    #[test]
    fn normalize_infers_what_is_missing(bytes in choices()) {
        let module = made(&bytes);
        for (_, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
            let mut edit = body.edit();
            let parents = body.parents();
            let inferred = |value: &Value<'_>| match value.kind() {
                // A call whose type is not determined by its operator.
                kind::CALL => value.as_call().and_then(Call::op).is_some() && !is_value_of_alias(*value, &parents),
                kind::TUPLE | kind::TUPLE_GET => true,
                _ => false,
            };
            // Types mention scalar variables.
            for value in body.values().filter(inferred).filter(|value| value.symbol().is_none()) {
                let v = edit.v(value);
                edit.update(v, |node| node.ty = u32::MAX);
            }
            let untyped = edit.finish().expect("types are not needed");
            let typed = normalize(&untyped, engine()).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let whole = normalize(body, engine()).expect("well-typed");
            prop_assert!(typed.structural_eq(&whole), "{}\n{}", plugin_api::walk::dump::dump(&whole), plugin_api::walk::dump::dump(&typed));
        }
    }
}

/// Removes calls whose type is that of their argument.
struct Through;

impl Through {
    fn argument<'b>(call: Call<'b>) -> Option<Value<'b>> {
        let unary = call.op().is_some_and(|op| op != "relax.call_pure_packed") && call.args().len() == 1;
        let arg = call.arg(0).filter(|_| unary && !call.value().has_effect())?;
        (!arg.is_leaf() && arg.ty().to_owned() == call.ty().to_owned()).then_some(arg)
    }
}

impl<'b> ExprMutator<'b> for Through {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Through::argument(call).map_or(Action::Keep, |arg| Action::Replace(rw.v(arg))))
    }
}

impl<'b> ExprMutatorBase<'b> for Through {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        ExprMutator::visit_call(self, call, rw)
    }
}

/// Rebuilds every call, and unary calls of a tensor twice: nested expressions are used repeatedly.
struct Twice;
impl<'b> ExprMutator<'b> for Twice {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
        let again = rw.call_like(call, &args);
        if call.value().has_effect() || !call.ty().is_tensor() || call.value().is_nested() {
            return Ok(Action::Replace(again));
        }
        Ok(Action::Replace(rw.call("relax.maximum", &[again, again], &[], &call.ty().to_owned())))
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Nested expressions may be kept, may replace other expressions, and may be used by new expressions.
    #[test]
    fn mutators_take_what_is_nested(bytes in choices(), mask in any::<u64>()) {
        let module = made(&bytes);
        let relax = |body: &Body| body.function().is_some();
        let broken = module.map_functions(|_, body| {
            Ok::<Body, PassError>(if relax(body) { broken_up(body, |at| mask >> (at % 64) & 1 == 1).0 } else { body.clone() })
        });
        let broken = broken.expect("valid");
        type Mutate = fn(&Body) -> Result<Body, PassError>;
        let mutators: [Mutate; 3] = [
            |body| ExprMutator::mutate(&mut Through, body),
            |body| ExprMutatorBase::mutate(&mut Through, body),
            |body| Twice.mutate(body),
        ];
        for (i, mutate) in mutators.into_iter().enumerate() {
            let new = broken.map_functions(|_, body| if relax(body) { mutate(body) } else { Ok(body.clone()) });
            let new = new.map_err(|error| TestCaseError::fail(format!("{i}: {error}\n{}", brief(&broken))))?;
            prop_assert_eq!(verify_module(&new, engine()), Ok(()), "{}: {}\n{}", i, brief(&broken), brief(&new));
        }
    }

    /// The handle is kept if all types are correct. Imprecise types are inferred again.
    #[test]
    fn infer_types_finds_what_was_there(bytes in choices()) {
        let module = made(&bytes);
        for (_, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
            // A more precise type may contradict uses of the value.
            let Ok(once) = infer_types(body, engine()) else { continue };
            prop_assert!(infer_types(&once, engine()).expect("well-typed").same(&once));
            let (mut edit, parents) = (once.edit(), once.parents());
            for value in once.values() {
                let call = value.as_call().and_then(Call::op).is_some() && !is_value_of_alias(value, &parents);
                // A scalar variable is a symbolic variable, regardless of its value.
                if (call || matches!(value.kind(), kind::TUPLE | kind::TUPLE_GET)) && value.symbol().is_none() {
                    let v = edit.v(value);
                    edit.set_type(v, &Type::Object);
                }
            }
            let vague = edit.finish().expect("a type is a type");
            let found = infer_types(&vague, engine()).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(found.structural_eq(&once), "{}\n{}", plugin_api::walk::dump::dump(&once), plugin_api::walk::dump::dump(&found));
        }
    }
}

/// A pass that changes the type of a parameter: all derived types follow, including those in branches and nested
/// functions.
#[test]
fn infer_types_follows_a_change() {
    let text = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, "n"), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2, "n"), "float32"):
        n = T.int64()
        @R.function
        def twice(y: R.Tensor((2, n), "float32")) -> R.Tensor((2, n), "float32"):
            z = R.add(y, x)
            return z
        a = twice(x)
        if c:
            t = R.nn.relu(x)
            b = R.nn.relu(t)
        else:
            b = R.exp(x)
        d = (a, b)
        e = d[1]
        return e
"#;
    let module = script::read(text, engine()).expect("reads");
    let body = module.get("main").expect("is there");
    let half = |ty: &Type| match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType { dtype: DType::F16, ..tensor.clone() }),
        other => other.clone(),
    };
    let mut edit = body.edit();
    for param in body.values().filter(|value| value.kind() == kind::PARAM && value.name() != Some("c")) {
        let v = edit.v(param);
        edit.set_type(v, &half(&param.ty().to_owned()));
    }
    let stale = edit.finish().expect("valid");
    let fresh = infer_types(&stale, engine()).expect("well-typed");
    let mut changed = module.edit();
    changed.set("main", fresh);
    let changed = changed.finish();
    let wanted = text.replace("float32", "float16");
    assert_eq!(shown(&changed), shown(&script::read(&wanted, engine()).expect("reads")));
    assert_eq!(verify_module(&changed, engine()), Ok(()));
}

fn is_value_of_alias(value: Value<'_>, _: &[u32]) -> bool {
    value.is_nested() && value.sibling(value.end()).kind() == kind::ALIAS
}
