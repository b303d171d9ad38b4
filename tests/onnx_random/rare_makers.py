# SPDX-License-Identifier: Apache-2.0
"""Makers of ops, attributes and dtypes that exporters write seldom: opsets before 13, narrow integers, windows and signals,
images, losses, quantised products, recurrent layers with all their inputs."""
import numpy as np
from graph import BOOL, F16, F32, F64, I16, I32, I64, I8, INTS, U8, U16, Reject, onnx_type
from makers import MAKERS, axes_of, image, window

# ONNX Runtime's opset 25 is not complete.
RARE_OPSETS = tuple(range(7, 25))


def whole(g, ranks=(0, 4), dtypes=INTS):
    found = [v for v in g.values.values() if v.dtype in dtypes and ranks[0] <= v.rank <= ranks[1]]
    if found and g.coin(0.7):
        return g.choice(found)
    return g.add_input(g.dims(g.up(ranks[0], min(ranks[1], 4)), 60), g.choice(dtypes))


def whole_numbers(g):
    op = g.choice("Add Sub Mul Div Mod Max Min Sum Mean Abs Neg Sign Pow Less Equal Greater LessOrEqual BitwiseAnd BitwiseXor "
                  "BitwiseNot BitShift Where Clip ReduceSum ReduceProd ReduceMax ReduceMin ReduceMean ReduceL1 ReduceSumSquare "
                  "ArgMax ArgMin TopK CumSum MatMul Gemm Relu Cast Cast Cast Tile Range".split())
    a = whole(g, (2, 2) if op in ("MatMul", "Gemm") else (1, 4) if op in ("TopK", "ArgMax", "ArgMin", "CumSum") else (0, 4))
    if op in ("Abs", "Neg", "Sign", "BitwiseNot", "Relu"):
        return g.add(op, [a])
    if op == "Cast":
        return g.add(op, [a], to=onnx_type(g.choice(INTS + (F32, F64, F16, BOOL))))
    if op == "Where":
        return g.add(op, [g.partner(a, BOOL), a, g.partner(a)])
    if op == "Clip":
        return g.add(op, [a, g.constant(np.array(2, a.dtype)), g.constant(np.array(7, a.dtype))])
    if op.startswith("Reduce"):
        axes = axes_of(g, a)
        if op == "ReduceSum" or g.opset >= 18:
            return g.add(op, [a, g.ints(axes)], keepdims=g.up(0, 1), noop_with_empty_axes=g.up(0, 1))
        return g.add(op, [a], keepdims=g.up(0, 1), **({"axes": axes} if axes else {}))
    if op in ("ArgMax", "ArgMin"):
        last = {"select_last_index": g.up(0, 1)} if g.opset > 11 else {}
        return g.add(op, [a], axis=g.up(-a.rank, a.rank - 1), keepdims=g.up(0, 1), **last)
    if op == "TopK":
        axis = g.up(-a.rank, a.rank - 1)
        k = g.up(0, min(x.shape[axis] for x in a.arrays))
        return g.add(op, [a, g.ints([k])], outputs=2, axis=axis, largest=g.up(0, 1))
    if op == "CumSum":
        axis = g.constant(np.array(g.up(-a.rank, a.rank - 1), g.choice([I32, I64])))
        return g.add(op, [a, axis], exclusive=g.up(0, 1), reverse=g.up(0, 1))
    if op in ("MatMul", "Gemm"):
        if a.is_open():
            raise Reject("open")
        b = g.operand([a.shape[1], g.size(17)], a.dtype)
        return g.add(op, [a, b])
    if op == "Tile":
        return g.add(op, [a, g.ints([g.up(0, 3) for _ in a.shape])])
    if op == "Range":
        lo, step = g.up(-9, 9), g.choice([1, 2, 3, -1, -2])
        dtype = g.choice([I16, I32, I64, F32, F64])
        value = lambda x: g.constant(np.array(x, dtype))
        return g.add(op, [value(lo), value(lo + step * g.up(0, 20) + g.up(0, 1)), value(step)])
    b = g.partner(a)
    if op in ("Div", "Mod", "Pow", "BitShift"):
        array = g.array(b.shape if b.dtype == a.dtype and not b.is_open() else [], a.dtype)
        if op in ("Div", "Mod"):
            array = np.where(array == 0, 3, array).astype(a.dtype)
        if op == "Pow":
            array = (np.abs(array.astype(np.int64)) % 4).astype(g.choice([a.dtype, F32, I64]))
        if op == "BitShift":
            array = (np.abs(array.astype(np.int64)) % (a.dtype.itemsize * 8)).astype(a.dtype)
        b = g.constant(array)
    if op == "Mod":
        return g.add(op, [a, b], fmod=g.up(0, 1))
    if op == "BitShift":
        return g.add(op, [a, b], direction=g.choice(["LEFT", "RIGHT"]))
    return g.add(op, [a, b])


def older(g):
    """Forms of opsets before 13."""
    how = g.up(0, 11)
    a = g.pick((F32, F32, F64, I64, I32) if how in (0, 1, 3, 4, 5) else (F32, F64), (1, 5))
    if how == 0:
        axes = [i for i in range(a.rank) if g.coin()] or [0]
        n = lambda i: min(x.shape[i] for x in a.arrays)
        return g.add("Slice", [a], axes=[i - a.rank if g.coin(0.2) and g.opset > 9 else i for i in axes],
                     starts=[g.choice([0, 1, -1, -2, -n(i), 99]) for i in axes],
                     ends=[g.choice([n(i), -1, 1, 1 << 40, -n(i), 2]) for i in axes])
    if how == 1:
        mode = g.choice(["constant", "reflect", "edge"])
        least = np.min([x.shape for x in a.arrays], axis=0)
        pads = [g.up(-1 if mode == "constant" else 0, max(0, min(2, int(d) - 1))) for d in [*least, *least]]
        return g.add("Pad", [a], mode=mode, pads=pads, **({"value": 1.5} if mode == "constant" and g.coin() else {}))
    if how == 2:
        return g.add("Clip", [a], **g.choice([{"min": -0.5}, {"max": 0.25}, {"min": -0.5, "max": 0.25}, {}]))
    if how == 3:
        ones = [i for i in range(a.rank) if all(x.shape[i] == 1 for x in a.arrays)]
        return g.add("Squeeze", [a], **({"axes": ones} if g.coin() and ones else {}))
    if how == 4:
        return g.add("Unsqueeze", [a], axes=sorted(int(i) for i in g.random.choice(a.rank + 2, 2, replace=False)))
    if how == 5:
        axis = g.up(0, a.rank - 1)
        n = a.shape[axis]
        if a.is_open(axis) or n < 2:
            raise Reject("no split")
        return g.add("Split", [a], outputs=2, axis=axis, split=[1, n - 1])
    if how == 6:
        attributes = {"axis": g.up(-a.rank if g.opset > 10 else 0, a.rank - 1)} if g.coin(0.8) else {}
        return g.add(g.choice(["Softmax", "LogSoftmax", "Hardmax"]), [a], **attributes)
    if how == 7:
        op = g.choice("ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceLogSumExp ReduceProd".split())
        axes = axes_of(g, a)
        return g.add(op, [a], keepdims=g.up(0, 1), **({"axes": axes} if axes else {}))
    if how == 8:
        op = "Upsample" if g.opset < 10 else "Resize"
        a = image(g, (4, 4), (F32,))
        scales = np.array([1, 1, g.choice([1, 2, 3]), g.choice([1, 2, 4])], np.float32)
        if g.opset == 7 or g.opset == 8:
            return g.add("Upsample", [a], mode=g.choice(["nearest", "linear"]), scales=scales.tolist())
        return g.add(op, [a, g.constant(scales)], mode=g.choice(["nearest", "linear"]))
    if how == 9:
        axis = g.up(0, a.rank - 1)
        k = g.up(1, max(1, min(x.shape[axis] for x in a.arrays)))
        if g.opset < 10:
            return g.add("TopK", [a], outputs=2, axis=axis, k=k)
        return g.add("TopK", [a, g.ints([k])], outputs=2, axis=axis)
    if how == 10:
        c = a.shape[1] if a.rank > 1 else 1
        if a.rank < 2 or a.is_open(1):
            raise Reject("open")
        vector = lambda: g.constant(np.abs(g.array([c], a.dtype)) + a.dtype.type(0.1))
        return g.add("BatchNormalization", [a, vector(), vector(), vector(), vector()])
    return g.add("Dropout", [a], ratio=0.3) if g.opset < 12 else g.add(
        "Dropout", [a, g.constant(np.array(0.4, F32))] + ([g.constant(np.array(False))] if g.coin() else []), outputs=g.up(1, 2))


def scatter_old(g):
    a = g.pick((F32, I64), (1, 3))
    if a.is_open() or 0 in a.shape:
        raise Reject("open")
    axis = g.up(-a.rank, a.rank - 1)
    dims = list(a.shape)
    dims[axis] = g.up(1, dims[axis])
    index = np.take(np.argsort(g.random.random(a.shape), axis), range(dims[axis]), axis)
    negative = index - a.shape[axis] if g.coin(0.3) else index
    where_to = g.constant(negative.astype(g.choice([I32, I64])))
    g.add("Scatter" if g.opset < 11 else "ScatterElements", [a, where_to, g.operand(dims, a.dtype)], axis=axis)


def reduction_of_anything(g):
    a = g.pick((F32, F64, I32, I64), (0, 4))
    op = g.choice("ReduceSum ReduceL1 ReduceL2 ReduceSumSquare ReduceProd ReduceMax ReduceMean ReduceLogSumExp".split())
    axes = axes_of(g, a)
    if op == "ReduceSum" and g.opset >= 13 or g.opset >= 18:
        g.add(op, [a] + ([g.ints(axes)] if g.coin(0.8) else []), keepdims=g.up(0, 1), noop_with_empty_axes=g.up(0, 1))
    else:
        g.add(op, [a], keepdims=g.up(0, 1), **({"axes": axes} if axes else {}))


def col2im(g):
    rank = g.choice([1, 2, 2, 3])
    block = [g.up(1, 3) for _ in range(rank)]
    img = [g.up(3, 7) for _ in range(rank)]
    strides = [g.up(1, 2) for _ in range(rank)]
    dil = [1] * rank
    # ONNX Runtime takes the pads of the begins on both sides.
    pads = [g.up(0, 1) for _ in range(rank)] * 2
    n = 1
    for i in range(rank):
        span = img[i] + pads[i] + pads[i + rank] - dil[i] * (block[i] - 1) - 1
        if span < 0:
            raise Reject("block")
        n *= span // strides[i] + 1
    a = g.add_input([g.up(1, 2), g.up(1, 3) * int(np.prod(block)), n])
    g.add("Col2Im", [a, g.ints(img), g.ints(block)], strides=strides, dilations=dil, pads=pads)


def unpool(g):
    a = g.add_input([g.up(1, 2), g.up(1, 3), *[g.choice([4, 6]) for _ in range(2)]])
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    values, index = g.add("MaxPool", [a], outputs=2, storage_order=0, **attributes)
    if g.coin():
        g.add("MaxUnpool", [values, index, g.ints(a.shape)], **attributes)
    else:
        g.add("MaxUnpool", [values, index], **attributes)


def max_pool_indices(g):
    a = image(g, (3, 5), (F32,))
    if a.is_open():
        raise Reject("open")
    attributes = window(g, a, 5)
    # ONNX Runtime sizes a dilated window that is padded to SAME otherwise than ONNX.
    if attributes.get("auto_pad", "").startswith("SAME"):
        attributes.pop("dilations", None)
    g.add("MaxPool", [a], outputs=2, storage_order=g.up(0, 1), **attributes)


def roi(g):
    a = image(g, (4, 4), (F32,))
    if a.is_open():
        raise Reject("open")
    n = g.up(1, 4)
    boxes = np.sort(g.random.random([n, 2, 2]) * 12, axis=1).reshape(n, 4).astype(np.float32)
    batch = g.constant(g.random.integers(0, a.shape[0], [n]).astype(I64))
    g.add("RoiAlign", [a, g.constant(boxes), batch], mode=g.choice(["avg", "max"]) if g.opset >= 16 else "avg",
          output_height=g.up(1, 4), output_width=g.up(1, 4), sampling_ratio=g.up(1, 3), spatial_scale=g.choice([1.0, 0.5]),
          **({"coordinate_transformation_mode": g.choice(["half_pixel", "output_half_pixel"])} if g.opset >= 16 else {}))


def affine(g):
    two = g.coin()
    n = g.up(1, 2)
    theta = g.add_input([n, 2, 3] if two else [n, 3, 4])
    # Aligned with the corners of one element ONNX Runtime takes a corner, ONNX's reference the centre.
    aligned = g.up(0, 1)
    size = [n, g.up(1, 2), g.up(1 + aligned, 5), g.up(2, 6)] + ([] if two else [g.up(1 + aligned, 4)])
    g.add("AffineGrid", [theta, g.ints(size)], align_corners=aligned)


def signal(g):
    if g.has_infinities:
        raise Reject("infinite sum")
    how = g.up(0, 2)
    if how == 0:
        op = g.choice(["HannWindow", "HammingWindow", "BlackmanWindow"])
        n = g.constant(np.array(g.up(2, 40), g.choice([I32, I64])))
        return g.add(op, [n], periodic=g.up(0, 1), output_datatype=onnx_type(F32))
    if how == 1:
        n, c = g.choice([1, 2, 3, 5, 8, 16, 17, 30]), g.choice([1, 1, 2])
        a = g.add_input([g.up(1, 3), n, c])
        onesided = g.up(0, 1) if c == 1 else 0
        inputs = [a]
        if g.coin():
            inputs.append(g.constant(np.array(g.choice([1, 4, 8, 21]), I64)))
        inverse = g.up(0, 1) if not onesided else 0
        if g.opset >= 20:
            inputs += [None] * (2 - len(inputs)) + [g.constant(np.array(g.choice([1, -2]), I64))] if g.coin() else []
            return g.add("DFT", inputs, onesided=onesided, inverse=inverse)
        return g.add("DFT", inputs, axis=1, onesided=onesided, inverse=inverse)
    n, frame = g.choice([16, 20, 33]), g.choice([4, 5, 8, 16])
    a = g.add_input([g.up(1, 2), n, 1])
    step = g.constant(np.array(g.choice([1, 2, 3, 5]), I64))
    length = g.constant(np.array(frame, I64))
    window_ = g.operand([frame])
    g.add("STFT", g.choice([[a, step, window_], [a, step, window_, length], [a, step, None, length]]), onesided=g.up(0, 1))


def loss(g):
    n, c = g.up(1, 3), g.up(2, 5)
    spatial = [g.up(1, 4) for _ in range(g.up(0, 2))]
    scores = g.add_input([n, c, *spatial], g.choice([F32, F64]))
    target = g.constant(g.random.integers(0, c, [n, *spatial]).astype(g.choice([I32, I64])))
    inputs = [scores, target]
    if g.coin():
        inputs.append(g.constant(np.abs(g.array([c], scores.dtype)) + scores.dtype.type(0.1)))
    attributes = {"reduction": g.choice(["none", "mean", "sum"])}
    if g.coin(0.4):
        attributes["ignore_index"] = g.up(-1, c - 1)
    if g.coin():
        g.add("NegativeLogLikelihoodLoss", inputs, **attributes)
    else:
        g.add("SoftmaxCrossEntropyLoss", inputs, outputs=g.up(1, 2), **attributes)


def quantised(g):
    if g.has_infinities:
        raise Reject("infinite scale")
    how = g.up(0, 4)
    kind = g.choice([U8, I8])
    scalar = lambda x: g.constant(np.array(x, np.float32))
    zero = lambda k, x: g.constant(np.array(x, k))
    if how == 0:
        m, k, n = g.size(17), g.size(33), g.size(17)
        a, b = g.add_input([m, k], kind), g.operand([k, n], kind if kind == I8 or g.coin() else I8)
        per = g.coin(0.4)
        bs = g.constant(np.abs(g.array([n])) + np.float32(0.01)) if per else scalar(0.1)
        bz = g.constant(g.array([n], b.dtype)) if per else zero(b.dtype, 2)
        return g.add("QLinearMatMul", [a, scalar(0.05), zero(kind, 3), b, bs, bz, scalar(0.3), zero(kind, 5)])
    if how in (1, 2):
        c, m = g.choice([1, 2, 3, 8]), g.choice([1, 2, 5, 16])
        groups = c if g.coin(0.3) else 1
        m = m * groups
        a = g.add_input([g.up(1, 2), c, g.up(3, 9), g.up(3, 9)], U8)
        w = g.operand([m, c // groups, g.up(1, 3), g.up(1, 3)], g.choice([U8, I8]) if how == 1 else U8)
        attributes = {"group": groups} if groups > 1 else {}
        if g.coin():
            attributes["pads"] = [g.up(0, 1) for _ in range(4)]
        if g.coin():
            attributes["strides"] = [g.up(1, 2), g.up(1, 2)]
        if how == 2:
            inputs = [a, w, zero(U8, 3), zero(w.dtype, 1)][:g.up(2, 4)]
            return g.add("ConvInteger", inputs, **attributes)
        ws, wz = scalar(0.1), zero(w.dtype, 1 if w.dtype == U8 else 0)
        if g.coin(0.4):
            ws, wz = g.constant(np.abs(g.array([m])) + np.float32(0.01)), g.constant(np.zeros([m], w.dtype))
        bias = [g.constant(g.array([m], I32))] if g.coin() else []
        return g.add("QLinearConv", [a, scalar(0.05), zero(U8, 3), w, ws, wz, scalar(0.4), zero(U8, 100)] + bias, **attributes)
    if how == 3:
        a = g.pick((F32, F16), (1, 4))
        kind = g.choice([U8, I8, I16, U16])
        axis = g.up(0, a.rank - 1)
        if a.is_open(axis):
            raise Reject("open")
        scale = g.constant((np.abs(g.array([a.shape[axis]])) + np.float32(0.02)).astype(a.dtype))
        q = g.add("QuantizeLinear", [a, scale, g.constant(g.array([a.shape[axis]], kind))],
                  axis=axis - a.rank if g.coin(0.3) else axis)
        return g.add("DequantizeLinear", [q, scale, g.constant(g.array([a.shape[axis]], kind))], axis=axis)
    block = g.choice([2, 3, 4])
    rows, columns = g.up(1, 4), g.up(1, 4)
    a = g.add_input([rows * block - g.up(0, 1), columns], g.choice([U8, I8]))
    scale = g.constant(np.abs(g.array([rows, columns])) + np.float32(0.02))
    g.add("DequantizeLinear", [a, scale] + ([g.constant(g.array([rows, columns], a.dtype))] if g.coin() else []), axis=0, block_size=block)


def recurrent_full(g):
    if g.has_infinities:
        raise Reject("infinite")
    op, gates = g.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, width, hidden = g.choice([1, 2, 5]), g.choice([1, 3]), g.choice([1, 4, 9]), g.choice([1, 3, 8])
    direction = g.choice(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    # ONNX Runtime takes layout 0 only.
    lens = g.constant(g.random.integers(1, steps + 1, [batch]).astype(I32)) if g.coin() else None
    inputs = [g.add_input([steps, batch, width]), g.operand([ways, gates * hidden, width]),
              g.operand([ways, gates * hidden, hidden]), g.operand([ways, 2 * gates * hidden]) if g.coin() else None, lens,
              g.operand([ways, batch, hidden]) if g.coin(0.7) else None]
    attributes = {"linear_before_reset": g.up(0, 1)} if op == "GRU" else {}
    if op == "LSTM":
        inputs.append(g.operand([ways, batch, hidden]) if g.coin(0.7) else None)
        inputs.append(g.operand([ways, 3 * hidden]) if g.coin() else None)
        if g.coin(0.2):
            attributes["input_forget"] = 1
    if g.coin(0.4):
        attributes["clip"] = 0.6
    if g.coin(0.5):
        per = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        attributes["activations"] = [
            g.choice(["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Elu", "LeakyRelu"]) for _ in range(per * ways)]
    while inputs and inputs[-1] is None:
        inputs.pop()
    g.add(op, inputs, outputs=g.up(1, 3 if op == "LSTM" else 2), hidden_size=hidden, direction=direction, **attributes)


def attention_full(g):
    b, heads, groups = g.choice([1, 2]), g.choice([1, 2]), g.choice([1, 1, 2, 3])
    rows, keys, past, head = g.up(1, 9), g.up(1, 17), g.choice([0, 0, 3, 8]), g.choice([4, 8, 12])
    vhead = g.choice([head, 5])
    flat = g.coin()
    if flat:
        q = g.add_input([b, rows, heads * groups * head])
        k, v = g.add_input([b, keys, heads * head]), g.add_input([b, keys, heads * vhead])
    else:
        q = g.add_input([b, heads * groups, rows, head])
        k, v = g.add_input([b, heads, keys, head]), g.add_input([b, heads, keys, vhead])
    total = keys + past
    inputs = [q, k, v, None]
    if g.coin(0.6):
        inputs[3] = g.operand([*g.choice([[], [b, 1], [1, 1], [1, heads * groups], [b, heads * groups], [heads * groups]]),
                               rows, total])
    if past:
        inputs += [g.add_input([b, heads, past, head]), g.add_input([b, heads, past, vhead])]
    elif inputs[-1] is None:
        inputs.pop()
    # Of a causal mask beside earlier keys ONNX Runtime has an older reading.
    attributes = {"is_causal": 0 if past else g.up(0, 1)}
    if flat:
        attributes.update(q_num_heads=heads * groups, kv_num_heads=heads)
    if g.coin(0.4):
        attributes["scale"] = 0.3
    if g.coin(0.3):
        attributes["softcap"] = 2.0
    outputs = 4 if g.coin(0.3) else 3 if past else 1
    if outputs == 4:
        attributes["qk_matmul_output_mode"] = g.up(0, 3)
    g.add("Attention", inputs, outputs=outputs, **attributes)


def rotary(g):
    b, heads, rows, head = g.up(1, 2), g.choice([1, 2, 3]), g.up(1, 7), g.choice([4, 8, 12])
    most = 12
    flat = g.coin()
    a = g.add_input([b, rows, heads * head] if flat else [b, heads, rows, head])
    attributes = {"interleaved": g.up(0, 1)}
    part = head
    if g.coin(0.4):
        attributes["rotary_embedding_dim"] = part = g.choice([d for d in (2, 4, 8) if d <= head])
    if flat:
        attributes["num_heads"] = heads
    if g.coin():
        ids = g.constant(g.random.integers(0, most, [b, rows]).astype(I64))
        g.add("RotaryEmbedding", [a, g.operand([most, part // 2]), g.operand([most, part // 2]), ids], **attributes)
    else:
        g.add("RotaryEmbedding", [a, g.operand([b, rows, part // 2]), g.operand([b, rows, part // 2])], **attributes)


def hot(g):
    value = g.pick((F32, I64, I32, U8, F64), (0, 3))
    depth = g.constant(np.array(g.up(1, 12), g.choice([I64, I32, F32])))
    g.add("OneHot", [whole(g, (0, 3), (I64, I32)), depth, g.constant(np.array([g.up(0, 3), 5], value.dtype))],
          axis=g.up(-1, 1))


def unique(g):
    a = g.pick((F32, F64, I64, I32, U8, I8), (0, 4))
    g.add("Unique", [g.constant(g.array(a.shape, a.dtype))], outputs=4, sorted=g.up(0, 1))


def compress(g):
    a = g.pick((F32, I64, BOOL, I32), (1, 4))
    axis = g.up(-a.rank, a.rank - 1)
    n = max(1, min(x.shape[axis] for x in a.arrays))
    kept = g.random.random(g.up(1, n)) < 0.6
    g.add("Compress", [a, g.constant(kept)], **({} if g.coin(0.3) else {"axis": axis}))


def reverse(g):
    a = g.pick((F32, I32, I64, BOOL), (2, 4))
    if a.is_open():
        raise Reject("open")
    time = g.up(0, 1)
    lengths = [g.up(1, max(1, a.shape[time])) for _ in range(a.shape[1 - time])]
    g.add("ReverseSequence", [a, g.ints(lengths)], time_axis=time, batch_axis=1 - time)


def activations(g):
    how = g.up(0, 2)
    if how == 0:
        # ONNX Runtime has the attributes in f32 for f64, too.
        g.add("Shrink", [g.pick((F32, F16), (2, 5))], lambd=g.choice([0.0, 0.7]), bias=0.3)
    elif how == 1:
        a = g.pick((F32,), (2, 3))
        if a.is_open():
            raise Reject("open")
        g.add("BiasGelu", [a, g.operand([a.shape[-1]])], domain="com.microsoft")
    else:
        g.add("IsInf", [g.pick((F32, F64, F16), (0, 4))], detect_negative=g.up(0, 1), detect_positive=g.up(0, 1))


def shapes(g):
    if g.coin():
        a = g.pick((F32, I64, I32, U8, F16), (1, 5))
        g.add("Shape", [a], start=g.up(-a.rank - 1, a.rank + 1), end=g.up(-a.rank - 1, a.rank + 1))
    else:
        g.add("EyeLike", [g.pick((F32, I32, F64, BOOL), (2, 2))], k=g.up(-9, 9),
              dtype=onnx_type(g.choice([F32, I64, F64, BOOL, U8, I32])))


def einsums(g):
    """Three operands, ellipses, diagonals, no arrow."""
    if g.coin():
        n = g.up(1, 5)
        g.add("Einsum", [g.add_input([n, n, 3])], equation=g.choice(["iij->ij", "iij->j", "iij->i", "iij->", "iij"]))
        return
    abc = "".join(g.random.permutation(list("abc")))
    sizes = {"a": 3, "b": g.choice([1, 2]), "c": 4}
    operands = [g.add_input([sizes[c] for c in abc]) for _ in range(g.up(1, 3))]
    first = abc[0]
    g.add("Einsum", operands, equation=g.choice(
        [f"{abc},{abc},{abc}->a", f"{abc},{abc}->", f"...{first},...{first}->...", f"{abc}->c", "...->...",
         f"{first}...->...{first}"]))


def training(g):
    a = image(g, (3, 5), (F32,))
    if a.is_open(1):
        raise Reject("open")
    vector = lambda: g.constant(np.abs(g.array([a.shape[1]])) + np.float32(0.1))
    g.add("BatchNormalization", [a, vector(), vector(), vector(), vector()], outputs=3, training_mode=1, momentum=0.8)


def even_split(g):
    a = g.pick((F32, I64, I32, F16, BOOL, U8), (1, 5))
    n = g.up(1, 4)
    g.add("Split", [a], outputs=n, axis=g.up(-a.rank, a.rank - 1), **({"num_outputs": n} if g.opset >= 18 else {}))


# What makes graphs of one's own around them: the ops of makers.py, more seldom.
RARE_MAKERS = [
    (whole_numbers, 30), (older, 20), (scatter_old, 3), (reduction_of_anything, 4), (col2im, 2), (unpool, 2),
    (max_pool_indices, 2), (roi, 2), (affine, 2), (signal, 4), (loss, 3), (quantised, 6), (recurrent_full, 4),
    (attention_full, 5), (rotary, 4), (hot, 2), (unique, 2), (compress, 2), (reverse, 2), (activations, 3), (shapes, 2),
    (einsums, 2), (training, 1), (even_split, 1)] + [(maker, often / 4) for maker, often in MAKERS]
