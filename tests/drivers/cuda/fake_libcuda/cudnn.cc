// SPDX-License-Identifier: Apache-2.0
// A stand-in for cuDNN's graph interface in the same library: a convolution with additions behind
// it, computed on the host by the stream that it is put into. It has three engines: 1 does
// it at once, 2 leaves the sums in its workspace and finishes in a second kernel, and 3 is proposed
// and not to be taken: its notes say that it adds up in 16 bits. What it is given is checked as the
// library's manual asks.
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/dtype.h"
#include "drivers/cuda/cudnn_api.h"
#include "tests/drivers/cuda/fake_libcuda/control.h"
#include "tests/drivers/cuda/fake_libcuda/state.h"
#include "tests/library_call_reference.h"

namespace halyard::drivers::cuda {

struct cudnnContext {
  CUstream stream = nullptr;
};

}  // namespace halyard::drivers::cuda

namespace halyard::fake_cuda {
namespace {

// Behind the library's opaque descriptors: what was set, as bytes.
struct GraphPart {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool is_finished = false;
  std::map<int, std::vector<uint8_t>> attributes;

  template <typename T>
  std::vector<T> All(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <typename T>
  T One(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    const std::vector<T> values = All<T>(name);
    return values.empty() ? otherwise : values[0];
  }
  const GraphPart* Part(cudnnBackendAttributeName_t name) const {
    return static_cast<const GraphPart*>(One<void*>(name));
  }
};

std::atomic<long> cudnn_version{91901};

cudnnStatus_t EnterCudnn(const char* function) {
  return Enter(function) == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}

#define FAKE_CUDNN_ENTER(name)                             \
  do {                                                     \
    const cudnnStatus_t injected = EnterCudnn(#name);      \
    if (injected != CUDNN_STATUS_SUCCESS) return injected; \
  } while (false)

// A tensor of a graph, copied: its descriptor may be gone when it is computed.
struct GraphTensor {
  int64_t name = 0;
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims, strides;
  bool is_virtual = false;

  int64_t At(const int64_t (&index)[4]) const {
    int64_t at = 0;
    for (size_t i = 0; i < 4; ++i) at += dims[i] == 1 ? 0 : index[i] * strides[i];
    return at;
  }
  int64_t Bytes() const {
    int64_t last = 0;
    for (size_t i = 0; i < 4; ++i) last += (dims[i] - 1) * strides[i];
    return (last + 1) * BitWidth(dtype) / 8;
  }
};

GraphTensor ReadTensor(const GraphPart* part) {
  GraphTensor tensor;
  if (part == nullptr || !part->is_finished) return tensor;
  tensor.name = part->One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.dims = part->All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = part->All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.is_virtual = part->One<uint8_t>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  switch (part->One<int>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    case CUDNN_DATA_FLOAT:
      tensor.dtype = DType::kF32;
      break;
    case CUDNN_DATA_HALF:
      tensor.dtype = DType::kF16;
      break;
    case CUDNN_DATA_BFLOAT16:
      tensor.dtype = DType::kBF16;
      break;
  }
  return tensor;
}

// A convolution and what is behind it, and one call of it.
struct ConvolutionCall {
  GraphTensor x, w, y;
  std::vector<int64_t> stride, dilation, pad_before, pad_after;
  std::vector<GraphTensor> steps;  // addends
  std::map<int64_t, uint8_t*> places;
  float* sums = nullptr;  // engine 2: in the workspace

  int64_t Count() const { return y.dims[0] * y.dims[1] * y.dims[2] * y.dims[3]; }
  size_t WorkspaceBytes() const { return static_cast<size_t>(Count()) * sizeof(float); }

  bool IsSound() const {
    for (const GraphTensor* tensor : {&x, &w, &y}) {
      if (tensor->dims.size() != 4 || tensor->strides.size() != 4 ||
          tensor->dtype == DType::kInvalid) {
        return false;
      }
    }
    if (stride.size() != 2 || dilation.size() != 2 || pad_before.size() != 2 ||
        pad_after.size() != 2 || x.dims[1] != w.dims[1] || x.dims[0] != y.dims[0] ||
        w.dims[0] != y.dims[1] || x.dtype != w.dtype || y.is_virtual) {
      return false;
    }
    for (size_t i = 0; i < 2; ++i) {
      const int64_t room =
          x.dims[i + 2] + pad_before[i] + pad_after[i] - (w.dims[i + 2] - 1) * dilation[i] - 1;
      if (room < 0 || room / stride[i] + 1 != y.dims[i + 2]) return false;
    }
    return true;
  }

  bool IsInMemory() const {
    std::vector<GraphTensor> all = {x, w, y};
    all.insert(all.end(), steps.begin(), steps.end());
    std::lock_guard lock(TheState().mutex);
    for (const GraphTensor& tensor : all) {
      const auto found = places.find(tensor.name);
      if (found == places.end() ||
          FindMemory(reinterpret_cast<CUdeviceptr>(found->second),
                     static_cast<size_t>(tensor.Bytes()), nullptr) == nullptr) {
        return false;
      }
    }
    return true;
  }

  double Load(const GraphTensor& tensor, const int64_t (&index)[4]) const {
    return FloatAt(places.at(tensor.name), tensor.dtype, tensor.At(index));
  }

  double Sum(const int64_t (&at)[4]) const {
    double sum = 0;
    for (int64_t c = 0; c < x.dims[1]; ++c) {
      for (int64_t r = 0; r < w.dims[2]; ++r) {
        for (int64_t s = 0; s < w.dims[3]; ++s) {
          const int64_t row = at[2] * stride[0] + r * dilation[0] - pad_before[0];
          const int64_t column = at[3] * stride[1] + s * dilation[1] - pad_before[1];
          const bool is_inside = row >= 0 && row < x.dims[2] && column >= 0 && column < x.dims[3];
          sum += (is_inside ? Load(x, {at[0], c, row, column}) : 0) * Load(w, {at[1], c, r, s});
        }
      }
    }
    return sum;
  }

  void Finish(double value, const int64_t (&at)[4]) const {
    for (const GraphTensor& step : steps) value += Load(step, at);
    StoreFloat(places.at(y.name), y.dtype, y.At(at), value);
  }

  template <typename Body>
  void ForEach(Body body) const {
    for (int64_t n = 0; n < y.dims[0]; ++n) {
      for (int64_t k = 0; k < y.dims[1]; ++k) {
        for (int64_t p = 0; p < y.dims[2]; ++p) {
          for (int64_t q = 0; q < y.dims[3]; ++q) body({n, k, p, q});
        }
      }
    }
  }
};

// What a finished graph computes; not sound where that is nothing of the above.
ConvolutionCall ReadGraph(const GraphPart* graph) {
  ConvolutionCall call;
  if (graph == nullptr) return call;
  int64_t value = 0;  // the name of what the last operation made
  for (void* handle : graph->All<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const auto* operation = static_cast<const GraphPart*>(handle);
    if (operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      const GraphPart* how = operation->Part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      if (how == nullptr || !how->is_finished || value != 0 ||
          how->One<int>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
          how->One<int>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, -1) != CUDNN_DATA_FLOAT ||
          operation->One<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA) != 1 ||
          operation->One<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 1) != 0) {
        return {};
      }
      call.x = ReadTensor(operation->Part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
      call.w = ReadTensor(operation->Part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
      call.y = ReadTensor(operation->Part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
      call.stride = how->All<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
      call.dilation = how->All<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
      call.pad_before = how->All<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
      call.pad_after = how->All<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
      value = call.y.name;
      continue;
    }
    const GraphPart* how = operation->Part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (how == nullptr || value == 0) return {};
    const GraphTensor from = ReadTensor(operation->Part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const GraphTensor step = ReadTensor(operation->Part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    if (how->One<int>(CUDNN_ATTR_POINTWISE_MODE, -1) != CUDNN_POINTWISE_ADD || !from.is_virtual ||
        from.name != value || step.name == 0 || step.is_virtual || step.dims.size() != 4) {
      return {};
    }
    call.steps.push_back(step);
    call.y = ReadTensor(operation->Part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    value = call.y.name;
  }
  return call;
}

// What a configuration says: of one that the library proposed, its engine is not a descriptor of
// its own but the graph, with the engine's number beside it.
struct Configuration {
  const GraphPart* graph = nullptr;
  int64_t engine = 0;
  bool has_right_knobs = true;
};

Configuration ReadConfiguration(const GraphPart* part) {
  const GraphPart* engine = part->Part(CUDNN_ATTR_ENGINECFG_ENGINE);
  if (engine->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    return {engine, part->One<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)};
  }
  Configuration read{engine->Part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH),
                     engine->One<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), false};
  // The only knob is the one that it proposes, with the value that it proposes.
  const auto knobs = part->All<void*>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  if (knobs.size() != 1) return read;
  const auto* knob = static_cast<const GraphPart*>(knobs[0]);
  read.has_right_knobs = knob->One<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) == 13 &&
                         knob->One<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) == 7;
  return read;
}

int64_t WorkspaceOf(int64_t engine, const ConvolutionCall& call) {
  return engine == 2 ? static_cast<int64_t>(call.WorkspaceBytes()) : 0;
}

void SubmitCall(const std::shared_ptr<const ConvolutionCall>& call, const char* name,
                CUstream stream, std::function<void()> body) {
  Operation operation;
  operation.task.kind = Task::Kind::kCall;
  operation.task.name = name;
  operation.task.call = [call, body = std::move(body)] {
    if (!call->IsInMemory()) return Fault("a convolution leaves what is allocated");
    body();
  };
  Enqueue(stream, std::move(operation));
}

size_t SizeOfAttribute(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

void SetInt64(GraphPart& part, cudnnBackendAttributeName_t name, int64_t value) {
  part.attributes[name].resize(sizeof(value));
  std::memcpy(part.attributes[name].data(), &value, sizeof(value));
}

void SetPart(GraphPart& part, cudnnBackendAttributeName_t name, const void* other) {
  SetInt64(part, name, static_cast<int64_t>(reinterpret_cast<intptr_t>(other)));
}

cudnnStatus_t FinishPart(GraphPart& part) {
  switch (part.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const GraphTensor tensor = [&] {
        part.is_finished = true;
        return ReadTensor(&part);
      }();
      // A range of an arena is aligned to 64 bytes, and nobody must be promised more.
      const int64_t alignment = part.One<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
      const bool is_sound = tensor.dims.size() == 4 && tensor.strides.size() == 4 &&
                            tensor.dtype != DType::kInvalid && alignment >= 1 && alignment <= 64;
      part.is_finished = is_sound;
      return is_sound ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    }
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (part.One<void*>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) == nullptr) {
        return CUDNN_STATUS_BAD_PARAM;
      }
      return ReadGraph(&part).IsSound() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: {
      const auto engine = part.One<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      return engine >= 1 && engine <= 3 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Configuration configuration =
          ReadConfiguration(part.Part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
      const ConvolutionCall call = ReadGraph(configuration.graph);
      if (!call.IsSound()) return CUDNN_STATUS_BAD_PARAM;
      if (!configuration.has_right_knobs) return CUDNN_STATUS_NOT_SUPPORTED;
      SetInt64(part, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
               WorkspaceOf(configuration.engine, call));
      return CUDNN_STATUS_SUCCESS;
    }
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

}  // namespace

FAKE_API size_t cudnnGetVersion() { return static_cast<size_t>(cudnn_version.load()); }

FAKE_API const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "CUDNN_STATUS";
  }
}

FAKE_API void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (max_size > 0) message[0] = '\0';
}

FAKE_API cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  FAKE_CUDNN_ENTER(cudnnCreate);
  *handle = new cudnnContext;
  CountLive("cudnn handle", 1);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const cudnnStatus_t injected = EnterCudnn("cudnnDestroy");
  delete handle;
  CountLive("cudnn handle", -1);
  return injected;
}

FAKE_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  FAKE_CUDNN_ENTER(cudnnSetStream);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                    cudnnBackendDescriptor_t* descriptor) {
  FAKE_CUDNN_ENTER(cudnnBackendCreateDescriptor);
  auto* part = new GraphPart;
  part->type = type;
  *descriptor = part;
  CountLive("cudnn descriptor", 1);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t injected = EnterCudnn("cudnnBackendDestroyDescriptor");
  delete static_cast<GraphPart*>(descriptor);
  CountLive("cudnn descriptor", -1);
  return injected;
}

FAKE_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  FAKE_CUDNN_ENTER(cudnnBackendFinalize);
  auto& part = *static_cast<GraphPart*>(descriptor);
  if (part.is_finished) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t finished = FinishPart(part);
  part.is_finished = finished == CUDNN_STATUS_SUCCESS;
  return finished;
}

FAKE_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                cudnnBackendAttributeName_t name,
                                                cudnnBackendAttributeType_t type, int64_t count,
                                                const void* values) {
  FAKE_CUDNN_ENTER(cudnnBackendSetAttribute);
  auto& part = *static_cast<GraphPart*>(descriptor);
  if (part.is_finished || count < 0 || (count > 0 && values == nullptr)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const auto* other = static_cast<const GraphPart* const*>(values)[i];
      if (other == nullptr || !other->is_finished) return CUDNN_STATUS_BAD_PARAM;
    }
  }
  const auto* bytes = static_cast<const uint8_t*>(values);
  part.attributes[name].assign(bytes, bytes + static_cast<size_t>(count) * SizeOfAttribute(type));
  return CUDNN_STATUS_SUCCESS;
}

FAKE_API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                cudnnBackendAttributeName_t name,
                                                cudnnBackendAttributeType_t type, int64_t room,
                                                int64_t* count, void* values) {
  FAKE_CUDNN_ENTER(cudnnBackendGetAttribute);
  const auto& part = *static_cast<const GraphPart*>(descriptor);
  if (part.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    // What it writes are descriptors that the caller has made.
    const GraphPart* graph = part.Part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    *count = std::min<int64_t>(room, 3);
    for (int64_t i = 0; i < *count; ++i) {
      auto& configuration = *static_cast<GraphPart**>(values)[i];
      SetPart(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, graph);
      SetInt64(configuration, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, i == 0 ? 3 : i);
      configuration.is_finished = true;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (part.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    auto& engine = *static_cast<GraphPart**>(values)[0];
    SetInt64(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
             part.One<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (part.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) {
    auto& knob = *static_cast<GraphPart**>(values)[0];
    const int type_of_knob = 13;
    knob.attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE].resize(4);
    std::memcpy(knob.attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE].data(), &type_of_knob, 4);
    SetInt64(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 7);
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (part.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    const int note = CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    *count = part.One<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == 3 ? 1 : 0;
    if (*count == 1 && room > 0) std::memcpy(values, &note, sizeof(note));
    return CUDNN_STATUS_SUCCESS;
  }
  const auto found = part.attributes.find(name);
  if (found == part.attributes.end()) return CUDNN_STATUS_BAD_PARAM;
  *count = static_cast<int64_t>(found->second.size() / SizeOfAttribute(type));
  std::memcpy(values, found->second.data(),
              std::min(found->second.size(), static_cast<size_t>(room) * SizeOfAttribute(type)));
  return CUDNN_STATUS_SUCCESS;
}

FAKE_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                           cudnnBackendDescriptor_t pack) {
  FAKE_CUDNN_ENTER(cudnnBackendExecute);
  const auto& made = *static_cast<const GraphPart*>(plan);
  const auto& given = *static_cast<const GraphPart*>(pack);
  if (!made.is_finished || !given.is_finished) return CUDNN_STATUS_BAD_PARAM;
  const Configuration configuration =
      ReadConfiguration(made.Part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  auto call = std::make_shared<ConvolutionCall>(ReadGraph(configuration.graph));
  const auto names = given.All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto places = given.All<uint8_t*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (names.size() != places.size()) return CUDNN_STATUS_BAD_PARAM;
  for (size_t i = 0; i < names.size(); ++i) call->places[names[i]] = places[i];
  if (configuration.engine == 1) {
    SubmitCall(call, "convolution", handle->stream, [call = call.get()] {
      call->ForEach([&](const int64_t(&at)[4]) { call->Finish(call->Sum(at), at); });
    });
    return CUDNN_STATUS_SUCCESS;
  }
  auto* workspace = given.One<uint8_t*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (workspace == nullptr || reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  call->sums = reinterpret_cast<float*>(workspace);
  SubmitCall(call, "sums", handle->stream, [call = call.get()] {
    bool is_there = false;
    {
      std::lock_guard lock(TheState().mutex);
      is_there = FindMemory(reinterpret_cast<CUdeviceptr>(call->sums), call->WorkspaceBytes(),
                            nullptr) != nullptr;
    }
    if (!is_there) return Fault("a workspace leaves what is allocated");
    float* to = call->sums;
    call->ForEach([&](const int64_t(&at)[4]) { *to++ = static_cast<float>(call->Sum(at)); });
  });
  SubmitCall(call, "finish", handle->stream, [call = call.get()] {
    const float* from = call->sums;
    call->ForEach([&](const int64_t(&at)[4]) { call->Finish(*from++, at); });
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace halyard::fake_cuda

FAKE_API void fake_cudnn_set_version(long version) { halyard::fake_cuda::cudnn_version = version; }
