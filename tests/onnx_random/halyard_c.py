# SPDX-License-Identifier: Apache-2.0
"""The part of include/halyard.h that compares models: instance, devices, programs, sessions. Arrays are NumPy's."""
import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p

import ml_dtypes
import numpy as np

MAX_RANK = 16
# hy_dtype
DTYPES = {np.dtype(np.bool_): 1, np.dtype(np.int8): 2, np.dtype(np.uint8): 3, np.dtype(np.int16): 4,
          np.dtype(np.uint16): 5, np.dtype(np.int32): 6, np.dtype(np.uint32): 7, np.dtype(np.int64): 8,
          np.dtype(np.uint64): 9, np.dtype(np.float16): 10, np.dtype(ml_dtypes.bfloat16): 11,
          np.dtype(np.float32): 12, np.dtype(np.float64): 13}
OF_DTYPE = {number: dtype for dtype, number in DTYPES.items()}


class String(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("size", c_size_t)]

    @staticmethod
    def of(text):
        data = text.encode()
        return String(data, len(data))


def text_of(string):
    return ctypes.string_at(string.data, string.size).decode() if string.size else ""


def struct(name, type_number, fields, defaults=None):
    """A struct that begins with struct_size, type and next, with the defaults of its HY_*_INIT."""
    def init(self, **values):
        ctypes.Structure.__init__(self, ctypes.sizeof(type(self)), type_number, None)
        for key, value in {**(defaults or {}), **values}.items():
            setattr(self, key, value)
    return type(name, (ctypes.Structure,), {
        "_fields_": [("struct_size", c_uint32), ("type", c_int32), ("next", c_void_p), *fields], "__init__": init})


InstanceDesc = struct("InstanceDesc", 1, [
    ("log", c_void_p), ("log_context", c_void_p), ("log_level", c_int32), ("on_missing_device", c_int32),
    ("on_unsupported_op", c_int32), ("drivers", c_void_p), ("driver_count", c_size_t), ("cache_folder", String)])
CompileDesc = struct("CompileDesc", 5, [
    ("onnx_path", String), ("onnx_data", c_char_p), ("onnx_size_bytes", c_size_t), ("external_folder", String),
    ("graph", c_void_p), ("devices", POINTER(c_void_p)), ("device_count", c_size_t), ("symbols", c_void_p),
    ("symbol_count", c_size_t), ("on_unsupported_op", c_int32), ("disable_tuning", c_uint32),
    ("disable_cache", c_uint32), ("fast_reductions", c_uint32), ("progress", c_void_p), ("progress_context", c_void_p),
    ("precision", c_int32), ("affinities", c_void_p), ("affinity_count", c_size_t), ("memory_caps", c_void_p),
    ("memory_cap_count", c_size_t), ("verify_plan", c_uint32), ("replan", c_uint32), ("vendor_libraries", c_int32),
    ("should_stop", c_void_p), ("io_precision", c_int32)])
TensorInfo = struct("TensorInfo", 7, [
    ("name", String), ("dtype", c_int32), ("rank", c_uint32), ("dims", c_int64 * MAX_RANK), ("shape", String)])
SessionDesc = struct("SessionDesc", 9, [
    ("on_new_shapes", c_int32), ("memory_limit_bytes", c_int64), ("time_runs", c_uint32)])
HyTensor = struct("HyTensor", 10, [
    ("dtype", c_int32), ("rank", c_uint32), ("dims", c_int64 * MAX_RANK), ("data", c_void_p), ("size_bytes", c_size_t),
    ("buffer", c_void_p), ("buffer_offset", c_size_t)])


class SymbolValue(ctypes.Structure):
    _fields_ = [("name", String), ("value", c_int64)]


class Affinity(ctypes.Structure):
    _fields_ = [("pattern", String), ("device", String), ("kind", c_int32)]


class Failure(Exception):
    """A call that failed, with its result's name and hy_last_error."""

    def __init__(self, name, sentence):
        super().__init__(f"{name}: {sentence}")
        self.name, self.sentence = name, sentence


class Library:
    def __init__(self, path, cache_folder="off"):
        self.lib = ctypes.CDLL(str(path))
        self.lib.hy_last_error.restype = String
        self.lib.hy_result_name.restype = String
        for name in ("hy_program_release", "hy_session_release"):
            getattr(self.lib, name).argtypes = [c_void_p]
            getattr(self.lib, name).restype = None
        self.instance = c_void_p()
        self.check(self.lib.hy_instance_create(
            ctypes.byref(InstanceDesc(log_level=0, cache_folder=String.of(str(cache_folder)))),
            ctypes.byref(self.instance)))
        self.devices = {}

    def check(self, result):
        if result != 0:
            raise Failure(text_of(self.lib.hy_result_name(result)), text_of(self.lib.hy_last_error()))

    def device(self, path):
        if path not in self.devices:
            opened = c_void_p()
            self.check(self.lib.hy_device_open(self.instance, String.of(path), ctypes.byref(opened)))
            self.devices[path] = opened
        return self.devices[path]

    def compile(self, model, devices=("cpu:0",), symbols=None, affinities=(), **fields):
        """The program of ONNX bytes; affinities are (pattern, device) pairs that must hold."""
        opened = (c_void_p * len(devices))(*[self.device(path) for path in devices])
        fixed = (SymbolValue * len(symbols or {}))(
            *[SymbolValue(String.of(name), value) for name, value in (symbols or {}).items()])
        wanted = (Affinity * len(affinities))(
            *[Affinity(String.of(pattern), String.of(device), 0) for pattern, device in affinities])
        desc = CompileDesc(
            onnx_data=model, onnx_size_bytes=len(model), devices=opened, device_count=len(devices),
            symbols=ctypes.cast(fixed, c_void_p) if symbols else None, symbol_count=len(fixed),
            affinities=ctypes.cast(wanted, c_void_p) if affinities else None, affinity_count=len(wanted),
            **{"disable_tuning": 1, "disable_cache": 1, **fields})
        program = c_void_p()
        self.check(self.lib.hy_program_compile(self.instance, ctypes.byref(desc), ctypes.byref(program)))
        return Program(self, program)


class Program:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle
        self.session = c_void_p()
        library.check(library.lib.hy_session_create(handle, ctypes.byref(SessionDesc()), ctypes.byref(self.session)))
        count = c_size_t(0)
        library.lib.hy_program_io(handle, 1, None, ctypes.byref(count))
        self.output_count = count.value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.lib.hy_session_release(self.session)
        self.library.lib.hy_program_release(self.handle)

    def run(self, arrays):
        arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
        inputs = (HyTensor * len(arrays))()
        for tensor, array in zip(inputs, arrays):
            tensor.__init__(dtype=DTYPES[array.dtype], rank=array.ndim, size_bytes=array.nbytes,
                            data=array.ctypes.data)
            tensor.dims[:array.ndim] = array.shape
        outputs = (HyTensor * self.output_count)()
        for tensor in outputs:
            tensor.__init__()
        self.library.check(self.library.lib.hy_session_run(
            self.session, inputs, c_size_t(len(arrays)), outputs, c_size_t(self.output_count)))
        results = []
        for tensor in outputs:
            shape, dtype = tuple(tensor.dims[:tensor.rank]), OF_DTYPE[tensor.dtype]
            data = ctypes.string_at(tensor.data, tensor.size_bytes) if tensor.size_bytes else b""
            results.append(np.frombuffer(data, dtype).reshape(shape))
        return results
