//! Reads and writes files with named tensors in the safetensors format: the length of the header as 8 bytes, the header
//! as JSON, and the data.

use passhost_lang::ir::DType;
use serde_core::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Range;

/// Maximum length of a header that other programs accept.
const LONGEST: u64 = 100_000_000;
/// The header key for strings that describe the file.
const ABOUT: &str = "__metadata__";
/// The text that marks files written by passhost, which passhost may replace.
const OWN: (&str, &str) = ("written by", "passhost");

/// The names of data types.
const DTYPES: [(&str, DType); 18] = [
    ("BOOL", DType::BOOL),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("U16", DType::U16),
    ("I16", DType::I16),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("U32", DType::U32),
    ("I32", DType::I32),
    ("F32", DType::F32),
    ("U64", DType::U64),
    ("I64", DType::I64),
    ("F64", DType::F64),
    ("F8_E4M3", DType::new(10, 8, 1)),
    ("F8_E4M3FNUZ", DType::new(11, 8, 1)),
    ("F8_E5M2", DType::new(12, 8, 1)),
    ("F8_E5M2FNUZ", DType::new(13, 8, 1)),
    ("F8_E8M0", DType::new(14, 8, 1)),
];

/// Returns true if a safetensors file can contain tensors of a data type.
pub(crate) fn has_dtype(dtype: DType) -> bool {
    DTYPES.iter().any(|(_, known)| *known == dtype)
}

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<i64>,
    /// The range of the data in the file.
    pub(crate) data: Range<usize>,
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The tensors of the file by name; tensors of unsupported data types are errors.
    pub(crate) tensors: BTreeMap<String, Result<Entry, String>>,
    /// True if passhost wrote the file.
    pub(crate) is_own: bool,
}

/// The entries of a JSON object, in order. A map would hide duplicate names.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pairs, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with an entry for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_map(All)
    }
}

/// Reads the header of a file, and checks that the tensors are within the file and do not overlap. The data is not
/// read.
///
/// # Errors
/// The first part of the header that is wrong.
pub(crate) fn read(file: &[u8]) -> Result<Contents, String> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(format!(
            "not a safetensors file: it has {} bytes, but the length of the header takes 8",
            file.len()
        ));
    };
    let length = u64::from_le_bytes(*length);
    if length > LONGEST || length > rest.len() as u64 {
        return Err(format!(
            "not a safetensors file: its header would have {length} bytes; {} follow, and at most {LONGEST} are allowed",
            rest.len()
        ));
    }
    let (header, data) = rest.split_at(length as usize);
    let pairs: Pairs = serde_json::from_slice(header)
        .map_err(|error| format!("not a safetensors file: its header is not JSON: {error}"))?;
    let (mut tensors, mut is_own, mut places) = (BTreeMap::new(), false, Vec::new());
    for (name, value) in pairs.0 {
        if name == ABOUT {
            is_own = value[OWN.0] == OWN.1;
            continue;
        }
        let wrong = |why: String| format!("tensor `{name}`: {why}");
        let (entry, place) = entry(&value, data.len(), 8 + header.len()).map_err(wrong)?;
        places.push((place, name.clone()));
        if tensors.insert(name.clone(), entry).is_some() {
            return Err(format!("two tensors are called `{name}`"));
        }
    }
    apart(places)?;
    Ok(Contents { tensors, is_own })
}

/// Checks that no two tensors share bytes.
fn apart(mut places: Vec<(Range<usize>, String)>) -> Result<(), String> {
    places.retain(|(place, _)| !place.is_empty());
    places.sort_unstable_by_key(|(place, _)| place.start);
    match places.windows(2).find(|two| two[0].0.end > two[1].0.start) {
        Some([(_, first), (_, second)]) => Err(format!("tensors `{first}` and `{second}` overlap")),
        _ => Ok(()),
    }
}

/// Reads the entry of a tensor. `room` is the length of the data, which begins at `from`.
fn entry(value: &Value, room: usize, from: usize) -> Result<(Result<Entry, String>, Range<usize>), String> {
    let numbers = |key: &str| -> Result<Vec<u64>, String> {
        let list = value[key].as_array().into_iter().flatten().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        list.filter(|_| value[key].is_array()).ok_or_else(|| format!("`{key}` is not a list of non-negative integers"))
    };
    let said = value["dtype"].as_str().ok_or("`dtype` is not a string")?;
    let (shape, offsets) = (numbers("shape")?, numbers("data_offsets")?);
    let &[start, end] = offsets.as_slice() else { return Err("`data_offsets` must contain two numbers".to_string()) };
    if start > end || end > room as u64 {
        return Err(format!("its data offsets are {start}..{end}, but the file has {room} bytes of data"));
    }
    let data = from + start as usize..from + end as usize;
    let Some((_, dtype)) = DTYPES.iter().find(|(name, _)| *name == said) else {
        return Ok((Err(format!("passhost does not support the data type {said}")), data));
    };
    let shape =
        shape.into_iter().map(i64::try_from).collect::<Result<Vec<i64>, _>>().map_err(|_| "its shape is too large")?;
    let wanted = runtime::tensor::size_of(*dtype, &shape).ok_or("its shape is too large")?;
    if wanted != data.len() as u64 {
        return Err(format!("a tensor of {dtype} and shape {shape:?} has {wanted} bytes, found {}", data.len()));
    }
    Ok((Ok(Entry { dtype: *dtype, shape, data: data.clone() }), data))
}

/// Returns the header, preceded by its length, of a file with these tensors in this order. The data begins at a
/// multiple of 64 bytes.
pub(crate) fn header<'a>(tensors: impl IntoIterator<Item = (&'a str, DType, &'a [i64], usize)>) -> Vec<u8> {
    let mut text = format!("{{\"{ABOUT}\":{{\"{}\":\"{}\"}}", OWN.0, OWN.1);
    let mut start = 0;
    for (name, dtype, shape, bytes) in tensors {
        let dtype = DTYPES.iter().find(|(_, known)| *known == dtype).map_or("", |(name, _)| name);
        // Writing to memory does not fail.
        let _ = write!(
            text,
            ",{}:{{\"dtype\":\"{dtype}\",\"shape\":{},\"data_offsets\":[{start},{}]}}",
            Value::from(name),
            Value::from(shape.to_vec()),
            start + bytes
        );
        start += bytes;
    }
    text.push('}');
    let length = (8 + text.len()).next_multiple_of(64) - 8;
    text.extend(std::iter::repeat_n(' ', length - text.len()));
    [&(length as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let tensors =
            [("a \"b\"", DType::F32, &[2i64, 3][..], 24), ("e", DType::BF16, &[0], 0), ("s", DType::BOOL, &[], 1)];
        let mut bytes = header(tensors);
        assert_eq!(bytes.len() % 64, 0);
        let from = bytes.len();
        bytes.resize(from + 25, 0);
        let contents = read(&bytes).expect("is read");
        let places = [("a \"b\"", from..from + 24), ("e", from + 24..from + 24), ("s", from + 24..from + 25)];
        assert!(contents.is_own && contents.tensors.len() == 3);
        for ((name, dtype, shape, _), (_, data)) in tensors.into_iter().zip(places) {
            assert_eq!(contents.tensors[name], Ok(Entry { dtype, shape: shape.to_vec(), data }));
        }
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let one = |rest: &str| file(&format!("{{\"t\":{{{rest}}}}}"), 8);
        for (bytes, why) in [
            (vec![], "the length of the header takes 8"),
            (vec![1; 7], "the length of the header takes 8"),
            (u64::MAX.to_le_bytes().to_vec(), "would have 18446744073709551615 bytes; 0 follow"),
            (file("", 0), "not JSON"),
            ([&100u64.to_le_bytes()[..], b"{}"].concat(), "would have 100 bytes; 2 follow"),
            (file("[1]", 0), "an object with an entry for each tensor"),
            (file("{\"t\":1}", 8), "`dtype` is not a string"),
            (one("\"dtype\":\"F32\",\"shape\":[2]"), "`data_offsets` is not a list"),
            (one("\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]"), "`shape` is not a list"),
            (one("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"), "`shape` is not a list"),
            (one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]"), "two numbers"),
            (one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"), "offsets are 8..0"),
            (one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]"), "has 8 bytes"),
            (one("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,18446744073709551615]"), "has 8 bytes"),
            (one("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]"), "has 12 bytes, found 8"),
            (one("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]"), "too large"),
            (one("\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,8]"), "too large"),
            (
                file(
                    "{\"t\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                    8,
                ),
                "tensors `t` and `u` overlap",
            ),
            (
                file(
                    "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                    8,
                ),
                "two tensors are called `t`",
            ),
            (file(&"[".repeat(100_000), 0), "not JSON"),
        ] {
            let error = read(&bytes).expect_err(why);
            assert!(error.contains(why), "{error}; expected {why}");
        }
        let other = read(&one("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]")).expect("is read");
        assert!(
            other.tensors["t"].as_ref().is_err_and(|why| why.contains("does not support the data type F4"))
                && !other.is_own
        );
    }

    /// A damaged header is rejected unless all tensors that it describes lie within the file.
    #[test]
    fn damaged_headers_are_refused_or_within_the_file() {
        let mut whole = header([("first", DType::F32, &[2i64, 3][..], 24), ("second", DType::I64, &[5], 40)]);
        whole.resize(whole.len() + 64, 7);
        let (mut state, mut kept) = (0x2545_f491_4f6c_dd1d_u64, 0);
        let mut next = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = b"0123456789[]{},\":\\\xff"[next(19)],
                    1 => bytes[at] ^= 1 << next(8),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let Ok(contents) = read(&bytes) else { continue };
            kept += 1;
            for entry in contents.tensors.values().flatten() {
                assert!(bytes.get(entry.data.clone()).is_some());
            }
        }
        assert!(kept > 100, "{kept}");
    }
}
