//! Bodies as bytes: sections that are not sealed yet, and changes that keep them almost valid.

use plugin_api::ir::records::*;
use plugin_api::ir::{Body, BodyBuilder, Sections};
use plugin_api::prelude::*;
use plugin_api::tvm::post_order_visit;
use plugin_api::walk::dump::dump;

/// The layout of a section's records.
trait Plain: Sized {
    /// Size in bytes of each field.
    const WIDTHS: &'static [usize];
    fn read(bytes: &mut &[u8]) -> Option<Self>;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Plain for $ty {
            const WIDTHS: &'static [usize] = &[size_of::<$ty>()];
            fn read(bytes: &mut &[u8]) -> Option<Self> {
                let (head, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$ty>::from_le_bytes(*head))
            }
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
integers!(u8, u16, u32, i32, u64);

macro_rules! records {
    ($($Rec:ident { $($field:ident: $ty:ty),* })*) => {$(
        impl Plain for $Rec {
            const WIDTHS: &'static [usize] = &[$(size_of::<$ty>()),*];
            fn read(bytes: &mut &[u8]) -> Option<Self> {
                Some($Rec { $($field: <$ty>::read(bytes)?),* })
            }
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)*
            }
        }
    )*};
}
records! {
    NodeRec { kind: u16, flags: u16, ty: u32, ops: u32, n_ops: u32, attrs: u32, a: u32 }
    LeafRec { kind: u16, flags: u16, ty: u32, val: u64 }
    TypeRec { kind: u16, flags: u16, dtype: u32, ndim: i32, off: u32, len: u32, aux: u32 }
    PrimRec { op: u16, flags: u16, dtype: u32, a: u32, b: u32 }
    StrRec { off: u32, len: u32 }
    DictRec { off: u32, len: u32 }
    AttrRec { key: u32, kind: u16, flags: u16, reserved: u64, val: u64 }
    ConstRec { hash_lo: u64, hash_hi: u64, bytes: u64, dtype: u32, ty: u32 }
    BufferRec {
        dtype: u32, scope: u32, shape_off: u32, shape_len: u32, strides_off: u32, strides_len: u32, elem_offset: u32,
        align: u32, offset_factor: u32, reserved: u32
    }
}

/// Takes the next section: its length in two bytes, then its bytes.
fn section<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let Some((len, after)) = rest.split_first_chunk::<2>() else { return &[] };
    let (bytes, after) = after.split_at(usize::from(u16::from_le_bytes(*len)).min(after.len()));
    *rest = after;
    bytes
}

fn put_section(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&bytes[..usize::from(len)]);
}

macro_rules! sections {
    ($($name:ident: $Rec:ident),* $(,)?) => {
        /// Sizes in bytes of the fields of each section's records.
        const WIDTHS: &[&[usize]] = &[$(<$Rec as Plain>::WIDTHS),*];

        fn read(mut rest: &[u8]) -> Sections {
            let mut s = Sections::default();
            $({
                let mut bytes = section(&mut rest);
                s.$name = std::iter::from_fn(|| Plain::read(&mut bytes)).collect();
            })*
            s
        }

        /// Returns the sections of a body, in the form that [`seal`] parses; constants are without their data.
        pub fn bytes(body: &Body) -> Vec<u8> {
            let (s, mut out) = (Sections::copy_of(body.raw()), Vec::new());
            $({
                let mut bytes = Vec::new();
                s.$name.iter().for_each(|record| record.write(&mut bytes));
                put_section(&mut out, &bytes);
            })*
            out
        }
    };
}
sections! {
    nodes: NodeRec, operands: u32, leaves: LeafRec, types: TypeRec, lists: u32, prims: PrimRec, strs: StrRec,
    str_bytes: u8, dicts: DictRec, attrs: AttrRec, consts: ConstRec, buffers: BufferRec, names: u32, name_bytes: u8,
    var_names: u32, spans: u32, origins: u32, origin_lists: u32, limit: u32,
}

/// Seals sections, which must be refused or result in a usable body. Returns true if there is a body.
pub fn seal(data: &[u8]) -> bool {
    let mut s = read(data);
    for rec in &mut s.consts {
        // Random data cannot match its hash, so the data is zeros with their hash.
        let tensor = Tensor::new(&vec![0; rec.bytes.min(4_096) as usize]);
        (rec.hash_lo, rec.hash_hi) = tensor.hash128();
        s.tensors.push(tensor);
    }
    match Body::seal(&s) {
        Ok(body) => {
            use_all(&body);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Calls everything that reads a body.
fn use_all(body: &Body) {
    let _ = dump(body);
    let _ = body.structural_hash();
    let again = Body::seal(&Sections::copy_of(body.raw())).expect("a sealed body can be sealed again");
    assert!(body.structural_eq(&again) && body.structural_hash() == again.structural_hash());
    post_order_visit(body, |value| {
        let _ = (value.view(), value.ty().to_owned(), value.dims(), value.dim(), value.branches(), value.name());
        if let Some(call) = value.as_call() {
            let _ = (call.op(), call.args().len(), call.type_args().len());
        }
        let _ = plugin_api::arith::index_to_dim(value);
    });
    let _ = (body.users().at(0), body.use_counts(), body.root().region().free_vars(), body.n_bindings());
    let _ = remove_all_unused(body);
    let mut edit = body.edit();
    let root = edit.v(body.root());
    edit.update(root, |node| node.flags ^= flag::PRIVATE);
    let _ = edit.finish();
    let _ = body.rewrite(|value, rw| match value.as_call() {
        Some(call) if value.index().is_some_and(|i| i % 3 == 0) => {
            let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
            Action::Replace(rw.call_like(call, &args))
        }
        _ => Action::Keep,
    });
    let mut b = BodyBuilder::new();
    b.importer(body.raw()).copy(&mut b, body.root());
    let _ = b.finish();
    let _ = script::print_function("f", body, &script::NoOps);
}

/// Random numbers from a seed (splitmix64).
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % (n.max(1) as u64)) as usize
    }
}

const NODES: usize = 0;
const LEAVES: usize = 2;
const NAMES: usize = 12;
const SPANS: usize = 15;
/// The sections to change. More important sections occur more often.
const TARGETS: &[usize] = &[0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9, 9, 10, 11, 12, 13, 14, 15];

/// Changes sections in a few places: fields get plausible ids and kinds; records are repeated, dropped or moved.
pub fn mutate(data: &[u8], seed: u32) -> Vec<u8> {
    let (mut rng, mut rest) = (Rng(seed.into()), data);
    let mut parts: Vec<Vec<u8>> = WIDTHS.iter().map(|_| section(&mut rest).to_vec()).collect();
    for _ in 0..=rng.below(4) {
        let at = TARGETS[rng.below(TARGETS.len())];
        change(&mut parts, at, &mut rng);
    }
    let mut out = Vec::with_capacity(data.len() + 64);
    parts.iter().for_each(|part| put_section(&mut out, part));
    out
}

fn size(part: usize) -> usize {
    WIDTHS[part].iter().sum()
}

fn count(parts: &[Vec<u8>], part: usize) -> usize {
    parts[part].len() / size(part)
}

fn change(parts: &mut [Vec<u8>], part: usize, rng: &mut Rng) {
    let n = count(parts, part);
    // The parts whose rows must be moved together.
    let with: Vec<usize> = match part {
        NODES => [NODES, NAMES, SPANS].into_iter().filter(|other| count(parts, *other) == n).collect(),
        _ => vec![part],
    };
    let (from, to) = (rng.below(n), rng.below(n));
    let range = |part: usize, at: usize| at * size(part)..(at + 1) * size(part);
    match rng.below(8) {
        _ if n == 0 => parts[part].resize(size(part), 0),
        0 => with.iter().for_each(|part| {
            let record = parts[*part][range(*part, from)].to_vec();
            let at = to * size(*part);
            parts[*part].splice(at..at, record);
        }),
        1 => with.iter().for_each(|part| drop(parts[*part].drain(range(*part, from)))),
        2 => {
            let record = parts[part][range(part, from)].to_vec();
            parts[part][range(part, to)].copy_from_slice(&record);
        }
        _ => {
            let field = rng.below(WIDTHS[part].len());
            let start = to * size(part) + WIDTHS[part][..field].iter().sum::<usize>();
            let width = WIDTHS[part][field];
            let mut old = [0; 8];
            old[..width].copy_from_slice(&parts[part][start..start + width]);
            let new = plausible(parts, to, u64::from_le_bytes(old), rng);
            parts[part][start..start + width].copy_from_slice(&new.to_le_bytes()[..width]);
        }
    }
}

/// Strings for places at which the parser requires a certain form.
const TEXTS: &[&str] = &[
    "",
    "_",
    "x",
    "n",
    "v",
    "y",
    "\u{ff59}",
    "main",
    "\u{ff4d}ain",
    "if",
    "None",
    "T",
    "R",
    "cls",
    "metadata",
    "Module",
    "a b",
    "a.b",
    "\n",
    "\"",
    "\\",
    "\0",
    "\u{85}",
    "\u{2028}",
    "\u{301}",
    "1",
    "float32",
    "int64",
    "relax.add",
    "relax.div",
    "relax.nn.relu",
    "relax.call_tir",
    "relax.sum",
    "relax.shape",
    "relax.add(x, x)\n import os #",
    "tirx.exp",
    "tirx.if_then_else",
    "exp",
    "global",
    "local",
    "shared",
    "threadIdx.x",
    "axis",
    "keepdims",
    "kind",
    "vdevice",
    "T.target",
    "operand",
    "R",
    "serial",
    "thread_binding",
    "global_symbol",
    "s_tir",
    "no_reads",
    "key",
    "node",
    "annotations",
    "thread",
];

/// Bits of data types.
const DTYPES: &[u32] = &[
    DType::VOID.0,
    DType::I32.0,
    DType::I64.0,
    DType::BOOL.0,
    DType::F16.0,
    DType::F32.0,
    DType::F64.0,
    DType::HANDLE.0,
    DType::new(0, 32, 4).0,
    DType::new(2, 32, 4).0,
    DType::new(1, 8, 1).0,
    DType::new(4, 16, 1).0,
    DType::new(10, 8, 1).0,
    DType::new(112, 105, 27_917).0,
];

/// Positions of fields that are flags or data types: section and field.
const FLAGS: &[(usize, usize)] = &[(NODES, 1), (NODES, 1), (LEAVES, 1), (3, 1), (9, 2)];
const TYPED: &[(usize, usize)] = &[(3, 2), (5, 1), (10, 3), (11, 0)];
const STRS: usize = 6;
const VAR_NAMES: usize = 14;

/// Changes a body at `n` places, except those whose bit is set in `without`. Some changes take records from another
/// body.
pub(super) fn forged(body: &Body, other: &Body, seed: u64, n: u32, without: u32) -> Sections {
    let split = |body: &Body| -> Vec<Vec<u8>> {
        let bytes = bytes(body);
        let mut rest = bytes.as_slice();
        WIDTHS.iter().map(|_| section(&mut rest).to_vec()).collect()
    };
    let (mut parts, others) = (split(body), split(other));
    for i in (0..n).filter(|i| without >> i & 1 == 0) {
        let mut rng = Rng(seed ^ u64::from(i + 1) << 48);
        forge(&mut parts, &others, &mut rng);
    }
    let mut out = Vec::new();
    parts.iter().for_each(|part| put_section(&mut out, part));
    let mut s = read(&out);
    let known: Vec<&Tensor> = body.raw().tensors().iter().chain(other.raw().tensors()).collect();
    for rec in &mut s.consts {
        let same = |tensor: &&&Tensor| tensor.hash128() == (rec.hash_lo, rec.hash_hi);
        let tensor = match known.iter().find(same) {
            Some(tensor) => (*tensor).clone(),
            None => Tensor::new(&vec![0; rec.bytes.min(4_096) as usize]),
        };
        (rec.hash_lo, rec.hash_hi) = tensor.hash128();
        s.tensors.push(tensor);
    }
    s
}

/// Makes one change.
fn forge(parts: &mut [Vec<u8>], others: &[Vec<u8>], rng: &mut Rng) {
    let at = TARGETS[rng.below(TARGETS.len())];
    match rng.below(16) {
        0 | 1 if count(parts, at) > 0 && count(others, at) > 0 => {
            let (from, to) = (rng.below(count(others, at)), rng.below(count(parts, at)));
            let record = others[at][from * size(at)..][..size(at)].to_vec();
            parts[at][to * size(at)..][..size(at)].copy_from_slice(&record);
        }
        2 if rng.below(4) == 0 => parts[at].clone_from(&others[at]),
        3 | 4 => {
            let off = parts[7].len() as u32;
            let text = TEXTS[rng.below(TEXTS.len())];
            parts[7].extend_from_slice(text.as_bytes());
            let value = u64::from(off) | (text.len() as u64) << 32;
            set(parts, STRS, rng, 0, &value.to_le_bytes());
        }
        5 => {
            let (off, text) = (parts[13].len() as u32, TEXTS[rng.below(TEXTS.len())]);
            parts[13].extend_from_slice(&(text.len() as u16).to_le_bytes());
            parts[13].extend_from_slice(text.as_bytes());
            let names = if rng.below(2) == 0 { NAMES } else { VAR_NAMES };
            set(parts, names, rng, 0, &off.to_le_bytes());
        }
        6 | 7 => {
            let (part, field) = FLAGS[rng.below(FLAGS.len())];
            let n = count(parts, part);
            if n > 0 {
                let start = rng.below(n) * size(part) + WIDTHS[part][..field].iter().sum::<usize>();
                parts[part][start] ^= 1 << rng.below(8);
            }
        }
        8 => {
            let (part, field) = TYPED[rng.below(TYPED.len())];
            let dtype = DTYPES[rng.below(DTYPES.len())];
            set(parts, part, rng, field, &dtype.to_le_bytes());
        }
        9 => {
            // A number in a dimension, leaf or attribute.
            let number = [0u64, 1, 2, 7, u64::MAX, 1 << 40, 0x8000_0000][rng.below(7)];
            match rng.below(3) {
                0 => set(parts, 5, rng, 3, &number.to_le_bytes()),
                1 => set(parts, LEAVES, rng, 3, &number.to_le_bytes()),
                _ => set(parts, 9, rng, 4, &number.to_le_bytes()),
            }
        }
        _ => change(parts, at, rng),
    }
}

/// Writes bytes to a random record of a section, starting at a field.
fn set(parts: &mut [Vec<u8>], part: usize, rng: &mut Rng, field: usize, bytes: &[u8]) {
    let n = count(parts, part);
    if n > 0 {
        let start = rng.below(n) * size(part) + WIDTHS[part][..field].iter().sum::<usize>();
        parts[part][start..start + bytes.len()].copy_from_slice(bytes);
    }
}

/// Returns a plausible value for a field of record `at`.
fn plausible(parts: &[Vec<u8>], at: usize, old: u64, rng: &mut Rng) -> u64 {
    let n = count(parts, rng.below(parts.len()));
    match rng.below(14) {
        0 | 1 => rng.below(n) as u64,
        2 => n as u64,
        3 => at as u64,
        4 => at.saturating_sub(1 + rng.below(3)) as u64,
        5 => rng.below(40) as u64,
        6 => u64::from(NONE),
        7 => u64::from(LEAF_BIT) | rng.below(count(parts, LEAVES)) as u64,
        8 => old ^ (1 << rng.below(8)),
        9 => old.wrapping_add(1),
        10 => old.wrapping_sub(1),
        11 => [0x001, 0x101, 0x8001][rng.below(3)] + rng.below(16) as u64,
        12 => list_val(rng.below(n) as u32, rng.below(4) as u32),
        _ => rng.next(),
    }
}
