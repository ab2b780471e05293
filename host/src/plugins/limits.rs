//! The resources that a plugin process may use and access, from manifests and arguments.

use std::path::PathBuf;
use std::time::Duration;

/// The resources that a plugin process may use and access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time limit for a call of the plugin. Default: five minutes.
    pub timeout: Option<Duration>,
    /// Limit on its own memory, in bytes. Default: half of the machine's memory.
    pub memory: Option<u64>,
    /// Limit on the processor time of each process. Default: none.
    pub cpu: Option<Duration>,
    /// Files and folders that it may read, in addition to system files and its library.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read and write.
    pub write: Vec<PathBuf>,
    /// True if it may use the network.
    pub network: bool,
    /// Environment variables that it may read in addition to the usual variables: names, or prefixes followed by `*`.
    pub env: Vec<String>,
}

/// Environment variables that every plugin process may read: locations of programs, libraries and temporary files, language, time zone, and
/// variables of the standard library and passhost. Tokens have other names.
const USUAL: [&str; 10] =
    ["PATH", "LD_*", "DYLD_*", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*", "RUST_*", "PASSHOST_*"];

/// Default time limit. A call that takes longer is not expected to end.
const TIMEOUT: Duration = Duration::from_secs(300);

impl Limits {
    /// Returns limits that allow all files, all memory, the network and the whole environment.
    pub(crate) fn everything() -> Limits {
        let (all, env) = (|| vec![PathBuf::from("/")], vec!["*".to_string()]);
        Limits { memory: Some(u64::MAX), read: all(), write: all(), network: true, env, ..Limits::default() }
    }

    /// Returns true if all files may be written. Then all other operations on files are allowed as well.
    pub(crate) fn is_everything(&self) -> bool {
        self.write.iter().any(|path| path.as_os_str() == "/")
    }

    /// Returns true if it may read an environment variable.
    pub(crate) fn sees(&self, variable: &str) -> bool {
        let named = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => variable.starts_with(start),
            None => variable == pattern,
        };
        USUAL.into_iter().chain(self.env.iter().map(String::as_str)).any(named)
    }

    /// Returns the manifest keys that differ from the default.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let Limits { timeout, memory, cpu, read, write, network, env } = self;
        let all = [
            ("timeout", timeout.is_some()),
            ("memory", memory.is_some()),
            ("cpu", cpu.is_some()),
            ("read", !read.is_empty()),
            ("write", !write.is_empty()),
            ("network", *network),
            ("env", !env.is_empty()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
    }

    /// Combines these limits with those of a run: the lower of two limits applies.
    pub fn within(mut self, run: &Limits) -> Limits {
        fn lower<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        self.timeout = lower(self.timeout, run.timeout);
        self.memory = lower(self.memory, run.memory);
        self.cpu = lower(self.cpu, run.cpu);
        self
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.memory.unwrap_or_else(half_of_memory)
    }
}

/// Checks that a string of a manifest can match environment variables.
///
/// # Errors
/// The reason why it cannot match a variable.
pub(crate) fn variables(pattern: &str) -> Result<(), String> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    let why = match name.chars().find(|c| matches!(c, '*' | '=' | '\0')) {
        _ if pattern.is_empty() => "is empty".to_string(),
        Some('*') => "contains a `*` that is not at its end".to_string(),
        Some(c) => format!("contains `{}`, which is not allowed in a variable name", c.escape_debug()),
        None => return Ok(()),
    };
    Err(format!("{why}; write a name, or a prefix of names followed by `*`"))
}

/// Checks that a string of a manifest can be the path of a file or a folder.
///
/// # Errors
/// The reason why it cannot be a path.
pub(crate) fn path(path: &str) -> Result<(), String> {
    match path {
        "" => Err("is empty".to_string()),
        path if path.contains('\0') => Err("contains a NUL byte, which is not allowed in a path".to_string()),
        _ => Ok(()),
    }
}

/// Returns half of the machine's memory.
fn half_of_memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let facts = rustix::system::sysinfo();
        (facts.totalram as u64).saturating_mul(u64::from(facts.mem_unit)) / 2
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_what_is_usual_and_what_is_granted() {
        let usual = Limits::default();
        assert!(["PATH", "LC_ALL", "RUST_BACKTRACE"].iter().all(|name| usual.sees(name)));
        assert!(["GITHUB_TOKEN", "HOME", "PATHS", "LC"].iter().all(|name| !usual.sees(name)));
        let granted = Limits { env: vec!["HOME".to_string(), "ACME_*".to_string()], ..Limits::default() };
        assert!(["PATH", "HOME", "ACME_", "ACME_KEY"].iter().all(|name| granted.sees(name)));
        assert!(!granted.sees("HOMES") && !granted.sees("ACME") && Limits::everything().sees("GITHUB_TOKEN"));
    }

    #[test]
    fn what_grants_nothing_is_told() {
        assert_eq!(["HOME", "ACME_*", "*", "A-B"].map(variables), [const { Ok(()) }; 4]);
        for (wrong, why) in [
            ("", "is empty"),
            ("A=B", "contains `=`"),
            ("A*B", "contains a `*`"),
            ("**", "contains a `*`"),
            ("A\0", "`\\0`"),
        ] {
            let said = variables(wrong).expect_err(wrong);
            assert!(said.contains(why) && said.contains("prefix of names"), "{said}");
        }
        assert_eq!((path("."), path("").is_err(), path("a\0").is_err()), (Ok(()), true, true));
    }

    #[test]
    fn of_two_limits_the_lower_one_counts() {
        let plugin = Limits { timeout: Some(Duration::from_secs(2)), memory: Some(7), ..Limits::default() };
        let run =
            Limits { timeout: Some(Duration::from_secs(1)), cpu: Some(Duration::from_secs(5)), ..Limits::default() };
        let both = plugin.within(&run);
        assert_eq!((both.timeout, both.memory, both.cpu), (run.timeout, Some(7), run.cpu));
    }
}
