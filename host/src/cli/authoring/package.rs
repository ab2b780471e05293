//! `passhost package`: builds a wheel from a plugin crate, so that pip can install its passes.

use super::wheel::{Wheel, glibc_needed};
use crate::cli::building::Building;
use crate::cli::listing::listed_of;
use crate::cli::messages::Messages;
use crate::files::{Output, read_large, to_stdout};
use crate::plugins::TRIPLE;
use crate::plugins::lock::Keeper;
use crate::plugins::manifest::{FILE_NAME, Manifest};
use crate::plugins::object_file::metadata_of_any_system;
use crate::report::error::Error;
use clap::Args;
use passhost_lang::metadata::PluginHead;
use semver::Version;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(in crate::cli) struct PackageArgs {
    /// The folder of the plugin crate.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// The folder for the wheel. It is created if it is missing.
    #[arg(short, long, value_name = "DIR", default_value = "dist")]
    output: PathBuf,
    /// The name for pip. Default: the name of the crate.
    #[arg(long)]
    name: Option<String>,
    /// A library of the same crate for another system, preceded by the target triple of that system. May be
    /// repeated.
    #[arg(long = "library", value_name = "TRIPLE=FILE", value_parser = built)]
    libraries: Vec<Built>,
}

/// A library that was built for one system.
#[derive(Clone, Debug)]
struct Built {
    triple: String,
    file: PathBuf,
}

fn built(text: &str) -> Result<Built, String> {
    let (triple, file) = text.split_once('=').ok_or("write a target triple, `=`, and a library")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !triple.contains('-') || !triple.chars().all(plain) {
        return Err(format!("`{triple}` is not a target triple such as aarch64-apple-darwin"));
    }
    Ok(Built { triple: triple.to_string(), file: file.into() })
}

fn refuse(message: String, help: &str) -> Error {
    Error::Request { message, help: help.to_string() }
}

/// Builds the crate, writes the wheel and prints its path.
///
/// # Errors
/// If the crate does not build, pip does not accept its name or version, a library belongs to another crate, or the
/// wheel cannot be written.
pub(in crate::cli) fn package(args: &PackageArgs, messages: Messages) -> Result<(), Error> {
    let (head, own) = plugin(&args.folder, messages)?;
    let name = args.name.as_deref().unwrap_or(&head.name);
    check_name(name)?;
    let module = name.replace(['-', '.'], "_");
    let about = About::read(&args.folder);
    let mut wheel = Wheel::new(&module, &python_version(&head.version)?);
    wheel.add(&format!("{module}/__init__.py"), format!("\"\"\"{}\"\"\"\n", about.summary(&head.name)));
    wheel.add(&format!("{module}/{FILE_NAME}"), manifest(&library_name(&own)));
    let mut triples = vec![TRIPLE.to_string()];
    let bytes = bytes(&own)?;
    let tag = platform(TRIPLE, &bytes);
    wheel.add(&inside(&module, TRIPLE, &own), bytes);
    for built in &args.libraries {
        if triples.contains(&built.triple) {
            let message = format!("two libraries were given for {}", built.triple);
            return Err(refuse(
                message,
                "give each target triple once; the library for this system is built from the crate",
            ));
        }
        let bytes = bytes_of(built, &head)?;
        wheel.add(&inside(&module, &built.triple, &built.file), bytes);
        triples.push(built.triple.clone());
    }
    let tag = if args.libraries.is_empty() { tag } else { "any".to_string() };
    let file = args.output.join(format!("{}-py3-none-{tag}.whl", wheel.stem()));
    let content =
        wheel.finish(&tag, &about.metadata(name, &python_version(&head.version)?), &entry_points(name, &module));
    let failed = |error: std::io::Error| Error::Write { path: args.output.clone(), message: error.to_string() };
    std::fs::create_dir_all(&args.output).map_err(failed)?;
    Output::look(&file)?.write_bytes(&content.map_err(failed)?)?;
    to_stdout(&format!(
        "{}\n  plugin   {} {}\n  systems  {}\n",
        file.display(),
        head.name,
        head.version,
        triples.join(", ")
    ))
}

/// Builds the crate. Returns the head of its library's metadata, and the path of the library.
fn plugin(folder: &Path, messages: Messages) -> Result<(PluginHead, PathBuf), Error> {
    if !folder.join("Cargo.toml").is_file() {
        let message = format!("{} is not the folder of a plugin crate: Cargo.toml is missing", folder.display());
        return Err(refuse(message, "give the folder of a plugin crate; `passhost new` creates one"));
    }
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let quoted = toml::Value::String(folder.to_string_lossy().into_owned());
    let manifest = Manifest::parse(&folder.join(FILE_NAME), &format!("[[plugin]]\ncrate = {quoted}\n"))?;
    let engine = listed_of(&manifest, Keeper::off(), &Building::new(messages), messages)?;
    let library = engine.registry().owners().find_map(|(_, owner)| owner.file.clone());
    let library = library
        .ok_or_else(|| refuse(format!("the library of {} is missing", folder.display()), "build it with cargo"))?;
    let head = head(&library, &bytes(&library)?)?;
    Ok((head, library))
}

fn bytes(library: &Path) -> Result<Vec<u8>, Error> {
    read_large(library).map_err(|error| refused(library, error.to_string(), "give a library that cargo built"))
}

fn refused(path: &Path, message: String, help: &str) -> Error {
    Error::Plugin { path: path.to_path_buf(), message, help: help.to_string() }
}

fn head(library: &Path, bytes: &[u8]) -> Result<PluginHead, Error> {
    let section = metadata_of_any_system(bytes).map_err(|error| refused(library, error.to_string(), error.help()))?;
    PluginHead::decode(&section).map_err(|error| refused(library, error.to_string(), error.help()))
}

/// Returns the bytes of a library for another system, which must belong to the same crate.
fn bytes_of(built: &Built, own: &PluginHead) -> Result<Vec<u8>, Error> {
    let bytes = bytes(&built.file)?;
    let found = head(&built.file, &bytes)?;
    if (&found.name, &found.version, &found.api) != (&own.name, &own.version, &own.api) {
        let of = |head: &PluginHead| format!("plugin `{}` {} for plugin API {}", head.name, head.version, head.api);
        let message = format!("is {}, but the crate is {}", of(&found), of(own));
        return Err(refused(&built.file, message, "rebuild it from the same sources"));
    }
    Ok(bytes)
}

/// Checks that pip accepts the name, and that Python can import a module of that name.
fn check_name(name: &str) -> Result<(), Error> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !plain
        || !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || !name.ends_with(|c: char| c.is_ascii_alphanumeric())
    {
        let help = "a name has letters, digits, `-`, `_` and `.`, and starts with a letter; choose one with --name";
        return Err(refuse(format!("`{name}` is not a valid name for pip"), help));
    }
    if ["passhost", "tvm"].contains(&name) {
        return Err(refuse(
            format!("`{name}` is the name of an existing package"),
            "choose a different name with --name",
        ));
    }
    Ok(())
}

/// Returns a version as Python writes it: `1.0.0-beta.2` is `1.0.0b2`.
fn python_version(version: &Version) -> Result<String, Error> {
    let Version { major, minor, patch, .. } = version;
    let number = format!("{major}.{minor}.{patch}");
    let pre = version.pre.as_str();
    if pre.is_empty() {
        return Ok(number);
    }
    let (kind, count) = pre.split_once('.').unwrap_or((pre, "0"));
    let kind = match kind {
        "alpha" | "a" => "a",
        "beta" | "b" => "b",
        "rc" => "rc",
        _ => "",
    };
    if kind.is_empty() || count.parse::<u32>().is_err() {
        let help = "give the crate a version such as 1.0.0, 1.0.0-alpha.1, 1.0.0-beta.1 or 1.0.0-rc.1";
        return Err(refuse(format!("version {version} is not a valid Python version"), help));
    }
    Ok(format!("{number}{kind}{count}"))
}

/// Returns the name of a library without prefix and extension: `acme` for `libacme.so`.
fn library_name(library: &Path) -> String {
    let stem = library.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(&stem).to_string()
}

/// Returns the manifest of the package, which names the library for the current system.
fn manifest(library: &str) -> String {
    let library = toml::Value::String(library.to_string());
    format!(
        "# The plugin in this package, for the current system.\nsearch = [\"{{triple}}\"]\n\n[[plugin]]\nname = {library}\n"
    )
}

fn inside(module: &str, triple: &str, library: &Path) -> String {
    format!("{module}/{triple}/{}", library.file_name().unwrap_or_default().to_string_lossy())
}

fn entry_points(name: &str, module: &str) -> String {
    format!("[passhost.plugins]\n{name} = {module}\n")
}

/// Returns the platform tag of a wheel with this library.
fn platform(triple: &str, library: &[u8]) -> String {
    let architecture = triple.split('-').next().unwrap_or_default();
    if triple.contains("windows") {
        let name = if architecture == "aarch64" { "arm64" } else { "amd64" };
        return format!("win_{name}");
    }
    if triple.contains("apple") {
        // The oldest macOS release that rustc targets by default.
        let (release, name) = if architecture == "aarch64" { ("11_0", "arm64") } else { ("10_12", architecture) };
        return format!("macosx_{release}_{name}");
    }
    if triple.contains("musl") {
        return format!("musllinux_1_2_{architecture}");
    }
    match glibc_needed(library) {
        // Tags of the form `manylinux_X_Y` cover glibc 2.17 and later on all architectures.
        Some((major, minor)) => format!("manylinux_{major}_{}_{architecture}", minor.max(17)),
        None => format!("linux_{architecture}"),
    }
}

/// Properties of the crate, from its Cargo.toml.
#[derive(Default)]
struct About {
    description: Option<String>,
    license: Option<String>,
    readme: Option<String>,
}

impl About {
    /// Reads Cargo.toml. Keys that are missing or inherited from a workspace are left out.
    fn read(folder: &Path) -> About {
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        let package = table.get("package");
        let get = |key: &str| Some(package?.get(key)?.as_str()?.replace(['\r', '\n'], " "));
        let readme = get("readme").unwrap_or_else(|| "README.md".to_string());
        let readme = std::fs::read_to_string(folder.join(readme)).ok();
        About { description: get("description"), license: get("license"), readme }
    }

    fn summary(&self, plugin: &str) -> String {
        let text =
            self.description.clone().unwrap_or_else(|| format!("Compiler passes of the passhost plugin {plugin}"));
        // The text becomes a docstring.
        text.replace(['\\', '"'], "'")
    }

    fn metadata(&self, name: &str, version: &str) -> String {
        let mut out = format!("Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n");
        out += &format!("Summary: {}\n", self.summary(name));
        if let Some(license) = &self.license {
            out += &format!("License-Expression: {license}\n");
        }
        out += "Requires-Python: >=3.11\nRequires-Dist: passhost\nClassifier: Programming Language :: Rust\n";
        if let Some(readme) = &self.readme {
            out += &format!("Description-Content-Type: text/markdown\n\n{readme}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_python() {
        let python = |text: &str| python_version(&Version::parse(text).expect("a version"));
        for (rust, expected) in
            [("1.2.3", "1.2.3"), ("0.1.0-alpha", "0.1.0a0"), ("1.0.0-beta.2", "1.0.0b2"), ("1.0.0-rc.1+x", "1.0.0rc1")]
        {
            assert_eq!(python(rust).expect(rust), expected);
        }
        for wrong in ["1.0.0-nightly", "1.0.0-rc.x", "1.0.0-0.3"] {
            assert!(python(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn systems_have_names() {
        for (triple, expected) in [
            ("x86_64-pc-windows-msvc", "win_amd64"),
            ("aarch64-apple-darwin", "macosx_11_0_arm64"),
            ("x86_64-apple-darwin", "macosx_10_12_x86_64"),
            ("aarch64-unknown-linux-musl", "musllinux_1_2_aarch64"),
            ("riscv64gc-unknown-linux-gnu", "linux_riscv64gc"),
        ] {
            assert_eq!(platform(triple, b"not a library"), expected);
        }
    }
}
