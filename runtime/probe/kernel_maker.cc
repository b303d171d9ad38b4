// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/kernel_maker.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/cpu_kernel_abi.h"
#include "base/gpu_kernel_abi.h"
#include "base/log.h"
#include "runtime/compiler_library.h"
#include "runtime/device_target.h"
#include "runtime/measurer.h"

namespace halyard::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Compiling candidates is most of what a GPU's first probe takes.
constexpr size_t kMostRaced = 4;

double SecondsFrom(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Target WithoutMatrixUnits(Target target) {
  const auto drop = [](uint64_t* features, auto... bits) {
    ((*features &= ~static_cast<uint64_t>(bits)), ...);
  };
  drop(&target.cpu_features, CpuFeature::kAmxTile, CpuFeature::kAmxInt8, CpuFeature::kAmxBf16);
  drop(&target.gpu.features, GpuFeature::kMatrix);
  target.gpu.matrix_shapes.clear();
  return target;
}

}  // namespace

KernelMaker::KernelMaker(Ref<hal::Device> device, std::shared_ptr<Cache> cache)
    : device_(std::move(device)),
      cache_(std::move(cache)),
      turn_(std::make_shared<DeviceTurn>(device_)) {}

KernelMaker::~KernelMaker() {
  is_stopped_ = true;
  for (std::thread& thread : threads_) thread.join();
}

void KernelMaker::Begin(std::vector<KernelJob> jobs, size_t threads,
                        std::function<bool()> is_over) {
  is_over_ = std::move(is_over);
  begun_.resize(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) begun_[i].job = std::move(jobs[i]);
  for (size_t t = 0; t < std::min(threads, begun_.size()); ++t)
    threads_.emplace_back([this] { Serve(); });
}

void KernelMaker::Serve() {
  std::unique_lock lock(mutex_);
  while (!is_stopped_ && next_ < begun_.size()) {
    Compiled& mine = begun_[next_++];
    lock.unlock();
    auto result = CatchAll([&] { return Compile(mine.job, {}); });
    lock.lock();
    mine.result = std::move(result);
    mine.is_done = true;
    ++done_;
    changed_.notify_all();
  }
}

bool KernelMaker::Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_there) {
  while (!changed_.wait_for(lock, std::chrono::milliseconds(20), is_there)) {
    if (is_over_ && is_over_()) return false;
  }
  return true;
}

void KernelMaker::AwaitAll() {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  Await(lock, [&] { return done_ == begun_.size(); });
  seconds_ += SecondsFrom(start);
}

Result<CompileResult> KernelMaker::Compile(const KernelJob& job,
                                           const std::function<bool()>& is_late) {
  const Clock::time_point start = Clock::now();
  HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
  const std::string text = job.graph();
  CompileRequest request;
  request.graph_text = text;
  Target target = TargetOf(*device_);
  if (!job.use_matrix_units) target = WithoutMatrixUnits(std::move(target));
  request.devices.push_back({std::string(device_->path()), std::move(target), IdentityOf(*device_),
                             IsHostDevice(*device_)});
  request.options.allow_fallback = false;
  request.options.tune = job.tune;
  request.options.most_raced = kMostRaced;
  request.options.vendor_libraries = job.vendor_libraries;
  request.should_stop = [this, &is_late] { return is_stopped_.load() || (is_late && is_late()); };
  HalMeasurer measurer({device_}, cache_, request.should_stop, {turn_});
  if (job.tune) request.measurer = &measurer;
  auto compiled = compiler->compile(request);
  if (!compiled.ok() && is_late && is_late() && !is_stopped_)
    return DeadlineExceeded("The time was over before the kernel was compiled.");
  HY_LOG(kInfo, "probe of {}: {} compiled in {:.3f} s, of which races of {} candidates took {:.3f}",
         device_->path(), job.what, SecondsFrom(start), measurer.candidate_count(),
         measurer.seconds());
  return compiled;
}

Result<std::unique_ptr<KernelRun>> KernelMaker::Make(const KernelJob& job) {
  const Clock::time_point start = Clock::now();
  const auto make = [&]() -> Result<std::unique_ptr<KernelRun>> {
    const auto found = std::find_if(begun_.begin(), begun_.end(), [&](const Compiled& compiled) {
      return compiled.job.what == job.what;
    });
    if (found == begun_.end()) {
      HY_ASSIGN(CompileResult compiled, Compile(job, is_late_));
      return KernelRun::Make(device_, std::move(compiled.program), turn_);
    }
    std::unique_lock lock(mutex_);
    if (!Await(lock, [&] { return found->is_done; }))
      return DeadlineExceeded("The time was over before the kernel was compiled.");
    auto result = std::move(found->result);
    lock.unlock();
    HY_ASSIGN(CompileResult compiled, std::move(result));
    return KernelRun::Make(device_, std::move(compiled.program), turn_);
  };
  auto run = make();
  seconds_ += SecondsFrom(start);
  return run;
}

}  // namespace halyard::runtime
