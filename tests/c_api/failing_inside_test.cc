// SPDX-License-Identifier: Apache-2.0
// Failures from inside, at every place where one can arise: operator new of the calling thread
// throws at the n-th call, for every n, either bad_alloc or what a failed check throws in a release
// build. Every call must come back with a result, leak nothing and leave the process whole.
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "fixture.h"

namespace {

enum class Throws { kNothing, kBadAllocOnce, kBadAllocFromThenOn, kCheckFailure };
thread_local Throws t_throws = Throws::kNothing;
thread_local int t_countdown = 0;  // allocations until then
thread_local bool t_has_thrown = false;

void* Allocate(size_t size, size_t alignment) {
  if (t_throws != Throws::kNothing && t_countdown-- <= 0) {
    const Throws what = t_throws;
    t_has_thrown = true;
    if (what != Throws::kBadAllocFromThenOn) t_throws = Throws::kNothing;
    if (what == Throws::kCheckFailure) throw halyard::CheckFailure{"here.cc:1: check 'x' failed"};
    throw std::bad_alloc();
  }
  void* memory = std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
// Every form that a plain delete may meet, or a sanitizer sees blocks of another heap.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return Allocate(size, alignof(std::max_align_t));
  } catch (...) {
    return nullptr;
  }
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return Allocate(size, static_cast<size_t>(alignment));
  } catch (...) {
    return nullptr;
  }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace halyard {
namespace {

class FailingInside : public CApiTest, public testing::WithParamInterface<Throws> {
 protected:
  // Runs `call` with the n-th allocation failing for n = 0, 1, ... until it meets none; calls
  // `after` with each failure. What a call may answer: the failure, or success where it did
  // without.
  template <typename Call, typename After>
  int Sweep(const Call& call, const After& after) {
    int failures = 0;
    for (int n = 0; n < 20000; ++n) {
      t_has_thrown = false;
      t_countdown = n;
      t_throws = GetParam();
      const hy_result result = call();
      t_throws = Throws::kNothing;
      if (!t_has_thrown) {
        EXPECT_EQ(result, HY_OK) << LastError();
        return failures;
      }
      if (result != HY_OK) {
        ++failures;
        const hy_result wanted =
            GetParam() == Throws::kCheckFailure ? HY_INTERNAL : HY_OUT_OF_MEMORY;
        EXPECT_EQ(result, wanted) << "allocation " << n << ": " << LastError();
        EXPECT_NE(LastError(), "") << "allocation " << n;
      }
      after(result);
    }
    ADD_FAILURE() << "the call never stops allocating";
    return failures;
  }
  template <typename Call>
  int Sweep(const Call& call) {
    return Sweep(call, [](hy_result) {});
  }
  std::vector<float> x_ = {1, 2, 3};
};

TEST_P(FailingInside, Instances) {
  EXPECT_GT(Sweep([] {
              hy_instance_t* instance = nullptr;
              const hy_result result = hy_instance_create(nullptr, &instance);
              EXPECT_EQ(instance != nullptr, result == HY_OK);
              hy_instance_release(instance);
              return result;
            }),
            0);
}

TEST_P(FailingInside, Devices) {
  const auto instance = hy::Instance::Create();
  size_t count = 0;
  EXPECT_EQ(hy_enumerate_devices(instance.get(), nullptr, &count), HY_OK);
  Sweep([&] { return hy_enumerate_devices(instance.get(), nullptr, &count); });
  EXPECT_GT(Sweep([&] {
              hy_device_t* device = nullptr;
              const hy_result result = hy_device_open(instance.get(), hy::View("cpu:0"), &device);
              EXPECT_EQ(device != nullptr, result == HY_OK);
              hy_device_release(device);
              return result;
            }),
            0);
}

TEST_P(FailingInside, Programs) {
  const auto instance = hy::Instance::Create();
  Compile(instance, "copy").Save(Path("p"));
  const std::string path = Path("p");
  EXPECT_GT(Sweep([&] {
              hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
              desc.path = hy::View(path);
              hy_program_t* program = nullptr;
              const hy_result result = hy_program_load(instance.get(), &desc, &program);
              hy_program_release(program);
              return result;
            }),
            10);
  const std::string model = "copy";
  EXPECT_GT(Sweep([&] {
              hy_compile_desc desc = HY_COMPILE_DESC_INIT;
              desc.onnx_data = model.data();
              desc.onnx_size_bytes = model.size();
              desc.disable_cache = 1;
              hy_program_t* program = nullptr;
              const hy_result result = hy_program_compile(instance.get(), &desc, &program);
              hy_program_release(program);
              return result;
            }),
            10);
}

TEST_P(FailingInside, GraphsAreOnlyReleasedAfterwards) {
  const auto instance = hy::Instance::Create();
  const float weights[2] = {1, 2};
  const int64_t dims[1] = {2};
  for (int n = 0; n < 20000; ++n) {
    hy_graph_t* raw = nullptr;
    ASSERT_EQ(hy_graph_create(instance.get(), &raw), HY_OK);
    int released = 0;
    bool is_constant_given = false;
    struct Closer {  // the bytes are released once, at the latest with the graph
      ~Closer() {
        hy_graph_release(graph);
        EXPECT_EQ(released, is_given ? 1 : 0);
      }
      hy_graph_t* graph;
      const int& released;
      const bool& is_given;
    } const closer{raw, released, is_constant_given};
    hy_value x = 0, w = 0, y = 0;
    t_has_thrown = false;
    t_countdown = n;
    t_throws = GetParam();
    hy_result result = hy_graph_symbol(raw, hy::View("n"), 1, 100, 1);
    if (result == HY_OK)
      result = hy_graph_input(raw, hy::View("x"), HY_DTYPE_F32, hy::View("n, 2"), &x);
    if (result == HY_OK) {
      is_constant_given = true;
      result = hy_graph_constant(
          raw, hy::View("w"), HY_DTYPE_F32, dims, 1, weights, 8,
          [](void* c) { ++*static_cast<int*>(c); }, &released, &w);
    }
    const hy_value operands[2] = {x, w};
    if (result == HY_OK) {
      result = hy_graph_op(raw, hy::View("add"), hy::View("sum"), operands, 2, nullptr, 0, &y, 1);
    }
    if (result == HY_OK) result = hy_graph_output(raw, hy::View("y"), y);
    t_throws = Throws::kNothing;
    if (result == HY_OK) {
      EXPECT_EQ(hy_graph_verify(raw), HY_OK) << LastError();
      if (!t_has_thrown) return;
      continue;
    }
    // Where it failed before it touched the graph, the graph is as it was; otherwise it is closed.
    const hy_result next = hy_graph_symbol(raw, hy::View("later"), 1, 2, 1);
    if (next != HY_OK) {
      EXPECT_EQ(next, HY_FAILED_PRECONDITION);
      EXPECT_THAT(LastError(), testing::HasSubstr("This graph failed inside and can only be"));
    }
  }
  ADD_FAILURE() << "the calls never stop allocating";
}

TEST_P(FailingInside, Runs) {
  const auto instance = hy::Instance::Create();
  for (const std::string device_path : {"cpu:0", "cpu:0?discrete=3"}) {
    const auto device = instance.Open(device_path);
    hy_device_t* raw_device = device.get();
    const std::string model = "copy";
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_data = model.data();
    desc.onnx_size_bytes = model.size();
    desc.devices = &raw_device;
    desc.device_count = 1;
    const auto program = hy::Program::Compile(instance, desc);
    hy_session_t* session = nullptr;
    hy_tensor in = F32(x_), out = HY_TENSOR_INIT;
    int poisoned = 0;
    // A new session each time: a first run allocates.
    const int failures = Sweep(
        [&] {
          out = HY_TENSOR_INIT;
          const hy_result made = hy_session_create(program.get(), nullptr, &session);
          return made == HY_OK ? hy_session_run(session, &in, 1, &out, 1) : made;
        },
        [&](hy_result first) {
          if (session != nullptr) {
            out = HY_TENSOR_INIT;
            const hy_result again = hy_session_run(session, &in, 1, &out, 1);
            if (again == HY_OK) {
              EXPECT_EQ(Values(out), x_);
            } else {
              ++poisoned;
              EXPECT_EQ(again, HY_FAILED_PRECONDITION);
              EXPECT_EQ(first, HY_INTERNAL) << "what lacked memory runs again";
              EXPECT_EQ(LastError(),
                        "This session failed inside and can only be released: here.cc:1: "
                        "check 'x' failed");
            }
          }
          hy_session_release(session);
          session = nullptr;
        });
    EXPECT_EQ(Values(out), x_);
    hy_session_release(session);
    EXPECT_GT(failures, 5);
    EXPECT_EQ(poisoned > 0, GetParam() == Throws::kCheckFailure);
  }
}

TEST_P(FailingInside, SubmittedRuns) {
  const auto instance = hy::Instance::Create();
  const auto program = Compile(instance, "copy");
  std::vector<float> y(4);
  hy_session_t* session = nullptr;
  hy_event_t* event = nullptr;
  hy_tensor in = F32(x_), out = HY_TENSOR_INIT;
  Sweep(
      [&] {
        out = HY_TENSOR_INIT;
        out.data = y.data() + 1;  // not aligned: copied at the end, by a host call
        out.size_bytes = 12;
        const hy_result made = hy_session_create(program.get(), nullptr, &session);
        return made == HY_OK ? hy_session_submit(session, &in, 1, &out, 1, &event) : made;
      },
      [&](hy_result result) {
        EXPECT_EQ(event != nullptr, result == HY_OK);
        hy_session_release(session);  // first, while the run may go on
        if (event != nullptr) {
          const hy_result end = hy_event_wait(event, HY_WAIT_FOREVER);
          EXPECT_THAT(end, testing::AnyOf(HY_OK, HY_OUT_OF_MEMORY, HY_INTERNAL)) << LastError();
        }
        hy_event_release(event);
        session = nullptr;
        event = nullptr;
      });
  hy_session_release(session);
  EXPECT_EQ(hy_event_wait(event, HY_WAIT_FOREVER), HY_OK);
  hy_event_release(event);
  EXPECT_EQ(std::vector<float>(y.begin() + 1, y.end()), x_);
}

INSTANTIATE_TEST_SUITE_P(Every, FailingInside,
                         testing::Values(Throws::kBadAllocOnce, Throws::kBadAllocFromThenOn,
                                         Throws::kCheckFailure),
                         [](const testing::TestParamInfo<Throws>& info) -> std::string {
                           switch (info.param) {
                             case Throws::kBadAllocOnce:
                               return "BadAllocOnce";
                             case Throws::kBadAllocFromThenOn:
                               return "BadAllocFromThenOn";
                             default:
                               return "CheckFailure";
                           }
                         });

}  // namespace
}  // namespace halyard
