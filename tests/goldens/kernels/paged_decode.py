# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def batch_decode_paged_kv_cpu(Q: T.Buffer(("B", 4, 4), "float32"), pages: T.Buffer(("max_num_pages", 2, 2, 16, 4), "float32"), page_table_indptr: T.Buffer((B + 1,), "int32", offset_factor=1), page_table_values: T.Buffer(("nnz_pages",), "int32", offset_factor=1), length_info: T.Buffer((B,), "int32", offset_factor=1), k_rope_pos_offset: T.Buffer((B,), "int32", offset_factor=1), q_rope_position: T.Buffer((B,), "int32", offset_factor=1), output: T.Buffer((B, 4, 4), "float32"), lse: T.Buffer((B, 4), "float32"), rotary_mode: T.int32, rope_scale: T.float32, rope_theta: T.float32, sm_scale: T.float32):
        B = T.int32()
        max_num_pages = T.int32()
        nnz_pages = T.int32()
        # with T.sblock("root"):
        for b in range(B):
            with T.sblock("attn"):
                kv_chunk_len = T.Buffer((1,), "int32")
                T.reads(page_table_indptr[b:b + 2], length_info[b], q_rope_position[b], Q[b, 0:4, 0:4], page_table_values[page_table_indptr[b]:page_table_indptr[b] + ((kv_chunk_len[0] - 1) // 16 + 1)], k_rope_pos_offset[b], pages[0:max_num_pages, 0:2, 0:2, 0:16, 0:4])
                T.writes(output[b, 0:4, 0:4], lse[b, 0:4])
                O_local = T.sblock_alloc_buffer((4,))
                Q_local = T.sblock_alloc_buffer((4,))
                K_local = T.sblock_alloc_buffer((4,))
                V_local = T.sblock_alloc_buffer((4,))
                kv_chunk_len_1 = T.sblock_alloc_buffer((1,), "int32")
                m_val = T.sblock_alloc_buffer((1,))
                new_m = T.sblock_alloc_buffer((1,))
                d_val = T.sblock_alloc_buffer((1,))
                S_val = T.sblock_alloc_buffer((1,))
                scale_O = T.sblock_alloc_buffer((1,))
                factor = T.sblock_alloc_buffer((1,))
                cur_page_indptr_begin: T.let[T.int32] = page_table_indptr[b]
                cur_page_indptr_end: T.let[T.int32] = page_table_indptr[b + 1]
                kv_chunk_len_1[0] = T.if_then_else(cur_page_indptr_begin != cur_page_indptr_end, (cur_page_indptr_end - cur_page_indptr_begin - 1) * 16 + length_info[b], 0)
                for h_qo in range(4):
                    m_val[0] = T.float32(-50000.0)
                    d_val[0] = T.float32(1.0)
                    for d in range(4):
                        O_local[d] = T.float32(0.0)
                    for d in range(4):
                        freq = T.float32()
                        Q_local[d] = T.if_then_else(rotary_mode == 1, T.Let(T.cos(freq) * Q[b, h_qo, d] + T.sin(freq) * T.if_then_else(d < 2, Q[b, h_qo, d + 2] * T.float32(-1.0), Q[b, h_qo, d - 2]), where={freq: T.Cast("float32", q_rope_position[b]) * rope_scale / T.pow(rope_theta, T.Cast("float32", d * 2 % 4) / T.float32(4.0))}), Q[b, h_qo, d])
                    for row_idx in range(kv_chunk_len_1[0]):
                        seq_offset: T.let[T.int32] = row_idx
                        page_no: T.let[T.int32] = page_table_values[cur_page_indptr_begin + seq_offset // 16]
                        page_offset: T.let[T.int32] = seq_offset % 16
                        for d in range(4):
                            freq = T.float32()
                            K_local[d] = T.if_then_else(rotary_mode == 1, T.Let(T.cos(freq) * pages[page_no, 0, h_qo // 2, page_offset, d] + T.sin(freq) * T.if_then_else(d < 2, pages[page_no, 0, h_qo // 2, page_offset, d + 2] * T.float32(-1.0), pages[page_no, 0, h_qo // 2, page_offset, d - 2]), where={freq: T.Cast("float32", k_rope_pos_offset[b] + row_idx) * rope_scale / T.pow(rope_theta, T.Cast("float32", d * 2 % 4) / T.float32(4.0))}), pages[page_no, 0, h_qo // 2, page_offset, d])
                        S_val[0] = T.float32(0.0)
                        for d in range(4):
                            S_val[0] = S_val[0] + Q_local[d] * K_local[d]
                        S_val[0] = S_val[0] * (sm_scale * T.float32(1.4426950408889634))
                        new_m[0] = T.max(m_val[0], S_val[0])
                        d_val[0] = d_val[0] * T.exp2(m_val[0] - new_m[0]) + T.exp2(S_val[0] - new_m[0])
                        scale_O[0] = T.exp2(m_val[0] - new_m[0])
                        for d in range(4):
                            O_local[d] = O_local[d] * scale_O[0]
                        m_val[0] = new_m[0]
                        for d in range(4):
                            V_local[d] = pages[page_no, 1, h_qo // 2, page_offset, d]
                        factor[0] = T.exp2(S_val[0] - m_val[0])
                        for d in range(4):
                            O_local[d] = O_local[d] + V_local[d] * factor[0]
                    for d in range(4):
                        O_local[d] = O_local[d] / d_val[0]
                        output[b, h_qo, d] = O_local[d]
                    lse[b, h_qo] = m_val[0] + T.log2(d_val[0])
