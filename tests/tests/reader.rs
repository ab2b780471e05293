//! Tests which texts the parser accepts and rejects, and that it ignores no part of a text.
#![forbid(unsafe_code)]

use passhost_tests::engine;

/// Returns a module of one function.
fn module(signature: &str, body: &str) -> String {
    let mut text = format!("@I.ir_module\nclass Module:\n    @R.function\n    def main({signature}):\n");
    for line in body.lines() {
        text.push_str(&format!("        {line}\n"));
    }
    text
}

/// Parses a text and returns the printed module, which must parse back to the same module.
fn printed(text: &str) -> String {
    let module = script::read(text, engine()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = script::print(&module, engine()).expect("the module can be printed");
    let again = script::read(&printed, engine()).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert!(again.structural_eq(&module), "{printed}");
    printed
}

fn prints(signature: &str, body: &str, line: &str) {
    let printed = printed(&module(signature, body));
    assert!(printed.contains(line), "no `{line}` in\n{printed}");
}

/// Checks that a text is rejected with this message at this piece of the text.
fn refused(text: &str, message: &str, place: &str) {
    let error = script::read(text, engine()).expect_err(text);
    let first = &error.diagnostics[0];
    assert!(first.message.contains(message), "{}", first.message);
    assert_eq!(&text[first.span.clone()], place, "{}", first.message);
}

const X: &str = "x: R.Tensor((2, 3), dtype=\"float32\")";

#[test]
fn names_of_other_scripts_stay() {
    prints(X, "変数 = R.add(x, x)\nπ = R.exp(変数)\nreturn π", "return π");
}

#[test]
fn parameters_are_plain() {
    let plain = "must be plain";
    refused(&module(&format!("{X}, /, y: R.Any"), "return x"), plain, X);
    refused(&module(&format!("y: R.Any, *, {X}"), "return x"), plain, X);
    refused(&module(&format!("{X} = 1"), "return x"), plain, "1");
}

#[test]
fn functions_are_plain() {
    let text = module(X, "return x");
    refused(&text.replace("    def", "    async def"), "plain `def`", "main");
    refused(&text.replace("    def", "    @R.function\n    def"), "a second decorator", "@R.function");
}

#[test]
fn arguments_that_nothing_takes_are_refused() {
    prints(X, "y = R.const(1, dtype=\"float16\")\nreturn y", "R.const(1.0, \"float16\")");
    for (call, message, place) in [
        ("R.const(1, foo=3)", "unexpected argument `foo`", "foo=3"),
        ("R.nn.relu(x, data=x)", "argument `data` is given twice", "data=x"),
        ("R.add(x, x, x1=x)", "argument `x1` is given twice", "x1=x"),
        ("R.add(x, x, foo=x)", "relax.add does not have an attribute `foo`", "foo=x"),
        ("R.const(1, \"int8\", dtype=\"int8\")", "given twice", "dtype=\"int8\""),
        ("R.match_cast(x, R.Any, foo=1)", "unexpected argument `foo`", "foo=1"),
        ("R.match_cast(x, R.Any)[0]", "a binding, not a part", "R.match_cast(x, R.Any)"),
        ("(R.match_cast(x, R.Any), x)", "a binding, not a part", "R.match_cast(x, R.Any)"),
        ("R.shape([1], [2])", "too many arguments", "[2]"),
        ("R.match_cast(x, R.Tensor((1, 2), ndim=5))", "but `ndim` is 5", "(1, 2)"),
        ("R.match_cast(x, R.Tensor((1, 2), \"int8\", None, 2, 3))", "too many arguments", "3"),
        ("R.match_cast(x, R.Shape([1], foo=2))", "unexpected argument `foo`", "foo=2"),
        ("R.match_cast(x, R.Prim(value=3))", "unexpected argument `value`", "value=3"),
        ("R.match_cast(x, R.Tensor((1.5, 2)))", "must be an int64", "1.5"),
        ("R.const(-1, \"uint64\")", "does not fit", "-1"),
        ("R.add(x, x, y=x)", "relax.add does not have an attribute `y`", "y=x"),
    ] {
        refused(&module(X, &format!("y = {call}\nreturn y")), message, place);
    }
    let flow = "with R.dataflow():\n    y = R.exp(x)\n    R.output(y, z=y)\nreturn y";
    refused(&module(X, flow), "unexpected argument `z`", "z=y");
    refused(&module(X, &flow.replace("dataflow()", "dataflow(1)")), "R.dataflow():`", "R.dataflow(1)");
}

/// Python would accept both, for other reasons.
#[test]
fn what_only_python_would_calculate_is_refused() {
    let text = module("a: T.int64, x: R.Tensor((a + True, 2), \"float32\")", "return x");
    refused(&text, "a bool cannot be used as a dimension", "a + True");
    let text = module(X, "y: R.Any = R.call_pure_packed(\"f\", x, **-0.0, ty_args=(R.Any,))\nreturn y");
    refused(&text, "`**` is not supported in a call", "**-0.0");
}

#[test]
fn models_of_python_are_no_modules() {
    let text = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n";
    refused(text, "class `Net` is a model in Python, not a module in TVMScript", "Net");
    refused("class Net:\n    x = 1\n", "class `Net` is not a module", "Net");
}

#[test]
fn integers_of_64_bits_stay() {
    let number = "-9223372036854775808, \"int64\"";
    prints(X, &format!("y = R.const({number})\nreturn y"), number);
    // As in TVM, the value of an unsigned integer is only in the metadata.
    prints(X, "y = R.const(18446744073709551615, \"uint64\")\nreturn y", "= metadata[\"ir.GenericConst\"][0]");
    prints(X, "y = R.shape([-9223372036854775808])\nreturn y", "R.shape([-9223372036854775808])");
}

#[test]
fn operands_have_names() {
    prints(X, "y = R.add(x1=x, x2=x)\nreturn y", "R.add(x, x)");
    prints(X, "y = R.reshape(x, (3, 2))\nreturn y", "R.reshape(x, R.shape([3, 2]))");
    prints(X, "y = R.strided_slice(x, axes=[0], begin=[0], end=[1])\nreturn y", "R.strided_slice(x, (0,), (0,), (1,)");
}

#[test]
fn a_symbolic_variable_is_one_however_often_it_is_declared() {
    let body =
        "n = T.int64()\ny: R.Tensor((n,)) = R.add(x, x)\nn = T.int64()\nz: R.Tensor((n,)) = R.add(y, y)\nreturn z";
    prints("x: R.Tensor((\"n\",))", body, "z: R.Tensor((n,)) = R.add(y, y)");
    let text = module("x: R.Tensor(ndim=1)) -> R.Tensor((\"m\",)", "return x");
    refused(&text, "the symbolic variable `m`", "R.Tensor((\"m\",))");
}

#[test]
fn a_result_that_is_not_declared_speaks_of_parameters_only() {
    let body = "m = T.int64()\ny = R.match_cast(x, R.Tensor((m, 3)))\nreturn (y, x, R.shape([m]))";
    let result = "-> R.Tuple(R.Tensor(ndim=2), R.Tensor((n, 3)), R.Shape(ndim=1)):";
    prints("x: R.Tensor((\"n\", 3))", body, result);
}

#[test]
fn more_is_known_of_values_than_is_said_except_of_calls() {
    let body =
        "y: R.Tensor(ndim=2) = x\nz: R.Tensor = R.const(1.0, \"float32\")\nw: R.Tensor(ndim=2) = R.exp(x)\nreturn w";
    prints(X, body, "y: R.Tensor((2, 3), dtype=\"float32\") = x\n");
    prints(X, body, "z: R.Tensor((), dtype=\"float32\") = R.const");
    prints(X, body, "w: R.Tensor(ndim=2) = R.exp(x)");
}

#[test]
fn the_last_binding_of_a_branch_is_held_to_its_type() {
    let body = "if c:\n    y: R.Tensor((7, 7), \"int8\") = x\nelse:\n    y = x\nreturn y";
    let signature = format!("{X}, c: R.Tensor((), \"bool\")");
    refused(&module(&signature, body), "the declared type contradicts inference", "R.Tensor((7, 7), \"int8\")");
}

#[test]
fn function_attributes_add_up() {
    prints(X, "R.func_attr({\"a\": 1})\nR.func_attr({\"b\": 2})\nreturn x", "R.func_attr({\"a\": 1, \"b\": 2})");
    refused(&module(X, "R.func_attr({\"a\": 1, \"a\": 2})\nreturn x"), "key `a` is given twice", "\"a\"");
    let twice = module(X, "R.func_attr({\"a\": 1})\nR.func_attr({\"a\": 2})\nreturn x");
    refused(&twice, "function attribute `a` is given twice", "{\"a\": 2}");
}

#[test]
fn dimensions_of_shapes_are_int64() {
    let typed = "x: R.Tensor((T.int32(3), T.uint8(4)), \"float32\"), n: T.int32";
    prints(typed, "return R.shape([T.int32(3)])", "main(x: R.Tensor((3, 4), dtype=\"float32\"), n: T.int32)");
    prints(typed, "return R.shape([T.int32(3)])", "R.shape([3])");
    prints(typed, "return R.shape([T.Cast(\"int64\", n)])", "R.shape([T.Cast(\"int64\", n)])");
    refused(&module(typed, "return R.shape([n])"), "a dimension must be an int64, found int32", "n");
    let large = "T.uint64(18446744073709551615)";
    let found = "found 18446744073709551615, which does not fit";
    refused(&module(typed, &format!("return R.shape([{large}])")), found, large);
    prints(typed, &format!("y = R.prim_value({large})\nreturn y"), "y: T.uint64 = T.max_value(\"uint64\")");
}

#[test]
fn a_module_says_its_attributes_once() {
    let module = |lines: [&str; 2]| {
        let function = "    @R.function\n    def main(x: R.Any):\n        return x\n";
        format!("@I.ir_module\nclass Module:\n    {}\n    {}\n{function}", lines[0], lines[1])
    };
    let twice = |first: &str, second: &str, message: &str| {
        let text = module([first, second]);
        refused(&text, message, second);
        let error = script::read(&text, engine()).expect_err("refused");
        let other = error.diagnostics[0].other.as_ref().map(|(place, _)| &text[place.clone()]);
        assert_eq!((other, error.diagnostics[0].help.as_deref()), (Some(first), Some("put all entries into one dict")));
    };
    twice("I.module_attrs({\"a\": 1})", "I.module_attrs({\"b\": 1})", "a module has only one `I.module_attrs`");
    twice("I.module_attrs({\"a\": 1})", "I.module_attrs({})", "a module has only one `I.module_attrs`");
    let infos = "I.module_global_infos({\"vdevice\": [I.vdevice(\"llvm\")]})";
    twice(infos, "I.module_global_infos({})", "a module has only one `I.module_global_infos`");
    // TVM treats an empty dict as none.
    let text = module(["I.module_attrs({})", "I.module_attrs({\"a\": 1})"]);
    assert!(printed(&text).contains("I.module_attrs({\"a\": 1})"));
}

#[test]
fn targets_are_what_tvm_takes() {
    let attrs = |target: &str| module(X, &format!("R.func_attr({{\"target\": {target}}})\nreturn x"));
    let wrong = |target: &str, message: &str| refused(&attrs(target), message, target);
    refused(&attrs("T.target({\"kind\": \"llvm\", \"kind\": \"cuda\"})"), "key `kind` is given twice", "\"kind\"");
    wrong("T.target('{\"kind\": \"llvm\", \"kind\": \"cuda\"}')", "key `kind` is given twice; remove one of them");
    wrong("T.target('{\"kind\": \"llvm\", \"host\": {\"tag\": 1, \"tag\": 2}}')", "key `tag` is given twice");
    wrong("T.target('{')", "the JSON of a target cannot be read");
    for none in ["T.target(1)", "T.target(None)", "T.target([\"llvm\"])"] {
        wrong(none, "a target must be a string or a dict");
    }
    for none in ["T.target({})", "T.target({\"kind\": 1})", "T.target(\"llvm\", {})"] {
        wrong(none, "a target needs a string `kind`");
    }
    for none in ["T.target()", "T.target(\"llvm\", x=1)", "T.target(target=\"llvm\")"] {
        wrong(none, "`T.target` takes a target, and optionally its host");
    }
    wrong("T.target(\"llvm -mcpu=x\")", "unknown target `llvm -mcpu=x`");
    wrong("T.target(\"\")", "unknown target ``");
    for target in [
        "T.target(\"llvm\")",
        "T.target({\"tag\": \"nvidia/nvidia-a100\"})",
        "T.target({\"kind\": \"cuda\"}, host=\"llvm\")",
        "T.target({\"host\": {\"kind\": \"llvm\"}, \"kind\": \"cuda\"})",
    ] {
        prints(X, &format!("R.func_attr({{\"target\": {target}}})\nreturn x"), &format!("\"target\": {target}"));
    }
}

#[test]
fn functions_of_which_nothing_is_known_may_have_effects() {
    for ty in ["R.Callable", "R.Callable(ret=R.Tensor(ndim=2))", "R.Callable(purity=True)"] {
        prints(&format!("{X}, f: {ty}"), "return x", &format!("f: {ty})"));
    }
    let body = "y = f(x)\nreturn y";
    let effect = |ty: &str| {
        let module = script::read(&module(&format!("{X}, f: {ty}"), body), engine()).expect("a module");
        module.get("main").expect("main").bindings().any(|value| value.has_effect())
    };
    assert!(effect("R.Callable") && effect("R.Callable(ret=R.Any)"));
    assert!(!effect("R.Callable(ret=R.Any, purity=True)") && !effect("R.Callable((R.Any,), R.Any)"));
    refused(&module(&format!("{X}, f: R.Any"), body), "a value of type R.Any cannot be called", "f");
}

#[test]
fn local_functions_can_call_themselves() {
    let body = "@R.function\ndef again(y: R.Any) -> R.Any:\n    return again(y)\nreturn again(x)";
    prints(X, body, "return again(y)");
}

#[test]
fn the_module_may_have_another_name() {
    let text = module(X, "y = Net.main(x)\nreturn y").replace("class Module", "class Net");
    assert!(printed(&text).contains("cls.main(x)"));
}

#[test]
fn a_string_is_no_statement() {
    refused(&module(X, "\"\"\"doc\"\"\"\nreturn x"), "a string is not a statement", "\"\"\"doc\"\"\"");
}

/// Variables are declared as TVM prints them: variables of a signature above its function, variables of a body in that
/// body.
#[test]
fn symbolic_variables_are_declared_where_they_come_in() {
    let body = "n = T.int64()\ny = R.match_cast(x, R.Tensor((n, 4)))\n@R.function\ndef one(a: R.Tensor((n, 4))):\n    \
                return a\nk = TypeVar(\"k\")\n@R.function\ndef two(b: R.Tensor((k, 4))):\n    m = T.int64()\n    c = \
                R.match_cast(b, R.Tensor((m, 4)))\n    return c\nreturn (one(y), two(y))";
    let text = printed(&module("x: R.Tensor(ndim=2), z: R.Tensor((\"q\",))", body));
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.contains(" = T")).collect();
    assert_eq!(lines, ["q = TypeVar(\"q\")", "n = T.int64()", "k = TypeVar(\"k\")", "m = T.int64()"], "{text}");
}

#[test]
fn numbers_have_one_form() {
    let call = |argument: &str| {
        module(X, &format!("y: R.Any = R.call_pure_packed(\"f\", x, {argument}, ty_args=(R.Any,))\nreturn y"))
    };
    // The expected texts are those that TVM prints.
    for (argument, expected) in [
        ("-0.0", "T.float64(-0.0)"),
        ("2.5", "T.float64(2.5)"),
        ("-2.5", "T.float64(-2.5)"),
        ("+2.5", "T.float64(2.5)"),
        ("-T.float32(0.0)", "T.float32(-0.0)"),
        ("R.prim_value(-0.0)", "T.float64(-0.0)"),
        ("+63", "63"),
        ("-T.int32(3)", "T.int32(-3)"),
    ] {
        let printed = printed(&call(argument));
        assert!(printed.contains(&format!("\"f\", x, {expected}, ty_args")), "{argument}:\n{printed}");
    }
}

/// TVM reads functions of floats in dimensions, too. Functions of integers are read as other expressions of the same value.
#[test]
fn functions_in_dimensions() {
    let shape = |dim: &str| {
        let shape = format!("n = T.int64()\ny = R.zeros(R.shape([{dim}]), \"float32\")\nreturn y");
        module("x: R.Tensor((\"n\",), dtype=\"float32\")", &shape)
    };
    for (dim, expected) in [
        ("T.abs(n - 5)", "T.if_then_else(n - 5 >= 0, n - 5, 0 - (n - 5))"),
        ("T.Select(n > 3, n, T.int64(1))", "T.if_then_else(n > 3, n, 1)"),
        ("T.ceil(n) + T.floor(n)", "n + n"),
        ("T.abs(-3)", "3"),
    ] {
        let printed = printed(&shape(dim));
        assert!(printed.contains(&format!("R.shape([{expected}])")), "{dim}: {printed}");
    }
    let float = "T.Cast(\"int64\", T.ceil(T.Cast(\"float32\", n)))";
    refused(&shape(float), "`T.ceil` cannot be used in a dimension", "T.ceil");
    refused(&shape("T.Cast(\"int64\", T.sqrt(T.Cast(\"float32\", n)))"), "`T.sqrt` cannot be used", "T.sqrt");
    refused(&shape("T.shift(n, 1, 2)"), "`T.shift` cannot be used", "T.shift");
}

/// Blocks of a function may have several variables of one name; it is suggested once.
#[test]
fn a_suggestion_names_a_variable_once() {
    let text = module(
        "x: R.Tensor((4,), \"float32\")",
        "with R.dataflow():\n    lv32 = R.add(x, x)\n    R.output(lv32)\nwith R.dataflow():\n    lv32 = R.add(lv32, x)\n    R.output(lv32)\n\
         y = R.add(lv32, lv23)\nreturn y",
    );
    refused(&text, "undefined variable `lv23`; did you mean `lv32`?", "lv23");
}

#[test]
fn a_string_is_a_dimension_only_where_a_shape_has_it() {
    let map = |index: &str| {
        module(
            "x: R.Tensor((16,), dtype=\"float32\")",
            &format!("y = R.layout_transform(x, index_map=T.index_map(lambda i: ({index}, i % 4)))\nreturn y"),
        )
    };
    printed(&map("i // 4"));
    refused(&map("i // \"bool\""), "expected a dimension", "\"bool\"");
    refused(&map("\"i\""), "expected a dimension", "\"i\"");
    prints("x: R.Tensor((\"n + 1\", \"n\"), dtype=\"float32\")", "return x", "R.Tensor((\"n + 1\", n)");
}

#[test]
fn suggestions_are_written_as_in_the_text() {
    let text = prim_func("A: T.Buffer((4,), \"float32\")", "A[0] = T.Brodcast(T.float32(0), 4)");
    refused(&text, "unknown expression `T.Brodcast`; did you mean `T.Broadcast`?", "T.Brodcast");
}

/// Returns a module of a TIR function.
fn prim_func(signature: &str, body: &str) -> String {
    module(signature, body).replace("@R.function", "@T.prim_func(s_tir=True)")
}

#[test]
fn shapes_of_buffers_are_integers() {
    let buffer =
        |dim: &str| prim_func(&format!("h: T.handle, A: T.Buffer(({dim},), \"float32\")"), "A[0] = T.float32(-0.0)");
    assert!(printed(&buffer("+63")).contains("T.Buffer((63,), \"float32\")"));
    assert!(printed(&buffer("+63")).contains("A[0] = T.float32(-0.0)"));
    assert!(
        printed(&prim_func("A: T.Buffer((4,), \"float32\")", "A[0] = -T.float32(0.0)")).contains("T.float32(-0.0)")
    );
    refused(&buffer("T.bool(True)"), "must be an integer", "T.bool(True)");
    let matched = prim_func("h: T.handle", "A = T.match_buffer(h, (h,), \"float32\")\nA[0] = T.float32(0)");
    refused(&matched, "must be an integer, found handle", "h");
}

#[test]
fn an_iterator_of_a_block_has_a_name_of_its_own() {
    let body = |second: &str| {
        format!(
            "for i, j in T.grid(4, 4):\n    with T.sblock(\"b\"):\n        vi = T.axis.spatial(4, i)\n        {second} = \
             T.axis.spatial(4, j)\n        A[vi, {second}] = T.float32(0)"
        )
    };
    let signature = "A: T.Buffer((4, 4), \"float32\")";
    printed(&prim_func(signature, &body("vj")));
    refused(&prim_func(signature, &body("vi")), "already has an iterator `vi`", "T.axis.spatial(4, j)");
}

/// TVM prints a scalar together with the store that follows it, whatever value is stored.
#[test]
fn a_scalar_is_printed_with_the_store_that_follows_it() {
    let text = prim_func(
        "A: T.Buffer((4,), \"int32\")",
        "x: T.int32\nx = A[0] + 1\ny: T.int32 = A[0] + 1\nz: T.int32\nz = z + 1\nA[1] = x + y + z",
    );
    let printed = printed(&text);
    assert!(printed.contains("x: T.int32 = A[0] + 1\n") && printed.contains("y: T.int32 = A[0] + 1\n"), "{printed}");
    assert!(printed.contains("z: T.int32\n"), "{printed}");
}

#[test]
fn a_module_has_no_other_decorator() {
    let text = format!("@foo\n{}", module(X, "return x"));
    refused(&text, "only `@I.ir_module` can decorate a module", "@foo");
}

#[test]
fn a_module_is_a_plain_class() {
    let text = module(X, "return x");
    assert_eq!(printed(&text.replace("class Module:", "class Module():")), printed(&text));
    for (given, place) in
        [("(Base)", "Base"), ("(Base, metaclass=X)", "Base"), ("(metaclass=X)", "metaclass=X"), ("[T]", "[T]")]
    {
        refused(
            &text.replace("class Module:", &format!("class Module{given}:")),
            "a module must be a plain class",
            place,
        );
    }
}

/// The number of a device defaults to 0, and the memory scope defaults to the scope of the device, as in TVM.
#[test]
fn a_virtual_device_has_a_short_name() {
    let devices = "    I.module_global_infos({\"vdevice\": [I.vdevice(\"llvm\", 0, \"global\"), \
                   I.vdevice(\"cuda\", 0, \"global\"), I.vdevice(\"cuda\", 5, \"shared\")]})\n";
    let text = |device: &str| {
        let text = module(&format!("x: R.Tensor((2,), dtype=\"float32\", vdevice=\"{device}\")"), "return x");
        text.replace("class Module:\n", &format!("class Module:\n{devices}"))
    };
    for (given, device) in [("cuda", "cuda:0:global"), ("cuda:1", "cuda:1:shared"), ("llvm:0:global", "llvm:0:global")]
    {
        assert!(printed(&text(given)).contains(&format!("vdevice=\"{device}\"")), "{given}");
    }
    for device in ["cuda:2", "cuda:0:shared", "rocm", "cuda:", ""] {
        refused(
            &text(device),
            &format!("the module does not contain a virtual device `{device}`"),
            &format!("\"{device}\""),
        );
        let error = script::read(&text(device), engine()).expect_err("no such device");
        let help = error.diagnostics[0].help.as_deref().unwrap_or_default();
        assert!(help.contains("`llvm:0:global`, `cuda:0:global`, `cuda:1:shared`"), "{help}");
    }
    let error = script::read(&text("cuda").replace(devices, ""), engine()).expect_err("no devices");
    assert!(error.diagnostics[0].help.as_deref().is_some_and(|help| help.contains("module_global_infos")));
}

/// Sums are not multiplied out.
#[test]
fn lengths_are_products_as_they_are() {
    let names = |prefix: &str| (0..24).map(|i| format!("{prefix}{i}: T.int64")).collect::<Vec<_>>().join(", ");
    let dims: Vec<String> = (0..24).map(|i| format!("a{i} + b{i}")).collect();
    let signature = format!("{}, {}, x: R.Tensor(({}), dtype=\"float32\")", names("a"), names("b"), dims.join(", "));
    prints(&signature, "z = R.flatten(x)\nreturn z", "(a0 + b0) * (a1 + b1) * (a2 + b2)");
}

/// A dataflow block hides its own scalars, but not those of the block around its function.
#[test]
fn scalars_around_a_function_are_known_in_its_dataflow_blocks() {
    let body = "with R.dataflow():
    k: T.int64 = 2

    @R.function
    def inner(y: R.Tensor((4,), dtype=\"float32\")) -> R.Tensor((4, k), dtype=\"float32\"):
        with R.dataflow():
            a = R.zeros(R.shape([4, k]), dtype=\"float32\")
            b = R.nn.relu(a)
            R.output(b)
        return b

    R.output(inner)
return inner";
    prints(X, body, "b: R.Tensor((4, k), dtype=\"float32\") = R.nn.relu(a)");
}

/// The result of a function without a declared result type is known after the function. As in TVM, a reference before
/// it has type `R.Any`.
#[test]
fn results_that_are_not_declared_are_those_of_the_functions() {
    let function = |name: &str, body: &str| {
        format!("    @R.function\n    def {name}(x: R.Tensor((2,), dtype=\"float32\")):\n        {body}\n\n")
    };
    let add = "y = R.add(x, x)\n        return y";
    let calls = "a = Module.early(x)\n        b = Module.late(x)\n        c = Module.main(x)\n        return (a, b, c)";
    let text =
        ["@I.ir_module\nclass Module:\n", &function("early", add), &function("main", calls), &function("late", add)];
    let printed = printed(&text.concat());
    let lines = [
        "a: R.Tensor((2,), dtype=\"float32\") = cls.early(x)",
        "b: R.Any = cls.late(x)",
        "c: R.Any = cls.main(x)",
        "-> R.Tuple(R.Tensor((2,), dtype=\"float32\"), R.Any, R.Any):",
    ];
    lines.iter().for_each(|line| assert!(printed.contains(line), "no `{line}` in\n{printed}"));
}

/// Variables that occur only in a pattern, in a type argument, or in an attribute are declared, too.
#[test]
fn symbolic_variables_that_no_variable_has_are_declared() {
    let cast = "n = T.int64()\nm = T.int64()\ny: R.Tensor((n, 3), dtype=\"float32\") = R.match_cast(x, R.Tensor((n, m), \
                dtype=\"float32\"))\nreturn y";
    prints("x: R.Tensor(ndim=2)", cast, "m = T.int64()");
    let call =
        "m = T.int64()\ny: R.Any = R.call_pure_packed(\"f\", x, ty_args=(R.Tensor((m,), dtype=\"int64\"),))\nreturn y";
    prints(X, call, "m = T.int64()");
}

/// A boolean returned by a branch is not a tensor, whatever the other branch returns.
#[test]
fn a_truth_value_stays_one_in_a_branch() {
    let branches = "if R.const(True, \"bool\"):\n    y: T.bool = True\nelse:\n    y = R.add(x, x)\nreturn y";
    prints(X, branches, "y: R.Any = T.bool(True)");
}

/// Booleans act as numbers in the arithmetic of shapes.
#[test]
fn truth_values_in_the_shape_of_a_buffer() {
    let text = prim_func(
        "A: T.Buffer((\"n\",), \"float32\")",
        "n = T.int32()\nB = A.view(n * True)\nC = A.view(n + T.bool(False))\nA[0] = B[0] + C[0]",
    );
    let expected = "B = T.decl_buffer((n,), data=A.data)\n        C = T.decl_buffer((n,), data=A.data)";
    assert!(printed(&text).contains(expected), "{}", printed(&text));
}

#[test]
fn several_variables_need_a_tuple_of_that_number() {
    let pair = "x: R.Tuple(R.Tensor((2, 3)), R.Tensor((4,))), y: R.Tensor((2, 3))";
    for (body, message, place) in [
        ("a, b, c = x", "3 variables for 2 values", "a, b, c"),
        ("a, b = y, y, y", "2 variables for 3 values", "a, b"),
        ("a, (b, c) = x", "only a tuple can be unpacked", "x"),
        ("a, b = y", "only a tuple can be unpacked", "y"),
        ("a, b = R.split(y, 2)", "unpacked before it is bound to a name", "R.split(y, 2)"),
        ("a, a = x", "`a` appears twice to the left", "a"),
        ("a, *b = x", "expected a variable", "*b"),
        ("a = b = y", "expected one `=`", "a = b = y"),
    ] {
        refused(&module(pair, &format!("{body}\nreturn x")), message, place);
    }
}

#[test]
fn operators_of_python_are_those_that_tensors_have() {
    let signature = format!("{X}, n: R.Prim(\"int64\"), t: R.Tuple(R.Tensor)");
    for (value, message, place) in [
        ("x + 1", "the data type of a number used with a tensor is unknown", "1"),
        ("2.0 * x", "the data type of a number used with a tensor is unknown", "2.0"),
        ("n + x", "expected a tensor, found a value of type", "n"),
        ("t * x", "expected a tensor, found a value of type", "t"),
        ("t.astype(\"int8\")", "expected a tensor, found a value of type", "t"),
        ("x == x", "is not supported for tensors", "x == x"),
        ("x & x", "is not supported for tensors", "x & x"),
        ("not x", "is not supported for tensors", "not x"),
        ("x < x < x", "is not supported for tensors", "x < x < x"),
        ("x.astype()", "expected a data type", "x.astype()"),
        ("x.astype(\"int8\", x)", "too many arguments", "x"),
        ("x.cast(\"int8\")", "expected a value", "x.cast"),
    ] {
        refused(&module(&signature, &format!("y = {value}\nreturn y")), message, place);
    }
}

#[test]
fn a_text_is_one_module_or_one_function() {
    let function = "@R.function\ndef f(x: R.Any):\n    return x\n";
    refused(&format!("{function}{}", function.replace("f(", "g(")), "expected one module or one function", "g");
    refused(&format!("{}{function}", module(X, "return x")), "expected one module or one function", "f");
    let decorated = |with: &str| module(X, "return x").replace("@I.ir_module", with);
    refused(&decorated("@I.ir_module(True)"), "too many arguments", "True");
    refused(&decorated("@I.ir_module(private=True)"), "unexpected argument `private`", "private=True");
    refused(&decorated("@I.ir_module(s_tir=1)"), "expected True or False", "1");
    refused(&decorated("@I.ir_module\n@I.ir_module"), "a second decorator", "@I.ir_module");
    refused(&decorated("@other"), "is not a module", "Module");
    refused(&module(X, "return x").replace("R.function", "R.function(False)"), "too many arguments", "False");
}

#[test]
fn types_of_results_are_given_once() {
    let ty = "R.Tensor((2, 3))";
    let body = format!("y = R.call_dps_packed(\"f\", x, {ty}, out_ty=R.Tensor((4,)))\nreturn y");
    refused(&module(X, &body), "argument `out_ty` is given twice", "R.Tensor((4,))");
    let twice = "@R.function\ndef f(y: R.Any):\n    return y\n@R.function\ndef f(y: R.Any):\n    return y\nreturn x";
    refused(&module(X, twice), "`f` is defined twice", "f");
}

#[test]
fn types_may_contradict_each_other_where_nothing_is_checked() {
    let unchecked = |body: &str| {
        let options = script::ReadOptions { unchecked: true, ..Default::default() };
        let module = script::read_with(&module(X, body), engine(), options).expect("it is read").module;
        passhost::verify::verify_module(&module, engine()).expect_err(body).to_string()
    };
    let product = "y = R.matmul(x, x)\nreturn y";
    refused(&module(X, product), "R.matmul", "R.matmul(x, x)");
    assert!(unchecked(product).contains("the first tensor has 3 columns, but the second has 2 rows"));
    let declared = "y: R.Tensor(ndim=3) = R.add(x, x)\nreturn y";
    refused(&module(X, declared), "the declared type contradicts inference", "R.Tensor(ndim=3)");
    assert!(unchecked(declared).contains("the result of `relax.add`"));
    let called = "@R.function\ndef f(a: R.Tensor((7,))) -> R.Tensor((7,)):\n    return a\ny = f(x)\nreturn y";
    refused(&module(X, called), "argument 0 does not match its parameter", "f(x)");
    assert!(unchecked(called).contains("argument 0 does not match its parameter"));
}

#[test]
fn device_meshes_have_the_names_that_tvm_knows_them_by() {
    let text = |mesh: &str, ty: &str| {
        format!(
            "@I.ir_module\nclass Module:\n    I.module_global_infos({{\"mesh\": [{mesh}((2,), I.Range(0, 2))]}})\n    \
             @R.function\n    def main(x: {ty}((4,), \"float32\", \"mesh[0]\", \"S[0]\")):\n        return x\n"
        )
    };
    assert_eq!(printed(&text("R.dist.device_mesh", "R.dist.DTensor")), printed(&text("R.device_mesh", "R.DTensor")));
}
