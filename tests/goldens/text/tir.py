metadata = tvm.ir.load_json("""{
  \"root_index\": 20,
  \"nodes\": [
    {
      \"type\": \"ffi.String\",
      \"data\": \"ir.StringImm\"
    },
    {
      \"type\": \"None\"
    },
    {
      \"type\": \"ir.StringType\",
      \"data\": {
        \"span\": 1
      }
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"f\\ng\"
    },
    {
      \"type\": \"ir.StringImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 2,
        \"value\": 3
      }
    },
    {
      \"type\": \"ir.StringType\",
      \"data\": {
        \"span\": 1
      }
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"v\\nv\"
    },
    {
      \"type\": \"ir.StringImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 5,
        \"value\": 6
      }
    },
    {
      \"type\": \"ir.StringType\",
      \"data\": {
        \"span\": 1
      }
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"t\\nu\"
    },
    {
      \"type\": \"ir.StringImm\",
      \"data\": {
        \"span\": 1,
        \"ty\": 8,
        \"value\": 9
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        4,
        7,
        10
      ]
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"ffi.String\"
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"a\\nb\"
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"two\\nlines\"
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"x\\ny\"
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"m\\nn\"
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"q\\nr\"
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"v\\nw\"
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        13,
        14,
        15,
        16,
        17,
        9,
        18
      ]
    },
    {
      \"type\": \"ffi.Map\",
      \"data\": [
        0,
        11,
        12,
        19
      ]
    }
  ],
  \"metadata\": {
    \"tvm_version\": \"0.27.0.post1\"
  }
}""")
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    I.module_attrs({"k": metadata["ffi.String"][0], metadata["ffi.String"][1]: [1, metadata["ffi.String"][2]]})
    @T.prim_func(s_tir=True)
    def lines(A: T.Buffer((4,), "float32")):
        T.func_attr({metadata["ffi.String"][1]: metadata["ffi.String"][3], "z": metadata["ffi.String"][3]})
        # with T.sblock("root"):
        for i in T.serial(4, annotations={"l": [metadata["ffi.String"][4]], metadata["ffi.String"][4]: metadata["ffi.String"][4]}):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                T.reads()
                T.writes(A[v])
                T.sblock_attr({"s": metadata["ffi.String"][5], metadata["ffi.String"][6]: [metadata["ffi.String"][5]]})
                A[v] = T.float32(1.0)
        T.call_extern("int32", metadata["ir.StringImm"][0])
        with T.attr(A, "k", metadata["ir.StringImm"][1]):
            T.evaluate(0)
        with T.attr({"s": metadata["ir.StringImm"][2]}):
            T.evaluate(0)

    @T.prim_func(s_tir=True)
    def masked(A: T.Buffer((200,), "float32"), i: T.int32):
        T.masked_store(A, T.masked_load("float32x4", A, T.Ramp(i, 1, 4), T.get_active_lane_mask("uint1x4", i, 7)) + T.Broadcast(T.float32(1.0), 4), T.Ramp(i, 1, 4), T.get_active_lane_mask("uint1x4", i, 7))

    @T.prim_func(s_tir=True)
    def operators(A: T.Buffer((8,), "float32"), i: T.int32):
        T.print_buffer(A.data, "float32", T.bool(False), T.bool(True), T.uint32(1), 2)
        T.tvm_kernel_replace_point()
        T.cooperative_tensor_fill(A.data, 0, T.float32(1.0), 8, 8)
        T.cuda.mma_fill("float32", 1, A.data, 0)
        T.call_packed("f", i)
        x: T.let[T.int32] = T.tvm_warp_shuffle_xor(1, i, 1, 1, 1) + T.selector(i, T.filter(i, i > 0))
        T.evaluate(x)
        T.ptr_byte_offset(A.data, i, T.type_annotation("float32"))
        A[0:4] = T.vectorcombine("float32x4", T.vectorlow("float32x2", T.Broadcast(T.float32(1.0), 4)), T.vectorhigh("float32x2", T.Broadcast(T.float32(1.0), 4)))

    @T.prim_func(s_tir=True)
    def scalable(A: T.Buffer((8 * T.vscale(), 2 * (8 * T.vscale())), "float32"), B: T.Buffer(("n", T.if_then_else(n > 0, n, 4) + 1), "float32", offset_factor=1), C: T.Buffer((200,), "float32")):
        n = T.int32()
        C[11:11 + T.vscale() * 4 * 2:2] = T.Broadcast(T.float32(1.0), T.vscale() * 4)
        C[n:n + T.vscale() * 4] = T.Broadcast(T.float32(1.0), T.vscale() * 4)
        C[n + 1:n + 1 + T.vscale() * 4] = T.Broadcast(T.float32(1.0), T.vscale() * 4)
        C[0:T.vscale() * 4] = T.Broadcast(T.float32(1.0), T.vscale() * 4)
        C[0:T.vscale() * 2 * 3:3] = T.Broadcast(T.float32(1.0), T.vscale() * 2)
        D = T.alloc_buffer((8 * T.vscale(), n + 8 * T.vscale()))
        A[n, 0:T.vscale() * 4] = T.Broadcast(B[n, 0] + D[0, 0], T.vscale() * 4)

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        R.func_attr({"m": metadata["ffi.String"][2], "n": {metadata["ffi.String"][0]: metadata["ffi.String"][2]}})
        return x
