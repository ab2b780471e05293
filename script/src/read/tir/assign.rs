//! Reads declarations of the form `name = …` in a PrimFunc.

use crate::read::arguments::{accept, keyword, sym_declaration};
use crate::read::tir::arith::is_number;
use crate::read::tir::buffer::{BufferCall, BufferFacts, handle_type};
use crate::read::tir::dtypes::typed;
use crate::read::tir::reader::{E, HERE, Is, TirReader};
use crate::read::tir::stmt::one;
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, span};
use passhost_lang::ir::records::{axis, buffer_of, flag, kind};
use passhost_lang::ir::{Attr, AttrsId, BufferType, DType, NodeSpec, Type, TypeId, V};
use ruff_python_ast::{Expr, ExprCall};
use std::ops::Range;

/// Functions that return the position of device code in the thread hierarchy.
const SCOPE_IDS: &[&str] = &[
    "cluster_id",
    "cta_id",
    "cta_id_in_cluster",
    "cta_id_in_pair",
    "lane_id",
    "thread_id",
    "thread_id_in_wg",
    "warp_id",
    "warp_id_in_wg",
    "warpgroup_id",
];

impl<'a> TirReader<'a> {
    /// Reads `name: T.let[ty] = value`; if the type is missing, it is the type of the value.
    pub(super) fn bind(&mut self, name: &'a str, ty: Option<&'a Expr>, value: E) -> Read<()> {
        let (ty, dtype) = match ty {
            Some(ty) => self.value_type(ty)?,
            None => match self.pointee(value) {
                Some(pointer) => (self.b.ty(&pointer), DType::HANDLE),
                None => (self.type_of_result(value), value.dtype),
            },
        };
        let value = if value.is == Is::Literal { self.retype(value, dtype).v } else { value.v };
        let call = self.b.kind(value) == kind::CALL;
        let flags = if call { flag::IMPURE } else { 0 };
        let v = self.b.node(NodeSpec::new(kind::BIND).ty(ty).flags(flags), &[value], Some(name));
        self.define_name(name, typed(v, ty, dtype));
        Ok(())
    }

    /// Returns the type of the address of an element.
    fn pointee(&self, value: E) -> Option<Type> {
        self.b.with(value.v, |value| {
            let element = value.as_call_to("tirx.address_of")?.arg(0).filter(|element| element.kind() == kind::LOAD)?;
            let ty = element.operand(0)?.ty();
            Some(Type::Pointer { dtype: ty.dtype(), scope: ty.buffer_scope().to_string() })
        })
    }

    /// Reads `name: T.int32 = value`, or a named number, as a single-element buffer that is used by name.
    pub(super) fn new_scalar(&mut self, name: &'a str, dtype: DType, value: Option<E>) {
        let value = value.map(|value| self.stored(value, dtype));
        let ty = BufferType { scope: "local".to_string(), tiled: true, ..BufferType::new(vec![one()], dtype) };
        let e = self.add_buffer(name, ty, buffer_of::ALLOC, &[], AttrsId::NONE);
        if let Some(value) = value {
            let zero = self.imm(0, DType::I32);
            self.effect(kind::STORE, &[e.v, value, zero]);
        }
    }

    pub(super) fn add_buffer(&mut self, name: &'a str, buffer: BufferType, of: u32, ops: &[V], attrs: AttrsId) -> E {
        let (dtype, is) = (buffer.dtype, self.is_scalar(&buffer, Some(of)));
        let ty = self.b.ty(&Type::Buffer(buffer));
        let spec = NodeSpec::new(kind::BUFFER).ty(ty).attrs(attrs).a(of);
        // An allocation remains even if it is unused.
        let v = self.b.node(spec.flags(flag::INNER), ops, Some(name));
        let e = E { v, ty, dtype, is, end: HERE };
        self.define_name(name, e);
        e
    }

    pub(super) fn assign(&mut self, name: &'a str, value: &'a Expr) -> Read<()> {
        if let Some(dtype) = sym_declaration(self.scope.text, value) {
            return self.declare(name, dtype);
        }
        if let Some((callee, call)) = self.tir_call_of(value) {
            if let Some((facts, of)) = self.new_buffer_facts(callee) {
                return self.new_buffer(name, call, facts, of);
            }
            match callee {
                "handle" => {
                    let ty = handle_type(call)?;
                    let ty = self.b.ty(&ty);
                    return self.var(name, ty, DType::HANDLE);
                }
                "bind" => return self.bound_to(name, call),
                "decl_buffer" => return self.decl_buffer(name, call),
                "decl_scalar" => {
                    return self.scalar_buffer(name, call, "", &["dtype", "data", "scope", "elem_offset"]);
                }
                "alloc_scalar" => return self.scalar_buffer(name, call, "", &["dtype", "scope"]),
                "shared_scalar" => return self.scalar_buffer(name, call, "shared", &["dtype"]),
                "local_scalar" => return self.scalar_buffer(name, call, "local", &["dtype"]),
                "match_buffer" => return self.match_buffer(name, call),
                "launch_thread" => return self.launch(call, Some(name)),
                "env_thread" => return self.env_thread(name, call),
                _ if SCOPE_IDS.contains(&callee) => return self.scope_ids(&[name], callee, call),
                _ => {}
            }
            if let Some(kind) = callee.strip_prefix("axis.") {
                return self.axis(name, kind, call);
            }
        }
        if let Expr::Call(call) = value
            && let Expr::Attribute(method) = &*call.func
            && method.attr.as_str() == "view"
        {
            return self.view(name, &method.value, call);
        }
        if let Some(buffer) = self.known(name).filter(|e| self.has_one_element(*e)) {
            return self.store_alone(buffer, value);
        }
        if let Some(buffer) = self.other_name(name, value) {
            self.define_name(name, buffer);
            return Ok(());
        }
        match self.known(name).filter(|e| e.is == Is::Scalar || self.b.kind(e.v) == kind::BIND) {
            Some(_) => {
                let value = self.value(value)?;
                self.assign_value(name, value)
            }
            None => {
                let value = self.value_or_text(value)?;
                if is_number(value.dtype) {
                    self.new_scalar(name, value.dtype, Some(value));
                    return Ok(());
                }
                self.bind(name, None, value)
            }
        }
    }

    /// Returns the facts and the kind of a buffer created by a call without data.
    fn new_buffer_facts(&self, callee: &str) -> Option<(BufferFacts, u32)> {
        let plain = BufferFacts { keywords: &["annotations"], ..BufferFacts::default() };
        let none = BufferFacts::default();
        Some(match callee {
            "Buffer" | "buffer" | "buffer_decl" => (none, buffer_of::FREE),
            "sblock_alloc_buffer" => (BufferFacts { without_bytes: true, ..none }, buffer_of::BLOCK),
            "alloc_buffer" if self.old => (none, buffer_of::BLOCK),
            "alloc_buffer" => (plain, buffer_of::ALLOC),
            "alloc_local" => (BufferFacts { scope: "local", ..plain }, buffer_of::ALLOC),
            "alloc_shared" => (BufferFacts { scope: "shared", ..plain }, buffer_of::ALLOC),
            _ => return None,
        })
    }

    /// Writes to the only element of a buffer.
    fn store_alone(&mut self, buffer: E, value: &'a Expr) -> Read<()> {
        let value = self.value(value)?;
        let (stored, zero) = (self.stored(value, buffer.dtype), self.imm(0, DType::I32));
        self.effect(kind::STORE, &[buffer.v, stored, zero]);
        Ok(())
    }

    /// Returns true for a single-element buffer, which `name = value` writes to.
    fn has_one_element(&self, e: E) -> bool {
        e.is == Is::Buffer
            && matches!(self.b.type_owned(e.ty), Type::Buffer(ty) if matches!(&ty.shape[..], [one] if one.as_int() == Some(1)))
    }

    /// Returns the buffer that `name = A` aliases.
    fn other_name(&self, name: &str, value: &Expr) -> Option<E> {
        let buffer = self.known(value.as_name_expr()?.id.as_str()).filter(|e| e.is == Is::Buffer)?;
        self.known(name).is_none_or(|e| e.is != Is::Scalar).then_some(buffer)
    }

    /// Assigns a new value to an existing scalar or variable.
    pub(super) fn assign_value(&mut self, name: &'a str, value: E) -> Read<()> {
        let Some(before) = self.known(name) else { return Ok(()) };
        let stored = self.stored(value, before.dtype);
        if before.is == Is::Scalar {
            let zero = self.imm(0, DType::I32);
            self.effect(kind::STORE, &[before.v, stored, zero]);
            return Ok(());
        }
        let spec = NodeSpec::new(kind::BIND).ty(before.ty).flags(flag::IMPURE);
        let v = self.b.node(spec, &[stored, before.v], Some(name));
        self.define_name(name, typed(v, before.ty, before.dtype));
        Ok(())
    }

    /// Reads `n = T.int32()`: a free variable, or a variable mentioned in the signature.
    fn declare(&mut self, name: &'a str, dtype: DType) -> Read<()> {
        if self.syms.get(name).is_some_and(|sym| sym.dtype == dtype) && self.known(name).is_none() {
            return Ok(());
        }
        let ty = self.prim_type(dtype);
        self.var(name, ty, dtype)
    }

    fn var(&mut self, name: &'a str, ty: TypeId, dtype: DType) -> Read<()> {
        let v = self.b.node(NodeSpec::new(kind::VAR).ty(ty).flags(flag::INNER), &[], Some(name));
        self.define_name(name, typed(v, ty, dtype));
        Ok(())
    }

    fn env_thread(&mut self, name: &'a str, call: &'a ExprCall) -> Read<()> {
        let usage = "T.env_thread(\"threadIdx.x\", dtype=\"int32\")";
        accept(call, 2, &["thread_tag", "dtype"], usage)?;
        let argument = |at: usize, name: &str| call.arguments.args.get(at).or_else(|| keyword(call, name));
        let Some(Expr::StringLiteral(tag)) = argument(0, "thread_tag") else {
            return Err(Diagnostic::new(span(call), "expected T.env_thread(\"threadIdx.x\")").help(usage));
        };
        let dtype = argument(1, "dtype").map_or(Ok(DType::I32), crate::read::arguments::dtype_of)?;
        let attrs = self.b.attrs([("thread", Attr::Str(tag.value.to_str().to_string()))]);
        let ty = self.prim_type(dtype);
        let v = self.b.node(NodeSpec::new(kind::VAR).ty(ty).attrs(attrs).flags(flag::INNER), &[], Some(name));
        self.define_name(name, typed(v, ty, dtype));
        Ok(())
    }

    /// Reads `tx = T.thread_id([32])` or `bx, by = T.cta_id([4, 4])`: the position of the following code in the
    /// thread hierarchy. The first variable has the extents as operands. Of several variables, the first stores
    /// their number, and the others store their indices.
    fn scope_ids(&mut self, names: &[&'a str], callee: &str, call: &'a ExprCall) -> Read<()> {
        let usage = "tx = T.thread_id([32]), bx, by = T.cta_id([4, 4]), w = T.warp_id([4], dtype=\"uint32\")";
        accept(call, 1, &["extents", "dtype"], usage)?;
        let extents = call.arguments.args.first().or_else(|| keyword(call, "extents"));
        let extents = match extents.filter(|extents| !extents.is_none_literal_expr()) {
            Some(Expr::List(list)) => self.positional(&list.elts)?,
            Some(other) => return Err(Diagnostic::new(span(other), "expected a list of extents").help(usage)),
            None => Vec::new(),
        };
        if names.len() != extents.len().max(1) {
            let message = format!("{} variables for {} extents", names.len(), extents.len());
            return Err(Diagnostic::new(span(call), message).help(usage));
        }
        let dtype = keyword(call, "dtype").map_or(Ok(DType::I32), crate::read::arguments::dtype_of)?;
        if !dtype.is_int() || dtype.bits() != 32 || dtype.lanes() != 1 {
            return Err(Diagnostic::new(
                span(call),
                format!("thread and block ids must be int32 or uint32, found {dtype}"),
            ));
        }
        let ty = self.prim_type(dtype);
        let extents: Vec<V> = extents.iter().map(|extent| extent.v).collect();
        for (i, name) in names.iter().enumerate() {
            let mut entries = vec![("scope_id", Attr::Str(callee.to_string()))];
            match (i, names.len()) {
                (0, 1) => {}
                (0, count) => entries.push(("count", Attr::Int(count as i64))),
                (part, _) => entries.push(("part", Attr::Int(part as i64))),
            }
            let attrs = self.b.attrs(entries);
            let ops = if i == 0 { &*extents } else { &[] };
            let v = self.b.node(NodeSpec::new(kind::VAR).ty(ty).attrs(attrs).flags(flag::INNER), ops, Some(name));
            self.define_name(name, typed(v, ty, dtype));
        }
        Ok(())
    }

    fn new_buffer(&mut self, name: &'a str, call: &'a ExprCall, facts: BufferFacts, of: u32) -> Read<()> {
        if let Some(data) = BufferCall::new(call, 0, facts).given("data") {
            return Err(
                Diagnostic::new(span(data), "an allocation cannot have data").help("T.decl_buffer(..., data=p)")
            );
        }
        let annotations = keyword(call, "annotations").map(|dict| self.plain_dict(dict)).transpose()?;
        let (buffer, extras) = self.buffer_type(call, 0, facts)?;
        let entries = annotations.unwrap_or_default();
        let attrs = self.b.attrs(entries.iter().map(|(key, value)| (key.as_str(), value.clone())));
        self.add_buffer(name, buffer, of, &extras, attrs);
        Ok(())
    }

    fn decl_buffer(&mut self, name: &'a str, call: &'a ExprCall) -> Read<()> {
        let data = BufferCall::new(call, 0, BufferFacts::default()).given("data");
        let data = data.map(|data| self.value(data)).transpose()?;
        let (mut buffer, extras) = self.buffer_type(call, 0, BufferFacts::default())?;
        let Some(data) = data else {
            // A declaration without data is an allocation.
            self.add_buffer(name, buffer, buffer_of::ALLOC, &extras, AttrsId::NONE);
            return Ok(());
        };
        self.scope_of_data(&mut buffer, data);
        let ops: Vec<V> = std::iter::once(data.v).chain(extras).collect();
        self.add_buffer(name, buffer, buffer_of::DECL, &ops, AttrsId::NONE);
        Ok(())
    }

    /// Sets the scope of a buffer to that of its data, regardless of its declaration.
    fn scope_of_data(&mut self, buffer: &mut BufferType, data: E) {
        if let Type::Pointer { scope, .. } = self.b.type_owned(data.ty) {
            buffer.scope = if scope == "global" { String::new() } else { scope };
        }
    }

    /// Reads a single-element buffer that is used by name: allocated, or over existing data. `takes` lists its
    /// arguments in order.
    fn scalar_buffer(&mut self, name: &'a str, call: &'a ExprCall, scope: &str, takes: &[&str]) -> Read<()> {
        let usage = "x = T.decl_scalar(T.int32, data=A.data, elem_offset=0, scope=\"global\")";
        accept(call, takes.len(), takes, usage)?;
        let argument = |name: &str| {
            let at = takes.iter().position(|takes| *takes == name)?;
            call.arguments.args.get(at).or_else(|| keyword(call, name))
        };
        let Some(dtype) = argument("dtype") else {
            return Err(Diagnostic::new(span(call), "a scalar needs a data type").help(usage));
        };
        let dtype = match dtype {
            Expr::StringLiteral(_) => crate::read::arguments::dtype_of(dtype)?,
            path => self.value_type(path)?.1,
        };
        let data = argument("data");
        let data = data.map(|data| self.value(data)).transpose()?;
        let scope = match argument("scope") {
            Some(Expr::StringLiteral(said)) if said.value.to_str() == "global" => "",
            Some(Expr::StringLiteral(said)) => said.value.to_str(),
            Some(other) => return Err(Diagnostic::new(span(other), "expected a memory scope").help(usage)),
            None => scope,
        };
        let mut extras = Vec::new();
        let offset = argument("elem_offset").map(|offset| self.buffer_dim(offset, &mut extras)).transpose()?;
        let mut buffer = BufferType { scope: scope.to_string(), tiled: true, ..BufferType::new(vec![one()], dtype) };
        if let Some(offset) = offset {
            buffer.set_offset(offset);
        }
        if let Some(data) = data {
            self.scope_of_data(&mut buffer, data);
        }
        let of = if data.is_some() { buffer_of::DECL } else { buffer_of::ALLOC };
        let ops: Vec<V> = data.iter().map(|data| data.v).chain(extras).collect();
        self.add_buffer(name, buffer, of, &ops, AttrsId::NONE);
        Ok(())
    }

    fn match_buffer(&mut self, name: &'a str, call: &'a ExprCall) -> Read<()> {
        let Some(source) = call.arguments.args.first() else {
            return Err(Diagnostic::new(span(call), "expected T.match_buffer(A[0:16], (16,), \"float32\")"));
        };
        let handle = match source {
            Expr::Name(name) => self.known(name.id.as_str()).filter(|e| e.is == Is::Value),
            _ => None,
        };
        let source = match handle {
            Some(handle) => handle.v,
            None => self.access(source, 2)?,
        };
        let (buffer, extras) = self.buffer_type(
            call,
            1,
            BufferFacts { wide_strides: true, without_bytes: true, ..BufferFacts::default() },
        )?;
        if handle.is_none() {
            self.fits_region(source, &buffer, call)?;
        }
        let ops: Vec<V> = std::iter::once(source).chain(extras).collect();
        self.add_buffer(name, buffer, buffer_of::MATCH, &ops, AttrsId::NONE);
        Ok(())
    }

    /// Rejects a buffer that does not match its region in data type or extents. A region may have more dimensions
    /// than the buffer; the leading dimensions must then have an extent of 1.
    fn fits_region(&self, region: V, buffer: &BufferType, call: &ExprCall) -> Read<()> {
        let (dtype, extents) = self.b.with(region, |region| {
            let dtype = region.operand(0).map_or(DType::VOID, |source| source.ty().dtype());
            let extents = (2..region.n_operands()).step_by(2);
            let extents: Vec<Option<i64>> = extents
                .map(|i| region.operand(i).and_then(|extent| extent.dim()).and_then(|dim| dim.as_int()))
                .collect();
            (dtype, extents)
        });
        let refused = |message: String| {
            let fault = Diagnostic::new(span(call), message);
            Err(fault.help(
                "a matched buffer must have the data type and extents of its region: T.match_buffer(A[0:4], (4,))",
            ))
        };
        if dtype != buffer.dtype {
            return refused(format!("the region has data type {dtype}, but the buffer has {}", buffer.dtype));
        }
        let Some(more) = extents.len().checked_sub(buffer.shape.len()) else {
            let (region, own) = (extents.len(), buffer.shape.len());
            return refused(format!("the region has {region} dimensions, but the buffer has {own}"));
        };
        if let Some(extent) = extents[..more].iter().flatten().find(|extent| **extent != 1) {
            return refused(format!(
                "the buffer omits a dimension of the region with extent {extent}; only extents of 1 can be omitted"
            ));
        }
        for (at, (extent, dim)) in extents[more..].iter().zip(&buffer.shape).enumerate() {
            if let (Some(extent), Some(own)) = (extent, dim.as_int())
                && *extent != own
            {
                return refused(format!("dimension {at} has extent {extent} in the region, but {own} in the buffer"));
            }
        }
        Ok(())
    }

    fn iter_var(
        &mut self,
        (name, at): (&'a str, Range<usize>),
        kind_: u32,
        (min, extent): (E, V),
        value: V,
    ) -> Read<()> {
        if self.has_iter(name) {
            let message = format!("the block already has an iterator `{name}`");
            return Err(Diagnostic::new(at, message).help("rename one of the iterators"));
        }
        let ty = self.prim_type(min.dtype);
        let spec = NodeSpec::new(kind::ITER_VAR).ty(ty).a(kind_).flags(flag::INNER);
        let v = self.b.node(spec, &[min.v, extent, value], Some(name));
        self.define_name(name, typed(v, ty, min.dtype));
        Ok(())
    }

    fn source(&self, expr: &Expr) -> &'a str {
        self.scope.text.get(span(expr)).unwrap_or("")
    }

    /// Rejects statements that are allowed only in a schedulable block.
    pub(super) fn only_in_block(&self, call: &ExprCall) -> Read<()> {
        match self.b.around() {
            Some(kind::SBLOCK) => Ok(()),
            _ => {
                Err(Diagnostic::new(span(&*call.func), format!("`{}` must be inside a block", self.source(&call.func)))
                    .help("write it directly into `with T.sblock(\"name\"):`"))
            }
        }
    }

    /// Reads `vi = T.axis.spatial(16, i)`.
    fn axis(&mut self, name: &'a str, kind: &str, call: &'a ExprCall) -> Read<()> {
        self.only_in_block(call)?;
        let kind = match kind {
            "spatial" | "S" => axis::SPATIAL,
            "reduce" | "R" => axis::REDUCE,
            "scan" => axis::SCAN,
            "opaque" => axis::OPAQUE,
            "remap" => return self.remap(&[(name, span(call))], call),
            _ => {
                return Err(Diagnostic::new(span(&*call.func), "unknown kind of axis")
                    .help("T.axis.spatial, T.axis.reduce, T.axis.scan, T.axis.opaque, T.axis.remap"));
            }
        };
        accept(call, 3, &["dom", "binding", "dtype"], "T.axis.spatial(16, i)")?;
        let argument = |at: usize, name: &str| call.arguments.args.get(at).or_else(|| keyword(call, name));
        let (Some(domain), Some(value)) = (argument(0, "dom"), argument(1, "binding")) else {
            return Err(Diagnostic::new(span(call), "expected an extent and a value").help("T.axis.spatial(16, i)"));
        };
        let (min, extent) = match domain {
            Expr::Tuple(tuple) if tuple.elts.len() == 2 => self.range(&tuple.elts[0], &tuple.elts[1])?,
            extent => {
                let extent = self.value(extent)?;
                let min = self.imm(0, extent.dtype);
                (typed(min, extent.ty, extent.dtype), extent)
            }
        };
        let value = self.value(value)?;
        if let Some(dtype) = argument(2, "dtype") {
            let (said, at) = (crate::read::arguments::dtype_of(dtype)?, span(dtype));
            if said != min.dtype {
                let message = format!("the axis is of {}, but its declared data type is {said}", min.dtype);
                return Err(Diagnostic::new(at, message).help(format!("T.axis.spatial(T.{said}(16), i)")));
            }
        }
        self.iter_var((name, span(call)), kind, (min, extent.v), value.v)
    }

    /// Reads `vi, vk = T.axis.remap("SR", [i, k])`, where each iterator has the range of its loop.
    fn remap(&mut self, names: &[(&'a str, Range<usize>)], call: &'a ExprCall) -> Read<()> {
        self.only_in_block(call)?;
        let [Expr::StringLiteral(kinds), loops] = &*call.arguments.args else {
            return Err(Diagnostic::new(span(call), "expected T.axis.remap(\"SR\", [i, k])"));
        };
        let loops = match loops {
            Expr::List(list) => &list.elts,
            Expr::Tuple(tuple) => &tuple.elts,
            other => return Err(Diagnostic::new(span(other), "expected a list of loop variables")),
        };
        let kinds = kinds.value.to_str();
        if kinds.len() != loops.len() || names.len() != loops.len() {
            let message = format!(
                "{} names, {} kinds and {} loops; their numbers must be equal",
                names.len(),
                kinds.len(),
                loops.len()
            );
            return Err(Diagnostic::new(span(call), message).help("give one kind and one loop per name"));
        }
        let mut found = Vec::new();
        for (kind, item) in kinds.chars().zip(loops) {
            let kind = match kind {
                'S' => axis::SPATIAL,
                'R' => axis::REDUCE,
                _ => return Err(Diagnostic::new(span(call), format!("unknown kind of axis `{kind}`")).help("S or R")),
            };
            let var = self.value(item)?;
            let Some((min, extent)) = self.loops.get(&var.v.word()).copied() else {
                return Err(Diagnostic::new(span(item), "expected a loop variable").help("T.axis.spatial(16, i)"));
            };
            let (min, extent) = (self.copy(min), self.copy(extent));
            found.push((kind, typed(min, var.ty, var.dtype), extent, var.v));
        }
        for ((name, at), (kind, min, extent, value)) in names.iter().zip(found) {
            self.iter_var((name, at.clone()), kind, (min, extent), value)?;
        }
        Ok(())
    }

    pub(super) fn assign_all(&mut self, names: &'a [Expr], value: &'a Expr) -> Read<()> {
        let mut targets = Vec::new();
        for name in names {
            match name {
                Expr::Name(name) => targets.push((name.id.as_str(), span(name))),
                other => return Err(Diagnostic::new(span(other), "expected a variable")),
            }
        }
        if let Some(("axis.remap", call)) = self.tir_call_of(value) {
            return self.remap(&targets, call);
        }
        if let Some((callee, call)) = self.tir_call_of(value).filter(|(callee, _)| SCOPE_IDS.contains(callee)) {
            let names: Vec<&'a str> = targets.iter().map(|(name, _)| *name).collect();
            return self.scope_ids(&names, callee, call);
        }
        let values = match value {
            Expr::Tuple(values) => Some(&values.elts),
            Expr::List(values) => Some(&values.elts),
            _ => None,
        };
        if let Some(values) = values.filter(|values| values.len() == targets.len()) {
            return targets.iter().zip(values).try_for_each(|((name, _), value)| self.assign(name, value));
        }
        Err(Diagnostic::new(span(value), "expected T.axis.remap, or as many values as variables"))
    }
}
