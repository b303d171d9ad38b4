// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles of halyard.h, and the rules that every C function follows: the
// fork check, the catch-all, the last error, and the reading and writing of structs that grow.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "halyard.h"
#include "runtime/graph_record.h"
#include "runtime/instance.h"
#include "runtime/loaded_program.h"
#include "runtime/poison.h"
#include "runtime/session.h"

struct hy_instance {
  std::shared_ptr<halyard::runtime::Instance> instance;
};
struct hy_device {
  std::shared_ptr<halyard::runtime::Instance> instance;
  halyard::Ref<halyard::hal::Device> device;
  std::string path, name, driver, uuid;  // what info structs borrow
};
struct hy_graph {
  std::shared_ptr<halyard::runtime::Instance> instance;
  std::atomic<bool> is_busy{false};
  halyard::runtime::Poison poison;
  halyard::runtime::GraphRecord record;
};
struct hy_program {
  std::shared_ptr<halyard::runtime::Instance> instance;
  std::shared_ptr<halyard::runtime::LoadedProgram> program;
  std::vector<std::string> input_shapes, output_shapes;  // what info structs borrow
};
struct hy_session {
  std::shared_ptr<halyard::runtime::Instance> instance;
  std::shared_ptr<halyard::runtime::Session> session;
  // Reused by every run; guarded by is_busy.
  std::atomic<bool> is_busy{false};
  std::vector<halyard::runtime::CallTensor> inputs, outputs;
  std::vector<halyard::runtime::CallResult> results;
};
struct hy_buffer {
  halyard::Ref<halyard::hal::Device> device;
  halyard::Ref<halyard::hal::Buffer> buffer;
};
struct hy_event {
  halyard::runtime::RunEvent event;
};

namespace halyard::runtime {

// True in the child of a fork of a process that had an instance.
bool IsForkedChild();
// Makes IsForkedChild work from now on.
void WatchForks();

void ClearLastError();
std::string_view LastError();
// Remembers the failure for hy_last_error and returns its code.
hy_result SetLastError(const Status& status);

// The body of a C function that can fail. `body` returns Status, or Result<hy_result> when success
// has a code of its own.
template <typename Body>
hy_result Guarded(Body&& body) {
  ClearLastError();
  if (IsForkedChild()) {
    return SetLastError(
        Status(StatusCode::kUnavailable,
               "Halyard was in use before this process was forked; a forked child can only "
               "release its objects."));
  }
  if constexpr (std::is_same_v<decltype(body()), Status>) {
    const Status status = CatchAll(body);
    return status.ok() ? HY_OK : SetLastError(status);
  } else {
    const Result<hy_result> result = CatchAll(body);
    return result.ok() ? *result : SetLastError(result.status());
  }
}

// The body of a release function: nothing thrown leaves it, and in a forked child it does nothing.
template <typename T>
void ReleaseHandle(T* handle) {
  if (handle == nullptr || IsForkedChild()) return;
  try {
    delete handle;
  } catch (...) {  // a destructor of a library threw; the handle is gone either way
  }
}

#define HY_REQUIRE(pointer) \
  if ((pointer) == nullptr) return InvalidArgument("The argument '" #pointer "' is NULL.")

// One user at a time of a graph or a session.
class ExclusiveUse {
 public:
  explicit ExclusiveUse(std::atomic<bool>& flag) : flag_(flag) {
    owns_ = !flag_.exchange(true, std::memory_order_acquire);
  }
  ~ExclusiveUse() {
    if (owns_) flag_.store(false, std::memory_order_release);
  }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;
  Status status() const {
    return owns_ ? OkStatus() : Busy("Another thread is using this object.");
  }

 private:
  std::atomic<bool>& flag_;
  bool owns_;
};

// `inherited`: what HY_POLICY_DEFAULT stands for.
Result<FallbackPolicy> ReadPolicy(hy_policy policy, FallbackPolicy inherited);

inline constexpr uint32_t kMaxStructBytes = 4096;
inline constexpr size_t kDeviceInfoSize = 128;  // of the first version of hy_device_info

// Checks the head of a caller's struct. `first_size` is the size that its first version had.
Status CheckStruct(const void* data, hy_struct_type type, size_t first_size, size_t known_size,
                   bool is_input, std::string_view name);

// Reads a descriptor that may be older or newer than ours: fields that it lacks keep their
// defaults.
template <typename T>
Status ReadStruct(const T* from, hy_struct_type type, size_t first_size, std::string_view name,
                  T& out) {
  HY_TRY(CheckStruct(from, type, first_size, sizeof(T), true, name));
  std::memcpy(static_cast<void*>(&out), from, std::min<size_t>(from->struct_size, sizeof(T)));
  return OkStatus();
}
// Writes as much of an info struct as the caller has room for; its head stays.
template <typename T>
Status WriteStruct(const T& from, hy_struct_type type, size_t first_size, std::string_view name,
                   T* out) {
  HY_TRY(CheckStruct(out, type, first_size, sizeof(T), false, name));
  constexpr size_t kHead = offsetof(T, next) + sizeof(const void*);
  const size_t size = std::min<size_t>(out->struct_size, sizeof(T));
  std::memcpy(reinterpret_cast<char*>(out) + kHead, reinterpret_cast<const char*>(&from) + kHead,
              size - kHead);
  return OkStatus();
}
// Calls `write(type, head)` for each struct that an info struct's `next` leads to; it skips types
// that it does not know and checks the others.
template <typename Write>
Status WriteChain(const void* next, Write&& write) {
  struct Head {
    uint32_t struct_size;
    hy_struct_type type;
    const void* next;
  };
  constexpr int kMaxChain = 64;  // a longer one runs in a circle
  int count = 0;
  for (auto* head = static_cast<const Head*>(next); head != nullptr;
       head = static_cast<const Head*>(head->next)) {
    if (++count > kMaxChain) return InvalidArgument("A chain has more than {} structs.", kMaxChain);
    HY_TRY(write(head->type, const_cast<void*>(static_cast<const void*>(head))));
  }
  return OkStatus();
}
// Element `index` of an array whose elements have the struct_size of the first.
template <typename T>
T* ElementOf(T* first, size_t index) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + index * first->struct_size);
}

// Fills a caller's array of info structs: `write(i, element)` per item. *count is its length, then
// the number of items. HY_INCOMPLETE when not all fit.
template <typename T, typename WriteItem>
Result<hy_result> WriteArray(T* infos, size_t* count, size_t available, WriteItem&& write) {
  HY_REQUIRE(count);
  const size_t capacity = infos == nullptr ? 0 : *count;
  for (size_t i = 0; i < std::min(capacity, available); ++i) HY_TRY(write(i, ElementOf(infos, i)));
  *count = available;
  return infos != nullptr && capacity < available ? HY_INCOMPLETE : HY_OK;
}

Result<std::string> ToString(hy_string text, std::string_view name);
inline hy_string ToC(std::string_view text) { return {text.data(), text.size()}; }

// Sends text through a writer; the writer's refusal comes back as the result.
Result<hy_result> WriteText(std::string_view text, hy_writer writer, void* context);

}  // namespace halyard::runtime
