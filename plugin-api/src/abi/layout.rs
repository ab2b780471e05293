//! Checks the layout of records that cross the boundary in two ways: by a hash in the metadata; and, when a plugin is
//! opened, by abi_stable's comparison of all fields. The hash is fast and needs no loading; the comparison finds the
//! difference.

use crate::abi::entry::{Entry, RunResult};
use crate::declare::declarations::PluginDecl;
use crate::ir::records::*;
use crate::ir::storage::body_handle::BodyHdr;
use crate::ir::storage::layout::{Layout, mix};
use crate::ir::storage::module_handle::{FuncEntry, ModuleHdr};
use crate::ir::storage::sections::{RawSlice, RawView};
use crate::ir::storage::tensor::TensorHdr;
use crate::services::{CtxRecord, DiagnosticRecord, LogRecord, RawBytes, Services, Sink, SpanRecord};
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{
    AbiInstability, AbiInstabilityError, AbiInstabilityErrors, check_layout_compatibility,
};
use abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};

/// Calls `then` with every boundary record of version 1.0. These records do not change before 2.0, so plugins of all
/// versions 1.x share them. A longer table is a new record that starts with the old record.
macro_rules! records {
    ($then:ident) => {
        $then! {
            node: NodeRec,
            leaf: LeafRec,
            ty: TypeRec,
            prim: PrimRec,
            dict: DictRec,
            attr: AttrRec,
            str: StrRec,
            constant: ConstRec,
            buffer: BufferRec,
            slice: RawSlice,
            view: RawView<'static>,
            body: BodyHdr,
            tensor: TensorHdr,
            function: FuncEntry,
            module: ModuleHdr,
            bytes: RawBytes,
            sink: Sink,
            ctx: CtxRecord,
            log: LogRecord,
            span: SpanRecord,
            diagnostic: DiagnosticRecord,
            services: Services,
            result: RunResult,
            entry: Entry,
        }
    };
}
#[cfg(test)]
pub(super) use records;

macro_rules! boundary {
    ($($field:ident: $ty:ty),* $(,)?) => {
        /// Contains every boundary record, for the layout comparison.
        #[repr(C)]
        #[derive(StableAbi)]
        struct Boundary {
            $($field: $ty,)*
        }
    };
}
macro_rules! fingerprint {
    ($($field:ident: $ty:ty),* $(,)?) => {
        /// Hash over all boundary records.
        pub(super) const RECORDS: u64 = {
            let hash = mix(0xcbf2_9ce4_8422_2325, std::mem::size_of::<TypeLayout>() as u64);
            $(let hash = mix(hash, <$ty as Layout>::HASH);)*
            hash
        };
    };
}

records!(boundary);
records!(fingerprint);

/// Returns the fingerprint of a version with this contract. The records alone do not reveal a changed meaning of a
/// number.
pub(super) const fn fingerprint_of(contract: &str) -> u64 {
    let (mut hash, mut bytes) = (RECORDS, contract.as_bytes());
    while let Some((eight, rest)) = bytes.split_first_chunk::<8>() {
        hash = mix(hash, u64::from_le_bytes(*eight));
        bytes = rest;
    }
    while let Some((one, rest)) = bytes.split_first() {
        hash = mix(hash, *one as u64);
        bytes = rest;
    }
    hash
}

/// Calls `then` with every record added in version 1.1. The contract describes them, so the fingerprint covers them.
#[cfg(test)]
macro_rules! records_of_1_1 {
    ($then:ident) => {
        $then! {
            files: Files,
            sources: Sources,
            entry_of_1_1: EntryOf1_1,
        }
    };
}
#[cfg(test)]
pub(super) use records_of_1_1;

/// The contracts of the versions 1.x, from 1.0 on. The last contract is for this version.
pub(super) const CONTRACTS: [&str; 2] =
    [include_str!("../../tests/api/1.0.txt"), include_str!("../../tests/api/1.1.txt")];

/// The fingerprints of these versions. A plugin is opened only if its fingerprint is that of its version.
pub(super) const FINGERPRINTS: [u64; CONTRACTS.len()] = {
    let (mut fingerprints, mut minor) = ([0; CONTRACTS.len()], 0);
    while minor < CONTRACTS.len() {
        fingerprints[minor] = fingerprint_of(CONTRACTS[minor]);
        minor += 1;
    }
    fingerprints
};

/// Hash over the records and the contract of this version.
pub const FINGERPRINT: u64 = FINGERPRINTS[CONTRACTS.len() - 1];

/// Returns the fingerprint of the lowest version that supports everything a plugin uses.
pub(super) const fn fingerprint_of_plugin(plugin: &PluginDecl) -> u64 {
    if plugin.more.has_formats() { FINGERPRINT } else { FINGERPRINTS[0] }
}

/// Returns the layouts of this side.
pub(super) fn layout_of_boundary() -> &'static TypeLayout {
    <Boundary as StableAbi>::LAYOUT
}

/// Returns the layouts of this side, for the entry table.
pub(crate) extern "C" fn layout_here() -> *const u8 {
    std::ptr::from_ref(layout_of_boundary()).cast()
}

/// Compares layouts. The error is one line; the full report has thousands of lines, and is logged at debug level.
pub(super) fn compare(ours: &'static TypeLayout, theirs: &'static TypeLayout) -> Result<(), String> {
    let Err(errors) = check_layout_compatibility(ours, theirs) else { return Ok(()) };
    match first_difference(&errors) {
        None => Ok(()),
        Some(line) => {
            tracing::debug!("layouts differ:\n{errors}");
            Err(line)
        }
    }
}

/// Returns the differing type, and the difference. In a chain of nested records, this is the innermost record, which is
/// why the outer records differ. The name and version of the crate that defines a record do not matter, because the API
/// has its own version, and a record may move to a different crate. The fingerprint covers the contents of records.
fn first_difference(errors: &AbiInstabilityErrors) -> Option<String> {
    let counts =
        |error: &&AbiInstability| !matches!(error, AbiInstability::Package(_) | AbiInstability::PackageVersion(_));
    let sites = errors.errors.iter().filter(|site| site.errs.iter().any(|error| counts(&error)));
    let mut culprit: Option<&AbiInstabilityError> = None;
    for site in sites {
        if culprit.is_some_and(|outer| site.stack_trace.len() <= outer.stack_trace.len()) {
            break;
        }
        culprit = Some(site);
    }
    let culprit = culprit?;
    // Size and alignment are determined by the fields.
    let follows = |error: &&AbiInstability| matches!(error, AbiInstability::Size(_) | AbiInstability::Alignment(_));
    let all = || culprit.errs.iter().filter(counts);
    let error = all().find(|error| !follows(error)).or_else(|| all().next())?;
    Some(format!("{} {}", place(culprit, error), describe(error)))
}

/// Returns the record, or the field of a record.
fn place(site: &AbiInstabilityError, error: &AbiInstability) -> String {
    let name = |at: &TLFieldOrFunction| match at {
        TLFieldOrFunction::Field(field) => format!("`{}`", field.layout().full_type()),
        TLFieldOrFunction::Function(function) => format!("function `{}`", function.name),
    };
    let mut outwards = site.stack_trace.iter().rev().map(|at| at.expected);
    let Some(inner) = outwards.next() else { return "the list of records".to_string() };
    match (inner, error, outwards.next()) {
        (_, AbiInstability::FieldCountMismatch(_) | AbiInstability::UnexpectedField(_), _) | (_, _, None) => {
            name(&inner)
        }
        (TLFieldOrFunction::Field(field), _, Some(outer)) => format!("field `{}` of {}", field.name(), name(&outer)),
        (_, _, Some(outer)) => format!("{} of {}", name(&inner), name(&outer)),
    }
}

fn describe(error: &AbiInstability) -> String {
    match error {
        AbiInstability::Size(at) => format!("has {} bytes there, {} here", at.found, at.expected),
        AbiInstability::Alignment(at) => format!("is aligned to {} there, {} here", at.found, at.expected),
        AbiInstability::FieldCountMismatch(at) => format!("has {} fields there, {} here", at.found, at.expected),
        AbiInstability::UnexpectedField(at) => {
            format!("has field `{}` there where `{}` is here", at.found.name(), at.expected.name())
        }
        AbiInstability::Name(at) => format!("is `{}` there, `{}` here", at.found, at.expected),
        AbiInstability::MismatchedPrimitive(at) => format!("is {:?} there, {:?} here", at.found, at.expected),
        // The other differences cannot occur in records with plain fields. Return their names, and log the rest.
        other => {
            let text = format!("{other:?}");
            let kind = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            format!("differs ({kind})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::storage::layout::layout;

    macro_rules! variant {
        ($module:ident { $($field:ident: $ty:ty),* }) => {
            mod $module {
                use super::*;
                #[repr(C)]
                #[derive(StableAbi)]
                pub(crate) struct Record { $($field: $ty),* }
                layout!(Record { $($field),* });
                #[repr(C)]
                #[derive(StableAbi)]
                pub(crate) struct All { first: u64, record: Record, call: extern "C" fn(*const Record) }
            }
        };
    }
    variant!(ours { a: u32, b: u32 });
    variant!(reordered { b: u32, a: u32 });
    variant!(longer { a: u32, b: u32, c: u64 });
    variant!(wider { a: u32, b: u64 });
    variant!(signed { a: u32, b: i32 });

    fn difference<T: StableAbi>() -> String {
        compare(<ours::All as StableAbi>::LAYOUT, <T as StableAbi>::LAYOUT).expect_err("layouts differ")
    }

    #[test]
    fn the_first_difference_is_one_line() {
        assert_eq!(compare(<ours::All as StableAbi>::LAYOUT, <ours::All as StableAbi>::LAYOUT), Ok(()));
        assert_eq!(difference::<reordered::All>(), "`Record` has field `b` there where `a` is here");
        assert_eq!(difference::<longer::All>(), "`Record` has 3 fields there, 2 here");
        assert_eq!(difference::<wider::All>(), "field `b` of `Record` is `u64` there, `u32` here");
        assert_eq!(difference::<signed::All>(), "field `b` of `Record` is `i32` there, `u32` here");
    }

    #[test]
    fn the_hash_sees_places_and_sizes() {
        #[repr(C)]
        struct Swapped {
            b: u32,
            a: u32,
        }
        layout!(Swapped { a, b });
        assert_ne!(ours::Record::HASH, Swapped::HASH);
        assert_ne!(ours::Record::HASH, longer::Record::HASH);
        assert_ne!(ours::Record::HASH, wider::Record::HASH);
    }

    #[test]
    fn the_boundary_fits_itself() {
        assert_eq!(compare(<Boundary as StableAbi>::LAYOUT, <Boundary as StableAbi>::LAYOUT), Ok(()));
    }
}
