// SPDX-License-Identifier: Apache-2.0
// A stand-in for cuBLASLt in the same library: products with their epilogues, computed on the host
// by the stream that they are put into. It has two algorithms: 1 does it at once, 2 leaves the sums
// in its workspace and finishes in a second kernel. What it is given is checked as the library's
// manual asks.
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/float16.h"
#include "drivers/cuda/cublaslt_api.h"
#include "tests/drivers/cuda/fake_libcuda/control.h"
#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::drivers::cuda {

struct cublasLtContext {};

}  // namespace halyard::drivers::cuda

namespace halyard::fake_cuda {
namespace {

// What is behind the library's opaque structures.
struct Desc {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // D's
};

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t schemes = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

static_assert(sizeof(Desc) <= sizeof(cublasLtMatmulDescOpaque_t) &&
              sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t) &&
              sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
Desc* Of(cublasLtMatmulDesc_t desc) { return reinterpret_cast<Desc*>(desc); }
Layout* Of(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }
Preference* Of(cublasLtMatmulPreference_t preference) {
  return reinterpret_cast<Preference*>(preference);
}

std::atomic<long> version{130100};

// Injected failures are CUDA's; any of them is an internal error here.
cublasStatus_t EnterLibrary(const char* function) {
  return Enter(function) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}

#define FAKE_LT_ENTER(name)                                 \
  do {                                                      \
    const cublasStatus_t injected = EnterLibrary(#name);    \
    if (injected != CUBLAS_STATUS_SUCCESS) return injected; \
  } while (false)

size_t SizeOf(int32_t type) { return type == CUDA_R_32F ? 4 : 2; }

float Read(const uint8_t* base, int32_t type, int64_t index) {
  if (type == CUDA_R_32F) {
    float value;
    std::memcpy(&value, base + index * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, base + index * 2, 2);
  return type == CUDA_R_16F ? F32FromF16(half) : F32FromBF16(half);
}

void Write(uint8_t* base, int32_t type, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(base + index * 4, &value, 4);
    return;
  }
  const uint16_t half = type == CUDA_R_16F ? F16FromF32(value) : BF16FromF32(value);
  std::memcpy(base + index * 2, &half, 2);
}

// Everything of one call, copied: descriptors may change once it is enqueued.
struct Call {
  Desc desc;
  Layout a_layout, b_layout, c_layout, d_layout;
  const uint8_t *a = nullptr, *b = nullptr, *c = nullptr;
  uint8_t* d = nullptr;
  float alpha = 1, beta = 0;
  float* sums = nullptr;  // algorithm 2: in the workspace

  int64_t m() const { return static_cast<int64_t>(d_layout.rows); }
  int64_t n() const { return static_cast<int64_t>(d_layout.columns); }
  int64_t k() const {
    return static_cast<int64_t>(desc.transpose_a == CUBLAS_OP_N ? a_layout.columns : a_layout.rows);
  }
  size_t WorkspaceBytes() const {
    return static_cast<size_t>(m() * n() * d_layout.batch) * sizeof(float);
  }

  // Shapes and leading dimensions that go together.
  bool IsSound() const {
    const bool is_ta = desc.transpose_a == CUBLAS_OP_T, is_tb = desc.transpose_b == CUBLAS_OP_T;
    const uint64_t b_rows = is_tb ? b_layout.columns : b_layout.rows;
    const uint64_t b_columns = is_tb ? b_layout.rows : b_layout.columns;
    for (const auto* layout : {&a_layout, &b_layout, &c_layout, &d_layout}) {
      if (layout->leading < static_cast<int64_t>(layout->rows) || layout->batch != d_layout.batch) {
        return false;
      }
    }
    const int32_t bias_type = desc.bias_type < 0 ? d_layout.type : desc.bias_type;
    return (is_ta ? a_layout.columns : a_layout.rows) == d_layout.rows &&
           static_cast<uint64_t>(k()) == b_rows && b_columns == d_layout.columns &&
           c_layout.rows == d_layout.rows && c_layout.columns == d_layout.columns &&
           a_layout.type == b_layout.type && c_layout.type == d_layout.type &&
           (d_layout.type == a_layout.type || d_layout.type == CUDA_R_32F) &&
           bias_type == d_layout.type;
  }

  static bool Holds(const Layout& layout, const void* base) {
    const int64_t last = (layout.batch - 1) * layout.batch_stride +
                         static_cast<int64_t>(layout.columns - 1) * layout.leading +
                         static_cast<int64_t>(layout.rows);
    std::lock_guard lock(TheState().mutex);
    return FindMemory(reinterpret_cast<CUdeviceptr>(base),
                      static_cast<size_t>(last) * SizeOf(layout.type), nullptr) != nullptr;
  }
  bool HasBias() const { return (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool IsInMemory() const {
    Layout bias = d_layout;
    bias.columns = 1;
    bias.batch = 1;
    return Holds(a_layout, a) && Holds(b_layout, b) && Holds(d_layout, d) &&
           (beta == 0 || Holds(c_layout, c)) && (!HasBias() || Holds(bias, desc.bias));
  }

  double Sum(int64_t batch, int64_t i, int64_t j) const {
    const bool is_ta = desc.transpose_a == CUBLAS_OP_T, is_tb = desc.transpose_b == CUBLAS_OP_T;
    double sum = 0;
    for (int64_t l = 0; l < k(); ++l) {
      const int64_t at_a = is_ta ? l + i * a_layout.leading : i + l * a_layout.leading;
      const int64_t at_b = is_tb ? j + l * b_layout.leading : l + j * b_layout.leading;
      sum += static_cast<double>(Read(a, a_layout.type, at_a + batch * a_layout.batch_stride)) *
             Read(b, b_layout.type, at_b + batch * b_layout.batch_stride);
    }
    return sum;
  }

  float Finish(float sum, int64_t batch, int64_t i, int64_t j) const {
    float value = alpha * sum;
    if (beta != 0) {
      value +=
          beta * Read(c, c_layout.type, i + j * c_layout.leading + batch * c_layout.batch_stride);
    }
    if (HasBias()) value += Read(static_cast<const uint8_t*>(desc.bias), d_layout.type, i);
    switch (desc.epilogue & ~uint32_t{CUBLASLT_EPILOGUE_BIAS}) {
      case CUBLASLT_EPILOGUE_GELU:
        return 0.5f * value *
               (1 + std::tanh(0.7978845608f * (value + 0.044715f * value * value * value)));
      default:
        return value;
    }
  }

  template <typename Body>
  void ForEach(Body body) const {
    for (int64_t batch = 0; batch < d_layout.batch; ++batch) {
      for (int64_t j = 0; j < n(); ++j) {
        for (int64_t i = 0; i < m(); ++i) body(batch, i, j);
      }
    }
  }
  void Store(int64_t batch, int64_t i, int64_t j, float sum) const {
    Write(d, d_layout.type, i + j * d_layout.leading + batch * d_layout.batch_stride,
          Finish(sum, batch, i, j));
  }
};

uint64_t HashOf(const Call& call) {
  return call.d_layout.rows * 1000003 + call.d_layout.columns * 31 + call.desc.epilogue;
}

void Submit(const std::shared_ptr<const Call>& call, const char* name, CUstream stream,
            std::function<void()> body) {
  Operation operation;
  operation.task.kind = Task::Kind::kCall;
  operation.task.name = name;
  operation.task.call = [call, body = std::move(body)] {
    if (!call->IsInMemory()) return Fault("a product leaves what is allocated");
    body();
  };
  Enqueue(stream, std::move(operation));
}

}  // namespace

FAKE_API size_t cublasLtGetVersion() { return static_cast<size_t>(version.load()); }

FAKE_API const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    default:
      return "CUBLAS_STATUS";
  }
}

FAKE_API cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  FAKE_LT_ENTER(cublasLtCreate);
  *handle = new cublasLtContext;
  CountLive("cublasLt handle", 1);
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const cublasStatus_t injected = EnterLibrary("cublasLtDestroy");
  delete handle;
  CountLive("cublasLt handle", -1);
  return injected;
}

FAKE_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc,
                                                 cublasComputeType_t compute,
                                                 cudaDataType_t scale) {
  FAKE_LT_ENTER(cublasLtMatmulDescCreate);
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc);
  CountLive("cublasLt descriptor", 1);
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  const cublasStatus_t injected = EnterLibrary("cublasLtMatmulDescDestroy");
  delete Of(desc);
  CountLive("cublasLt descriptor", -1);
  return injected;
}

FAKE_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                       cublasLtMatmulDescAttributes_t attribute,
                                                       const void* value, size_t bytes) {
  FAKE_LT_ENTER(cublasLtMatmulDescSetAttribute);
  const auto take = [&](void* to, size_t size) {
    if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(&Of(desc)->transpose_a, 4);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(&Of(desc)->transpose_b, 4);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(&Of(desc)->epilogue, 4);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(&Of(desc)->bias, sizeof(void*));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(&Of(desc)->bias_type, 4);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

FAKE_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                                   cudaDataType_t type, uint64_t rows,
                                                   uint64_t columns, int64_t leading) {
  FAKE_LT_ENTER(cublasLtMatrixLayoutCreate);
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  CountLive("cublasLt layout", 1);
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  const cublasStatus_t injected = EnterLibrary("cublasLtMatrixLayoutDestroy");
  delete Of(layout);
  CountLive("cublasLt layout", -1);
  return injected;
}

FAKE_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                         cublasLtMatrixLayoutAttribute_t attribute,
                                                         const void* value, size_t bytes) {
  FAKE_LT_ENTER(cublasLtMatrixLayoutSetAttribute);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4) {
    std::memcpy(&Of(layout)->batch, value, 4);
  } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8) {
    std::memcpy(&Of(layout)->batch_stride, value, 8);
  } else {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  FAKE_LT_ENTER(cublasLtMatmulPreferenceCreate);
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  CountLive("cublasLt preference", 1);
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  const cublasStatus_t injected = EnterLibrary("cublasLtMatmulPreferenceDestroy");
  delete Of(preference);
  CountLive("cublasLt preference", -1);
  return injected;
}

FAKE_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value, size_t bytes) {
  FAKE_LT_ENTER(cublasLtMatmulPreferenceSetAttribute);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8) {
    std::memcpy(&Of(preference)->workspace_bytes, value, 8);
  } else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == 4) {
    std::memcpy(&Of(preference)->schemes, value, 4);
  } else if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && bytes == 4) {
    std::memcpy(&Of(preference)->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                value, 4);
  } else {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
    int most, cublasLtMatmulHeuristicResult_t* results, int* count) {
  FAKE_LT_ENTER(cublasLtMatmulAlgoGetHeuristic);
  const Call call{*Of(desc), *Of(a), *Of(b), *Of(c), *Of(d)};
  *count = 0;
  if (!call.IsSound()) return CUBLAS_STATUS_NOT_SUPPORTED;
  // A range of an arena is aligned to 64 bytes, and nobody must be promised more.
  for (const uint32_t alignment : Of(preference)->alignment) {
    if (alignment > 64) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto add = [&](uint64_t number, size_t workspace, cublasStatus_t state) {
    if (*count == most || workspace > Of(preference)->workspace_bytes) return;
    results[*count] = {};
    results[*count].algo.data[0] = number;
    results[*count].algo.data[1] = HashOf(call);
    results[*count].workspaceSize = workspace;
    results[*count].state = state;
    ++*count;
  };
  add(1, 0, CUBLAS_STATUS_SUCCESS);
  add(3, 0, CUBLAS_STATUS_NOT_SUPPORTED);
  add(2, call.WorkspaceBytes(), CUBLAS_STATUS_SUCCESS);
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                const cublasLtMatmulAlgo_t* algorithm,
                                                cublasLtMatmulHeuristicResult_t* result) {
  FAKE_LT_ENTER(cublasLtMatmulAlgoCheck);
  const Call call{*Of(desc), *Of(a), *Of(b), *Of(c), *Of(d)};
  const uint64_t number = algorithm->data[0];
  if (!call.IsSound() || (number != 1 && number != 2) || algorithm->data[1] != HashOf(call)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *result = {};
  result->algo = *algorithm;
  result->workspaceSize = number == 2 ? call.WorkspaceBytes() : 0;
  return CUBLAS_STATUS_SUCCESS;
}

FAKE_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       const void* alpha, const void* a,
                                       cublasLtMatrixLayout_t a_layout, const void* b,
                                       cublasLtMatrixLayout_t b_layout, const void* beta,
                                       const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                       cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                       size_t workspace_bytes, CUstream stream) {
  FAKE_LT_ENTER(cublasLtMatmul);
  auto call = std::make_shared<Call>(
      Call{*Of(desc), *Of(a_layout), *Of(b_layout), *Of(c_layout), *Of(d_layout)});
  call->a = static_cast<const uint8_t*>(a);
  call->b = static_cast<const uint8_t*>(b);
  call->c = static_cast<const uint8_t*>(c);
  call->d = static_cast<uint8_t*>(d);
  std::memcpy(&call->alpha, alpha, sizeof(float));
  std::memcpy(&call->beta, beta, sizeof(float));
  if (!call->IsSound() || (call->HasBias() && call->desc.bias == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm->data[0] == 1) {
    Submit(call, "product", stream, [call = call.get()] {
      call->ForEach([&](int64_t batch, int64_t i, int64_t j) {
        call->Store(batch, i, j, static_cast<float>(call->Sum(batch, i, j)));
      });
    });
    return CUBLAS_STATUS_SUCCESS;
  }
  if (workspace_bytes < call->WorkspaceBytes() ||
      reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  call->sums = static_cast<float*>(workspace);
  Submit(call, "sums", stream, [call = call.get()] {
    uintptr_t end = 0;
    bool is_there = false;
    {
      std::lock_guard lock(TheState().mutex);
      is_there = FindMemory(reinterpret_cast<CUdeviceptr>(call->sums), call->WorkspaceBytes(),
                            &end) != nullptr;
    }
    if (!is_there) return Fault("a workspace leaves what is allocated");
    float* to = call->sums;
    call->ForEach([&](int64_t batch, int64_t i, int64_t j) {
      *to++ = static_cast<float>(call->Sum(batch, i, j));
    });
  });
  Submit(call, "finish", stream, [call = call.get()] {
    const float* from = call->sums;
    call->ForEach([&](int64_t batch, int64_t i, int64_t j) { call->Store(batch, i, j, *from++); });
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace halyard::fake_cuda

FAKE_API void fake_cublaslt_set_version(long version) { halyard::fake_cuda::version = version; }
