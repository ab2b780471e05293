# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    I.module_attrs({"device_num": 4})
    I.module_global_infos({"mesh": [R.device_mesh((2, 2), I.Range(0, 4)), R.device_mesh((2,), I.Range(4, 6))]})
    @R.function
    def dmain(x: R.DTensor((n, 64), "float32", "mesh[0]", "S[0], R"), w: R.DTensor((64, 32), "float32", "mesh[0]", "R, R")) -> R.DTensor((n, 32), "float32", "mesh[0]", "S[0], R"):
        y: R.DTensor((n, 32), "float32", "mesh[0]", "S[0], R") = R.matmul(x, w, out_dtype=None)
        z: R.DTensor((n, 32), "float32", "mesh[0]", "S[0], R") = R.nn.relu(y)
        return z

    @R.function
    def plain(a: R.Tensor((8, 8), dtype="float32")) -> R.Tensor((8, 4), dtype="float32"):
        b: R.Tensor((8, 8), dtype="float32") = R.dist.annotate_sharding(a, device_mesh="mesh[1]", placement="S[1]")
        c: R.Tensor((8, 4), dtype="float32") = R.dist.redistribute_replica_to_shard(b, num_workers=2, axis=1)
        return c

    @R.function
    def spread(a: R.DTensor((8, 8), "float32", "mesh[1]", "R"), b: R.DTensor((8, 8), "float32", "mesh[0]", "S[0], R")) -> R.Tuple(R.DTensor((8, 8), "float32", "mesh[1]", "S[1]"), R.DTensor((8, 8), "float32", "mesh[0]", "R, S[0]")):
        c: R.DTensor((8, 8), "float32", "mesh[1]", "S[1]") = R.dist.redistribute_replica_to_shard(a, num_workers=2, axis=1)
        d: R.DTensor((8, 8), "float32", "mesh[0]", "S[0], R") = R.dist.annotate_sharding(b, device_mesh="mesh[0]", placement="R, S[0]")
        e: R.DTensor((8, 8), "float32", "mesh[0]", "R, S[0]") = R.dist.redistribute(d, device_mesh="mesh[0]", placement="R, S[0]")
        return (c, e)
