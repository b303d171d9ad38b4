// SPDX-License-Identifier: Apache-2.0
// KernelWork: what one execution of a fused kernel must do, as data of the program: a record of
// kind "work" whose subject is the label of the kernel's commands. For reports; nothing runs by it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "compiler/program/program.h"

namespace halyard::program {

inline constexpr const char* kWorkRecord = "work";

// What is not known is missing, never 0.
struct KernelWork {
  // Scalar operations on floats, each one; a multiply-add is two.
  std::optional<SizeExpr> flops;
  // Each byte of a tensor once, however often the kernel reads or writes it.
  std::optional<SizeExpr> read_bytes, written_bytes;
  DType product = DType::kInvalid;  // of the factors of a contraction or attention; else invalid
};

// "flops 2 $0 * 768 *; read 3072; written 8; product f32": postfix over the program's symbols by
// number. Parse is the inverse; INVALID_ARGUMENT names the part that is wrong, also a symbol that
// is not below `symbol_count`.
std::string FormatWork(const KernelWork& work);
Result<KernelWork> ParseWork(std::string_view text, size_t symbol_count);

}  // namespace halyard::program
