//! Numbers, texts and sections in a row.
#![allow(unsafe_code, reason = "a buffer is aligned for records")]

/// What another process sent is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Forged(pub String);

impl Forged {
    /// Says what is wrong.
    pub fn new(what: impl Into<String>) -> Forged {
        Forged(what.into())
    }
}

/// Bytes that begin at an address which is aligned for sections.
#[derive(Default)]
pub struct Buffer {
    units: Vec<u128>,
    len: usize,
}

impl Buffer {
    /// Bytes of the value 0.
    pub fn zeroed(len: usize) -> Buffer {
        Buffer { units: vec![0; len.div_ceil(16)], len }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the units have at least so many bytes, all initialized.
        unsafe { std::slice::from_raw_parts(self.units.as_ptr().cast(), self.len) }
    }

    /// The bytes, to be filled.
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
    /// With a number at the start: what the message is.
    pub fn of(what: u8) -> Writer {
        let mut writer = Writer::default();
        writer.byte(what);
        writer
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// One byte.
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// A number.
    pub fn number(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    /// Bytes after their number.
    pub fn block(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.block(text.as_bytes());
    }

    /// A text that may be missing.
    pub fn maybe_text(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// Bytes at an aligned place.
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
    /// From the start. Sections are found only in a [`Buffer`].
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

    /// One byte.
    ///
    /// # Errors
    /// If there is no more.
    pub fn byte(&mut self) -> Result<u8, Forged> {
        Ok(self.take(1)?[0])
    }

    /// A number.
    ///
    /// # Errors
    /// If there is no more.
    pub fn number(&mut self) -> Result<u64, Forged> {
        Ok(self.take(8)?.try_into().map_or(0, u64::from_le_bytes))
    }

    /// How many things follow that have at least one byte each.
    ///
    /// # Errors
    /// If there is no room for so many.
    pub fn count(&mut self) -> Result<usize, Forged> {
        let count = self.number()?;
        let room = (self.all.len() - self.at) as u64;
        if count > room {
            return Err(Forged::new(format!("a message announces {count} items in {room} bytes")));
        }
        Ok(count as usize)
    }

    /// Bytes after their number.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn block(&mut self) -> Result<&'a [u8], Forged> {
        let len = self.count()?;
        self.take(len)
    }

    /// A text.
    ///
    /// # Errors
    /// If it is none.
    pub fn text(&mut self) -> Result<&'a str, Forged> {
        std::str::from_utf8(self.block()?).map_err(|_| Forged::new("a text is not UTF-8"))
    }

    /// A text that may be missing.
    ///
    /// # Errors
    /// If it is none.
    pub fn maybe_text(&mut self) -> Result<Option<&'a str>, Forged> {
        if self.byte()? == 0 { Ok(None) } else { self.text().map(Some) }
    }

    /// Bytes at an aligned place.
    pub(super) fn section(&mut self) -> Result<&'a [u8], Forged> {
        let len = self.count()?;
        if len > 0 {
            let skipped = self.at.next_multiple_of(16) - self.at;
            self.take(skipped)?;
        }
        self.take(len)
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// If something does.
    pub fn end(&self) -> Result<(), Forged> {
        let more = self.all.len() - self.at;
        if more == 0 { Ok(()) } else { Err(Forged::new(format!("a message has {more} bytes too many"))) }
    }
}
