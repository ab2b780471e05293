//! Replaces matched buffers by the buffers that contain them.

use plugin_api::arith::{index_to_dim_of_atoms, substitute};
use plugin_api::ir::BufferType;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::RegionAccess;
use plugin_api::tir::regions::linear::{Linear, add, cast, mul};
use std::collections::{BTreeMap, BTreeSet};

declare_pass! {
    /// Replaces matched buffers by the buffers that contain them.
    ///
    /// The declared offset, strides and shape of a matched buffer must hold. A variable in them gets its value from the
    /// region. Any other expression must provably equal the value in the region; otherwise, it is an error.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 16), "float32")):
    ///     for i in range(8):
    ///         with T.sblock("row"):
    ///             T.reads()
    ///             T.writes(A[i, 0:16])
    ///             B = T.match_buffer(A[i, 0:16], (16,), offset_factor=1)
    ///             for j in range(16):
    ///                 B[j] = T.float32(0)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 16), "float32")):
    ///     for i in range(8):
    ///         with T.sblock("row"):
    ///             T.reads()
    ///             T.writes(A[i, 0:16])
    ///             for j in range(16):
    ///                 A[i, j] = T.float32(0)
    /// ```
    pub prim_func pass LOWER_MATCH_BUFFER = "s_tir.LowerMatchBuffer" { opt_level: 0, run: lower_match_buffer }
}

fn lower_match_buffer(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let params = body.root().region().children().filter(|value| value.as_buffer_type().is_none());
    let mut lower = LowerMatch {
        matched: ValueMap::new(body),
        known: BTreeMap::new(),
        params: params.filter(|value| matches!(value.view(), Expr::Param)).filter_map(Value::symbol).collect(),
        analyzer: Analyzer::of_body(body),
    };
    body.try_rewrite(|value, rw| lower.visit(value, rw))
}

struct LowerMatch<'b> {
    matched: ValueMap<'b, Source<'b>>,
    /// Values of the variables that matched buffers define.
    known: BTreeMap<Sym, Dim>,
    /// Parameters, which are not replaced.
    params: BTreeSet<Sym>,
    analyzer: Analyzer,
}

/// The region to which a matched buffer refers.
#[derive(Clone)]
struct Source<'b> {
    buffer: Value<'b>,
    /// Start and extent in each dimension.
    ranges: Vec<(Dim, Dim)>,
}

impl<'b> LowerMatch<'b> {
    fn visit(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        if let Some(region) = value.matched_region() {
            return self.take_out(value, &region, rw);
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view()
            && let Some(source) = self.matched.get(buffer)
        {
            let buffer = rw.v(source.buffer);
            rw.edit().set_data(value, buffer);
        }
        self.lower_access(value, rw)?;
        self.use_known(value, rw)?;
        Ok(Action::Keep)
    }

    /// Removes a matched buffer, and redirects its uses to the source region.
    fn take_out(
        &mut self,
        matched: Value<'b>,
        region: &RegionAccess<'b>,
        rw: &mut Rewriter<'b>,
    ) -> Result<Action, PassError> {
        let ty = matched.as_buffer_type().ok_or_else(|| pass_error!("a matched buffer without a type").at(matched))?;
        let source = self.source(&ty, region.buffer, &region.ranges).map_err(|error| error.at(matched))?;
        self.matched.insert(matched, source);
        rw.edit().discard(matched);
        Ok(Action::Keep)
    }

    fn lower_access(&self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        if let Some(access) = value.as_element_access()
            && let Some(source) = self.matched.get(access.buffer)
        {
            let own: Vec<Dim> = dims(&access.indices)?.iter().map(|index| self.in_known(index)).collect();
            let (outer, inner) = source.ranges.split_at(source.ranges.len() - own.len().min(source.ranges.len()));
            let (buffer, indices) = rw.tir(|t| {
                let outer = outer.iter().map(|(start, _)| t.index(start).v());
                let inner = inner.iter().zip(&own).map(|((start, _), index)| (t.index(start) + t.index(index)).v());
                (t.buffer(source.buffer).v(), outer.chain(inner).collect::<Vec<V>>())
            })?;
            rw.edit().set_access(value, buffer, &indices);
        }
        if let Some(access) = value.as_region_access()
            && let Some(source) = self.matched.get(access.buffer)
        {
            let ranges = source.shifted(&self.pairs_in_known(&access.ranges)?);
            let (buffer, ranges) = rw.tir(|t| {
                let ranges: Vec<(V, V)> =
                    ranges.iter().map(|(min, extent)| (t.index(min).v(), t.index(extent).v())).collect();
                (t.buffer(source.buffer).v(), ranges)
            })?;
            rw.edit().set_region(value, buffer, &ranges);
        }
        Ok(())
    }

    /// Substitutes the known variables of matched buffers in an expression.
    fn in_known(&self, dim: &Dim) -> Dim {
        substitute(dim, &|sym| self.known.get(&sym).cloned())
    }

    fn pairs_in_known(&self, ranges: &[(Value<'_>, Value<'_>)]) -> Result<Vec<(Dim, Dim)>, PassError> {
        let pairs = pairs(ranges)?.into_iter();
        Ok(pairs.map(|(min, extent)| (self.in_known(&min), self.in_known(&extent))).collect())
    }

    /// Replaces variables defined by a matched buffer with their values.
    fn use_known(&self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        for (i, operand) in value.operands().enumerate().filter(|(_, operand)| !operand.is_nested()) {
            let dim = operand.dim().or_else(|| operand.symbol().map(Dim::Var));
            let Some(dim) = dim.filter(|_| !self.known.is_empty()) else { continue };
            let with = self.in_known(&dim);
            if with != dim {
                let with = rw.tir(|t| t.index(&with).v())?;
                rw.edit().set_operand(value, i, with);
            }
        }
        Ok(())
    }

    /// Checks the declared layout of a matched buffer and binds its variables.
    fn source(
        &mut self,
        ty: &BufferType,
        buffer: Value<'b>,
        ranges: &[(Value<'b>, Value<'b>)],
    ) -> Result<Source<'b>, PassError> {
        let ranges = self.pairs_in_known(ranges)?;
        let (buffer, ranges) = match self.matched.get(buffer) {
            Some(outer) => (outer.buffer, outer.shifted(&ranges)),
            None => (buffer, ranges),
        };
        let Some(of) = buffer.as_buffer_type() else { bail!("a region must refer to a buffer") };
        if ty.scope != of.scope || ty.dtype != of.dtype {
            let scope = |ty: &BufferType| if ty.scope.is_empty() { "global".to_string() } else { ty.scope.clone() };
            bail!(
                "a buffer of {} in `{}` is matched with a buffer of {} in `{}`; data type and memory scope must be equal",
                ty.dtype,
                scope(ty),
                of.dtype,
                scope(&of)
            );
        }
        let Some(outer) = ranges.len().checked_sub(ty.shape.len()) else {
            bail!("a buffer of {} dimensions is matched with a region of {}", ty.shape.len(), ranges.len());
        };
        let offset = simple(&offset_of(&of, ranges.iter().map(|(min, _)| min)));
        self.bind(&ty.offset(), &offset, "offset")?;
        self.divides(ty.offset_factor, &offset)?;
        for (stride, value) in ty.strides.iter().zip(&strides_of(&of)[outer..]).rev() {
            self.bind(stride, value, "stride")?;
        }
        for (extent, (_, value)) in ty.shape.iter().zip(&ranges[outer..]) {
            self.bind(extent, value, "extent")?;
        }
        Ok(Source { buffer, ranges })
    }

    /// Binds a dimension to a value if it is a variable; any other dimension must equal the value.
    fn bind(&mut self, said: &Dim, value: &Dim, what: &str) -> Result<(), PassError> {
        let value = cast(self.in_known(value), said.dtype());
        let known = match said {
            Dim::Var(sym) if !self.params.contains(sym) => match self.known.get(sym) {
                Some(known) => known.clone(),
                None => {
                    self.known.insert(*sym, value);
                    return Ok(());
                }
            },
            said => said.clone(),
        };
        match self.analyzer.prove_equal(&known, &value) {
            Some(true) => Ok(()),
            _ => bail!(
                "the {what} of the matched buffer is {}, but the region has {}; omit it, or use the value of the region",
                shown(&known),
                shown(&value)
            ),
        }
    }

    fn divides(&mut self, factor: u32, offset: &Dim) -> Result<(), PassError> {
        let factor = Dim::int(factor.into(), offset.dtype());
        let rest = Dim::binary(PrimOp::FloorMod, offset.clone(), factor.clone());
        let zero = Dim::int(0, offset.dtype());
        match factor.as_int() == Some(1) || self.analyzer.prove_equal(&rest, &zero) == Some(true) {
            true => Ok(()),
            false => bail!(
                "the offset of the region is {}, which may not be a multiple of {}; use a different `offset_factor`",
                shown(offset),
                shown(&factor)
            ),
        }
    }
}

impl Source<'_> {
    /// Translates ranges of the matched buffer to ranges of the source buffer.
    fn shifted(&self, ranges: &[(Dim, Dim)]) -> Vec<(Dim, Dim)> {
        let outer = self.ranges.len() - ranges.len().min(self.ranges.len());
        let fixed = self.ranges.iter().take(outer).map(|(min, extent)| (min.clone(), extent.clone()));
        let inner = self.ranges.iter().skip(outer).zip(ranges);
        let inner = inner.map(|((start, _), (min, extent))| (add(start.clone(), min.clone()), extent.clone()));
        fixed.chain(inner).collect()
    }
}

/// Formats a constant dimension; for any other dimension, returns a note that it is not constant.
fn shown(dim: &Dim) -> String {
    dim.as_int().map_or_else(|| "an expression".to_string(), |number| number.to_string())
}

fn dims(values: &[Value<'_>]) -> Result<Vec<Dim>, PassError> {
    let dim = |value: &Value<'_>| {
        index_to_dim_of_atoms(*value).ok_or_else(|| pass_error!("an index that is nested too deeply").at(*value))
    };
    values.iter().map(dim).collect()
}

fn pairs(ranges: &[(Value<'_>, Value<'_>)]) -> Result<Vec<(Dim, Dim)>, PassError> {
    let (mins, extents): (Vec<_>, Vec<_>) = ranges.iter().copied().unzip();
    Ok(dims(&mins)?.into_iter().zip(dims(&extents)?).collect())
}

fn simple(dim: &Dim) -> Dim {
    Linear::of(dim).to_dim(dim.dtype()).unwrap_or_else(|| dim.clone())
}

/// Returns the declared strides of a buffer, or the strides that follow from its shape.
pub(super) fn strides_of(ty: &BufferType) -> Vec<Dim> {
    let declared = ty.declared_strides();
    if !declared.is_empty() {
        return declared.to_vec();
    }
    let mut stride = Dim::int(1, ty.shape.last().map_or(DType::I32, Dim::dtype));
    let mut strides = Vec::with_capacity(ty.shape.len());
    for extent in ty.shape.iter().rev() {
        strides.push(stride.clone());
        stride = mul(stride, extent.clone());
    }
    strides.reverse();
    strides
}

/// Returns the position of an element in the data of a buffer.
pub(super) fn offset_of<'d>(ty: &BufferType, indices: impl ExactSizeIterator<Item = &'d Dim>) -> Dim {
    let mut flat: Option<Dim> = None;
    let strides = ty.declared_strides();
    for (i, index) in indices.enumerate() {
        let one = match strides.get(i) {
            Some(stride) => mul(index.clone(), stride.clone()),
            // Uses the data type of the extents.
            None => match ty.shape.get(i).map(Dim::dtype) {
                Some(wide) if flat.is_none() && wide.bits() > index.dtype().bits() => cast(index.clone(), wide),
                _ => index.clone(),
            },
        };
        flat = Some(match (flat, ty.shape.get(i)) {
            (None, _) => one,
            (Some(flat), Some(extent)) if strides.is_empty() => add(mul(flat, extent.clone()), one),
            (Some(flat), _) => add(flat, one),
        });
    }
    let flat = flat.unwrap_or_else(|| Dim::int(0, DType::I32));
    match ty.elem_offset.as_ref().filter(|offset| offset.as_int() != Some(0)) {
        Some(offset) => add(flat, offset.clone()),
        None => flat,
    }
}
