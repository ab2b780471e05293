@I.ir_module
class Numbers:
    ...
    I.module_attrs(attrs={"size": 1 << 20})

    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int8"), C: T.Buffer((1,), "float64"), n: T.var("int32"), m: T.int64, D: T.Buffer((T.int64(1) * m, m * 2), "uint64")):
        T.func_attr({"limit": 3 * 2 ** 10})
        for [i, j] in T.grid(4, 4):
            B[i * 4 + j] = T.cast(A[i], "int8") + T.cast(2.5, "int8")
            A[i] = T.cast(A[j], "float32") + T.cast(n, dtype="float32")
        A[0] = T.call_intrin("float32", "tirx.exp", A[1])
        C[0] = T.max_value("float64")
        C[0] = T.min_value("float64")
        D[0, 0] = T.max_value("uint64")
        with T.launch_thread("threadIdx.x", 4):
            A[2] = 1.0
        tx = T.env_thread("threadIdx.y", "int64")
        with T.launch_thread(tx, T.int64(4)):
            A[tx] = 2.0
        p = T.address_of(A[3])
        T.evaluate(p)
        s = T.alloc_scalar("int32")
        s = n
        A[s] = A[s + 1]
        with T.sblock("block"):
            v = T.axis.spatial(16, n, dtype="int32")
            A[v] = 3.0

    @T.prim_func(private=True, s_tir=True)
    def copy(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            B[i, j] = A[i, j]

    @R.function(pure=False)
    def main(x: R.Tensor((4, 6), "float32"), k: R.Tensor((4, 6), "int32"), l: R.Tensor((3,), "int64"), b: R.Tensor((), "bool")):
        cls = Numbers
        a = R.add(x, 1.5)
        c = (R.maximum(0.0, x), R.left_shift(k, 1))
        d = R.add(l, T.int64(1))
        e = R.take(x, 0, axis=1)
        f = R.call_packed("f", (x, True), 1, True, T.bool(True), ty_args=R.Prim("int64"))
        g = (x, True, T.bool(True), 1)
        h = R.tuple(1, 1.5, True)
        i = (R.tril(x), R.triu(x, k=1), R.unique(x), R.unique(x, axis=1), R.eye(3), R.eye(3, k=1), R.arange(5, step=2))
        j = (R.arange(0.0, 1.0, 0.1), R.arange(1.5), R.arange(1.0, 0.0, 0.5))
        o = (R.const(448.0, "float8_e4m3fn"), R.const([1.5, -0.0], "float8_e5m2"))
        if b:
            with R.dataflow():
                y = R.add(a, a)
                R.output(y)
        else:
            y = R.multiply(a, a)
        z = R.call_tir(gvar=cls.copy, args=(y,), out_ty=R.Tensor((4, 6), "float32"))
        return (c, d, e, f, g, h, i, j, o, z)
# is read as
metadata = tvm.ir.load_json("""{
  \"root_index\": 20,
  \"nodes\": [
    {
      \"type\": \"None\"
    },
    {
      \"type\": \"ir.PrimType\",
      \"data\": {
        \"span\": 0,
        \"dtype\": \"int64\"
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
      ]
    },
    {
      \"type\": \"relax.ShapeType\",
      \"data\": {
        \"span\": 0,
        \"values\": 2,
        \"ndim\": 0
      }
    },
    {
      \"type\": \"relax.expr.ShapeExpr\",
      \"data\": {
        \"span\": 0,
        \"ty\": 3,
        \"values\": 2
      }
    },
    {
      \"type\": \"ir.PrimType\",
      \"data\": {
        \"span\": 0,
        \"dtype\": \"float8_e4m3fn\"
      }
    },
    {
      \"type\": \"relax.TensorType\",
      \"data\": {
        \"span\": 0,
        \"shape\": 4,
        \"dtype\": 5,
        \"vdevice\": 0,
        \"ndim\": 0
      }
    },
    {
      \"type\": \"ffi.Tensor\",
      \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAAAAAAoIAQABAAAAAAAAAH4=\"
    },
    {
      \"type\": \"ir.GenericConst\",
      \"data\": {
        \"span\": 0,
        \"ty\": 6,
        \"value\": 7
      }
    },
    {
      \"type\": \"int\",
      \"data\": 2
    },
    {
      \"type\": \"ir.IntImm\",
      \"data\": {
        \"span\": 0,
        \"ty\": 1,
        \"value\": 9
      }
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        10
      ]
    },
    {
      \"type\": \"relax.ShapeType\",
      \"data\": {
        \"span\": 0,
        \"values\": 11,
        \"ndim\": 1
      }
    },
    {
      \"type\": \"relax.expr.ShapeExpr\",
      \"data\": {
        \"span\": 0,
        \"ty\": 12,
        \"values\": 11
      }
    },
    {
      \"type\": \"ir.PrimType\",
      \"data\": {
        \"span\": 0,
        \"dtype\": \"float8_e5m2\"
      }
    },
    {
      \"type\": \"relax.TensorType\",
      \"data\": {
        \"span\": 0,
        \"shape\": 13,
        \"dtype\": 14,
        \"vdevice\": 0,
        \"ndim\": 1
      }
    },
    {
      \"type\": \"ffi.Tensor\",
      \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAwIAQACAAAAAAAAAAIAAAAAAAAAPoA=\"
    },
    {
      \"type\": \"ir.GenericConst\",
      \"data\": {
        \"span\": 0,
        \"ty\": 15,
        \"value\": 16
      }
    },
    {
      \"type\": \"ffi.String\",
      \"data\": \"ir.GenericConst\"
    },
    {
      \"type\": \"ffi.Array\",
      \"data\": [
        8,
        17
      ]
    },
    {
      \"type\": \"ffi.Map\",
      \"data\": [
        18,
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
    I.module_attrs({"size": 1048576})
    @T.prim_func(private=True, s_tir=True)
    def copy(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            B[i, j] = A[i, j]

    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int8"), C: T.Buffer((1,), "float64"), n: T.int32, m: T.int64, D: T.Buffer((m, m * T.int64(2)), "uint64")):
        T.func_attr({"limit": 3072})
        # with T.sblock("root"):
        for i, j in T.grid(4, 4):
            B[i * 4 + j] = T.Cast("int8", A[i]) + T.int8(2)
            A[i] = A[j] + T.Cast("float32", n)
        A[0] = T.exp(A[1])
        C[0] = T.max_value("float64")
        C[0] = T.min_value("float64")
        D[0, 0] = T.max_value("uint64")
        with T.launch_thread("threadIdx.x", 4) as v:
            A[2] = T.float32(1.0)
        tx = T.env_thread("threadIdx.y", dtype="int64")
        with T.launch_thread(tx, T.int64(4)):
            A[tx] = T.float32(2.0)
        p: T.let[T.handle("float32", "global")] = T.address_of(A[3])
        T.evaluate(p)
        s = T.alloc_scalar("int32", scope="global")
        s = n
        A[s] = A[s + 1]
        with T.sblock("block"):
            v = T.axis.spatial(16, n)
            T.reads()
            T.writes(A[v])
            A[v] = T.float32(3.0)

    @R.function(pure=False)
    def main(x: R.Tensor((4, 6), dtype="float32"), k: R.Tensor((4, 6), dtype="int32"), l: R.Tensor((3,), dtype="int64"), b: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Tensor((4, 6), dtype="int32")), R.Tensor((3,), dtype="int64"), R.Tensor((4,), dtype="float32"), R.Prim("int64"), R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Prim("int64"), R.Prim("bool"), R.Prim("int64")), R.Tuple(R.Prim("int32"), R.Prim("float32"), R.Prim("bool")), R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Tensor((4, 6), dtype="float32"), R.Tensor(dtype="float32", ndim=1), R.Tensor(dtype="float32", ndim=2), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3,), dtype="int64")), R.Tuple(R.Tensor((10,), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((0,), dtype="float32")), R.Tuple(R.Tensor((), dtype="float8_e4m3fn"), R.Tensor((2,), dtype="float8_e5m2")), R.Tensor((4, 6), dtype="float32")):
        cls = Module
        a: R.Tensor((4, 6), dtype="float32") = R.add(x, T.float32(1.5))
        c: R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Tensor((4, 6), dtype="int32")) = R.maximum(T.float32(0.0), x), R.left_shift(k, 1)
        d: R.Tensor((3,), dtype="int64") = R.add(l, T.int64(1))
        e: R.Tensor((4,), dtype="float32") = R.take(x, 0, axis=1, mode="fast")
        f: T.int64 = R.call_packed("f", (x, 1), 1, 1, T.bool(True), ty_args=(R.Prim("int64"),))
        g: R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Prim("int64"), R.Prim("bool"), R.Prim("int64")) = x, 1, T.bool(True), 1
        h: R.Tuple(R.Prim("int32"), R.Prim("float32"), R.Prim("bool")) = T.int32(1), T.float32(1.5), T.bool(True)
        i: R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Tensor((4, 6), dtype="float32"), R.Tensor(dtype="float32", ndim=1), R.Tensor(dtype="float32", ndim=2), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3,), dtype="int64")) = R.tril(x, 0), R.triu(x, 1), R.unique(x, True, False, False, False), R.unique(x, True, False, False, False, 1), R.eye(3, 3, 0, dtype="float32"), R.eye(3, 3, 1, dtype="float32"), R.arange(0, 5, 2, dtype="int64")
        j: R.Tuple(R.Tensor((10,), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((0,), dtype="float32")) = R.arange(T.float64(0.0), T.float64(1.0), T.float64(0.10000000000000001), dtype="float32"), R.arange(0, T.float64(1.5), 1, dtype="float32"), R.arange(T.float64(1.0), T.float64(0.0), T.float64(0.5), dtype="float32")
        o: R.Tuple(R.Tensor((), dtype="float8_e4m3fn"), R.Tensor((2,), dtype="float8_e5m2")) = metadata["ir.GenericConst"][0], metadata["ir.GenericConst"][1]
        if b:
            with R.dataflow():
                y_1: R.Tensor((4, 6), dtype="float32") = R.add(a, a)
                R.output(y_1)
            y: R.Tensor((4, 6), dtype="float32") = y_1
        else:
            y_else: R.Tensor((4, 6), dtype="float32") = R.multiply(a, a)
            y: R.Tensor((4, 6), dtype="float32") = y_else
        z = R.call_tir(cls.copy, (y,), out_ty=R.Tensor((4, 6), dtype="float32"))
        return (c, d, e, f, g, h, i, j, o, z)
