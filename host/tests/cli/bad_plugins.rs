//! Tests of faulty plugins. `tests/bad-plugins/README.md` describes each of them, and `tests/goldens/plugins` contains the messages and
//! exit codes. Only on Linux, because the tests damage ELF files.

use super::{Case, SMALL, compare, root, transcript};
pub(super) use library::{Library, content, tag};
use library::{edit, fields};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

#[path = "bad_plugins/library.rs"]
mod library;

/// Returns the folder of the built crate `tests/bad-plugins/zoo`, with its examples in `examples`.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().expect("the folder of a profile");
        let release = folder.file_name().is_some_and(|name| name == "release");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--lib", "--examples", "-p", "passhost-zoo"])
            .args(release.then_some("--release"));
        cargo.current_dir(root()).env("CARGO_TARGET_DIR", folder.parent().expect("a target folder"));
        assert!(cargo.status().expect("cargo runs").success(), "the bad plugins do not build");
        folder.to_path_buf()
    })
}

/// Returns the valid plugin.
pub(super) fn good() -> PathBuf {
    built().join("libpasshost_zoo.so")
}

/// Returns a faulty plugin.
pub(super) fn example(name: &str) -> PathBuf {
    built().join("examples").join(format!("libzoo_{name}.so"))
}

fn damaged(damage: impl FnOnce(Library) -> Library) -> Vec<u8> {
    damage(Library::read(&good())).0
}

impl Case {
    /// Adds a manifest of library files.
    pub(super) fn libraries(self, files: &[impl AsRef<Path>]) -> Case {
        let entry = |file: &_| format!("[[plugin]]\npath = \"{}\"\n", AsRef::<Path>::as_ref(file).display());
        self.file("passes.toml", files.iter().map(entry).collect::<String>())
    }

    /// Adds a library with these bytes, and a manifest that lists it.
    fn library(self, bytes: Vec<u8>) -> Case {
        self.file("libx.so", bytes).libraries(&["libx.so"])
    }

    /// Adds the operators that `small.py` uses.
    pub(super) fn operators(self) -> Case {
        let text = std::fs::read_to_string(self.path("passes.toml")).expect("a manifest");
        let operators = format!("[[plugin]]\ncrate = \"{}\"\n", root().join("plugins/relax-ops").display());
        self.file("passes.toml", text + &operators)
    }

    /// Compares the output of several commands with one golden.
    fn says(&self, commands: &[&[&str]]) {
        self.says_with(commands, &[], |text| text);
    }

    pub(super) fn says_with(&self, commands: &[&[&str]], env: &[(&str, &str)], clean: impl Fn(String) -> String) {
        let said = |args: &&[&str]| {
            let mut command = self.command(args);
            command.envs(env.iter().copied());
            transcript(args, self.finish(command, b""))
        };
        let said: Vec<String> = commands.iter().map(said).collect();
        compare("plugins", self.name, &clean(said.join("\n")));
    }
}

/// Commands for plugins that `list` refuses, as does every command.
const LIST: &[&[&str]] = &[&["list"]];
/// Commands for plugins that `list`, `plan` and `explain` accept, but that are refused when they are opened, before the first step.
const OPEN: &[&[&str]] =
    &[&["plan", "--passes", "zoo.Nothing"], &["check"], &["run", "small.py", "--passes", "zoo.Nothing"]];

/// Defines tests of refused plugins from the way in which the file is made and the commands to run.
macro_rules! refused {
    ($($name:ident: $damage:expr, $commands:expr;)*) => {$(
        #[test]
        fn $name() {
            let damage: fn(Library) -> Library = $damage;
            Case::new(stringify!($name)).library(damaged(damage)).operators().says_with($commands, &[], without_places);
        }
    )*};
}

refused! {
    metadata_starts_wrongly: |good| good.metadata_at(0, b"PLUGHOST"), LIST;
    metadata_of_another_format: |good| good.metadata_at(8, &2u16.to_le_bytes()), LIST;
    metadata_with_a_huge_length: |good| good.metadata_at(12, &u32::MAX.to_le_bytes()), LIST;
    metadata_with_a_huge_field: |good| good.metadata_at(18, &0x7fff_ffff_u32.to_le_bytes()), LIST;
    metadata_that_is_not_utf8: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| content(pass, tag::NAME)[0] = 0xff);
    }), LIST;
    option_with_an_odd_name: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| edit(pass, tag::OPTION, |option| *content(option, tag::NAME) = b"a=b,c}".to_vec()));
    }), LIST;
    option_without_a_name: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| edit(pass, tag::OPTION, |option| content(option, tag::NAME).clear()));
    }), LIST;
    option_three_times: |good| good.metadata(|plugin| edit(plugin, tag::PASS, |pass| {
        let option = (tag::OPTION, content(pass, tag::OPTION).clone());
        pass.extend([option.clone(), option]);
    })), LIST;
    metadata_with_future_fields: |good| good.metadata(|plugin| {
        plugin.insert(0, (30_000, b"a field of a later version".to_vec()));
        edit(plugin, tag::PASS, |pass| {
            pass.push((30_001, b"of a pass".to_vec()));
            edit(pass, tag::OPTION, |option| option.push((30_002, b"of an option".to_vec())));
        });
    }), &[&["list"], &["run", "small.py", "--passes", "zoo.Nothing{times=2}"]];
    api_too_old: |good| good.metadata(|plugin| *content(plugin, tag::API) = b"0.3.0".to_vec()), LIST;
    api_too_new: |good| good.metadata(|plugin| *content(plugin, tag::API) = b"1.9.0".to_vec()), LIST;
    api_of_another_major: |good| good.metadata(|plugin| *content(plugin, tag::API) = b"2.0.0".to_vec()), LIST;
    api_too_new_with_unknown_values: |good| good.metadata(|plugin| {
        *content(plugin, tag::API) = b"1.9.0".to_vec();
        edit(plugin, tag::PASS, |pass| *content(pass, tag::GRANULARITY) = vec![99]);
    }), LIST;
    metadata_with_an_unknown_granularity: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| *content(pass, tag::GRANULARITY) = vec![99]);
    }), LIST;
    plugin_without_a_name: |good| good.metadata(|plugin| content(plugin, tag::NAME).clear()), LIST;
    plugin_with_a_name_for_terminals: |good| good.metadata(|plugin| {
        *content(plugin, tag::NAME) = b"zoo\x1b[2J\nzoo".to_vec();
    }), LIST;
    one_pass_name_twice: |good| good.metadata(|plugin| {
        let first = plugin.iter().find(|field| field.0 == tag::PASS).expect("a pass").clone();
        plugin.push(first);
    }), &[&["list"], &["check"]];
    required_that_is_no_requirement: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| pass.push((tag::REQUIRED, b"zoo.Nothing (>= x)".to_vec())));
    }), LIST;
    required_that_is_the_pass_itself: |good| good.metadata(|plugin| edit(plugin, tag::PASS, |pass| {
        let own = content(pass, tag::NAME).clone();
        pass.push((tag::REQUIRED, own));
    })), LIST;
    required_twice: |good| good.metadata(|plugin| edit(plugin, tag::PASS, |pass| {
        pass.push((tag::REQUIRED, b"acme.A".to_vec()));
        pass.push((tag::REQUIRED, b"acme.A (>= 1)".to_vec()));
    })), LIST;
    property_without_namespace: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| pass.push((tag::PRESERVES, b"anf".to_vec())));
    }), LIST;
    property_all_established: |good| good.metadata(|plugin| {
        edit(plugin, tag::PASS, |pass| pass.push((tag::ESTABLISHES, b"all".to_vec())));
    }), LIST;
    another_architecture: |mut good| {
        good.0[18..20].copy_from_slice(&object::elf::EM_S390.0.to_le_bytes());
        good
    }, LIST;
    mach_o: |_| Library(library::mach_o()), LIST;
    portable_executable: |_| Library(library::pe()), LIST;
    text_file: |_| Library(b"just text\n".to_vec()), LIST;
    empty_file: |_| Library(Vec::new()), LIST;
    entry_of_another_name: |good| good.replace(".dynstr", b"passhost_plugin_entry_v1", b"passhost_plugin_entry_v9"), OPEN;
    entry_starts_wrongly: |good| good.entry(0, b"THGUORWO"), OPEN;
    entry_too_short: |good| good.entry(8, &40u32.to_le_bytes()), OPEN;
    entry_with_another_number_of_passes: |good| good.entry(16, &2u32.to_le_bytes()), OPEN;
    layout_with_another_field: |good| good.replace(".rodata", b";units;tensors;n_tensors;", b";units;tensors;m_tensors;"), OPEN;
    layout_with_fields_reordered: |good| good.replace(".rodata", b"drop_fn;,hash_lo;hash_hi;", b"drop_fn;,hash_hi;hash_lo;"), OPEN;
    dependency_that_is_missing: |good| good.replace(".dynstr", b"libgcc_s.so.1", b"libzoo_x.so.1"), OPEN;
}

/// Removes positions in files, which depend on the compiler, and architectures, which depend on the machine.
fn without_places(text: String) -> String {
    let text = ["X86_64", "Aarch64"]
        .iter()
        .fold(text, |text, host| text.replace(&format!("this host runs on Elf {host}"), "this host runs on $HOST"));
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once(" byte ") {
        out.push_str(before);
        out.push_str(" byte N");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        if let Some(len) = rest.strip_prefix(" of ") {
            out.push_str(" of N");
            rest = len.trim_start_matches(|c: char| c.is_ascii_digit());
        }
    }
    out + rest
}

/// The fingerprint is a hash of this host's records; its value does not matter.
#[test]
fn fingerprint_of_other_records() {
    let other = damaged(|good| good.metadata(|plugin| *content(plugin, tag::FINGERPRINT) = vec![0xab; 8]));
    let own = Library::read(&good());
    let mut found = fields(&own.0[own.section(".passhost")][16..]);
    let own = u64::from_le_bytes(content(&mut found, tag::FINGERPRINT)[..8].try_into().expect("8 bytes"));
    let case = Case::new("fingerprint_of_other_records").library(other);
    case.says_with(LIST, &[], |text| text.replace(&format!("{own:016x}"), "$FINGERPRINT"));
}

#[test]
fn no_metadata() {
    Case::new("no_metadata").libraries(&[example("no_metadata")]).says(LIST);
}

#[test]
fn what_the_file_says_is_not_what_the_code_has() {
    let case = Case::new("what_the_file_says_is_not_what_the_code_has").libraries(&[example("two_faces")]);
    case.operators().says(&[&["list"], &["run", "small.py", "--passes", "zoo.Shown"]]);
}

#[test]
fn symbol_that_nobody_has() {
    let case = Case::new("symbol_that_nobody_has").libraries(&[example("undefined")]);
    case.operators()
        .says(&[&["plan", "--passes", "zoo.CallsNobody"], &["run", "small.py", "--passes", "zoo.CallsNobody"]]);
}

/// Libraries that are truncated at several lengths are all refused and reported together, without crashing the process.
#[test]
fn truncated() {
    let whole = Library::read(&good());
    let sections = [".dynsym", ".rodata", ".passhost", ".text", ".dynamic", ".symtab"].map(|name| whole.section(name));
    let mut lengths: Vec<usize> = vec![1, 4, 16, 63, 64, 100, 4096];
    lengths.extend(sections.iter().flat_map(|section| [section.start, section.start + 1, section.end]));
    lengths.extend([whole.0.len() / 2, whole.0.len() - 64, whole.0.len() - 1]);
    let names: Vec<String> = lengths.iter().enumerate().map(|(i, _)| format!("libcut{i}.so")).collect();
    let mut case = Case::new("truncated").libraries(&names);
    for (name, length) in names.iter().zip(&lengths) {
        case = case.file(name, &whole.0[..*length]);
    }
    case.says_with(&[&["check"]], &[], without_places);
}

#[test]
fn files_that_are_none() {
    let case = Case::new("files_that_are_none").libraries(&[".", "dangling.so", "loop.so", "fifo.so"]);
    std::os::unix::fs::symlink("nowhere/libx.so", case.path("dangling.so")).expect("a link");
    std::os::unix::fs::symlink("loop.so", case.path("loop.so")).expect("a link");
    assert!(Command::new("mkfifo").arg(case.path("fifo.so")).status().expect("`mkfifo` of coreutils").success());
    case.says(&[&["check"]]);
}

/// A copy contains the same passes. A link is the same file, and is opened once.
#[test]
fn the_same_plugin_under_two_paths() {
    let whole = Library::read(&good()).0;
    let files = ["libx.so", "./libx.so", "symlink.so", "hardlink.so", "copy.so"];
    let case = Case::new("the_same_plugin_under_two_paths").file("libx.so", &whole).file("copy.so", &whole);
    std::os::unix::fs::symlink("libx.so", case.path("symlink.so")).expect("a link");
    std::fs::hard_link(case.path("libx.so"), case.path("hardlink.so")).expect("a link");
    case.libraries(&files).says(&[&["check"]]);
}

/// Lists two different plugins that have a pass of the same name.
#[test]
fn two_plugins_with_one_pass_name() {
    let other = damaged(|good| {
        good.metadata(|plugin| {
            *content(plugin, tag::NAME) = b"other".to_vec();
            let first = plugin.iter().position(|field| field.0 == tag::PASS).expect("a pass");
            let rest = plugin.split_off(first + 1);
            plugin.extend(rest.into_iter().filter(|field| field.0 != tag::PASS));
        })
    });
    let case = Case::new("two_plugins_with_one_pass_name").file("libother.so", other);
    case.libraries(&[good(), "libother.so".into()]).says(&[&["list"], &["run", "small.py", "--passes", "zoo.Notes"]]);
}

/// Everything that a plugin contributes is known from its metadata.
#[test]
fn what_plugins_contribute() {
    let case = Case::new("what_plugins_contribute").libraries(&[example("contributes")]);
    let explained = |text: String| {
        let changes = |line: &str| ["plugin API", "built by"].iter().any(|word| line.starts_with(word));
        text.lines().filter(|line| !changes(line)).map(|line| format!("{line}\n")).collect()
    };
    let commands: &[&[&str]] = &[
        &["list"],
        &["config"],
        &["explain", "zoo.Cleanup"],
        &["explain", "zoo.Asks"],
        &["explain", "zoo.no_dataflow"],
        &["explain", "zoo.limit"],
        &["explain", "zoo.limits"],
    ];
    case.says_with(commands, &[], explained);
}

#[test]
fn plans_with_composite_passes() {
    let case = Case::new("plans_with_composite_passes").libraries(&[example("contributes")]);
    case.says(&[
        &["plan", "--passes", "zoo.Cleanup"],
        &["plan", "--passes", "Cleanup", "--opt-level", "1"],
        &["plan", "--passes", "zoo.Cleanup", "--opt-level", "0"],
        &["plan", "--passes", "zoo.NeedsCleanup", "--opt-level", "0"],
        &["plan", "--passes", "zoo.Cleanup", "--disable", "zoo.Cleanup", "--disable", "zoo.Plain"],
        &["plan", "--passes", "zoo.Cleanup", "--disable", "zoo.Late", "--disable", "zoo.Unwraps"],
        &["plan", "--passes", "zoo.NeedsCleanup", "--disable", "zoo.Cleanup"],
        &["plan", "--passes", "zoo.Asks,Sequential(name=late,opt_level=1)[zoo.Plain{times=3,},Sequential[zoo.Late]]"],
        &["plan", "--passes", "Sequential(name=late,opt_level=3)[zoo.Plain]"],
        &["plan", "--passes", "Sequential(level=3)[zoo.Plain]"],
        &["plan", "--json", "--passes", "Sequential(name=late)[zoo.Late]"],
    ]);
}

#[test]
fn runs_with_composite_passes() {
    let files = [example("contributes"), example("instruments")];
    let case = Case::new("runs_with_composite_passes").libraries(&files).operators();
    let run = |passes| ["run", "small.py", "-o", "out.py", "--passes", passes];
    let recorders =
        ["zoo.NeedsPlainBlocks", "zoo.Plain"].map(|name| (name, format!("zoo.Recorder{{vetoes=[{name}]}}")));
    let veto = |name| {
        let recorder = recorders.iter().find(|known| known.0 == name).map_or("", |known| &known.1);
        ["run", "small.py", "-o", "out.py", "--instrument", recorder, "--passes", "zoo.Cleanup"]
    };
    let stumbles = ["run", "small.py", "-o", "out.py", "--keep-going", "--passes", "zoo.Stumbles,zoo.Plain"];
    case.says(&[
        &run("zoo.Cleanup,zoo.NeedsCleanup"),
        &run("zoo.Asks,zoo.NeedsCleanup"),
        &run("Sequential(name=late)[zoo.Plain,zoo.Late]"),
        &veto("zoo.NeedsPlainBlocks"),
        &veto("zoo.Plain"),
        &stumbles,
        &run("zoo.Stumbles,zoo.Plain"),
        // Unless all requirements run, the pass that needs them does not run.
        &["run", "small.py", "-o", "out.py", "--opt-level", "0", "--passes", "zoo.NeedsCleanup"],
        &["run", "small.py", "-o", "out.py", "--disable", "zoo.Late", "--passes", "zoo.NeedsCleanup"],
        &["run", "small.py", "-o", "out.py", "--instrument", &recorders[1].1, "--passes", "zoo.NeedsCleanup,zoo.Late"],
        &[
            "run",
            "small.py",
            "-o",
            "out.py",
            "--instrument",
            "zoo.Recorder{vetoes=[zoo.Late]}",
            "--passes",
            "Sequential[zoo.NeedsCleanup,zoo.First]",
        ],
    ]);
}

/// Returns a plugin that can be listed, but is refused when it is opened.
fn opens_not(name: &str) -> Vec<u8> {
    Library::read(&example(name)).entry(0, &[0; 8]).0
}

/// Every plugin that may be called while a plan runs is opened before the first step; here, these are a checker and the
/// provider of operators.
#[test]
fn opened_before_the_first_step() {
    let case = Case::new("opened_before_the_first_step").file("libx.so", opens_not("contributes"));
    let case = case.libraries(&[Path::new("libx.so"), &good()]).operators();
    let log = case.path("log");
    let args = ["run", "small.py", "-o", "out.py", "--passes", "zoo.Notes"];
    let mut command = case.command(&args);
    command.env("ZOO_LOG", &log);
    let said = transcript(&args, case.finish(command, b""));
    compare("plugins", case.name, &said);
    assert!(!log.exists(), "a step ran");
}

/// A panic in an instrument or rule quarantines the plugin, as a panic in a pass does.
#[test]
fn whoever_panics_is_marked() {
    let files = [example("contributes"), example("instruments")];
    let case = Case::new("whoever_panics_is_marked").libraries(&files).operators();
    case.says(&[
        &[
            "run",
            "small.py",
            "-o",
            "out.py",
            "--keep-going",
            "--instrument",
            "zoo.Recorder{panics=run_before}",
            "--passes",
            "zoo.First,zoo.Plain,zoo.Second",
        ],
        &["run", "small.py", "-o", "out.py", "--keep-going", "--passes", "zoo.UsesPanics,zoo.First,zoo.Plain"],
    ]);
}

/// Runs `check`, which plans each pass alone.
fn checks_with(name: &'static str, required: &str) {
    let library = Library::read(&example("instruments"));
    let library = library.replace(".passhost", b"zoo.First (>= 0.1)", required.as_bytes());
    Case::new(name).library(library.0).says(&[&["check", "--no-load"]]);
}

#[test]
fn cycle_that_no_pipeline_names() {
    checks_with("cycle_that_no_pipeline_names", "zoo.Third (>= 0.1)");
}

#[test]
fn missing_that_no_pipeline_names() {
    checks_with("missing_that_no_pipeline_names", "zoo.Fisrt (>= 0.1)");
}

/// A section that is too large is not read.
#[test]
fn metadata_section_that_is_huge() {
    let mut library = Library::read(&good());
    library.section_size(".passhost", 1 << 34);
    let case = Case::new("metadata_section_that_is_huge").library(library.0);
    let file = std::fs::OpenOptions::new().write(true).open(case.path("libx.so")).expect("the library");
    file.set_len(1 << 35).expect("a sparse file");
    case.says(LIST);
}

#[test]
fn contracts() {
    let case = Case::new("contracts").libraries(&[example("contributes")]).operators();
    let run = |passes| ["run", "small.py", "-o", "out.py", "--passes", passes];
    let panics = ["run", "small.py", "-o", "out.py", "--keep-going", "--passes", "zoo.NeedsPanic,zoo.Plain"];
    case.says(&[
        &run("zoo.Unwraps,zoo.NeedsPlainBlocks"),
        &run("zoo.NeedsPlainBlocks"),
        &run("zoo.NeedsNobody"),
        &run("zoo.NeedsPanic"),
        &panics,
        &run("zoo.Claims"),
        &run("zoo.Merges"),
    ]);
}

#[test]
fn config_values() {
    let settings = "\
[config.zoo]
limit = 20
rate = 1
unroll = { depth = 4, explicit = false }
[pipelines.late]
passes = \"zoo.Asks\"
config.\"zoo.names\" = [\"f\", \"g\"]
config.zoo.unroll.depth = 5
";
    let case = Case::new("config_values").libraries(&[example("contributes")]).operators();
    let listed = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest");
    let case = case.file("set.toml", format!("{listed}{settings}"));
    let run = |more: &[&'static str]| [&["run", "small.py", "-o", "out.py"], more].concat();
    case.says(&[
        &run(&["--passes", "zoo.Asks"]),
        &run(&["--manifest", "set.toml", "--passes", "zoo.Asks"]),
        &run(&["--manifest", "set.toml", "--pipeline", "late", "--config", "zoo.limit=0", "--config", "zoo.rate=0.5"]),
    ]);
}

#[test]
fn config_errors() {
    let settings = "\
pipelines.asks = \"zoo.Asks\"
pipelines.late = { passes = \"zoo.Asks\", config = { zoo.rate = 2 } }
[config]
zoo.limit = 1025
zoo.limt = 1
zoo.unroll.explicit = \"yes\"
\"zoo.rate\" = \"all\"
\"zoo.unroll\" = 3
";
    let case = Case::new("config_errors").libraries(&[example("contributes")]);
    let listed = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest");
    let case = case.file("wrong.toml", format!("{settings}{listed}"));
    let twice = "[config]\nzoo.limit = 1\n\"zoo.limit\" = 2\nzoo.rate = 1979-05-27\nzoo.unroll = {}\n\
                 [config.zzz.yyy]\n";
    let case = case.file("twice.toml", twice);
    let plan = |config: &'static str| ["plan", "--passes", "zoo.Asks", "--config", config];
    case.says(&[
        &plan("zoo.limt=1"),
        &plan("acme.other=1"),
        &plan("zoo.limit=many"),
        &plan("zoo.limit=-1"),
        &plan("zoo.unroll.depth=65"),
        &plan("zoo.rate=1.5"),
        &plan("zoo.names=main"),
        &plan("zoo.unroll=3"),
        &["plan", "--manifest", "wrong.toml", "--pipeline", "asks"],
        &[
            "plan",
            "--manifest",
            "wrong.toml",
            "--pipeline",
            "late",
            "--config",
            "zoo.limit=x",
            "--config",
            "zoo.names=[]",
        ],
        &["check", "--no-load", "--manifest", "wrong.toml"],
        &["list", "--manifest", "twice.toml"],
    ]);
}

/// Lists two different plugins that have an item of the same name.
#[test]
fn clashes() {
    let brings = [tag::PASS, tag::OPERATOR, tag::CONFIG, tag::PROPERTY, tag::COMPOSITE];
    let only = |kept: u16, change: fn(&mut Vec<u8>)| {
        let good = Library::read(&example("contributes"));
        let damaged = good.metadata(|plugin| {
            *content(plugin, tag::NAME) = b"other".to_vec();
            plugin.retain(|field| field.0 == kept || !brings.contains(&field.0));
            edit(plugin, kept, |item| change(content(item, tag::NAME)));
        });
        damaged.0
    };
    let mut said = Vec::new();
    let changes: [(u16, fn(&mut Vec<u8>)); 6] = [
        (tag::CONFIG, |_| ()),
        (tag::CONFIG, |name| name.extend(b".most")),
        (tag::CONFIG, |name| *name = b"zoo.unroll".to_vec()),
        (tag::PROPERTY, |_| ()),
        (tag::COMPOSITE, |name| *name = b"zoo.Asks".to_vec()),
        (tag::OPERATOR, |_| ()),
    ];
    for (kept, change) in changes {
        let case = Case::new("clashes").file("libother.so", only(kept, change));
        let case = case.libraries(&[example("contributes"), "libother.so".into()]);
        said.push(transcript(&["list"], case.run(&["list"], b"")));
    }
    compare("plugins", "clashes", &said.join("\n"));
}

#[test]
fn initialization() {
    for how in ["error", "panic", "status"] {
        let name = ["initialization_", how].concat();
        let case = Case::new(name.leak()).libraries(&[good(), example("by_hand")]).operators();
        let log = case.path("log").display().to_string();
        let commands: &[&[&str]] =
            &[&["check"], &["run", "small.py", "--passes", "zoo.Notes,zoo.EqualCopy", "-o", "out.py"]];
        case.says_with(commands, &[("ZOO_INIT", how), ("ZOO_LOG", &log)], |text| text);
        // The plugin is refused before the first step.
        assert!(!case.path("log").exists() && !case.path("out.py").exists());
    }
}

/// Runs pipelines. After each pass, however faulty, the module that the pass received must be unchanged. Returns the
/// output of the last successful pipeline.
fn runs(name: &'static str, files: &[PathBuf], pipelines: &[&str]) -> String {
    let case = Case::new(name).libraries(files).operators();
    let (plain, _, _) = case.run(&["run", "small.py", "--passes", ""], b"");
    let mut said = Vec::new();
    for passes in pipelines {
        let args = ["run", "small.py", "--passes", passes, "-o", "out.py"];
        let (stdout, stderr, code) = case.run(&args, b"");
        if code != 0 {
            let kept = case.path("out.failed.py");
            assert_eq!(std::fs::read_to_string(&kept).expect("the last good module"), plain, "{passes}");
            std::fs::remove_file(kept).expect("the last good module");
        }
        said.push(transcript(&args, (stdout, stderr, code)));
    }
    compare("plugins", name, &said.join("\n"));
    assert_eq!(std::fs::read_to_string(case.path("small.py")).expect("the input"), SMALL);
    std::fs::read_to_string(case.path("out.py")).unwrap_or_default()
}

#[test]
fn panics() {
    let passes = ["zoo.PanicsAsText", "zoo.PanicsAsString", "zoo.PanicsAsNumber", "zoo.PanicsInDrop"];
    runs("panics", &[good()], &passes);
}

#[test]
fn a_context_that_is_kept() {
    runs("a_context_that_is_kept", &[good()], &["zoo.Keeps,zoo.AsksLater", "zoo.Keeps"]);
}

/// `Ctx::current()` in a loaded plugin returns the context of the command line.
#[test]
fn target_and_level_in_a_plugin() {
    let case = Case::new("target_and_level_in_a_plugin").libraries(&[good()]).operators();
    let run = ["run", "small.py", "-o", "out.py", "--opt-level", "3", "--passes", "zoo.Keeps"];
    case.says(&[
        &[&run[..], &["--target", "llvm"]].concat(),
        &[&run[..], &["--target", r#"{"kind": "cuda", "arch": "sm_80"}"#]].concat(),
    ]);
}

#[test]
fn results_that_are_none() {
    let passes = ["zoo.GivesNothing", "zoo.EndsOddly", "zoo.LiesInItsFailure", "zoo.ModuleEndsOddly"];
    runs("results_that_are_none", &[example("by_hand")], &passes);
}

#[test]
fn two_functions_of_one_name() {
    runs("two_functions_of_one_name", &[example("by_hand")], &["zoo.TwoOfOneName"]);
}

/// Strings from a plugin cannot control a terminal.
#[test]
fn texts_for_terminals() {
    let damage = |good: Library| {
        good.metadata(|plugin| {
            edit(plugin, tag::PASS, |pass| {
                *content(pass, tag::DOC) = "a\u{1b}[2J\u{7}b\tc\u{9b}31m\u{202e}d\r\nmore\u{1b}]0;e\u{7}".into();
                edit(pass, tag::OPTION, |option| *content(option, tag::DOC) = b"x\x1b[0m".to_vec());
            });
        })
    };
    let case = Case::new("texts_for_terminals").library(damaged(damage)).operators();
    let name = "zoo.Nothing";
    for args in [&["list"][..], &["explain", name]] {
        let colour = [&["--color", "always"], args].concat();
        let (out, errors, code) = case.finish(case.command(&colour), b"");
        let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}';
        assert!(code == 0 && !out.contains(acts), "{}{errors}", out.escape_debug());
    }
    case.says(&[&["list"], &["plan", "--passes", "zoo.Nothing{o=1}"]]);
}

#[test]
fn forged_handles() {
    let passes = [
        "zoo.ForgesFunction{how=address}",
        "zoo.ForgesFunction{how=own}",
        "zoo.ForgesFunction{how=dropped}",
        "zoo.ForgesModule",
        "zoo.ForgesInside",
    ];
    runs("forged_handles", &[example("by_hand")], &passes);
}

/// A fault in a legalization is an error that names the operator and its plugin.
#[test]
fn faulty_legalizations() {
    let operators = [
        "panics",
        "other_type",
        "other_count",
        "refuses",
        "endless",
        "foreign",
        "itself",
        "computes",
        "misspelt",
        "doubles",
    ];
    let passes = operators.map(|operator| format!("zoo.Legalizes{{operator=\"zoo.{operator}\"}}"));
    runs("faulty_legalizations", &[example("legalizes")], &passes.each_ref().map(String::as_str));
}

/// Returning a borrowed handle without a new reference does not drop the reference of the host.
#[test]
fn handles_that_are_not_counted() {
    let twice = ["zoo.Uncounted,zoo.Uncounted,zoo.EqualCopy", "zoo.UncountedModule,zoo.UncountedModule,zoo.EqualCopy"];
    let out = runs("handles_that_are_not_counted", &[example("by_hand")], &twice);
    assert!(out.ends_with(SMALL), "{out}");
    let case = Case::new("handles_that_are_not_counted").libraries(&[example("by_hand")]).operators();
    for passes in twice {
        let (out, stderr, code) = case.run(&["run", "small.py", "--paranoid", "--passes", passes], b"");
        assert!(code == 0 && out.ends_with(SMALL), "{passes}: {out}{stderr}");
    }
}

/// The host uses what it has checked, even if the plugin changes it later.
#[test]
fn tables_and_contexts_that_change() {
    let out = runs("tables_and_contexts_that_change", &[example("by_hand")], &["zoo.Flips", "zoo.WritesContext"]);
    assert!(out.ends_with(SMALL), "{out}");
}

/// An entry table with a null entry is refused before any of its functions is called.
#[test]
fn entry_with_null() {
    let case = Case::new("entry_with_null").libraries(&[example("by_hand")]);
    let mut said = String::new();
    for field in ["metadata", "init", "layout", "run_module", "infer", "make_instrument"] {
        let mut command = case.command(&["check"]);
        command.env("ZOO_NULL", field);
        let (stdout, stderr, code) = case.finish(command, b"");
        assert!(
            code == 3 && stderr.contains(&format!("the address of `{field}` in its entry table is null")),
            "{field}: {stderr}"
        );
        said.push_str(&transcript(&["check"], (stdout, stderr, code)));
    }
    compare("plugins", case.name, &said);
}

/// A different handle with the same content is not a change.
#[test]
fn unchanged_with_another_handle() {
    let out = runs("unchanged_with_another_handle", &[example("by_hand")], &["zoo.EqualCopy"]);
    assert!(out.ends_with(SMALL), "{out}");
}

#[test]
fn dangling_ids() {
    let ids = ["operand", "type", "operands", "attributes", "region", "string", "name"];
    let passes = ids.map(|id| format!("zoo.Dangles{{id={id}}}"));
    runs("dangling_ids", &[example("by_hand")], &passes.each_ref().map(String::as_str));
}

#[test]
fn lengths_that_lie() {
    let lies =
        ["endless", "longest", "nowhere", "odd", "\"fewer nodes\"", "\"fewer operands\"", "\"no names\"", "constants"];
    let passes = lies.map(|about| format!("zoo.Lies{{about={about}}}"));
    runs("lengths_that_lie", &[example("by_hand")], &passes.each_ref().map(String::as_str));
}

#[test]
fn another_allocator() {
    let passes = [
        "zoo.Rebuilds",
        "zoo.Rebuilds{name=x},zoo.Rebuilds{name=y},zoo.Rebuilds{name=z}",
        "zoo.FailsAtLength",
        "zoo.PanicsAtLength",
    ];
    let out = runs("another_allocator", &[example("other_allocator")], &passes);
    assert_eq!((out.matches("def main").count(), out.matches("renamed_renamed_renamed_gv:").count()), (8, 8), "{out}");
}

/// Each library has its own symbol table. If they shared one, the second plugin would return the number of the first.
#[test]
fn exports_of_one_name() {
    let files = [example("exports_one"), example("exports_two")];
    runs("exports_of_one_name", &files, &["zoo.NumberOne,zoo.NumberTwo", "zoo.NumberTwo,zoo.NumberOne"]);
}

/// Returns the log of a constructor and a pass during a command.
fn log_of(case: &Case, args: &[&str]) -> (String, i32) {
    let log = case.path("log");
    let _ = std::fs::remove_file(&log);
    let mut command = case.command(args);
    command.env("ZOO_LOG", &log);
    let (_, _, code) = case.finish(command, b"");
    (std::fs::read_to_string(&log).unwrap_or_default(), code)
}

#[test]
fn no_code_of_a_plugin_runs_before_it_is_needed() {
    let case = Case::new("constructor").libraries(&[good(), example("constructor")]).operators();
    let silent: [&[&str]; 6] = [
        &["list"],
        &["plan", "--passes", "zoo.Constructed"],
        &["plan", "--json", "--passes", "zoo.Constructed"],
        &["explain", "zoo.Constructed"],
        &["run", "small.py", "--passes", "zoo.Nothing"],
        &["run", "small.py", "--passes", "zoo.Constructed", "--disable", "zoo.Constructed"],
    ];
    for args in silent {
        assert_eq!(log_of(&case, args), (String::new(), 0), "{args:?}");
    }
    assert_eq!(log_of(&case, &["check"]), ("constructor ran\n".to_string(), 0));
    // The plugin of the second step is opened before the first step.
    let both = ["run", "small.py", "--passes", "zoo.Notes,zoo.Constructed"];
    assert_eq!(log_of(&case, &both), ("constructor ran\npass ran\n".to_string(), 0));
    // If the file of a plugin is refused, none of its code runs.
    let old = Library::read(&example("constructor")).metadata(|plugin| *content(plugin, tag::API) = b"0.0.9".to_vec());
    let case = case.library(old.0);
    for args in [&["check"][..], &["run", "small.py", "--passes", "zoo.Constructed"]] {
        assert_eq!(log_of(&case, args), (String::new(), 3), "{args:?}");
    }
}

/// If a plugin of the plan is refused, the run stops before the first step.
#[test]
fn all_plugins_are_opened_before_the_first_step() {
    let late = Library::read(&example("constructor")).entry(0, b"THGUORWO");
    let case = Case::new("late").file("libx.so", late.0).libraries(&[good(), "libx.so".into()]).operators();
    let both = ["run", "small.py", "--passes", "zoo.Notes,zoo.Constructed"];
    // The constructor of a plugin runs when the plugin is opened, before its table can be checked. The pass does not run.
    assert_eq!(log_of(&case, &both), ("constructor ran\n".to_string(), 3));
}

#[test]
fn every_golden_has_its_test() {
    let sources = ["bad_plugins", "instruments", "look", "operators"];
    let sources = sources.map(|name| std::fs::read_to_string(root().join(format!("host/tests/cli/{name}.rs"))));
    let sources = sources.map(|source| source.expect("a test")).concat();
    for entry in std::fs::read_dir(root().join("tests/goldens/plugins")).expect("the goldens") {
        let name = entry.expect("a golden").file_name().to_string_lossy().into_owned();
        let name = name.trim_end_matches(".txt");
        let known = sources.contains(&format!("fn {name}("))
            || ['|', '['].iter().any(|c| sources.contains(&format!("    {name}: {c}")));
        assert!(known || name.starts_with("initialization_"), "no test writes the golden `{name}`");
    }
}
