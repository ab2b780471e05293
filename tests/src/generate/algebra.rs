//! Generates Relax functions with operator groups that algebra and fusion passes look for: products with a common
//! factor, convolutions with scales, chains of reshapes.

use super::Choices;
use plugin_api::prelude::*;
use plugin_api::tvm::FunctionBuilder;

type F<'m, 'i> = FunctionBuilder<'m, 'i>;

/// The parameters that the groups use.
struct Params {
    /// Shape (4, 16).
    x: V,
    /// Shape (16, 8) each.
    weights: [V; 2],
    /// Shape (16, 64), and indices of its columns.
    table: V,
    indices: V,
    /// Shapes (1, 3, 8, 8) and (4, 3, 3, 3), with a scale for each input and output channel.
    image: V,
    kernel: V,
    scales: [V; 2],
    /// Shape (16,) each.
    gamma: V,
    beta: V,
    /// Shape ().
    s: V,
}

/// Writes one function with some of the groups, usually in a dataflow block.
pub(super) fn function(c: &Choices<'_>, b: &F<'_, '_>) {
    let n = b.sym("n");
    b.param("rows", Type::tensor(vec![n, Dim::Int(16)], DType::F32));
    let p = Params::new(b);
    let result = if c.one_in(4) {
        let groups = groups(c, b, &p);
        b.tuple(&groups)
    } else {
        let outputs = b.dataflow(|b| {
            let groups = groups(c, b, &p);
            groups.into_iter().map(|v| b.emit_output(v)).collect::<Vec<V>>()
        });
        b.tuple(&outputs)
    };
    b.emit_func_output(result);
}

impl Params {
    fn new(b: &F<'_, '_>) -> Params {
        let tensor = |name: &str, shape: &[i64]| b.param(name, Type::tensor(shape.to_vec(), DType::F32));
        Params {
            x: tensor("x", &[4, 16]),
            weights: ["w0", "w1"].map(|name| tensor(name, &[16, 8])),
            table: tensor("table", &[16, 64]),
            indices: b.param("i", Type::tensor([8i64], DType::I64)),
            image: tensor("image", &[1, 3, 8, 8]),
            kernel: tensor("kernel", &[4, 3, 3, 3]),
            scales: [tensor("scale_in", &[1, 3, 1, 1]), tensor("scale_out", &[1, 4, 1, 1])],
            gamma: tensor("gamma", &[16]),
            beta: tensor("beta", &[16]),
            s: tensor("s", &[]),
        }
    }
}

fn groups(c: &Choices<'_>, b: &F<'_, '_>, p: &Params) -> Vec<V> {
    (0..2 + c.below(4)).map(|_| b.emit(group(c, b, p))).collect()
}

fn group(c: &Choices<'_>, b: &F<'_, '_>, p: &Params) -> V {
    let product = |weight: V| b.call("relax.matmul", &[p.x, weight]);
    let conv2d = |image: V| b.call("relax.nn.conv2d", &[image, p.kernel]);
    match c.below(12) {
        0 => b.call("relax.add", &p.weights.map(product)),
        1 => product(b.call("relax.add", &p.weights)),
        2 => product(b.call_with("relax.take", &[p.table, p.indices], &[("axis", Attr::Int(1))])),
        3 => {
            let turned = b.tuple(&p.weights.map(|weight| b.call("relax.permute_dims", &[weight])));
            b.call_with("relax.concat", &[turned], &[("axis", Attr::Int(c.within(0, 1)))])
        }
        4 => {
            let to = |v: V, shape: &[i64]| {
                let shape: Vec<Dim> = shape.iter().map(|extent| Dim::Int(*extent)).collect();
                b.call("relax.reshape", &[v, b.shape(&shape)])
            };
            let last = to(to(p.x, &[16, 4]), &[64]);
            if c.coin() { b.call("relax.exp", &[last]) } else { last }
        }
        5 => {
            let attrs = [("axes", Attr::from(vec![-1i64]))];
            b.call_with("relax.nn.layer_norm", &[p.x, p.gamma, p.beta], &attrs)
        }
        6 => b.call("relax.add", &[b.call("relax.multiply", &[p.x, p.x]), p.x]),
        7 => b.call("relax.multiply", &[conv2d(p.image), p.scales[1]]),
        8 => conv2d(b.call("relax.multiply", &[p.image, p.scales[0]])),
        9 => b.call("relax.nn.relu", &[conv2d(p.image)]),
        10 => {
            let [first, second] = p.weights;
            b.call("relax.matmul", &[product(first), b.call("relax.permute_dims", &[second])])
        }
        _ => {
            let args = [p.x, p.gamma, p.beta, p.gamma, p.beta];
            let all = b.emit(b.call_with("relax.nn.batch_norm", &args, &[("axis", Attr::Int(1))]));
            b.call("relax.multiply", &[b.get(all, 0), p.s])
        }
    }
}
