//! Standard TIR passes, one file each.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod cpu;
pub mod loops;

use loops::narrow::{force_narrow_index_to_int32, narrow_data_type};
use loops::{
    canonicalize_loop, common_subexpr_elim, convert_ssa, hoist_if_then_else, loop_partition, remove_no_op,
    stmt_simplify, unroll_loop, vectorize_loop,
};
use plugin_api::prelude::*;

export_plugin! {
    passes: [
        // Expressions and loops.
        canonicalize_loop::CANONICALIZE_LOOP,
        convert_ssa::CONVERT_SSA,
        unroll_loop::UNROLL_LOOP,
        common_subexpr_elim::COMMON_SUBEXPR_ELIM,
        vectorize_loop::VECTORIZE_LOOP,
        remove_no_op::REMOVE_NO_OP,
        narrow_data_type::NARROW_DATA_TYPE,
        stmt_simplify::STMT_SIMPLIFY,
        stmt_simplify::S_TIR_STMT_SIMPLIFY,
        hoist_if_then_else::HOIST_IF_THEN_ELSE,
        loop_partition::LOOP_PARTITION,
        force_narrow_index_to_int32::FORCE_NARROW_INDEX_TO_INT32,
        // Blocks and buffers.
        blocks::lower_init_block::LOWER_INIT_BLOCK,
        blocks::convert_blocks_to_opaque::CONVERT_BLOCKS_TO_OPAQUE,
        blocks::lower_opaque_block::LOWER_OPAQUE_BLOCK,
        blocks::compact_buffer_allocation::COMPACT_BUFFER_ALLOCATION,
        blocks::plan_and_update_buffer_allocation_location::PLAN_AND_UPDATE_BUFFER_ALLOCATION_LOCATION,
        blocks::lower_match_buffer::LOWER_MATCH_BUFFER,
        blocks::flatten_buffer::FLATTEN_BUFFER,
        blocks::storage_rewrite::STORAGE_REWRITE,
        // Processors.
        cpu::join_rows::JOIN_ROWS,
        cpu::list_schedules::LIST_SCHEDULES,
        cpu::schedule_for_cpu::SCHEDULE_FOR_CPU,
        cpu::fuse_multiply_add::FUSE_MULTIPLY_ADD,
    ],
    config: [
        loop_partition::PARTITION_CONST_LOOP,
        loop_partition::NO_UNROLL_LOOP_WITH_EXTENT_ONE,
        loop_partition::UNROLL_LOOP_WITHOUT_INTERVAL,
        hoist_if_then_else::SUPPORT_BLOCK_SCOPE,
        vectorize_loop::ENABLE_BUFFER_LEVEL_PREDICATION,
        stmt_simplify::TRANSITIVELY_PROVE_INEQUALITIES,
        stmt_simplify::CONVERT_BOOLEAN,
        stmt_simplify::APPLY_CONSTRAINTS,
        remove_no_op::MAX_SIMPLIFICATION_STEPS,
        remove_no_op::IGNORE_PROFILER_CALL,
        unroll_loop::AUTO_MAX_STEP,
        unroll_loop::AUTO_MAX_DEPTH,
        unroll_loop::AUTO_MAX_EXTENT,
        unroll_loop::EXPLICIT_UNROLL,
        unroll_loop::UNROLL_LOCAL_ACCESS,
        cpu::choices::SCHEDULES,
    ],
}
