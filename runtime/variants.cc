// SPDX-License-Identifier: Apache-2.0
// Compiling for new sizes, now or on the worker.
#include "runtime/variants.h"

#include <chrono>

#include "base/check.h"

namespace halyard::runtime {
namespace {

std::string FormatSizes(const Variants::Sizes& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

}  // namespace

Variants::~Variants() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_all();
  if (worker_.joinable()) worker_.join();
}

std::shared_ptr<Variants::Variant> Variants::Find(const Sizes& sizes, bool may_add) {
  const std::lock_guard lock(mutex_);
  const auto found = variants_.find(sizes);
  if (found != variants_.end()) return found->second;
  if (!may_add) return nullptr;
  return variants_.emplace(sizes, std::make_shared<Variant>()).first->second;
}

void Variants::Use(const Sizes& sizes) {
  used_.remove(sizes);
  used_.push_back(sizes);
  if (used_.size() <= kMostVariants) return;
  variants_.erase(used_.front());
  used_.pop_front();
}

Status Variants::Compile(Variant& variant, const Sizes& sizes, bool is_background) {
  const auto start = std::chrono::steady_clock::now();
  auto program = CatchAll([&] { return specializer_(sizes); });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::lock_guard lock(mutex_);
  compiled_.push_back({FormatSizes(sizes), seconds, is_background, program.status()});
  HY_TRY(program.status());
  variant.program = std::move(program).value();
  Use(sizes);
  return OkStatus();
}

Result<std::shared_ptr<LoadedProgram>> Variants::Get(const Sizes& sizes, VariantMode mode) {
  if (mode == VariantMode::kCompileLater) {
    if (!specializer_) return std::shared_ptr<LoadedProgram>();
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = variants_.try_emplace(sizes);
    if (is_new) {
      entry->second = std::make_shared<Variant>();
      if (!worker_.joinable() && !StartWorker().ok()) {
        variants_.erase(entry);  // tried again when these sizes come again
        return std::shared_ptr<LoadedProgram>();
      }
      queue_.push_back(sizes);
      has_work_.notify_one();
    }
    // Without waiting for a compile that is going on.
    const std::unique_lock variant(entry->second->mutex, std::try_to_lock);
    if (!variant.owns_lock() || entry->second->program == nullptr)
      return std::shared_ptr<LoadedProgram>();
    const std::shared_ptr<LoadedProgram> program = entry->second->program;
    Use(sizes);
    return program;
  }
  const bool may_compile = mode == VariantMode::kCompile && specializer_ != nullptr;
  const std::shared_ptr<Variant> variant = Find(sizes, may_compile);
  if (variant != nullptr) {
    const std::lock_guard lock(variant->mutex);
    if (variant->program != nullptr) {
      const std::lock_guard all(mutex_);
      if (variants_.contains(sizes)) Use(sizes);
      return variant->program;
    }
    if (may_compile) {
      HY_TRY(Compile(*variant, sizes, false));
      return variant->program;
    }
  }
  if (mode == VariantMode::kCompile) {
    return FailedPrecondition(
        "A program for new sizes cannot be compiled: this one comes from a program file, which "
        "holds no "
        "model.");
  }
  return NotFound("No program is compiled for {}, and the session may not compile one.",
                  FormatSizes(sizes));
}

Status Variants::StartWorker() {
  return CatchAll([&]() -> Status {
    worker_ = std::thread([this] { Work(); });
    return OkStatus();
  });
}

void Variants::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    const Sizes sizes = std::move(queue_.front());
    queue_.pop_front();
    // A session that waits may have compiled it meanwhile, and others made it go again.
    const auto found = variants_.find(sizes);
    if (found == variants_.end()) continue;
    const std::shared_ptr<Variant> variant = found->second;
    lock.unlock();
    {
      const std::lock_guard compiling(variant->mutex);
      // A failure is recorded.
      CatchAll([&] {
        return variant->program == nullptr ? Compile(*variant, sizes, true) : OkStatus();
      }).Ignore();
    }
    lock.lock();
    background_count_.fetch_add(1, std::memory_order_release);
  }
}

std::vector<CompiledVariant> Variants::compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

}  // namespace halyard::runtime
