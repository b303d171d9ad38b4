// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/cudnn_library.h"

#include <algorithm>
#include <cstring>

#include "drivers/cuda/library_convolution.h"

namespace halyard::drivers::cuda {
namespace {

constexpr int64_t kMostCudnnWorkspaceBytes = 32 << 20;
constexpr int64_t kMostProposed = 64;  // by the library; it gives the best first
constexpr int64_t kMostKnobs = 20;
constexpr size_t kMostTried = 8;  // engines whose plans are made to see whether it goes

// An engine and the values of its knobs, as they stand in GpuLibraryChoice::algorithm.
struct CudnnChoice {
  int16_t engine = -1;
  uint8_t knob_count = 0;
  uint8_t reserved = 0;
  uint8_t types[kMostKnobs] = {};
  int16_t values[kMostKnobs] = {};
};
static_assert(sizeof(CudnnChoice) == sizeof(GpuLibraryChoice::algorithm));

bool Fits(int64_t value) { return value >= 0 && value <= INT16_MAX; }

// What a configuration of the library says, where that fits.
Result<std::optional<CudnnChoice>> ReadChoice(const CudnnApi& api,
                                              const CudnnDescriptor& configuration,
                                              CudnnDescriptor* engine) {
  HY_ASSIGN(*engine, CudnnDescriptor::Create(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t handle = engine->handle();
  HY_TRY(configuration.GetOne(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &handle));
  int64_t index = -1;
  HY_TRY(engine->GetOne(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index));
  std::vector<CudnnDescriptor> knobs(kMostKnobs + 1);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (CudnnDescriptor& knob : knobs) {
    HY_ASSIGN(knob, CudnnDescriptor::Create(api, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    handles.push_back(knob.handle());
  }
  HY_ASSIGN(const int64_t count,
            configuration.Get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                              kMostKnobs + 1, handles.data()));
  if (!Fits(index) || count > kMostKnobs) return std::optional<CudnnChoice>();
  CudnnChoice choice;
  choice.engine = static_cast<int16_t>(index);
  choice.knob_count = static_cast<uint8_t>(count);
  for (int64_t i = 0; i < count; ++i) {
    const CudnnDescriptor& knob = knobs[static_cast<size_t>(i)];
    int type = 0;
    int64_t value = 0;
    HY_TRY(knob.GetOne(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &type));
    HY_TRY(knob.GetOne(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value));
    if (type < 0 || type > UINT8_MAX || !Fits(value)) return std::optional<CudnnChoice>();
    choice.types[i] = static_cast<uint8_t>(type);
    choice.values[i] = static_cast<int16_t>(value);
  }
  return std::optional<CudnnChoice>(choice);
}

// The configuration of an engine that a choice says is the last; the others are what it is made of.
Result<std::vector<CudnnDescriptor>> MakeConfiguration(const CudnnApi& api,
                                                       const CudnnDescriptor& graph,
                                                       const CudnnChoice& choice) {
  HY_ASSIGN(CudnnDescriptor engine, CudnnDescriptor::Create(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  const int64_t index = choice.engine;
  HY_TRY(engine.Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph));
  HY_TRY(engine.Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {&index, 1}));
  HY_TRY(engine.Finish());
  std::vector<CudnnDescriptor> parts;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int i = 0; i < std::min<int>(choice.knob_count, kMostKnobs); ++i) {
    HY_ASSIGN(CudnnDescriptor knob,
              CudnnDescriptor::Create(api, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    const int type = choice.types[i];
    const int64_t value = choice.values[i];
    HY_TRY(knob.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type));
    HY_TRY(knob.Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {&value, 1}));
    HY_TRY(knob.Finish());
    handles.push_back(knob.handle());
    parts.push_back(std::move(knob));
  }
  HY_ASSIGN(CudnnDescriptor configuration,
            CudnnDescriptor::Create(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  HY_TRY(configuration.Set(CUDNN_ATTR_ENGINECFG_ENGINE, engine));
  if (!handles.empty()) {
    HY_TRY(configuration.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                             static_cast<int64_t>(handles.size()), handles.data()));
  }
  HY_TRY(configuration.Finish());
  parts.push_back(std::move(engine));
  parts.push_back(std::move(configuration));
  return parts;
}

// Sums in f32 of products of what is given, the same bits each time.
Result<bool> IsExact(const CudnnDescriptor& engine, bool is_f32) {
  cudnnBackendNumericalNote_t notes[32] = {};
  HY_ASSIGN(const int64_t count,
            engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 32, notes));
  return std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      // Of f32, matrix units take the upper 19 bits.
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return is_f32;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return true;
    }
    return false;
  });
}

Result<int64_t> WorkspaceOf(const CudnnDescriptor& plan) {
  int64_t bytes = 0;
  HY_TRY(plan.GetOne(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes));
  return bytes;
}

// One plan.
class CudnnCall final : public LibraryCall {
 public:
  CudnnCall(CudnnLibrary& library, const GpuLibraryCall& call, CudnnGraph graph,
            std::vector<CudnnDescriptor> configuration, CudnnDescriptor plan)
      : library_(library),
        call_(call),
        graph_(std::move(graph)),
        configuration_(std::move(configuration)),
        plan_(std::move(plan)) {}

  // A plan may have code in the context.
  ~CudnnCall() override {
    Context::Current current(library_.context());
    plan_ = {};
    configuration_.clear();
    graph_.parts.clear();
  }

  Status Enqueue(std::span<const uint64_t> addresses, CUstream stream) override {
    return TryEnqueue(addresses, stream).WithContext(FormatLibraryCall(call_));
  }

 private:
  Status TryEnqueue(std::span<const uint64_t> addresses, CUstream stream) {
    const CudnnPointers pointers = PlacesOf(call_.convolution, addresses);
    void* const workspace = LibraryWorkspace(call_, addresses);
    HY_ASSIGN(CudnnDescriptor pack,
              CudnnDescriptor::Create(library_.api(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    HY_TRY(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, pointers.names));
    HY_TRY(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                    static_cast<int64_t>(pointers.places.size()), pointers.places.data()));
    HY_TRY(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    HY_TRY(pack.Finish());
    return library_.Execute(plan_, pack, stream);
  }

  CudnnLibrary& library_;
  const GpuLibraryCall call_;
  // In the order in which one is made of the other.
  CudnnGraph graph_;
  std::vector<CudnnDescriptor> configuration_;
  CudnnDescriptor plan_;
};

}  // namespace

Result<CudnnDescriptor> CudnnDescriptor::Create(const CudnnApi& api,
                                                cudnnBackendDescriptorType_t type) {
  CudnnDescriptor made;
  HY_TRY(api.Check(api.cudnnBackendCreateDescriptor(type, &made.handle_),
                   "cudnnBackendCreateDescriptor"));
  made.api_ = &api;
  return made;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (api_ != nullptr) api_->cudnnBackendDestroyDescriptor(handle_);
}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
  return *this;
}

Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void* values) {
  return api_->Check(api_->cudnnBackendSetAttribute(handle_, name, type, count, values),
                     "cudnnBackendSetAttribute");
}

Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
  return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
}

Status CudnnDescriptor::Finish() {
  return api_->Check(api_->cudnnBackendFinalize(handle_), "cudnnBackendFinalize");
}

Result<int64_t> CudnnDescriptor::Get(cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type, int64_t room,
                                     void* values) const {
  int64_t count = 0;
  HY_TRY(api_->Check(api_->cudnnBackendGetAttribute(handle_, name, type, room, &count, values),
                     "cudnnBackendGetAttribute"));
  return std::min(count, room);
}

Status CudnnDescriptor::GetOne(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               void* value) const {
  HY_ASSIGN(const int64_t count, Get(name, type, 1, value));
  if (count != 1) return Internal("cuDNN's attribute {} has no value.", static_cast<int>(name));
  return OkStatus();
}

Result<std::unique_ptr<VendorLibrary>> CudnnLibrary::Open(Context& context, uint64_t device_hash) {
  HY_ASSIGN(auto api, CudnnApi::Load());
  std::unique_ptr<CudnnLibrary> library(new CudnnLibrary(std::move(api), context, device_hash));
  Context::Current current(context);
  HY_TRY(current.status());
  HY_TRY(library->OpenCapture());
  return std::unique_ptr<VendorLibrary>(std::move(library));
}

CudnnLibrary::~CudnnLibrary() {
  Context::Current current(context());
  if (handle_) api_->cudnnDestroy(handle_);
}

std::string CudnnLibrary::Describe() const {
  return fmt::format("cuDNN {}, {}", FormatCudnnVersion(api_->version), api_->library);
}

Result<cudnnHandle_t> CudnnLibrary::handle() {
  if (handle_ == nullptr) {
    const Status created = api_->Check(api_->cudnnCreate(&handle_), "cudnnCreate");
    if (!created.ok()) {
      handle_ = nullptr;
      return created;
    }
  }
  return handle_;
}

Result<CudnnDescriptor> CudnnLibrary::MakePlan(const CudnnDescriptor& configuration) {
  HY_ASSIGN(CudnnDescriptor plan,
            CudnnDescriptor::Create(*api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  HY_TRY(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_));
  HY_TRY(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
  HY_TRY(plan.Finish());
  return plan;
}

Status CudnnLibrary::Execute(const CudnnDescriptor& plan, const CudnnDescriptor& pack,
                             CUstream stream) {
  std::lock_guard lock(mutex_);
  HY_TRY(api_->Check(api_->cudnnSetStream(handle_, stream), "cudnnSetStream"));
  return api_->Check(api_->cudnnBackendExecute(handle_, plan.handle(), pack.handle()),
                     "cudnnBackendExecute");
}

Result<std::unique_ptr<LibraryCall>> CudnnLibrary::Create(const GpuLibraryCall& call,
                                                          uint32_t binding_count) {
  HY_TRY(CheckLibraryConvolution(call.convolution, binding_count));
  HY_TRY(CheckLibraryWorkspace(call, binding_count));
  if (call.choice.version != api_->version) {
    return Incompatible("The program was made with cuDNN {}; here is {}.",
                        FormatCudnnVersion(call.choice.version), FormatCudnnVersion(api_->version));
  }
  if (call.choice.device_hash != device_hash()) {
    return Incompatible("The program's engines of cuDNN were chosen on another device.");
  }
  CudnnChoice choice;
  std::memcpy(&choice, call.choice.algorithm, sizeof(choice));
  Context::Current current(context());
  HY_TRY(current.status());
  std::lock_guard lock(mutex_);
  const auto make = [&]() -> Result<std::unique_ptr<LibraryCall>> {
    HY_ASSIGN(const cudnnHandle_t opened, handle());
    HY_ASSIGN(CudnnGraph graph, MakeConvolutionGraph(*api_, opened, call.convolution));
    HY_ASSIGN(std::vector<CudnnDescriptor> configuration,
              MakeConfiguration(*api_, graph.graph(), choice));
    HY_ASSIGN(CudnnDescriptor plan, MakePlan(configuration.back()));
    HY_ASSIGN(const int64_t bytes, WorkspaceOf(plan));
    if (bytes > call.choice.workspace_bytes) {
      return Incompatible("Its engine takes {} bytes of workspace; the program has {}.", bytes,
                          call.choice.workspace_bytes);
    }
    return std::unique_ptr<LibraryCall>(std::make_unique<CudnnCall>(
        *this, call, std::move(graph), std::move(configuration), std::move(plan)));
  };
  auto made = make();
  // An engine that cannot be compiled here is one that the library does not take.
  if (made.status().code() == StatusCode::kInternal) {
    made = Incompatible("{}", made.status().message());
  }
  HY_TRY_CONTEXT(made, "{}", FormatLibraryCall(call));
  return made;
}

Result<std::vector<GpuLibraryCall>> CudnnLibrary::Propose(const GpuLibraryCall& wanted,
                                                          size_t most) {
  HY_TRY(CheckLibraryConvolution(wanted.convolution, kNoLibraryBinding));
  Context::Current current(context());
  HY_TRY(current.status());
  std::lock_guard lock(mutex_);
  const bool is_f32 = wanted.convolution.input_dtype == static_cast<uint32_t>(DType::kF32);
  std::vector<GpuLibraryCall> proposals;
  const auto ask = [&](const CudnnGraph& graph, cudnnBackendHeurMode_t mode) -> Status {
    HY_ASSIGN(CudnnDescriptor question,
              CudnnDescriptor::Create(*api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    HY_TRY(question.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph()));
    HY_TRY(question.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    const Status answered = question.Finish();
    if (answered.code() == StatusCode::kIncompatible) return OkStatus();  // it knows no engine
    HY_TRY(answered);
    std::vector<CudnnDescriptor> configurations(kMostProposed);
    std::vector<cudnnBackendDescriptor_t> handles;
    for (CudnnDescriptor& configuration : configurations) {
      HY_ASSIGN(configuration, CudnnDescriptor::Create(*api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      handles.push_back(configuration.handle());
    }
    HY_ASSIGN(const int64_t count,
              question.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                           kMostProposed, handles.data()));
    size_t tried = 0;
    for (int64_t i = 0; i < count && proposals.size() < most && tried < kMostTried; ++i) {
      const CudnnDescriptor& configuration = configurations[static_cast<size_t>(i)];
      CudnnDescriptor engine;
      HY_ASSIGN(const std::optional<CudnnChoice> choice, ReadChoice(*api_, configuration, &engine));
      if (!choice) continue;
      HY_ASSIGN(const bool is_exact, IsExact(engine, is_f32));
      if (!is_exact) continue;
      ++tried;
      const Result<CudnnDescriptor> plan = MakePlan(configuration);
      if (plan.status().code() == StatusCode::kOutOfMemory) return plan.status();
      if (!plan.ok()) continue;  // an engine that this machine cannot compile
      HY_ASSIGN(const int64_t bytes, WorkspaceOf(*plan));
      if (bytes > kMostCudnnWorkspaceBytes) continue;
      GpuLibraryCall proposal = wanted;
      proposal.choice.version = api_->version;
      proposal.choice.device_hash = device_hash();
      proposal.choice.workspace_bytes = bytes;
      std::memcpy(proposal.choice.algorithm, &*choice, sizeof(*choice));
      proposals.push_back(proposal);
    }
    return OkStatus();
  };
  const auto propose = [&]() -> Status {
    HY_ASSIGN(const cudnnHandle_t opened, handle());
    auto graph = MakeConvolutionGraph(*api_, opened, wanted.convolution);
    if (graph.status().code() == StatusCode::kIncompatible) return OkStatus();
    if (!graph.ok()) return graph.status();
    HY_TRY(ask(*graph, CUDNN_HEUR_MODE_A));
    if (proposals.empty()) HY_TRY(ask(*graph, CUDNN_HEUR_MODE_FALLBACK));
    return OkStatus();
  };
  HY_TRY(propose().WithContext(FormatLibraryCall(wanted)));
  return proposals;
}

}  // namespace halyard::drivers::cuda
