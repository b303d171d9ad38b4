// SPDX-License-Identifier: Apache-2.0
// KernelLowering: one Kernel IR kernel as one SPIR-V module. Private to this folder. A value of N
// lanes is N SPIR-V scalars, because a workitem of a GPU computes with scalars anyway; only memory
// is accessed by vectors. bf16 is a 16-bit integer, the other dtypes have SPIR-V types of their
// own. In memory a bool is a byte. A fragment is one cooperative matrix.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/gpu_kernel_abi.h"
#include "base/status.h"
#include "compiler/codegen/spirv/module_writer.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/target/target.h"

namespace halyard::spirv {

class KernelLowering {
 public:
  // Both outlive the object. A kernel with last_arrival ends its buffers with one i32 of workgroup
  // memory, which is the lowering's own.
  KernelLowering(const kernel::Kernel& kernel, const Target& target);

  // The module's words. UNIMPLEMENTED, naming what is missing: features or matrix shapes that the
  // target lacks, and transcendentals that were not expanded.
  Result<std::vector<uint32_t>> Run();

 private:
  using Op = kernel::Op;
  using Lanes = std::span<Id>;

  // One access of memory: `count` elements of the buffer's dtype at a time, as `components`
  // components of `component`. Packed: 32-bit words that hold several elements each.
  struct Chunk {
    int count = 1;
    Id component = 0;
    int components = 1;
    int bytes = 0;
    bool is_packed = false;
  };

  // A half of a 32-bit word. Two 16-bit elements of memory are one word, and an f32 is a bf16 and
  // 16 bits more: by words each takes one instruction or two, by 16-bit integers NVIDIA's driver
  // makes extensions and cuts of it.
  struct Half {
    Id word = 0;
    bool is_high = false;
  };

  // Small pieces (lower.cc)
  bool Has(GpuFeature feature) const;
  Status CheckFeatures();
  Status CheckType(kernel::Type type);
  Id IntType(int bits);  // for arithmetic, with its capability
  Id ElementType(DType dtype);
  Lanes Of(kernel::ValueId value);
  Id ScalarOf(kernel::ValueId value) { return Of(value)[0]; }
  kernel::Type TypeOf(kernel::ValueId value) const { return kernel_.values[value].type; }
  Id Select(Id condition, Id type, Id a, Id b);
  Id Add(int bits, Id a, Id b);  // integers; constants are folded
  Id Mul(int bits, Id a, Id b);
  Id Widen(Id value, int from_bits, int to_bits, bool is_signed);  // or narrows
  Id U32(uint32_t value) { return w_.ConstInt(32, value); }
  Id U64(uint64_t value) { return w_.ConstInt(64, value); }

  // Structure (lower.cc)
  void Prologue();
  Status LowerBlock(kernel::BlockId block);
  Status LowerOp(const Op& op);
  Status LowerSource(const Op& op);
  void LowerLanes(const Op& op);
  Status LowerGpu(const Op& op);

  // Control flow (lower_control.cc)
  Status LowerFor(const Op& op);
  Status LowerBody(const Op& op, Id iv, std::vector<Id>* carried);
  Status LowerLoop(const Op& op, Id lo, std::vector<Id>* carried, int copies, Id* iv_end);
  Status LowerIf(const Op& op);
  void LowerReport(const Op& op);
  void Barrier();
  void LowerLastArrival(const Op& op);
  // Runs `body` where `condition` is true.
  void When(Id condition, const std::function<void()>& body);
  // The same with results: `otherwise` where it is false. `values` become the merged ones.
  void When(Id condition, std::span<const Id> types, Lanes values,
            const std::function<void(Lanes)>& body);

  // Memory (lower_memory.cc)
  void DeclareWorkgroupMemory();
  Id PointerTo(kernel::BufferId buffer, Id index, int index_bits, int64_t first,
               const Chunk& chunk);
  Id GlobalAddress(kernel::BufferId buffer, Id index, int index_bits, int64_t first);
  Chunk ChunkOf(kernel::BufferId buffer, int lanes, int64_t align);
  Id MemoryElementType(DType dtype, kernel::MemorySpace space);
  std::vector<uint32_t> AccessOperands(kernel::BufferId buffer, const Chunk& chunk, bool is_read);
  void Load(kernel::BufferId buffer, Id index, int index_bits, int64_t align, Lanes out);
  void Store(kernel::BufferId buffer, Id index, int index_bits, int64_t align, Lanes values);
  Id FromMemory(Id value, DType dtype, kernel::MemorySpace space);
  Id ToMemory(Id value, DType dtype, kernel::MemorySpace space);
  void LowerLoad(const Op& op);
  void LowerStore(const Op& op);
  void LowerAtomicAdd(const Op& op);
  void LowerAsyncCopy(const Op& op);
  Status LowerMemory(const Op& op);

  // Values (lower_values.cc)
  Id Constant(DType dtype, int64_t bits);
  Status LowerArithmetic(const Op& op);
  Id Arithmetic(kernel::Opcode opcode, DType dtype, Id a, Id b, Id c);
  Id RoundEvenF64(Id a);
  Id FloatArithmetic(kernel::Opcode opcode, DType dtype, Id a, Id b, Id c);
  Id IntArithmetic(kernel::Opcode opcode, DType dtype, Id a, Id b);
  Id Exact(Id value);  // no contraction
  Id Shift(bool is_left, DType dtype, Id a, Id b);
  Id Compare(kernel::Opcode opcode, DType dtype, Id a, Id b);
  Id CompareHalves(kernel::Opcode opcode, DType dtype, Id a, Id b);
  std::optional<Id> Narrowed(Id value) const;
  void LowerReduce(const Op& op);

  // Quotients (lower_divide.cc)
  Id Divide(bool is_rem, DType dtype, Id a, Id b);
  Id DivideWide(bool is_signed, Id a, Id b);  // of 64 bits
  Id DivideUnsigned(Id a, Id b);              // of 64 bits
  Id DivideByHalf(Id u, Id v);                // of 64 bits by 32

  // Conversions (lower_convert.cc)
  Id Convert(Id value, DType from, DType to);
  Id FloatToInt(Id value, DType from, DType to);
  Id F32ToBF16(Id value);
  Id InHighHalf(const Half& half);  // the other half is 0
  Id JoinHalves(const Half& low, const Half& high);
  void LowerBitcast(const Op& op);
  Id Reinterpret(Id value, DType from, DType to);  // of one width
  // To and from unsigned integers of another width, little-endian.
  std::vector<Id> Split(Id value, int from_bits, int to_bits);
  Id Join(std::span<const Id> parts, int from_bits, int to_bits);
  Id Shuffled(Id value, DType dtype, spv::Op op, Id operand);

  // Fragments (lower_fragments.cc)
  Status CheckFragment(kernel::Type type);
  Id FragmentComponent(DType dtype);
  Id FragmentType(kernel::Type type);
  Id FragmentPointer(const Op& op, Chunk* out_chunk);
  Status LowerFragment(const Op& op);

  const kernel::Kernel& kernel_;
  const Target& target_;
  ModuleWriter w_;
  bool has_barrier_ = false;
  std::vector<Id> ids_;                       // the lanes of every value
  std::vector<size_t> first_;                 // of each value in ids_
  std::unordered_map<Id, Id> sign_extended_;  // 64-bit results to the 32-bit integers they are of
  std::unordered_map<Id, Half> halves_;  // 16-bit integers to the words that they are halves of
  std::vector<Id> arguments_;            // u64 each; 0 where the kernel does not need it
  // Of buffers in workgroup and private memory: the variable; with explicit layout, the byte where
  // the buffer starts in the memory that all views share.
  std::vector<Id> variables_;
  std::vector<uint32_t> workgroup_offsets_;
  uint32_t workgroup_bytes_ = 0;
  bool explicit_layout_ = false;
  std::map<Id, Id> views_;  // element type to variable, with explicit layout
};

}  // namespace halyard::spirv
