# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def declared(data: T.handle("float32", "global")):
        strided = T.decl_buffer((1,), data=data, strides=("stride",))
        other = T.decl_buffer((1,), data=data, strides=(strided.strides[0],))
        at = T.decl_buffer((1,), data=data, offset_factor=1)
        wide = T.decl_buffer((T.int64(1),), data=data, strides=("stride",), offset_factor=4)
        own = T.alloc_buffer((1,), strides=("stride",), offset_factor=1)
        T.evaluate(strided[strided.strides[0]] + other[0] + at[at.elem_offset] + wide[0] + own[0])

    @T.prim_func
    def declared_with_layout(data: T.handle("float32", "global")):
        two = T.decl_buffer((1,), data=data, offset_factor=2)
        at = T.decl_buffer((2,), data=data, offset_factor=1)
        T.evaluate(two[0] + at[at.elem_offset])
