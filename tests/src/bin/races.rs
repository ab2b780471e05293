//! `races` runs passhost with `--locked` while the library of a plugin is replaced through links, renaming, writes and
//! mounts. It fails if a single run loads a library that was not hashed.
//!
//! `cargo run --release -p passhost-tests --bin races -- 2000` performs 2,000 runs of each kind. It builds everything
//! that it needs.
#![forbid(unsafe_code)]

use passhost_tests::races::{Race, Turns};
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Builds the binary and the two libraries in the profile of this program; returns their folder.
fn built() -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or_else(|| Error::other("the folder of this program"))?;
    let release = folder.file_name().is_some_and(|name| name == "release");
    for what in [&["-p", "passhost", "--bin", "passhost"][..], &["-p", "passhost-zoo", "--lib", "--examples"]] {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet"]).args(what).args(release.then_some("--release"));
        let target = folder.parent().unwrap_or(Path::new("target"));
        cargo.current_dir(passhost_tests::root()).env("CARGO_TARGET_DIR", target);
        if !cargo.status()?.success() {
            return Err(Error::other("cargo cannot build the required programs"));
        }
    }
    Ok(folder.to_path_buf())
}

fn main() -> Result<ExitCode, Error> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "2000".to_string());
    let runs = argument.parse().map_err(|error| Error::other(format!("{argument}: {error}")))?;
    let built = built()?;
    let folder = std::env::temp_dir().join(format!("passhost-races-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (passhost, locked) = (built.join("passhost"), built.join("libpasshost_zoo.so"));
    let marks = built.join("examples/libzoo_constructor.so");
    let race = Race { passhost: &passhost, locked: &locked, marks: &marks, folder: &folder };
    let (mut out, mut marked) = (std::io::stdout().lock(), 0);
    for turns in Turns::ALL {
        let start = Instant::now();
        match race.run(turns, runs)? {
            Some(tally) => {
                marked += tally.marked;
                let (seconds, n) = (start.elapsed().as_secs_f64(), tally.turns);
                writeln!(
                    out,
                    "{turns}: {runs} runs in {seconds:.0} s, {n} turns: {} done, {} refused, {} others, {} loaded what \
                     was not hashed",
                    tally.done, tally.refused, tally.other, tally.marked
                )?;
            }
            None => writeln!(out, "{turns}: not possible here")?,
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(if marked == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
