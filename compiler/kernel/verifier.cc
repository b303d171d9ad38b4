// SPDX-License-Identifier: Apache-2.0
// One walk over the blocks: structure and dominance by a set of visible values, then the types of
// each op.
#include "compiler/kernel/verifier.h"

#include <bit>
#include <cctype>
#include <set>

#include "compiler/kernel/opcode.h"

namespace halyard::kernel {
namespace {

constexpr int kMaxNesting = 64;
constexpr int64_t kMaxUnroll = 64;
constexpr int64_t kMaxWorkgroup = 1024;  // workitems
constexpr int32_t kMaxSubgroup = 128;
constexpr int kMaxFragmentSide = 256;
constexpr int64_t kMaxAlign = 64;             // elements
constexpr int64_t kMaxTileStride = 64 << 10;  // elements, of side-major tiles

bool IsStorable(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
      return true;
    default:
      return false;
  }
}

bool IsIndexDType(DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }

uint8_t DomainOf(DType dtype) {
  if (dtype == DType::kBool) return kBools;
  if (IsInteger(dtype)) return kInts;
  if (dtype == DType::kF32 || dtype == DType::kF64) return kFloats;
  return kNoDomain;
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel)
      : kernel_(kernel),
        visible_(kernel.values.size(), false),
        defined_(kernel.values.size(), false) {}

  Status Run() {
    HY_TRY(CheckInterface());
    if (kernel_.blocks.empty()) return Fail("has no body");
    if (!kernel_.blocks[0].parameters.empty()) return Fail("has a body with parameters");
    return CheckBlock(0, 0);
  }

 private:
  template <typename... Args>
  Status Fail(fmt::format_string<Args...> format, Args&&... args) const {
    return Internal("Kernel '{}' {}.", kernel_.name,
                    fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename... Args>
  Status FailOp(const Op& op, fmt::format_string<Args...> format, Args&&... args) const {
    std::string operands;
    for (ValueId operand : op.operands) {
      if (!operands.empty()) operands += ", ";
      operands += operand < kernel_.values.size() ? FormatType(kernel_.values[operand].type) : "?";
    }
    return Internal("Kernel '{}': op '{} {}' on ({}) {}.", kernel_.name, FormatOpcode(op.opcode),
                    FormatType(op.type), operands,
                    fmt::format(format, std::forward<Args>(args)...));
  }

  Status CheckInterface() {
    if (kernel_.name.empty()) return Fail("has no name");
    for (char c : kernel_.name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') {
        return Fail("has a name with the character '{}'", c);
      }
    }
    int64_t workitems = 1;
    for (int64_t size : kernel_.workgroup_size) {
      if (size < 1) return Fail("has a workgroup size of {}", size);
      if (size > kMaxWorkgroup / workitems) {
        return Fail("has workgroups of more than {} workitems", kMaxWorkgroup);
      }
      workitems *= size;
    }
    const int32_t subgroup = kernel_.subgroup_size;
    if (subgroup < 0 || subgroup > kMaxSubgroup ||
        (subgroup > 0 && !std::has_single_bit(static_cast<uint32_t>(subgroup)))) {
      return Fail("has a subgroup size of {}; it is a power of two up to {}", subgroup,
                  kMaxSubgroup);
    }
    if (subgroup > 0 && workitems % subgroup != 0) {
      return Fail("has workgroups of {} workitems, no multiple of its subgroup size {}", workitems,
                  subgroup);
    }
    is_gpu_ = workitems > 1 || subgroup > 0;
    bool allocations = false;
    for (const Buffer& b : kernel_.buffers) {
      if (!IsStorable(b.dtype)) {
        return Fail("has buffer '{}' of {}, which Kernel IR cannot address", b.name,
                    FormatDType(b.dtype));
      }
      if (b.space == MemorySpace::kGlobal) {
        if (allocations) return Fail("has parameter '{}' after an allocation", b.name);
      } else {
        allocations = true;
        if (b.elements < 1) return Fail("has allocation '{}' of {} elements", b.name, b.elements);
      }
    }
    return OkStatus();
  }

  Type TypeOf(ValueId value) const { return kernel_.values[value].type; }

  Status CheckType(const Op& op, Type type) const {
    if (type.IsFragment()) return CheckFragmentType(op, type);
    if (!IsStorable(type.dtype) || type.lanes < 1 || type.lanes > kMaxLanes) {
      return FailOp(op, "has a value of type {}, which Kernel IR does not have", FormatType(type));
    }
    return OkStatus();
  }

  Status CheckFragmentType(const Op& op, Type type) const {
    const DType d = type.dtype;
    const bool has_dtype =
        type.use == FragmentUse::kPending ? d == DType::kF32
        : type.use == FragmentUse::kAccumulator
            ? d == DType::kF32 || d == DType::kI32 || d == DType::kF16 || d == DType::kBF16
            : d == DType::kF16 || d == DType::kBF16 || d == DType::kI8 || d == DType::kU8;
    if (!has_dtype || type.lanes != 1 || type.rows < 1 || type.cols < 1 ||
        type.rows > kMaxFragmentSide || type.cols > kMaxFragmentSide) {
      return FailOp(op, "has a value of type {}, which Kernel IR does not have", FormatType(type));
    }
    return OkStatus();
  }

  // Fragments go through few ops, and only GPU kernels have ops of workitems together.
  Status CheckGpu(const Op& op, const OpcodeInfo& info) const {
    if (is_gpu_ && info.op_class == OpClass::kCpu) {
      return FailOp(op, "stands in a GPU kernel, and only CPUs have it");
    }
    if (!is_gpu_ && (info.op_class == OpClass::kFragment || info.op_class == OpClass::kGpu)) {
      return FailOp(op, "stands in a CPU kernel: its workgroups have one workitem");
    }
    if (info.op_class == OpClass::kFragment || op.opcode == Opcode::kAdd ||
        op.opcode == Opcode::kMul || op.opcode == Opcode::kConvert || op.opcode == Opcode::kFor ||
        op.opcode == Opcode::kIf || op.opcode == Opcode::kYield) {
      return OkStatus();
    }
    bool has_fragment = op.type.IsFragment();
    for (ValueId operand : op.operands) has_fragment |= TypeOf(operand).IsFragment();
    if (has_fragment) return FailOp(op, "does not work on fragments");
    return OkStatus();
  }

  Status CheckAlign(const Op& op) const {
    const int64_t align = AlignOf(op);
    if (align < 1 || align > kMaxAlign || !std::has_single_bit(static_cast<uint64_t>(align))) {
      return FailOp(op, "has an align of {}; it is a power of two up to {}", align, kMaxAlign);
    }
    return OkStatus();
  }

  Status CheckFragment(const Op& op) const {
    const auto is_index = [&](ValueId value) {
      const Type type = TypeOf(value);
      return !type.IsFragment() && type.lanes == 1 && IsIndexDType(type.dtype);
    };
    switch (op.opcode) {
      case Opcode::kFragmentFill:
        if (!op.type.IsFragment() || op.type.use == FragmentUse::kPending ||
            TypeOf(op.operands[0]) != Type{op.type.dtype, 1}) {
          return FailOp(op, "fills a fragment with a scalar of its dtype");
        }
        return OkStatus();
      case Opcode::kFragmentMma: {
        const Type a = TypeOf(op.operands[0]);
        const Type b = TypeOf(op.operands[1]);
        const Type c = TypeOf(op.operands[2]);
        if (a.use != FragmentUse::kA || b.use != FragmentUse::kB ||
            c.use != FragmentUse::kAccumulator || op.type != c || a.rows != c.rows ||
            b.cols != c.cols || a.cols != b.rows) {
          return FailOp(op, "takes fragments of m x k, k x n and m x n");
        }
        const bool sums = IsInteger(a.dtype) ? c.dtype == DType::kI32
                          : a.dtype == DType::kF16
                              ? c.dtype == DType::kF32 || c.dtype == DType::kF16
                              : c.dtype == DType::kF32;
        if (a.dtype != b.dtype || !sums) return FailOp(op, "mixes dtypes");
        return OkStatus();
      }
      case Opcode::kMmaBegin:
      case Opcode::kMmaAsync:
      case Opcode::kMmaEnd:
        return CheckMmaAsync(op);
      case Opcode::kFragmentElements:
      case Opcode::kFragmentOf: {
        const bool takes = op.opcode == Opcode::kFragmentElements;
        const Type fragment = takes ? TypeOf(op.operands[0]) : op.type;
        const Type elements = takes ? op.type : TypeOf(op.operands[0]);
        const bool is_sum = fragment.use == FragmentUse::kAccumulator;
        const bool is_a = fragment.use == FragmentUse::kA && BitWidth(fragment.dtype) == 16;
        if (kernel_.subgroup_size != 32) return FailOp(op, "needs a subgroup size of 32");
        if ((!is_sum && (takes || !is_a)) || fragment.rows % 16 != 0 ||
            fragment.cols % (is_sum ? 8 : 16) != 0) {
          return FailOp(op, "does not work on {}", FormatType(fragment));
        }
        if (elements !=
            Type{fragment.dtype, static_cast<uint16_t>(ElementsPerWorkitem(fragment))}) {
          return FailOp(op, "has {} as elements of {}", FormatType(elements), FormatType(fragment));
        }
        return OkStatus();
      }
      default: {
        const Buffer& buffer = kernel_.buffers[op.buffer];
        const bool stores = op.opcode == Opcode::kFragmentStore;
        const Type value = stores ? TypeOf(op.operands[1]) : op.type;
        if (!is_index(op.operands[0]) || !is_index(op.operands.back())) {
          return FailOp(op, "needs an index and a stride");
        }
        if (!value.IsFragment() || value.use == FragmentUse::kPending ||
            value.dtype != buffer.dtype) {
          return FailOp(op, "moves {} to or from '{}' of {}", FormatType(value), buffer.name,
                        FormatDType(buffer.dtype));
        }
        if (stores && value.use != FragmentUse::kAccumulator) {
          return FailOp(op, "stores an accumulator");
        }
        if (buffer.space == MemorySpace::kPrivate) {
          return FailOp(op, "names the private '{}'", buffer.name);
        }
        if (op.immediates[0] < 0 || op.immediates[0] > 1) {
          return FailOp(op, "has the layout {}", op.immediates[0]);
        }
        HY_TRY(CheckAlign(op));
        return CheckAccess(op, buffer, stores);
      }
    }
  }

  // Quads are of 128 workitems.
  Status CheckQuads(const Op& op) const {
    const int64_t* size = kernel_.workgroup_size;
    if (kernel_.subgroup_size != 32 || size[0] * size[1] * size[2] % 128 != 0) {
      return FailOp(op,
                    "needs a subgroup size of 32 and workgroups of a multiple of 128 workitems");
    }
    return OkStatus();
  }

  Status CheckMmaAsync(const Op& op) const {
    HY_TRY(CheckQuads(op));
    const Type from = TypeOf(op.operands[0]);
    Type same = op.type;
    same.use = from.use;
    const bool takes_sum = from.use == FragmentUse::kAccumulator && op.opcode == Opcode::kMmaBegin;
    const FragmentUse gives =
        op.opcode == Opcode::kMmaEnd ? FragmentUse::kAccumulator : FragmentUse::kPending;
    if (from != same || (from.use != FragmentUse::kPending && !takes_sum) || op.type.use != gives ||
        from.dtype != DType::kF32 || from.rows != 16 || from.cols % 8 != 0) {
      return FailOp(op, "takes and gives f32 fragments of 16 x 8 n, pending between begin and end");
    }
    if (op.opcode != Opcode::kMmaAsync) return OkStatus();
    for (size_t i = 1; i < 3; ++i) {
      const Type index = TypeOf(op.operands[i]);
      if (index.lanes != 1 || index.IsFragment() || !IsIndexDType(index.dtype)) {
        return FailOp(op, "needs two indices");
      }
    }
    if (op.immediates[0] < 0 || op.immediates[0] >= static_cast<int64_t>(kernel_.buffers.size())) {
      return FailOp(op, "names buffer {} of {}", op.immediates[0], kernel_.buffers.size());
    }
    const Buffer& a = kernel_.buffers[op.buffer];
    const Buffer& b = kernel_.buffers[static_cast<size_t>(op.immediates[0])];
    for (const Buffer* buffer : {&a, &b}) {
      if (buffer->space != MemorySpace::kWorkgroup) {
        return FailOp(op, "reads '{}', which is not in workgroup memory", buffer->name);
      }
    }
    if (a.dtype != b.dtype || (a.dtype != DType::kF16 && a.dtype != DType::kBF16)) {
      return FailOp(op, "multiplies {} and {}", FormatDType(a.dtype), FormatDType(b.dtype));
    }
    for (size_t i = 0; i < 2; ++i) {
      const int64_t layout = op.immediates[1 + i], stride = op.immediates[3 + i];
      if (layout < 0 || layout > 1) return FailOp(op, "has the layout {}", layout);
      const bool is_side = layout == static_cast<int64_t>(TileLayout::kSideMajor);
      if (is_side ? stride < 1024 || stride % 512 != 0 || stride > kMaxTileStride : stride != 0) {
        return FailOp(op,
                      "has the stride {}; a side-major tile has a multiple of 512 from 1024 to {}, "
                      "others 0",
                      stride, kMaxTileStride);
      }
      if (is_side && i == 1 && op.type.cols % 64 != 0) {
        return FailOp(op, "has {} columns in a side-major tile, which come in groups of 64",
                      op.type.cols);
      }
    }
    return OkStatus();
  }

  Status CheckAccess(const Op& op, const Buffer& buffer, bool writes) const {
    if (writes && buffer.access == Access::kRead)
      return FailOp(op, "writes the read-only '{}'", buffer.name);
    if (!writes && buffer.access == Access::kWrite)
      return FailOp(op, "reads the write-only '{}'", buffer.name);
    return OkStatus();
  }

  Status CheckGpuOp(const Op& op) const {
    switch (op.opcode) {
      case Opcode::kSubgroupShuffle:
      case Opcode::kSubgroupShuffleXor:
        if (TypeOf(op.operands[0]) != op.type) return FailOp(op, "mixes types");
        if (op.type.dtype != DType::kBool && BitWidth(op.type.dtype) < 16) {
          return FailOp(op, "does not work on {}", FormatDType(op.type.dtype));
        }
        if (op.opcode == Opcode::kSubgroupShuffle) {
          if (TypeOf(op.operands[1]) == Type{DType::kI32, 1}) return OkStatus();
          return FailOp(op, "needs a lane of i32");
        }
        if (op.immediates[0] < 1 || op.immediates[0] >= kMaxSubgroup) {
          return FailOp(op, "has the mask {}", op.immediates[0]);
        }
        return OkStatus();
      case Opcode::kAsyncCopy:
        return CheckAsyncCopy(op);
      case Opcode::kAsyncWait:
        if (op.immediates[0] < 0) return FailOp(op, "waits for {} groups", op.immediates[0]);
        return OkStatus();
      case Opcode::kMmaCommit:
        return CheckQuads(op);
      case Opcode::kMmaWait:
        if (op.immediates[0] < 0 || op.immediates[0] > 7) {
          return FailOp(op, "leaves {} groups pending; the most is 7", op.immediates[0]);
        }
        return CheckQuads(op);
      case Opcode::kLastArrival: {
        for (ValueId operand : op.operands) {
          const Type type = TypeOf(operand);
          if (type.lanes != 1 || type.IsFragment() || !IsIndexDType(type.dtype)) {
            return FailOp(op, "needs an index and a count");
          }
        }
        const Buffer& buffer = kernel_.buffers[op.buffer];
        if (buffer.space != MemorySpace::kGlobal || !IsInteger(buffer.dtype) ||
            BitWidth(buffer.dtype) != 32 || buffer.access != Access::kReadWrite) {
          return FailOp(op,
                        "counts in '{}', which is no 32-bit integer in global memory to read "
                        "and write",
                        buffer.name);
        }
        if (op.type == Type{DType::kBool, 1}) return OkStatus();
        return FailOp(op, "gives {}, not one bool", FormatType(op.type));
      }
      default:
        return OkStatus();
    }
  }

  Status CheckAsyncCopy(const Op& op) const {
    for (size_t i = 0; i < 2; ++i) {
      const Type index = TypeOf(op.operands[i]);
      if (index.lanes != 1 || !IsIndexDType(index.dtype)) return FailOp(op, "needs two indices");
    }
    if (op.operands.size() > 2 && TypeOf(op.operands[2]) != Type{DType::kBool, 1}) {
      return FailOp(op, "has a mask of {}", FormatType(TypeOf(op.operands[2])));
    }
    if (op.immediates[0] < 0 || op.immediates[0] >= static_cast<int64_t>(kernel_.buffers.size())) {
      return FailOp(op, "names buffer {} of {}", op.immediates[0], kernel_.buffers.size());
    }
    const Buffer& to = kernel_.buffers[op.buffer];
    const Buffer& from = kernel_.buffers[static_cast<size_t>(op.immediates[0])];
    if (from.space != MemorySpace::kGlobal || to.space != MemorySpace::kWorkgroup) {
      return FailOp(op, "copies from '{}' to '{}', not from global to workgroup memory", from.name,
                    to.name);
    }
    if (from.dtype != to.dtype) {
      return FailOp(op, "copies {} to {}", FormatDType(from.dtype), FormatDType(to.dtype));
    }
    const int64_t elements = op.immediates[1];
    const int64_t bytes = elements < 1 || elements > 16 ? 0 : elements * BitWidth(to.dtype) / 8;
    if (bytes != 4 && bytes != 8 && bytes != 16) {
      return FailOp(op, "copies {} elements of {}; it takes 4, 8 or 16 bytes", elements,
                    FormatDType(to.dtype));
    }
    HY_TRY(CheckAccess(op, from, false));
    return CheckAccess(op, to, true);
  }

  Status Define(const Op& op, ValueId value) {
    if (value >= kernel_.values.size())
      return FailOp(op, "defines value {} of {}", value, kernel_.values.size());
    if (defined_[value]) return FailOp(op, "defines a value a second time");
    defined_[value] = visible_[value] = true;
    scope_.push_back(value);
    return CheckType(op, TypeOf(value));
  }

  // `yields`: the types that the closing yield must have; null for the kernel's body.
  Status CheckBlock(BlockId id, int depth, const std::vector<Type>* yields = nullptr) {
    if (depth > kMaxNesting) return Fail("nests blocks deeper than {}", kMaxNesting);
    if (id >= kernel_.blocks.size()) return Fail("names block {} of {}", id, kernel_.blocks.size());
    if (!visited_.insert(id).second) return Fail("uses block {} twice", id);
    const size_t scope = scope_.size();
    const Block& block = kernel_.blocks[id];
    for (size_t i = 0; i < block.ops.size(); ++i) {
      if (block.ops[i] >= kernel_.ops.size())
        return Fail("names op {} of {}", block.ops[i], kernel_.ops.size());
      const Op& op = kernel_.ops[block.ops[i]];
      const bool last = i + 1 == block.ops.size();
      if ((op.opcode == Opcode::kYield) != (yields != nullptr && last)) {
        return FailOp(op, "stands where a yield {}", last && yields ? "must" : "must not");
      }
      HY_TRY(CheckOp(op, depth, yields));
    }
    if (yields && block.ops.empty()) return Fail("has a loop or if body without a yield");
    while (scope_.size() > scope) {
      visible_[scope_.back()] = false;
      scope_.pop_back();
    }
    return OkStatus();
  }

  Status CheckOp(const Op& op, int depth, const std::vector<Type>* yields) {
    const OpcodeInfo& info = InfoOf(op.opcode);
    const int operand_count = static_cast<int>(op.operands.size());
    if (operand_count < info.min_operands ||
        (info.max_operands >= 0 && operand_count > info.max_operands)) {
      return FailOp(op, "has {} operands", operand_count);
    }
    const int immediates = static_cast<int>(op.immediates.size());
    if (info.immediates >= 0 && immediates != info.immediates &&
        (!TakesAlign(op.opcode) || immediates != info.immediates + 1)) {
      return FailOp(op, "has {} immediates and needs {}", op.immediates.size(), info.immediates);
    }
    for (ValueId operand : op.operands) {
      if (operand >= kernel_.values.size() || !visible_[operand]) {
        return FailOp(op, "uses a value that is not defined before it");
      }
    }
    const bool has_buffer = info.op_class == OpClass::kMemory ||
                            op.opcode == Opcode::kFragmentLoad ||
                            op.opcode == Opcode::kFragmentStore || op.opcode == Opcode::kMmaAsync ||
                            op.opcode == Opcode::kAsyncCopy || op.opcode == Opcode::kLastArrival;
    if (has_buffer != (op.buffer != kNone)) {
      return FailOp(op, "{} a buffer", op.buffer == kNone ? "names no" : "must not name");
    }
    if (op.buffer != kNone && op.buffer >= kernel_.buffers.size()) {
      return FailOp(op, "names buffer {} of {}", op.buffer, kernel_.buffers.size());
    }
    HY_TRY(CheckGpu(op, info));
    if (info.op_class == OpClass::kControl) return CheckControl(op, depth, yields);
    if (!op.blocks.empty()) return FailOp(op, "must not have blocks");
    const bool has_result =
        op.opcode != Opcode::kStore && op.opcode != Opcode::kScatter &&
        op.opcode != Opcode::kPrefetch && op.opcode != Opcode::kAtomicAdd &&
        op.opcode != Opcode::kFragmentStore &&
        (info.op_class != OpClass::kGpu || op.opcode == Opcode::kSubgroupShuffle ||
         op.opcode == Opcode::kSubgroupShuffleXor || op.opcode == Opcode::kLastArrival);
    if (has_result != (op.results.size() == 1) || op.results.size() > 1) {
      return FailOp(op, "has {} results", op.results.size());
    }
    if (has_result &&
        (op.results[0] >= kernel_.values.size() || TypeOf(op.results[0]) != op.type)) {
      return FailOp(op, "has a result of another type than its own");
    }
    if (op.opcode == Opcode::kAwaitDispatches) {
      if (depth != 0) return FailOp(op, "stands inside of a loop or branch");
      if (awaits_) return FailOp(op, "stands a second time");
      awaits_ = true;
    }
    HY_TRY(CheckTypes(op, info));
    if (has_result) return Define(op, op.results[0]);
    return OkStatus();
  }

  Status CheckTypes(const Op& op, const OpcodeInfo& info) const {
    switch (info.op_class) {
      case OpClass::kSource:
        return CheckSource(op);
      case OpClass::kLanes:
        return CheckLanes(op);
      case OpClass::kArithmetic:
        for (ValueId operand : op.operands) {
          if (TypeOf(operand) != op.type) return FailOp(op, "mixes types");
        }
        if (op.type.IsFragment() && op.type.use != FragmentUse::kAccumulator) {
          return FailOp(op, "works on accumulators only");
        }
        return CheckDomain(op, info, op.type.dtype);
      case OpClass::kCompare:
        if (TypeOf(op.operands[0]) != TypeOf(op.operands[1])) return FailOp(op, "mixes types");
        if (op.type != Type{DType::kBool, TypeOf(op.operands[0]).lanes}) {
          return FailOp(op, "must give a bool per lane");
        }
        return CheckDomain(op, info, TypeOf(op.operands[0]).dtype);
      case OpClass::kSelect: {
        const Type mask = TypeOf(op.operands[0]);
        if (TypeOf(op.operands[1]) != op.type || TypeOf(op.operands[2]) != op.type) {
          return FailOp(op, "mixes types");
        }
        if (mask.dtype != DType::kBool || (mask.lanes != op.type.lanes && mask.lanes != 1)) {
          return FailOp(op, "has a mask of {}", FormatType(mask));
        }
        return OkStatus();
      }
      case OpClass::kConvert:
        return CheckConvert(op);
      case OpClass::kMemory:
        return CheckMemory(op);
      case OpClass::kReduce:
        if (op.type != Type{TypeOf(op.operands[0]).dtype, 1})
          return FailOp(op, "must give one lane");
        if (!std::has_single_bit(TypeOf(op.operands[0]).lanes)) {
          return FailOp(op, "reduces lanes whose number is no power of two");
        }
        return CheckDomain(op, info, op.type.dtype);
      case OpClass::kFragment:
        return CheckFragment(op);
      case OpClass::kGpu:
        return CheckGpuOp(op);
      case OpClass::kCpu:
        for (ValueId operand : op.operands) {
          if (TypeOf(operand) != op.type) return FailOp(op, "mixes types");
        }
        if (op.type.dtype != DType::kF32 || op.type.IsFragment()) {
          return FailOp(op, "does not work on {}", FormatType(op.type));
        }
        return OkStatus();
      case OpClass::kControl:
        return OkStatus();
    }
    return OkStatus();
  }

  Status CheckDomain(const Op& op, const OpcodeInfo& info, DType dtype) const {
    if ((DomainOf(dtype) & info.domain) == 0)
      return FailOp(op, "does not work on {}", FormatDType(dtype));
    return OkStatus();
  }

  Status CheckSource(const Op& op) const {
    switch (op.opcode) {
      case Opcode::kConst:
        if (op.type.dtype == DType::kBool && (op.immediates[0] < 0 || op.immediates[0] > 1)) {
          return FailOp(op, "has the bool value {}", op.immediates[0]);
        }
        return OkStatus();
      case Opcode::kIota:
        if (DomainOf(op.type.dtype) != kInts) return FailOp(op, "must be of integers");
        if (BitWidth(op.type.dtype) == 8 && op.type.lanes > 128)
          return FailOp(op, "has too many lanes");
        return OkStatus();
      case Opcode::kScalar:
        if (op.type != Type{DType::kI64, 1}) return FailOp(op, "must be i64");
        if (op.immediates[0] < 0 ||
            op.immediates[0] >= static_cast<int64_t>(kernel_.scalars.size())) {
          return FailOp(op, "reads scalar {} of {}", op.immediates[0], kernel_.scalars.size());
        }
        return OkStatus();
      default:
        if (op.type.lanes != 1 || !IsIndexDType(op.type.dtype)) {
          return FailOp(op, "must be i32 or i64");
        }
        if (!op.immediates.empty() && (op.immediates[0] < 0 || op.immediates[0] > 2)) {
          return FailOp(op, "names axis {}", op.immediates[0]);
        }
        return OkStatus();
    }
  }

  Status CheckLanes(const Op& op) const {
    const Type first = TypeOf(op.operands[0]);
    if (first.dtype != op.type.dtype) return FailOp(op, "changes the dtype");
    switch (op.opcode) {
      case Opcode::kSplat:
        if (first.lanes != 1) return FailOp(op, "takes a scalar");
        return OkStatus();
      case Opcode::kExtract:
        if (op.type.lanes != 1) return FailOp(op, "gives a scalar");
        break;
      case Opcode::kInsert:
        if (first != op.type || TypeOf(op.operands[1]) != Type{op.type.dtype, 1}) {
          return FailOp(op, "takes a vector of its type and a scalar");
        }
        break;
      default:
        if (TypeOf(op.operands[1]) != first) return FailOp(op, "mixes types");
        if (op.immediates.size() != op.type.lanes)
          return FailOp(op, "has {} lanes listed", op.immediates.size());
        for (int64_t lane : op.immediates) {
          if (lane < 0 || lane >= 2 * first.lanes) return FailOp(op, "takes lane {}", lane);
        }
        return OkStatus();
    }
    if (op.immediates[0] < 0 || op.immediates[0] >= first.lanes) {
      return FailOp(op, "names lane {}", op.immediates[0]);
    }
    return OkStatus();
  }

  Status CheckConvert(const Op& op) const {
    const Type from = TypeOf(op.operands[0]);
    if (op.opcode == Opcode::kConvert) {
      if (from.IsFragment() || op.type.IsFragment()) {
        if (from.use == FragmentUse::kAccumulator && op.type.use == from.use &&
            from.rows == op.type.rows && from.cols == op.type.cols) {
          return OkStatus();
        }
        return FailOp(op, "works on accumulators of one shape");
      }
      if (from.lanes != op.type.lanes) return FailOp(op, "changes the number of lanes");
      return OkStatus();
    }
    if (from.dtype == DType::kBool || op.type.dtype == DType::kBool) {
      return FailOp(op, "must not touch bool, which has no fixed bits");
    }
    if (BitWidth(from.dtype) * from.lanes != BitWidth(op.type.dtype) * op.type.lanes) {
      return FailOp(op, "changes the number of bits");
    }
    return OkStatus();
  }

  Status CheckMemory(const Op& op) const {
    const Buffer& buffer = kernel_.buffers[op.buffer];
    const Type index = TypeOf(op.operands[0]);
    const bool writes = op.opcode == Opcode::kStore || op.opcode == Opcode::kScatter ||
                        op.opcode == Opcode::kAtomicAdd;
    const bool lane_indices = op.opcode == Opcode::kGather || op.opcode == Opcode::kScatter;
    if (!IsIndexDType(index.dtype))
      return FailOp(op, "has an index of {}", FormatDType(index.dtype));
    if (op.opcode != Opcode::kPrefetch) HY_TRY(CheckAccess(op, buffer, writes));
    if (TakesAlign(op.opcode)) HY_TRY(CheckAlign(op));
    if (op.opcode == Opcode::kPrefetch) {
      if (index.lanes != 1 || op.immediates[0] < 0 || op.immediates[0] > 3) {
        return FailOp(op, "needs one index and a locality of 0 to 3");
      }
      return OkStatus();
    }
    const Type value = writes ? TypeOf(op.operands[1]) : op.type;
    if (value.dtype != buffer.dtype) {
      return FailOp(op, "moves {} to or from '{}' of {}", FormatDType(value.dtype), buffer.name,
                    FormatDType(buffer.dtype));
    }
    if (index.lanes != (lane_indices ? value.lanes : 1))
      return FailOp(op, "has {} indices", index.lanes);
    if (op.opcode == Opcode::kAtomicAdd &&
        (value.lanes != 1 || !IsInteger(value.dtype) || BitWidth(value.dtype) < 32)) {
      return FailOp(op, "adds one integer of 32 or 64 bits");
    }
    if (op.opcode == Opcode::kAtomicAdd && buffer.space == MemorySpace::kPrivate) {
      return FailOp(op, "names the private '{}'", buffer.name);
    }
    const size_t mask_at = writes ? 2 : 1;
    if (op.operands.size() > mask_at) {
      if (TypeOf(op.operands[mask_at]) != Type{DType::kBool, value.lanes}) {
        return FailOp(op, "has a mask of {}", FormatType(TypeOf(op.operands[mask_at])));
      }
      if (!writes && (op.operands.size() != 3 || TypeOf(op.operands[2]) != value)) {
        return FailOp(op, "needs a pass-through of its type");
      }
    }
    return OkStatus();
  }

  Status CheckControl(const Op& op, int depth, const std::vector<Type>* yields) {
    switch (op.opcode) {
      case Opcode::kYield: {
        if (!op.results.empty()) return FailOp(op, "has results");
        if (!yields || yields->size() != op.operands.size())
          return FailOp(op, "yields {} values", op.operands.size());
        for (size_t i = 0; i < yields->size(); ++i) {
          if (TypeOf(op.operands[i]) != (*yields)[i])
            return FailOp(op, "yields {} as value {}", FormatType(TypeOf(op.operands[i])), i);
        }
        return OkStatus();
      }
      case Opcode::kReport: {
        const Type condition = TypeOf(op.operands[0]);
        if (!op.results.empty()) return FailOp(op, "has results");
        if (condition.dtype != DType::kBool ||
            TypeOf(op.operands[1]) != Type{DType::kI64, condition.lanes} ||
            TypeOf(op.operands[2]) != Type{DType::kI64, 1}) {
          return FailOp(op, "takes a bool, an i64 of its lanes and an i64");
        }
        if (op.immediates[0] < 1 || op.immediates[0] > 4)
          return FailOp(op, "has reason {}", op.immediates[0]);
        if (op.immediates[1] < 0 ||
            op.immediates[1] >= static_cast<int64_t>(kernel_.sites.size())) {
          return FailOp(op, "names site {} of {}", op.immediates[1], kernel_.sites.size());
        }
        return OkStatus();
      }
      case Opcode::kIf: {
        if (TypeOf(op.operands[0]) != Type{DType::kBool, 1}) return FailOp(op, "needs one bool");
        if (op.blocks.size() != 2) return FailOp(op, "has {} blocks", op.blocks.size());
        std::vector<Type> types;
        for (ValueId result : op.results) {
          if (result >= kernel_.values.size()) return FailOp(op, "defines value {}", result);
          types.push_back(TypeOf(result));
        }
        for (BlockId block : op.blocks) {
          if (block >= kernel_.blocks.size()) return FailOp(op, "names block {}", block);
          if (!kernel_.blocks[block].parameters.empty())
            return FailOp(op, "has a body with parameters");
          HY_TRY(CheckBlock(block, depth + 1, &types));
        }
        return DefineResults(op);
      }
      default:
        return CheckFor(op, depth);
    }
  }

  Status DefineResults(const Op& op) {
    if (!op.results.empty() && TypeOf(op.results[0]) != op.type)
      return FailOp(op, "has a first result of another type");
    for (ValueId result : op.results) HY_TRY(Define(op, result));
    return OkStatus();
  }

  Status CheckFor(const Op& op, int depth) {
    const Type iv = TypeOf(op.operands[0]);
    if (!IsIndexDType(iv.dtype) || iv.lanes != 1 || iv.IsFragment() ||
        TypeOf(op.operands[1]) != iv || TypeOf(op.operands[2]) != iv) {
      return FailOp(op, "needs bounds and step of one index type");
    }
    if (op.immediates[0] < 0 || op.immediates[0] > kMaxUnroll) {
      return FailOp(op, "asks for {} copies of its body; the most is {}", op.immediates[0],
                    kMaxUnroll);
    }
    if (op.blocks.size() != 1 || op.blocks[0] >= kernel_.blocks.size())
      return FailOp(op, "needs one block");
    const std::vector<ValueId>& parameters = kernel_.blocks[op.blocks[0]].parameters;
    const size_t carried = op.operands.size() - 3;
    if (parameters.size() != carried + 1 || op.results.size() != carried) {
      return FailOp(op, "carries {} values, has {} block parameters and {} results", carried,
                    parameters.size(), op.results.size());
    }
    std::vector<Type> types;
    for (size_t i = 0; i < carried; ++i) {
      const Type type = TypeOf(op.operands[3 + i]);
      if (parameters[i + 1] >= kernel_.values.size() || op.results[i] >= kernel_.values.size() ||
          TypeOf(parameters[i + 1]) != type || TypeOf(op.results[i]) != type) {
        return FailOp(op, "changes the type of carried value {}", i);
      }
      types.push_back(type);
    }
    if (parameters[0] >= kernel_.values.size() || TypeOf(parameters[0]) != iv) {
      return FailOp(op, "has an induction variable of another type than its bounds");
    }
    const size_t scope = scope_.size();
    for (ValueId parameter : parameters) HY_TRY(Define(op, parameter));
    HY_TRY(CheckBlock(op.blocks[0], depth + 1, &types));
    while (scope_.size() > scope) {
      visible_[scope_.back()] = false;
      scope_.pop_back();
    }
    return DefineResults(op);
  }

  const Kernel& kernel_;
  bool is_gpu_ = false;
  bool awaits_ = false;  // an await_dispatches was seen
  std::vector<bool> visible_;
  std::vector<bool> defined_;
  std::vector<ValueId> scope_;
  std::set<BlockId> visited_;
};

}  // namespace

Status VerifyKernel(const Kernel& kernel) { return Verifier(kernel).Run(); }

Status VerifyModule(const Module& module) {
  std::set<std::string_view> names;
  for (const Kernel& kernel : module.kernels) {
    if (!names.insert(kernel.name).second) {
      return Internal("Two kernels of a module are named '{}'.", kernel.name);
    }
    HY_TRY(VerifyKernel(kernel));
  }
  return OkStatus();
}

}  // namespace halyard::kernel
