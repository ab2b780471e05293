"""Tests the execution of modules."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import passhost
from passhost import runtime
from passhost.error import ExecutionError


def test_arrays_in_and_out(mod):
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(passhost.exec(mod, x).numpy(), 2 * x)
    np.testing.assert_array_equal(runtime.VirtualMachine(runtime.build(mod))["main"](x).numpy(), 2 * x)


def test_values_of_all_kinds():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), "int64"), s: R.Prim("int32"), t: R.Tuple(R.Tensor((2,), "bool"), R.Shape)):
        n = T.int64()
        return (x, s, t, R.shape([n, 7]), R.str("text"))
""")
    flags = np.array([True, False])
    x, s, t, shape, text = passhost.exec(mod, np.ones((3, 2), "int64"), np.int32(5), (flags, runtime.Shape((4, 5))))
    assert x.dtype == "int64"
    assert x.shape == (3, 2)
    assert s == 5
    np.testing.assert_array_equal(t[0].numpy(), flags)
    assert t[1] == (4, 5)
    assert shape == (3, 7)
    assert text == "text"


def test_data_types_that_numpy_lacks():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "bfloat16")) -> R.Tensor((2,), "bfloat16"):
        return R.add(x, x)
""")
    bits = np.array([0x3F80, 0x4000], "uint16")
    out = passhost.exec(mod, runtime.Tensor(bits, "bfloat16"))
    assert out.dtype == "bfloat16"
    assert np.asarray(out.numpy()).view("uint16").tolist() == [0x4000, 0x4080]
    with pytest.raises(TypeError, match="NumPy lacks bfloat16"):
        runtime.Tensor(np.ones(2, "float32"), "bfloat16")


def test_dlpack_both_ways(mod):
    class Library:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    out = passhost.exec(mod, Library(np.ones((2, 4), "float32")))
    np.testing.assert_array_equal(np.from_dlpack(out), np.full((2, 4), 2, "float32"))


def test_packed_functions():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_pure_packed("test.times_ten", x, ty_args=(R.Tensor((2,), "float32"),))
        z = R.call_dps_packed("test.plus_one", (y,), out_ty=R.Tensor((2,), "float32"))
        return z
""")

    @runtime.register_global_func("test.times_ten", override=True)
    def times_ten(x):
        return runtime.tensor(x.numpy() * 10)

    @runtime.register_global_func("test.plus_one", override=True)
    def plus_one(x, out):
        out.numpy()[:] = x.numpy() + 1

    x = np.array([1, 2], "float32")
    assert passhost.exec(mod, x).numpy().tolist() == [11, 21]

    @runtime.register_global_func("test.plus_one", override=True)
    def fails(x, out):
        raise KeyError("why")

    with pytest.raises(KeyError, match="why") as caught:
        passhost.exec(mod, x)
    assert "test.plus_one" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="already registered"):
        runtime.register_global_func("test.plus_one", fails)


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        ((np.ones((2, 5), "float32"),), ExecutionError, "dimension 1 of parameter `x` of `main` is 5"),
        ((np.ones((2, 4)),), ExecutionError, "float64"),
        ((), ExecutionError, "1"),
        ((object(),), TypeError, "expected an array, number, shape, string or tuple, found object"),
    ],
)
def test_arguments_that_do_not_fit(mod, args, kind, message):
    with pytest.raises(kind, match=message):
        passhost.exec(mod, *args)


def test_limits():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main() -> R.Tensor((100000, 100000), "float32"):
        return R.zeros(R.shape([100000, 100000]), "float32")
""")
    with pytest.raises(ExecutionError, match="memory"):
        passhost.exec(mod, limit_memory=1 << 20)


def test_functions_that_are_not_there(mod):
    with pytest.raises(ExecutionError, match="the module does not contain a function `other`"):
        passhost.exec(mod, function="other")
    with pytest.raises(AttributeError, match="other"):
        runtime.VirtualMachine(mod)["other"]


def test_stateful_calls(mod):
    machine = runtime.VirtualMachine(mod)
    with pytest.raises(ValueError, match="set_input"):
        machine.invoke_stateful("main")
    machine.set_input("main", np.ones((2, 4), "float32"))
    machine.invoke_stateful("main")
    assert machine.get_outputs("main").numpy()[0, 0] == 2


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def copy(A: T.Buffer((3,), "int32"), C: T.Buffer((3,), "int32"), out: T.Buffer((3,), "int32")):
        for i in range(3):
            with T.sblock("copy"):
                v = T.axis.spatial(3, i)
                A[v] = C[v]
                out[v] = C[v] + 1

    @R.function
    def main(x: R.Tensor((3,), "int32"), y: R.Tensor((3,), "int32")):
        cls = Module
        return R.call_tir_inplace(
            cls.copy, (x, y), out_ty=[R.Tensor((3,), "int32"), R.Tensor((3,), "int32")], inplace_indices=[0, -1]
        )

    @R.function
    def same(x: R.Tensor((3,), "int32")):
        return (x, R.add(x, x))
"""


def test_arguments_that_are_written_to():
    mod = passhost.script.from_source(IN_PLACE)
    x, y = runtime.tensor(np.zeros(3, "int32")), runtime.tensor(np.arange(3, dtype="int32"))
    first, second = passhost.exec(mod, x, y)
    assert first is x
    assert x.numpy().tolist() == [0, 1, 2]
    assert y.numpy().tolist() == [0, 1, 2]
    assert second is not x and second is not y
    assert second.numpy().tolist() == [1, 2, 3]
    assert passhost.exec(mod, y, function="same")[0] is y


def test_declared_results_are_checked():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Any) -> R.Tensor(("n",), "float32"):
        return y
""")
    x = np.zeros(2, "float32")
    assert passhost.exec(mod, x, x).shape == (2,)
    with pytest.raises(ExecutionError, match="the return value of `main` is 3, but 2") as caught:
        passhost.exec(mod, x, np.zeros(3, "float32"))
    assert not isinstance(caught.value, ValueError)
    with pytest.raises(ValueError, match="return value of `main` has ndim 2, but 1"):
        passhost.exec(mod, x, np.zeros((2, 1), "float32"))
    with pytest.raises(ValueError, match="return value of `main` has dtype int32, but float32"):
        passhost.exec(mod, x, np.zeros(2, "int32"))
    with pytest.raises(TypeError, match="return value of `main` is a tuple"):
        passhost.exec(mod, x, ())


def test_saved_functions_and_times(mod):
    machine = runtime.VirtualMachine(mod)
    x = np.ones((2, 4), "float32")
    machine.save_function("main", "saved", x)
    assert machine["saved"]().numpy()[0, 0] == 2
    times = machine.time_evaluator("saved", number=2, repeat=3)()
    assert len(times.results) == 3
    assert 0 < times.min <= times.median <= times.max
    with pytest.raises(ValueError, match="has a function 'main'"):
        machine.save_function("main", "main", x)
    with pytest.raises(TypeError, match="'main' does not have a parameter 'other'"):
        machine.save_function("main", "saved", other=x)
    with pytest.raises(TypeError, match="takes 1 argument"):
        machine.set_input("main")
    machine.set_input("main", **{mod["main"].params[0].name: x})
    with pytest.raises(RuntimeError, match="invoke_stateful"):
        machine["main"](x)
    assert machine.time_evaluator("invoke_stateful", number=1)("main").results
    assert machine.get_outputs("main").numpy()[0, 0] == 2


def test_executables_as_files(mod, tmp_path):
    runtime.build(mod).export_library(tmp_path / "module.json")
    again = runtime.load_module(tmp_path / "module.json")
    passhost.ir.assert_structural_equal(again.mod, mod)
    (tmp_path / "other").write_text("[]")
    with pytest.raises(ValueError, match="not written by Executable.export_library"):
        runtime.load_module(tmp_path / "other")


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"mod": 3}, TypeError, "exec takes an IRModule, not 3"),
        ({"function": 3}, TypeError, "function must be a string, not 3"),
        ({"limit_memory": "x"}, TypeError, "limit_memory must be an integer, not 'x'"),
        ({"limit_memory": -1}, ValueError, "limit_memory must be an integer from 0 to"),
        ({"limit_work": 0.5}, TypeError, "limit_work must be an integer, not 0.5"),
        ({"limit_memory": 1}, ExecutionError, "use a larger limit_memory"),
        ({"limit_work": np.int64(1)}, ExecutionError, "use a larger limit_work, unless"),
        ({"function": "other"}, ExecutionError, "use function= with a Relax function"),
        ({"args": ()}, ExecutionError, "give arguments that fit"),
    ],
)
def test_what_exec_says_is_about_python(mod, given, kind, message):
    settings = {"mod": mod, "args": (np.ones((2, 4), "float32"),), **given}
    args = settings.pop("args")
    with pytest.raises(kind, match=message) as caught:
        passhost.exec(settings.pop("mod"), *args, **settings)
    assert "--" not in str(caught.value).replace("-->", "")
    assert all("--" not in diagnostic.help for diagnostic in getattr(caught.value, "diagnostics", ()))


BLOCKED = """
import sys
sys.modules["numpy"] = None
import passhost
from passhost.transform import PassContext, module_pass
source = "@I.ir_module\\nclass M:\\n    @R.function\\n    def main(x: R.Tensor((2,), 'float32')):\\n        return x"
mod = passhost.script.from_source(source)
with PassContext(opt_level=3, jobs=1):
    passhost.passes.relax.FuseOps(fuse_opt_level=1)(mod)
print(passhost.tirx.Var("n", "int64") + 1)
"""


def test_what_needs_no_numpy_works_without_it():
    ran = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == "n + T.int64(1)\n", ran.stderr


MATMUL = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (128, 128))
        B = T.match_buffer(b, (128, 128))
        C = T.match_buffer(c, (128, 128))
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function
    def main(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
        cls = Module
        y = R.call_tir(cls.matmul, (x, x), out_ty=R.Tensor((128, 128), "float32"))
        return y
"""


@pytest.fixture
def matmul():
    return passhost.script.from_source(MATMUL)


def test_backends_have_the_same_bits(matmul):
    x = np.random.default_rng(0).standard_normal((128, 128)).astype("float32")
    results = [passhost.exec(matmul, x, backend=backend).numpy() for backend in ("auto", "llvm", "interpreter")]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(runtime.VirtualMachine(matmul, backend="llvm")["main"](x).numpy(), results[0])
    assert passhost.validate(matmul, passhost.passes.tir.ScheduleForCPU(), backend="llvm").is_same
    for call in (passhost.exec, passhost.benchmark, lambda *args, **named: runtime.VirtualMachine(args[0], **named)):
        with pytest.raises(ValueError, match="backend must be one of 'auto', 'llvm', 'interpreter', not 'gpu'"):
            call(matmul, x, backend="gpu")
    with pytest.raises(TypeError, match="backend must be a string"):
        passhost.exec(matmul, x, backend=None)


def in_a_process(program, **environment):
    head = f"import numpy as np, passhost, warnings\nmod = passhost.script.from_source({MATMUL!r})\n"
    head += "x = np.ones((128, 128), 'float32')\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_function_is_compiled_once(tmp_path):
    """Compiled code is written to the cache. Equal functions share it, although the cache is then empty."""
    program = """
import pathlib
def made():
    files = [path for path in pathlib.Path(CACHE).rglob("native/*") if path.is_file()]
    for path in files:
        path.unlink()
    return len(files)
call = passhost.runtime.VirtualMachine(mod, backend="llvm")["main"]
call(x)
print(made() > 0)
call(x), passhost.exec(mod, x, backend="llvm"), passhost.runtime.VirtualMachine(mod, backend="llvm")["main"](x)
print(made())
passhost.exec(passhost.script.from_source(mod.script()), x, backend="llvm")
print(made())
"""
    folder = str(tmp_path)
    assert in_a_process(f"CACHE = {folder!r}{program}", XDG_CACHE_HOME=folder) == ["True", "0", "0"]


def test_without_llvm(tmp_path):
    (tmp_path / "no_library").write_text("text")
    program = """
try:
    passhost.exec(mod, x, backend="llvm")
except passhost.error.ExecutionError as error:
    print(error)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(passhost.exec(mod, x).numpy()[0, 0])
print(caught[0].category.__name__, caught[0].message)
"""
    lines = in_a_process(program, PASSHOST_LLVM=str(tmp_path / "no_library"))
    assert lines[0].startswith("error: native code is not available: ")
    assert "no_library" in lines[0]
    assert lines[-2] == "128.0"
    assert lines[-1].startswith("RuntimeWarning slow functions were interpreted: ")


@pytest.fixture
def add_one():
    return passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.add(x, R.const(1, "float32"))
""")


def test_what_is_written_to_an_array_is_seen_by_the_next_call(add_one):
    tensor = passhost.runtime.tensor(np.zeros(4, "float32"))
    assert passhost.exec(add_one, tensor).numpy().tolist() == [1, 1, 1, 1]
    # No other code holds the array, so the host copy is reused.
    assert tensor._handle() is tensor._handle()
    array = tensor.numpy()
    view = array[1:]
    del array
    assert passhost.exec(add_one, tensor).numpy().tolist() == [1, 1, 1, 1]
    view[:] = 5
    assert passhost.exec(add_one, tensor).numpy().tolist() == [1, 6, 6, 6]
    del view
    assert tensor._handle() is tensor._handle()
    tensor[0] = 7
    assert passhost.exec(add_one, tensor).numpy().tolist() == [8, 6, 6, 6]
    own = np.zeros(4, "float32")
    shared = passhost.runtime.Tensor(own[:])
    passhost.exec(add_one, shared)
    own[:] = 2
    assert passhost.exec(add_one, shared).numpy().tolist() == [3, 3, 3, 3]


def test_a_write_between_a_copy_and_its_use_is_seen(add_one):
    tensor = passhost.runtime.tensor(np.zeros(65536, "float32"))
    end = threading.Event()

    def read():
        while not end.is_set():
            tensor._handle()

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for value in range(300):
        tensor[:] = value
        assert np.frombuffer(tensor._handle().data(), "float32")[-1] == value
    end.set()
    for reader in readers:
        reader.join()


def test_copies_of_a_tensor(add_one):
    tensor = passhost.exec(add_one, np.zeros(4, "float32"))
    passhost.exec(add_one, tensor)
    shallow, deep, pickled = copy.copy(tensor), copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))
    tensor[:] = 5
    for other, expected in [(tensor, 6), (shallow, 6), (deep, 2), (pickled, 2)]:
        assert passhost.exec(add_one, other).numpy().tolist() == [expected] * 4


def test_an_array_that_only_a_weak_reference_knows_is_copied(add_one):
    tensor = passhost.runtime.tensor(np.zeros(4, "float32"))
    weak = weakref.ref(tensor.numpy())
    passhost.exec(add_one, tensor)
    weak()[:] = 5
    assert passhost.exec(add_one, tensor).numpy().tolist() == [6] * 4


@pytest.mark.parametrize("held", [True, False])
def test_a_tensor_that_is_given_twice_is_one_array(held):
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(x: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("x"):
                vi = T.axis.spatial(4, i)
                x[vi] = x[vi] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = Module
        z = R.call_tir_inplace(cls.f, (x,), out_ty=R.Tensor((4,), "float32"), inplace_indices=[0])
        w = R.add(z, y)
        return w
""")
    tensor = passhost.runtime.tensor(np.zeros(4, "float32"))
    array = tensor.numpy() if held else None
    assert passhost.exec(mod, tensor, tensor).numpy().tolist() == [2] * 4
    assert array is None or array.tolist() == [1] * 4


def test_a_result_is_given_on_without_a_copy(add_one):
    once = passhost.exec(add_one, passhost.runtime.tensor(np.zeros(4, "float32")))
    assert once._array is None
    assert passhost.exec(add_one, once).numpy().tolist() == [2, 2, 2, 2]
    once.numpy()[:] = 3
    assert passhost.exec(add_one, once).numpy().tolist() == [4, 4, 4, 4]


def test_the_array_of_a_result_has_the_memory_of_the_host(add_one):
    result = passhost.exec(add_one, np.zeros(4, "float32"))
    array = result.numpy()
    assert not array.flags.owndata
    assert array.flags.writeable
    assert array is result.numpy()
    part = array[1:3]
    del result, array
    for value in range(3):
        assert passhost.exec(add_one, np.full(4, value, "float32")).numpy().tolist() == [value + 1] * 4
    part[:] = 9
    assert part.tolist() == [9, 9]


def test_an_array_in_the_memory_of_the_host_is_copied_while_somebody_has_it(add_one):
    result = passhost.exec(add_one, np.zeros(4, "float32"))
    assert result.numpy().tolist() == [1] * 4
    assert result._handle() is result._handle()
    holds = [
        lambda array: array,
        lambda array: array.base,
        lambda array: array.base.base,
        lambda array: weakref.ref(array.base),
    ]
    for hold in holds:
        held = hold(result.numpy())
        assert result._handle() is not result._handle()
        del held
    assert result._handle() is result._handle()


def test_results_that_share_memory_are_copied():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.add(x, x)
        z = (y, y, R.const(1, "float32"), x)
        return z
""")
    x = passhost.runtime.tensor(np.ones(4, "float32"))
    for _ in range(2):
        first, second, one, same = passhost.exec(mod, x)
        first.numpy()[:] = 5
        one.numpy()[...] = 7
        assert second.numpy().tolist() == [2] * 4
        assert same is x
        assert x.numpy().tolist() == [1] * 4
        assert first.numpy().tolist() == [5] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system lacks fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(matmul):
    scheduled = passhost.passes.tir.ScheduleForCPU()(matmul)
    assert "T.parallel" in scheduled.script()
    x = np.random.default_rng(0).standard_normal((128, 128)).astype("float32")
    expected = passhost.exec(scheduled, x, backend="llvm").numpy()
    child = os.fork()
    if child == 0:
        same = False
        try:
            signal.alarm(60)
            same = np.array_equal(passhost.exec(scheduled, x, backend="llvm").numpy(), expected)
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(passhost.exec(scheduled, x, backend="llvm").numpy(), expected)
