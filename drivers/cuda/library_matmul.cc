// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/library_matmul.h"

#include <algorithm>
#include <cstring>

namespace halyard::drivers::cuda {
namespace {

constexpr int64_t kMostExtent = INT32_MAX;
constexpr uint32_t kAnyBinding = kNoLibraryBinding;  // of a product that is not bound yet
constexpr uint32_t kRangeAlignment = 64;             // of every binding (CudaBuffer::kAlignment)
// What NVIDIA advises for sm_90; smaller devices ask for less by themselves.
constexpr uint64_t kMostWorkspaceBytes = 32 << 20;

Result<cudaDataType_t> TypeOf(uint32_t dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    default:
      return DataLoss("A library record has the element type {}.", dtype);
  }
}

uint32_t EpilogueOf(const GpuLibraryMatmul& matmul) {
  const bool has_bias = matmul.bias.binding != kNoLibraryBinding;
  switch (matmul.activation) {
    case GpuLibraryActivation::kGeluTanh:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case GpuLibraryActivation::kNone:
      break;
  }
  return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

Status CheckOperand(const GpuLibraryOperand& operand, std::string_view name, bool is_optional,
                    uint32_t binding_count) {
  if (operand.binding == kNoLibraryBinding && is_optional) return OkStatus();
  if (operand.binding >= binding_count) {
    return DataLoss("A library record takes {} from binding {} of {}.", name, operand.binding,
                    binding_count);
  }
  for (const int64_t number :
       {operand.offset, operand.row_stride, operand.col_stride, operand.batch_stride}) {
    if (number < 0 || number > INT64_MAX / 8) {
      return DataLoss("A library record has the offset or stride {} for {}.", number, name);
    }
  }
  return OkStatus();
}

// Whether rows or columns are contiguous and the other way steps over all of them.
bool IsMatrix(const GpuLibraryOperand& operand, int64_t rows, int64_t cols) {
  return (operand.row_stride == 1 && operand.col_stride >= rows) ||
         (operand.col_stride == 1 && operand.row_stride >= cols);
}

Status CheckRecord(const GpuLibraryMatmul& matmul, uint32_t binding_count) {
  for (const int64_t extent : {matmul.m, matmul.n, matmul.k, matmul.batch}) {
    if (extent < 1 || extent > kMostExtent) {
      return DataLoss("A library record has the extent {}; 1 to {} can be.", extent, kMostExtent);
    }
  }
  HY_TRY(TypeOf(matmul.input_dtype));
  HY_TRY(TypeOf(matmul.output_dtype));
  if (static_cast<uint32_t>(matmul.activation) > 2) {
    return DataLoss("A library record has the activation {}.",
                    static_cast<uint32_t>(matmul.activation));
  }
  HY_TRY(CheckOperand(matmul.a, "A", false, binding_count));
  HY_TRY(CheckOperand(matmul.b, "B", false, binding_count));
  HY_TRY(CheckOperand(matmul.c, "C", true, binding_count));
  HY_TRY(CheckOperand(matmul.d, "D", binding_count == kAnyBinding, binding_count));
  HY_TRY(CheckOperand(matmul.bias, "bias", true, binding_count));
  const bool has_c = matmul.c.binding != kNoLibraryBinding;
  if (!IsMatrix(matmul.a, matmul.m, matmul.k) || !IsMatrix(matmul.b, matmul.k, matmul.n) ||
      matmul.d.row_stride != 1 || matmul.d.col_stride < matmul.m ||
      (has_c && (matmul.c.row_stride != 1 || matmul.c.col_stride < matmul.m))) {
    return DataLoss("A library record for {} has strides that no matrix has.",
                    FormatLibraryMatmul(matmul));
  }
  const GpuLibraryChoice& choice = matmul.choice;
  if (choice.workspace_bytes < 0 || choice.workspace_bytes > int64_t{1} << 40 ||
      (choice.workspace_bytes > 0 && matmul.workspace_binding >= binding_count)) {
    return DataLoss("A library record has {} bytes of workspace in binding {} of {}.",
                    choice.workspace_bytes, matmul.workspace_binding, binding_count);
  }
  return OkStatus();
}

uint32_t AlignmentOf(const GpuLibraryOperand& operand, uint32_t dtype) {
  const uint64_t bytes =
      static_cast<uint64_t>(operand.offset) * static_cast<uint64_t>(BitWidth(DType(dtype)) / 8);
  const uint64_t lowest = bytes & (~bytes + 1);
  return lowest == 0 ? kRangeAlignment
                     : static_cast<uint32_t>(std::min<uint64_t>(lowest, kRangeAlignment));
}

}  // namespace

MatmulLibrary::MatmulLibrary(std::shared_ptr<const CublasLtApi> api, Context& context,
                             uint64_t device_hash)
    : api_(std::move(api)), context_(context), device_hash_(device_hash) {}

Result<std::unique_ptr<MatmulLibrary>> MatmulLibrary::Open(Context& context, uint64_t device_hash) {
  const CudaApi& cuda = context.api();
  if (!cuda.cuStreamBeginCapture_v2 || !cuda.cuStreamEndCapture || !cuda.cuGraphAddChildGraphNode ||
      !cuda.cuGraphExecChildGraphNodeSetParams) {
    return Unavailable("Library '{}' lacks stream capture, which library calls need.",
                       cuda.library);
  }
  HY_ASSIGN(auto api, CublasLtApi::Load());
  std::unique_ptr<MatmulLibrary> library(new MatmulLibrary(std::move(api), context, device_hash));
  Context::Current current(context);
  HY_TRY(current.status());
  const Status created =
      library->api_->Check(library->api_->cublasLtCreate(&library->handle_), "cublasLtCreate");
  if (!created.ok()) {
    library->handle_ = nullptr;
    return created;
  }
  HY_TRY(context.Check(cuda.cuStreamCreate(&library->capture_stream_, CU_STREAM_NON_BLOCKING),
                       "cuStreamCreate", "opening cuBLASLt"));
  return library;
}

MatmulLibrary::~MatmulLibrary() {
  Context::Current current(context_);
  if (capture_stream_) context_.api().cuStreamDestroy_v2(capture_stream_);
  if (handle_) api_->cublasLtDestroy(handle_);
}

// Relaxed: the library may load code while it is captured, and other threads are not disturbed.
Status MatmulLibrary::BeginCapture() {
  return context_.Check(
      context_.api().cuStreamBeginCapture_v2(capture_stream_, CU_STREAM_CAPTURE_MODE_RELAXED),
      "cuStreamBeginCapture", "a library call");
}

Status MatmulLibrary::EndCapture(CUgraph* out_graph) {
  return context_.Check(context_.api().cuStreamEndCapture(capture_stream_, out_graph),
                        "cuStreamEndCapture", "a library call");
}

Status LibraryMatmul::CreateDescriptors() {
  const CublasLtApi& api = library_.api();
  HY_ASSIGN(const cudaDataType_t input, TypeOf(matmul_.input_dtype));
  HY_ASSIGN(const cudaDataType_t output, TypeOf(matmul_.output_dtype));
  HY_TRY(api.Check(api.cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "cublasLtMatmulDescCreate"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return api.Check(api.cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof(value)),
                     "cublasLtMatmulDescSetAttribute");
  };
  const auto layout = [&](cudaDataType_t type, const GpuLibraryOperand& operand, int64_t rows,
                          int64_t cols, cublasLtMatrixLayout_t* out) -> Status {
    const bool is_transposed = operand.row_stride != 1 || operand.col_stride < rows;
    const auto tall = static_cast<uint64_t>(is_transposed ? cols : rows);
    const auto wide = static_cast<uint64_t>(is_transposed ? rows : cols);
    HY_TRY(api.Check(
        api.cublasLtMatrixLayoutCreate(out, type, tall, wide,
                                       is_transposed ? operand.row_stride : operand.col_stride),
        "cublasLtMatrixLayoutCreate"));
    const auto count = static_cast<int32_t>(matmul_.batch);
    HY_TRY(api.Check(api.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                          &count, sizeof(count)),
                     "cublasLtMatrixLayoutSetAttribute"));
    return api.Check(
        api.cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &operand.batch_stride, sizeof(operand.batch_stride)),
        "cublasLtMatrixLayoutSetAttribute");
  };
  const auto transposition = [&](const GpuLibraryOperand& operand, int64_t rows) -> int32_t {
    return operand.row_stride != 1 || operand.col_stride < rows ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  HY_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(matmul_.a, matmul_.m)));
  HY_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(matmul_.b, matmul_.k)));
  HY_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(matmul_)));
  if (matmul_.bias.binding != kNoLibraryBinding) {
    HY_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(output)));
  }
  const bool has_c = matmul_.c.binding != kNoLibraryBinding;
  HY_TRY(layout(input, matmul_.a, matmul_.m, matmul_.k, &a_));
  HY_TRY(layout(input, matmul_.b, matmul_.k, matmul_.n, &b_));
  HY_TRY(layout(output, has_c ? matmul_.c : matmul_.d, matmul_.m, matmul_.n, &c_));
  return layout(output, matmul_.d, matmul_.m, matmul_.n, &d_);
}

LibraryMatmul::~LibraryMatmul() {
  const CublasLtApi& api = library_.api();
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_, d_}) {
    if (layout) api.cublasLtMatrixLayoutDestroy(layout);
  }
  if (desc_) api.cublasLtMatmulDescDestroy(desc_);
}

Status LibraryMatmul::CheckAlgorithm() {
  const CublasLtApi& api = library_.api();
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, matmul_.choice.algorithm, sizeof(algorithm));
  cublasLtMatmulHeuristicResult_t result = {};
  HY_TRY(api.Check(
      api.cublasLtMatmulAlgoCheck(library_.handle(), desc_, a_, b_, c_, d_, &algorithm, &result),
      "cublasLtMatmulAlgoCheck"));
  if (static_cast<int64_t>(result.workspaceSize) > matmul_.choice.workspace_bytes) {
    return Incompatible("Its algorithm takes {} bytes of workspace; the program has {}.",
                        result.workspaceSize, matmul_.choice.workspace_bytes);
  }
  return OkStatus();
}

Result<std::unique_ptr<LibraryMatmul>> LibraryMatmul::Create(MatmulLibrary& library,
                                                             const GpuLibraryMatmul& matmul,
                                                             uint32_t binding_count) {
  HY_TRY(CheckRecord(matmul, binding_count));
  const uint64_t version = library.api().version;
  if (matmul.choice.version != version) {
    return Incompatible("The program was made with cuBLASLt {}; here is {}.",
                        FormatCublasLtVersion(matmul.choice.version),
                        FormatCublasLtVersion(version));
  }
  if (matmul.choice.device_hash != library.device_hash()) {
    return Incompatible("The program's algorithms of cuBLASLt were chosen on another device.");
  }
  std::unique_ptr<LibraryMatmul> made(new LibraryMatmul(library, matmul));
  Context::Current current(library.context());
  HY_TRY(current.status());
  const auto set_up = [&]() -> Status {
    HY_TRY(made->CreateDescriptors());
    return made->CheckAlgorithm();
  };
  HY_TRY(set_up().WithContext(fmt::format("the product {}", FormatLibraryMatmul(matmul))));
  return made;
}

namespace {

// Owns a preference for as long as it lives.
class Preference {
 public:
  explicit Preference(const CublasLtApi& api) : api_(api) {}
  ~Preference() {
    if (handle_) api_.cublasLtMatmulPreferenceDestroy(handle_);
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  Status Create() {
    return api_.Check(api_.cublasLtMatmulPreferenceCreate(&handle_),
                      "cublasLtMatmulPreferenceCreate");
  }
  template <typename T>
  Status Set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return api_.Check(
        api_.cublasLtMatmulPreferenceSetAttribute(handle_, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t handle() const { return handle_; }

 private:
  const CublasLtApi& api_;
  cublasLtMatmulPreference_t handle_ = nullptr;
};

}  // namespace

Result<std::vector<GpuLibraryMatmul>> LibraryMatmul::Propose(MatmulLibrary& library,
                                                             const GpuLibraryMatmul& wanted,
                                                             size_t most) {
  HY_TRY(CheckRecord(wanted, kAnyBinding));
  const CublasLtApi& api = library.api();
  LibraryMatmul asked(library, wanted);
  Context::Current current(library.context());
  HY_TRY(current.status());
  Preference preference(api);
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int count = 0;
  const auto ask = [&]() -> Result<cublasStatus_t> {
    HY_TRY(asked.CreateDescriptors());
    HY_TRY(preference.Create());
    HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes));
    HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                          CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const GpuLibraryOperand& c = wanted.c.binding != kNoLibraryBinding ? wanted.c : wanted.d;
    HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                          AlignmentOf(wanted.a, wanted.input_dtype)));
    HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          AlignmentOf(wanted.b, wanted.input_dtype)));
    HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                          AlignmentOf(c, wanted.output_dtype)));
    HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                          AlignmentOf(wanted.d, wanted.output_dtype)));
    return api.cublasLtMatmulAlgoGetHeuristic(library.handle(), asked.desc_, asked.a_, asked.b_,
                                              asked.c_, asked.d_, preference.handle(),
                                              static_cast<int>(most), results.data(), &count);
  };
  Result<cublasStatus_t> answer = ask();
  HY_TRY_CONTEXT(answer, "the product {}", FormatLibraryMatmul(wanted));
  std::vector<GpuLibraryMatmul> proposals;
  // It knows no algorithm for such a product.
  if (*answer == CUBLAS_STATUS_NOT_SUPPORTED) return proposals;
  HY_TRY(api.Check(*answer, "cublasLtMatmulAlgoGetHeuristic")
             .WithContext(fmt::format("the product {}", FormatLibraryMatmul(wanted))));
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    GpuLibraryMatmul proposal = wanted;
    proposal.choice.version = api.version;
    proposal.choice.device_hash = library.device_hash();
    proposal.choice.workspace_bytes = static_cast<int64_t>(result.workspaceSize);
    std::memcpy(proposal.choice.algorithm, &result.algo, sizeof(result.algo));
    proposals.push_back(proposal);
  }
  return proposals;
}

Status LibraryMatmul::Enqueue(std::span<const uint64_t> addresses, CUstream stream) {
  const CublasLtApi& api = library_.api();
  const auto place = [&](const GpuLibraryOperand& operand, uint32_t dtype) {
    const int64_t bytes = operand.offset * (BitWidth(static_cast<DType>(dtype)) / 8);
    return reinterpret_cast<void*>(addresses[operand.binding] + static_cast<uint64_t>(bytes));
  };
  const bool has_c = matmul_.c.binding != kNoLibraryBinding;
  const float one = 1, beta = has_c ? 1 : 0;
  void* const d = place(matmul_.d, matmul_.output_dtype);
  const void* const c = has_c ? place(matmul_.c, matmul_.output_dtype) : d;
  void* workspace = nullptr;
  if (matmul_.choice.workspace_bytes > 0) {
    constexpr uint64_t kUnit = kLibraryWorkspaceAlignment;
    workspace =
        reinterpret_cast<void*>((addresses[matmul_.workspace_binding] + kUnit - 1) / kUnit * kUnit);
  }
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, matmul_.choice.algorithm, sizeof(algorithm));
  const auto enqueue = [&]() -> Status {
    std::lock_guard lock(mutex_);
    if (matmul_.bias.binding != kNoLibraryBinding) {
      const void* bias = place(matmul_.bias, matmul_.output_dtype);
      HY_TRY(api.Check(api.cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                          &bias, sizeof(bias)),
                       "cublasLtMatmulDescSetAttribute"));
    }
    return api.Check(api.cublasLtMatmul(
                         library_.handle(), desc_, &one, place(matmul_.a, matmul_.input_dtype), a_,
                         place(matmul_.b, matmul_.input_dtype), b_, &beta, c, c_, d, d_, &algorithm,
                         workspace, static_cast<size_t>(matmul_.choice.workspace_bytes), stream),
                     "cublasLtMatmul");
  };
  return enqueue().WithContext(fmt::format("the product {}", FormatLibraryMatmul(matmul_)));
}

Result<CUgraph> LibraryMatmul::Capture(std::span<const uint64_t> addresses) {
  return library_.Capture([&](CUstream stream) { return Enqueue(addresses, stream); });
}

}  // namespace halyard::drivers::cuda
