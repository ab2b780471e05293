"""Tests the loading of models from files."""

import pytest

import passhost
from passhost.error import PasshostError, ScriptError

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, x)
"""


def test_a_text_in_a_file_is_a_module(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(TEXT)
    for path in [file, str(file)]:
        assert passhost.load_model(path).script() == passhost.script.from_source(TEXT).script()
    (tmp_path / "model").write_text(TEXT)
    assert len(passhost.load_model(tmp_path / "model", format="tvmscript")) == 1


def test_what_is_no_model_is_named(tmp_path):
    file = tmp_path / "model.abc"
    file.write_text("what is this")
    with pytest.raises(ScriptError, match=r"no plugin (of|in) the manifest reads \.abc files \(formats: tvmscript"):
        passhost.load_model(file)
    with pytest.raises(ScriptError, match="no such file"):
        passhost.load_model(tmp_path / "nowhere.py")
    (tmp_path / "model.py").write_text(TEXT)
    with pytest.raises(PasshostError, match="option `a` is given, but TVMScript is read without options"):
        passhost.load_model(tmp_path / "model.py", a=1)
    with pytest.raises(PasshostError, match="no reader `nothing`; available formats: .*tvmscript"):
        passhost.load_model(tmp_path / "model.py", format="nothing")
    with pytest.raises(TypeError, match=r"path must be a file name, not an object of builtins\.int"):
        passhost.load_model(3)
