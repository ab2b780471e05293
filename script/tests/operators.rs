//! Tests plugin operators outside Relax: `acme.swish_glu` is written `R.acme.swish_glu`.

use plugin_api::ir::{Call, Type};
use plugin_api::metadata::{ArgInfo, ArgKind, AttrDefault, AttrInfo, AttrType, OpInfo, OptionValue};
use plugin_api::typing::operators::{Infer, InferError, Inferred};
use script::{Operators, print, read};

struct Acme(Vec<OpInfo>);

impl Acme {
    fn new(names: &[&str]) -> Acme {
        let arg = |name: &str| ArgInfo { name: name.to_string(), kind: ArgKind::Tensor, optional: false };
        let beta = AttrInfo {
            name: "beta".to_string(),
            ty: AttrType::Float,
            default: Some(AttrDefault::Value(OptionValue::Float(1.0))),
            by_name: false,
        };
        let op = |name: &&str| OpInfo {
            name: name.to_string(),
            args: vec![arg("x"), arg("gate")],
            attrs: vec![beta.clone()],
            pure: true,
            doc: String::new(),
        };
        Acme(names.iter().map(op).collect())
    }
}

impl Infer for Acme {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let ty = call.arg(0).map_or(Type::Object, |x| x.ty().to_owned());
        Ok(Inferred { ty, pure: true })
    }
}

impl Operators for Acme {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        self.0.iter().find(|info| info.name == name)
    }

    fn near_ops(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

fn function(call: &str) -> String {
    let params = "x: R.Tensor((2, 4), dtype=\"float32\"), y: R.Tensor((2, 4), dtype=\"float32\")";
    format!("@R.function\ndef main({params}):\n    c = {call}\n    return c\n")
}

#[test]
fn an_operator_of_another_namespace_has_one_spelling() {
    let acme = Acme::new(&["acme.swish_glu"]);
    for written in
        ["R.acme.swish_glu(x, y, beta=2.0)", "R.acme.swish_glu(x, y, 2.0)", "T.acme.swish_glu(x, y, beta=2.0)"]
    {
        let module = read(&function(written), &acme).unwrap_or_else(|error| panic!("{written}: {error}"));
        let printed = print(&module, &acme).expect("it has a text");
        let expected = "c: R.Tensor((2, 4), dtype=\"float32\") = R.acme.swish_glu(x, y, beta=2.0)";
        assert!(printed.contains(expected), "{printed}");
        assert!(read(&printed, &acme).expect("is read").structural_eq(&module), "{printed}");
    }
    let bare = read(&function("acme.swish_glu(x, y)"), &acme).expect_err("has no root");
    assert_eq!(bare.diagnostics[0].help.as_deref(), Some("write `R.acme.swish_glu(...)`"));
    let wrong = read(&function("R.acme.swish_glu(x)"), &acme).expect_err("one argument is missing");
    assert!(wrong.diagnostics[0].help.as_deref().is_some_and(|help| help.starts_with("R.acme.swish_glu(x, gate")));
}

#[test]
fn an_operator_of_relax_comes_first() {
    let both = Acme::new(&["acme.swish_glu", "relax.acme.swish_glu"]);
    let call = |text: &str| {
        let module = read(&function(text), &both).expect("is read");
        print(&module, &both).expect("it has a text").lines().find(|line| line.contains("swish")).map(str::to_string)
    };
    let of_relax = call("R.acme.swish_glu(x, y, beta=2.0)").expect("the call");
    assert!(of_relax.ends_with("= R.acme.swish_glu(x, y, beta=2.0)"), "{of_relax}");
    let other = call("T.acme.swish_glu(x, y, beta=2.0)").expect("the call");
    assert!(other.ends_with("= T.acme.swish_glu(x, y, beta=2.0)"), "{other}");
}
