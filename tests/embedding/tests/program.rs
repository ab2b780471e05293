//! Tests the program of `docs/embedding.md`: it parses, runs and prints a module; it rejects an ill-formed module, and
//! a plugin that changed.
#![forbid(unsafe_code)]

use passhost::plugins::lock::Mode;
use passhost::{Engine, Manifest};
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/embedding.md");

const MODEL: &str = "\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype=\"float32\")) -> R.Tensor((2, 3), dtype=\"float32\"):
        return R.add(x, R.add(x, x))
";

/// A text that parses, but whose two declarations contradict each other.
const ILL_FORMED: &str = "\
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Object) -> R.Object:
        R.func_attr({\"relax.force_pure\": True})
        return x
";

/// Builds the standard plugins and returns their paths.
fn libraries() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let entry = |name: &str| format!("[[plugin]]\ncrate = '{}'\n", root.join("plugins").join(name).display());
    let text: String = ["relax-ops", "relax-passes"].map(entry).concat();
    let engine = Engine::new(&Manifest::parse(&root.join("passes.toml"), &text).expect("a manifest")).expect("plugins");
    engine.registry().owners().filter_map(|(_, owner)| owner.file.clone()).collect()
}

/// A folder with a manifest, its lockfile, and copies of the plugins.
struct Folder(PathBuf, Vec<PathBuf>);

impl Folder {
    fn new() -> Folder {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedding");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let copy = |file: PathBuf| {
            let copy = folder.join(file.file_name().expect("a name"));
            std::fs::copy(file, &copy).expect("a copy");
            copy
        };
        let copies: Vec<PathBuf> = libraries().into_iter().map(copy).collect();
        let entry = |file: &PathBuf| format!("[[plugin]]\npath = '{}'\n", file.display());
        std::fs::write(folder.join("passes.toml"), copies.iter().map(entry).collect::<String>()).expect("a manifest");
        Folder(folder, copies)
    }

    fn manifest(&self) -> Manifest {
        Manifest::load(&self.0.join("passes.toml")).expect("a manifest")
    }

    /// Runs the program with a model; returns standard output, standard error and the exit code.
    fn run(&self, model: &str) -> (String, String, Option<i32>) {
        std::fs::write(self.0.join("model.py"), model).expect("a model");
        let mut program = Command::new(env!("CARGO_BIN_EXE_passhost-embedding"));
        let output = program.current_dir(&self.0).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr), output.status.code())
    }
}

#[test]
fn the_program_of_the_page_is_as_safe_as_the_command_line() {
    let folder = Folder::new();
    let (_, stderr, code) = folder.run(MODEL);
    assert!(code == Some(2) && stderr.contains("passes.lock: not found, but --locked needs it"), "{code:?} {stderr}");

    let (engine, written) = Engine::write_lock(&folder.manifest(), &()).expect("a lockfile");
    assert!(written && engine.lock().changes().is_empty() && engine.lock().len() == 2, "{:?}", engine.lock());
    let (stdout, stderr, code) = folder.run(MODEL);
    assert_eq!((stderr.as_str(), code), ("", Some(0)));
    assert!(stdout.contains("gv: R.Tensor((2, 3), dtype=\"float32\") = R.add(x, x)\n"), "{stdout}");

    let (stdout, stderr, code) = folder.run(ILL_FORMED);
    assert_eq!((stdout.as_str(), code), ("", Some(1)));
    assert!(PAGE.contains(&format!("```text\n{}\n```", stderr.trim_end())), "the page shows another error:\n{stderr}");
    let (_, stderr, code) = folder.run(&MODEL.replace("x, R", "z, R"));
    assert!(code == Some(1) && stderr.contains("--> model.py:5:"), "{code:?} {stderr}");

    let changed = folder.1.last().expect("a plugin");
    let mut bytes = std::fs::read(changed).expect("a library");
    bytes.push(0);
    std::fs::write(changed, bytes).expect("a library");
    let (stdout, stderr, code) = folder.run(MODEL);
    assert_eq!((stdout.as_str(), code), ("", Some(3)));
    assert!(stderr.contains("differs from the plugin in ") && stderr.contains(": its sha256 is "), "{stderr}");
    assert!(stderr.contains("or accept this one with `passhost lock`"), "{stderr}");
    // Like `passhost run` without --locked: the change is reported, and recorded after the plugin was opened.
    let engine = Engine::with_lock(&folder.manifest(), Mode::Update, &()).expect("the change is accepted");
    assert_eq!(engine.lock().changes().len(), 1);
    assert_eq!(folder.run(MODEL).2, Some(3), "it is not recorded yet");
    let engine = std::sync::Arc::new(engine);
    let module = engine.read_module(&passhost::Input::text("model.py", MODEL)).module.expect("a module");
    passhost::Pass::find(&engine, "relax.Normalize").expect("a pass").run(&module).expect("it runs");
    assert_eq!(folder.run(MODEL).2, Some(0), "it was recorded by the run");
}

#[test]
fn the_page_shows_the_program() {
    let program = include_str!("../src/main.rs").split_once("\n\n").expect("a header").1;
    assert!(PAGE.contains(&format!("```rust,no_run\n{program}```")), "docs/embedding.md shows another program");
}
