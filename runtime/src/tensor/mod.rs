//! Tensors: contiguous, row-major, in shared storage.

mod random;

pub(crate) use self::random::SplitMix;
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::room::Room;
use passhost_lang::scalar::{DType, Element, Number, number_of, word_of};
use std::sync::{Arc, Weak};

/// A tensor of any data type: elements in row-major order, little-endian, `bool` as one byte, 0 or 1. A clone shares
/// the data; writing to shared data copies it first.
///
/// ```
/// use plugin_api::prelude::*;
/// use runtime::{Fault, Tensor};
///
/// let mut x = Tensor::from_vec(&[2, 2], vec![1.0f32, 2.0, 3.0, 4.0])?;
/// let before = x.clone();
/// x.bytes_mut()[..4].copy_from_slice(&9f32.to_le_bytes());
/// assert_eq!(x.values::<f32>()?, [9.0, 2.0, 3.0, 4.0]);
/// assert_eq!(before.values::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Arc<[i64]>,
    bytes: usize,
    storage: Arc<Room>,
    origin: Option<u32>,
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({} {:?}, {:016x})", self.dtype, self.shape, self.checksum())
    }
}

impl PartialEq for Tensor {
    /// Compares data type, shape and bytes. Therefore, NaN equals the same NaN, and 0.0 does not equal -0.0.
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

/// Returns the size of a tensor in bytes; `None` if such a tensor cannot exist.
pub fn size_of(dtype: DType, shape: &[i64]) -> Option<u64> {
    let of_element = u64::try_from(dtype.bytes()).ok().filter(|_| dtype.is_known() && (dtype.lanes() as i16) > 0)?;
    // If an extent is 0, the other extents may have any value, so their product is not computed.
    let extents = shape.iter().map(|extent| u64::try_from(*extent).ok()).collect::<Option<Vec<u64>>>()?;
    if extents.contains(&0) {
        return Some(0);
    }
    let bytes = extents.into_iter().try_fold(of_element, u64::checked_mul)?;
    (bytes <= i64::MAX as u64).then_some(bytes)
}

fn no_tensor(dtype: DType, shape: &[i64], bytes: usize) -> Fault {
    FaultKind::NoTensor { dtype, shape: shape.to_vec(), bytes: bytes as u64 }.into()
}

/// Returns the fill byte of new memory. Booleans are 0 or 1.
fn fresh_byte(dtype: DType, limits: &Limits) -> u8 {
    if dtype == DType::BOOL { limits.fresh_byte() & 1 } else { limits.fresh_byte() }
}

fn no_numbers(dtype: DType) -> Fault {
    Fault::numbers_of(dtype)
}

impl Tensor {
    /// Creates a tensor from its data.
    ///
    /// # Errors
    /// Fails if the size of the data does not match the data type and shape.
    pub fn new(dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<Tensor, Fault> {
        if size_of(dtype, shape) != Some(bytes.len() as u64) {
            return Err(no_tensor(dtype, shape, bytes.len()));
        }
        Ok(Tensor { dtype, shape: shape.into(), bytes: bytes.len(), storage: Arc::new(Room::of(bytes)), origin: None })
    }

    /// Creates a tensor of zero bytes, counted against the limits until the last clone is dropped.
    ///
    /// # Errors
    /// Fails if the tensor is impossible, or there is too little memory.
    pub fn zeros(dtype: DType, shape: &[i64], limits: &Limits) -> Result<Tensor, Fault> {
        Tensor::within(dtype, shape, |bytes| Room::filled(0, bytes, limits))
    }

    /// Creates unwritten memory, filled with the fresh byte of the limits.
    ///
    /// # Errors
    /// Fails like [`Tensor::zeros`].
    pub fn fresh(dtype: DType, shape: &[i64], limits: &Limits) -> Result<Tensor, Fault> {
        Tensor::within(dtype, shape, |bytes| Room::filled(fresh_byte(dtype, limits), bytes, limits))
    }

    /// Creates memory with unspecified content, which the caller must fill.
    ///
    /// # Errors
    /// Fails like [`Tensor::zeros`].
    pub fn unfilled(dtype: DType, shape: &[i64], limits: &Limits) -> Result<Tensor, Fault> {
        Tensor::within(dtype, shape, |bytes| Room::any(bytes, limits))
    }

    fn within(dtype: DType, shape: &[i64], room: impl Fn(u64) -> Result<Room, Fault>) -> Result<Tensor, Fault> {
        let bytes = size_of(dtype, shape).ok_or_else(|| no_tensor(dtype, shape, 0))?;
        Ok(Tensor { dtype, shape: shape.into(), bytes: bytes as usize, storage: Arc::new(room(bytes)?), origin: None })
    }

    /// Returns true if some element has the content that [`Tensor::fresh`] creates.
    pub(crate) fn has_fresh(&self, limits: &Limits) -> bool {
        fn any<T: bytemuck::Pod + PartialEq>(bytes: &[u8], fresh: T) -> bool {
            bytemuck::try_cast_slice::<u8, T>(bytes).is_ok_and(|elements| elements.contains(&fresh))
        }
        let fresh = fresh_byte(self.dtype, limits);
        match self.dtype.bytes() {
            1 => any(self.bytes(), fresh),
            2 => any(self.bytes(), [fresh; 2]),
            4 => any(self.bytes(), u32::from_ne_bytes([fresh; 4])),
            8 => any(self.bytes(), u64::from_ne_bytes([fresh; 8])),
            // Vectors, and elements of other widths.
            _ => true,
        }
    }

    /// Creates a tensor from its elements.
    ///
    /// # Errors
    /// Fails if their number does not match the shape.
    pub fn from_vec<T: Element>(shape: &[i64], values: Vec<T>) -> Result<Tensor, Fault> {
        let numbers = values.into_iter().map(Element::number);
        Tensor::from_numbers(T::DTYPE, shape, numbers)
    }

    /// Creates a tensor from numbers, converted to the data type like [`Element::of`].
    ///
    /// # Errors
    /// Fails if their number does not match the shape, or if Rust lacks a type for the elements.
    pub fn from_numbers(
        dtype: DType,
        shape: &[i64],
        numbers: impl IntoIterator<Item = Number>,
    ) -> Result<Tensor, Fault> {
        let mut bytes = Vec::new();
        for number in numbers {
            let (word, width) = word_of(dtype, number).ok_or_else(|| no_numbers(dtype))?;
            bytes.extend_from_slice(&word.to_le_bytes()[..width]);
        }
        Tensor::new(dtype, shape, &bytes)
    }

    /// Attaches a number by which the creator recognizes the tensor. Clones keep the number, even after writes.
    #[must_use]
    pub fn with_origin(self, origin: u32) -> Tensor {
        Tensor { origin: Some(origin), ..self }
    }

    /// Returns the number set by [`Tensor::with_origin`].
    pub fn origin(&self) -> Option<u32> {
        self.origin
    }

    /// Returns the address of the memory, which clones share until one of them is written.
    pub(crate) fn memory(&self) -> usize {
        Arc::as_ptr(&self.storage).addr()
    }

    /// Returns a weak reference to the memory of the tensor.
    pub(crate) fn handle(&self) -> Weak<Room> {
        Arc::downgrade(&self.storage)
    }

    /// Returns this tensor, moved to the memory of another tensor of the same size.
    pub(crate) fn in_memory_of(&self, other: &Tensor) -> Tensor {
        Tensor { storage: Arc::clone(&other.storage), ..self.clone() }
    }

    /// Returns the bytes from `offset` on as a new tensor, or `None` if there are too few. The new tensor shares the
    /// memory if it covers all bytes; otherwise, the bytes are copied.
    pub(crate) fn viewed(&self, dtype: DType, shape: &[i64], offset: i64) -> Option<Tensor> {
        let (from, bytes) = (usize::try_from(offset).ok()?, usize::try_from(size_of(dtype, shape)?).ok()?);
        if (from, bytes) == (0, self.bytes) {
            return Some(Tensor { dtype, shape: shape.into(), origin: None, ..self.clone() });
        }
        Tensor::new(dtype, shape, self.bytes().get(from..from.checked_add(bytes)?)?).ok()
    }

    /// Returns a copy of the tensor with its own memory.
    pub(crate) fn copied(&self) -> Tensor {
        Tensor { storage: Arc::new(Room::clone(&self.storage)), ..self.clone() }
    }

    /// Returns the data type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the extents; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().fold(1, |n, extent| n.saturating_mul(*extent as usize))
    }

    /// Returns true if the tensor is empty.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the size of the data in bytes.
    pub fn nbytes(&self) -> usize {
        self.bytes
    }

    /// Returns the data.
    pub fn bytes(&self) -> &[u8] {
        &self.storage.bytes()[..self.bytes]
    }

    /// Returns the data, mutably. Shared data is copied first; the copy is not counted.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        &mut Arc::make_mut(&mut self.storage).bytes_mut()[..bytes]
    }

    /// Returns the address of the data if it is not shared, for code that writes while nothing reads the tensor.
    pub fn address(&self) -> Option<usize> {
        (Arc::strong_count(&self.storage) == 1).then(|| self.storage.address())
    }

    /// Returns the data in words of 8 bytes; the last word is padded.
    pub(crate) fn words(&self) -> &[u64] {
        self.storage.words()
    }

    /// Returns the data in mutable words of 8 bytes. Shared data is copied first, and the copy is counted.
    ///
    /// # Errors
    /// Fails if the limits do not allow the copy.
    pub(crate) fn words_mut(&mut self, limits: &Limits) -> Result<&mut [u64], Fault> {
        if Arc::get_mut(&mut self.storage).is_none() {
            let mut copy = Room::any(self.bytes as u64, limits)?;
            copy.words_mut().copy_from_slice(&self.storage.words()[..copy_len(self.bytes)]);
            self.storage = Arc::new(copy);
        }
        Ok(Arc::make_mut(&mut self.storage).words_mut())
    }

    /// Returns the same data with a different shape of the same size.
    ///
    /// # Errors
    /// Fails if the number of elements differs.
    pub fn reshaped(&self, shape: &[i64]) -> Result<Tensor, Fault> {
        if size_of(self.dtype, shape) != Some(self.bytes as u64) {
            return Err(no_tensor(self.dtype, shape, self.bytes));
        }
        Ok(Tensor { shape: shape.into(), origin: None, ..self.clone() })
    }

    /// Returns the elements.
    ///
    /// # Errors
    /// Fails if the elements have a different data type.
    pub fn values<T: Element>(&self) -> Result<Vec<T>, Fault> {
        if T::DTYPE != self.dtype {
            return Err(no_tensor(T::DTYPE, &self.shape, self.bytes));
        }
        Ok((0..self.len()).filter_map(|i| self.number(i)).map(T::of).collect())
    }

    /// Returns the element at a position in row-major order; `None` beyond the end, or if Rust lacks a type for the
    /// elements.
    pub fn number(&self, i: usize) -> Option<Number> {
        let width = self.dtype.bytes();
        let bytes = self.bytes().get(i.checked_mul(width)?..)?.get(..width)?;
        let word = bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        number_of(self.dtype, word)
    }

    /// Returns all elements as numbers; none if Rust lacks a type for them.
    pub fn numbers(&self) -> impl Iterator<Item = Number> + '_ {
        (0..self.len()).map_while(|i| self.number(i))
    }

    /// Returns a hash of data type, shape and data, which is the same on every machine.
    pub fn checksum(&self) -> u64 {
        match self.with_usual_nans() {
            None => self.hasher(self.bytes()).digest(),
            Some(bytes) => self.hasher(&bytes).digest(),
        }
    }

    /// Canonicalizes every NaN, because the bits of NaN depend on the processor. Returns `None` if there are no NaNs.
    fn with_usual_nans(&self) -> Option<Vec<u8>> {
        fn usual<T: bytemuck::Pod>(bytes: &[u8], is_nan: impl Fn(T) -> bool, nan: T) -> Option<Vec<u8>> {
            let elements =
                bytemuck::try_cast_slice::<u8, T>(bytes).ok().filter(|all| all.iter().any(|of| is_nan(*of)))?;
            let elements: Vec<T> = elements.iter().map(|of| if is_nan(*of) { nan } else { *of }).collect();
            Some(bytemuck::cast_slice(&elements).to_vec())
        }
        match self.dtype {
            DType::F64 => usual(self.bytes(), f64::is_nan, f64::NAN),
            DType::F32 => usual(self.bytes(), f32::is_nan, f32::NAN),
            DType::F16 => usual(self.bytes(), |bits: u16| bits & 0x7fff > 0x7c00, 0x7e00),
            DType::BF16 => usual(self.bytes(), |bits: u16| bits & 0x7fff > 0x7f80, 0x7fc0),
            _ => None,
        }
    }

    /// Returns a 128-bit hash: equal for equal tensors, and almost certainly different for different tensors.
    pub fn digest(&self) -> u128 {
        let mut hash = self.hasher(self.bytes());
        hash.update(&(self.shape.len() as u64).to_le_bytes());
        hash.digest128()
    }

    fn hasher(&self, bytes: &[u8]) -> xxhash_rust::xxh3::Xxh3 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(&self.dtype.0.to_le_bytes());
        self.shape.iter().for_each(|extent| hash.update(&extent.to_le_bytes()));
        hash.update(bytes);
        hash
    }

    /// Creates a tensor of elements drawn from a seed, the same on every machine: floats from -1 to 1 (excluding 1),
    /// signed integers from -8 to 7, unsigned integers from 0 to 15, and Booleans.
    ///
    /// # Errors
    /// Fails if the tensor is impossible, there is too little memory, or Rust lacks a type for the elements.
    pub fn random(dtype: DType, shape: &[i64], seed: u64, limits: &Limits) -> Result<Tensor, Fault> {
        let mut out = Tensor::zeros(dtype, shape, limits)?;
        random::fill(dtype, seed, out.bytes_mut()).ok_or_else(|| no_numbers(dtype))?;
        Ok(out)
    }
}

/// Returns the number of 8-byte words that hold `bytes` bytes.
pub(crate) fn copy_len(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::scalar::F16;

    #[test]
    fn elements_come_back_as_they_went_in() {
        let halves = vec![F16::from_f32(0.1), F16::from_f32(-2.0), F16::from_f32(f32::INFINITY)];
        let tensor = Tensor::from_vec(&[3], halves.clone()).expect("three elements");
        assert_eq!((tensor.nbytes(), tensor.values::<F16>().expect("of float16")), (6, halves));
        assert_eq!(Tensor::from_vec(&[2], vec![true, false]).expect("two").bytes(), [1, 0]);
        assert_eq!(Tensor::from_vec(&[], vec![-1i64]).expect("a scalar").number(0), Some(Number::Int(-1)));
        assert!(tensor.values::<f32>().is_err());
    }

    #[test]
    fn shapes_that_no_tensor_has_are_refused() {
        for shape in [&[-1][..], &[i64::MAX, 2], &[3]] {
            assert!(
                matches!(Tensor::new(DType::F32, shape, &[0; 8]), Err(Fault { kind: FaultKind::NoTensor { .. }, .. })),
                "{shape:?}"
            );
        }
        let empty = Tensor::zeros(DType::F32, &[0, i64::MAX, 9], &Limits::unlimited()).expect("empty");
        assert_eq!((empty.len(), empty.bytes()), (0, &[][..]));
        let huge = Tensor::zeros(DType::F32, &[25_000_000_000], &Limits::new(1 << 30, 0));
        assert!(
            matches!(huge, Err(Fault { kind: FaultKind::OutOfMemory { needed: 100_000_000_000, .. }, .. })),
            "{huge:?}"
        );
    }

    #[test]
    fn what_is_wrong_with_a_shape_is_said() {
        let said = |shape: &[i64]| Tensor::new(DType::F32, shape, &[0; 8]).expect_err("is refused").to_string();
        assert_eq!(said(&[2, -1]), "a tensor cannot have the shape [2, -1]: an extent is negative");
        assert_eq!(said(&[3]), "a tensor of float32 with shape [3] needs 12 bytes, found 8");
        let much = said(&[i64::MAX, 8]);
        assert!(much.ends_with("its size in bytes exceeds 64 bits"), "{much}");
    }

    #[test]
    fn random_elements_depend_on_the_seed_alone() {
        let limits = Limits::unlimited();
        let draw = |seed| Tensor::random(DType::F32, &[1000], seed, &limits).expect("a tensor");
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).checksum(), draw(1).checksum());
        let values = draw(3).values::<f32>().expect("floats");
        assert!(values.iter().all(|v| (-1.0..1.0).contains(v)));
        let mean = values.iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.1, "{mean}");
        let bools = Tensor::random(DType::BOOL, &[100], 0, &limits).expect("a tensor");
        assert!(bools.bytes().iter().all(|b| *b <= 1) && bools.bytes().contains(&1) && bools.bytes().contains(&0));
    }

    #[test]
    fn memory_is_freed_with_the_last_clone() {
        let limits = Limits::new(100, 1_000);
        let mut x = Tensor::zeros(DType::I8, &[60], &limits).expect("60 of 100");
        let y = x.clone();
        assert_eq!(limits.memory_used(), 60);
        assert!(x.words_mut(&limits).is_err(), "a copy does not fit");
        drop(y);
        assert!(x.words_mut(&limits).is_ok());
        drop(x);
        assert_eq!(limits.memory_used(), 0);
    }
}
