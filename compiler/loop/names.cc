// SPDX-License-Identifier: Apache-2.0
// Names of the enumerations of Loop IR.
#include "compiler/loop/text.h"

namespace halyard::loop {

namespace {

constexpr std::string_view kReduceNames[] = {"none", "sum", "prod",   "max",   "min",
                                             "any",  "all", "argmax", "argmin"};
constexpr std::string_view kTemplateNames[] = {"none", "contraction", "attention", "scan", "sort"};
constexpr std::string_view kRoleNames[] = {"input", "output", "constant", "temp", "local"};

template <typename Enum, size_t count>
Result<Enum> Find(const std::string_view (&names)[count], std::string_view text,
                  std::string_view what) {
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return InvalidArgument("'{}' is not a {}.", text, what);
}

}  // namespace

std::string_view FormatReduceKind(ReduceKind kind) {
  return kReduceNames[static_cast<size_t>(kind)];
}
Result<ReduceKind> ParseReduceKind(std::string_view text) {
  return Find<ReduceKind>(kReduceNames, text, "reduction");
}
std::string_view FormatTemplateKind(TemplateKind kind) {
  return kTemplateNames[static_cast<size_t>(kind)];
}
Result<TemplateKind> ParseTemplateKind(std::string_view text) {
  return Find<TemplateKind>(kTemplateNames, text, "template");
}
std::string_view FormatBufferRole(BufferRole role) { return kRoleNames[static_cast<size_t>(role)]; }
Result<BufferRole> ParseBufferRole(std::string_view text) {
  return Find<BufferRole>(kRoleNames, text, "buffer role");
}

}  // namespace halyard::loop
