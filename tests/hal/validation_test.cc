// SPDX-License-Identifier: Apache-2.0
// Violations that only the validation layer sees; the suite in cts/ shows that correct use passes
// it.
#include "hal/validation.h"

#include <gtest/gtest.h>

#include "drivers/init.h"
#include "hal/registry.h"
#include "tests/hal/cts/cts.h"

namespace halyard::hal {
namespace {

class ValidationTest : public testing::Test {
 protected:
  void SetUp() override {
    DriverRegistry registry;
    ASSERT_OK(RegisterAllDrivers(&registry));
    plain_ = registry.OpenDevice("cpu").value();
    device_ = WrapInValidation(plain_);
    a_ = device_->AllocateBuffer(MemoryKind::kDevice, 256).value();
    b_ = device_->AllocateBuffer(MemoryKind::kDevice, 256).value();
    semaphore_ = device_->CreateSemaphore(5).value();
    commands_ = device_->CreateCommandBuffer().value();
  }
  Status Submit(std::vector<BufferRange> bindings = {}) {
    return device_->Submit(0, {{}, commands_.get(), bindings});
  }

  Ref<Device> plain_, device_;
  Ref<Buffer> a_, b_;
  Ref<Semaphore> semaphore_;
  Ref<CommandBuffer> commands_;
};

TEST_F(ValidationTest, MissingBarrierBetweenDirectRanges) {
  EXPECT_OK(commands_->Fill(CommandRange::Direct(a_.get(), 0, 128), 0, 1));
  EXPECT_OK(commands_->Copy(CommandRange::Direct(a_.get(), 64, 64),
                            CommandRange::Direct(b_.get(), 0, 64)));
  EXPECT_OK(commands_->Finish());
  EXPECT_FAILS(Submit(), kInvalidArgument,
               "Commands 0 (a fill) and 1 (a copy) touch the same bytes");
}

TEST_F(ValidationTest, BarrierOrDisjointRangesAreFine) {
  EXPECT_OK(commands_->Fill(CommandRange::Direct(a_.get(), 0, 64), 0, 1));
  EXPECT_OK(commands_->Fill(CommandRange::Direct(a_.get(), 64, 64), 0, 1));
  EXPECT_OK(commands_->Barrier());
  EXPECT_OK(commands_->Copy(CommandRange::Direct(a_.get(), 64, 64),
                            CommandRange::Direct(b_.get(), 0, 64)));
  EXPECT_OK(commands_->Finish());
  EXPECT_OK(Submit());
}

TEST_F(ValidationTest, SlotsThatTurnOutToAlias) {
  EXPECT_OK(commands_->Fill(CommandRange::Slot(0, 0, 64), 0, 1));
  EXPECT_OK(commands_->Fill(CommandRange::Slot(1, 0, 64), 1, 1));
  EXPECT_OK(commands_->Barrier());
  EXPECT_OK(commands_->Copy(CommandRange::Slot(0, 0, 64), CommandRange::Slot(1, 32, 64)));
  EXPECT_OK(commands_->Finish());
  EXPECT_OK(Submit({{a_.get(), 0, 64}, {b_.get(), 0, 128}}));
  EXPECT_FAILS(Submit({{a_.get(), 0, 64}, {a_.get(), 32, 128}}), kInvalidArgument,
               "a barrier must stand");
  EXPECT_FAILS(Submit({{a_.get(), 64, 64}, {a_.get(), 0, 128}}), kInvalidArgument,
               "overlaps itself");
}

TEST_F(ValidationTest, SignalsMustGrow) {
  SemaphorePoint low{semaphore_.get(), 5};
  EXPECT_FAILS(device_->Submit(0, {{{}, {&low, 1}}, nullptr, {}}), kInvalidArgument,
               "A signal of 5 was queued for a semaphore at 5");
  SemaphorePoint twice[] = {{semaphore_.get(), 6}, {semaphore_.get(), 7}};
  EXPECT_FAILS(device_->Submit(0, {{{}, twice}, nullptr, {}}), kInvalidArgument, "twice");
}

TEST_F(ValidationTest, WorkThatWaitsForItself) {
  SemaphorePoint six{semaphore_.get(), 6};
  EXPECT_FAILS(device_->Submit(0, {{{&six, 1}, {&six, 1}}, nullptr, {}}), kInvalidArgument,
               "waits for 6 of a semaphore that it signals with 6 itself");
}

TEST_F(ValidationTest, ObjectsOfOtherDevices) {
  Ref<Buffer> foreign = plain_->AllocateBuffer(MemoryKind::kDevice, 256).value();
  EXPECT_FAILS(commands_->Fill(cts::WholeDirect(foreign), 0, 1), kInvalidArgument,
               "names a buffer of 'cpu:0'");
  EXPECT_FAILS(device_->QueueFill(0, {}, cts::Whole(foreign), 0, 1), kInvalidArgument,
               "was not made by");
  Ref<CommandBuffer> other = plain_->CreateCommandBuffer().value();
  EXPECT_OK(other->Finish());
  EXPECT_FAILS(device_->Submit(0, {{}, other.get(), {}}), kInvalidArgument,
               "was not made by 'cpu:0'");
}

TEST_F(ValidationTest, WaitingInsideAHostCall) {
  struct Context {
    Device* device;
    Semaphore* semaphore;
    Status seen;
  } context{device_.get(), semaphore_.get(), OkStatus()};
  HostCall call;
  call.context = &context;
  call.function = [](void* raw) {
    auto* context = static_cast<Context*>(raw);
    SemaphorePoint point{context->semaphore, 100};
    context->seen = context->device->Wait({&point, 1}, WaitMode::kAll, 1000);
    return OkStatus();
  };
  SemaphorePoint done{semaphore_.get(), 6};
  EXPECT_OK(device_->QueueHostCall(0, {{}, {&done, 1}}, call));
  EXPECT_OK(device_->Wait({&done, 1}, WaitMode::kAll, kInfiniteTimeout));
  EXPECT_FAILS(context.seen, kFailedPrecondition, "A host call waits for queued work");
}

TEST_F(ValidationTest, SmallThings) {
  SemaphorePoint point{semaphore_.get(), 5};
  EXPECT_FAILS(device_->Wait({&point, 1}, WaitMode::kAll, -1), kInvalidArgument, "-1 ns");
  BufferRange range = cts::Whole(a_);
  EXPECT_FAILS(device_->Submit(0, {{}, nullptr, {&range, 1}}), kInvalidArgument,
               "without commands");
  const ExecutableEntry twice[] = {{"k", 0, 0, {}}, {"k", 0, 0, {}}};
  ExecutableSource source;
  source.format = "cpu-image";
  source.entries = twice;
  EXPECT_FAILS(device_->LoadExecutable(source), kInvalidArgument, "'k' twice");
}

// Two gathers that fail and a copy stand in one stage, where a device may run them in any order.
TEST_F(ValidationTest, OneCommandRunsAtATimeAndTheFirstThatFailsIsNamed) {
  const cts::TestKernels& kernels = cts::CpuKernels();
  const std::vector<uint8_t> image = kernels.Image(device_->capabilities());
  ExecutableSource source;
  source.format = kernels.format();
  source.code = image;
  const Ref<Executable> executable = device_->LoadExecutable(source).value();
  constexpr int64_t kRows = 8;
  std::vector<Ref<Buffer>> buffers;
  for (int i = 0; i < 5; ++i) {
    buffers.push_back(device_->AllocateBuffer(MemoryKind::kHostVisible, kRows * 8).value());
    int64_t* data = reinterpret_cast<int64_t*>(buffers[i]->Map(0, kRows * 8).value());
    for (int64_t row = 0; row < kRows; ++row) data[row] = i == 1 ? 100 + row : -1;
  }
  // Buffers: data, indices beyond it, two outputs, and a target of the copy.
  const auto gather = [&](const char* label, size_t out) {
    const CommandRange bindings[] = {cts::WholeDirect(buffers[0]), cts::WholeDirect(buffers[1]),
                                     cts::WholeDirect(buffers[out])};
    DispatchCommand command;
    command.executable = executable.get();
    command.entry = executable->FindEntry("gather").value();
    command.grid[0] = kRows;
    command.bindings = bindings;
    command.scalars = {&kRows, 1};
    command.label = label;
    return commands_->Dispatch(command);
  };
  for (int round = 0; round < 20; ++round) {
    commands_ = device_->CreateCommandBuffer().value();
    EXPECT_OK(gather("first", 2));
    EXPECT_OK(gather("second", 3));
    EXPECT_OK(commands_->Fill(cts::WholeDirect(buffers[4]), 0, 8));
    EXPECT_OK(commands_->Finish());
    const Ref<Semaphore> end = device_->CreateSemaphore(0).value();
    const SemaphorePoint signal{end.get(), 1};
    EXPECT_OK(device_->Submit(0, {{{}, {&signal, 1}}, commands_.get(), {}}));
    EXPECT_FAILS(device_->Wait({&signal, 1}, WaitMode::kAll, kInfiniteTimeout), kOutOfRange,
                 "dispatch 'first'");
    EXPECT_EQ(*reinterpret_cast<int64_t*>(buffers[4]->Map(0, 8).value()), -1)
        << "what stands behind the failure does not run";
  }
}

// When a later command is refused, nothing of the submission runs and its signals can be used
// again.
TEST_F(ValidationTest, ARefusedSubmissionQueuesNothing) {
  EXPECT_OK(commands_->Fill(CommandRange::Slot(0, 0, 64), 7, 8));
  EXPECT_OK(commands_->Fill(CommandRange::Slot(1, 64, 64), 7, 8));
  EXPECT_OK(commands_->Finish());
  const Ref<Buffer> buffer = device_->AllocateBuffer(MemoryKind::kHostVisible, 128).value();
  auto* data = reinterpret_cast<int64_t*>(buffer->Map(0, 128).value());
  std::fill_n(data, 16, -1);
  const SemaphorePoint signal{semaphore_.get(), 6};
  const BufferRange short_bindings[] = {{buffer.get(), 0, 64}, {b_.get(), 0, 64}};
  EXPECT_FAILS(device_->Submit(0, {{{}, {&signal, 1}}, commands_.get(), short_bindings}),
               kOutOfRange, "");
  EXPECT_EQ(semaphore_->value(), 5u);
  EXPECT_OK(semaphore_->status());
  const BufferRange bindings[] = {{buffer.get(), 0, 64}, {b_.get(), 0, 128}};
  EXPECT_OK(device_->Submit(0, {{{}, {&signal, 1}}, commands_.get(), bindings}));
  EXPECT_OK(device_->Wait({&signal, 1}, WaitMode::kAll, kInfiniteTimeout));
  EXPECT_EQ(data[0], 7);
  EXPECT_EQ(data[8], -1);
}

}  // namespace
}  // namespace halyard::hal
