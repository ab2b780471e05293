"""Tests the set of plugins in a process."""

import gc
import os
import shutil
import subprocess
import sys
import weakref
import zipfile
from pathlib import Path

import pytest

import passhost
from passhost._plugins import standard_manifest
from passhost.error import ManifestError, NameNotFoundError, PluginError
from passhost.transform import Sequential, module_pass

LISTS = """
import passhost
print(*[name for name in dir(passhost.passes) if not name.startswith("python")])
"""


def listed(environment=None, path=()):
    program = f"import sys; sys.path[:0] = {[str(folder) for folder in path]!r}\n{LISTS}"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False, timeout=60
    )
    return ran.stdout.split() if ran.returncode == 0 and not ran.stderr else ran.stderr + ran.stdout


def installed(folder, manifest):
    """Creates a package with an entry point, as pip installs it."""
    package = folder / "some_passes"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "passes.toml").write_text(manifest)
    info = folder / "some_passes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-passes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[passhost.plugins]\nsome = some_passes\n")
    return package


def library(name):
    return next(file for file in standard_manifest().parent.iterdir() if name in file.name)


def test_a_manifest_from_the_environment(tmp_path):
    manifest = tmp_path / "passes.toml"
    manifest.write_text(f'[[plugin]]\npath = "{library("tir_passes")}"\n')
    assert listed({**os.environ, "PASSHOST_MANIFEST": str(manifest)}) == ["s_tir", "tir", "tirx"]


def test_plugins_of_installed_packages_are_listed(tmp_path):
    package = installed(tmp_path, '[[plugin]]\npath = "libother.so"\n')
    assert "libother.so" in listed(path=[tmp_path])
    shutil.copy(library("conv_grouping"), package / "libother.so")
    # The standard plugin already has this pass name; the error names both plugins.
    assert "acme.GroupConvolutions" in listed(path=[tmp_path])
    (package / "passes.toml").write_text("plugin = 3")
    assert "its entry point 'some' of passhost.plugins names some_passes, which raised" in listed(path=[tmp_path])


def test_a_plugin_that_asks_for_a_process_of_its_own_is_refused(tmp_path):
    manifest = tmp_path / "passes.toml"
    manifest.write_text(f'[[plugin]]\npath = "{library("tir_passes")}"\nisolate = true\n')
    with pytest.raises(ManifestError, match="is isolated, but Python runs plugins in its own process"):
        passhost.load(manifest)
    package = installed(tmp_path, '[[plugin]]\npath = "libother.so"\nisolate = true\n')
    shutil.copy(library("conv_grouping"), package / "libother.so")
    assert "is isolated, but Python runs plugins in its own process" in listed(path=[tmp_path])


def test_packages_with_damaged_metadata_are_left_out(tmp_path):
    package = installed(tmp_path, "")
    (tmp_path / "some_passes-1.0.dist-info" / "entry_points.txt").write_bytes(b"[passhost.plugins]\n\xff\xfe = x\n")
    assert "cannot be read" in listed(path=[tmp_path])
    assert package.exists()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (
            "class E(Exception):\n    def __str__(self): raise SystemExit(0)\nraise E()",
            "raised E, which cannot be shown",
        ),
        ("raise GeneratorExit('x')", "raised GeneratorExit: x"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("import sys; sys.exit(0)", "called sys.exit(0)"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("def f(:", "SyntaxError"),
        (None, "ModuleNotFoundError: No module named 'some_passes'"),
    ],
)
def test_a_package_that_is_broken_is_left_out(tmp_path, code, what):
    package = installed(tmp_path, "")
    other = tmp_path / "other_passes"
    shutil.copytree(package, other)
    (other / "passes.toml").write_text("")
    info = tmp_path / "other_passes-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-passes\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[passhost.plugins]\nzother = other_passes\n")
    (other / "__init__.py").write_text("print('other is there')")
    if code is None:
        shutil.rmtree(package)
    else:
        (package / "__init__.py").write_text(code)
    said = listed(path=[tmp_path])
    assert what in said and "the plugins of the package some-passes 1.0 are not loaded" in said
    assert "other is there" in said and "relax" in said


def test_a_plugin_that_is_refused_leaves_the_others(tmp_path):
    package = installed(tmp_path, '[[plugin]]\npath = "libother.so"\n')
    shutil.copy(library("conv_grouping"), package / "libother.so")
    said = listed(path=[tmp_path])
    assert "the plugins of the package some-passes 1.0 are not loaded" in said and "relax" in said


def test_a_plugin_packed_as_a_wheel(tmp_path):
    crate = Path(__file__).parents[2] / "plugins" / "template"
    packed = subprocess.run(
        [standard_manifest().parent / "passhost", "package", crate, "-o", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert packed.returncode == 0, packed.stderr
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    assert "template_plugin" in listed(path=[site])


def test_bad_manifests(tmp_path):
    with pytest.raises(ManifestError, match="missing"):
        passhost.load(tmp_path / "missing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("[[plugin]]\npath = 3\n")
    with pytest.raises(ManifestError, match="path"):
        passhost.load(bad)
    text = tmp_path / "text.toml"
    text.write_text('[[plugin]]\npath = "text.toml"\n')
    with pytest.raises(PluginError):
        passhost.load(text)
    assert "relax" in dir(passhost.passes)


@pytest.fixture
def fewer(tmp_path):
    """Loads a manifest without the example plugin; restores the standard plugins afterwards."""
    manifest = tmp_path / "fewer.toml"
    names = ("relax_ops", "relax_passes")
    manifest.write_text("".join(f'[[plugin]]\npath = "{library(name)}"\n' for name in names))
    passhost.load(manifest)
    yield manifest
    passhost.load(standard_manifest())


def same(mod, ctx):
    return mod


def test_passes_of_python_stay_when_plugins_are_loaded(mod, fewer):
    ran = []
    first = module_pass(lambda mod, ctx: ran.append("first") or mod, opt_level=0, name="test.LoadedFirst")
    second = module_pass(lambda mod, ctx: mod, opt_level=0, required=["test.LoadedFirst"], name="loaded_second")
    dead = module_pass(same, opt_level=0, name="test.LoadedDead")
    gone = weakref.ref(dead)
    names = [step.name for step in Sequential([first, second]).plan().steps]
    del dead
    passhost.load(standard_manifest())
    gc.collect()
    assert gone() is None
    assert "LoadedDead" not in dir(passhost.passes.test)
    assert [step.name for step in Sequential([first, second]).plan().steps] == names
    assert second(mod) is mod and first(mod) is mod
    assert ran == ["first", "first"]


def test_a_plugin_that_is_loaded_has_a_pass_of_the_same_name(mod, fewer):
    own = module_pass(same, opt_level=0, name="acme.GroupConvolutions")
    assert own(mod) is mod
    passhost.load(standard_manifest())
    assert "Groups two" in passhost.passes.acme.GroupConvolutions.__doc__
    for use in (own, Sequential([own]), lambda mod: own.plan()):
        with pytest.raises(
            NameNotFoundError, match=r"the Python pass acme.GroupConvolutions cannot run.*different name"
        ):
            use(mod)
    passhost.load(fewer)
    assert own(mod) is mod


@pytest.mark.parametrize("alone", [True, False])
def test_a_pass_that_loads_plugins(mod, fewer, alone):
    def loads(mod, ctx):
        passhost.load(standard_manifest())
        return mod.with_attr("author", 1)

    made = module_pass(loads, opt_level=0)
    after = module_pass(same, opt_level=0)
    assert (made if alone else Sequential([made, after]))(mod).attrs["author"] == 1
    assert after(mod) is mod


def test_the_command_line(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "passhost", "plan", "--passes", "acme.GroupConvolutions"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(passhost.__file__).parents[1])},
        timeout=60,
    )
    assert "relax.DeadCodeElimination" in ran.stdout, ran.stderr
