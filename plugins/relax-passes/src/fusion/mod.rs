//! Fusion: groups of bindings become functions, which become PrimFuncs.

pub mod fuse_ops;
pub mod fuse_ops_by_pattern;
pub mod fuse_tir;
pub mod merge_composite_functions;

mod chains;
mod composite_patterns;
mod dataflow_graph;
mod joined_function;
mod merged_groups;
mod partition;
mod taken_apart;
