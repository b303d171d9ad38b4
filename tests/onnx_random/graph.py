# SPDX-License-Identifier: Apache-2.0
"""Random small ONNX graphs that grow node by node: ONNX Runtime evaluates each node at once, at two sizes of the open
dim, so that makers.py sees shapes and values, and a node that ONNX Runtime refuses is not added."""
import dataclasses

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F32, F64, F16, BF16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
I64, I32, I8, U8, BOOL = (np.dtype(t) for t in (np.int64, np.int32, np.int8, np.uint8, np.bool_))
HALVES = (F16, BF16)
FLOATS = (F32, F64, F16, BF16)
I16, U16, U32, U64 = (np.dtype(t) for t in (np.int16, np.uint16, np.uint32, np.uint64))
INTS = (I64, I32, I8, U8, I16, U16, U32, U64)
SIZES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129)
MOST_ELEMENTS = 1 << 13
OPSETS = (13, 17, 18, 20, 22, 23)
# Their results are elements of their operands (or of no rounding), so that rounding errors do not begin there.
EXACT = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile", "Concat", "Split", "Slice", "Pad",
         "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Identity", "Neg", "Abs", "Relu", "Max",
         "Min", "Where", "Clip", "Trilu", "DepthToSpace", "SpaceToDepth", "MaxPool", "ReduceMax", "ReduceMin", "Floor",
         "Ceil", "Round", "Sign", "TopK", "ReverseSequence", "GlobalMaxPool", "Hardmax", "OneHot", "EyeLike",
         "ConstantOfShape", "Scatter", "MaxUnpool", "Range", "CenterCropPad", "Dropout", "Compress", "Unique", "Not"}


class Reject(Exception):
    """A node that cannot be added."""


@dataclasses.dataclass
class Value:
    name: str
    arrays: tuple  # at both sizes of the open dim

    @property
    def dtype(self):
        return self.arrays[0].dtype

    @property
    def shape(self):
        return self.arrays[0].shape

    @property
    def rank(self):
        return self.arrays[0].ndim

    def is_open(self, axis=None):
        shapes = self.arrays[0].shape, self.arrays[1].shape
        return shapes[0] != shapes[1] if axis is None else shapes[0][axis] != shapes[1][axis]


@dataclasses.dataclass
class Node:
    op: str
    inputs: list
    outputs: list
    attributes: dict
    domain: str = ""


def onnx_type(dtype):
    return TensorProto.BFLOAT16 if dtype == BF16 else helper.np_dtype_to_tensor_dtype(dtype)


def tensor_proto(array, name):
    if array.dtype != BF16:
        return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    return helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, array.tobytes(), raw=True)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def widened(array):
    return np.asarray(array.astype(np.float32) if array.dtype in HALVES else array)


class Graph:
    def __init__(self, seed, opsets=OPSETS):
        self.random = np.random.default_rng(seed)
        self.opset = int(self.choice(opsets))
        self.open_sizes = None
        if self.coin(0.3):
            self.open_sizes = tuple(int(s) for s in self.random.choice(sorted(set(SIZES) - {1}), 2, replace=False))
        self.inputs, self.constants, self.values, self.nodes = {}, {}, {}, []
        self.open_inputs = {}  # name -> axis
        self.has_infinities = self.coin(0.03)
        self.count = 0

    # --- chance
    def coin(self, probability=0.5):
        return self.random.random() < probability

    def choice(self, options):
        return options[int(self.random.integers(len(options)))]

    def up(self, low, high):
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def size(self, most=MOST_ELEMENTS):
        fitting = [s for s in SIZES if s <= max(1, most)]
        return self.choice(fitting)

    def dims(self, rank, most=MOST_ELEMENTS // 4):
        dims = []
        for _ in range(rank):
            dims.append(0 if self.coin(0.004) else self.size(most))
            most //= max(1, dims[-1])
        self.random.shuffle(dims)
        return dims

    def array(self, dims, dtype=F32):
        if dtype == BOOL:
            return np.asarray(self.random.random(dims) < 0.5)
        if dtype in FLOATS:
            array = np.asarray(self.random.standard_normal(dims) * self.choice([0.3, 1, 2])).astype(dtype)
            if self.has_infinities and array.size and self.coin():
                array.flat[self.up(0, array.size - 1)] = self.choice([np.inf, -np.inf, -0.0, 1e-30, 0.0])
            return array
        return np.asarray(self.random.integers(0 if dtype.kind == "u" else -9, 10, dims)).astype(dtype)

    # --- values
    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def add_input(self, dims, dtype=F32, open_axis=None):
        self.judge_dtype(dtype)
        name, shapes = self.name("x"), [list(dims), list(dims)]
        if open_axis is not None:
            for shape, size in zip(shapes, self.open_sizes):
                shape[open_axis] = size
            self.open_inputs[name] = open_axis
        if max(np.prod(shape) for shape in shapes) > MOST_ELEMENTS:
            raise Reject("too large")
        self.inputs[name] = self.values[name] = Value(name, tuple(self.array(shape, dtype) for shape in shapes))
        return self.values[name]

    def constant(self, array):
        """An initializer; values that nodes compute may not be chosen for them by `pick`."""
        array = np.asarray(array)
        name = self.name("c")
        self.constants[name] = array
        return Value(name, (array, array))

    def ints(self, values, dtype=I64):
        return self.constant(np.array(values, dtype))

    def operand(self, dims, dtype=F32):
        """A constant or, at times, an input of these sizes."""
        dims = list(dims)
        if max(1, np.prod(dims)) > MOST_ELEMENTS:
            raise Reject("too large")
        return self.add_input(dims, dtype) if self.coin(0.2) else self.constant(self.array(dims, dtype))

    def pick(self, dtypes=FLOATS, ranks=(0, 6), fits=None):
        """A value of the graph, mostly a late one."""
        found = [v for v in self.values.values() if v.dtype in dtypes and ranks[0] <= v.rank <= ranks[1]
                 and (fits is None or fits(v))]
        if not found:
            dtype = F32 if F32 in dtypes else self.choice(dtypes)
            if len(self.inputs) > 4 or ranks[0] > 5:
                raise Reject("no such value")
            value = self.add_input(self.dims(self.up(ranks[0], min(ranks[1], 5))), dtype)
            if fits is not None and not fits(value):
                raise Reject("no such value")
            return value
        return found[-1 - min(int(self.random.exponential(2)), len(found) - 1)]

    def partner(self, value, dtype=None):
        """A value that broadcasts with this one."""
        dtype = dtype or value.dtype
        def fits(other):
            if other.dtype != dtype:
                return False
            try:
                return all(np.prod(np.broadcast_shapes(a.shape, b.shape)) <= MOST_ELEMENTS
                           for a, b in zip(value.arrays, other.arrays))
            except ValueError:
                return False
        found = [v for v in self.values.values() if fits(v)]
        if found and self.coin(0.5):
            return self.choice(found)
        dims = [1 if value.is_open(i) or self.coin(0.3) else dim for i, dim in enumerate(value.shape)]
        dims = dims[self.up(0, len(dims)):] if self.coin() else dims
        if self.coin(0.1):
            dims = [self.choice([1, 2])] * self.up(1, 2) + dims if len(dims) == value.rank else dims
        return self.operand(dims, dtype)

    def add(self, op, inputs, outputs=1, domain="", **attributes):
        """Adds a node of Values (None: absent) and returns its results; raises Reject."""
        results = self.evaluate(op, inputs, outputs, domain, attributes)
        for arrays in results:
            for array in arrays:
                self.judge(array)
        names = [self.name("v") for _ in range(outputs)]
        self.nodes.append(Node(op, [v.name if v is not None else "" for v in inputs], names, attributes, domain))
        values = [Value(name, arrays) for name, arrays in zip(names, results)]
        self.values.update((v.name, v) for v in values)
        return values[0] if outputs == 1 else values

    def judge_dtype(self, dtype):
        if dtype == BF16 and self.opset < 13:
            raise Reject("bfloat16")

    def judge(self, array):
        self.judge_dtype(array.dtype)
        if array.size > MOST_ELEMENTS or array.ndim > 7:
            raise Reject("too large")
        if array.size == 0 and not self.coin(0.1):
            raise Reject("empty")
        if array.size and array.dtype in FLOATS:
            wide = array.astype(np.float64)
            if not np.isfinite(wide).all():
                if not self.has_infinities:
                    raise Reject("not finite")
            elif np.abs(wide).max() > 3000:
                raise Reject("too large values")
        elif array.size and array.dtype in INTS and np.abs(array.astype(np.float64)).max() > 1 << 24:
            raise Reject("too large values")

    def evaluate(self, op, inputs, outputs, domain, attributes):
        if op == "Cast":
            return [tuple(cast(a, helper.tensor_dtype_to_np_dtype(attributes["to"])) for a in inputs[0].arrays)]
        half = next((v.dtype for v in inputs if v is not None and v.dtype in HALVES), None)
        names = [f"i{i}" if v is not None else "" for i, v in enumerate(inputs)]
        feeds = [{n: widened(v.arrays[k]) for n, v in zip(names, inputs) if v is not None} for k in (0, 1)]
        for feed in feeds:
            for v in feed.values():
                if v.dtype not in FLOATS + INTS + (BOOL,):
                    raise Reject("dtype")
        fixed = {v.name for v in inputs if v is not None and v.name in self.constants}
        initial = [numpy_helper.from_array(feeds[0][n], n) for n, v in zip(names, inputs)
                   if v is not None and v.name in fixed]
        declared = [helper.make_tensor_value_info(n, onnx_type(feeds[0][n].dtype), [None] * feeds[0][n].ndim)
                    for n, v in zip(names, inputs) if v is not None and v.name not in fixed]
        results = [f"o{i}" for i in range(outputs)]
        node = helper.make_node(op, names, results, domain=domain, **attributes)
        body = helper.make_graph([node], "g", declared, [helper.make_empty_tensor_value_info(r) for r in results],
                                 initial)
        try:
            run = session(make_model(body, self.opset))
            found = []
            for k in (0, 1):
                if k and not any(v is not None and v.is_open() for v in inputs) and all(
                        v is None or v.arrays[0] is v.arrays[1] for v in inputs):
                    found.append(found[0])
                    continue
                found.append(run.run(None, {d.name: feeds[k][d.name] for d in declared}))
        except Exception as error:
            raise Reject(f"{op}: {error}") from error
        if half is not None:
            found = [[a.astype(half) if a.dtype == F32 else a for a in arrays] for arrays in found]
        return list(zip(*found))

    # --- the model
    def model(self, outputs):
        """The bytes of the graph with these outputs."""
        def dims(value):
            dims = list(value.shape)
            if value.name in self.open_inputs:
                dims[self.open_inputs[value.name]] = "n"
            return dims
        body = helper.make_graph(
            [helper.make_node(n.op, n.inputs, n.outputs, name=f"node_{i}", domain=n.domain, **n.attributes)
             for i, n in enumerate(self.nodes)], "g",
            [helper.make_tensor_value_info(v.name, onnx_type(v.dtype), dims(v)) for v in self.inputs.values()],
            [helper.make_tensor_value_info(n, onnx_type(self.values[n].dtype), [None] * self.values[n].rank)
             for n in outputs],
            [tensor_proto(a, n) for n, a in self.constants.items()])
        return make_model(body, self.opset)

    def is_open(self):
        return bool(self.open_inputs)


def cast(array, dtype):
    if dtype in INTS and array.dtype in FLOATS and array.size:
        wide = array.astype(np.float64)
        info = np.iinfo(dtype)
        if not np.isfinite(wide).all() or wide.min() <= max(info.min, -1e6) - 1 or wide.max() >= min(info.max, 1e6) + 1:
            raise Reject("not representable")
    return array.astype(dtype)


def make_model(body, opset):
    model = helper.make_model(body, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8 if opset < 19 else 10
    return model
