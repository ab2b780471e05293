//! Lowers the parameters of a function, and its body.

use super::{Bound, Lower, dtype_of, name_of, scalar_of};
use crate::fault::Fault;
use crate::program::{Affine, Buffer, Param, ParamKind, Storage, Symbol, TensorParam};
use passhost_lang::arith::{FIRST_ATOM, symbol_of};
use passhost_lang::ir::BufferType;
use passhost_lang::ir::Value;
use passhost_lang::ir::records::kind;

impl Lower {
    pub(super) fn function(&mut self, root: Value<'_>) -> Result<(), Fault> {
        let buffers = root.param_buffers();
        let params: Vec<Value<'_>> =
            root.region().children().filter(|value| value.kind() == kind::PARAM && !value.is_nested()).collect();
        let buffer_of = |param: &Value<'_>| {
            let of_param = |buffer: &&Value<'_>| **buffer == *param || buffer.operand(0) == Some(*param);
            buffers.iter().find(of_param).copied()
        };
        // Shapes may mention later scalars.
        let mut scalars = Vec::new();
        for param in &params {
            let is_scalar = buffer_of(param).is_none() && dtype_of(*param).code() != 3;
            scalars.push(if is_scalar { Some(self.loop_var_or_float(*param)?) } else { None });
        }
        for (param, scalar) in params.iter().zip(scalars) {
            let kind = match (buffer_of(param), scalar) {
                (Some(buffer), _) => self.tensor_param(*param, buffer)?,
                (None, Some(reg)) => ParamKind::Scalar(reg),
                (None, None) => {
                    let storage = self.storage(name_of(*param));
                    self.pointers.insert(param.word(), storage);
                    ParamKind::Handle { storage }
                }
            };
            let symbol = symbol_of(*param).map(|sym| sym.id).filter(|id| scalar.is_some() && *id < FIRST_ATOM);
            self.program.params.push(Param { name: name_of(*param).to_string(), symbol, kind });
        }
        for (at, param) in params.iter().enumerate() {
            if let Some(buffer) = buffer_of(param) {
                self.param_buffer(buffer, at)?;
            }
        }
        self.region(root)
    }

    fn loop_var_or_float(&mut self, param: Value<'_>) -> Result<crate::program::Reg, Fault> {
        let scalar = scalar_of(dtype_of(param))?;
        if !scalar.is_float() {
            return self.loop_var(param);
        }
        let reg = self.reg(scalar);
        self.bind(param, Bound::Regs(vec![reg]));
        Ok(reg)
    }

    pub(super) fn storage(&mut self, name: &str) -> u32 {
        self.program.storages.push(Storage { name: name.to_string(), is_written: false });
        self.program.storages.len() as u32 - 1
    }

    /// Lowers a buffer parameter. Its shape variables get registers, which are set from the caller's tensors.
    fn tensor_param(&mut self, param: Value<'_>, buffer: Value<'_>) -> Result<ParamKind, Fault> {
        let ty = buffer_type(buffer)?;
        let storage = self.storage(name_of(buffer));
        self.pointers.insert(param.word(), storage);
        self.pointers.insert(buffer.word(), storage);
        let dims = ty.shape.iter().chain(&ty.strides).chain(&ty.elem_offset);
        let mut found = Vec::new();
        dims.for_each(|dim| dim.vars(&mut |sym| found.push(sym)));
        for sym in found {
            if self.symbols.contains_key(&sym.id) {
                continue;
            }
            let reg = self.reg(scalar_of(sym.dtype)?);
            self.symbols.insert(sym.id, reg.into());
            self.program.symbols.push(Symbol { id: sym.id, name: format!("#{}", sym.id), reg });
        }
        let (strides, offset) = (ty.declared_strides().to_vec(), ty.offset());
        Ok(ParamKind::Tensor(TensorParam { storage, dtype: ty.dtype, shape: ty.shape, strides, offset }))
    }

    /// Creates the buffer of a parameter: compact, starting at the first element.
    fn param_buffer(&mut self, buffer: Value<'_>, param: usize) -> Result<(), Fault> {
        let ParamKind::Tensor(TensorParam { storage, .. }) = self.program.params[param].kind else { return Ok(()) };
        let ty = BufferType { strides: Vec::new(), elem_offset: None, ..buffer_type(buffer)? };
        self.buffer(buffer, &ty, storage)
    }

    /// Creates a view of a storage.
    pub(super) fn buffer(&mut self, value: Value<'_>, ty: &BufferType, storage: u32) -> Result<(), Fault> {
        let element = scalar_of(ty.dtype)?;
        let lanes = match ty.dtype.lanes() as i16 {
            lanes @ 1.. => lanes as u32,
            _ => return Err(Fault::unsupported("buffers of vectors whose length depends on the device")),
        };
        let shape = ty.shape.iter().map(|dim| self.dim_form(dim)).collect::<Result<Vec<Affine>, Fault>>()?;
        let declared = ty.declared_strides();
        let strides = match declared.is_empty() {
            true => self.compact_strides(&shape),
            false => declared.iter().map(|dim| self.dim_form(dim)).collect::<Result<Vec<Affine>, Fault>>()?,
        };
        let offset = match &ty.elem_offset {
            Some(offset) => self.dim_form(offset)?,
            None => Affine::from(0),
        };
        let name = name_of(value).to_string();
        let (is_compact, is_flat) = (declared.is_empty(), false);
        let buffer = Buffer { name, storage, element, lanes, shape, strides, offset, is_compact, is_flat };
        self.program.buffers.push(buffer);
        self.buffers.insert(value.word(), self.program.buffers.len() as u32 - 1);
        Ok(())
    }

    fn compact_strides(&mut self, shape: &[Affine]) -> Vec<Affine> {
        let mut strides = vec![Affine::from(1); shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = self.product(&strides[i].clone(), &shape[i]);
        }
        strides
    }
}

/// Returns the type of a buffer.
pub(super) fn buffer_type(value: Value<'_>) -> Result<BufferType, Fault> {
    value.as_buffer_type().ok_or_else(|| Fault::unsupported(format!("`{}`, which is not a buffer", name_of(value))))
}
