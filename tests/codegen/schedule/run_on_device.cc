// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/schedule/run_on_device.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "compiler/pipeline/expand_math.h"

namespace halyard::schedule {

testing::DeviceRunner* DeviceUnderTest() {
  static const std::unique_ptr<testing::DeviceRunner> runner =
      []() -> std::unique_ptr<testing::DeviceRunner> {
    const char* const path = std::getenv("HALYARD_TEST_DEVICE");
    if (path == nullptr) return nullptr;
    auto opened = testing::DeviceRunner::Open(path);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? std::move(*opened) : nullptr;
  }();
  return runner.get();
}

bool IsAllParts() { return std::getenv("HALYARD_TEST_PART") == nullptr; }

bool IsInPart(size_t number) {
  unsigned part = 0, parts = 1;
  const char* const text = std::getenv("HALYARD_TEST_PART");
  if (text == nullptr) return true;
  if (std::sscanf(text, "%u/%u", &part, &parts) != 2 || part >= parts) {
    ADD_FAILURE() << "HALYARD_TEST_PART is '" << text << "', not I/N with I from 0 to N - 1";
    return true;
  }
  return number % parts == part;
}

Status ZerosAgain(const ScheduledKernel& built,
                  const std::vector<std::vector<uint8_t>>& workspaces) {
  for (size_t w = 0; w < built.workspaces.size(); ++w) {
    if (!built.workspaces[w].is_zero) continue;
    for (uint8_t byte : workspaces[w]) {
      if (byte != 0) return Internal("Workspace {} is not zero again.", w);
    }
  }
  return OkStatus();
}

Status RunOnDevice(testing::DeviceRunner& device, const ScheduledKernel& built,
                   const std::function<Result<int64_t>(Expr)>& size,
                   std::vector<std::vector<uint8_t>>& buffers) {
  kernel::Module module;
  for (const kernel::Kernel& code : built.kernels) {
    module.kernels.push_back(pipeline::ExpandMathFor(code, device.target()));
  }
  HY_TRY(device.Load(module));
  std::vector<std::vector<uint8_t>> workspaces;
  for (const Workspace& workspace : built.workspaces) {
    HY_ASSIGN(const int64_t bytes, size(workspace.bytes));
    workspaces.emplace_back(static_cast<size_t>(bytes), workspace.is_zero ? 0 : 0xfe);
  }
  for (const Dispatch& dispatch : built.dispatches) {
    std::vector<std::span<uint8_t>> spans;
    for (const auto& [kind, index] : dispatch.bindings) {
      if (kind == Binding::Kind::kConstant) return Internal("GPU kernels pack no constants.");
      spans.emplace_back(kind == Binding::Kind::kWorkspace ? workspaces[index] : buffers[index]);
    }
    std::vector<int64_t> scalars;
    for (Expr e : dispatch.scalars) {
      HY_ASSIGN(const int64_t value, size(e));
      scalars.push_back(value);
    }
    int64_t grid[3];
    bool is_empty = false;
    for (int axis = 0; axis < 3; ++axis) {
      HY_ASSIGN(grid[axis], size(dispatch.grid[axis]));
      is_empty |= grid[axis] == 0;
    }
    if (!is_empty) HY_TRY(device.Run(dispatch.kernel, spans, scalars, grid));
  }
  return ZerosAgain(built, workspaces);
}

}  // namespace halyard::schedule
