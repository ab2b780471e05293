//! Reads and writes several named arrays: `.npz`, an archive of `.npy` files.

use super::npy::{read_npy, write_npy};
use super::{FileError, Meant};
use crate::limits::Limits;
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// File size in bytes from which an archive needs 64-bit sizes.
const LARGE: usize = 4_000_000_000;

/// The first bytes of an `.npy` file.
const NPY: &[u8] = b"\x93NUMPY";

fn archive(error: zip::result::ZipError) -> FileError {
    match error {
        zip::result::ZipError::Io(error) => FileError::Archive { why: error.to_string() },
        other => FileError::Archive { why: other.to_string() },
    }
}

/// Converts a write error. All write errors count as system errors, because an archive that is being written cannot be
/// damaged.
fn refused(error: zip::result::ZipError) -> FileError {
    FileError::Io(match error {
        zip::result::ZipError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    })
}

/// A writer that stops at the first error. Without it, the archive library would try to finish a failed archive on
/// drop, and print the error.
struct UntilItFails<W> {
    to: W,
    failed: bool,
}

impl<W: Write> Write for UntilItFails<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Ok(bytes.len());
        }
        let written = self.to.write(bytes);
        self.failed = written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed { Ok(()) } else { self.to.flush().inspect_err(|_| self.failed = true) }
    }
}

impl<W: Seek> Seek for UntilItFails<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if self.failed { Ok(0) } else { self.to.seek(to).inspect_err(|_| self.failed = true) }
    }
}

/// Reads all arrays of an archive written by `numpy.savez` or `numpy.savez_compressed`. The limits reject a small
/// archive with large contents before it is unpacked.
///
/// ```
/// use runtime::files::{read_npz, write_npz};
/// use runtime::{Limits, Tensor};
///
/// let x = Tensor::from_vec(&[3], vec![1i64, 2, 3])?;
/// let mut file = std::io::Cursor::new(Vec::new());
/// write_npz([("x", &x)], &mut file)?;
/// let arrays = read_npz(file, &|_| None, &Limits::unlimited())?;
/// assert_eq!(arrays["x"], x);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the file is damaged or not an archive of arrays, or if it needs more memory than the limits allow.
pub fn read_npz(
    mut from: impl Read + Seek,
    meant: &Meant<'_>,
    limits: &Limits,
) -> Result<BTreeMap<String, Tensor>, FileError> {
    let mut start = Vec::new();
    from.by_ref().take(NPY.len() as u64).read_to_end(&mut start)?;
    if start == NPY {
        return Err(FileError::OneArray);
    }
    from.rewind()?;
    let mut files = ZipArchive::new(from).map_err(archive)?;
    // If several files have the same name, the archive library returns only one of them.
    if files.has_duplicate_names() {
        return Err(FileError::Twice);
    }
    let mut out = BTreeMap::new();
    for at in 0..files.len() {
        let mut file = files.by_index(at).map_err(archive)?;
        let name = file.name().map_err(archive)?.into_owned();
        let Some(name) = name.strip_suffix(".npy").map(str::to_string) else {
            return Err(FileError::Archive {
                why: format!("the archive contains `{name}`, which is not an .npy file"),
            });
        };
        let tensor = read_npy(&name, &mut file, meant, limits)?;
        out.insert(name, tensor);
    }
    Ok(out)
}

/// Writes arrays like `numpy.savez`. Equal arrays always result in equal bytes.
///
/// # Errors
/// Fails if NumPy does not support the data type of an array, or the system reports an error.
pub fn write_npz<'t>(
    arrays: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
    to: impl Write + Seek,
) -> Result<(), FileError> {
    let mut files = ZipWriter::new(UntilItFails { to, failed: false });
    for (name, tensor) in arrays {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let options = options.last_modified_time(zip::DateTime::default()).large_file(tensor.nbytes() >= LARGE);
        files.start_file(format!("{name}.npy"), options).map_err(refused)?;
        write_npy(tensor, name, &mut files)?;
    }
    files.finish().map_err(refused)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, FaultKind};
    use passhost_lang::ir::{Bf16, DType};
    use std::io::Cursor;

    fn small() -> Vec<u8> {
        let x = Tensor::from_vec(&[2, 2], vec![1.0f32, 2.0, 3.0, 4.0]).expect("a tensor");
        let half = Tensor::from_vec(&[2], vec![Bf16(0x3f80), Bf16(0)]).expect("a tensor");
        let mut file = Cursor::new(Vec::new());
        write_npz([("x", &x), ("half", &half)], &mut file).expect("written");
        file.into_inner()
    }

    fn read(file: Vec<u8>, limits: &Limits) -> Result<BTreeMap<String, Tensor>, FileError> {
        read_npz(Cursor::new(file), &|_| None, limits)
    }

    #[test]
    fn arrays_come_back_by_their_names() {
        assert_eq!(small(), small(), "no time of day is in it");
        let arrays = read(small(), &Limits::unlimited()).expect("read");
        assert_eq!(arrays.keys().collect::<Vec<_>>(), ["half", "x"]);
        assert_eq!(arrays["half"].dtype(), DType::BF16);
    }

    /// NumPy would read only the second array.
    #[test]
    fn two_arrays_of_one_name_are_refused() {
        let (x, y) = (Tensor::from_vec(&[1], vec![1i64]), Tensor::from_vec(&[1], vec![2i64]));
        let (x, y) = (x.expect("a tensor"), y.expect("a tensor"));
        let mut file = Cursor::new(Vec::new());
        write_npz([("x", &x), ("y", &y)], &mut file).expect("written");
        let mut file = file.into_inner();
        let names = file.windows(5).enumerate().filter(|(_, bytes)| *bytes == b"y.npy").map(|(at, _)| at);
        let names: Vec<usize> = names.collect();
        assert_eq!(names.len(), 2, "one before the array and one in the directory");
        names.into_iter().for_each(|at| file[at] = b'x');
        let error = read(file, &Limits::unlimited()).expect_err("is refused");
        assert_eq!(error.to_string(), "two of its arrays have the same name");
    }

    /// A file with a damaged byte is rejected, or read as different arrays, but never causes a panic.
    #[test]
    fn damaged_files_are_refused() {
        let file = small();
        for cut in 0..file.len() {
            assert!(read(file[..cut].to_vec(), &Limits::new(1 << 20, 1 << 30)).is_err(), "cut at {cut}");
        }
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 0x55;
            let _ = read(other, &Limits::new(1 << 20, 1 << 30));
        }
        let error = read(b"\x93NUMPY\x01\x00".to_vec(), &Limits::unlimited()).expect_err("is refused").to_string();
        assert_eq!(error, "it is an .npy file, which holds one unnamed array");
        let error = read(b"no archive".to_vec(), &Limits::unlimited()).expect_err("is refused").to_string();
        assert!(error.starts_with("it is not a valid .npz file"), "{error}");
    }

    #[test]
    fn a_small_file_that_holds_much_is_refused() {
        let zeros = Tensor::zeros(DType::F32, &[1 << 22], &Limits::unlimited()).expect("16 MiB");
        let mut file = ZipWriter::new(Cursor::new(Vec::new()));
        let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        file.start_file("x.npy", deflated).expect("a file");
        write_npy(&zeros, "x", &mut file).expect("written");
        let file = file.finish().expect("an archive").into_inner();
        assert!(file.len() < 1 << 17, "{}", file.len());
        assert_eq!(read(file.clone(), &Limits::unlimited()).expect("read")["x"], zeros);
        let error = read(file, &Limits::new(1 << 20, 1 << 30)).expect_err("is too large");
        assert!(
            matches!(error, FileError::Fault { fault: Fault { kind: FaultKind::OutOfMemory { .. }, .. }, .. }),
            "{error}"
        );
    }
}
