// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/device.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/gpu_image.h"
#include "base/hash.h"
#include "base/nvidia_libraries.h"
#include "drivers/cuda/capabilities.h"
#include "drivers/cuda/launch.h"
#include "drivers/cuda/library_call.h"
#include "hal/command_checks.h"
#include "hal/pci.h"

namespace halyard::drivers::cuda {
namespace {

Work::Bound Bind(const hal::BufferRange& range) {
  // A slot that the recording does not use may be empty.
  if (!range.buffer) return {};
  auto* buffer = static_cast<CudaBuffer*>(range.buffer);
  return {Ref<hal::Buffer>::Share(buffer),
          buffer->address() + static_cast<CUdeviceptr>(range.offset), range.size_bytes};
}

}  // namespace

Result<Ref<CudaDevice>> CudaDevice::Open(std::shared_ptr<const CudaApi> api, uint32_t ordinal,
                                         const CudaOptions& options) {
  HY_ASSIGN(Ref<Context> context, Context::Open(std::move(api), static_cast<int>(ordinal),
                                                fmt::format("cuda:{}", ordinal)));
  char address[64] = "";
  std::string why_unmanaged = "cuDeviceGetPCIBusId fails.";
  Management management;
  if (context->api().cuDeviceGetPCIBusId(address, sizeof(address), context->device()) ==
      CUDA_SUCCESS) {
    management = Management::Open(address, &why_unmanaged);
  }
  HY_ASSIGN(hal::Capabilities capabilities, DescribeDevice(*context, management, options));
  if (!management.is_open()) {
    capabilities.notes.push_back("Clocks, power and links are unknown: " + why_unmanaged);
  }
  HY_ASSIGN(std::unique_ptr<Memory> memory,
            Memory::Create(context, capabilities.memory.limit_bytes.value));
  const auto lanes = static_cast<uint32_t>(options.compute_queues + options.copy_queues);
  HY_ASSIGN(std::shared_ptr<Scheduler> scheduler,
            Scheduler::Create(context, lanes, options, &LaunchWork));
  return MakeRef<CudaDevice>(std::move(context), options, std::move(management),
                             std::move(capabilities), std::move(memory), std::move(scheduler));
}

CudaDevice::CudaDevice(Ref<Context> context, const CudaOptions& options, Management management,
                       hal::Capabilities capabilities, std::unique_ptr<Memory> memory,
                       std::shared_ptr<Scheduler> scheduler)
    : context_(std::move(context)),
      options_(options),
      management_(std::move(management)),
      capabilities_(std::move(capabilities)),
      memory_(std::move(memory)),
      scheduler_(std::move(scheduler)) {}

CudaDevice::~CudaDevice() { scheduler_->Stop(); }

Result<VendorLibrary*> CudaDevice::library(GpuLibraryKind kind) {
  std::lock_guard lock(libraries_mutex_);
  OpenedLibrary& opened = libraries_[kind];
  if (opened.library) return opened.library.get();
  HY_TRY(opened.why_none);
  const uint64_t hash =
      HashCombine(HashString(capabilities_.identity.name.ValueOr("")),
                  static_cast<uint64_t>(capabilities_.compute.unit_count.ValueOr(0)));
  auto library = OpenVendorLibrary(kind, *context_, hash);
  if (!library.ok()) {
    // What may be otherwise the next time is not kept.
    if (library.status().code() == StatusCode::kUnavailable) opened.why_none = library.status();
    return library.status();
  }
  opened.library = std::move(*library);
  return opened.library.get();
}

Result<std::string> CudaDevice::DescribeCompiler() {
  if (takes_kernel_ir()) return hal::Device::DescribeCompiler();
  return CatchAll([] { return DescribeNvrtc(); });
}

Result<std::string> CudaDevice::DescribeLibrary(GpuLibraryKind kind) {
  return CatchAll([&]() -> Result<std::string> {
    HY_ASSIGN(const VendorLibrary* opened, library(kind));
    return opened->Describe();
  });
}

Result<std::vector<uint8_t>> CudaDevice::EmptyKernel() const {
  if (takes_kernel_ir()) return hal::Device::EmptyKernel();  // a stand-in has no launches to time
  // Later devices compile it when they load it.
  constexpr int64_t kArchitecture = 75;
  const int64_t architecture =
      std::min(kArchitecture, capabilities_.compute.compute_capability.ValueOr(kArchitecture));
  const std::string text = fmt::format(
      ".version 6.4\n.target sm_{}\n.address_size 64\n"
      ".visible .entry empty(.param .u64 error, .param .u64 dispatch)\n{{\n  ret;\n}}\n",
      architecture);
  GpuKernel kernel;
  kernel.name = "empty";
  kernel.module = {reinterpret_cast<const uint8_t*>(text.c_str()), text.size() + 1};
  GpuImage image;
  image.kind = GpuModuleKind::kPtx;
  image.kernels.push_back(kernel);
  return WriteGpuImage(image);
}

Result<std::vector<GpuLibraryCall>> CudaDevice::ProposeLibraryCalls(const GpuLibraryCall& wanted,
                                                                    size_t most) {
  return CatchAll([&]() -> Result<std::vector<GpuLibraryCall>> {
    HY_TRY(health());
    HY_ASSIGN(VendorLibrary * opened, library(wanted.kind));
    return opened->Propose(wanted, most);
  });
}

hal::DeviceState CudaDevice::ReadState() const {
  hal::DeviceState state;
  management_.ReadState(&state);
  hal::ReadPciState(SystemFiles(), capabilities_.identity.pci_address.ValueOr(""), &state);
  if (context_->is_lost()) return state;
  Context::Current current(*context_);
  size_t available = 0, whole = 0;
  if (current.status().ok() &&
      context_->api().cuMemGetInfo_v2(&available, &whole) == CUDA_SUCCESS) {
    state.available_bytes = {static_cast<int64_t>(available), hal::Source::kApi};
  }
  return state;
}

int64_t CudaDevice::buffer_alignment() const { return CudaBuffer::kAlignment; }

bool CudaDevice::has_dependent_launch() const {
  const uint64_t features = capabilities_.compute.gpu_features.ValueOr(0);
  return options_.dependent_launch != 0 &&
         (features & static_cast<uint64_t>(GpuFeature::kDependentLaunch)) != 0;
}

Result<Ref<hal::Buffer>> CudaDevice::AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) {
  if (size_bytes < 0) return InvalidArgument("A buffer of {} bytes was asked for.", size_bytes);
  HY_TRY(health());
  return CatchAll([&]() -> Result<Ref<hal::Buffer>> {
    auto self = Ref<CudaDevice>::Share(this);
    if (kind == hal::MemoryKind::kDevice) {
      HY_ASSIGN(CUdeviceptr address, memory_->AllocateDevice(size_bytes));
      return Ref<hal::Buffer>(
          MakeRef<CudaBuffer>(std::move(self), kind, address, nullptr, size_bytes, size_bytes,
                              [memory = memory_.get(), address] { memory->FreeDevice(address); }));
    }
    HY_ASSIGN(PinnedBlock block, memory_->AllocateHost(size_bytes));
    return Ref<hal::Buffer>(
        MakeRef<CudaBuffer>(std::move(self), kind, block.device, block.host, size_bytes, size_bytes,
                            [context = context_.get(), block] { context->FreePinned(block); }));
  });
}

Result<Ref<hal::Buffer>> CudaDevice::ImportHostMemory(hal::HostMemory memory) {
  if (memory.size_bytes < 0 || (!memory.address && memory.size_bytes > 0)) {
    return InvalidArgument("Host memory of {} bytes at {} cannot become a buffer.",
                           memory.size_bytes, memory.address);
  }
  HY_TRY(health());
  auto address = reinterpret_cast<uintptr_t>(memory.address);
  if (address % CudaBuffer::kAlignment != 0) {
    return Incompatible("Host memory at {} is not aligned to {} bytes.", memory.address,
                        CudaBuffer::kAlignment);
  }
  if (memory.size_bytes == 0) return Incompatible("Empty host memory cannot be registered.");
  const CudaApi& api = context_->api();
  return CatchAll([&]() -> Result<Ref<hal::Buffer>> {
    Context::Current current(*context_);
    HY_TRY(current.status());
    unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (memory.is_read_only) flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    Status status = context_->Check(
        api.cuMemHostRegister_v2(memory.address, static_cast<size_t>(memory.size_bytes), flags),
        "cuMemHostRegister", "");
    HY_TRY(health());
    if (!status.ok()) {
      return Incompatible("'{}' cannot address {} bytes of host memory at {}: {}", path(),
                          memory.size_bytes, memory.address, status.message());
    }
    CUdeviceptr device_address = 0;
    status = context_->Check(api.cuMemHostGetDevicePointer_v2(&device_address, memory.address, 0),
                             "cuMemHostGetDevicePointer", "");
    if (!status.ok()) {
      api.cuMemHostUnregister(memory.address);
      return status;
    }
    auto release = [context = context_.get(), host = memory.address,
                    then = std::move(memory.release)] {
      {
        Context::Current current(*context);
        context->api().cuMemHostUnregister(host);
      }
      if (then) then();
    };
    return Ref<hal::Buffer>(MakeRef<CudaBuffer>(
        Ref<CudaDevice>::Share(this), hal::MemoryKind::kHostVisible, device_address,
        static_cast<uint8_t*>(memory.address), memory.size_bytes, 0, std::move(release)));
  });
}

Result<Ref<hal::Semaphore>> CudaDevice::CreateSemaphore(uint64_t initial_value) {
  return Ref<hal::Semaphore>(MakeRef<CudaSemaphore>(initial_value));
}

Result<Ref<hal::Executable>> CudaDevice::LoadExecutable(const hal::ExecutableSource& source) {
  HY_TRY(health());
  return CatchAll([&]() -> Result<Ref<hal::Executable>> {
    HY_ASSIGN(Ref<CudaExecutable> executable,
              CudaExecutable::Load(Ref<CudaDevice>::Share(this), source));
    return Ref<hal::Executable>(std::move(executable));
  });
}

Result<Ref<hal::CommandBuffer>> CudaDevice::CreateCommandBuffer() {
  return Ref<hal::CommandBuffer>(MakeRef<CudaCommandBuffer>(Ref<CudaDevice>::Share(this)));
}

template <typename FillIn>
Status CudaDevice::Queue(uint32_t queue, const hal::Ordering& ordering, FillIn fill_in) {
  HY_TRY(hal::CheckQueue(queue, queue_count()));
  HY_TRY(hal::CheckOrdering(ordering));
  HY_TRY(health());
  return CatchAll([&]() -> Status {
    // Goes back to the free list if anything below fails.
    auto give_back = [this](Work* work) { scheduler_->Recycle(work); };
    std::unique_ptr<Work, decltype(give_back)> work(scheduler_->Acquire(), give_back);
    work->lane = queue;
    work->caller_waits = ordering.caller_waits;
    work->device = Ref<CudaDevice>::Share(this);
    work->waits.resize(ordering.waits.size());
    for (size_t i = 0; i < ordering.waits.size(); ++i) {
      work->waits[i].semaphore = Ref<hal::Semaphore>::Share(ordering.waits[i].semaphore);
      work->waits[i].value = ordering.waits[i].value;
    }
    for (const hal::SemaphorePoint& point : ordering.signals) {
      work->signals.push_back({Ref<hal::Semaphore>::Share(point.semaphore), point.value});
    }
    HY_TRY(fill_in(*work));
    scheduler_->Enqueue(work.release());
    return OkStatus();
  });
}

Status CudaDevice::Submit(uint32_t queue, const hal::SubmitInfo& info) {
  if (!info.commands) return Queue(queue, info.ordering, [](Work&) { return OkStatus(); });
  if (info.commands->device() != this) {
    return InvalidArgument("The command buffer belongs to another device.");
  }
  auto* commands = static_cast<CudaCommandBuffer*>(info.commands);
  if (!commands->is_finished()) return FailedPrecondition("The command buffer is not finished.");
  HY_TRY(hal::CheckBindings(info.bindings, commands->slot_needs(), this, buffer_alignment()));
  return Queue(queue, info.ordering, [&](Work& work) {
    if (commands->commands().empty()) {
      if (info.time) info.time->Add(0);
      return OkStatus();
    }
    work.kind = WorkKind::kCommands;
    work.commands = Ref<CudaCommandBuffer>::Share(commands);
    work.time = Ref<hal::CommandTime>::Share(info.time);
    for (size_t i = 0; i < commands->slot_needs().size(); ++i) {
      work.bound.push_back(Bind(info.bindings[i]));
      work.slots.push_back(work.bound.back().address);
    }
    return OkStatus();
  });
}

bool CudaDevice::CanReach(const hal::Device* other) const {
  if (other == this) return true;
  const auto* peer = dynamic_cast<const CudaDevice*>(other);
  if (!peer) return false;
  int can = 0;
  if (context_->api().cuDeviceCanAccessPeer(&can, context_->device(), peer->context_->device()) !=
      CUDA_SUCCESS) {
    return false;
  }
  return can != 0 && memory_->AllowPeer(peer->context_->device()).ok() &&
         peer->memory_->AllowPeer(context_->device()).ok();
}

Status CudaDevice::QueueCopy(uint32_t queue, const hal::Ordering& ordering,
                             const hal::BufferRange& source, const hal::BufferRange& target) {
  HY_TRY(hal::CheckQueueCopy(source, target,
                             [this](const hal::Device* device) { return CanReach(device); }));
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kCopy;
    work.bound.push_back(Bind(source));
    work.bound.push_back(Bind(target));
    return OkStatus();
  });
}

Status CudaDevice::QueueFill(uint32_t queue, const hal::Ordering& ordering,
                             const hal::BufferRange& target, uint64_t pattern,
                             uint32_t pattern_bytes) {
  HY_TRY(hal::CheckQueueFill(target, pattern_bytes, this));
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kFill;
    work.bound.push_back(Bind(target));
    work.pattern = pattern;
    work.pattern_bytes = pattern_bytes;
    return OkStatus();
  });
}

Status CudaDevice::QueueUpdate(uint32_t queue, const hal::Ordering& ordering,
                               std::span<const uint8_t> source, const hal::BufferRange& target) {
  HY_TRY(hal::CheckQueueFill(target, 1, this));
  if (static_cast<int64_t>(source.size()) != target.size_bytes) {
    return InvalidArgument("An update has {} bytes for a target of {}; they must be equal.",
                           source.size(), target.size_bytes);
  }
  return Queue(queue, ordering, [&](Work& work) -> Status {
    work.kind = WorkKind::kUpdate;
    work.bound.push_back(Bind(target));
    if (source.empty()) return OkStatus();
    HY_ASSIGN(work.bytes, context_->AcquirePinned(target.size_bytes));
    std::memcpy(work.bytes.host, source.data(), source.size());
    return OkStatus();
  });
}

Status CudaDevice::QueueHostCall(uint32_t queue, const hal::Ordering& ordering,
                                 const hal::HostCall& call) {
  if (!call.function) return InvalidArgument("A host call names no function.");
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kHostCall;
    work.call = call;
    return OkStatus();
  });
}

Status CudaDevice::Flush() {
  scheduler_->Flush();
  return OkStatus();
}

Status CudaDevice::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                        int64_t timeout_ns, size_t* out_index) {
  HY_TRY(hal::CheckOrdering({points, {}, false}));
  return CatchAll([&] { return scheduler_->Wait(points, mode, timeout_ns, out_index); });
}

Result<hal::LinkInfo> CudaDevice::LinkTo(const hal::Device& other) const {
  hal::LinkInfo link;
  const auto* peer = dynamic_cast<const CudaDevice*>(&other);
  if (!peer) return link;
  if (peer->context_->device() == context_->device()) {
    link.kind = hal::LinkKind::kSameMemory;
    link.can_access_peer = &other == this;
    link.can_copy_direct = true;
    return link;
  }
  const CudaApi& api = context_->api();
  int can = 0, has_atomics = 0;
  HY_CUDA_TRY(api, cuDeviceCanAccessPeer, &can, context_->device(), peer->context_->device());
  if (!can) return link;
  // Atomics of every kind cross NVLink and not PCIe.
  HY_CUDA_TRY(api, cuDeviceGetP2PAttribute, &has_atomics,
              CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, context_->device(),
              peer->context_->device());
  link.kind = has_atomics ? hal::LinkKind::kNvlink : hal::LinkKind::kPcie;
  link.can_access_peer = link.can_copy_direct = true;
  link.has_native_atomics = {has_atomics != 0, hal::Source::kApi};
  int rank = 0;
  if (api.cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
                                  context_->device(), peer->context_->device()) == CUDA_SUCCESS) {
    link.rank = {rank, hal::Source::kApi};
  }
  hal::SetIfText(&link.nearest, management_.Nearest(peer->management_), hal::Source::kApi);
  return link;
}

}  // namespace halyard::drivers::cuda
