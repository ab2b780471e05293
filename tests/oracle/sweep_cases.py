"""Cases for `sweep.py`: calls, arguments, and the expected results from NumPy or from the operator's definition."""

import itertools

import numpy as np

import vision_cases

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
FLOATS = ["float16", "float32", "float64"]
NUMBERS = INTS + FLOATS
ALL = NUMBERS + ["bool"]
ROI = "roi=[T.float32(0.0), T.float32(0.0), T.float32(0.0), T.float32(0.0)]"
ROI6 = "roi=[" + ", ".join(["T.float32(0.0)"] * 6) + "]"

CASES = []
RNG = np.random.default_rng(7)


class Case:
    def __init__(self, name, call, inputs, expected, symbolic=None, foldable=True, loose=False):
        self.name, self.call, self.inputs = name, call, inputs
        self.expected = None if expected is None else [np.asarray(each) for each in expected]
        self.symbolic, self.foldable, self.loose = symbolic, foldable, loose

    def shapes(self):
        return self.symbolic or [array.shape for array in self.inputs]

    def rtol(self, dtype):
        return {2: 4e-3, 4: 3e-5, 8: 1e-9 if not self.loose else 3e-5}[dtype.itemsize]


def case(name, call, inputs, *expected, refused=False, **more):
    number = sum(each.name.startswith(name + "#") for each in CASES)
    CASES.append(Case(f"{name}#{number}", call, [np.asarray(each) for each in inputs], None if refused else expected, **more))


def special(dtype, small=False):
    """Returns the extremes of a data type and numbers around 0."""
    if dtype == "bool":
        return np.array([False, True, True, False, True, False])
    if dtype in FLOATS:
        most = np.finfo(dtype).max
        return np.array([0.0, -0.0, 1.5, -2.5, 0.5, -0.5, most, -most, np.inf, -np.inf, np.nan, 3.7], dtype)
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, info.min, info.min + 1]
    return np.array([value for value in values if not small or abs(value) < 8], dtype)


def pairs(dtype):
    a = special(dtype)
    left, right = np.meshgrid(a, a)
    return left.ravel(), right.ravel()


def random(shape, dtype):
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return RNG.uniform(-2, 2, shape).astype(dtype)
    return RNG.integers(0 if dtype in UNSIGNED else -9, 10, shape).astype(dtype)


def unary():
    for dtype in ALL:
        x = special(dtype)
        is_float, is_bool = dtype in FLOATS, dtype == "bool"
        with np.errstate(all="ignore"):
            case(f"abs {dtype}", "R.abs({0})", [x], np.abs(x))
            case(f"square {dtype}", "R.square({0})", [x], x & x if is_bool else x * x)
            if is_bool:
                case(f"negative {dtype}", "R.negative({0})", [x], refused=True)
                case(f"sign {dtype}", "R.sign({0})", [x], x)
                case("logical_not bool", "R.logical_not({0})", [x], ~x)
            else:
                case(f"negative {dtype}", "R.negative({0})", [x], -x)
                kept = x[~np.isnan(x)] if is_float else x
                case(f"sign {dtype}", "R.sign({0})", [kept], np.sign(kept))
            if not is_float:
                case(f"bitwise_not {dtype}", "R.bitwise_not({0})", [x], ~x)
            case(f"relu {dtype}", "R.nn.relu({0})", [x[~np.isnan(x)] if is_float else x], np.maximum(x[~np.isnan(x)] if is_float else x, np.zeros((), dtype)))
            for name, f in [("ceil", np.ceil), ("floor", np.floor), ("round", np.rint), ("trunc", np.trunc)]:
                case(f"{name} {dtype}", f"R.{name}({{0}})", [x], f(x) if is_float else x)
            for name, f in [("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)]:
                case(f"{name} {dtype}", f"R.{name}({{0}})", [x], f(x))
        if not is_bool:
            low, high = (-3, 5)
            for low, high in [(-3, 5), (0, 300), (2, 7), (-1000, -1)]:
                kept = x[~np.isnan(x)] if is_float else x
                bounds = (low, high) if is_float else tuple(np.clip([low, high], max(np.iinfo(dtype).min, -2**62), min(np.iinfo(dtype).max, 2**62)).astype(dtype))
                case(f"clip {dtype}", f"R.clip({{0}}, {low}, {high})", [kept], np.clip(kept, *bounds).astype(dtype))
        for to in ALL:
            fits = x
            if is_float:
                fits = np.array([0.0, 1.7, 2.2, 100.9, 5.0], dtype) if to in INTS else x
                if to in SIGNED:
                    fits = np.array([-1.7, 0.9, -100.2, 99.9], dtype)
            with np.errstate(all="ignore"):
                case(f"astype {dtype} {to}", f'R.astype({{0}}, dtype="{to}")', [fits], fits.astype(to))
    for name in "exp log sqrt rsqrt sigmoid sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf".split():
        x = np.array([0.1, 0.5, 0.9], "int32")
        case(f"{name} int32", f"R.{name}({{0}})", [x], refused=True)


def integer_power(a, b, dtype):
    def of(a, b):
        a, b = int(a), int(b)
        if b < 0:
            return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)
        return pow(a, b, 1 << (8 * np.dtype(dtype).itemsize))

    return np.array([of(*each) for each in zip(a, b)], object).astype("object")


def wrapped(values, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    half = 1 << (bits - 1)
    out = [int(value) % (1 << bits) for value in values]
    if dtype in SIGNED:
        out = [value - (1 << bits) if value >= half else value for value in out]
    return np.array(out, dtype)


def binary():
    for dtype in ALL:
        a, b = pairs(dtype)
        is_float, is_bool = dtype in FLOATS, dtype == "bool"
        with np.errstate(all="ignore"):
            case(f"add {dtype}", "R.add({0}, {1})", [a, b], a + b)
            case(f"multiply {dtype}", "R.multiply({0}, {1})", [a, b], a * b)
            case(f"subtract {dtype}", "R.subtract({0}, {1})", [a, b], a ^ b if is_bool else a - b)
            kept = ~(np.isnan(a) | np.isnan(b)) if is_float else np.ones(a.shape, bool)
            case(f"maximum {dtype}", "R.maximum({0}, {1})", [a[kept], b[kept]], np.maximum(a[kept], b[kept]))
            case(f"minimum {dtype}", "R.minimum({0}, {1})", [a[kept], b[kept]], np.minimum(a[kept], b[kept]))
            for name in "equal not_equal less less_equal greater greater_equal".split():
                case(f"{name} {dtype}", f"R.{name}({{0}}, {{1}})", [a, b], getattr(np, name)(a, b))
            kept = b != 0
            if is_bool:
                case("floor_divide bool", "R.floor_divide({0}, {1})", [a[kept], b[kept]], a[kept])
                case("floor_mod bool", "R.floor_mod({0}, {1})", [a[kept], b[kept]], np.zeros(a[kept].shape, bool))
                case("mod bool", "R.mod({0}, {1})", [a[kept], b[kept]], np.zeros(a[kept].shape, bool))
                case("divide bool", "R.divide({0}, {1})", [a[kept], b[kept]], a[kept])
                for name in "logical_and logical_or logical_xor".split():
                    case(f"{name} bool", f"R.{name}({{0}}, {{1}})", [a, b], getattr(np, name)(a, b))
            elif not is_float:
                lowest = np.iinfo(dtype).min
                kept &= ~((a == lowest) & (b == np.array(-1).astype(dtype)) & (dtype in SIGNED))
                x, y = a[kept], b[kept]
                case(f"floor_divide {dtype}", "R.floor_divide({0}, {1})", [x, y], x // y)
                case(f"floor_mod {dtype}", "R.floor_mod({0}, {1})", [x, y], x % y)
                case(f"mod {dtype}", "R.mod({0}, {1})", [x, y], np.fmod(x, y))
                exact = [int(abs(int(p)) // abs(int(q))) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, y)]
                case(f"divide {dtype}", "R.divide({0}, {1})", [x, y], np.array(exact, object).astype(dtype))
                case(f"power {dtype}", "R.power({0}, {1})", [a, b], wrapped(integer_power(a, b, dtype), dtype))
                bits = 8 * np.dtype(dtype).itemsize
                distance = (np.abs(b.astype("float64")) % bits).astype(dtype)
                case(f"left_shift {dtype}", "R.left_shift({0}, {1})", [a, distance], a << distance)
                case(f"right_shift {dtype}", "R.right_shift({0}, {1})", [a, distance], a >> distance)
            if not is_float:
                for name in "bitwise_and bitwise_or bitwise_xor".split():
                    case(f"{name} {dtype}", f"R.{name}({{0}}, {{1}})", [a, b], getattr(np, name)(a, b))
        x, y = random((3, 1, 4), dtype), random((2, 1), dtype)
        case(f"add broadcast {dtype}", "R.add({0}, {1})", [x, y], x + y, symbolic=[("n", 1, 4), (2, 1)])
        x, y = random((0, 4), dtype), random((4,), dtype)
        case(f"multiply empty {dtype}", "R.multiply({0}, {1})", [x, y], x * y, symbolic=[("n", 4), (4,)])
        c = random((6,), "bool")
        x, y = random((6,), dtype), random((6,), dtype)
        case(f"where {dtype}", "R.where({0}, {1}, {2})", [c, x, y], np.where(c, x, y))


def reductions():
    shapes = [(3, 4), (1, 5), (3, 0), (0, 4), (0, 0), (200, 3)]
    for dtype, shape in itertools.product(ALL, shapes):
        x = random(shape, dtype)
        for axis, keep in [(None, False), (1, True), (0, False)]:
            at = f"axis={'None' if axis is None else [axis]}, keepdims={keep}"
            made = lambda f: np.asarray(f(axis=axis, keepdims=keep))
            symbolic = [("n", shape[1])] if 0 not in shape and axis != 0 and axis is not None else None
            if dtype == "bool":
                case(f"sum {dtype} {shape}", f"R.sum({{0}}, {at})", [x], made(x.any), symbolic=symbolic)
                case(f"prod {dtype} {shape}", f"R.prod({{0}}, {at})", [x], made(x.all), symbolic=symbolic)
            elif dtype in FLOATS:
                wide = x.astype("float64")
                if dtype != "float16" or x.size < 50:
                    case(f"sum {dtype} {shape}", f"R.sum({{0}}, {at})", [x], made(wide.sum).astype(dtype), symbolic=symbolic, loose=True)
            else:
                case(f"sum {dtype} {shape}", f"R.sum({{0}}, {at})", [x], made(lambda **m: x.sum(dtype=dtype, **m)), symbolic=symbolic)
                case(f"prod {dtype} {shape}", f"R.prod({{0}}, {at})", [x], made(lambda **m: x.prod(dtype=dtype, **m)), symbolic=symbolic)
            try:
                largest, smallest = made(x.max), made(x.min)
                case(f"max {dtype} {shape}", f"R.max({{0}}, {at})", [x], largest, symbolic=symbolic)
                case(f"min {dtype} {shape}", f"R.min({{0}}, {at})", [x], smallest, symbolic=symbolic)
                if axis is not None:
                    place = np.asarray(x.argmax(axis=axis, keepdims=keep), "int64")
                    case(f"argmax {dtype} {shape}", f"R.argmax({{0}}, axis={axis}, keepdims={keep})", [x], place)
            except ValueError:
                if made(x.sum).size == 0:
                    # NumPy rejects these as well, although the tensors are empty.
                    case(f"max {dtype} {shape}", f"R.max({{0}}, {at})", [x], made(x.any).astype(dtype))
                    continue
                case(f"max {dtype} {shape}", f"R.max({{0}}, {at})", [x], refused=True)
                case(f"min {dtype} {shape}", f"R.min({{0}}, {at})", [x], refused=True)
                case(f"argmax {dtype} {shape}", f"R.argmax({{0}}, axis={axis}, keepdims={keep})", [x], refused=True)
            means(x, axis, keep, at, f"{dtype} {shape}", symbolic)
    for dtype in ALL:
        for shape, axis in [((3, 4), 1), ((0, 3), 0), ((1, 1), 0)]:
            x = random(shape, dtype)
            wide = "bool" if dtype == "bool" else dtype
            if dtype == "bool":
                sums, products = np.logical_or.accumulate(x, axis), np.logical_and.accumulate(x, axis)
            else:
                sums, products = x.cumsum(axis, dtype=wide), x.cumprod(axis, dtype=wide)
            case(f"cumsum {dtype}", f"R.cumsum({{0}}, axis={axis})", [x], sums)
            case(f"cumprod {dtype}", f"R.cumprod({{0}}, axis={axis})", [x], products)
            case(f"cumsum to {dtype}", f'R.cumsum({{0}}, axis={axis}, dtype="int64")', [x.astype("int8")], x.astype("int8").cumsum(axis, dtype="int64"))
    for dtype in INTS + ["bool"]:
        lowest, highest = special(dtype).min(), special(dtype).max()
        case(f"max extreme {dtype}", "R.max({0})", [np.array([lowest, lowest])], lowest)
        case(f"min extreme {dtype}", "R.min({0})", [np.array([highest, highest])], highest)


def means(x, axis, keep, at, name, symbolic):
    with np.errstate(all="ignore"):
        count = x.size if axis is None else x.shape[axis]
        is_float = x.dtype.kind == "f"
        if is_float:
            if x.dtype == "float16" and x.size > 50:
                return
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mean = np.asarray(x.astype("float64").mean(axis=axis, keepdims=keep)).astype(x.dtype)
            case(f"mean {name}", f"R.mean({{0}}, {at})", [x], mean, symbolic=symbolic, loose=True)
            return
        total = np.asarray(x.astype("int64").sum(axis=axis, keepdims=keep))
        if count == 0:
            if total.size:
                case(f"mean {name}", f"R.mean({{0}}, {at})", [x], refused=True)
            return
        case(f"mean {name}", f"R.mean({{0}}, {at})", [x], np.trunc(total / count).astype("int64").astype(x.dtype), symbolic=symbolic)


def products():
    for dtype in ALL:
        pairs = [((3, 4), (4, 5)), ((3, 0), (0, 4)), ((0, 4), (4, 2)), ((0,), (0,)), ((2, 3, 0), (2, 0, 4)), ((2, 1, 3, 4), (3, 4, 1)), ((4,), (4, 2))]
        for a, b in pairs:
            x, y = random(a, dtype), random(b, dtype)
            symbolic = [("n", *a[1:]), b] if len(a) == 2 else None
            case(f"matmul {dtype}", "R.matmul({0}, {1})", [x, y], x @ y, symbolic=symbolic)
        for a, b, how in [((3, 0), (0, 4), "ij,jk->ik"), ((2, 3), (2, 3), "ij,ij->i"), ((2, 0), (2, 0), "ij,ij->")]:
            x, y = random(a, dtype), random(b, dtype)
            if dtype != "bool":
                case(f"einsum {dtype}", f'R.einsum(({{0}}, {{1}}), subscripts="{how}")', [x, y], np.asarray(np.einsum(how, x, y)).astype(dtype))


def subscripts():
    some = [((2, 3, 4), (2, 4, 2), "...ij,...jk->...ik"), ((2, 1, 3), (4, 3), "...i,...i->..."), ((2, 3), (4, 2, 3), "...,...->..."), ((2, 3), (4, 3), "ij,...j->...i")]
    for a, b, how in [*some, ((2, 3), (3, 2), "ij,jk"), ((3, 2), (2, 3), "b...,...a"), ((2, 3), (3,), "...j,j"), ((2, 2), (2,), "ii,i->i")]:
        x, y = random(a, "int32"), random(b, "int32")
        case(f"einsum {how}", f'R.einsum(({{0}}, {{1}}), subscripts="{how}")', [x, y], np.einsum(how, x, y))
    x = random((2, 3), "int32")
    case("einsum of one", 'R.einsum(({0},), subscripts="ba")', [x], np.einsum("ba", x))


def squeezes():
    """Adds cases in which a listed axis remains because it is longer than 1."""
    for shape, axes, result in [((2, 4, 1), [0, 2], (2, 4)), ((2, 4, 1), [1], (2, 4, 1)), ((1, 3, 1), [-1], (1, 3)), ((1, 1), None, ()), ((1, 2, 1), [0, 1, 2], (2,))]:
        x = random(shape, "int32")
        case(f"squeeze {axes}", f"R.squeeze({{0}}, axis={axes})", [x], x.reshape(result))


def medians():
    for dtype in ("float32", "float64"):
        nan = np.nan
        for row in [[3, nan, 1], [nan, nan, nan, nan], [nan, 2], [np.inf, 1, -np.inf], [5, 1, 5, 5, 1]]:
            x = np.array([row, row[::-1]], dtype)
            lower = np.sort(x, axis=1)[:, (len(row) - 1) // 2]
            case(f"median {dtype}", "R.median({0}, axis=None)", [x[0]], np.array(nan if np.isnan(x[0]).any() else lower[0], dtype))


def extremes_of_infinities():
    """Adds cases with infinities; TVM starts reductions at the lowest finite value and at index -1."""
    for dtype in ("float16", "float32", "float64"):
        most, inf = np.finfo(dtype).max, np.inf
        for values in [[-inf, -inf, -inf], [inf, inf], [most, most], [-most, -most], [-inf, 1, -inf], [inf, -inf]]:
            x = np.array([values], dtype)
            for name in ("max", "min", "argmax", "argmin"):
                out = np.asarray(getattr(x, name)(axis=1))
                case(f"{name} {dtype} infinities", f"R.{name}({{0}}, axis=1)", [x], out.astype("int64") if "arg" in name else out)
    x = np.full((1, 1, 3, 3), -np.inf, "float32")
    case("max_pool2d infinities", "R.nn.max_pool2d({0}, pool_size=(2, 2), padding=(1, 1))", [x], np.full((1, 1, 4, 4), -np.inf, "float32"))


def sums_of_powers():
    for dtype in ("float32", "float64"):
        x = np.array([1000, -1000, 0, np.inf, -np.inf, np.inf, -np.inf, 1, 88.5, -104], dtype)
        y = np.array([1000, -1000, 0, 1, 2, np.inf, -np.inf, -np.inf, 0, -104], dtype)
        case(f"log_add_exp {dtype}", "R.log_add_exp({0}, {1})", [x, y], np.logaddexp(x, y).astype(dtype), symbolic=[("n",), ("n",)])


def slices():
    x = random((5, 7), "float32")
    for begin, end, step in itertools.product([-9, -2, 0, 3, 9], [-9, -2, 0, 4, 9], [-2, -1, 1, 3]):
        def place(bound):
            bound = bound + 7 if bound < 0 else bound
            return min(max(bound, 0), 7) if step > 0 else min(max(bound, -1), 6)

        picked = x[:, list(range(place(begin), place(end), step))]
        for symbolic in (None, [(5, "n")]):
            case("strided_slice", f"R.strided_slice({{0}}, (1,), ({begin},), ({end},), ({step},))", [x], picked, symbolic=symbolic)
        case("arange", f'R.arange({begin}, {end}, {step}, dtype="int64")', [], np.arange(begin, end, step))
    for shape, to, result in [((2, 3, 4), "(0, 12)", (2, 12)), ((2, 3, 4), "(-1,)", (24,)), ((2, 3, 4), "(0, -1, 2)", (2, 6, 2)), ((0, 4), "(-1, 2)", (0, 2)), ((4, 0), "(0, 8)", (0, 8))]:
        x = random(shape, "int8")
        case("reshape", f"R.reshape({{0}}, {to})", [x], x.reshape(result), symbolic=[("n", *shape[1:])] if shape[0] == 2 else None)


def uniques():
    tables = [np.array([3, 1, 3, 2, 1, 0, 3]), np.array([2.5, -1.0, 2.5, 0.0]), np.array([True, False, True]), np.zeros(0, "int64"), np.array([5])]
    tables += [np.array([[1, 0], [0, 1], [1, 0], [0, 0]]), np.array([[2, 2, 1], [2, 2, 1]])]
    for x in tables:
        for axis in [None] if x.ndim == 1 else [None, 0, 1, -1]:
            values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
            inverse = inverse.ravel()
            for is_sorted in (True, False):
                order = np.arange(len(index)) if is_sorted else np.argsort(index, kind="stable")
                rank = np.empty(len(order), "int64")
                rank[order] = np.arange(len(order))
                sorted_values = np.take(values, order, axis=0 if axis is None else axis)
                last = "" if axis is None else f", {axis}"
                all_of = [sorted_values, index[order], rank[inverse] if len(rank) else inverse, counts[order]]
                case("unique", f"R.unique({{0}}, {is_sorted}, True, True, True{last})", [x], *all_of, foldable=False)
                case("unique", f"R.unique({{0}}, {is_sorted}, False, False, False{last})", [x], sorted_values, foldable=False)
                case("unique", f"R.unique({{0}}, {is_sorted}, False, True, False{last})", [x], all_of[0], all_of[2], foldable=False)


def conv_transposed(x, w, strides, dilation, before, after, more, groups):
    n = x.ndim - 2
    inputs, outputs = w.shape[:2]
    sizes = [(x.shape[2 + k] - 1) * strides[k] + (w.shape[2 + k] - 1) * dilation[k] + 1 for k in range(n)]
    full = np.zeros((x.shape[0], outputs * groups, *[size + extra for size, extra in zip(sizes, more)]))
    per = inputs // groups
    for place in np.ndindex(*x.shape[2:]):
        for k in np.ndindex(*w.shape[2:]):
            at = tuple(p * s + q * d for p, s, q, d in zip(place, strides, k, dilation))
            for group in range(groups):
                part = x[(slice(None), slice(group * per, group * per + per), *place)] @ w[(slice(group * per, group * per + per), slice(None), *k)]
                full[(slice(None), slice(group * outputs, group * outputs + outputs), *at)] += part
    return full[(slice(None), slice(None), *[slice(b, full.shape[2 + k] - a) for k, (b, a) in enumerate(zip(before, after))])]


def windows():
    for n in (1, 2, 3):
        for dilation, stride, groups, more, pad in [(2, 1, 1, 0, 0), (2, 2, 1, 1, 1), (3, 2, 2, 0, 1), (1, 3, 2, 2, 0), (2, 1, 4, 0, 2)]:
            x, w = random((2, 4, *(5, 4, 3)[:n]), "float32"), random((4, 3, *(3, 2, 2)[:n]), "float32")
            call = f"R.nn.conv{n}d_transpose({{0}}, {{1}}, strides={[stride] * n}, padding={[pad] * 2 * n}, output_padding={[more] * n}, dilation={[dilation] * n}, groups={groups})"
            out = conv_transposed(x.astype("float64"), w.astype("float64"), [stride] * n, [dilation] * n, [pad] * n, [pad] * n, [more] * n, groups)
            if all(extent > 0 for extent in out.shape):
                case(f"conv{n}d_transpose", call, [x, w], out.astype("float32"), loose=True)
        for layout in (0, 1):
            for from_, to in [((7, 5, 6), (3, 2, 4)), ((4, 4, 4), (3, 4, 1)), ((2, 3, 2), (5, 4, 3))]:
                from_, to = from_[:n], to[:n]
                x = random((2, 3, *from_), "float32")
                out = np.zeros((2, 3, *to))
                for place in np.ndindex(*to):
                    window = tuple(slice(p * f // t, -(-((p + 1) * f) // t)) for p, f, t in zip(place, from_, to))
                    out[(slice(None), slice(None), *place)] = x[(slice(None), slice(None), *window)].mean(axis=tuple(range(2, 2 + n)), dtype="float64")
                letters = ["NCW", "NCHW", "NCDHW"][n - 1]
                name = letters if layout == 0 else letters[0] + letters[2:] + "C"
                data, out = (x, out) if layout == 0 else (np.moveaxis(x, 1, -1), np.moveaxis(out, 1, -1))
                symbolic = [("n", *data.shape[1:])]
                case(f"adaptive_avg_pool{n}d", f'R.nn.adaptive_avg_pool{n}d({{0}}, output_size={list(to)}, layout="{name}")', [np.ascontiguousarray(data)], out.astype("float32"), symbolic=symbolic, loose=True)
    x, w = random((1, 0, 5, 5), "float32"), random((3, 0, 3, 3), "float32")
    case("conv2d empty", "R.nn.conv2d({0}, {1})", [x, w], np.zeros((1, 3, 3, 3), "float32"))
    case("conv1d empty", "R.nn.conv1d({0}, {1})", [random((0, 2, 5), "float32"), random((3, 2, 3), "float32")], np.zeros((0, 3, 3), "float32"))


def place_of(i, from_, to, mode):
    if mode == "align_corners":
        return 0.0 if to == 1 else i * (from_ - 1) / (to - 1)
    if mode == "asymmetric":
        return i * from_ / to
    if mode == "pytorch_half_pixel" and to == 1:
        return 0.0
    return (i + 0.5) * from_ / to - (0.0 if mode == "tf_half_pixel_for_nn" else 0.5)


def cubic_matrix(from_, to, mode, alpha, excludes):
    out = np.zeros((to, from_))
    for i in range(to):
        place = place_of(i, from_, to, mode)
        before = int(np.floor(place))
        weights = []
        for k in range(4):
            d = abs(place - (before - 1 + k))
            weight = (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1 if d <= 1 else alpha * (d**3 - 5 * d**2 + 8 * d - 4)
            inside = 0 <= before - 1 + k < from_
            weights.append(0.0 if excludes and not inside else weight)
        weights = np.array(weights) / (sum(weights) if excludes else 1.0)
        for k, weight in enumerate(weights):
            out[i, min(max(before - 1 + k, 0), from_ - 1)] += weight
    return out


def images():
    modes = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
    for mode, alpha, excludes, (from_, to) in itertools.product(modes, [-0.75, -0.5], [0, 1], [((5, 6), (8, 9)), ((6, 4), (3, 1)), ((4, 4), (4, 4))]):
        x = random((1, 2, *from_), "float32")
        rows, columns = (cubic_matrix(f, t, mode, alpha, excludes) for f, t in zip(from_, to))
        out = np.einsum("ay,bx,ncyx->ncab", rows, columns, x.astype("float64")).astype("float32")
        more = f'{ROI}, method="cubic", coordinate_transformation_mode="{mode}", cubic_alpha={alpha}, cubic_exclude={excludes}'
        case(f"resize2d cubic {mode}", f"R.image.resize2d({{0}}, R.shape({list(to)}), {more})", [x], out, loose=True)
        if alpha == -0.75 and not excludes:
            data = np.ascontiguousarray(np.moveaxis(x, 1, -1))
            case(f"resize2d cubic NHWC {mode}", f'R.image.resize2d({{0}}, R.shape({list(to)}), {more}, layout="NHWC")', [data], np.moveaxis(out, 1, -1), loose=True)
    x = random((1, 2, 3, 4, 5), "float32")
    to = (4, 3, 7)
    each = [cubic_matrix(f, t, "half_pixel", -0.75, 0) for f, t in zip(x.shape[2:], to)]
    out = np.einsum("az,by,cx,ndzyx->ndabc", *each, x.astype("float64")).astype("float32")
    case("resize3d cubic", f'R.image.resize3d({{0}}, R.shape({list(to)}), {ROI6}, method="cubic")', [x], out, loose=True)


def attention():
    for heads, keys, batch, causal in itertools.product([8, 4], [1, 2, 4], [1, 2], ["None", '"TopLeft"']):
        q, k, v = random((batch, 5, heads, 8), "float32"), random((batch, 5, keys, 8), "float32"), random((batch, 5, keys, 6), "float32")
        wide = [np.repeat(each, heads // keys, axis=2).astype("float64") for each in (k, v)]
        scores = np.einsum("bshd,bthd->bhst", q.astype("float64"), wide[0]) / np.sqrt(8)
        if causal != "None":
            scores = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        out = np.einsum("bhst,bthd->bshd", scores / scores.sum(-1, keepdims=True), wide[1]).astype("float32")
        symbolic = [("n", *q.shape[1:]), ("n", *k.shape[1:]), ("n", *v.shape[1:])]
        case("attention grouped", f"R.nn.attention({{0}}, {{1}}, {{2}}, causal_mask={causal})", [q, k, v], out, symbolic=symbolic, loose=True)
    q, k = random((1, 5, 8, 8), "float32"), random((1, 5, 3, 8), "float32")
    case("attention groups that do not divide", "R.nn.attention({0}, {1}, {2})", [q, k, k], refused=True)


def samples():
    p = np.array([[0.2, 0.3, 0.5], [0.25, 0.5, 0.25]], "float32")
    u, i = np.array([[0.1], [0.4], [0.9], [0.99], [0.0]], "float32"), np.array([[0], [0], [1], [0], [1]])
    out = [[int(np.sum(np.cumsum(p[row[0]]) <= sample[0]))] for sample, row in zip(u, i)]
    for dtype in ("int64", "int32"):
        case("multinomial_from_uniform", f'R.multinomial_from_uniform({{0}}, {{1}}, {{2}}, dtype="{dtype}")', [p, u, i], np.array(out, dtype))


def mirrors():
    """Adds cases whose padding reflects elements more than once."""
    x = np.array([1, 2, 3], "float32")
    for pad in [(5, 7), (2, 3), (4, 0), (1, 9), (2, 2)]:
        case("pad reflect", f'R.nn.pad({{0}}, pad_width={list(pad)}, pad_mode="reflect")', [x], np.pad(x, pad, mode="reflect"))
    x = np.array([4], "float32")
    case("pad reflect one", 'R.nn.pad({0}, pad_width=[2, 1], pad_mode="reflect")', [x], np.pad(x, (2, 1), mode="reflect"))


def medians_over_axes():
    x = (np.arange(27)[::-1] * 7 % 11).reshape(3, 3, 3)
    for dtype in ("float32", "int32"):
        for axes in [(0, 1), (1, 2), (0, 2), (-1, 0), (2, 1), (0, 1, 2)]:
            out = np.median(x, axis=axes).astype(dtype)
            case(f"median axes {dtype}", f"R.median({{0}}, axis={list(axes)})", [x.astype(dtype)], out)
        out = np.median(x, axis=(0, 2), keepdims=True).astype(dtype)
        case(f"median axes {dtype}", "R.median({0}, axis=[0, 2], keepdims=True)", [x.astype(dtype)], out)
    nan = x.astype("float32")
    nan[1, 2, 0] = np.nan
    case("median axes nan", "R.median({0}, axis=[1, 2])", [nan], np.median(nan, axis=(1, 2)))


def views():
    x = np.array([1, 2.5, -3, 0.5], "float32")
    case("view dtype", 'R.memory.view({0}, dtype="int32")', [x], x.view("int32"))
    case("view shape", "R.memory.view({0}, (2, 2))", [x], x.reshape(2, 2))
    case("view narrow", 'R.memory.view({0}, dtype="float16")', [x], x.view("float16")[:4])
    case("view offset", "R.memory.view({0}, (2,), relative_byte_offset=8)", [x], x[2:])
    case("view beyond", "R.memory.view({0}, (4,), relative_byte_offset=8)", [x], refused=True)


def shorthands():
    x, w, b = np.array([[1, -1]], "float32"), np.array([[1, 2], [3, 4], [5, 6]], "float32"), np.array([0.5, 0, -1], "float32")
    case("linear", "R.linear({0}, {1}, {2})", [x, w, b], x @ w.T + b)
    x = np.array([-1, 3, 8], "float32")
    case("relu6", "R.nn.relu6({0})", [x], np.clip(x, 0, 6))
    case("split negative", "R.split({0}, [-2])", [x], refused=True)
    case("meshgrid of one", "R.meshgrid(({0},))", [x], x)


for table in (unary, binary, reductions, products, slices, uniques, windows, images, attention, samples, subscripts, squeezes, medians, extremes_of_infinities, sums_of_powers, mirrors, medians_over_axes, views, shorthands):
    table()

vision_cases.add(case)
