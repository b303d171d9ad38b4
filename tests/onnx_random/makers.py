# SPDX-License-Identifier: Apache-2.0
"""What random graphs consist of: each function adds one node, or a pattern of some, to a Graph."""
import numpy as np

from graph import BF16, BOOL, F16, F32, F64, FLOATS, I32, I64, I8, INTS, U8, Reject, onnx_type

UNARY = ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round Sign Sin Sinh Sqrt "
         "Tan Tanh Relu Sigmoid Softplus Softsign HardSwish Elu Selu Celu LeakyRelu HardSigmoid ThresholdedRelu Mish "
         "Shrink Gelu").split()


def unary(g):
    op = g.choice(UNARY)
    attributes = {}
    if op in ("Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu") and g.coin():
        attributes["alpha"] = g.choice([0.1, 0.7, 1.5])
    if op == "Celu" and g.coin():
        attributes["alpha"] = 2.0
    if op == "Shrink":
        attributes = {"lambd": 0.4, "bias": g.choice([0.0, 0.2])}
    if op == "Gelu":
        attributes["approximate"] = g.choice(["none", "tanh"])
    dtypes = FLOATS + (I32, I64) if op in ("Abs", "Neg", "Sign", "Relu") else FLOATS
    # ONNX Runtime has the 1/6 of HardSwish in f32 even here.
    value = g.pick(dtypes if op != "HardSwish" else (F32, F16, BF16))
    if op in ("Log", "Sqrt") and g.coin(0.8):
        value = g.add("Abs", [value])
    if op in ("Exp", "Sinh", "Cosh") and g.coin(0.3):
        value = g.add("Tanh", [value])
    g.add(op, [value], **attributes)


def binary(g):
    op = g.choice("Add Add Add Sub Sub Mul Mul Mul Div Pow Max Min Mean Sum PRelu Mod".split())
    a = g.pick(FLOATS + (I64, I32) if op not in ("Pow", "Mean", "Sum", "PRelu") else FLOATS)
    b = g.partner(a)
    if op == "PRelu":
        b = g.constant(g.array([1 if g.coin() else d for d in a.shape[1:]], a.dtype))
    if op in ("Div", "Mod") and any((x == 0).any() for x in b.arrays):
        raise Reject("zero")
    if op == "Pow":
        a = g.add("Abs", [a])
        b = g.constant(np.array(g.choice([0.5, 2, 3, -1, 1.5]), a.dtype)) if g.coin() else b
    if op in ("Max", "Min", "Mean", "Sum") and g.coin(0.3):
        g.add(op, [a, b, g.partner(a)])
    elif op == "Mod":
        g.add(op, [a, b], fmod=1 if a.dtype in FLOATS else g.up(0, 1))
    elif op != "PRelu" and g.coin():
        g.add(op, [b, a] if op not in ("Div", "Mod") or (np.asarray(a.arrays[0]) != 0).all()
              and (np.asarray(a.arrays[1]) != 0).all() else [a, b])
    else:
        g.add(op, [a, b])


def compare(g):
    a = g.pick(FLOATS + (I64, I32))
    g.add(g.choice(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]), [a, g.partner(a)])


def logic(g):
    a = g.pick((BOOL,))
    if g.coin(0.3):
        g.add("Not", [a])
    else:
        g.add(g.choice(["And", "Or", "Xor"]), [a, g.partner(a)])


def bits(g):
    a = g.pick((I32, I64, U8))
    op = g.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    if a.dtype == U8 and g.coin():
        shifts = g.constant(g.array(a.shape[-1:] if not a.is_open() else [], U8) % 8)
        g.add("BitShift", [a, shifts], direction=g.choice(["LEFT", "RIGHT"]))
    else:
        g.add(op, [a] if op == "BitwiseNot" else [a, g.partner(a)])


def where(g):
    a = g.pick(FLOATS + (I64, I32))
    g.add("Where", [g.partner(a, BOOL), a, g.partner(a)])


def clip(g):
    a = g.pick(FLOATS + (I64, I32))
    low, high = g.constant(np.array(-1, a.dtype)), g.constant(np.array(2, a.dtype))
    g.add("Clip", g.choice([[a, low, high], [a, low], [a, None, high]]))


def cast(g):
    a = g.pick(FLOATS + INTS + (BOOL,))
    to = g.choice([F32, F32, F32, F16, BF16, F64, I64, I32, I8, U8, BOOL])
    g.add("Cast", [a], to=onnx_type(to))


def test_float(g):
    g.add(g.choice(["IsNaN", "IsInf"]), [g.pick((F32, F64, F16))])


def matmul(g):
    a = g.pick((F32, F64, F16, BF16, I32), (1, 5))
    found = [v for v in g.values.values() if v.dtype == a.dtype and v.rank > 1 and v.shape[-2] == a.shape[-1]]
    if found and g.coin(0.6):
        b = g.choice(found)
    elif a.is_open(a.rank - 1):
        b = g.add("Transpose", [a], perm=[*range(a.rank - 2), a.rank - 1, a.rank - 2]) if a.rank > 1 else a
    else:
        columns = [g.size(129)] if g.coin(0.9) else []
        batch = [1 if a.is_open(i) or g.coin(0.4) else d for i, d in enumerate(a.shape[:-2])] if columns else []
        batch = batch[g.up(0, len(batch)):]
        if g.coin(0.1) and columns:
            batch = [2] + batch if len(batch) == max(0, a.rank - 2) else batch
        b = g.operand([*batch, a.shape[-1], *columns], a.dtype)
    g.add("MatMul", [a, b])


def gemm(g):
    a = g.pick(FLOATS, (2, 2))
    attributes = {}
    trans_a = g.coin(0.3)
    k_axis, m_axis = (0, 1) if trans_a else (1, 0)
    if a.is_open(k_axis):
        raise Reject("open k")
    trans_b = g.coin()
    n = g.size(129)
    k = a.shape[k_axis]
    b = g.operand([n, k] if trans_b else [k, n], a.dtype)
    if trans_a:
        attributes["transA"] = 1
    if trans_b:
        attributes["transB"] = 1
    if g.coin(0.3):
        attributes["alpha"] = 0.5
    if g.coin(0.3):
        attributes["beta"] = 2.0
    inputs = [a, b]
    if g.coin(0.7):
        m = 1 if a.is_open(m_axis) else a.shape[m_axis]
        inputs.append(g.operand(g.choice([[n], [1, n], [m, 1], [m, n], [1], [], [1, 1]]), a.dtype))
    g.add("Gemm", inputs, **attributes)


def image(g, ranks=(3, 5), dtypes=(F32, F32, F16)):
    """A value with batch, channels and spatial dims."""
    if g.coin(0.3) or not any(v.dtype in dtypes and ranks[0] <= v.rank <= ranks[1] for v in g.values.values()):
        if len(g.inputs) < 4:
            rank = g.choice([r for r in (3, 4, 4, 4, 5) if ranks[0] <= r <= ranks[1]])
            spatial = [g.choice([1, 2, 3, 5, 7, 8, 15, 16, 17]) for _ in range(rank - 2)]
            open_axis = g.choice([0, 0, 2, rank - 1]) if g.open_sizes and g.coin(0.4) else None
            return g.add_input([g.choice([1, 1, 2, 3]), g.choice([1, 2, 3, 4, 6, 8, 16, 17]), *spatial], F32, open_axis)
    return g.pick(dtypes, ranks)


def window(g, a, most=4):
    """Attributes of a window that slides over the spatial dims."""
    rank = a.rank - 2
    kernel = [g.choice([1, 1, 2, 3, 3, 5]) for _ in range(rank)]
    kernel = [min(k, most) for k in kernel]
    least = np.min([x.shape[2:] for x in a.arrays], axis=0)
    kernel = [max(1, min(k, int(d))) for k, d in zip(kernel, least)]
    attributes = {"kernel_shape": kernel}
    if g.coin(0.5):
        attributes["strides"] = [g.choice([1, 2, 3]) for _ in range(rank)]
    if g.coin(0.3):
        attributes["dilations"] = [g.choice([1, 2, 3]) if (k - 1) * 3 < d else 1 for k, d in zip(kernel, least)]
    how = g.up(0, 4)
    if how == 0:
        attributes["auto_pad"] = g.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif how < 3:
        attributes["pads"] = [g.up(0, k // 2 + (how == 2)) for k in kernel * 2]
    return attributes


def conv(g):
    a = image(g)
    channels = a.shape[1]
    if a.is_open(1) or channels == 0:
        raise Reject("open channels")
    groups = g.choice([d for d in range(1, channels + 1) if channels % d == 0]) if g.coin(0.4) else 1
    if g.coin(0.2):
        groups = channels
    attributes = window(g, a, 5)
    if groups > 1:
        attributes["group"] = groups
    if g.coin():
        m = groups * g.choice([1, 2, 3]) if groups > 1 else g.choice([1, 2, 3, 7, 8, 16, 17, 33])
        weights = g.operand([m, channels // groups, *attributes["kernel_shape"]], a.dtype)
    else:
        m = groups * g.choice([1, 1, 2, 4])
        weights = g.constant(g.array([m, channels // groups, *attributes["kernel_shape"]], a.dtype))
    if g.coin(0.3):
        del attributes["kernel_shape"]
    inputs = [a, weights] + ([g.operand([m], a.dtype)] if g.coin() else [])
    g.add("Conv", inputs, **attributes)


def conv_transpose(g):
    a = image(g, dtypes=(F32,))
    channels = a.shape[1]
    if a.is_open(1) or channels == 0:
        raise Reject("open channels")
    groups = g.choice([d for d in range(1, channels + 1) if channels % d == 0]) if g.coin(0.4) else 1
    attributes = window(g, a, 3)
    if groups > 1:
        attributes["group"] = groups
    m = g.choice([1, 2, 3, 5])
    weights = g.operand([channels, m, *attributes["kernel_shape"]], a.dtype)
    if "strides" in attributes and g.coin(0.4):
        attributes["output_padding"] = [g.up(0, s - 1) for s in attributes["strides"]]
    # Where less is written than SAME has room for, ONNX Runtime makes the result smaller than ONNX says.
    if attributes.get("auto_pad", "").startswith("SAME") and any(
            s > k for s, k in zip(attributes.get("strides", []), attributes["kernel_shape"])):
        raise Reject("SAME")
    g.add("ConvTranspose", [a, weights] + ([g.operand([m * groups], a.dtype)] if g.coin() else []), **attributes)


def pool(g):
    op = g.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"])
    a = image(g)
    attributes = window(g, a, 5)
    if op == "LpPool" and g.opset < 18:
        attributes.pop("dilations", None)
    if op == "AveragePool" and g.opset < 19:
        attributes.pop("dilations", None)
    # ONNX Runtime sizes a dilated window that is padded to SAME otherwise than ONNX.
    if attributes.get("auto_pad", "").startswith("SAME"):
        attributes.pop("dilations", None)
    if g.coin(0.4) and not (op == "LpPool" and g.opset < 18):
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.coin():
        attributes["count_include_pad"] = 1
    if op == "LpPool":
        attributes["p"] = g.choice([1, 2, 3])
    g.add(op, [a], outputs=2 if op == "MaxPool" and g.coin(0.15) else 1, **attributes)


def global_pool(g):
    op = g.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    g.add(op, [image(g)], **({"p": g.choice([1, 2])} if op == "GlobalLpPool" else {}))


def axes_of(g, a):
    axes = [i for i in range(a.rank) if g.coin()]
    return [i - a.rank if g.coin(0.3) else i for i in axes]


def reduce(g):
    op = g.choice("ReduceSum ReduceSum ReduceMean ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
                  "ReduceLogSumExp ReduceSumSquare".split())
    floats = op in ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
    a = g.pick(FLOATS if floats else FLOATS + (I32, I64))
    if any(x.size == 0 for x in a.arrays):
        # ONNX leaves open what the mean of nothing is.
        raise Reject("empty")
    if op == "ReduceLogSum":
        a = g.add("Abs", [a])
    axes = axes_of(g, a)
    attributes = {}
    if g.coin(0.6):
        attributes["keepdims"] = g.up(0, 1)
    if op == "ReduceSum" or g.opset >= 18:
        if g.coin(0.15):
            attributes["noop_with_empty_axes"] = 1
        inputs = [a, g.ints(axes)] if axes or g.coin(0.1) else [a]
    else:
        inputs = [a]
        if axes:
            attributes["axes"] = axes
    g.add(op, inputs, **attributes)


def arg(g):
    a = g.pick((F32, F64, F16, I32), (1, 5))
    g.add(g.choice(["ArgMax", "ArgMin"]), [a], axis=g.up(-a.rank, a.rank - 1), keepdims=g.up(0, 1),
          select_last_index=g.up(0, 1))


def cumsum(g):
    a = g.pick((F32, F64, I32, I64), (1, 5))
    g.add("CumSum", [a, g.constant(np.array(g.up(-a.rank, a.rank - 1), I64))], exclusive=g.up(0, 1), reverse=g.up(0, 1))


def top_k(g):
    a = g.pick((F32, F64, I64, I32), (1, 5))
    axis = g.up(0, a.rank - 1)
    least = min(x.shape[axis] for x in a.arrays)
    k = g.up(1, max(1, least))
    g.add("TopK", [a, g.ints([k])], outputs=2, axis=axis, largest=g.up(0, 1), sorted=1)


def softmax(g):
    a = g.pick(FLOATS, (1, 5))
    attributes = {"axis": g.up(-a.rank, a.rank - 1)} if g.coin(0.7) else {}
    g.add(g.choice(["Softmax", "Softmax", "Softmax", "LogSoftmax", "Hardmax"]), [a], **attributes)


def norm(g):
    how = g.choice(["layer", "layer", "batch", "instance", "group", "lp", "lrn", "mvn", "rms", "simplified", "skip"])
    if how in ("layer", "rms", "simplified"):
        a = g.pick((F32, F16, F64), (1, 5))
        axis = g.up(0, a.rank - 1)
        if any(a.is_open(i) for i in range(axis, a.rank)):
            raise Reject("open")
        scale = g.operand(a.shape[axis:], a.dtype)
        if how == "layer":
            g.add("LayerNormalization", [a, scale] + ([g.operand(a.shape[axis:], a.dtype)] if g.coin() else []),
                  axis=axis - a.rank if g.coin() else axis, epsilon=g.choice([1e-5, 1e-2]))
        elif how == "rms":
            g.add("RMSNormalization", [a, scale], axis=axis, epsilon=1e-3)
        else:
            g.add("SimplifiedLayerNormalization", [a, scale], axis=axis, epsilon=1e-3)
        return
    if how == "skip":
        a = g.pick((F32,), (3, 3))
        if a.is_open(2):
            raise Reject("open")
        skip = g.add("Tanh", [a])
        n = a.shape[2]
        g.add("SkipLayerNormalization", [a, skip, g.operand([n]), g.operand([n])], domain="com.microsoft", epsilon=1e-4)
        return
    if how == "lp":
        a = g.pick((F32, F64), (1, 5))
        g.add("LpNormalization", [a], axis=g.up(-a.rank, a.rank - 1), p=g.choice([1, 2]))
        return
    a = image(g, (2 if how == "batch" else 3, 5), (F32,))
    c = a.shape[1]
    if a.is_open(1):
        raise Reject("open")
    vector = lambda: g.operand([c])
    if how == "batch":
        variance = g.constant(np.abs(g.array([c])) + np.float32(0.1))
        g.add("BatchNormalization", [a, vector(), vector(), vector(), variance], epsilon=g.choice([1e-5, 0.1]))
    elif how == "instance":
        # Over one element ONNX Runtime subtracts it from itself, rounded.
        if any(np.prod(x.shape[2:]) < 3 for x in a.arrays):
            raise Reject("too few")
        g.add("InstanceNormalization", [a, vector(), vector()], epsilon=1e-3)
    elif how == "group":
        groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
        n = c if g.opset >= 21 else groups
        g.add("GroupNormalization", [a, g.operand([n]), g.operand([n])], num_groups=groups, epsilon=1e-3)
    elif how == "lrn":
        # ONNX Runtime's sum slides: an infinity leaves it as NaN.
        if g.has_infinities:
            raise Reject("infinite sum")
        g.add("LRN", [a], size=g.choice([1, 2, 3, 5]), alpha=0.1, beta=0.7, bias=g.choice([1.0, 2.0]))
    else:
        g.add("MeanVarianceNormalization", [a], axes=sorted({i for i in range(a.rank) if g.coin()}) or [a.rank - 1])


def indices(g, dims, limit, dtype=None):
    if limit < 1:
        raise Reject("nothing to index")
    array = np.asarray(g.random.integers(-limit if g.coin(0.4) else 0, limit, dims)).astype(dtype or g.choice([I64, I32]))
    if g.coin(0.3) and len(g.inputs) < 5:
        value = g.add_input(list(dims), array.dtype)
        value.arrays = (array, array)
        # Nothing else may choose them: their range matters.
        del g.values[value.name]
        return value
    return g.constant(array)


def anything(g, ranks=(1, 5)):
    return g.pick((F32, F32, F64, F16, BF16, I64, I32, BOOL, U8), ranks)


def gather(g):
    a = anything(g)
    axis = g.up(0, a.rank - 1)
    limit = min(x.shape[axis] for x in a.arrays)
    how = g.up(0, 2)
    if how == 0:
        dims = [g.size(33) for _ in range(g.up(0, 2))]
        g.add("Gather", [a, indices(g, dims, limit)], axis=axis - a.rank if g.coin(0.3) else axis)
    elif how == 1:
        least = np.min([x.shape for x in a.arrays], axis=0)
        dims = [g.size(33) if i == axis else g.up(1, max(1, d)) for i, d in enumerate(least)]
        g.add("GatherElements", [a, indices(g, dims, limit)], axis=axis)
    else:
        least = np.min([x.shape for x in a.arrays], axis=0)
        batch = g.up(0, min(a.rank - 1, 2)) if not a.is_open() else 0
        depth = g.up(1, a.rank - batch)
        lead = [*a.shape[:batch], *[g.size(17) for _ in range(g.up(0 if batch else 1, 1))]]
        columns = [np.asarray(indices_array(g, lead, n)) for n in least[batch:batch + depth]]
        g.add("GatherND", [a, g.constant(np.stack(columns, -1).astype(I64))], batch_dims=batch)


def indices_array(g, dims, limit):
    if limit < 1:
        raise Reject("nothing to index")
    return g.random.integers(-limit if g.coin(0.3) else 0, limit, dims)


def scatter(g):
    a = g.pick((F32, F64, I64, I32), (1, 4))
    least = np.min([x.shape for x in a.arrays], axis=0)
    if least.min() < 1:
        raise Reject("empty")
    reduction = g.choice(["none", "none", "add", "mul"] + (["max", "min"] if g.opset >= 18 else []))
    attributes = {"reduction": reduction} if g.opset >= 16 and reduction != "none" else {}
    if g.coin():
        axis = g.up(0, a.rank - 1)
        dims = [g.up(1, int(d)) for d in least]
        n = least[axis]
        if attributes:
            where_to = g.random.integers(0, n, dims)
        else:
            where_to = np.argsort(g.random.random([*dims[:axis], n, *dims[axis + 1:]]), axis)
            where_to = np.take(where_to, range(dims[axis]), axis)
        g.add("ScatterElements", [a, g.constant(where_to.astype(I64)), g.operand(dims, a.dtype)], axis=axis, **attributes)
    else:
        depth = g.up(1, a.rank)
        if any(a.is_open(i) for i in range(depth, a.rank)):
            raise Reject("open")
        count = int(np.prod(least[:depth]))
        n = g.up(1, min(count, 9))
        flat = g.random.choice(count, n, replace=bool(attributes))
        where_to = np.stack(np.unravel_index(flat, least[:depth]), -1)
        g.add("ScatterND", [a, g.constant(where_to.astype(I64)), g.operand([n, *a.shape[depth:]], a.dtype)], **attributes)


def concat(g):
    a = anything(g)
    axis = g.up(0, a.rank - 1)
    def fits(v):
        return v.dtype == a.dtype and v.rank == a.rank and all(
            x.shape[:axis] + x.shape[axis + 1:] == y.shape[:axis] + y.shape[axis + 1:] for x, y in zip(a.arrays, v.arrays))
    parts = [a]
    for _ in range(g.up(1, 3)):
        found = [v for v in g.values.values() if fits(v)]
        if g.coin(0.6) or any(a.is_open(i) for i in range(a.rank) if i != axis):
            parts.append(g.choice(found))
        else:
            parts.append(g.operand([g.size(17) if i == axis else d for i, d in enumerate(a.shape)], a.dtype))
    g.random.shuffle(parts)
    g.add("Concat", parts, axis=axis - a.rank if g.coin(0.3) else axis)


def split(g):
    a = anything(g)
    axis = g.up(0, a.rank - 1)
    n = a.shape[axis]
    if a.is_open(axis) or n < 2:
        raise Reject("no split")
    parts = g.up(2, min(4, n))
    cuts = sorted(g.random.choice(np.arange(1, n), parts - 1, replace=False))
    sizes = [int(b - c) for b, c in zip([*cuts, n], [0, *cuts])]
    if n % parts == 0 and g.coin(0.3):
        g.add("Split", [a], outputs=parts, axis=axis, **({"num_outputs": parts} if g.opset >= 18 else {}))
    else:
        g.add("Split", [a, g.ints(sizes)], outputs=parts, axis=axis)


def slice_(g):
    a = anything(g)
    axes = [i for i in range(a.rank) if g.coin()] or [0]
    starts, ends, steps = [], [], []
    for axis in axes:
        n = a.shape[axis]
        step = g.choice([1, 1, 1, 2, 3, -1, -2])
        if step > 0:
            start, end = g.choice([0, 0, 1, g.up(0, max(0, n - 1)), -n]), g.choice([n, 1 << 40, -1, g.up(0, n)])
        else:
            start, end = g.choice([-1, n, n - 1, n - 2, 1 << 40]), g.choice([-(1 << 40), 0, -n - 1, -n])
        starts.append(start), ends.append(end), steps.append(step)
    axes = [i - a.rank if g.coin(0.2) else i for i in axes]
    g.add("Slice", [a, g.ints(starts), g.ints(ends), g.ints(axes), g.ints(steps)])


def pad(g):
    a = g.pick((F32, F32, F64, F16, I64, I32), (1, 5))
    mode = g.choice(["constant", "constant", "reflect", "edge"] + (["wrap"] if g.opset >= 19 else []))
    low = -1 if mode == "constant" else 0
    pads = [g.up(low, 3) if g.coin(0.6) else 0 for _ in range(2 * a.rank)]
    least = np.min([x.shape for x in a.arrays], axis=0)
    if mode in ("reflect", "wrap"):
        pads = [min(p, max(0, int(d) - 1)) for p, d in zip(pads, [*least, *least])]
    inputs = [a, g.ints(pads)]
    if mode == "constant" and g.coin():
        inputs.append(g.constant(np.array(g.choice([-1, 2]), a.dtype)))
    g.add("Pad", inputs, mode=mode)


def transpose(g):
    a = anything(g, (0, 5))
    g.add("Transpose", [a], **({"perm": [int(i) for i in g.random.permutation(a.rank)]} if g.coin(0.8) else {}))


def factors(g, count, most=4):
    dims = []
    while len(dims) < most - 1 and g.coin(0.7):
        d = g.choice([d for d in range(1, min(count, 200) + 1) if count % d == 0] or [1])
        dims.append(d)
        count //= max(1, d)
    dims.append(count)
    g.random.shuffle(dims)
    return dims


def reshape(g):
    a = anything(g, (0, 6))
    if a.is_open():
        axis = next(i for i in range(a.rank) if a.is_open(i))
        before, after = int(np.prod(a.shape[:axis])), int(np.prod(a.shape[axis + 1:]))
        target = g.choice([[before, -1, after], [-1, after], [before, -1], [-1], [0] * axis + [-1]])
        if axis == 0 and g.coin():
            target = [0, -1] if after != 1 or a.rank > 1 else [0]
    else:
        count = int(np.prod(a.shape))
        target = factors(g, count) if count else list(a.shape)
        target = [0 if i < a.rank and a.shape[i] == d and g.coin(0.3) else d for i, d in enumerate(target)]
        if count and g.coin(0.4):
            target[g.up(0, len(target) - 1)] = -1
        if count == 1 and g.coin(0.2):
            target = []
    g.add("Reshape", [a, g.ints(target)])


def squeeze(g):
    a = anything(g, (0, 5))
    if g.coin():
        ones = [i for i in range(a.rank) if all(x.shape[i] == 1 for x in a.arrays)]
        axes = [i - a.rank if g.coin(0.3) else i for i in ones if g.coin(0.7)]
        g.add("Squeeze", [a, g.ints(axes)] if axes else [a])
    else:
        count = g.up(1, 2)
        axes = sorted(int(i) for i in g.random.choice(a.rank + count, count, replace=False))
        g.add("Unsqueeze", [a, g.ints([i - a.rank - count if g.coin(0.2) else i for i in axes])])


def flatten(g):
    a = anything(g, (0, 5))
    g.add("Flatten", [a], axis=g.up(0, a.rank))


def expand(g):
    a = anything(g, (0, 4))
    how = g.up(0, 2)
    if how == 0:
        target = [1 if a.is_open(i) else (g.choice([1, 2, 3, 5]) if d == 1 else g.choice([1, d]))
                  for i, d in enumerate(a.shape)]
        g.add("Expand", [a, g.ints(([2] if g.coin(0.3) else []) + target)])
    elif how == 1:
        g.add("Tile", [a, g.ints([g.choice([1, 1, 2, 3]) for _ in a.shape])])
    else:
        other = g.pick(FLOATS, (0, 5))
        g.add("Expand", [a, g.add("Shape", [other])])


def depth(g):
    a = image(g, (4, 4), (F32,))
    op = g.choice(["DepthToSpace", "SpaceToDepth"])
    g.add(op, [a], blocksize=g.choice([1, 2, 3]),
          **({"mode": g.choice(["DCR", "CRD"])} if op == "DepthToSpace" else {}))


def trilu(g):
    a = g.pick((F32, F64, I64, I32, BOOL), (2, 4))
    inputs = [a] + ([g.constant(np.array(g.up(-3, 3), I64))] if g.coin() else [])
    g.add("Trilu", inputs, upper=g.up(0, 1))


def identity(g):
    g.add("Identity", [anything(g, (0, 6))])


def shape_arithmetic(g):
    a = anything(g, (1, 5))
    shape = g.add("Shape", [a])
    how = g.up(0, 4)
    if how == 0:
        first = g.add("Slice", [shape, g.ints([0]), g.ints([1])])
        rest = g.ints([-1])
        g.add("Reshape", [a, g.add("Concat", [first, rest], axis=0)])
    elif how == 1:
        filled = g.add("ConstantOfShape", [shape], value=tensor_of(g.choice([F32, I64, BOOL]), 1))
        if filled.dtype == a.dtype:
            g.add("Add" if a.dtype != BOOL else "And", [a, filled])
    elif how == 2:
        n = g.add("Gather", [shape, g.constant(np.array(g.up(0, a.rank - 1), I64))], axis=0)
        g.add("Range", [g.constant(np.array(0, I64)), n, g.constant(np.array(g.choice([1, 1, 2]), I64))])
    elif how == 3:
        n = g.add("Gather", [shape, g.constant(np.array(a.rank - 1, I64))], axis=0)
        wide = g.add("Cast", [n], to=onnx_type(F32))
        root = g.add("Sqrt", [wide])
        if a.dtype == F32:
            g.add(g.choice(["Div", "Mul"]), [a, root])
    else:
        g.add("Reshape", [a, g.add("Mul", [shape, g.ints([1])])])


def tensor_of(dtype, value):
    from graph import tensor_proto
    return tensor_proto(np.array([value], dtype), "value")


def resize(g):
    a = image(g, (3, 5), (F32,))
    if g.coin(0.7):
        a = image(g, (4, 4), (F32,))
    mode = g.choice(["nearest", "linear", "cubic"]) if a.rank == 4 else g.choice(["nearest", "linear"])
    attributes = {"mode": mode, "coordinate_transformation_mode": g.choice(
        ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"] + (["half_pixel_symmetric"] if g.opset >= 19 else []))}
    if mode == "nearest":
        # ONNX Runtime does not do here what ONNX's reference does.
        if attributes["coordinate_transformation_mode"] == "half_pixel_symmetric":
            raise Reject("half_pixel_symmetric")
        attributes["nearest_mode"] = g.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.choice([-0.5, -0.75])
        attributes["exclude_outside"] = g.up(0, 1)
    if g.opset >= 18 and mode != "nearest" and g.coin(0.2) and "pytorch" not in \
            attributes["coordinate_transformation_mode"]:
        attributes["antialias"] = 1
    spatial = range(2, a.rank)
    if g.coin():
        # Rounded scales put coordinates beside the places where `nearest` jumps.
        scales = [1.0] * 2 + [g.choice([0.5, 1.0, 1.5, 2.0] + ([0.7, 2.6] if mode != "nearest" else [])) for _ in spatial]
        inputs = [a, None, g.constant(np.array(scales, np.float32))]
    else:
        if any(a.is_open(i) for i in (0, 1)):
            raise Reject("open")
        sizes = [*a.shape[:2], *[g.choice([1, 2, 3, 5, 8, 13]) for _ in spatial]]
        inputs = [a, None, None, g.ints(sizes)]
    g.add("Resize", inputs, **attributes)


def einsum(g):
    a = g.pick((F32, F64), (1, 4))
    letters = "abcdefgh"
    of_a = letters[:a.rank]
    extra = letters[a.rank:a.rank + g.up(0, 2)]
    of_b = "".join(g.random.permutation([c for i, c in enumerate(of_a) if g.coin() and not a.is_open(i)] + list(extra)))
    size = {c: d for c, d in zip(of_a, a.shape)} | {c: g.choice([1, 2, 3, 5, 8, 17]) for c in extra}
    result = "".join(g.random.permutation([c for c in of_a + extra if g.coin(0.6)]))
    if g.coin(0.2) or not of_b:
        kept = "".join(g.random.permutation([c for c in of_a if g.coin(0.6)]))
        g.add("Einsum", [a], equation=f"{of_a}->{kept}")
    else:
        b = g.operand([size[c] for c in of_b], a.dtype)
        g.add("Einsum", [a, b], equation=f"{of_a},{of_b}->{result}")


def attention(g):
    """softmax(q k^T scale + mask) v over one value, in the forms that exporters write."""
    rows, head, batch = g.size(33), g.choice([1, 4, 8, 16, 17]), [g.choice([1, 2]), g.choice([1, 3])][:g.up(0, 2)]
    is_open = g.open_sizes is not None and g.coin()
    keys = rows if g.coin(0.7) or is_open else g.size(65)
    axis = len(batch) if is_open else None
    dtype = g.choice([F32, F32, F16])
    q = g.add_input([*batch, rows, head], dtype, axis)
    k = g.add_input([*batch, keys, head], dtype, axis)
    v = g.add_input([*batch, keys, g.choice([head, head, 5])], dtype, axis)
    rank = len(batch) + 2
    if g.coin(0.3):
        q = g.add("Mul", [q, g.constant(np.array(0.5, dtype))])
    transposed = g.add("Transpose", [k], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = g.add("MatMul", [q, transposed])
    if g.coin(0.7):
        scores = g.add(g.choice(["Div", "Mul"]), [scores, g.constant(np.array(g.choice([2.0, 0.7]), dtype))])
    how = g.up(0, 4)
    if how == 0:
        mask = g.partner(scores, BOOL)
        scores = g.add("Where", [mask, scores, g.constant(np.array(-1000, dtype))])
    elif how < 3:
        scores = g.add("Add", [scores, g.partner(scores)])
    elif how == 3 and not is_open:
        causal = np.where(np.tri(rows, keys, dtype=bool), 0, -np.inf if g.coin(0.3) else -1000).astype(dtype)
        name = g.constant(causal)
        try:
            scores = g.add("Add", [scores, name])
        except Reject:
            pass
    weights = g.add("Softmax", [scores], axis=g.choice([-1, -1, -1, rank - 1, rank - 2]))
    result = g.add("MatMul", [weights, v])
    if g.coin(0.4):
        g.add("Transpose", [result], perm=[int(i) for i in g.random.permutation(rank)])


def attention_op(g):
    b, heads, groups = g.choice([1, 2]), g.choice([1, 2, 4]), g.choice([1, 1, 2])
    rows, keys, head = g.size(17), g.size(33), g.choice([4, 8, 16])
    q = g.add_input([b, heads * groups, rows, head])
    k = g.add_input([b, heads, keys, head])
    v = g.add_input([b, heads, keys, g.choice([head, 5])])
    inputs = [q, k, v]
    # Of a query whose scores are NaN, with a mask that could hide all keys, Halyard gives zeros.
    if g.coin() and not g.has_infinities:
        inputs.append(g.operand(g.choice([[rows, keys], [b, 1, rows, keys], [1, 1, rows, keys]]), g.choice([F32, BOOL])))
    g.add("Attention", inputs, is_causal=g.up(0, 1), **({"scale": 0.3} if g.coin() else {}))


def pattern(g):
    """What exporters decompose."""
    how = g.up(0, 5)
    a = g.pick((F32, F32, F16), (1, 5))
    scalar = lambda x: g.constant(np.array(x, a.dtype))
    last = {"axes": [-1]} if g.opset < 18 else {}
    mean = lambda x: g.add("ReduceMean", [x] if g.opset < 18 else [x, g.ints([-1])], keepdims=1, **last)
    if how == 0:
        centred = g.add("Sub", [a, mean(a)])
        square = g.add("Pow", [centred, scalar(2)]) if g.coin() else g.add("Mul", [centred, centred])
        root = g.add("Sqrt", [g.add("Add", [mean(square), scalar(1e-3)])])
        g.add("Mul", [g.add("Div", [centred, root]), g.partner(a)])
    elif how == 1:
        root = g.add("Sqrt", [g.add("Add", [mean(g.add("Mul", [a, a])), scalar(1e-3)])])
        g.add("Mul", [g.add("Div", [a, root]), g.partner(a)])
    elif how == 2:
        inner = g.add("Erf", [g.add("Div", [a, scalar(1.4142135)])])
        g.add("Mul", [g.add("Mul", [a, g.add("Add", [inner, scalar(1)])]), scalar(0.5)])
    elif how == 3:
        g.add("Mul", [a, g.add("Sigmoid", [a])])
    elif how == 4:
        most = g.add("ReduceMax", [a] if g.opset < 18 else [a, g.ints([-1])], keepdims=1, **last)
        powers = g.add("Exp", [g.add("Sub", [a, most])])
        g.add("Div", [powers, g.add("ReduceSum", [powers, g.ints([-1])], keepdims=1)])
    else:
        b = g.add("Add", [a, g.partner(a)])
        g.add("Add", [g.add("Relu", [b]), a])


def quantise(g):
    if g.has_infinities:
        raise Reject("infinite scale")
    how = g.up(0, 3)
    if how == 0:
        a = g.pick((F32,), (1, 4))
        kind = g.choice([U8, I8])
        scale, zero = g.constant(np.array(0.05, np.float32)), g.constant(np.array(3, kind))
        q = g.add("QuantizeLinear", [a, scale, zero])
        if g.coin(0.7):
            g.add("DequantizeLinear", [q, scale, zero])
    elif how == 1:
        g.add("DynamicQuantizeLinear", [g.pick((F32,), (1, 4))], outputs=3)
    elif how == 2:
        a = g.pick((U8, I8), (2, 3))
        if a.is_open(a.rank - 1):
            raise Reject("open")
        b = g.operand([a.shape[-1], g.size(33)], g.choice([U8, I8]))
        inputs = [a, b] + ([g.constant(np.array(2, a.dtype))] if g.coin() else [])
        g.add("MatMulInteger", inputs)
    else:
        a = g.pick((U8, I8), (1, 3))
        if a.is_open():
            raise Reject("open")
        axis = g.up(0, a.rank - 1)
        scale = g.constant(np.abs(g.array([a.shape[axis]])) + np.float32(0.01))
        g.add("DequantizeLinear", [a, scale, g.constant(g.array([a.shape[axis]], a.dtype))], axis=axis)


def odd(g):
    how = g.up(0, 9)
    if how == 0:
        a = g.pick((I64, I32), (0, 3))
        g.add("OneHot", [a, g.constant(np.array(7, I64)), g.constant(np.array([0, 1], np.float32))], axis=g.choice([-1, 0]))
    elif how == 1:
        g.add("EyeLike", [g.pick((F32, I32), (2, 2))], k=g.up(-2, 2))
    elif how == 2:
        a = g.pick((F32, I64), (2, 4))
        if a.is_open():
            raise Reject("open")
        g.add("ReverseSequence", [a, g.ints([g.up(1, max(1, a.shape[0])) for _ in range(a.shape[1])])],
              time_axis=0, batch_axis=1)
    elif how == 3:
        g.add("Size", [anything(g, (0, 5))])
    elif how == 4:
        a = g.pick((F32,), (2, 4), lambda v: v.shape[-1] == v.shape[-2] and v.shape[-1] < 9)
        g.add("Det", [a])
    elif how == 5:
        a = image(g, (4, 4), (F32,))
        grid = g.add_input([a.shape[0], g.size(9), g.size(9), 2])
        mode = g.choice(["bilinear", "nearest", "bicubic"] if g.opset < 20 else ["linear", "nearest", "cubic"])
        # Outside the image ONNX Runtime's cubic differs from ONNX's reference.
        padding = "zeros" if "cubic" in mode else g.choice(["zeros", "border", "reflection"])
        g.add("GridSample", [a, grid], mode=mode, padding_mode=padding, align_corners=g.up(0, 1))
    elif how == 6:
        a = g.pick((F32,), (1, 4))
        g.add("CenterCropPad", [a, g.ints([g.size(17) for _ in a.shape])])
    elif how == 7:
        a = g.pick((F32, I64, BOOL), (0, 3))
        g.add("NonZero", [a])
    elif how == 8:
        a = g.pick((F32,), (2, 4))
        g.add(g.choice(["FastGelu", "QuickGelu", "Gelu"]), [a], domain="com.microsoft")
    else:
        a = g.pick((F32,), (1, 3))
        g.add("Dropout", [a])


def recurrent(g):
    op, gates = g.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, width, hidden = g.choice([1, 2, 5]), g.choice([1, 3]), g.choice([1, 4, 9]), g.choice([1, 3, 8])
    direction = g.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    inputs = [g.add_input([steps, batch, width]), g.operand([ways, gates * hidden, width]),
              g.operand([ways, gates * hidden, hidden])]
    if g.coin():
        inputs.append(g.operand([ways, 2 * gates * hidden]))
    extra = {"linear_before_reset": g.up(0, 1)} if op == "GRU" else {}
    g.add(op, inputs, outputs=3 if op == "LSTM" else 2, hidden_size=hidden, direction=direction, **extra)


# With how often each is taken.
MAKERS = [(unary, 14), (binary, 16), (compare, 3), (logic, 2), (bits, 1), (where, 4), (clip, 2), (cast, 5), (test_float, 1),
          (matmul, 10), (gemm, 5), (conv, 9), (conv_transpose, 3), (pool, 6), (global_pool, 2), (reduce, 10), (arg, 2),
          (cumsum, 2), (top_k, 2), (softmax, 5), (norm, 8), (gather, 5), (scatter, 3), (concat, 6), (split, 4), (slice_, 6),
          (pad, 5), (transpose, 7), (reshape, 8), (squeeze, 3), (flatten, 2), (expand, 4), (depth, 2), (trilu, 2),
          (identity, 1), (shape_arithmetic, 5), (resize, 3), (einsum, 3), (attention, 4), (attention_op, 1), (pattern, 6),
          (quantise, 3), (odd, 4), (recurrent, 1)]
