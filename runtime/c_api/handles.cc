// SPDX-License-Identifier: Apache-2.0
// The common part of the C functions.
#include "runtime/c_api/handles.h"

#include <pthread.h>

#include <mutex>

namespace halyard::runtime {
namespace {

std::atomic<bool> is_forked_child{false};
thread_local std::string last_error;
thread_local bool is_error_lost = false;  // there was no memory for its sentence

}  // namespace

bool IsForkedChild() { return is_forked_child.load(std::memory_order_relaxed); }

void WatchForks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr,
                   [] { is_forked_child.store(true, std::memory_order_relaxed); });
  });
}

void ClearLastError() {
  last_error.clear();
  is_error_lost = false;
}

std::string_view LastError() {
  return is_error_lost ? "There is no memory for the sentence that explains the failure."
                       : std::string_view(last_error);
}

hy_result SetLastError(const Status& status) {
  try {
    is_error_lost = false;
    last_error = status.ToLine();
  } catch (...) {
    is_error_lost = true;
  }
  return static_cast<hy_result>(status.code());
}

Status CheckStruct(const void* data, hy_struct_type type, size_t first_size, size_t known_size,
                   bool is_input, std::string_view name) {
  if (data == nullptr) return InvalidArgument("The struct {} is NULL.", name);
  struct Head {
    uint32_t struct_size;
    hy_struct_type type;
    const void* next;
  };
  uint32_t size = 0;
  std::memcpy(&size, data, sizeof(size));
  if (size < first_size || size > kMaxStructBytes) {
    return InvalidArgument("The struct_size of {} is {}; {} to {} is possible. Use its HY_*_INIT.",
                           name, size, first_size, kMaxStructBytes);
  }
  Head head;
  std::memcpy(&head, data, sizeof(head));
  if (head.type != type) {
    return InvalidArgument("The type of {} is {}; {} is needed. Use its HY_*_INIT.", name,
                           head.type, type);
  }
  if (is_input && head.next != nullptr) {
    return InvalidArgument("The chain of {} holds a struct that this version does not know.", name);
  }
  if (is_input && size > known_size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = known_size; i < size; ++i) {
      if (bytes[i] == 0) continue;
      return Incompatible(
          "{} sets a field at byte {}, which is newer than this library (version {}).", name, i,
          hy_version());
    }
  }
  return OkStatus();
}

Result<std::string> ToString(hy_string text, std::string_view name) {
  if (text.size == 0) return std::string();
  if (text.data == nullptr)
    return InvalidArgument("The text '{}' is NULL with size {}.", name, text.size);
  if (text.size > (size_t{1} << 20)) {
    return InvalidArgument("The text '{}' has {} bytes; at most 1048576 are allowed.", name,
                           text.size);
  }
  std::string out(text.data, text.size);
  if (out.find('\0') != std::string::npos)
    return InvalidArgument("The text '{}' holds a zero byte.", name);
  return out;
}

Result<hy_result> WriteText(std::string_view text, hy_writer writer, void* context) {
  if (writer == nullptr) return InvalidArgument("The argument 'writer' is NULL.");
  const hy_result result = writer(context, text.data(), text.size());
  if (result != HY_OK)
    SetLastError(Aborted("The writer stopped the report with result {}.", result));
  return result;
}

Result<FallbackPolicy> ReadPolicy(hy_policy policy, FallbackPolicy inherited) {
  switch (policy) {
    case HY_POLICY_DEFAULT:
      return inherited;
    case HY_POLICY_ERROR:
      return FallbackPolicy::kError;
    case HY_POLICY_FALLBACK:
      return FallbackPolicy::kFallback;
    case HY_POLICY_FALLBACK_WARN:
      return FallbackPolicy::kFallbackWarn;
    default:
      return InvalidArgument("There is no policy {}; {} to {} are policies.", policy,
                             HY_POLICY_DEFAULT, HY_POLICY_FALLBACK_WARN);
  }
}

}  // namespace halyard::runtime

hy_string hy_last_error(void) { return halyard::runtime::ToC(halyard::runtime::LastError()); }
