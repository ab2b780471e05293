"""Reference results of the operators of `relax.vision` and `relax.image.grid_sample`, and of index_put, reverse_sequence and
attention of variable lengths, written as plain loops."""

import itertools
import math

import numpy as np


def grid_sample(data, grid, method, padding, corners):
    """Samples like `torch.nn.functional.grid_sample`, with axis 1 of `grid` as the coordinate."""
    sizes = data.shape[2:]
    count = len(sizes)
    wide = np.float64 if np.float64 in (data.dtype, grid.dtype) else np.float32
    out = np.zeros(data.shape[:2] + grid.shape[2:], wide)

    def reflected(at, size):
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        if low <= at <= high:
            return at
        if high == low:
            return low
        period = 2 * (high - low)
        rest = math.fmod(abs(at - low), period)
        return low + min(rest, period - rest)

    def kept(at, size):
        if padding == "reflection":
            at = reflected(at, size)
        return at if padding == "zeros" else min(max(at, 0.0), size - 1.0)

    def element(n, c, index):
        index = [kept(at, size) for at, size in zip(index, sizes)]
        if any(not 0 <= at < size for at, size in zip(index, sizes)):
            return wide(0)
        return data[(n, c, *(int(at) for at in index))].astype(wide)

    def cubic(t):
        a = -0.75
        far = lambda t: ((t * a - 5 * a) * t + 8 * a) * t - 4 * a
        near = lambda t: ((a + 2) * t - (a + 3)) * t * t + 1
        return [(-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))]

    for n, c, *place in np.ndindex(*out.shape):
        at = []
        for axis, size in enumerate(sizes):
            g = float(grid[(n, count - 1 - axis, *place)])
            at.append((g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2)
        if method == "nearest":
            out[(n, c, *place)] = element(n, c, [np.rint(kept(one, size)) for one, size in zip(at, sizes)])
            continue
        if method == "bilinear":
            at = [kept(one, size) for one, size in zip(at, sizes)]
        floors = [math.floor(one) for one in at]
        taps = [
            cubic(one - low) if method == "bicubic" else [(0, 1 - (one - low)), (1, one - low)]
            for one, low in zip(at, floors)
        ]
        total = 0.0
        for parts in itertools.product(*taps):
            weight = math.prod(weight for _, weight in parts)
            total += weight * float(element(n, c, [low + by for low, (by, _) in zip(floors, parts)]))
        out[(n, c, *place)] = total
    return out.astype(data.dtype)


def index_put(data, indices, values, accumulate):
    out = data.copy()
    shape = np.broadcast_shapes(*(index.shape for index in indices))
    indices = [np.broadcast_to(index, shape) for index in indices]
    values = np.broadcast_to(values, shape)
    for k in np.ndindex(*shape):
        place = tuple(int(index[k]) for index in indices)
        out[place] = out[place] + values[k] if accumulate else values[k]
    return out


def reverse_sequence(x, lengths, time, batch):
    out = x.copy()
    time, batch = time % x.ndim, batch % x.ndim
    for i in np.ndindex(*x.shape):
        length = min(int(lengths[i[batch]]), x.shape[time])
        if i[time] < length:
            index = list(i)
            index[time] = length - 1 - i[time]
            out[i] = x[tuple(index)]
    return out


def roi_align(x, rois, pooled, scale, ratio=-1, aligned=False, layout="NCHW", mode="avg"):
    if layout == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    height, width = x.shape[2:]
    out = np.zeros((len(rois), x.shape[1], *pooled), np.float64)

    def sample(image, y, at):
        if y < -1 or at < -1 or y > height or at > width:
            return np.zeros(x.shape[1])
        y, at = min(max(y, 0), height - 1), min(max(at, 0), width - 1)
        top, left = int(y), int(at)
        bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
        down, across = y - top, at - left
        row = lambda r: x[image, :, r, left] * (1 - across) + x[image, :, r, right] * across
        return row(top) * (1 - down) + row(bottom) * down

    for n, roi in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = roi[1:] * scale
        sizes = [bottom - top, right - left]
        if not aligned:
            sizes = [max(size, 1.0) for size in sizes]
        cells = [size / count for size, count in zip(sizes, pooled)]
        counts = [ratio if ratio > 0 else math.ceil(cell) for cell in cells]
        for ph, pw in np.ndindex(*pooled):
            values = []
            for ky, kx in np.ndindex(*(max(count, 0) for count in counts)):
                y = top + ph * cells[0] + (ky + 0.5) * cells[0] / counts[0]
                at = left + pw * cells[1] + (kx + 0.5) * cells[1] / counts[1]
                values.append(sample(int(roi[0]), y, at))
            if values:
                out[n, :, ph, pw] = np.mean(values, axis=0) if mode == "avg" else np.max(values, axis=0)
    out = out.astype(x.dtype)
    return out.transpose(0, 2, 3, 1) if layout == "NHWC" else out


def roi_pool(x, rois, pooled, scale):
    height, width = x.shape[2:]
    out = np.zeros((len(rois), x.shape[1], *pooled), x.dtype)
    rounded = lambda at: math.floor(at + 0.5) if at >= 0 else math.ceil(at - 0.5)
    for n, roi in enumerate(rois.astype(np.float32)):
        left, top, right, bottom = (rounded(at) for at in roi[1:] * np.float32(scale))
        cells = [np.float32(max(end - start + 1, 1)) / np.float32(count) for start, end, count in [(top, bottom, pooled[0]), (left, right, pooled[1])]]
        for ph, pw in np.ndindex(*pooled):
            part = x[int(roi[0])]
            for axis, (k, start, size) in enumerate([(ph, top, height), (pw, left, width)]):
                low = min(max(math.floor(np.float32(k) * cells[axis]) + start, 0), size)
                high = min(max(math.ceil(np.float32(k + 1) * cells[axis]) + start, 0), size)
                part = part[:, low:high] if axis == 0 else part[:, :, low:high]
            if part.size:
                out[n, :, ph, pw] = part.max(axis=(1, 2))
    return out


def overlap(a, b):
    dtype = a.dtype.type
    a, b = ([min(p[0], p[2]), min(p[1], p[3]), max(p[0], p[2]), max(p[1], p[3])] for p in (a, b))
    w = max(dtype(0), min(a[2], b[2]) - max(a[0], b[0]))
    h = max(dtype(0), min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h
    return w * h / union if union > 0 else dtype(0)


def by_score(scores):
    """Returns the order by descending score; NaN comes last."""
    return sorted(range(len(scores)), key=lambda k: (np.isnan(scores[k]), -scores[k] if not np.isnan(scores[k]) else 0.0, k))


def all_classes(boxes, scores, most, iou, least):
    """Returns the chosen boxes of each batch and class."""
    chosen = {}
    for b, c in np.ndindex(*scores.shape[:2]):
        kept = []
        for k in by_score(scores[b, c]):
            if len(kept) < most and iou > 0 and scores[b, c, k] > least:
                if all(overlap(boxes[b, other], boxes[b, k]) < iou for other in kept):
                    kept.append(k)
        chosen[b, c] = kept
    return chosen


def all_classes_onnx(*args):
    rows = [(b, c, k) for (b, c), kept in all_classes(*args).items() for k in kept]
    return np.array(rows, np.int64).reshape(-1, 3), np.array([len(rows)], np.int64)


def all_classes_tensorflow(boxes, scores, *limits):
    batch, classes, n = scores.shape
    indices, out = np.zeros((batch, classes * n, 2), np.int64), np.zeros((batch, classes * n), np.float32)
    totals = np.zeros(batch, np.int64)
    for (b, c), kept in all_classes(boxes, scores, *limits).items():
        for k in kept:
            indices[b, totals[b]], out[b, totals[b]] = (c, k), scores[b, c, k]
            totals[b] += 1
    return indices, out, totals


def valid_counts(data, threshold, id_index, score_index):
    counts, out = np.zeros(len(data), np.int32), np.full(data.shape, -1, data.dtype)
    indices = np.full(data.shape[:2], -1, np.int32)
    for b, rows in enumerate(data):
        for k, row in enumerate(rows):
            if row[score_index] > data.dtype.type(threshold) and (id_index < 0 or row[id_index] >= 0):
                out[b, counts[b]], indices[b, counts[b]] = row, k
                counts[b] += 1
    return counts, out, indices


def suppression(data, counts, indices, most=-1, iou=0.5, force=False, top=-1, start=2, score=1, id=0, return_indices=True,
                to_bottom=False, sigma=0.0, threshold=0.0):  # fmt: skip
    dtype = data.dtype.type
    out = np.full(data.shape, -1, data.dtype)
    chosen_indices, totals = np.full(data.shape[:2], -1, np.int32), np.zeros((len(data), 1), np.int32)
    for b, rows in enumerate(data):
        n = int(counts[b])
        order = by_score(rows[:n, score])[: top if 0 < top < n else n]
        meets = lambda a, k: force or id < 0 or rows[a, id] == rows[k, id]
        if sigma > 0:
            left, scores, kept = list(order), {k: rows[k, score] for k in order}, []
            at = 0
            while at < len(left) and (most <= 0 or at < most):
                candidates = [p for p in range(at, len(left)) if scores[left[p]] > dtype(threshold)]
                if not candidates:
                    break
                best = max(candidates, key=lambda p: (scores[left[p]], -p))
                left[at], left[best] = left[best], left[at]
                for k in left[at + 1 :]:
                    if scores[k] > dtype(threshold) and meets(left[at], k):
                        over = overlap(rows[left[at], start : start + 4], rows[k, start : start + 4])
                        scale = dtype(-0.5 / sigma)
                        scores[k] = -np.inf if over >= dtype(iou) else scores[k] * np.exp(scale * over * over)
                at += 1
            for p, k in enumerate(left[:at]):
                out[b, p] = rows[k]
                out[b, p, score] = scores[k]
                chosen_indices[b, p] = indices[b, k]
            totals[b] = at
            continue
        kept, removed = [], set()
        for p, k in enumerate(order):
            if k in removed or not rows[k, score] > 0 or (0 < most <= len(kept)):
                continue
            kept.append((p, k))
            for other in order[p + 1 :]:
                if meets(k, other) and overlap(rows[k, start : start + 4], rows[other, start : start + 4]) >= dtype(iou):
                    removed.add(other)
        for at, (p, k) in enumerate(kept):
            out[b, at if to_bottom else p] = rows[k]
            chosen_indices[b, at] = indices[b, k]
        totals[b] = len(kept)
    if not return_indices:
        return (out,)
    return (out, chosen_indices, totals) if sigma > 0 else (chosen_indices, totals)


def multibox(classes, offsets, anchor, clip, threshold, variances, background, softmax):
    batch, _, n = classes.shape
    offsets = offsets.reshape(batch, n, 4).astype(np.float64) * np.array(variances)
    left, top, right, bottom = (anchor[0, :, k].astype(np.float64) for k in range(4))
    x, y = offsets[..., 0] * (right - left) + (left + right) / 2, offsets[..., 1] * (bottom - top) + (top + bottom) / 2
    w, h = np.exp(offsets[..., 2]) * (right - left) / 2, np.exp(offsets[..., 3]) * (bottom - top) / 2
    boxes = np.stack([y - h, x - w, y + h, x + w], axis=-1)
    scores = classes.astype(np.float64)
    if softmax:
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores = scores / scores.sum(axis=1, keepdims=True)
    scores = scores * (scores >= threshold)
    if not background:
        scores[:, 0] = 0
    return (np.clip(boxes, 0, 1) if clip else boxes).astype(classes.dtype), scores.astype(classes.dtype)


def var_len(q, k, v, starts_q, starts_k, scale=None, mask=None):
    out = np.zeros((*q.shape[:3], v.shape[3]), np.float64)
    group = q.shape[2] // k.shape[2]
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    for at in range(len(starts_q) - 1):
        rows, keys = slice(starts_q[at], starts_q[at + 1]), slice(starts_k[at], starts_k[at + 1])
        n, m = rows.stop - rows.start, keys.stop - keys.start
        sees = {None: np.ones((n, m)), "TopLeft": np.tril(np.ones((n, m))), "BottomRight": np.tril(np.ones((n, m)), abs(n - m))}[mask]
        for h in range(q.shape[2] if m else 0):
            logits = q[0, rows, h].astype(np.float64) @ k[0, keys, h // group].astype(np.float64).T * scale
            logits = np.where(sees > 0, logits, -np.inf)
            e = np.exp(logits - logits.max(axis=1, keepdims=True)) if n else logits
            out[0, rows, h] = e / e.sum(axis=1, keepdims=True) @ v[0, keys, h // group].astype(np.float64)
    return out.astype(q.dtype)


def samples(case, rng):
    """Adds cases of `grid_sample`: images and volumes, all methods, borders and data types."""

    def grid_case(shape, spatial, method, padding, corners, dtype="float32", grid_dtype=None, span=1.6, **more):
        x = rng.uniform(-2, 2, shape).astype(dtype)
        count = len(spatial)
        grid = rng.uniform(-span, span, (shape[0], count, *spatial)).astype(grid_dtype or dtype)
        # Positions whose values depend on rounding are left out.
        layout = "NCHW" if count == 2 else "NCDHW"
        call = f'R.image.grid_sample({{0}}, {{1}}, method="{method}", layout="{layout}", padding_mode="{padding}", align_corners={corners})'
        case(f"grid_sample {method} {padding}", call, [x, grid], grid_sample(x, grid, method, padding, corners), loose=True, **more)

    options = list(itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True]))
    for method, padding, corners in options:
        grid_case((1, 2, 3, 4), (3, 3), method, padding, corners)
        grid_case((2, 1, 2, 3, 2), (1, 2, 3), method, padding, corners)
        grid_case((1, 1, 1, 3), (2, 4), method, padding, corners, span=5.0)
        grid_case((1, 1, 4, 3), (2, 2), method, padding, corners, dtype="float64")
    for method, padding, corners in options[::2]:
        grid_case((1, 2, 3, 4), (2, 2), method, padding, corners, dtype="float16", grid_dtype="float32", span=0.9)
        grid_case((0, 2, 3, 4), (2, 2), method, padding, corners)
        grid_case((1, 2, 3, 4), (0, 2), method, padding, corners)
        grid_case((2, 2, 3, 4), (2, 3), method, padding, corners, symbolic=[("n", 2, "h", 4), ("n", 2, "k", 3)])
    grid_case((1, 2, 3, 4), (2, 2), "bilinear", "zeros", False, dtype="float16", span=0.9)
    # Halves are rounded to even after the reflection, as in PyTorch.
    x, at = np.arange(4, dtype="float32").reshape(1, 1, 1, 4), np.arange(-3, 8, 0.5, dtype="float32")
    for padding in ("zeros", "border", "reflection"):
        grid = np.stack([(2 * at + 1) / 4 - 1, np.zeros_like(at)]).reshape(1, 2, 1, -1).astype("float32")
        call = f'R.image.grid_sample({{0}}, {{1}}, method="nearest", padding_mode="{padding}")'
        case(f"grid_sample halves {padding}", call, [x, grid], grid_sample(x, grid, "nearest", padding, False))
    case("grid_sample layout", 'R.image.grid_sample({0}, {1}, layout="NHWC")', [x, grid], refused=True)
    case("grid_sample method", 'R.image.grid_sample({0}, {1}, method="cubic")', [x, grid], refused=True)


def indices(case, rng):
    """Adds cases of `index_put` and `reverse_sequence`."""

    def put(shape, each, values, accumulate, dtype="float32", **more):
        x = rng.integers(-9, 9, shape).astype(dtype)
        each = [np.asarray(index) for index in each]
        values = rng.integers(-9, 9, values).astype(dtype)
        names = ", ".join(f"{{{k + 1}}}" for k in range(len(each)))
        comma = "," if len(each) == 1 else ""
        call = f"R.index_put({{0}}, ({names}{comma}), {{{len(each) + 1}}}, accumulate={accumulate})"
        case("index_put", call, [x, *each, values], index_put(x, each, values, accumulate), **more)

    for accumulate in (False, True):
        put((4, 5), [[0, 2, 3], [1, 4, 0]], (3,), accumulate)
        put((4, 5), [[0, -1, 0, 0], [1, -5, 1, 1]], (4,), accumulate)
        put((4, 5), [[[0], [2]], [[1, 3, 1]]], (2, 3), accumulate)
        put((4, 5), [[[0], [2]], [[1, 3, 1]]], (3,), accumulate)
        put((4, 5), [np.zeros((0,), "int64"), np.zeros((0,), "int64")], (0,), accumulate)
        put((4,), [[1, 1, 3, -4]], (4,), accumulate, dtype="int32")
        put((2, 3, 2), [[0, 1], [2], [1, 0]], (2,), accumulate, dtype="float64")
        put((4, 5), [np.array([0, 1], "int32"), np.array([3, 3], "int64")], (2,), accumulate)
        put((4, 5), [[0, 2, 3], [1, 4, 0]], (3,), accumulate, symbolic=[("n", 5), ("k",), ("k",), ("k",)])
        put((2, 2), [[0, 1, 1], [1, 1, 1]], (1,), accumulate, dtype="float16")
    x, one = np.zeros((2, 3), "float32"), np.ones(1, "float32")
    case("index_put single", "R.index_put({0}, {1}, {2})", [x[0], np.array([2]), one], index_put(x[0], [np.array([2])], one, False))
    for bad in (2, -3):
        case("index_put beyond", "R.index_put({0}, ({1}, {2}), {3})", [x, np.array([bad]), np.array([0]), one], refused=True)
    case("index_put count", "R.index_put({0}, ({1},), {2})", [x, np.array([0]), one], refused=True)

    def reverse(shape, lengths, time, batch, dtype="float32", of="int64", **more):
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        lengths = np.array(lengths, of)
        call = f"R.reverse_sequence({{0}}, {{1}}, seq_axis={time}, batch_axis={batch})"
        case("reverse_sequence", call, [x, lengths], reverse_sequence(x, lengths, time, batch), **more)

    reverse((3, 4), [0, 4, 2], 1, 0)
    reverse((4, 3), [1, 3, 4], 0, 1, of="int32")
    reverse((2, 3, 4), [2, 3], 1, 0, dtype="int8")
    reverse((2, 3, 4), [4, 0, 3], -1, -2, dtype="bool")
    reverse((3, 4), [7, 5, -1], 1, 0)
    reverse((0, 4), [], 1, 0)
    reverse((3, 0), [0, 0, 0], 1, 0)
    reverse((3, 4), [0, 4, 2], 1, 0, dtype="float16", symbolic=[("n", "m"), ("n",)])
    case("reverse_sequence lengths", "R.reverse_sequence({0}, {1})", [np.zeros((3, 4), "float32"), np.array([1, 2])], refused=True)


def regions(case, rng):
    """Adds cases of pooling over regions: inside, across and outside of the image, empty, and none at all."""
    usual = [[0, 0.5, 1, 3, 4], [0, -3, -2, 9, 8], [0, 2, 2, 2, 2], [0, 6, 5, 1, 0.5], [0, 30, 30, 40, 40], [0, -0.9, 3.2, 5.4, 6.9]]
    far = [[0, -40, -40, 50, 60], [0, 1, -100, 2, 3]]
    for mode, aligned, ratio in itertools.product(("avg", "max"), (False, True), (-1, 0, 1, 3)):
        for layout in ("NCHW", "NHWC"):
            x = rng.uniform(-2, 2, (1, 2, 4, 5)).astype("float32")
            x = x.transpose(0, 2, 3, 1).copy() if layout == "NHWC" else x
            for rois, pooled, scale in [(usual[:3], (2, 3), 1.0), (usual[3:], (1, 2), 0.5), (far, (2, 2), 1.0)]:
                rois = np.array(rois, "float32")
                expected = roi_align(x, rois, pooled, scale, ratio, aligned, layout, mode)
                call = f'R.vision.roi_align({{0}}, {{1}}, pooled_size={list(pooled)}, spatial_scale={scale}, sample_ratio={ratio}, aligned={aligned}, layout="{layout}", mode="{mode}")'
                case(f"roi_align {mode}", call, [x, rois], expected)
    x = rng.uniform(-2, 2, (2, 2, 4, 5)).astype("float32")
    several = np.array([[1, 0, 0, 3, 3], [0, 1, 1, 4, 2]], "float32")
    calls = [
        ("roi_align", "R.vision.roi_align({0}, {1}, pooled_size=[2, 2], spatial_scale=1.0)", lambda x, r: roi_align(x, r, (2, 2), 1.0)),
        ("roi_pool", "R.vision.roi_pool({0}, {1}, pooled_size=[2, 2], spatial_scale=1.0)", lambda x, r: roi_pool(x, r, (2, 2), 1.0)),
    ]
    for name, call, reference in calls:
        case(f"{name} images", call, [x, several], reference(x, several))
        case(f"{name} symbolic", call, [x, several], reference(x, several), symbolic=[("n", "c", "h", "w"), ("r", 5)])
        case(f"{name} none", call, [x, several[:0]], reference(x, several[:0]))
        case(f"{name} no image", call, [x[:0], several[:0]], reference(x[:0], several[:0]))
        case(f"{name} half", call, [x.astype("float16"), several.astype("float16")], reference(x.astype("float16"), several))
        case(f"{name} double", call, [x.astype("float64"), several.astype("float64")], reference(x.astype("float64"), several))
        case(f"{name} beyond", call, [x, np.array([[2, 0, 0, 3, 3]], "float32")], refused=True)
    x = rng.uniform(-2, 2, (1, 2, 4, 5)).astype("float32")
    for rois, pooled, scale in [(usual[:3], (2, 3), 1.0), (usual[3:], (1, 2), 0.5), (usual[:2], (4, 3), 0.25), (far, (2, 2), 1.0)]:
        rois = np.array(rois, "float32")
        call = f"R.vision.roi_pool({{0}}, {{1}}, pooled_size={list(pooled)}, spatial_scale={scale})"
        case("roi_pool", call, [x, rois], roi_pool(x, rois, pooled, scale))


def boxes(case, rng):
    """Adds cases of the suppression of boxes, and of their scores."""

    def random_boxes(*shape):
        first = rng.uniform(0, 4, (*shape, 2))
        return np.concatenate([first, first + rng.uniform(0.5, 4, (*shape, 2))], -1).astype("float32")

    def rows(batch, n, classes=2, dtype="float32", scores=None):
        if scores is None:
            scores = rng.permutation(batch * n).reshape(batch, n) / (batch * n) + 0.01
        ids = rng.integers(0, classes, (batch, n))
        return np.concatenate([np.stack([ids, scores], -1), random_boxes(batch, n)], -1).astype(dtype)

    nan = np.array([[0.3, np.nan, 0.9, np.nan, 0.5, 0.5]])
    tied = np.array([[0.5, 0.5, 0.25, 0.5, 0.25, -0.5]])
    tables = [rows(1, 6), rows(2, 5), rows(1, 6, scores=nan), rows(1, 6, scores=tied), rows(0, 3), rows(2, 0), rows(1, 6, dtype="float64")]
    for data in tables:
        dims = data.shape
        for options in [{}, {"score_threshold": 0.3}, {"id_index": -1, "score_threshold": 0.26}]:
            call = f"R.vision.get_valid_counts({{0}}{''.join(f', {key}={value}' for key, value in options.items())})"
            expected = valid_counts(data, options.get("score_threshold", 0.0), options.get("id_index", 0), 1)
            case("get_valid_counts", call, [data], *expected)
        indices = np.broadcast_to(np.arange(dims[1], dtype="int32") * 10, dims[:2]).copy()
        for full, options in itertools.product((True, False), [
            {}, {"force_suppress": True}, {"iou_threshold": 0.2, "id_index": -1}, {"max_output_size": 2}, {"top_k": 3, "iou_threshold": 0.3},
            {"return_indices": False}, {"return_indices": False, "invalid_to_bottom": True, "force_suppress": True},
            {"soft_nms_sigma": 0.5}, {"soft_nms_sigma": 0.3, "force_suppress": True, "score_threshold": 0.2}, {"soft_nms_sigma": 0.5, "max_output_size": 2, "iou_threshold": 0.4},
            {"soft_nms_sigma": 0.5, "return_indices": False},
        ]):  # fmt: skip
            counts = np.full(dims[0], dims[1] if full else dims[1] // 2, "int32")
            names = {"max_output_size": "most", "iou_threshold": "iou", "force_suppress": "force", "top_k": "top", "id_index": "id", "invalid_to_bottom": "to_bottom", "soft_nms_sigma": "sigma", "score_threshold": "threshold"}
            expected = suppression(data, counts, indices, **{names.get(key, key): value for key, value in options.items()})
            call = f"R.vision.non_max_suppression({{0}}, {{1}}, {{2}}{''.join(f', {key}={value}' for key, value in options.items())})"
            case("non_max_suppression", call, [data, counts, indices], *expected, loose=True)
    data = rows(2, 4)
    indices, counts = np.tile(np.arange(4, dtype="int32"), (2, 1)), np.array([4, 3], "int32")
    symbolic = [("n", "k", 6), ("n",), ("n", "k")]
    for options in ({}, {"sigma": 0.5}):
        call = "R.vision.non_max_suppression({0}, {1}, {2}" + (", soft_nms_sigma=0.5)" if options else ")")
        case("non_max_suppression symbolic", call, [data, counts, indices], *suppression(data, counts, indices, **options), symbolic=symbolic, loose=True)
    case("get_valid_counts symbolic", "R.vision.get_valid_counts({0})", [data], *valid_counts(data, 0.0, 0, 1), symbolic=[("n", "k", 6)])
    all_class_cases(case, rng, random_boxes)
    decoded_cases(case, rng)


def all_class_cases(case, rng, random_boxes):
    number = lambda value, dtype="float32": np.array(value, dtype)
    for (batch, classes, n), most, iou, least in [
        ((1, 2, 6), 3, 0.5, 0.0), ((2, 2, 4), 10, 0.2, 0.4), ((1, 1, 6), 0, 0.5, 0.0), ((1, 2, 5), 3, 0.0, 0.0), ((1, 2, 5), 4, 0.4, 2.0),
        ((0, 2, 3), 3, 0.5, 0.0), ((1, 0, 3), 3, 0.5, 0.0), ((2, 1, 0), 3, 0.5, 0.0), ((1, 2, 6), 5, 0.3, -1.0),
    ]:  # fmt: skip
        corners = random_boxes(batch, n)
        corners[:, ::2] = corners[:, ::2][..., [2, 1, 0, 3]]
        scores = rng.permutation(batch * classes * n).reshape(batch, classes, n).astype("float32") / 10 - (0.5 if least < 0 else 0)
        limits = [number(most, "int64"), number(iou), number(least)]
        for kind, reference in [("tensorflow", all_classes_tensorflow), ("onnx", all_classes_onnx)]:
            call = f'R.vision.all_class_non_max_suppression({{0}}, {{1}}, {{2}}, {{3}}, {{4}}, output_format="{kind}")'
            expected = reference(corners, scores, most, np.float32(iou), np.float32(least))
            case(f"all_class_nms {kind}", call, [corners, scores, *limits], *expected, foldable=False)
    corners, scores = random_boxes(2, 3), rng.uniform(0, 1, (2, 2, 3)).astype("float32")
    scores[0, 0, 1] = np.nan
    limits = [number([2], "int64"), number([0.5]), number([0.1])]
    call = 'R.vision.all_class_non_max_suppression({0}, {1}, {2}, {3}, {4}, output_format="tensorflow")'
    expected = all_classes_tensorflow(corners, scores, 2, np.float32(0.5), np.float32(0.1))
    case("all_class_nms nan", call, [corners, scores, *limits], *expected, symbolic=[("n", "k", 4), ("n", "c", "k"), (1,), (1,), (1,)])


def decoded_cases(case, rng):
    for options in itertools.product((False, True), (0.0, 0.4), ((1.0, 1.0, 1.0, 1.0), (0.1, 0.1, 0.2, 0.2)), (True, False), (True, False)):
        classes, offsets = rng.uniform(-1, 2, (2, 2, 3)).astype("float32"), rng.uniform(-1, 1, (2, 12)).astype("float32")
        first = rng.uniform(0, 0.6, (1, 3, 2))
        anchor = np.concatenate([first, first + rng.uniform(0.1, 0.4, (1, 3, 2))], -1).astype("float32")
        clip, threshold, variances, background, softmax = options
        call = f"R.vision.multibox_transform_loc({{0}}, {{1}}, {{2}}, clip={clip}, threshold={threshold}, variances={list(variances)}, keep_background={background}, apply_softmax={softmax})"
        case("multibox", call, [classes, offsets, anchor], *multibox(classes, offsets, anchor, *options))
    empty = [np.zeros((0, 2, 3), "float32"), np.zeros((0, 12), "float32"), anchor]
    case("multibox none", "R.vision.multibox_transform_loc({0}, {1}, {2})", empty, empty[0][:, 0, :, None].repeat(4, -1), empty[0])


def sequences(case, rng):
    """Adds cases of attention of sequences of various lengths."""
    for starts_q, starts_k, heads, groups in [
        ([0, 2, 5], [0, 2, 5], 2, 1), ([0, 0, 3, 3], [0, 1, 4, 4], 1, 1), ([0, 4], [0, 2], 2, 2), ([0, 2, 4], [0, 4, 6], 2, 1), ([0, 2], [0, 0], 1, 1),
    ]:  # fmt: skip
        for scale, mask, extra in itertools.product((None, 0.7), (None, "TopLeft", "BottomRight"), (0, 1)):
            q = rng.uniform(-1, 1, (1, starts_q[-1] + extra, heads, 2)).astype("float32")
            k = rng.uniform(-1, 1, (1, starts_k[-1] + extra, heads // groups, 2)).astype("float32")
            v = rng.uniform(-1, 1, (1, starts_k[-1] + extra, heads // groups, 3)).astype("float32")
            a, b = np.array(starts_q, "int32"), np.array(starts_k, "int32")
            call = f"R.nn.attention_var_len({{0}}, {{1}}, {{2}}, {{3}}, {{4}}, {{5}}, {{6}}, scale={scale}, causal_mask={repr(mask).replace(chr(39), chr(34))})"
            lengths = [np.array(np.diff(starts).max(), "int32") for starts in (a, b)]
            case("attention_var_len", call, [q, k, v, a, b, *lengths], var_len(q, k, v, a, b, scale, mask))


def add(case):
    rng = np.random.default_rng(43)
    for table in (samples, indices, regions, boxes, sequences):
        table(case, rng)
