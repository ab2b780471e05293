//! Generates functions as legalization produces them, determined by a few numbers.

use crate::steps::Choices;

/// Generates the lines of a function after its `def`.
pub(crate) fn function(choices: &mut Choices) -> String {
    match choices.below(9) {
        0 => elementwise(choices),
        1 => matmul(choices),
        2 => conv(choices),
        3 => softmax_like(choices),
        4 => stencils(choices),
        5 => shared(choices),
        6 => overwritten(choices),
        7 => sums_in_a_loop(choices),
        _ => transposed(choices),
    }
}

const EXTENTS: [i64; 6] = [1, 3, 4, 6, 7, 12];

fn elementwise(c: &mut Choices) -> String {
    let (n, m) = (c.of(&EXTENTS), c.of(&EXTENTS));
    let mut text = format!(
        "def f(A: T.Buffer(({n}, {m}), \"int32\"), B: T.Buffer(({m},), \"int32\"), D: T.Buffer(({n}, {m}), \"int32\")):\n"
    );
    let length = 1 + c.below(3);
    (1..length).for_each(|at| text += &format!("    X{at} = T.sblock_alloc_buffer(({n}, {m}), \"int32\")\n"));
    for at in 1..=length {
        let from = if at == 1 { "A".to_string() } else { format!("X{}", at - 1) };
        let to = if at == length { "D".to_string() } else { format!("X{at}") };
        let value = c.of(&["+ B[vj]", "* T.int32(3)", "- T.Cast(\"int32\", vi)", "+ A[vi, vj]"]);
        text += &format!(
            "    for i, j in T.grid({n}, {m}):
        with T.sblock(\"S{at}\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            {to}[vi, vj] = {from}[vi, vj] {value}
"
        );
    }
    text
}

fn matmul(c: &mut Choices) -> String {
    let (n, m, k) = (c.of(&EXTENTS), c.of(&EXTENTS), c.of(&EXTENTS));
    format!(
        "def f(A: T.Buffer(({n}, {k}), \"float32\"), B: T.Buffer(({k}, {m}), \"float32\"), E: T.Buffer(({m},), \"float32\"), D: T.Buffer(({n}, {m}), \"float32\")):
    C = T.sblock_alloc_buffer(({n}, {m}))
    for i, j, k in T.grid({n}, {m}, {k}):
        with T.sblock(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid({n}, {m}):
        with T.sblock(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi, vj] = T.max(C[vi, vj] + E[vj], T.float32(0))
"
    )
}

fn conv(c: &mut Choices) -> String {
    let (channels, outs, size) = (c.of(&[1, 3]), c.of(&[2, 4]), c.of(&[4, 5, 7]));
    let (kernel, pad) = (c.of(&[1, 3]), c.of(&[0, 1]));
    let (padded, out) = (size + 2 * pad, size + 2 * pad - kernel + 1);
    let end = size + pad;
    format!(
        "def f(A: T.Buffer(({channels}, {size}, {size}), \"float32\"), W: T.Buffer(({outs}, {channels}, {kernel}, {kernel}), \"float32\"), D: T.Buffer(({outs}, {out}, {out}), \"float32\")):
    P = T.sblock_alloc_buffer(({channels}, {padded}, {padded}))
    C = T.sblock_alloc_buffer(({outs}, {out}, {out}))
    for i0, i1, i2 in T.grid({channels}, {padded}, {padded}):
        with T.sblock(\"P\"):
            v0, v1, v2 = T.axis.remap(\"SSS\", [i0, i1, i2])
            P[v0, v1, v2] = T.if_then_else({pad} <= v1 and v1 < {end} and {pad} <= v2 and v2 < {end}, A[v0, v1 - {pad}, v2 - {pad}], T.float32(0))
    for f, y, x, c, ky, kx in T.grid({outs}, {out}, {out}, {channels}, {kernel}, {kernel}):
        with T.sblock(\"C\"):
            vf, vy, vx, vc, vky, vkx = T.axis.remap(\"SSSRRR\", [f, y, x, c, ky, kx])
            with T.init():
                C[vf, vy, vx] = T.float32(0)
            C[vf, vy, vx] = C[vf, vy, vx] + P[vc, vy + vky, vx + vkx] * W[vf, vc, vky, vkx]
    for i0, i1, i2 in T.grid({outs}, {out}, {out}):
        with T.sblock(\"D\"):
            v0, v1, v2 = T.axis.remap(\"SSS\", [i0, i1, i2])
            D[v0, v1, v2] = T.max(C[v0, v1, v2], T.float32(0))
"
    )
}

fn softmax_like(c: &mut Choices) -> String {
    let (n, m) = (c.of(&EXTENTS), c.of(&EXTENTS));
    format!(
        "def f(A: T.Buffer(({n}, {m}), \"int32\"), D: T.Buffer(({n}, {m}), \"int32\")):
    M = T.sblock_alloc_buffer(({n},), \"int32\")
    E = T.sblock_alloc_buffer(({n}, {m}), \"int32\")
    S = T.sblock_alloc_buffer(({n},), \"int32\")
    for i, k in T.grid({n}, {m}):
        with T.sblock(\"M\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                M[vi] = T.int32(-2147483648)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid({n}, {m}):
        with T.sblock(\"E\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            E[vi, vj] = A[vi, vj] - M[vi]
    for i, k in T.grid({n}, {m}):
        with T.sblock(\"S\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + E[vi, vk]
    for i, j in T.grid({n}, {m}):
        with T.sblock(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi, vj] = E[vi, vj] * S[vi]
"
    )
}

fn stencils(c: &mut Choices) -> String {
    let (n, width) = (c.of(&[3, 5, 8]), c.of(&[1, 2, 3]));
    let wide = n + width;
    format!(
        "def f(A: T.Buffer(({wide}, 4), \"int32\"), D: T.Buffer(({n}, 4), \"int32\")):
    B = T.sblock_alloc_buffer(({wide}, 4), \"int32\")
    C = T.sblock_alloc_buffer(({n}, 4), \"int32\")
    for i, j in T.grid({wide}, 4):
        with T.sblock(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid({n}, 4):
        with T.sblock(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + {width}, 3 - vj]
    for i, j in T.grid({n}, 4):
        with T.sblock(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi, vj] = C[vi, vj] - C[{n} - 1 - vi, vj]
"
    )
}

fn transposed(c: &mut Choices) -> String {
    let (n, m) = (c.of(&EXTENTS), c.of(&EXTENTS));
    let size = n * m;
    format!(
        "def f(A: T.Buffer(({n}, {m}), \"int32\"), D: T.Buffer(({size},), \"int32\"), F: T.Buffer(({m},), \"int32\")):
    B = T.sblock_alloc_buffer(({m}, {n}), \"int32\")
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vj, vi]
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi * {n} + vj] = B[vi, vj] + 1
    for i, k in T.grid({m}, {n}):
        with T.sblock(\"F\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                F[vi] = 0
            F[vi] = F[vi] + B[vi, vk]
"
    )
}

/// Generates blocks in the same loops, where one may read elements that the other wrote in an earlier
/// iteration.
fn shared(c: &mut Choices) -> String {
    let (n, m) = (c.of(&[3, 4, 6]), c.of(&[3, 4, 6]));
    let index = c.of(&[
        "vi, vj",
        "T.max(vi - 1, 0), vj",
        "T.max(vi - 1, 0), T.min(vj + 1, LAST)",
        "vi, T.max(vj - 1, 0)",
        "0, vj",
    ]);
    let index = index.replace("LAST", &(m - 1).to_string());
    let other = c.of(&["vi, vj", "vi, LAST - vj"]).replace("LAST", &(m - 1).to_string());
    format!(
        "def f(A: T.Buffer(({n}, {m}), \"int32\"), B: T.Buffer(({n}, {m}), \"int32\"), C: T.Buffer(({n}, {m}), \"int32\")):
    for i, j in T.grid({n}, {m}):
        with T.sblock(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[{other}] = A[vi, vj] + 1
        with T.sblock(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = B[{index}] * 2
"
    )
}

/// Generates blocks whose input is overwritten later, or whose output is read earlier.
fn overwritten(c: &mut Choices) -> String {
    let n = c.of(&[3, 4, 6, 12]);
    let (read, last) = (c.of(&["vi", "LAST - vi", "T.max(vi - 1, 0)"]), n - 1);
    let read = read.replace("LAST", &last.to_string());
    let between = c.of(&["A[vi] = A[vi] + 3", "A[vi] = C[vi]", "D[vi] = A[vi]", "C[vi] = A[vi] * 2"]);
    format!(
        "def f(A: T.Buffer(({n},), \"int32\"), C: T.Buffer(({n},), \"int32\"), D: T.Buffer(({n},), \"int32\")):
    B = T.sblock_alloc_buffer(({n},), \"int32\")
    for i in range({n}):
        with T.sblock(\"B\"):
            vi = T.axis.spatial({n}, i)
            B[vi] = A[{read}] + 1
    for i in range({n}):
        with T.sblock(\"X\"):
            vi = T.axis.spatial({n}, i)
            {between}
    for i in range({n}):
        with T.sblock(\"D\"):
            vi = T.axis.spatial({n}, i)
            D[vi] = B[vi] * C[vi]
"
    )
}

/// Generates a sum and the block that reads it in the same loop.
fn sums_in_a_loop(c: &mut Choices) -> String {
    let (n, m) = (c.of(&[3, 4, 6]), c.of(&[1, 3, 4]));
    let index = c.of(&["vi", "T.max(vi - 1, 0)", "0"]);
    let sum = format!(
        "        for k in range({m}):
            with T.sblock(\"S\"):
                vi, vk = T.axis.remap(\"SR\", [i, k])
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + A[vi, vk]
"
    );
    let reader = format!(
        "        with T.sblock(\"D\"):
            vi = T.axis.spatial({n}, i)
            D[vi] = S[{index}] + 1
"
    );
    let content = if c.below(3) == 0 { reader + &sum } else { sum + &reader };
    format!(
        "def f(A: T.Buffer(({n}, {m}), \"int32\"), S: T.Buffer(({n},), \"int32\"), D: T.Buffer(({n},), \"int32\")):
    for i in range({n}):
{content}"
    )
}
