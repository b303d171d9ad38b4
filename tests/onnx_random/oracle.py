# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime says about a Graph, and how far an answer may be from it.

16-bit floats are kept in f32 and rounded after every node, which is what the model means. How much rounding may change
an element is measured: the graph runs again with every computed value, and every operand of arithmetic, multiplied by
random numbers within a few units of its last place. So a value that cancellation or a jump (Floor, Less, TopK) makes
uncertain is judged as loosely as it is, and all others closely."""
import numpy as np
from graph import BF16, F16, F32, F64, FLOATS, HALVES, EXACT, make_model, onnx_type, session, tensor_proto, widened
from onnx import helper

# Twice the rounding error of one operation.
EPSILON = {F32: 2.0**-23, F64: 2.0**-51, F16: 2.0**-10, BF16: 2.0**-7}
COMPARISONS = {"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual", "Cast", "IsNaN", "IsInf"}
FP16 = "fp16"
# Coordinates are rounded, too, and count in elements, of which there are many; means of ONNX Runtime are sums in one row.
FACTOR_OF_OPERANDS = {"Resize": 8, "GridSample": 8, "LayerNormalization": 8, "RMSNormalization": 8,
                      "SimplifiedLayerNormalization": 8, "GroupNormalization": 8, "MeanVarianceNormalization": 8,
                      "InstanceNormalization": 8, "DFT": 8, "STFT": 8, "AffineGrid": 8, "RoiAlign": 8}

# Operands behind their first one are sizes, scales or places that are written in the model.
PARAMETERS = {"Resize", "Upsample", "QuantizeLinear", "DequantizeLinear", "QLinearMatMul", "QLinearConv", "OneHot", "RoiAlign"}

# They take 1 from what is rounded near 1, or sum up to nothing.
CANCELLING = {"Elu", "Selu", "Celu", "Gelu", "Mish", "Sinh", "Asinh", "Acosh", "Atanh", "DFT", "STFT"}


def build(graph, outputs, noise=0.0, precision=None):
    """The model that ONNX Runtime runs; `noise` in units of EPSILON."""
    nodes, count, factors = [], [0], []
    dtypes = {n: v.dtype for n, v in {**graph.values, **graph.inputs}.items()}
    dtypes.update((n, a.dtype) for n, a in graph.constants.items())

    def name():
        count[0] += 1
        return f"oracle{count[0]}"

    def emit(op, inputs, output=None, **attributes):
        output = output or name()
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def noisy(value, of, factor=1):
        """The value times numbers near 1; `of` is the name of the value, which tells the shape."""
        dtype = dtypes[of]
        if not noise or dtype not in FLOATS:
            return value
        narrow = precision == FP16 and dtype == F32
        factors.append((f"factor{len(factors)}", of, factor * noise * EPSILON[F16 if narrow else dtype]))
        near = emit("Mul", [value, factors[-1][0]])
        if not narrow:
            return near
        # Below 6e-5 the spacing of f16 is 6e-8 whatever the value.
        tiny = emit("Mul", [emit("Sub", [factors[-1][0], "one"]), "spacing"])
        return emit("Add", [near, tiny])

    def rounded(value, dtype, output):
        half = emit("Cast", [value], to=onnx_type(dtype))
        return emit("Cast", [half], output, to=onnx_type(F32))

    loose = {}
    for node in graph.nodes:
        exact = node.op in EXACT and not (precision == FP16)
        inputs = list(node.inputs)
        if not exact and node.op not in COMPARISONS:
            for i, given in enumerate(inputs):
                factor = FACTOR_OF_OPERANDS.get(node.op, 0)
                if factor and i == 0:
                    inputs[i] = noisy(given, given, factor)
                elif noise and given and dtypes[given] in FLOATS and (
                        given in graph.inputs or given in graph.constants) and not (
                        node.op == "Range" or node.op in PARAMETERS and i):
                    inputs[i] = loose[given] if given in loose else loose.setdefault(given, noisy(given, given))
        attributes = dict(node.attributes)
        if node.op == "Cast":
            to = graph.values[node.outputs[0]].dtype
            if to in HALVES:
                rounded(inputs[0] if dtypes[inputs[0]] in HALVES else emit("Cast", inputs, to=onnx_type(F32)), to,
                        node.outputs[0])
                continue
        raw = [name() for _ in node.outputs]
        nodes.append(helper.make_node(node.op, inputs, raw, domain=node.domain, **attributes))
        for made, output in zip(raw, node.outputs):
            dtype = dtypes[output]
            value = made
            if not exact and node.op not in COMPARISONS and dtype in FLOATS:
                value = noisy(value, output)
                if noise and node.op in CANCELLING and dtype != F64:
                    value = emit("Add", [value, emit("Sub", [factors[-1][0], "one"])])
            if dtype in HALVES and node.op not in EXACT:
                rounded(value, dtype, output)
            else:
                emit("Identity", [value], output)
    results = []
    for i, output in enumerate(outputs):
        results.append(emit("Identity", [output], f"result{i}"))
    wide = lambda dtype: onnx_type(F32 if dtype in HALVES else dtype)
    body = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(n, wide(v.dtype), [None] * v.rank) for n, v in graph.inputs.items()]
        + [helper.make_tensor_value_info(n, wide(dtypes[of]), [None] * rank_of(graph, of)) for n, of, _ in factors],
        [helper.make_empty_tensor_value_info(n) for n in results],
        [tensor_proto(widened(a), n) for n, a in graph.constants.items()]
        + [tensor_proto(np.float32(1), "one"), tensor_proto(np.float32(2.0**-24 / EPSILON[F16]), "spacing")])
    return make_model(body, graph.opset), factors


def arrays_of(graph, name):
    array = graph.constants.get(name)
    return (array, array) if array is not None else (graph.inputs.get(name) or graph.values[name]).arrays


def rank_of(graph, name):
    return arrays_of(graph, name)[0].ndim


class Oracle:
    """The outputs at both sizes, with what each element may differ by; NaN there: not judged."""

    def __init__(self, graph, outputs, precision=None):
        self.cases = []
        clean, _ = build(graph, outputs)
        clean = session(clean)
        noisy = [(session(model), factors) for model, factors in (
            build(graph, outputs, 1, precision), build(graph, outputs, 24, precision))]
        random = np.random.default_rng(0)
        for k in (0, 1) if graph.is_open() else (0,):
            feeds = {n: np.asarray(widened(v.arrays[k])) for n, v in graph.inputs.items()}

            def run(model, factors):
                for name, of, by in factors:
                    array = arrays_of(graph, of)[k]
                    feeds[name] = np.asarray(random.uniform(1 - by, 1 + by, array.shape)).astype(
                        F64 if array.dtype == F64 else F32)
                return model.run(None, feeds)
            wanted = clean.run(None, feeds)
            close = [run(*noisy[0]) for _ in range(4)]
            wide = [run(*noisy[1]) for _ in range(3)]
            self.cases.append([(w, limit(w, [c[i] for c in close], [c[i] for c in wide],
                                         precision_of(graph, outputs[i], precision)))
                               for i, w in enumerate(wanted)])


def precision_of(graph, name, precision):
    dtype = (graph.values.get(name) or graph.inputs[name]).dtype
    return EPSILON.get(F16 if precision == FP16 and dtype == F32 else dtype, 0)


def limit(wanted, close, wide, epsilon):
    if any(other.shape != wanted.shape for other in close + wide):
        return np.full(wanted.shape, np.nan)
    if wanted.dtype not in FLOATS:
        differ = np.zeros(wanted.shape, bool)
        for other in close + wide:
            differ |= other != wanted
        return np.where(differ, np.nan, 0.0)
    with np.errstate(all="ignore"):
        base = wanted.astype(np.float64)
        uncertain = np.zeros(wanted.shape, bool)
        near, far = np.zeros(wanted.shape), np.zeros(wanted.shape)
        for others, into in ((close, near), (wide, far)):
            for other in others:
                other = other.astype(np.float64)
                uncertain |= (np.isfinite(base) != np.isfinite(other)) | (np.isnan(base) != np.isnan(other))
                np.maximum(into, np.nan_to_num(np.abs(other - base), nan=0, posinf=0), out=into)
        finite = near[np.isfinite(base)]
        typical = np.sqrt(np.mean(finite**2)) if finite.size else 0
        allowed = 12 * near + 2 * far + 8 * typical + 4 * epsilon * np.where(np.isfinite(base), np.abs(base), 0) + 1e-37
        return np.where(uncertain, np.nan, allowed)


def difference(got, wanted, allowed, dtype):
    """None, or a sentence about the worst element."""
    if got.dtype != dtype or got.shape != wanted.shape:
        return f"is {got.dtype}{list(got.shape)}; {dtype}{list(wanted.shape)} is expected"
    judged = ~np.isnan(allowed)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)
        if got.dtype not in FLOATS and got.dtype != np.bool_:
            same = got == wanted
        # Rounded to 16 bits, infinity begins at the largest number.
        if got.dtype == F16:
            same |= (np.abs(a) >= 6e4) & (np.abs(b) >= 6e4) & (np.sign(a) == np.sign(b))
        wrong = judged & ~same
        if not wrong.any():
            return None
        worst = np.unravel_index(np.argmax(np.where(wrong, np.nan_to_num(
            np.abs(a - b) / (allowed + 1e-300), nan=np.inf, posinf=np.inf), -1)), wrong.shape)
    return (f"{int(wrong.sum())} of {wrong.size} elements differ, first {[int(i) for i in np.argwhere(wrong)[0]]}, worst "
            f"{[int(i) for i in worst]}: {got[worst]}, expected {wanted[worst]} +- {allowed[worst]:.1e}")
