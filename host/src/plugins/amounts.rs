//! Parses numbers, times and sizes in manifests and arguments. Errors do not name the key or option; callers prepend it.

use passhost_lang::names::{did_you_mean, nearest, with_more};
use std::ops::RangeInclusive;

/// Parses an integer in a range.
///
/// # Errors
/// The reason why the text is invalid.
pub(crate) fn integer(text: &str, range: &RangeInclusive<i128>) -> Result<i128, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let found = if text.is_empty() { ", found nothing" } else { "" };
        return Err(format!("expected an integer, such as 7{found}"));
    }
    // A number with more digits than an `i128` can hold is out of every range.
    let value = text.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| format!("must be from {} to {}", range.start(), range.end()))
}

/// Returns a parser of integers in a range.
pub(crate) fn within<T: TryFrom<i128>>(
    range: RangeInclusive<i128>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| integer(text, &range)?.try_into().map_err(|_| "the number is too large".to_string())
}

/// Returns a parser of integers that are not negative.
pub(crate) fn count() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    within(0..=i128::from(u64::MAX))
}

/// Units of one kind. The first applies to a number without a unit.
struct Units {
    /// Each unit with its factor.
    all: &'static [(&'static str, u64)],
    /// Other spellings, each with its unit.
    other: &'static [(&'static str, &'static str)],
    /// Larger units that are not accepted, each with its factor.
    larger: &'static [(&'static str, u64)],
    example: &'static str,
}

const TIMES: Units = Units {
    all: &[("s", 1000), ("ms", 1), ("min", 60_000), ("h", 3_600_000)],
    other: &[
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("msec", "ms"),
        ("millisecond", "ms"),
        ("milliseconds", "ms"),
        ("m", "min"),
        ("mins", "min"),
        ("minute", "min"),
        ("minutes", "min"),
        ("hr", "h"),
        ("hrs", "h"),
        ("hour", "h"),
        ("hours", "h"),
    ],
    larger: &[
        ("d", 86_400_000),
        ("day", 86_400_000),
        ("days", 86_400_000),
        ("week", 604_800_000),
        ("weeks", 604_800_000),
    ],
    example: "30 s",
};

const SIZES: Units = Units {
    all: &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
    other: &[
        ("byte", "B"),
        ("bytes", "B"),
        ("k", "KiB"),
        ("kb", "KiB"),
        ("m", "MiB"),
        ("mb", "MiB"),
        ("g", "GiB"),
        ("gb", "GiB"),
    ],
    larger: &[("t", 1 << 40), ("tb", 1 << 40), ("tib", 1 << 40), ("p", 1 << 50), ("pb", 1 << 50), ("pib", 1 << 50)],
    example: "2 GiB",
};

/// A parsed amount, in the smallest unit.
enum Amount {
    Whole(u64),
    /// More than 64 bits can hold.
    Beyond,
    /// Not a whole number, even in the smallest unit.
    Part,
}

/// Parses a decimal number of units.
fn amount_of(number: &str, factor: u64) -> Option<Amount> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = part.trim_end_matches('0');
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || number.is_empty() || number == "." {
        return None;
    }
    let Ok(scale) = u32::try_from(part.len()).map_err(drop).and_then(|len| 10_u128.checked_pow(len).ok_or(())) else {
        return Some(Amount::Part);
    };
    let digits = format!("{whole}{part}");
    let total = digits.parse::<u128>().ok().and_then(|digits| digits.checked_mul(u128::from(factor)));
    let Some(total) = total else { return Some(Amount::Beyond) };
    if !total.is_multiple_of(scale) {
        return Some(Amount::Part);
    }
    Some(u64::try_from(total / scale).map_or(Amount::Beyond, Amount::Whole))
}

impl Units {
    /// Formats an amount in the largest unit that gives a whole number.
    fn shown(&self, amount: u64) -> String {
        let fits = self.all.iter().filter(|(_, factor)| amount.is_multiple_of(*factor));
        let (unit, factor) = fits.max_by_key(|(_, factor)| *factor).unwrap_or(&self.all[0]);
        format!("{} {unit}", amount / factor)
    }

    fn names(&self) -> String {
        self.all.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ")
    }

    /// Parses a whole number above 0 with a unit.
    fn read(&self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        let end = text.find(|c: char| c.is_alphabetic() || c == 'µ').unwrap_or(text.len());
        let (number, unit) = (text[..end].trim(), text[end..].trim());
        let Some(factor) = self.factor(unit) else { return Err(self.unknown(number, unit)) };
        let expected = || format!("expected a whole number with a unit ({}), such as {}", self.names(), self.example);
        let is_whole = !number.contains('.');
        match amount_of(number, factor) {
            Some(Amount::Whole(0)) => Err("must be above 0".to_string()),
            Some(Amount::Whole(amount)) if is_whole => Ok(amount),
            Some(Amount::Whole(amount)) => Err(format!("expected a whole number; write {}", self.shown(amount))),
            Some(Amount::Beyond) => {
                let (unit, factor) = self.all.iter().max_by_key(|(_, factor)| *factor).unwrap_or(&self.all[0]);
                Err(format!("too large; the largest is {} {unit}", u64::MAX / factor))
            }
            None if number.starts_with('-') => Err("must be above 0".to_string()),
            Some(Amount::Part) | None => Err(expected()),
        }
    }

    fn factor(&self, unit: &str) -> Option<u64> {
        match unit {
            "" => self.all.first().map(|(_, factor)| *factor),
            unit => self.all.iter().find(|(known, _)| *known == unit).map(|(_, factor)| *factor),
        }
    }

    /// Returns the error about an unknown unit.
    fn unknown(&self, number: &str, unit: &str) -> String {
        let (small, names) = (unit.to_lowercase(), self.names());
        let larger = self.larger.iter().find(|(larger, _)| *larger == small);
        if let Some(Amount::Whole(amount)) = larger.and_then(|(_, factor)| amount_of(number, *factor)) {
            return format!("unknown unit `{unit}`; the units are {names}; write {}", self.shown(amount));
        }
        let other = self.other.iter().find(|(other, _)| *other == small).map(|(_, unit)| *unit);
        let same = self.all.iter().map(|(known, _)| *known).find(|known| known.eq_ignore_ascii_case(unit));
        let near = match same.or(other) {
            Some(unit) => vec![unit.to_string()],
            None => nearest(unit, self.all.iter().map(|(known, _)| *known)),
        };
        with_more(&format!("unknown unit `{unit}`{}", did_you_mean(&near)), &format!("the units are {names}"))
    }
}

/// Parses a time, as in `30 s`, and returns milliseconds.
///
/// # Errors
/// The reason why the text is invalid.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    TIMES.read(text)
}

/// Parses an amount of memory, as in `2 GiB`, and returns bytes.
///
/// # Errors
/// The reason why the text is invalid.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    SIZES.read(text)
}

/// The minimum memory of a worker: four times the memory needed to open one of passhost's own plugins. With less, reading the
/// library fails, and the error would suggest that the library is damaged.
const LEAST: u64 = 16 << 20;

/// Parses the memory limit of a worker, and returns bytes.
///
/// If the text is invalid, or the limit is too low to open a plugin.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    if bytes >= LEAST {
        return Ok(bytes);
    }
    Err(format!("{} is too little; a plugin process needs {} or more to start", amount(bytes), amount(LEAST)))
}

/// Formats an amount of memory in the largest unit that gives a whole number: `2 GiB`.
pub(crate) fn amount(bytes: u64) -> String {
    match SIZES.shown(bytes) {
        _ if bytes == 1 => "1 byte".to_string(),
        _ if bytes == 0 || !bytes.is_multiple_of(1 << 10) => format!("{bytes} bytes"),
        shown => shown,
    }
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
        assert_eq!((memory("16 MiB"), memory("1MiB").is_err()), (Ok(16 << 20), true));
        let amounts = [4 << 30, 1536 << 20, 5000, 1, 0].map(amount);
        assert_eq!(amounts, ["4 GiB", "1536 MiB", "5000 bytes", "1 byte", "0 bytes"]);
    }

    /// Each kind of mistake has its own message.
    #[test]
    fn what_is_wrong_with_a_time_or_an_amount() {
        let times = "expected a whole number with a unit (s, ms, min, h), such as 30 s";
        for (text, said) in [
            ("", times),
            ("s", times),
            ("soon", "unknown unit `soon`; the units are s, ms, min, h"),
            ("1.0001 s", times),
            ("1e3", "unknown unit `e3`; the units are s, ms, min, h"),
            ("0", "must be above 0"),
            ("-1 s", "must be above 0"),
            ("1.5 s", "expected a whole number; write 1500 ms"),
            ("0.5h", "expected a whole number; write 30 min"),
            ("3 days", "unknown unit `days`; the units are s, ms, min, h; write 72 h"),
            ("1m", "unknown unit `m`; did you mean `min`? The units are s, ms, min, h"),
            ("5 Minutes", "unknown unit `Minutes`; did you mean `min`? The units are s, ms, min, h"),
            ("99999999999999999999", "too large; the largest is 5124095576030 h"),
            ("18446744073709551615 min", "too large; the largest is 5124095576030 h"),
            (&"9".repeat(60), "too large; the largest is 5124095576030 h"),
        ] {
            assert_eq!(milliseconds(text).expect_err(text), said, "{text}");
        }
        let unknown = "did you mean `GiB`? The units are B, KiB, MiB, GiB";
        for (text, said) in [
            ("1 GB", format!("unknown unit `GB`; {unknown}")),
            ("1gib", format!("unknown unit `gib`; {unknown}")),
            ("1g", format!("unknown unit `g`; {unknown}")),
            ("2TiB", "unknown unit `TiB`; the units are B, KiB, MiB, GiB; write 2048 GiB".to_string()),
            ("1.5 GiB", "expected a whole number; write 1536 MiB".to_string()),
            ("99999999999GiB", "too large; the largest is 17179869183 GiB".to_string()),
            ("18446744073709551616", "too large; the largest is 17179869183 GiB".to_string()),
            ("1 B", "1 byte is too little; a plugin process needs 16 MiB or more to start".to_string()),
        ] {
            assert_eq!(memory(text).expect_err(text), said, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_integer() {
        let read = within::<u16>(1..=256);
        assert_eq!((read("1"), read("256"), read("+7")), (Ok(1), Ok(256), Ok(7)));
        for text in ["0", "-1", "257", "99999999999999999999999999999999999999999999"] {
            assert_eq!(read(text).expect_err(text), "must be from 1 to 256");
        }
        for text in ["1.5", "x", "1e3", "-", "0x1"] {
            assert_eq!(read(text).expect_err(text), "expected an integer, such as 7");
        }
        assert_eq!(count()("").expect_err("nothing"), "expected an integer, such as 7, found nothing");
    }
}
