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
    /// Files and folders that it may read, in addition to those of the system and its library.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read and write.
    pub write: Vec<PathBuf>,
    /// True if it may use the network.
    pub network: bool,
    /// Environment variables that it may read in addition to the usual ones: names, or prefixes followed by `*`.
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

/// Parses a number with a unit. Without a unit, the first of `units` applies.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..end].trim(), &text[end..]);
    let known = || units.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ");
    let factor = match unit {
        "" => units.first().map(|(_, factor)| *factor),
        unit => units.iter().find(|(known, _)| *known == unit).map(|(_, factor)| *factor),
    };
    let factor = factor.ok_or_else(|| format!("has the unknown unit `{unit}`; the units are {}", known()))?;
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).filter(|value| *value > 0);
    value.ok_or_else(|| format!("is `{text}`, which is no whole number above 0 with a unit: {}", known()))
}

/// Parses a time, as in `30 s`, and returns milliseconds.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    with_unit(text, &[("s", 1000), ("ms", 1), ("min", 60_000), ("h", 3_600_000)])
}

/// Parses an amount of memory, as in `2 GiB`, and returns bytes.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    with_unit(text, SIZES)
}

/// The minimum memory of a worker: four times what is needed to open one of passhost's own plugins. With less, reading the library fails, and
/// it would look damaged.
const LEAST: u64 = 16 << 20;

/// Parses the memory limit of a worker, and returns bytes.
///
/// # Errors
/// Why it is invalid, or that it is not enough to open a plugin.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    if bytes >= LEAST {
        return Ok(bytes);
    }
    Err(format!("is {}, and the process of a plugin needs {} or more to start", amount(bytes), amount(LEAST)))
}

const SIZES: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Formats an amount of memory in the largest unit that gives a whole number: `2 GiB`.
pub(crate) fn amount(bytes: u64) -> String {
    let whole = SIZES.iter().rev().find(|(_, size)| *size > 1 && bytes > 0 && bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{bytes} bytes"), |(unit, size)| format!("{} {unit}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_amounts_have_units() {
        assert_eq!(milliseconds("30"), Ok(30_000));
        assert_eq!(milliseconds(" 30 s "), Ok(30_000));
        assert_eq!(milliseconds("250ms"), Ok(250));
        assert_eq!(bytes("2 GiB"), Ok(2 << 30));
        for wrong in ["", "s", "-1", "0", "3 days", "1.5 s", "99999999999999999999", "18446744073709551615 min"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        let few = "is 1 MiB, and the process of a plugin needs 16 MiB or more to start";
        assert_eq!((memory("1MiB"), memory("16 MiB")), (Err(few.to_string()), Ok(16 << 20)));
        let part = "is `1.5s`, which is no whole number above 0 with a unit: s, ms, min, h";
        assert_eq!(milliseconds("1.5s").unwrap_err(), part);
        let amounts = [4 << 30, 1536 << 20, 5000, 0].map(amount);
        assert_eq!(amounts, ["4 GiB", "1536 MiB", "5000 bytes", "0 bytes"]);
        assert_eq!(bytes("1 GB").unwrap_err(), "has the unknown unit `GB`; the units are B, KiB, MiB, GiB");
    }

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
    fn of_two_limits_the_lower_one_counts() {
        let plugin = Limits { timeout: Some(Duration::from_secs(2)), memory: Some(7), ..Limits::default() };
        let run =
            Limits { timeout: Some(Duration::from_secs(1)), cpu: Some(Duration::from_secs(5)), ..Limits::default() };
        let both = plugin.within(&run);
        assert_eq!((both.timeout, both.memory, both.cpu), (run.timeout, Some(7), run.cpu));
    }
}
