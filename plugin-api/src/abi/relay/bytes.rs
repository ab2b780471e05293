//! Reads and writes messages that consist of numbers, strings and sections.
#![allow(unsafe_code, reason = "a buffer is aligned for records")]

/// The error of an invalid message from another process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Forged(pub String);

impl Forged {
    /// Creates the error from a description.
    pub fn new(what: impl Into<String>) -> Forged {
        Forged(what.into())
    }
}

/// Bytes that start at an address aligned for sections.
#[derive(Default)]
pub struct Buffer {
    units: Vec<u128>,
    len: usize,
}

impl Buffer {
    /// Creates zero bytes.
    pub fn zeroed(len: usize) -> Buffer {
        Buffer { units: vec![0; len.div_ceil(16)], len }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the units have at least this many bytes, all initialized.
        unsafe { std::slice::from_raw_parts(self.units.as_ptr().cast(), self.len) }
    }

    /// Returns the bytes, mutably.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; any bytes are units.
        unsafe { std::slice::from_raw_parts_mut(self.units.as_mut_ptr().cast(), self.len) }
    }
}

/// Writes a message.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// Creates a message of a kind, whose number is the first byte.
    pub fn of(what: u8) -> Writer {
        let mut writer = Writer::default();
        writer.byte(what);
        writer
    }

    /// Returns the message.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Writes one byte.
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Writes a number.
    pub fn number(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes bytes, preceded by their length.
    pub fn block(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// Writes a string.
    pub fn text(&mut self, text: &str) {
        self.block(text.as_bytes());
    }

    /// Writes an optional string.
    pub fn maybe_text(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// Writes bytes at an aligned position.
    pub(super) fn section(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        if !bytes.is_empty() {
            self.out.resize(self.out.len().next_multiple_of(16), 0);
            self.out.extend_from_slice(bytes);
        }
    }
}

/// Reads a message.
pub struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start. Sections can be read only from a [`Buffer`].
    pub fn new(all: &'a [u8]) -> Reader<'a> {
        Reader { all, at: 0 }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Forged> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.all.len());
        let end = end.ok_or_else(|| Forged::new("a message ends in the middle"))?;
        let bytes = &self.all[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// At the end of the message.
    pub fn byte(&mut self) -> Result<u8, Forged> {
        Ok(self.take(1)?[0])
    }

    /// Reads a number.
    ///
    /// # Errors
    /// At the end of the message.
    pub fn number(&mut self) -> Result<u64, Forged> {
        Ok(self.take(8)?.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Reads the number of the following items, each of at least one byte.
    ///
    /// # Errors
    /// If the rest of the message is too short for the items.
    pub fn count(&mut self) -> Result<usize, Forged> {
        let count = self.number()?;
        let room = (self.all.len() - self.at) as u64;
        if count > room {
            return Err(Forged::new(format!("a message announces {count} items, but has only {room} bytes left")));
        }
        Ok(count as usize)
    }

    /// Reads bytes that are preceded by their length.
    ///
    /// # Errors
    /// If the message contains fewer bytes.
    pub fn block(&mut self) -> Result<&'a [u8], Forged> {
        let len = self.count()?;
        self.take(len)
    }

    /// Reads a string.
    ///
    /// # Errors
    /// If the string is invalid.
    pub fn text(&mut self) -> Result<&'a str, Forged> {
        std::str::from_utf8(self.block()?).map_err(|_| Forged::new("a string is not UTF-8"))
    }

    /// Reads an optional string.
    ///
    /// # Errors
    /// If the string is invalid.
    pub fn maybe_text(&mut self) -> Result<Option<&'a str>, Forged> {
        if self.byte()? == 0 { Ok(None) } else { self.text().map(Some) }
    }

    /// Reads bytes at an aligned position.
    pub(super) fn section(&mut self) -> Result<&'a [u8], Forged> {
        let len = self.count()?;
        if len > 0 {
            let skipped = self.at.next_multiple_of(16) - self.at;
            self.take(skipped)?;
        }
        self.take(len)
    }

    /// Checks that the message ends here.
    ///
    /// # Errors
    /// If the message continues.
    pub fn end(&self) -> Result<(), Forged> {
        let more = self.all.len() - self.at;
        if more == 0 { Ok(()) } else { Err(Forged::new(format!("a message is {more} bytes too long"))) }
    }
}
