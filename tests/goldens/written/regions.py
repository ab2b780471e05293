@T.prim_func(s_tir=True)
def regions(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), n: T.int32):
    for i, j in T.grid(8, 8):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
    for i in range(8):
        with T.sblock("outer"):
            vi = T.axis.spatial(8, i)
            C = T.sblock_alloc_buffer((8,))
            for j in range(8):
                with T.sblock("inner"):
                    vj = T.axis.spatial(8, j)
                    C[vj] = A[vi, 7 - vj]
            for j in range(8):
                with T.sblock("said"):
                    vj = T.axis.spatial(8, j)
                    T.reads(C[0:8])
                    T.writes(A[vi, vj])
                    A[vi, vj] = C[vj]
    for i in range(8):
        with T.sblock("conditions"):
            vi = T.axis.spatial(8, i)
            for k in range(8):
                if k < 4:
                    A[vi, k] = B[k]
                A[vi, k] = T.if_then_else(k >= 2 and k < 5, B[k - 2], T.float32(0))
    for i in range(8):
        with T.sblock("names"):
            vi = T.axis.spatial(8, i)
            for k in range(4):
                x: T.let[T.int32] = k * 2
                A[vi, x] = B[x + 1]
    for i in range(8):
        with T.sblock("match"):
            vi = T.axis.spatial(8, i)
            D = T.match_buffer(A[vi, 0:4], (4,))
            E = T.match_buffer(A[vi, 4:8], (1, 4))
            for k in range(2):
                D[k] = E[0, k + 1] + B[0]
    for i in range(8):
        with T.sblock("loads"):
            vi = T.axis.spatial(8, i)
            for k in range(4):
                A[I[vi], I[k]] = B[n]
    for i in range(8):
        with T.sblock("vector"):
            vi = T.axis.spatial(8, i)
            A[vi, 0:4] = A[vi, T.Ramp(vi, 2, 4)]
    for i in range(8):
        with T.sblock("half"):
            vi = T.axis.spatial(8, i)
            T.writes(B[vi])
            T.where(A[i, 0] > T.float32(0))
            B[vi] = A[vi, n] + A[vi, n]
    for i in range(T.int64(8)):
        with T.sblock("numbers"):
            vi = T.axis.spatial(T.int64(8), i)
            B[vi] = A[0, 1] + A[vi, vi]
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def regions(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), I_: T.Buffer((8,), "int32"), n: T.int32):
        # with T.sblock("root"):
        for i, j in T.grid(8, 8):
            with T.sblock("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vi, vj]
        for i in range(8):
            with T.sblock("outer"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:8])
                T.writes(A[vi, 0:8])
                C = T.sblock_alloc_buffer((8,))
                for j in range(8):
                    with T.sblock("inner"):
                        vj = T.axis.spatial(8, j)
                        T.reads(A[vi, 7 - vj])
                        T.writes(C[vj])
                        C[vj] = A[vi, 7 - vj]
                for j in range(8):
                    with T.sblock("said"):
                        vj = T.axis.spatial(8, j)
                        T.reads(C[0:8])
                        T.writes(A[vi, vj])
                        A[vi, vj] = C[vj]
        for i in range(8):
            with T.sblock("conditions"):
                vi = T.axis.spatial(8, i)
                T.reads(B[0:4])
                T.writes(A[vi, 0:8])
                for k in range(8):
                    if k < 4:
                        A[vi, k] = B[k]
                    A[vi, k] = T.if_then_else(k >= 2 and k < 5, B[k - 2], T.float32(0.0))
        for i in range(8):
            with T.sblock("names"):
                vi = T.axis.spatial(8, i)
                T.reads(B[1:8])
                T.writes(A[vi, 0:7])
                for k in range(4):
                    x: T.let[T.int32] = k * 2
                    A[vi, x] = B[x + 1]
        for i in range(8):
            with T.sblock("match"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 5:7], B[0])
                T.writes(A[vi, 0:2])
                D = T.match_buffer(A[vi, 0:4], (4,))
                E = T.match_buffer(A[vi, 4:8], (1, 4))
                for k in range(2):
                    D[k] = E[0, k + 1] + B[0]
        for i in range(8):
            with T.sblock("loads"):
                vi = T.axis.spatial(8, i)
                T.reads(B[n], I_[T.min(vi, 0):T.min(vi, 0) + (T.max(vi, 3) - T.min(vi, 0) + 1)])
                T.writes(A[I_[vi], 0:8])
                for k in range(4):
                    A[I_[vi], I_[k]] = B[n]
        for i in range(8):
            with T.sblock("vector"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, vi:vi + 7])
                T.writes(A[vi, 0:4])
                A[vi, 0:4] = A[vi, T.Ramp(vi, 2, 4)]
        for i in range(8):
            with T.sblock("half"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, n])
                T.writes(B[vi])
                T.where(A[i, 0] > T.float32(0.0))
                B[vi] = A[vi, n] + A[vi, n]
        for i in range(T.int64(8)):
            with T.sblock("numbers"):
                vi = T.axis.spatial(T.int64(8), i)
                T.reads(A[T.min(vi, T.int64(0)):T.min(vi, T.int64(0)) + (T.max(vi, T.int64(0)) - T.min(vi, T.int64(0)) + T.int64(1)), T.min(vi, T.int64(1)):T.min(vi, T.int64(1)) + (T.max(vi, T.int64(1)) - T.min(vi, T.int64(1)) + T.int64(1))])
                T.writes(B[vi])
                B[vi] = A[0, 1] + A[vi, vi]
