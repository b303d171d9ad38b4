// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/library_convolution.h"

#include <algorithm>

namespace halyard::drivers::cuda {
namespace {

constexpr int64_t kMostConvolutionExtent = INT32_MAX;
constexpr int64_t kTensorAlignment = 16;  // more helps no engine

// Names of tensors in a graph; values between operations have those from kBetween on.
enum TensorName : int64_t { kX = 1, kW, kY, kZ, kBias, kBetween };

Result<cudnnDataType_t> CudnnTypeOf(uint32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::kF32:
      return CUDNN_DATA_FLOAT;
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return DataLoss("A library record has the element type {}.", dtype);
  }
}

struct TensorPart {
  const GpuLibraryTensor* tensor;
  TensorName name;
  std::string_view text;
  int64_t dims[4];
  uint32_t dtype;
};

// Those that the record has.
std::vector<TensorPart> PartsOf(const GpuLibraryConvolution& c) {
  std::vector<TensorPart> parts = {
      {&c.x, kX, "x", {c.images, c.input_channels, c.input[0], c.input[1]}, c.input_dtype},
      {&c.w,
       kW,
       "w",
       {c.output_channels, c.input_channels, c.window[0], c.window[1]},
       c.input_dtype},
      {&c.y, kY, "y", {c.images, c.output_channels, c.output[0], c.output[1]}, c.output_dtype},
  };
  if (c.z.binding != kNoLibraryBinding) {
    parts.push_back(
        {&c.z, kZ, "z", {c.images, c.output_channels, c.output[0], c.output[1]}, c.output_dtype});
  }
  if (c.bias.binding != kNoLibraryBinding) {
    parts.push_back({&c.bias, kBias, "bias", {1, c.output_channels, 1, 1}, c.output_dtype});
  }
  return parts;
}

class GraphMaker {
 public:
  GraphMaker(const CudnnApi& api, const GpuLibraryConvolution& convolution)
      : api_(api), c_(convolution) {}

  Result<CudnnGraph> Make(cudnnHandle_t handle) {
    for (const TensorPart& part : PartsOf(c_)) {
      HY_ASSIGN(const cudnnDataType_t type, CudnnTypeOf(part.dtype));
      int64_t strides[4];
      std::copy_n(part.tensor->strides, 4, strides);
      if (part.name == kBias) {
        strides[0] = strides[2] = strides[3] = c_.output_channels;
        strides[1] = 1;
      }
      HY_ASSIGN(tensors_[part.name], AddTensor(part.name, type, part.dims, strides,
                                               LibraryAlignment(part.tensor->offset, part.dtype)));
    }
    const bool has_z = tensors_[kZ] != nullptr, has_bias = tensors_[kBias] != nullptr;
    int left = (has_z ? 1 : 0) + (has_bias ? 1 : 0);
    // Values on the way are in f32; the last is y.
    const auto next = [&]() -> Result<cudnnBackendDescriptor_t> {
      if (left-- == 0) return tensors_[kY];
      return AddBetween(kBetween + left, CUDNN_DATA_FLOAT);
    };
    HY_ASSIGN(cudnnBackendDescriptor_t value, next());
    HY_TRY(AddConvolution(value));
    // In the order that the engines know which are compiled already: z, then bias.
    for (const TensorName addend : {kZ, kBias}) {
      if (tensors_[addend] == nullptr) continue;
      HY_ASSIGN(const cudnnBackendDescriptor_t sum, next());
      HY_TRY(AddSum(value, tensors_[addend], sum));
      value = sum;
    }
    HY_ASSIGN(CudnnDescriptor graph,
              CudnnDescriptor::Create(api_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    HY_TRY(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     static_cast<int64_t>(operations_.size()), operations_.data()));
    HY_TRY(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    HY_TRY(graph.Finish());
    made_.parts.push_back(std::move(graph));
    return std::move(made_);
  }

 private:
  cudnnBackendDescriptor_t Keep(CudnnDescriptor descriptor) {
    made_.parts.push_back(std::move(descriptor));
    return made_.parts.back().handle();
  }

  Result<cudnnBackendDescriptor_t> AddTensor(int64_t name, cudnnDataType_t type,
                                             std::span<const int64_t, 4> dims,
                                             std::span<const int64_t, 4> strides, int64_t alignment,
                                             bool is_virtual = false) {
    HY_ASSIGN(CudnnDescriptor tensor,
              CudnnDescriptor::Create(api_, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
    alignment = std::min(alignment, kTensorAlignment);
    HY_TRY(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    HY_TRY(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims));
    HY_TRY(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, strides));
    HY_TRY(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {&name, 1}));
    HY_TRY(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {&alignment, 1}));
    HY_TRY(tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual));
    HY_TRY(tensor.Finish());
    return Keep(std::move(tensor));
  }

  // What operations pass to each other.
  Result<cudnnBackendDescriptor_t> AddBetween(int64_t name, cudnnDataType_t type) {
    const int64_t dims[4] = {c_.images, c_.output_channels, c_.output[0], c_.output[1]};
    return AddTensor(name, type, dims, c_.y.strides, kTensorAlignment, true);
  }

  Status AddConvolution(cudnnBackendDescriptor_t result) {
    HY_ASSIGN(CudnnDescriptor how,
              CudnnDescriptor::Create(api_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = 2;
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums));
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {&rank, 1}));
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, c_.dilation));
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c_.stride));
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c_.pad_before));
    HY_TRY(how.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c_.pad_after));
    HY_TRY(how.Finish());
    HY_ASSIGN(
        CudnnDescriptor operation,
        CudnnDescriptor::Create(api_, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
    const float one = 1, zero = 0;
    const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t tensor) {
      return operation.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor);
    };
    HY_TRY(set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensors_[kX]));
    HY_TRY(set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensors_[kW]));
    HY_TRY(set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, result));
    HY_TRY(operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how));
    HY_TRY(
        operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one));
    HY_TRY(
        operation.Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero));
    HY_TRY(operation.Finish());
    Keep(std::move(how));
    operations_.push_back(Keep(std::move(operation)));
    return OkStatus();
  }

  Status AddSum(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                cudnnBackendDescriptor_t y) {
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    HY_ASSIGN(CudnnDescriptor how,
              CudnnDescriptor::Create(api_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    HY_TRY(how.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    HY_TRY(how.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
    HY_TRY(how.Finish());
    HY_ASSIGN(CudnnDescriptor operation,
              CudnnDescriptor::Create(api_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
    const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t tensor) {
      return operation.Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor);
    };
    HY_TRY(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how));
    HY_TRY(set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x));
    HY_TRY(set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b));
    HY_TRY(set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y));
    HY_TRY(operation.Finish());
    Keep(std::move(how));
    operations_.push_back(Keep(std::move(operation)));
    return OkStatus();
  }

  const CudnnApi& api_;
  const GpuLibraryConvolution& c_;
  CudnnGraph made_;
  cudnnBackendDescriptor_t tensors_[kBetween] = {};
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace

Status CheckLibraryConvolution(const GpuLibraryConvolution& c, uint32_t binding_count) {
  HY_TRY(CudnnTypeOf(c.input_dtype));
  HY_TRY(CudnnTypeOf(c.output_dtype));
  if (c.activation != GpuLibraryActivation::kNone) {
    return DataLoss("A library record has the activation {}.", static_cast<uint32_t>(c.activation));
  }
  const auto extent = [](int64_t value, int64_t least) -> Status {
    if (value >= least && value <= kMostConvolutionExtent) return OkStatus();
    return DataLoss("A library record has the extent {}; {} to {} can be.", value, least,
                    kMostConvolutionExtent);
  };
  for (const int64_t value : {c.images, c.input_channels, c.output_channels}) {
    HY_TRY(extent(value, 1));
  }
  for (int axis = 0; axis < 2; ++axis) {
    for (const int64_t value :
         {c.input[axis], c.window[axis], c.output[axis], c.stride[axis], c.dilation[axis]}) {
      HY_TRY(extent(value, 1));
    }
    HY_TRY(extent(c.pad_before[axis], 0));
    HY_TRY(extent(c.pad_after[axis], 0));
    // No sum overflows: each is below 2^63.
    const int64_t room = c.input[axis] + c.pad_before[axis] + c.pad_after[axis] -
                         (c.window[axis] - 1) * c.dilation[axis] - 1;
    if (room < 0 || room / c.stride[axis] + 1 != c.output[axis]) {
      return DataLoss("A library record for {} has a result of {}x{}.", FormatLibraryConvolution(c),
                      c.output[0], c.output[1]);
    }
  }
  for (const TensorPart& part : PartsOf(c)) {
    const bool is_open = part.name == kY && binding_count == kNoLibraryBinding;
    if (!is_open && part.tensor->binding >= binding_count) {
      return DataLoss("A library record takes {} from binding {} of {}.", part.text,
                      part.tensor->binding, binding_count);
    }
    if (part.tensor->offset < 0 || part.tensor->offset > INT64_MAX / 8) {
      return DataLoss("A library record has the offset {} for {}.", part.tensor->offset, part.text);
    }
    for (const int64_t stride : part.tensor->strides) {
      if (part.name != kBias && (stride < 1 || stride > INT64_MAX / 8)) {
        return DataLoss("A library record has the stride {} for {}.", stride, part.text);
      }
    }
  }
  return OkStatus();
}

Result<CudnnGraph> MakeConvolutionGraph(const CudnnApi& api, cudnnHandle_t handle,
                                        const GpuLibraryConvolution& convolution) {
  return GraphMaker(api, convolution).Make(handle);
}

CudnnPointers PlacesOf(const GpuLibraryConvolution& convolution,
                       std::span<const uint64_t> addresses) {
  CudnnPointers pointers;
  for (const TensorPart& part : PartsOf(convolution)) {
    const int64_t bytes = part.tensor->offset * (BitWidth(static_cast<DType>(part.dtype)) / 8);
    pointers.names.push_back(part.name);
    pointers.places.push_back(
        reinterpret_cast<void*>(addresses[part.tensor->binding] + static_cast<uint64_t>(bytes)));
  }
  return pointers;
}

}  // namespace halyard::drivers::cuda
