//! Tests that with `--locked`, the dynamic loader opens only libraries that were hashed together with a plugin.

use super::Case;
use super::lock::{SOURCE, built, mine};
use super::odd::shared_target;
use std::process::Command;

/// A library whose constructor creates a file in the current folder.
const OTHER: &str = "#include <stdio.h>\n__attribute__((constructor)) static void init(void) {\n\
                     FILE *mark = fopen(\"ran\", \"w\");\nif (mark) fclose(mark);\n}\n";

fn has_run(case: &Case) -> bool {
    std::fs::remove_file(case.path("ran")).is_ok()
}

/// Compiles `other.c` into a library in a folder of the case.
fn compile(case: &Case, file: &str) {
    let path = case.path(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).arg(&path).arg(case.path("other.c"));
    assert!(command.status().expect("cc runs").success());
}

/// Links the plugin with these arguments.
fn link(case: &Case, args: &[String]) {
    let lines: String = args.iter().map(|arg| format!("println!(\"cargo:rustc-link-arg={arg}\");")).collect();
    std::fs::write(case.path("mine/build.rs"), format!("fn main() {{ {lines} }}\n")).expect("a build script");
}

/// Checks that each command that reads plugins refuses the plugin, names it and the entry, and loads nothing.
fn refused(case: &Case, entry: &str) {
    let all: [&[&str]; 4] = [
        &["run", "small.py", "--passes", "mine.Nothing", "--locked"],
        &["run", "small.py", "--passes", "", "--locked"],
        &["check", "--locked"],
        &["list", "--locked"],
    ];
    for args in all {
        let (said, code) = built(case, args);
        let what = format!("plugin `mine_links` has the entry `{entry}");
        assert!(code == 3 && said.contains(&what) && said.contains("help: link them statically"), "{args:?}: {said}");
        assert!(!has_run(case), "{args:?}: the other library ran");
    }
}

#[test]
fn libraries_that_are_not_of_the_system_are_refused() {
    let case = mine("links", SOURCE).file("other.c", OTHER);
    compile(&case, "far/libother.so");
    let (far, path) = (case.path("far").display().to_string(), case.path("far/libother.so").display().to_string());
    let needed = ["-Wl,--no-as-needed".to_string(), path.clone()];
    let by_name = |flag: &str| [&needed[..1], &[format!("-L{far}"), "-lother".to_string(), flag.to_string()]].concat();
    let ways = [
        (needed.to_vec(), "NEEDED $CASE/far/libother.so", true),
        (by_name(&format!("-Wl,-rpath,{far},--enable-new-dtags")), "RUNPATH $CASE/far", true),
        (by_name(&format!("-Wl,-rpath,{far},--disable-new-dtags")), "RPATH $CASE/far", true),
        (vec![format!("-Wl,--auxiliary,{path}")], "AUXILIARY $CASE/far/libother.so", true),
        (vec!["-Wl,-rpath,$ORIGIN".to_string()], "RUNPATH $ORIGIN", false),
    ];
    for (args, entry, runs) in ways {
        link(&case, &args);
        assert_eq!(built(&case, &["lock"]).1, 0);
        has_run(&case);
        let (said, code) = built(&case, &["run", "small.py", "--passes", "mine.Nothing"]);
        assert_eq!((code, has_run(&case)), (0, runs), "{entry}: {said}");
        refused(&case, entry);
    }
    // A built library is treated in the same way.
    let library = format!("debug/{}mine_links{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = shared_target().join(library);
    std::fs::copy(&library, case.path("libmine.so")).expect("the library");
    let case = case.file("passes.toml", "[[plugin]]\npath = \"libmine.so\"\n");
    assert_eq!(built(&case, &["lock"]).1, 0);
    refused(&case, "RUNPATH $ORIGIN");
    // Without such entries it is loaded.
    let case = case.file("passes.toml", "[[plugin]]\ncrate = \"mine\"\n");
    link(&case, &["-Wl,--no-as-needed".to_string(), "-lm".to_string()]);
    assert_eq!(built(&case, &["lock"]).1, 0);
    let (said, code) = built(&case, &["run", "small.py", "--passes", "mine.Nothing", "--locked"]);
    assert_eq!((code, has_run(&case)), (0, false), "{said}");
}
