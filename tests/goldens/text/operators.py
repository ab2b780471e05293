# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

i = TypeVar("i")
n = TypeVar("n")
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice({"keys": ["cpu"], "kind": "llvm", "mtriple": "x86_64-conda-linux-gnu", "tag": ""}, 0, "global"), I.vdevice({"keys": ["cpu"], "kind": "llvm", "mtriple": "x86_64-conda-linux-gnu", "tag": ""}, 1, "global")]})
    @R.function
    def main(x: R.Tensor((n, i, 8), dtype="float32"), y: R.Tensor((2, 8), dtype="float32", vdevice="llvm:1:global")) -> R.Any:
        with R.dataflow():
            a: R.Tensor((i, n, 2, 4), dtype="float32") = R.layout_transform(x, index_map=T.index_map(lambda n_1, q, w: (q, n_1, w // 4, w % 4)), pad_value=T.float32(0.5))
            b: R.Tensor((i, n, 2, 4), dtype="float32") = R.layout_transform(x, index_map=T.index_map(lambda i_1, q, w: (q, i_1, w // 4, w % 4)), pad_value=None)
            c: R.Tensor((2, 8), dtype="float32") = R.hint_on_device(y, R.device(device_type=2, index=0), "global")
            d: R.Tensor((2, 8), dtype="float32", vdevice="llvm:0:global") = R.to_vdevice(y, dst_vdevice="llvm:0:global")
            g = R.call_dps_packed("ext_fill", (y,), out_ty=R.Tensor((n, 8), dtype="float32"))
            gv: R.Any = R.call_pure_packed("ext_all", a, b, c, d, g, T.float32(0.5), T.float64("nan"), ty_args=(R.Any,))
            R.output(gv)
        return gv
