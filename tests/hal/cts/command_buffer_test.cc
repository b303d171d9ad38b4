// SPDX-License-Identifier: Apache-2.0
// Recordings: what runs, in which order, with which buffers, how often, and what is refused.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "tests/hal/cts/cts.h"
#include "tests/heap_watch.h"

namespace halyard::cts {
namespace {

using hal::CommandRange;

enum Kernel : uint32_t { kAddScalar, kGather, kGrid, kScratch };

std::vector<int64_t> Iota(int64_t first, size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// in (slot 0) -> out (slot 1), plus `scalar`.
hal::DispatchCommand AddCommand(hal::Executable* executable, const CommandRange (&bindings)[2],
                                const int64_t& scalar, int64_t count) {
  hal::DispatchCommand command;
  command.executable = executable;
  command.entry = kAddScalar;
  command.grid[0] = count;
  command.bindings = bindings;
  command.scalars = {&scalar, 1};
  command.label = "add";
  return command;
}

HAL_CASE(CommandGridsAreCoveredOnce) {
  Ref<hal::Executable> executable = LoadKernels();
  const int64_t kGrids[][3] = {{1, 1, 1}, {7, 1, 1},   {1, 13, 1},  {1, 1, 5},
                               {3, 5, 7}, {64, 33, 2}, {1000, 1, 3}};
  for (const auto& grid : kGrids) {
    int64_t count = grid[0] * grid[1] * grid[2];
    Ref<hal::Buffer> out = Upload(std::vector<int64_t>(static_cast<size_t>(count), 0));
    Ref<hal::CommandBuffer> commands = NewCommands();
    CommandRange binding = WholeDirect(out);
    int64_t scalars[] = {grid[0], grid[1]};
    hal::DispatchCommand command;
    command.executable = executable.get();
    command.entry = kGrid;
    std::copy(std::begin(grid), std::end(grid), command.grid);
    command.bindings = {&binding, 1};
    command.scalars = scalars;
    EXPECT_OK(commands->Dispatch(command));
    EXPECT_OK(commands->Finish());
    EXPECT_OK(RunNow(commands.get()));
    std::vector<int64_t> expected;
    for (int64_t z = 0; z < grid[2]; ++z) {
      for (int64_t y = 0; y < grid[1]; ++y) {
        for (int64_t x = 0; x < grid[0]; ++x) expected.push_back(x + 1000 * y + 1000000 * z);
      }
    }
    EXPECT_EQ(Download(out.get()), expected);
  }
}

HAL_CASE(CommandEmptyGridsAndRecordingsDoNothing) {
  Ref<hal::Executable> executable = LoadKernels();
  Ref<hal::Buffer> in = Upload(Iota(0, 8)), out = Upload(Iota(100, 8));
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange bindings[2] = {WholeDirect(in), WholeDirect(out)};
  EXPECT_OK(commands->Barrier());
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), bindings, 1, 0)));
  EXPECT_OK(
      commands->Copy(CommandRange::Direct(in.get(), 8, 0), CommandRange::Direct(out.get(), 0, 0)));
  EXPECT_OK(commands->Barrier());
  EXPECT_OK(commands->Finish());
  EXPECT_OK(RunNow(commands.get()));
  EXPECT_EQ(Download(out.get()), Iota(100, 8));
  Ref<hal::CommandBuffer> nothing = NewCommands();
  EXPECT_OK(nothing->Finish());
  EXPECT_OK(RunNow(nothing.get()));
}

HAL_CASE(CommandWorkgroupMemoryIsPrivateAndAligned) {
  Ref<hal::Executable> executable = LoadKernels();
  constexpr int64_t kCount = 5000;
  Ref<hal::Buffer> out = Upload(std::vector<int64_t>(kCount, -1));
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange binding = WholeDirect(out);
  hal::DispatchCommand command;
  command.executable = executable.get();
  command.entry = kScratch;
  command.grid[0] = kCount;
  command.bindings = {&binding, 1};
  EXPECT_OK(commands->Dispatch(command));
  EXPECT_OK(commands->Finish());
  EXPECT_OK(RunNow(commands.get()));
  std::vector<int64_t> expected;
  for (int64_t x = 0; x < kCount; ++x) expected.push_back(2 * x);
  EXPECT_EQ(Download(out.get()), expected);
}

// Each stage reads what the one before wrote, in reverse order so that a missing barrier shows.
HAL_CASE(CommandBarriersOrderStages) {
  Ref<hal::Executable> executable = LoadKernels();
  constexpr int64_t kCount = 3000, kStages = 20;
  Ref<hal::Buffer> a = Upload(Iota(0, kCount)), b = Upload(Iota(0, kCount));
  Ref<hal::CommandBuffer> commands = NewCommands();
  for (int64_t stage = 0; stage < kStages; ++stage) {
    CommandRange bindings[2] = {WholeDirect(stage % 2 ? b : a), WholeDirect(stage % 2 ? a : b)};
    int64_t scalar = stage;
    EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), bindings, scalar, kCount)));
    EXPECT_OK(commands->Barrier());
  }
  EXPECT_OK(
      commands->Copy(CommandRange::Direct(a.get(), 0, 8), CommandRange::Direct(a.get(), 8, 8)));
  EXPECT_OK(commands->Barrier());
  EXPECT_OK(commands->Fill(CommandRange::Direct(a.get(), 0, 8), 77, 8));
  EXPECT_OK(commands->Finish());
  EXPECT_EQ(commands->dispatch_count(), static_cast<uint32_t>(kStages));
  EXPECT_OK(RunNow(commands.get()));
  std::vector<int64_t> expected = Iota(kStages * (kStages - 1) / 2, kCount);
  expected[1] = expected[0];
  expected[0] = 77;
  EXPECT_EQ(Download(a.get()), expected);
}

HAL_CASE(CommandSeveralKindsInOneStage) {
  Ref<hal::Executable> executable = LoadKernels();
  constexpr int64_t kCount = 40000;
  Ref<hal::Buffer> in = Upload(Iota(5, kCount));
  Ref<hal::Buffer> added = Allocate(8 * kCount), copied = Allocate(8 * kCount),
                   filled = Allocate(8 * kCount);
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange bindings[2] = {WholeDirect(in), WholeDirect(added)};
  EXPECT_OK(commands->Copy(WholeDirect(in), WholeDirect(copied)));
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), bindings, -5, kCount)));
  EXPECT_OK(commands->Fill(WholeDirect(filled), 0x42, 1));
  EXPECT_OK(commands->Finish());
  EXPECT_OK(RunNow(commands.get()));
  EXPECT_EQ(Download(added.get()), Iota(0, kCount));
  EXPECT_EQ(Download(copied.get()), Iota(5, kCount));
  EXPECT_EQ(Download(filled.get()), std::vector<int64_t>(kCount, 0x4242424242424242));
}

HAL_CASE(CommandReplayedWithOtherBuffersWithoutAllocation) {
  Ref<hal::Executable> executable = LoadKernels();
  constexpr int64_t kCount = 64, kBuffers = 5, kReplays = 1000;
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange first[2] = {CommandRange::Slot(0, 0, 8 * kCount),
                           CommandRange::Slot(1, 0, 8 * kCount)};
  CommandRange second[2] = {CommandRange::Slot(1, 0, 8 * kCount),
                            CommandRange::Slot(2, 64, 8 * kCount)};
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), first, 3, kCount)));
  EXPECT_OK(commands->Barrier());
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), second, 4, kCount)));
  EXPECT_OK(commands->Finish());
  EXPECT_EQ(commands->slot_count(), 3u);
  std::vector<Ref<hal::Buffer>> in, middle, out;
  for (int64_t i = 0; i < kBuffers; ++i) {
    in.push_back(Upload(Iota(1000 * i, kCount)));
    middle.push_back(Allocate(8 * kCount));
    out.push_back(Upload(Iota(0, kCount + 16)));
  }
  Ref<hal::Semaphore> timeline = NewSemaphore();
  uint64_t value = 0;
  auto replay = [&](size_t i) -> Status {
    hal::BufferRange bindings[] = {
        Whole(in[i]), Whole(middle[i]), {out[i].get(), 64, 8 * kCount + 64}};
    hal::SemaphorePoint wait{timeline.get(), value}, signal{timeline.get(), value + 1};
    ++value;
    HY_TRY(device_->Submit(0, {{{&wait, 1}, {&signal, 1}, true}, commands.get(), bindings}));
    return device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
  };
  for (int64_t i = 0; i < 50; ++i) ASSERT_OK(replay(static_cast<size_t>(i % kBuffers)));
  // A worker that the system starts late allocates its own state once, in whichever round that
  // falls; what a replay allocates shows in every round.
  int64_t allocations = INT64_MAX;
  const int rounds = GetParam().is_validated ? 1 : 5;
  for (int round = 0; round < rounds && allocations > 0; ++round) {
    const int64_t before = NewCount();
    for (int64_t i = 0; i < kReplays; ++i) ASSERT_OK(replay(static_cast<size_t>(i % kBuffers)));
    allocations = std::min(allocations, NewCount() - before);
  }
  // The validation layer allocates by contract.
  if (!GetParam().is_validated && WatchesHeap()) {
    EXPECT_EQ(allocations, 0);
  }
  for (int64_t i = 0; i < kBuffers; ++i) {
    std::vector<int64_t> expected = Iota(0, kCount + 16);
    for (int64_t x = 0; x < kCount; ++x) expected[static_cast<size_t>(16 + x)] = 1000 * i + x + 7;
    EXPECT_EQ(Download(out[static_cast<size_t>(i)].get()), expected);
  }
}

HAL_CASE(CommandOneRecordingInFlightManyTimes) {
  Ref<hal::Executable> executable = LoadKernels();
  constexpr int64_t kCount = 500, kSubmissions = 40;
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange bindings[2] = {CommandRange::Slot(0, 0, 8 * kCount),
                              CommandRange::Slot(1, 0, 8 * kCount)};
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), bindings, 1, kCount)));
  EXPECT_OK(commands->Finish());
  Ref<hal::Buffer> in = Upload(Iota(0, kCount));
  std::vector<Ref<hal::Buffer>> outs;
  std::vector<Ref<hal::Semaphore>> semaphores;
  std::vector<hal::SemaphorePoint> points;
  for (int64_t i = 0; i < kSubmissions; ++i) {
    outs.push_back(Allocate(8 * kCount));
    semaphores.push_back(NewSemaphore());
    points.push_back({semaphores.back().get(), 1});
    hal::BufferRange table[] = {Whole(in), Whole(outs.back())};
    auto queue = static_cast<uint32_t>(i) % device_->queue_count();
    EXPECT_OK(device_->Submit(queue, {{{}, {&points.back(), 1}}, commands.get(), table}));
  }
  // The submissions keep what they need.
  commands.reset();
  executable.reset();
  EXPECT_OK(device_->Wait(points, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  for (const Ref<hal::Buffer>& out : outs) EXPECT_EQ(Download(out.get()), Iota(1, kCount));
}

HAL_CASE(CommandErrorRecordBecomesAStatusThatNamesTheSite) {
  Ref<hal::Executable> executable =
      LoadKernels({"node 'e': index of Embedding", "node 'g': index of Gather"});
  Ref<hal::Buffer> data = Upload(Iota(50, 10)), out = Upload(Iota(0, 4));
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange add[2] = {WholeDirect(data), WholeDirect(data)};
  CommandRange gather[3] = {WholeDirect(data), CommandRange::Slot(0, 0, 32), WholeDirect(out)};
  int64_t extent = 10;
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), add, 0, 10)));
  EXPECT_OK(commands->Barrier());
  hal::DispatchCommand command;
  command.executable = executable.get();
  command.entry = kGather;
  command.grid[0] = 4;
  command.bindings = gather;
  command.scalars = {&extent, 1};
  command.label = "fusion_3";
  EXPECT_OK(commands->Dispatch(command));
  EXPECT_OK(commands->Finish());

  const int64_t kGood[] = {9, 0, 3, 3}, kHigh[] = {0, 1, 10, 2}, kNegative[] = {-1, 0, 0, 0};
  Ref<hal::Buffer> good = Upload(kGood), high = Upload(kHigh), negative = Upload(kNegative);
  hal::BufferRange table = Whole(good);
  EXPECT_OK(RunNow(commands.get(), {&table, 1}));
  EXPECT_EQ(Download(out.get()), (std::vector<int64_t>{59, 50, 53, 53}));
  table = Whole(high);
  Status status = RunNow(commands.get(), {&table, 1});
  EXPECT_FAILS(status, kOutOfRange,
               "Index 10 is outside an extent of 10 at node 'g': index of Gather");
  EXPECT_FAILS(status, kOutOfRange, "dispatch 'fusion_3', kernel 'gather'");
  table = Whole(negative);
  EXPECT_FAILS(RunNow(commands.get(), {&table, 1}), kOutOfRange,
               "Index -1 is outside an extent of 10");
  // Each submission has a record of its own.
  table = Whole(good);
  EXPECT_OK(RunNow(commands.get(), {&table, 1}));
}

HAL_CASE(CommandTimeIsThatOfTheDevice) {
  Ref<hal::Executable> executable = LoadKernels();
  Ref<hal::Buffer> in = Upload(Iota(0, 8)), out = Upload(Iota(100, 8));
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange bindings[2] = {CommandRange::Slot(0, 0, 64), WholeDirect(out)};
  for (int64_t added : {7, 9}) {
    EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), bindings, added, 8)));
    EXPECT_OK(commands->Barrier());
  }
  EXPECT_OK(commands->Finish());
  const auto time = MakeRef<hal::CommandTime>();
  const hal::BufferRange table = Whole(in);
  hal::SubmitInfo info;
  info.commands = commands.get();
  info.bindings = {&table, 1};
  info.time = time.get();
  int64_t before = 0;
  for (int run = 0; run < 3; ++run) {
    Ref<hal::Semaphore> semaphore = NewSemaphore();
    const hal::SemaphorePoint gate{semaphore.get(), 1}, done{semaphore.get(), 2};
    info.ordering.waits = {&gate, 1};
    info.ordering.signals = {&done, 1};
    EXPECT_OK(device_->Submit(0, info));
    EXPECT_EQ(time->nanoseconds(), run == 0 ? -1 : before);
    // What waits before the commands does not count.
    const auto start = std::chrono::steady_clock::now();
    EXPECT_OK(semaphore->Signal(1));
    EXPECT_OK(WaitFor(semaphore.get(), 2));
    const int64_t passed = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
    EXPECT_GE(time->nanoseconds(), before);
    EXPECT_LE(time->nanoseconds(), before + passed + 2000);  // a device's clock may tick coarsely
    before = time->nanoseconds();
  }
  EXPECT_EQ(Download(out.get()), Iota(9, 8));
  // A submission that fails adds nothing.
  Ref<hal::Semaphore> semaphore = NewSemaphore();
  const hal::SemaphorePoint gate{semaphore.get(), 1}, done{semaphore.get(), 2};
  info.ordering.waits = {&gate, 1};
  info.ordering.signals = {&done, 1};
  EXPECT_OK(device_->Submit(0, info));
  semaphore->Fail(Unavailable("no more"));
  EXPECT_FAILS(WaitFor(semaphore.get(), 2), kUnavailable, "no more");
  EXPECT_EQ(time->nanoseconds(), before);
}

HAL_CASE(EmptyKernelRuns) {
  const auto image = device_->EmptyKernel();
  if (image.status().code() == StatusCode::kUnimplemented) return;  // no launches in its times
  ASSERT_OK(image.status());
  hal::ExecutableSource source;
  source.format = device_->capabilities().executable_formats.front();
  source.code = *image;
  auto executable = device_->LoadExecutable(source);
  ASSERT_OK(executable.status());
  ASSERT_EQ((*executable)->entries().size(), 1u);
  EXPECT_EQ((*executable)->entries()[0].name, "empty");
  Ref<hal::CommandBuffer> commands = NewCommands();
  hal::DispatchCommand command;
  command.executable = executable->get();
  for (int64_t& extent : command.grid) extent = 1;
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(commands->Dispatch(command));
    EXPECT_OK(commands->Barrier());
  }
  EXPECT_OK(commands->Finish());
  EXPECT_OK(RunNow(commands.get(), {}));
}

HAL_CASE(CommandRecordingIsChecked) {
  Ref<hal::Executable> executable = LoadKernels();
  Ref<hal::Buffer> buffer = Allocate(800), staging = Allocate(800, hal::MemoryKind::kStaging);
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange good[2] = {CommandRange::Slot(0, 0, 80), CommandRange::Slot(1, 0, 80)};
  int64_t scalar = 1;
  hal::DispatchCommand command = AddCommand(executable.get(), good, scalar, 10);
  hal::DispatchCommand bad = command;
  bad.executable = nullptr;
  EXPECT_FAILS(commands->Dispatch(bad), kInvalidArgument, "names no executable");
  bad = command;
  bad.entry = 4;
  EXPECT_FAILS(commands->Dispatch(bad), kOutOfRange, "names entry 4; the executable has 4");
  bad = command;
  bad.bindings = {good, 1};
  EXPECT_FAILS(commands->Dispatch(bad), kInvalidArgument, "has 1 bindings; the kernel takes 2");
  bad = command;
  bad.scalars = {};
  EXPECT_FAILS(commands->Dispatch(bad), kInvalidArgument, "has 0 scalars; the kernel takes 1");
  bad = command;
  bad.grid[1] = -1;
  EXPECT_FAILS(commands->Dispatch(bad), kOutOfRange, "10 x -1 x 1");
  bad = command;
  bad.grid[0] = bad.grid[1] = int64_t{1} << 40;
  EXPECT_FAILS(commands->Dispatch(bad), kOutOfRange, "63 bits");
  CommandRange odd[2] = {CommandRange::Slot(0, 8, 80), good[1]};
  bad = command;
  bad.bindings = odd;
  EXPECT_FAILS(commands->Dispatch(bad), kInvalidArgument,
               "Binding 0 of dispatch 'add' starts at offset 8");
  CommandRange outside[2] = {CommandRange::Direct(buffer.get(), 768, 80), good[1]};
  bad.bindings = outside;
  EXPECT_FAILS(commands->Dispatch(bad), kOutOfRange, "only 800");
  CommandRange staged[2] = {WholeDirect(staging), good[1]};
  bad.bindings = staged;
  EXPECT_FAILS(commands->Dispatch(bad), kInvalidArgument, "staging");
  EXPECT_FAILS(commands->Copy(CommandRange::Slot(hal::kMaxBindingSlots, 0, 8), WholeDirect(buffer)),
               kOutOfRange, "slots go up to");
  EXPECT_FAILS(commands->Copy(CommandRange::Slot(0, 0, 16), CommandRange::Slot(0, 8, 16)),
               kInvalidArgument, "overlaps itself");
  EXPECT_FAILS(commands->Fill(CommandRange::Direct(buffer.get(), 2, 4), 0, 4), kInvalidArgument,
               "multiples");
  EXPECT_EQ(commands->dispatch_count(), 0u);
  EXPECT_EQ(commands->slot_count(), 0u);

  EXPECT_OK(commands->Dispatch(command));
  EXPECT_FAILS(RunNow(commands.get()), kFailedPrecondition, "not finished");
  EXPECT_OK(commands->Finish());
  EXPECT_FAILS(commands->Dispatch(command), kFailedPrecondition, "is finished");
  EXPECT_FAILS(commands->Barrier(), kFailedPrecondition, "is finished");
  EXPECT_FAILS(commands->Finish(), kFailedPrecondition, "is finished");
}

HAL_CASE(CommandBindingTablesAreChecked) {
  Ref<hal::Executable> executable = LoadKernels();
  Ref<hal::Buffer> buffer = Allocate(800), other = Allocate(800);
  Ref<hal::Buffer> staging = Allocate(800, hal::MemoryKind::kStaging);
  Ref<hal::CommandBuffer> commands = NewCommands();
  CommandRange bindings[2] = {CommandRange::Slot(0, 64, 80), CommandRange::Slot(2, 0, 80)};
  EXPECT_OK(commands->Dispatch(AddCommand(executable.get(), bindings, 1, 10)));
  EXPECT_OK(commands->Finish());
  auto submit = [&](std::vector<hal::BufferRange> table) { return RunNow(commands.get(), table); };
  EXPECT_OK(submit({{buffer.get(), 0, 144}, {}, Whole(other)}));
  EXPECT_FAILS(submit({Whole(buffer), {}}), kInvalidArgument, "binds 2 slots; its commands use 3");
  EXPECT_FAILS(submit({Whole(buffer), {}, {}}), kInvalidArgument, "Binding slot 2 names no buffer");
  EXPECT_FAILS(submit({{buffer.get(), 0, 143}, {}, Whole(other)}), kOutOfRange,
               "slot 0 holds 143 bytes");
  EXPECT_FAILS(submit({{buffer.get(), 64, 800}, {}, Whole(other)}), kOutOfRange, "only 800");
  EXPECT_FAILS(submit({{buffer.get(), 32, 400}, {}, Whole(other)}), kInvalidArgument, "offset 32");
  EXPECT_FAILS(submit({Whole(buffer), {}, Whole(staging)}), kInvalidArgument, "staging");
}

}  // namespace
}  // namespace halyard::cts
