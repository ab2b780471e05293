//! Passes that return well-formed modules with different results; each has one typical fault. `tests/tests/validate/`
//! contains a module for each, and the first binding whose value differs.
#![forbid(unsafe_code)]

mod calls;
mod exprs;

use calls::*;
use exprs::*;
use plugin_api::ir::records::kind;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Declares passes, and exports them.
macro_rules! miscompiles {
    ($($granularity:ident $NAME:ident = $name:literal: $doc:literal, $run:expr;)*) => {
        export_plugin! { passes: [$($NAME,)* CANCEL, CANCEL_WRONGLY] }

        $(declare_pass! {
            #[doc = $doc]
            pub $granularity pass $NAME = $name { opt_level: 0, run: $run }
        })*
    };
}

const ONE: &[i64] = &[0];

miscompiles! {
    // Operators, their arguments and attributes.
    function SUBTRACTION = "wrong.Subtraction": "Swaps the operands of a subtraction.", |f, _| swapped(f, "subtract", 0, 1);
    function DIVISION = "wrong.Division": "Swaps the operands of a division.", |f, _| swapped(f, "divide", 0, 1);
    function POWER = "wrong.Power": "Swaps base and exponent.", |f, _| swapped(f, "power", 0, 1);
    function MATMUL = "wrong.Matmul": "Swaps the operands of a matmul.", |f, _| swapped(f, "matmul", 0, 1);
    function WHERE = "wrong.Where": "Swaps the values of a where.", |f, _| swapped(f, "where", 1, 2);
    function RELU = "wrong.Relu": "Drops a relu.", |f, _| dropped(f, "nn.relu");
    function ABS = "wrong.Abs": "Drops an abs.", |f, _| dropped(f, "abs");
    function NEGATIVE = "wrong.Negative": "Drops a negation.", |f, _| dropped(f, "negative");
    function SCALE = "wrong.Scale": "Drops a factor.", |f, _| dropped(f, "multiply");
    function TRANSPOSE = "wrong.Transpose": "Takes a square weight as it is, not transposed.", |f, _| dropped(f, "permute_dims");
    function CAST = "wrong.Cast": "Drops casts to another type and back.", round_trip;
    function MAXIMUM = "wrong.Maximum": "Takes the smaller one.", |f, _| renamed(f, "maximum", "minimum");
    function LESS = "wrong.Less": "Includes what is equal.", |f, _| renamed(f, "less", "less_equal");
    function GREATER = "wrong.Greater": "Leaves out what is equal.", |f, _| renamed(f, "greater_equal", "greater");
    function FLOOR = "wrong.Floor": "Rounds towards 0.", |f, _| renamed(f, "floor", "trunc");
    function ROUND = "wrong.Round": "Rounds down.", |f, _| renamed(f, "round", "floor");
    function MEAN = "wrong.Mean": "Does not divide.", |f, _| renamed(f, "mean", "sum");
    function VARIANCE = "wrong.Variance": "Takes the square root.", |f, _| renamed(f, "variance", "std");
    function ARGMAX = "wrong.Argmax": "Finds the smallest.", |f, _| renamed(f, "argmax", "argmin");
    function GELU = "wrong.Gelu": "Takes the approximation.", |f, _| renamed(f, "nn.gelu", "nn.gelu_tanh");
    function ADD = "wrong.Add": "Multiplies.", |f, _| renamed(f, "add", "multiply");
    function LOGICAL = "wrong.Logical": "Takes or for and.", |f, _| renamed(f, "logical_and", "logical_or");
    function SUM_AXIS = "wrong.SumAxis": "Sums over another axis.", |f, _| with_attr(f, "sum", "axis", ints(ONE));
    function SOFTMAX_AXIS = "wrong.SoftmaxAxis": "Normalizes along another axis.", |f, _| with_attr(f, "nn.softmax", "axis", Attr::Int(0));
    function MAX_AXIS = "wrong.MaxAxis": "Takes the largest along another axis.", |f, _| with_attr(f, "max", "axis", ints(ONE));
    function FLIP_AXIS = "wrong.FlipAxis": "Flips another axis.", |f, _| with_attr(f, "flip", "axis", Attr::Int(0));
    function TAKE_AXIS = "wrong.TakeAxis": "Takes along another axis.", |f, _| with_attr(f, "take", "axis", Attr::Int(1));
    function AXES = "wrong.Axes": "Permutes other axes of a cube.", |f, _| with_attr(f, "permute_dims", "axes", ints(&[1, 0, 2]));
    function PADDING = "wrong.Padding": "Shifts the padding of a convolution by one.", |f, _| with_attr(f, "nn.conv2d", "padding", ints(&[0, 0, 2, 2]));
    function POOL_PADDING = "wrong.PoolPadding": "Shifts the padding of a pooling by one.", |f, _| with_attr(f, "nn.max_pool2d", "padding", ints(&[0, 0, 2, 2]));
    function EPSILON = "wrong.Epsilon": "Has another epsilon.", |f, _| with_attr(f, "nn.layer_norm", "epsilon", Attr::Float(0.1));
    function SLOPE = "wrong.Slope": "Has another slope.", |f, _| with_attr(f, "nn.leakyrelu", "alpha", Attr::Float(0.2));
    function CONSTANT = "wrong.Constant": "Folds into another constant.", |f, _| with_constant(f, "multiply", 1, &[], &[3.0f32]);
    function GATHER = "wrong.Gather": "Gathers other rows.", |f, _| with_constant(f, "take", 1, &[4], &[0i64, 1, 2, 3]);
    // Values and their users.
    function BROADCAST = "wrong.Broadcast": "Broadcasts a vector along the other axis.", broadcast;
    function SUBEXPRESSION = "wrong.Subexpression": "Merges two sums with different operands.", subexpression;
    function IN_PLACE = "wrong.InPlace": "Writes a relu into its operand, which has another user.", in_place;
    function BIAS = "wrong.Bias": "Adds a bias twice.", bias;
    function SCALE_FOLD = "wrong.ScaleFold": "Folds a scale into the input channels of a weight.", |f, _| scale_fold(f, false);
    function SCALE_TWICE = "wrong.ScaleTwice": "Folds the square of a scale into a weight.", |f, _| scale_fold(f, true);
    function OUTPUT = "wrong.Output": "Returns the first output twice.", |f, _| outputs(f, [0, 0]);
    function OUTPUT_ORDER = "wrong.OutputOrder": "Returns two outputs in the other order.", |f, _| outputs(f, [1, 0]);
    function SYMBOL = "wrong.Symbol": "Mixes up two symbolic dimensions.", symbol;
    function CONDITION = "wrong.Condition": "Takes the other branch of an If.", |f, _| renamed(f, "greater", "less_equal");
    // PrimFuncs.
    prim_func REDUCTION_INIT = "wrong.ReductionInit": "Loses the initialization of a reduction.", |f, _| removed(f, kind::INIT, 0);
    prim_func STORE = "wrong.Store": "Removes the last loop of stores.", last_store;
    prim_func EXTENT = "wrong.Extent": "Ends the last loop early.", |f, _| loop_bounds(f, 0, 1);
    prim_func START = "wrong.Start": "Begins the last loop late.", |f, _| loop_bounds(f, 1, 0);
    prim_func FLOOR_DIV = "wrong.FloorDiv": "Truncates a division.", |f, _| operation(f, PrimOp::FloorDiv, PrimOp::TruncDiv);
    prim_func FLOOR_MOD = "wrong.FloorMod": "Takes the remainder of the truncated division.", |f, _| operation(f, PrimOp::FloorMod, PrimOp::TruncMod);
    prim_func MAX = "wrong.Max": "Takes the smaller one.", |f, _| operation(f, PrimOp::Max, PrimOp::Min);
    prim_func GUARD_LIMIT = "wrong.GuardLimit": "Includes the limit of a guard.", |f, _| operation(f, PrimOp::Lt, PrimOp::Le);
    prim_func CONJUNCTION = "wrong.Conjunction": "Takes or for and.", |f, _| operation(f, PrimOp::And, PrimOp::Or);
    prim_func DIFFERENCE = "wrong.Difference": "Swaps the operands of a subtraction.", |f, _| operands(f, kind::ARITH, Some(PrimOp::Sub), (0, 1));
    prim_func INDICES = "wrong.Indices": "Swaps the indices of a load.", |f, _| operands(f, kind::LOAD, None, (1, 2));
    prim_func SELECT = "wrong.Select": "Swaps the values of a select.", |f, _| operands(f, kind::SELECT, None, (1, 2));
    prim_func HALF = "wrong.Half": "Accumulates in float16.", half;
    prim_func STALE = "wrong.Stale": "Reads the first intermediate buffer in place of the second.", stale;
    prim_func GUARD = "wrong.Guard": "Removes a guard.", guard;
    prim_func FIRST_INDEX = "wrong.FirstIndex": "Loads the first element always.", first_index;
}

/// The tolerance of a pass that computes floats in a different order.
const SUMS: Tolerance = Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 };

declare_pass! {
    /// Replaces `(x + y) - x` by `y`, which differs from the float32 value and is more accurate.
    pub function pass CANCEL = "right.Cancel" {
        opt_level: 0,
        tolerance: SUMS,
        run: |f, _| cancelled(f, None),
    }
}

declare_pass! {
    /// Replaces `(x + y) - x` by `-y`, under the same contract.
    pub function pass CANCEL_WRONGLY = "wrong.Cancel" {
        opt_level: 0,
        tolerance: SUMS,
        run: |f, _| cancelled(f, Some("negative")),
    }
}
