// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/library_matmul.h"

#include <algorithm>
#include <cstring>

namespace halyard::drivers::cuda {
namespace {

constexpr int64_t kMostExtent = INT32_MAX;
constexpr uint32_t kAnyBinding = kNoLibraryBinding;  // of a product that is not bound yet
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
    default:
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
  if (matmul.activation != GpuLibraryActivation::kNone &&
      matmul.activation != GpuLibraryActivation::kGeluTanh) {
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
  return OkStatus();
}

// One product as cuBLASLt's descriptors.
class LibraryMatmul final : public LibraryCall {
 public:
  LibraryMatmul(MatmulLibrary& library, const GpuLibraryCall& call)
      : library_(library), call_(call), matmul_(call_.matmul) {}
  ~LibraryMatmul() override;

  Status CreateDescriptors();
  Status CheckAlgorithm();
  // How many of `results` it writes; nothing where the library knows no algorithm for the product.
  Result<int> AskFor(std::span<cublasLtMatmulHeuristicResult_t> results);
  Status Enqueue(std::span<const uint64_t> addresses, CUstream stream) override;

 private:
  MatmulLibrary& library_;
  const GpuLibraryCall call_;
  const GpuLibraryMatmul& matmul_;
  std::mutex mutex_;  // the pointer to the bias, which stands in the descriptor
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
};

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
  std::memcpy(&algorithm, call_.choice.algorithm, sizeof(algorithm));
  cublasLtMatmulHeuristicResult_t result = {};
  HY_TRY(api.Check(
      api.cublasLtMatmulAlgoCheck(library_.handle(), desc_, a_, b_, c_, d_, &algorithm, &result),
      "cublasLtMatmulAlgoCheck"));
  if (static_cast<int64_t>(result.workspaceSize) > call_.choice.workspace_bytes) {
    return Incompatible("Its algorithm takes {} bytes of workspace; the program has {}.",
                        result.workspaceSize, call_.choice.workspace_bytes);
  }
  return OkStatus();
}

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

Result<int> LibraryMatmul::AskFor(std::span<cublasLtMatmulHeuristicResult_t> results) {
  const CublasLtApi& api = library_.api();
  Preference preference(api);
  HY_TRY(CreateDescriptors());
  HY_TRY(preference.Create());
  HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes));
  HY_TRY(preference.Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const GpuLibraryOperand& c = matmul_.c.binding != kNoLibraryBinding ? matmul_.c : matmul_.d;
  const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                         const GpuLibraryOperand& operand, uint32_t dtype) {
    return preference.Set(attribute,
                          static_cast<uint32_t>(LibraryAlignment(operand.offset, dtype)));
  };
  HY_TRY(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, matmul_.a, matmul_.input_dtype));
  HY_TRY(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, matmul_.b, matmul_.input_dtype));
  HY_TRY(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c, matmul_.output_dtype));
  HY_TRY(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, matmul_.d, matmul_.output_dtype));
  int count = 0;
  const cublasStatus_t answer = api.cublasLtMatmulAlgoGetHeuristic(
      library_.handle(), desc_, a_, b_, c_, d_, preference.handle(),
      static_cast<int>(results.size()), results.data(), &count);
  if (answer == CUBLAS_STATUS_NOT_SUPPORTED) return 0;
  HY_TRY(api.Check(answer, "cublasLtMatmulAlgoGetHeuristic"));
  return count;
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
  void* const workspace = LibraryWorkspace(call_, addresses);
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, call_.choice.algorithm, sizeof(algorithm));
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
                         workspace, static_cast<size_t>(call_.choice.workspace_bytes), stream),
                     "cublasLtMatmul");
  };
  return enqueue().WithContext(FormatLibraryCall(call_));
}

}  // namespace

Result<std::unique_ptr<VendorLibrary>> MatmulLibrary::Open(Context& context, uint64_t device_hash) {
  HY_ASSIGN(auto api, CublasLtApi::Load());
  std::unique_ptr<MatmulLibrary> library(new MatmulLibrary(std::move(api), context, device_hash));
  Context::Current current(context);
  HY_TRY(current.status());
  HY_TRY(library->OpenCapture());
  const Status created =
      library->api_->Check(library->api_->cublasLtCreate(&library->handle_), "cublasLtCreate");
  if (!created.ok()) {
    library->handle_ = nullptr;
    return created;
  }
  return std::unique_ptr<VendorLibrary>(std::move(library));
}

MatmulLibrary::~MatmulLibrary() {
  Context::Current current(context());
  if (handle_) api_->cublasLtDestroy(handle_);
}

std::string MatmulLibrary::Describe() const {
  return fmt::format("cuBLASLt {}, {}", FormatCublasLtVersion(api_->version), api_->library);
}

Result<std::unique_ptr<LibraryCall>> MatmulLibrary::Create(const GpuLibraryCall& call,
                                                           uint32_t binding_count) {
  HY_TRY(CheckRecord(call.matmul, binding_count));
  HY_TRY(CheckLibraryWorkspace(call, binding_count));
  if (call.choice.version != api_->version) {
    return Incompatible("The program was made with cuBLASLt {}; here is {}.",
                        FormatCublasLtVersion(call.choice.version),
                        FormatCublasLtVersion(api_->version));
  }
  if (call.choice.device_hash != device_hash()) {
    return Incompatible("The program's algorithms of cuBLASLt were chosen on another device.");
  }
  auto made = std::make_unique<LibraryMatmul>(*this, call);
  Context::Current current(context());
  HY_TRY(current.status());
  const auto set_up = [&]() -> Status {
    HY_TRY(made->CreateDescriptors());
    return made->CheckAlgorithm();
  };
  HY_TRY(set_up().WithContext(FormatLibraryCall(call)));
  return std::unique_ptr<LibraryCall>(std::move(made));
}

Result<std::vector<GpuLibraryCall>> MatmulLibrary::Propose(const GpuLibraryCall& wanted,
                                                           size_t most) {
  HY_TRY(CheckRecord(wanted.matmul, kAnyBinding));
  Context::Current current(context());
  HY_TRY(current.status());
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  const Result<int> count = LibraryMatmul(*this, wanted).AskFor(results);
  HY_TRY_CONTEXT(count, "{}", FormatLibraryCall(wanted));
  std::vector<GpuLibraryCall> proposals;
  for (int i = 0; i < *count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    GpuLibraryCall proposal = wanted;
    proposal.choice.version = api_->version;
    proposal.choice.device_hash = device_hash();
    proposal.choice.workspace_bytes = static_cast<int64_t>(result.workspaceSize);
    std::memcpy(proposal.choice.algorithm, &result.algo, sizeof(result.algo));
    proposals.push_back(proposal);
  }
  return proposals;
}

}  // namespace halyard::drivers::cuda
