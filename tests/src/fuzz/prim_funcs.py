# from tvm.script import ir as I
# from tvm.script import tir as T

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def matmul_relu(A: T.Buffer((T.int64(16), T.int64(32)), "float32"), B: T.Buffer((T.int64(32), T.int64(8)), "float32"), C: T.Buffer((T.int64(16), T.int64(8)), "float32")):
        T.func_attr({"op_pattern": 4, "tirx.noalias": True})
        # with T.sblock("root"):
        D = T.sblock_alloc_buffer((T.int64(16), T.int64(8)))
        for i, j, k in T.grid(T.int64(16), T.int64(8), T.int64(32)):
            with T.sblock("matmul"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(D[v_i, v_j])
                with T.init():
                    D[v_i, v_j] = T.float32(0.0)
                D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j in T.grid(T.int64(16), T.int64(8)):
            with T.sblock("relu"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(D[v_i, v_j])
                T.writes(C[v_i, v_j])
                C[v_i, v_j] = T.max(D[v_i, v_j], T.float32(0.0))

    @T.prim_func(s_tir=True)
    def pad_pool(A: T.Buffer((1, 4, 30, 30), "float32"), C: T.Buffer((1, 4, 15, 15), "float32")):
        P = T.sblock_alloc_buffer((1, 4, 32, 32), scope="local")
        for n, c, h, w in T.grid(1, 4, 32, 32):
            with T.sblock("pad"):
                v_n, v_c, v_h, v_w = T.axis.remap("SSSS", [n, c, h, w])
                T.reads(A[v_n, v_c, v_h - 1, v_w - 1])
                T.writes(P[v_n, v_c, v_h, v_w])
                P[v_n, v_c, v_h, v_w] = T.if_then_else(1 <= v_h and v_h < 31 and 1 <= v_w and v_w < 31, A[v_n, v_c, v_h - 1, v_w - 1], T.float32("-inf"))
        for n, c, h, w, r, s in T.grid(1, 4, 15, 15, 3, 3):
            with T.sblock("pool"):
                v_n = T.axis.spatial(1, n)
                v_c, v_h, v_w, v_r, v_s = T.axis.remap("SSSRR", [c, h, w, r, s])
                T.where(v_h * 2 + v_r < 32)
                T.reads(P[v_n, v_c, v_h * 2 + v_r, v_w * 2 + v_s])
                T.writes(C[v_n, v_c, v_h, v_w])
                T.sblock_attr({"schedule_rule": "meta_schedule.pool_max", "tiles": [1, 2, [3]]})
                with T.init():
                    C[v_n, v_c, v_h, v_w] = T.float32(-3.4028234663852886e+38)
                C[v_n, v_c, v_h, v_w] = T.max(C[v_n, v_c, v_h, v_w], P[v_n, v_c, v_h * 2 + v_r, v_w * 2 + v_s])

    @T.prim_func(s_tir=True)
    def regions(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (64, 64), "float16")
        B = T.match_buffer(b, (64, 64), "float16")
        for i in T.parallel(4, annotations={"pragma_auto_unroll_max_step": 16}):
            for j in range(1, 4):
                with T.sblock("outer"):
                    v_i = T.axis.spatial(4, i)
                    v_j = T.axis.opaque((1, 4), j)
                    T.reads(A[v_i * 16:v_i * 16 + 16, v_j * 16:v_j * 16 + 16])
                    T.writes(B[v_i * 16:v_i * 16 + 16, 0:64])
                    S = T.match_buffer(A[v_i * 16:v_i * 16 + 16, 16:32], (16, 16), "float16")
                    L = T.sblock_alloc_buffer((16, 16), "float16", scope="shared")
                    for x, y in T.grid(16, 16):
                        with T.sblock("copy"):
                            v_x, v_y = T.axis.remap("SS", [x, y])
                            L[v_x, v_y] = S[v_x, v_y]
                    for x in T.vectorized(16):
                        with T.sblock(""):
                            v_x = T.axis.scan(16, x)
                            T.reads()
                            T.writes(B[v_i * 16 + v_x, 0:64])
                            if v_x < n or v_j == 3:
                                B[v_i * 16 + v_x, v_j] = L[v_x, 0]
                            else:
                                for u in T.unroll(2):
                                    B[v_i * 16 + v_x, u] = T.Cast("float16", v_x // 2 + u)

    @T.prim_func
    def flat(A: T.Buffer((4096,), "float32", layout=None), B: T.Buffer((4096,), "float32"), x: T.Buffer((1,), "float32"), y: T.Buffer((1,), "int64")):
        T.func_attr({"global_symbol": "flat", "kinds": ["a", 1, 2.5, None, True, []]})
        local = T.alloc_local((64,))
        shared = T.alloc_shared((64,), "int8", align=128)
        work = T.alloc_buffer((64, 2), "uint8")
        pair = T.alloc_buffer((2,), "int32")
        for i in T.thread_binding(64, thread="blockIdx.x"):
            cse_v1: T.let[T.int32] = i * 64
            for j in range(64):
                cse_v2: T.let[T.int32] = cse_v1 + j
                local[j] = T.exp(A[cse_v2]) * T.sqrt(T.float32(0.5))
                if T.likely(cse_v2 < 4000):
                    B[cse_v2] = T.Select(local[j] > T.float32(0.0), local[j], T.float32(1.0) / (T.float32(2.0) + local[j]))
                x = x + B[cse_v2]
                y = y + T.Cast("int64", j) % T.int64(7)
                shared[j] = T.Cast("int8", j & 15)
                work[j, 0] = T.Cast("uint8", j << 1) | T.uint8(1)
                pair[0] = T.truncmod(cse_v2, 3) - T.Div(cse_v2, -3)
            e: T.let[T.float32] = T.tanh(x)
            while y < T.int64(4):
                y = y + T.int64(1)
                if e == T.float32(0.0) or not T.Cast("bool", pair[0]):
                    break
                if T.bool(True):
                    continue
            T.evaluate(0)
            T.evaluate(x)
            T.exp(e)

    @T.prim_func(private=True)
    def returns(n: T.int32, m: T.int64, p: T.handle("float32", "global")) -> T.int32:
        P = T.decl_buffer((16,), data=p)
        P[T.min(n, 15)] = T.pow(P[0], T.float32(2.0))
        P[T.max(n, 15)] = T.float32("nan")
        if n % 2 == 0:
            return T.Add(n, 0) * T.Mul(1, n)
        T.ret(0)
        return T.Cast("int32", m)

    @T.prim_func(private=True, s_tir=True)
    def views(A: T.Buffer((4, T.int64(8)), "float32"), B: T.Buffer((T.int64(4), 8), "float32")):
        A_1 = A.view(32)
        B_1 = T.decl_buffer((8, 4), data=B.data)
        C = T.alloc_buffer((32,), annotations={"buffer_allocated_addr": [], "buffer_data_alignment": 64})
        D = C.view(2, 16)
        E = T.alloc_buffer((32,), scope="shared")
        F = T.decl_buffer((32,), data=E.data, scope="shared", align=16)
        for i, j in T.grid(8, 4):
            D[i // 4, i % 4 * 4 + j] = A_1[i * 4 + j]
            F[i * 4 + j] = C[i * 4 + j]
            B_1[i, j] = F[i * 4 + j]

    @T.prim_func
    def no_dimensions(A: T.Buffer((), "float64"), B: T.Buffer((), "bool")):
        A[()] = A[()] + T.float64(0.10000000000000001)
        B[()] = A[()] != T.float64(1e+300) and B[()]

    @T.prim_func
    def empty():
        pass

    @T.prim_func(s_tir=True)
    def multiply_add(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 16):
            C[i] = T.fma(A[i, k], B[k], C[i])
        for i in T.parallel(8):
            C[i] = T.fma(C[i], T.float32(2.0), T.exp(C[i]))
