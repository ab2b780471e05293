//! `passhost new`: writes a plugin crate, a renamed copy of `plugins/template`.

use crate::process;
use crate::report::error::Error;
use clap::Args;
use std::path::{Component, Path, PathBuf};

#[derive(Args)]
pub(in crate::cli) struct NewArgs {
    /// The folder to create, such as `my-passes` or `plugins/my-passes`. Its last part becomes the name of the crate; the
    /// passes are called `my_passes.Name`.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Name of the crate. Default: the name of the folder.
    #[arg(long)]
    name: Option<String>,
    /// The folder, if the other argument is the name.
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "name")]
    path: Option<PathBuf>,
    /// The passhost repository that contains the plugin API: a folder or a Git URL. Default: the folder from which this
    /// passhost was built.
    #[arg(long, value_name = "PATH_OR_GIT")]
    api: Option<String>,
}

macro_rules! template {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../plugins/template/", $file)))),*]
    };
}

/// Files of the template. The template is a crate of the workspace, and is compiled and tested like the other crates.
const FILES: &[(&str, &str)] = template![
    "Cargo.toml",
    "README.md",
    "passes.toml",
    "example.py",
    ".gitignore",
    "src/lib.rs",
    "src/fold_repeated.rs",
    "src/mark_leaves.rs",
    "src/share_calls.rs",
    "tests/goldens.rs",
    "tests/goldens/fold_repeated.txt",
    "tests/goldens/mark_leaves.txt",
    "tests/goldens/share_calls.txt",
];

/// Crate names that are refused, because they would shadow a crate on which every plugin depends.
const TAKEN: &[&str] = &[
    "alloc",
    "core",
    "passhost",
    "passhost_importer",
    "passhost_lang",
    "passhost_native",
    "passhost_onnx",
    "passhost_plugin_api",
    "passhost_plugin_test",
    "passhost_pt2",
    "passhost_registry",
    "passhost_relax_ops",
    "passhost_relax_passes",
    "passhost_runtime",
    "passhost_schedule",
    "passhost_script",
    "passhost_te",
    "plugin_api",
    "plugin_test",
    "proc_macro",
    "relax_ops",
    "relax_passes",
    "std",
    "test",
];

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The source of the plugin API for a new crate.
enum Api {
    Folder(PathBuf),
    Git(String),
}

/// Writes the crate, and returns the message to print about it.
///
/// # Errors
/// If the name is not a valid crate name, the folder is not empty, the API is not found, or a file cannot be written.
pub(in crate::cli) fn new(args: &NewArgs) -> Result<String, Error> {
    let (folder, name) = (args.path.as_ref().unwrap_or(&args.folder), name(args)?);
    check_name(&name)?;
    check_folder(folder)?;
    let api = api(args.api.as_deref())?;
    let failed =
        |path: &Path, error: std::io::Error| Error::Write { path: path.to_path_buf(), message: error.to_string() };
    let last = folder.file_name().filter(|_| !folder.is_dir());
    // Everything is written to a temporary folder first, so an interrupted process leaves no partial crate.
    let around = if last.is_some() { folder.parent().unwrap_or(Path::new("")) } else { folder };
    let around = if around.as_os_str().is_empty() { Path::new(".") } else { around };
    std::fs::create_dir_all(around).map_err(|error| failed(around, error))?;
    let real = around.canonicalize().map_err(|error| failed(around, error))?;
    let real = last.map_or_else(|| real.clone(), |last| real.join(last));
    let draft = tempfile::Builder::new().prefix(DRAFT).tempdir_in(around).map_err(|error| failed(around, error))?;
    let _noted = process::temporary(draft.path());
    let whole = draft.path().join("crate");
    for (file, text) in FILES {
        let path = whole.join(file);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(&whole));
        let written = written.and_then(|()| std::fs::write(&path, fill(file, text, &name, &api, &real)));
        written.map_err(|error| failed(&folder.join(file), error))?;
    }
    put_in_place(&whole, folder, last.is_some()).map_err(|error| failed(folder, error))?;
    Ok(said(folder, &api))
}

/// Prefix of the temporary folders in which new crates are written.
const DRAFT: &str = ".passhost-new-";

/// Moves a crate to its folder, or only its files if the folder already exists.
fn put_in_place(whole: &Path, folder: &Path, is_new: bool) -> std::io::Result<()> {
    if is_new {
        return std::fs::rename(whole, folder);
    }
    for part in std::fs::read_dir(whole)? {
        let part = part?;
        std::fs::rename(part.path(), folder.join(part.file_name()))?;
    }
    Ok(())
}

/// Returns the name of the crate.
fn name(args: &NewArgs) -> Result<String, Error> {
    if let Some(name) = &args.name {
        return Ok(name.clone());
    }
    if args.path.is_some() {
        return Ok(args.folder.to_string_lossy().into_owned());
    }
    let absolute = std::path::absolute(&args.folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            refuse("the current folder no longer exists".into(), "change to a folder that exists")
        }
        _ => refuse(format!("the current folder cannot be found: {error}"), "change to a folder that exists"),
    })?;
    let absolute = without_dots(&absolute);
    let last = absolute.file_name().map(|last| last.to_string_lossy().into_owned());
    last.ok_or_else(|| {
        refuse(format!("{} does not have a name", args.folder.display()), "name the crate with --name NAME")
    })
}

fn refuse(message: String, help: impl Into<String>) -> Error {
    Error::Request { message, help: help.into() }
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if name.len() > 64 || !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        let rule = "a name has up to 64 lowercase letters, digits, `-` and `_`, and starts with a letter";
        let near = near_name(name).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(refuse(format!("`{name}` is not a valid name for a plugin crate{near}"), rule));
    }
    let library = name.replace('-', "_");
    if KEYWORDS.contains(&library.as_str()) {
        return Err(refuse(
            format!("`{name}` is a Rust keyword"),
            format!("choose another name, such as `{name}-passes`"),
        ));
    }
    if TAKEN.contains(&library.as_str()) {
        let message = format!("`{name}` is the name of a crate that every plugin depends on");
        return Err(refuse(message, format!("choose another name, such as `my-{name}`")));
    }
    Ok(())
}

/// Returns a similar name that is valid: in lower case, with `-` for characters that are not allowed, and starting with
/// a letter.
fn near_name(name: &str) -> Option<String> {
    let c = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    let near: String = name.chars().take(64).map(c).collect();
    let near = near.trim_matches('-').trim_start_matches(|c: char| !c.is_ascii_lowercase());
    (!near.is_empty()).then(|| near.to_string())
}

fn check_folder(folder: &Path) -> Result<(), Error> {
    let shown = folder.display();
    let help = "choose another folder, or remove this one";
    match std::fs::read_dir(folder) {
        Ok(entries) => match entries.flatten().find(|entry| !is_draft(entry)) {
            Some(_) => Err(refuse(format!("{shown} exists and is not empty"), help)),
            None => Ok(()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refuse(format!("cannot create the folder of a crate at {shown}: {error}"), help)),
    }
}

/// Removes an entry if it is the temporary folder of a killed command. Returns true in that case.
fn is_draft(entry: &std::fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with(DRAFT) && std::fs::remove_dir_all(entry.path()).is_ok()
}

fn api(arg: Option<&str>) -> Result<Api, Error> {
    let is_api = |folder: &Path| folder.join("plugin-api/Cargo.toml").is_file();
    let Some(text) = arg else {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(""));
        let message = "the sources from which this passhost was built no longer exist".to_string();
        let help = "give a clone of its repository with --api DIR, or its URL with --api URL";
        return if is_api(own) { Ok(Api::Folder(own.to_path_buf())) } else { Err(refuse(message, help)) };
    };
    if text.contains("://") || text.starts_with("git@") {
        return Ok(Api::Git(text.to_string()));
    }
    let given = Path::new(text);
    let absolute = std::path::absolute(given).map(|path| without_dots(&path)).ok();
    let real = || given.canonicalize().ok();
    // Symbolic links are not resolved, so the written path stays correct even if the link later points elsewhere.
    let folder = absolute.filter(|path| is_api(path)).or_else(real).filter(|path| is_api(path));
    folder.map(Api::Folder).ok_or_else(|| {
        let message = format!("{text} is not a clone of passhost: plugin-api/Cargo.toml is missing");
        refuse(
            message,
            "give the folder of a clone, or the URL of a Git repository, such as https://example.org/passhost",
        )
    })
}

/// Returns the path with each `..` resolved by name, without following links.
fn without_dots(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Returns the path of `to` relative to the folder `from`, or an absolute path if they do not share a folder.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if !from.components().take(common).any(|component| matches!(component, Component::Normal(_))) {
        return to.to_path_buf();
    }
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// Returns the text of a template file, adapted to the new crate.
fn fill(file: &str, text: &str, name: &str, api: &Api, folder: &Path) -> String {
    let text = text.replace("template-plugin", name).replace("template_plugin", &name.replace('-', "_"));
    let quoted = |path: PathBuf| toml::Value::String(path.to_string_lossy().replace('\\', "/")).to_string();
    let inside = |below: &str| match api {
        Api::Folder(api) => quoted(relative(folder, &api.join(below))),
        Api::Git(_) => quoted(Path::new("passhost").join(below)),
    };
    let with_others = |text: String| {
        OTHERS
            .iter()
            .fold(text, |text, plugin| text.replace(&format!("\"../{plugin}\""), &inside(&format!("plugins/{plugin}"))))
    };
    match (file, api) {
        ("Cargo.toml", _) => {
            let mut text = text;
            for dependency in ["plugin-api", "plugin-test"] {
                let source = match api {
                    Api::Folder(_) => format!("{{ path = {} }}", inside(dependency)),
                    Api::Git(url) => format!("{{ git = {} }}", toml::Value::String(url.clone())),
                };
                text = text.replace(&format!("{{ path = \"../../{dependency}\" }}"), &source);
            }
            match api {
                Api::Folder(_) => with_others(text) + WORKSPACE,
                // The manifest lists crates in the clone, which cargo treats as different from the crates of the Git
                // dependency.
                Api::Git(_) => text.replace(BUILT_ALONG, "") + WORKSPACE,
            }
        }
        ("passes.toml", _) => with_others(text),
        (".gitignore", Api::Git(_)) => text + "/passhost\n",
        _ => text,
    }
}

/// Folders of the other plugins that the template's manifest lists.
const OTHERS: [&str; 2] = ["relax-ops", "relax-passes"];

/// The lines in Cargo.toml about these plugins.
const BUILT_ALONG: &str = r#"# The other plugins of passes.toml, which cargo builds together with the tests.
passhost-relax-ops = { path = "../relax-ops" }
passhost-relax-passes = { path = "../relax-passes" }
"#;

/// The end of the Cargo.toml of a new crate.
const WORKSPACE: &str = "
# A separate workspace, even inside the folder of another workspace.
[workspace]

# Line numbers for backtraces, but no other debug info: builds take less time and disk space.
[profile.dev]
debug = \"line-tables-only\"

[profile.dev.package.\"*\"]
debug = false
";

fn said(folder: &Path, api: &Api) -> String {
    let mut out = format!("wrote {}\n", folder.display());
    FILES.iter().for_each(|(file, _)| out.push_str(&format!("    {file}\n")));
    out.push_str(&format!("next\n    cd {}\n", folder.display()));
    if let Api::Git(url) = api {
        // The manifest of the new crate lists plugins in this clone.
        out.push_str(&format!("    git clone {url} passhost\n"));
    }
    out.push_str("    cargo test\n    passhost run example.py -o out.py\n");
    out
}
