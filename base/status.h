// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every expected failure travels in Halyard. Not for bugs; see check.h.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace halyard {

// The canonical codes (numbers as in Abseil), and ours from 32. They cross the C boundary unchanged.
enum class StatusCode : int32_t {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kOutOfMemory = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kDeviceLost = 32,
  kIncompatible = 33,
  kBusy = 34,
};

// "INVALID_ARGUMENT" and so on; "UNKNOWN_CODE" for a number that is none of the above.
std::string_view FormatStatusCode(StatusCode code);

// One pointer; null is OK. The payload is shared and immutable, so a copy is cheap and one failure can
// be handed to several waiters. Thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);

  bool ok() const { return payload_ == nullptr; }
  StatusCode code() const;
  // The sentence that names the object, the value and the limit, without the context lines.
  const std::string& message() const;
  // "CODE: message" followed by one "- While ..." line per context, innermost first.
  std::string ToString() const;
  // The message and its contexts on one line, for tools: "message (while b; while a)".
  std::string ToLine() const;
  // Returns the same failure with one more context line: what was being done. No effect on OK.
  Status WithContext(std::string context) const;
  // For the few places where a failure is deliberately dropped; say why there.
  void Ignore() const {}

 private:
  struct Payload;
  std::shared_ptr<const Payload> payload_;
};

inline Status OkStatus() { return Status(); }

#define HY_DEFINE_STATUS_MAKER(Name)                                              \
  template <typename... Args>                                                     \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {               \
    return Status(StatusCode::k##Name, fmt::format(format, std::forward<Args>(args)...)); \
  }
HY_DEFINE_STATUS_MAKER(Cancelled)
HY_DEFINE_STATUS_MAKER(InvalidArgument)
HY_DEFINE_STATUS_MAKER(DeadlineExceeded)
HY_DEFINE_STATUS_MAKER(NotFound)
HY_DEFINE_STATUS_MAKER(OutOfMemory)
HY_DEFINE_STATUS_MAKER(FailedPrecondition)
HY_DEFINE_STATUS_MAKER(Aborted)
HY_DEFINE_STATUS_MAKER(OutOfRange)
HY_DEFINE_STATUS_MAKER(Unimplemented)
HY_DEFINE_STATUS_MAKER(Internal)
HY_DEFINE_STATUS_MAKER(Unavailable)
HY_DEFINE_STATUS_MAKER(DataLoss)
HY_DEFINE_STATUS_MAKER(DeviceLost)
HY_DEFINE_STATUS_MAKER(Incompatible)
HY_DEFINE_STATUS_MAKER(Busy)
#undef HY_DEFINE_STATUS_MAKER

// A value or the Status that explains its absence. Never holds an OK status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {         // NOLINT: implicit on purpose
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "A Result was made from an OK status.");
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace status_internal {
inline Status ToStatus(Status status) { return status; }
template <typename T>
Status ToStatus(const Result<T>& result) { return result.status(); }
}  // namespace status_internal

#define HY_CONCAT_INNER(a, b) a##b
#define HY_CONCAT(a, b) HY_CONCAT_INNER(a, b)

// Returns the failure of `expr` (Status or Result) from the enclosing function.
#define HY_TRY(expr)                                                        \
  do {                                                                      \
    if (auto&& hy_try_ = (expr); !hy_try_.ok())                             \
      return ::halyard::status_internal::ToStatus(hy_try_);                 \
  } while (false)

// The same, adding a context line made from a format string: "importing node '{}'".
#define HY_TRY_CONTEXT(expr, ...)                                           \
  do {                                                                      \
    if (auto&& hy_try_ = (expr); !hy_try_.ok())                             \
      return ::halyard::status_internal::ToStatus(hy_try_).WithContext(fmt::format(__VA_ARGS__)); \
  } while (false)

// `lhs` is a declaration or an lvalue: HY_ASSIGN(auto x, F());
#define HY_ASSIGN(lhs, expr) HY_ASSIGN_INNER(HY_CONCAT(hy_result_, __LINE__), lhs, expr)
#define HY_ASSIGN_INNER(result, lhs, expr)       \
  auto result = (expr);                          \
  if (!result.ok()) return result.status();      \
  lhs = std::move(result).value()

}  // namespace halyard
