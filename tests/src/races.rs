//! Runs `--locked` while another process keeps replacing the library at a plugin's path. Two libraries alternate there: the
//! locked library, and a library that leaves a mark as soon as it is loaded. However a run ends, it must not leave a mark.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The way in which the two libraries alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// A symbolic link points to one library, then to the other.
    SymbolicLink,
    /// The path is a hard link to one library, then to the other.
    HardLink,
    /// The path is renamed away, and the other library is renamed to it.
    Rename,
    /// The contents of the two libraries are written to the same file alternately, through a second name.
    WriteInPlace,
    /// The other library is mounted over the path and unmounted; requires the right to mount.
    BindMount,
}

impl Turns {
    /// All ways.
    pub const ALL: [Turns; 5] =
        [Turns::SymbolicLink, Turns::HardLink, Turns::Rename, Turns::WriteInPlace, Turns::BindMount];
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Turns::SymbolicLink => "symbolic link",
            Turns::HardLink => "hard link",
            Turns::Rename => "rename",
            Turns::WriteInPlace => "write in place",
            Turns::BindMount => "bind mount",
        })
    }
}

/// Counts of runs by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs that succeeded.
    pub done: usize,
    /// Runs that refused the plugin.
    pub refused: usize,
    /// Runs that ended in another way.
    pub other: usize,
    /// Runs that loaded the library that is not locked.
    pub marked: usize,
    /// Number of times the libraries alternated.
    pub turns: u64,
}

/// The binary, the two libraries, and a folder for other files.
pub struct Race<'a> {
    /// The binary `passhost`.
    pub passhost: &'a Path,
    /// The locked library, with a pass `zoo.Nothing`.
    pub locked: &'a Path,
    /// The library that adds a line to the file in `ZOO_LOG` when it is loaded.
    pub marks: &'a Path,
    /// An empty folder.
    pub folder: &'a Path,
}

const MODULE: &str = "\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype=\"float32\")) -> R.Tensor((2, 3), dtype=\"float32\"):
        return x
";

impl Race<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.passhost);
        command.args(args).current_dir(self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("ZOO_LOG", self.at("mark")).env("XDG_CACHE_HOME", self.at("cache"));
        command
    }

    /// Locks the library, and performs a number of runs while the libraries alternate. Returns `None` if this way is
    /// not available here.
    ///
    /// # Errors
    /// If a file cannot be written, or the library cannot be locked.
    pub fn run(&self, turns: Turns, runs: usize) -> io::Result<Option<Tally>> {
        self.prepare(turns)?;
        if !self.command(&["lock"]).status()?.success() {
            return Err(io::Error::other("the library cannot be locked"));
        }
        if turns == Turns::BindMount && self.turn(turns, true).and_then(|()| self.turn(turns, false)).is_err() {
            return Ok(None);
        }
        let (done, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let tally = std::thread::scope(|scope| {
            let turning = scope.spawn(|| {
                let mut other = true;
                while !done.load(Ordering::Relaxed) {
                    self.turn(turns, other)?;
                    (other, _) = (!other, count.fetch_add(1, Ordering::Relaxed));
                }
                // Restores the original state, so that nothing stays mounted.
                if other { Ok(()) } else { self.turn(turns, false) }
            });
            let tally = self.runs(runs);
            done.store(true, Ordering::Relaxed);
            turning.join().map_err(|_| io::Error::other("the libraries stopped taking turns"))??;
            tally
        })?;
        Ok(Some(Tally { turns: count.into_inner(), ..tally }))
    }

    fn runs(&self, runs: usize) -> io::Result<Tally> {
        let mut tally = Tally::default();
        for _ in 0..runs {
            let args = ["run", "module.py", "--passes", "zoo.Nothing", "--locked", "-o", "out.py"];
            match self.command(&args).status()?.code() {
                Some(0) => tally.done += 1,
                Some(3) => tally.refused += 1,
                _ => tally.other += 1,
            }
            if self.at("mark").exists() {
                tally.marked += 1;
                std::fs::remove_file(self.at("mark"))?;
            }
        }
        Ok(tally)
    }

    fn prepare(&self, turns: Turns) -> io::Result<()> {
        let listed = "[[plugin]]\npath = \"libx.so\"\n";
        let files = [("module.py", MODULE), ("passes.toml", listed)];
        files.iter().try_for_each(|(name, text)| std::fs::write(self.at(name), text))?;
        for name in ["libx.so", "passes.lock", "mark", "second.so", "away.so"] {
            match std::fs::remove_file(self.at(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::copy(self.locked, self.at("locked.so"))?;
        std::fs::copy(self.marks, self.at("marks.so"))?;
        match turns {
            Turns::SymbolicLink | Turns::HardLink => self.turn(turns, false),
            Turns::Rename => std::fs::copy(self.locked, self.at("libx.so")).map(drop),
            Turns::WriteInPlace | Turns::BindMount => {
                std::fs::copy(self.locked, self.at("libx.so"))?;
                std::fs::hard_link(self.at("libx.so"), self.at("second.so"))
            }
        }
    }

    /// Puts the locked or the other library at the path.
    fn turn(&self, turns: Turns, other: bool) -> io::Result<()> {
        let source = if other { "marks.so" } else { "locked.so" };
        match turns {
            Turns::SymbolicLink => {
                link(Path::new(source), &self.at("next"))?;
                std::fs::rename(self.at("next"), self.at("libx.so"))
            }
            Turns::HardLink => {
                let _ = std::fs::remove_file(self.at("next"));
                std::fs::hard_link(self.at(source), self.at("next"))?;
                std::fs::rename(self.at("next"), self.at("libx.so"))
            }
            Turns::Rename if other => {
                std::fs::rename(self.at("libx.so"), self.at("away.so"))?;
                std::fs::rename(self.at("marks.so"), self.at("libx.so"))
            }
            Turns::Rename => {
                std::fs::rename(self.at("libx.so"), self.at("marks.so"))?;
                std::fs::rename(self.at("away.so"), self.at("libx.so"))
            }
            Turns::WriteInPlace => {
                let content = std::fs::read(self.at(source))?;
                let mut file = std::fs::OpenOptions::new().write(true).open(self.at("second.so"))?;
                file.write_all(&content)?;
                file.set_len(content.len() as u64)
            }
            Turns::BindMount => self.mount(other),
        }
    }

    fn mount(&self, other: bool) -> io::Result<()> {
        let mut command = Command::new(if other { "mount" } else { "umount" });
        if other {
            command.arg("--bind").arg(self.at("marks.so"));
        } else {
            // Unmounts lazily, because a run may have the file open.
            command.arg("--lazy");
        }
        let ended = command.arg(self.at("libx.so")).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if ended.success() { Ok(()) } else { Err(io::Error::other("cannot mount")) }
    }
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("symbolic links require a privilege"))
}
