// SPDX-License-Identifier: Apache-2.0
// KernelWriter: one Kernel IR kernel as CUDA C++ text. Private to this folder. A value of N lanes
// is N C++ expressions (names or literals), because a workitem computes with scalars anyway; ops
// that only move lanes write nothing. A fragment is the registers that this workitem holds of it:
// 32-bit words of A and B, elements of an accumulator. In memory and in words a bool is a byte.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/kernel/opcode.h"
#include "compiler/target/target.h"

namespace halyard::cuda {

using Names = std::vector<std::string>;

// "f32" and so on; 16-bit floats are u16. `in_memory`: bool is u8.
std::string_view CTypeOf(DType dtype, bool in_memory = false);
// The C++ literal of a kConst.
std::string LiteralOf(DType dtype, int64_t bits);
// The value of `x`, an expression of dtype `from`, converted.
std::string ConvertExpression(DType from, DType to, const std::string& x);
// The elements packed into 32-bit words, the first in the low bits, and the inverse.
Names PackWords(DType dtype, const Names& elements);
Names UnpackWords(DType dtype, const Names& words, size_t elements);

class KernelWriter {
 public:
  KernelWriter(const kernel::Kernel& kernel, const Target& target)
      : kernel_(kernel), target_(target), values_(kernel.values.size()) {}
  // The function alone.
  Result<std::string> Run();

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    out_.append(2 * static_cast<size_t>(depth_), ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  template <typename... Args>
  Status Lacks(fmt::format_string<Args...> format, Args&&... args) const {
    return Unimplemented("Kernel '{}': {}.", kernel_.name,
                         fmt::format(format, std::forward<Args>(args)...));
  }
  kernel::Type TypeOf(kernel::ValueId value) const { return kernel_.values[value].type; }
  const Names& At(kernel::ValueId value) const { return values_[value]; }
  const std::string& One(kernel::ValueId value) const { return values_[value][0]; }
  std::string NewName() { return fmt::format("v{}", next_++); }
  // Names for the lanes or registers of a value.
  Names NewNames(kernel::Type type);
  // What one lane or register of a value is.
  std::string_view RegisterType(kernel::Type type) const;
  // Declares the result's lanes as constants of these expressions.
  void Define(const kernel::Op& op, const Names& expressions);
  bool Has(kernel::OpClass op_class) const;

  // writer.cc
  void WriteHead();
  Status WriteBlock(kernel::BlockId block);
  Status WriteOp(const kernel::Op& op);
  Status WriteFor(const kernel::Op& op);
  Status WriteIf(const kernel::Op& op);
  void WriteReport(const kernel::Op& op);
  void AssignAll(const std::vector<kernel::ValueId>& from, const std::vector<Names>& to);
  std::string LinearId() const;

  // writer_values.cc
  Status WriteSource(const kernel::Op& op);
  void WriteLanes(const kernel::Op& op);
  Status WriteArithmetic(const kernel::Op& op);
  void WriteReduce(const kernel::Op& op);
  Result<std::string> Arithmetic(kernel::Opcode opcode, DType dtype, const std::string& a,
                                 const std::string& b, const std::string& c) const;

  // writer_memory.cc
  void WriteMemory(const kernel::Op& op);
  void WriteLoad(const kernel::Op& op);
  void WriteStore(const kernel::Op& op);
  // How many elements one access moves.
  size_t ChunkOf(const kernel::Op& op, kernel::Type type) const;
  std::string ElementAt(const kernel::Op& op, const std::string& index, size_t lane) const;
  std::string ElementAt(const kernel::Op& op, size_t lane) const;
  // The same for a whole index of a copy or a fragment: its constants come last.
  std::string IndexOf(kernel::ValueId index) const;
  // Writes the load of a chunk and returns its elements as expressions.
  Names LoadChunk(const kernel::Op& op, size_t first, size_t count);
  void StoreChunk(const kernel::Op& op, size_t first, size_t count);
  void WriteShuffle(const kernel::Op& op);
  void WriteAsyncCopy(const kernel::Op& op);
  void WriteAwait();
  bool IsReadBeforeAwait(size_t buffer) const;
  Status WriteGpu(const kernel::Op& op);

  // writer_fragments.cc
  Status CheckFragment(kernel::Type type) const;
  Status WriteFragment(const kernel::Op& op);
  void WriteFragmentLoad(const kernel::Op& op);
  bool LoadMatrices(const kernel::Op& op, const Names& names, const std::string& base);
  void WriteFragmentStore(const kernel::Op& op);
  void WriteMma(const kernel::Op& op);

  // writer_products.cc
  Status WriteProducts(const kernel::Op& op);  // mma_begin to mma_end, async_fence
  std::string TileAddress(const kernel::Op& op, int side) const;

  const kernel::Kernel& kernel_;
  const Target& target_;
  std::vector<Names> values_;
  int next_ = 0;
  int depth_ = 0;
  std::string out_;
};

}  // namespace halyard::cuda
