//! The metadata section in the format of API 1.0: tag (u16), length (u32), content.

use crate::records::FINGERPRINT;

pub const VERSION: &str = "1.0.0";

struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    const fn put(&mut self, bytes: &[u8]) {
        let mut i = 0;
        while i < bytes.len() {
            if N > 0 {
                self.bytes[self.at] = bytes[i];
            }
            self.at += 1;
            i += 1;
        }
    }

    const fn field(&mut self, tag: u16, content: &[u8]) {
        self.put(&tag.to_le_bytes());
        self.put(&(content.len() as u32).to_le_bytes());
        self.put(content);
    }

    const fn open(&mut self, tag: u16) -> usize {
        self.put(&tag.to_le_bytes());
        self.put(&[0; 4]);
        self.at
    }

    const fn close(&mut self, start: usize) {
        let len = ((self.at - start) as u32).to_le_bytes();
        let mut i = 0;
        while i < 4 && N > 0 {
            self.bytes[start - 4 + i] = len[i];
            i += 1;
        }
    }

    /// Writes name, documentation, opt_level, granularity, traceable.
    const fn pass(&mut self, name: &str, doc: &str, granularity: u8) {
        let pass = self.open(16);
        self.field(1, name.as_bytes());
        self.field(32, doc.as_bytes());
        self.field(33, &0i32.to_le_bytes());
        self.field(36, &[granularity]);
        self.field(35, &[0]);
        self.close(pass);
    }
}

const fn write<const N: usize>() -> Writer<N> {
    let mut w = Writer { bytes: [0; N], at: 0 };
    w.put(b"PASSHOST");
    w.put(&1u16.to_le_bytes());
    let plugin = w.open(0);
    w.field(1, b"plugin-of-api-1.0");
    w.field(2, b"1.0.0");
    w.field(3, VERSION.as_bytes());
    w.field(4, &FINGERPRINT.to_le_bytes());
    w.field(5, b"as it was then");
    w.field(6, b"as it was then");
    w.pass("frozen.TanhForRelu", " Calls relax.tanh where relax.nn.relu was called.", 1);
    w.pass("frozen.Count", " Walks every function, and reports what it saw.", 0);
    w.close(plugin);
    w
}

pub const LEN: usize = write::<0>().at;
pub const BYTES: [u8; LEN] = write::<LEN>().bytes;
