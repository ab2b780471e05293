//! Finds passes that write to their input. Bodies are immutable only by contract: they are in the memory of the process, and plugin code can
//! be unsafe. `--paranoid` copies the module before each pass and each property checker, and compares it afterwards. A copy is used rather
//! than a hash, so that damage can be undone.

use passhost_lang::ir::{Body, Module, RawView, SealError, Sections, Tensor};

/// Expands a macro for all sections.
macro_rules! sections {
    ($do:ident) => {
        $do!(
            nodes, operands, leaves, types, lists, prims, strs, str_bytes, dicts, attrs, consts, buffers, names,
            name_bytes, var_names, spans
        )
    };
}

/// The copy of a module before a pass.
pub(crate) struct Snapshot {
    functions: Vec<(String, Body, Content)>,
    /// Attributes and global infos.
    meta: Option<(Body, Content)>,
}

struct Content {
    sections: Sections,
    /// Address of each section.
    places: Vec<usize>,
    data: Vec<Vec<u8>>,
}

/// The first detected change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Name of the function; `None` if a part of the module itself changed.
    pub(crate) function: Option<String>,
    /// Description of the changed part, for a message.
    pub(crate) part: String,
}

impl Snapshot {
    /// Copies a module.
    pub(crate) fn of(module: &Module) -> Snapshot {
        let copy = |(name, body): (&str, &Body)| (name.to_string(), body.clone(), Content::of(body.raw()));
        let meta = module.meta().map(|body| (body.clone(), Content::of(body.raw())));
        Snapshot { functions: module.functions().map(copy).collect(), meta }
    }

    /// Returns the first part of the module that was written to.
    pub(crate) fn written(&self, module: &Module) -> Option<Written> {
        // Names may now contain any bytes, even invalid text.
        let mut names = module.functions().map(|(name, _)| name.as_bytes());
        for (name, body, content) in &self.functions {
            let function = Some(name.clone());
            if names.next() != Some(name.as_bytes()) {
                return Some(Written { function, part: "the name of the function".to_string() });
            }
            if let Some(section) = content.difference(body.raw()) {
                return Some(Written { function, part: format!("the input function (section `{section}`)") });
            }
        }
        let section = self.meta.as_ref().and_then(|(body, content)| content.difference(body.raw()))?;
        Some(Written { function: None, part: format!("the attributes of the module (section `{section}`)") })
    }

    /// Returns the module with all changes undone. Unchanged functions keep their handles.
    ///
    /// # Errors
    /// If a copy cannot be sealed.
    pub(crate) fn restore(&self) -> Result<Module, SealError> {
        let whole = |body: &Body, content: &Content| match content.difference(body.raw()) {
            Some(_) => content.seal(),
            None => Ok(body.clone()),
        };
        let functions = self.functions.iter().map(|(name, body, content)| Ok((name.clone(), whole(body, content)?)));
        let meta = self.meta.as_ref().map(|(body, content)| whole(body, content)).transpose()?;
        Ok(Module::with_meta(functions.collect::<Result<Vec<_>, SealError>>()?, meta))
    }
}

impl Content {
    fn of(raw: &RawView<'_>) -> Content {
        macro_rules! places {
            ($($name:ident),*) => { vec![$(raw.$name().as_ptr().addr()),*] };
        }
        let data = raw.tensors().iter().map(|tensor| tensor.bytes().to_vec()).collect();
        Content { sections: Sections::copy_of(raw), places: sections!(places), data }
    }

    /// Returns the part that changed. Slices that have a different address or length are not compared.
    fn difference(&self, now: &RawView<'_>) -> Option<&'static str> {
        let mut places = self.places.iter();
        macro_rules! compare {
            ($($name:ident),*) => {$(
                let (then, found, place) = (&self.sections.$name, now.$name(), places.next());
                let moved = !then.is_empty() && place != Some(&found.as_ptr().addr());
                if then.len() != found.len() || moved || then.as_slice() != found {
                    return Some(stringify!($name));
                }
            )*};
        }
        sections!(compare);
        let tensors = now.tensors();
        let same = |(then, now): (&Vec<u8>, &Tensor)| now.bytes() == then.as_slice();
        let whole = tensors.len() == self.data.len() && self.data.iter().zip(tensors).all(same);
        (!whole).then_some("constants")
    }

    fn seal(&self) -> Result<Body, SealError> {
        let mut sections = self.sections.clone();
        sections.tensors = self.data.iter().map(|bytes| Tensor::new(bytes)).collect();
        Body::seal(&sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::{Attr, BodyBuilder, DType, Type};

    fn body() -> Body {
        let mut b = BodyBuilder::new();
        let (ty, attrs) = (b.ty(&Type::tensor([2i64, 3], DType::F32)), b.attrs([]));
        b.begin_function(0, attrs, None);
        let x = b.param("x", ty);
        b.end_function(x, ty);
        b.finish().expect("a body")
    }

    /// If a new section were not compared, this sum would be too small.
    #[test]
    fn every_section_is_compared() {
        let body = body();
        let raw = body.raw();
        macro_rules! bytes {
            ($($name:ident),*) => { 0 $(+ std::mem::size_of_val(raw.$name()))* };
        }
        assert_eq!(sections!(bytes), raw.byte_len());
    }

    #[test]
    fn what_is_written_is_found_and_put_back() {
        let module = Module::new([("main", body()), ("other", body())]);
        let mut snapshot = Snapshot::of(&module);
        assert_eq!(snapshot.written(&module), None);
        // Changing the copy simulates a write to the function.
        snapshot.functions[1].2.sections.name_bytes[2] = b'y';
        let written = snapshot.written(&module).expect("it was written into");
        assert_eq!(written.function.as_deref(), Some("other"));
        assert_eq!(written.part, "the input function (section `name_bytes`)");
        let restored = snapshot.restore().expect("a module");
        let same = |name: &str| restored.get(name).zip(module.get(name)).map(|(a, b)| a.same(b));
        assert_eq!((same("main"), same("other")), (Some(true), Some(false)));
    }

    #[test]
    fn names_and_attributes_are_watched_too() {
        let mut edit = Module::new([("main", body())]).edit();
        edit.set_attrs(vec![("a".to_string(), Attr::Int(1))], Vec::new()).expect("attributes");
        let module = edit.finish();
        let mut snapshot = Snapshot::of(&module);
        snapshot.functions[0].0 = "mine".to_string();
        assert_eq!(snapshot.written(&module).expect("a name").part, "the name of the function");
        assert!(snapshot.restore().expect("a module").get("mine").is_some());
        let mut snapshot = Snapshot::of(&module);
        snapshot.meta.as_mut().expect("attributes").1.sections.str_bytes[0] ^= 1;
        assert_eq!(snapshot.written(&module).expect("attributes").function, None);
    }
}
