@I.ir_module
class Shorthands:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32"), q: R.Tensor((1, 4, 2, 8), "float32"), bias: R.Tensor((1, 2, 4, 4), "float32"), im: R.Tensor((1, 1, 4, 4), "float32"), s: R.Tensor((4,), "float32"), z: R.Tensor((4,), "int8")):
        a = R.memory.view(x, dtype="float16")
        c = R.memory.view(x, (2, 8))
        d = R.memory.view(x, shape=(4,), relative_byte_offset=16)
        e = R.nn.relu6(x)
        f = R.linear(x, w, b)
        g = R.linear(x, w, out_dtype="float32")
        h = R.nn.attention(q, q, q, bias=bias)
        i = R.nn.attention(q, q, q, bias, 0.5)
        j = R.nn.attention(q, q, q, None, 0.5)
        k = R.nn.attention(q, q, q, bias=None, causal_mask="TopLeft")
        l = R.nn.avg_pool2d(im, 2, 2, 0)
        m = R.nn.max_pool2d(im, 2, 1, 1, 2, True)
        n = R.nn.adaptive_avg_pool2d(im, 2)
        o = R.quantize(x, s, z, -1, "int8")
        p = R.dequantize(o, s, z, 0)
        r = R.nn.pad(x, [1, 1, 1, 1], "constant", 2.0)
        t = R.call_dps_packed("f", (x,), out_ty=(R.Tensor((2,), "float32"),))
        u = R.call_dps_packed("f", (x,), out_ty=R.Tuple(R.Tensor((2,), "float32")))
        return (a, c, d, e, f, g, h, i, j, k, l, m, n, o, p, r, t, u)
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 4), dtype="float32"), w: R.Tensor((3, 4), dtype="float32"), b: R.Tensor((3,), dtype="float32"), q: R.Tensor((1, 4, 2, 8), dtype="float32"), bias: R.Tensor((1, 2, 4, 4), dtype="float32"), im: R.Tensor((1, 1, 4, 4), dtype="float32"), s: R.Tensor((4,), dtype="float32"), z: R.Tensor((4,), dtype="int8")) -> R.Tuple(R.Tensor((4, 4), dtype="float16"), R.Tensor((2, 8), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4, 4), dtype="float32"), R.Tensor((4, 3), dtype="float32"), R.Tensor((4, 3), dtype="float32"), R.Tensor((1, 4, 2, 8), dtype="float32"), R.Tensor((1, 4, 2, 8), dtype="float32"), R.Tensor((1, 4, 2, 8), dtype="float32"), R.Tensor((1, 4, 2, 8), dtype="float32"), R.Tensor((1, 1, 2, 2), dtype="float32"), R.Tensor((1, 1, 4, 4), dtype="float32"), R.Tensor((1, 1, 2, 2), dtype="float32"), R.Tensor((4, 4), dtype="int8"), R.Tensor((4, 4), dtype="float32"), R.Tensor((6, 6), dtype="float32"), R.Tuple(R.Tensor((2,), dtype="float32")), R.Tuple(R.Tensor((2,), dtype="float32"))):
        a: R.Tensor((4, 4), dtype="float16") = R.memory.view(x, R.tuple(), R.dtype("float16"), R.tuple())
        c: R.Tensor((2, 8), dtype="float32") = R.memory.view(x, R.shape([2, 8]), R.null_value(), R.tuple())
        d: R.Tensor((4,), dtype="float32") = R.memory.view(x, R.shape([4]), R.null_value(), 16)
        e: R.Tensor((4, 4), dtype="float32") = R.clip(x, 0, 6)
        f: R.Tensor((4, 3), dtype="float32") = R.add(R.matmul(x, R.permute_dims(w, axes=None), out_dtype=None), b)
        g: R.Tensor((4, 3), dtype="float32") = R.matmul(x, R.permute_dims(w, axes=None), out_dtype="float32")
        h: R.Tensor((1, 4, 2, 8), dtype="float32") = R.nn.attention_bias(q, q, q, bias, scale=None, causal_mask=None, window_size=None)
        i: R.Tensor((1, 4, 2, 8), dtype="float32") = R.nn.attention_bias(q, q, q, bias, scale=T.float32(0.5), causal_mask=None, window_size=None)
        j: R.Tensor((1, 4, 2, 8), dtype="float32") = R.nn.attention(q, q, q, scale=T.float32(0.5), causal_mask=None, window_size=None)
        k: R.Tensor((1, 4, 2, 8), dtype="float32") = R.nn.attention(q, q, q, scale=None, causal_mask="TopLeft", window_size=None)
        l: R.Tensor((1, 1, 2, 2), dtype="float32") = R.nn.avg_pool2d(im, pool_size=[2, 2], strides=[2, 2], dilation=[1, 1], padding=[0, 0, 0, 0], ceil_mode=False, count_include_pad=False, layout="NCHW", out_layout="NCHW")
        m: R.Tensor((1, 1, 4, 4), dtype="float32") = R.nn.max_pool2d(im, pool_size=[2, 2], strides=[1, 1], dilation=[2, 2], padding=[1, 1, 1, 1], ceil_mode=True, count_include_pad=False, layout="NCHW", out_layout="NCHW")
        n: R.Tensor((1, 1, 2, 2), dtype="float32") = R.nn.adaptive_avg_pool2d(im, output_size=[2, 2], layout="NCHW", out_layout="NCHW")
        o: R.Tensor((4, 4), dtype="int8") = R.quantize(x, s, z, out_dtype="int8", axis=-1)
        p: R.Tensor((4, 4), dtype="float32") = R.dequantize(o, s, z, out_dtype="float32", axis=0)
        r: R.Tensor((6, 6), dtype="float32") = R.nn.pad(x, pad_width=[1, 1, 1, 1], pad_value=2.0, pad_mode="constant")
        t = R.call_dps_packed("f", (x,), out_ty=(R.Tensor((2,), dtype="float32"),))
        u = R.call_dps_packed("f", (x,), out_ty=(R.Tensor((2,), dtype="float32"),))
        return (a, c, d, e, f, g, h, i, j, k, l, m, n, o, p, r, t, u)
