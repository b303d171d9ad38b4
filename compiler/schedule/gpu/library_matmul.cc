// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/library_matmul.h"

#include <algorithm>

#include "base/gpu_kernel_abi.h"
#include "compiler/schedule/gpu/library_epilogue.h"

namespace halyard::schedule {

using loop::Op;
using loop::OpKind;

namespace {

// Below this the library's product takes as long as its launch, and streams of ours are better.
constexpr int64_t kLeastSide = 32;
constexpr double kLeastProducts = 1 << 24;

class MatmulPlanner {
 public:
  MatmulPlanner(const loop::Function& function, const loop::Kernel& kernel, const Problem& problem,
                const Target& target, std::string* why)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        problem_(problem),
        interprets_((target.gpu.features & static_cast<uint64_t>(GpuFeature::kKernelIr)) != 0),
        why_(why) {}

  std::optional<LibraryPlan> Plan() {
    if (!Sizes() || !Operands()) return std::nullopt;
    if (Fold()) return plan_;
    if (!Cut()) return std::nullopt;
    return plan_;
  }

 private:
  bool No(std::string why) {
    if (why_ != nullptr) *why_ = std::move(why);
    return false;
  }

  bool Sizes() {
    if (kernel_.ordered_reductions) return No("its sums have a fixed order");
    if (problem_.dtype != DType::kF32) return No("its sums are not in f32");
    const auto m = exprs_.AsConst(problem_.m.extent), n = exprs_.AsConst(problem_.n.extent);
    const auto k = exprs_.AsConst(problem_.k.extent), batch = exprs_.AsConst(problem_.batch.extent);
    if (!m || !n || !k || !batch) return No("its sizes are not fixed");
    if (std::min({*m, *n, *k, *batch}) < 1) return No("it is empty");
    if (std::max({*m, *n, *k, *batch}) > INT32_MAX) return No("it is too large");
    const double products = static_cast<double>(*m) * static_cast<double>(*n) *
                            static_cast<double>(*k) * static_cast<double>(*batch);
    if (!interprets_ && (std::min(*m, *n) < kLeastSide || products < kLeastProducts)) {
      return No("it is too small");
    }
    const auto is_one = [&](const std::optional<Expr>& e) { return e && exprs_.IsConst(*e, 1); };
    is_swapped_ = is_one(problem_.out_stride_n);
    if (!is_swapped_ && !is_one(problem_.out_stride_m)) {
      return No("its result is contiguous along no side");
    }
    plan_.call.matmul.m = is_swapped_ ? *n : *m;
    plan_.call.matmul.n = is_swapped_ ? *m : *n;
    plan_.call.matmul.k = *k;
    plan_.call.matmul.batch = *batch;
    return true;
  }

  // `index` over the flat symbols as an offset and strides along two sides and the batch; false
  // where it is not that.
  bool ReadPlace(Expr index, const Side& rows, const Side& cols, GpuLibraryOperand* out) {
    index = FlatIndex(exprs_, problem_, index);
    const auto stride = [&](const Side& side) -> std::optional<int64_t> {
      const std::optional<Expr> along = exprs_.StrideOf(index, side.flat);
      return along ? exprs_.AsConst(*along) : std::nullopt;
    };
    const auto row = stride(rows), col = stride(cols), batch = stride(problem_.batch);
    if (!row || !col || !batch || *row < 0 || *col < 0 || *batch < 0) return false;
    std::vector<std::pair<Expr, Expr>> zeros;
    for (const Side* side : {&problem_.batch, &problem_.m, &problem_.n, &problem_.k}) {
      zeros.emplace_back(side->flat, exprs_.Const(0));
    }
    const auto offset = exprs_.AsConst(exprs_.Substitute(index, zeros));
    if (!offset || *offset < 0) return false;
    out->offset = *offset;
    out->row_stride = *row;
    out->col_stride = *col;
    out->batch_stride = *batch;
    return true;
  }

  bool ReadFactor(const Factor& factor, const Side& rows, const Side& cols,
                  GpuLibraryOperand* out) {
    if (factor.load == loop::kNone) return No("an operand is computed on the way");
    const Op& load = kernel_.ops[factor.load];
    const DType dtype = function_.buffers[load.buffer].dtype;
    if (!IsLibraryType(dtype)) return No("an operand has a type that the library does not take");
    if (plan_.call.matmul.input_dtype == 0)
      plan_.call.matmul.input_dtype = static_cast<uint32_t>(dtype);
    if (plan_.call.matmul.input_dtype != static_cast<uint32_t>(dtype)) {
      return No("its operands have two types");
    }
    if (!ReadPlace(load.index, rows, cols, out)) return No("an operand is no matrix in memory");
    out->binding = load.buffer;
    const int64_t row_count = *exprs_.AsConst(rows.extent),
                  col_count = *exprs_.AsConst(cols.extent);
    // Rows that overlap are the windows of a convolution.
    if (!(out->row_stride == 1 && out->col_stride >= row_count) &&
        !(out->col_stride == 1 && out->row_stride >= col_count)) {
      return No("an operand is no matrix in memory");
    }
    return true;
  }

  bool Operands() {
    const Factor& a = is_swapped_ ? problem_.b : problem_.a;
    const Factor& b = is_swapped_ ? problem_.a : problem_.b;
    return ReadFactor(a, inner(), problem_.k, &plan_.call.matmul.a) &&
           ReadFactor(b, problem_.k, outer(), &plan_.call.matmul.b);
  }

  // A matrix of D's shape with D's direction of memory.
  bool ReadResultPlace(const Op& access, GpuLibraryOperand* out) {
    if (!ReadPlace(access.index, inner(), outer(), out)) return false;
    if (out->row_stride != 1 || out->col_stride < plan_.call.matmul.m) return false;
    out->binding = access.buffer;
    return true;
  }

  // The whole epilogue is one that the library has.
  bool Fold() {
    const Op* store = OnlyStoreBehind(kernel_, problem_);
    if (store == nullptr || store->operands.size() != 1) return false;
    const DType output = function_.buffers[store->buffer].dtype;
    const auto input = static_cast<DType>(plan_.call.matmul.input_dtype);
    if (output != input && output != DType::kF32) return false;
    GpuLibraryMatmul matmul = plan_.call.matmul;
    if (!ReadResultPlace(*store, &matmul.d)) return false;
    const auto epilogue = ReadLibraryEpilogue(kernel_, problem_.accumulator, store->operands[0]);
    if (!epilogue || epilogue->activation == GpuLibraryActivation::kRelu) return false;
    matmul.output_dtype = static_cast<uint32_t>(output);
    matmul.activation = epilogue->activation;
    // The library's tanh is good for 16 bits.
    if (matmul.activation == GpuLibraryActivation::kGeluTanh && output == DType::kF32) return false;
    for (const loop::OpId id : epilogue->addends) {
      const Op& load = kernel_.ops[id];
      const loop::Buffer& buffer = function_.buffers[load.buffer];
      GpuLibraryOperand place;
      if (!ReadPlace(load.index, inner(), outer(), &place)) return false;
      place.binding = load.buffer;
      if (place.col_stride == 0) {
        const bool widens = output == DType::kF32 && buffer.dtype == input &&
                            buffer.role == loop::BufferRole::kConstant;
        if (matmul.bias.binding != kNoLibraryBinding || matmul.batch != 1 ||
            place.row_stride != 1 || (buffer.dtype != output && !widens)) {
          return false;
        }
        matmul.bias = place;
        continue;
      }
      if (matmul.c.binding != kNoLibraryBinding || buffer.dtype != output ||
          !ReadResultPlace(load, &matmul.c)) {
        return false;
      }
      // In place, element by element, or elsewhere.
      if (matmul.c.binding == matmul.d.binding && !(matmul.c == matmul.d)) return false;
    }
    for (const GpuLibraryOperand* read : {&matmul.a, &matmul.b, &matmul.bias}) {
      if (read->binding == matmul.d.binding) return false;
    }
    plan_.call.matmul = matmul;
    return true;
  }

  // The sides that run along D's contiguous direction and across it.
  const Side& inner() const { return is_swapped_ ? problem_.n : problem_.m; }
  const Side& outer() const { return is_swapped_ ? problem_.m : problem_.n; }

  // The product alone, into memory that a kernel of ours reads for the rest.
  bool Cut() {
    GpuLibraryMatmul& matmul = plan_.call.matmul;
    plan_.is_cut = true;
    plan_.between =
        TypeBetween(kernel_, problem_, static_cast<DType>(plan_.call.matmul.input_dtype));
    matmul.output_dtype = static_cast<uint32_t>(plan_.between);
    matmul.d.row_stride = 1;
    matmul.d.col_stride = matmul.m;
    matmul.d.batch_stride = matmul.m * matmul.n;
    plan_.elements = matmul.m * matmul.n * matmul.batch;
    // Through the result's own place where that fits: half the memory.
    const Op* store = OnlyStoreBehind(kernel_, problem_);
    GpuLibraryOperand place;
    if (PassesThroughResult(function_, kernel_, store, plan_.between) &&
        ReadResultPlace(*store, &place)) {
      matmul.d = place;
    }
    const auto flat = [&](const Side& side) {
      Expr at = exprs_.Const(0);
      for (const auto& [symbol, extent] : side.digits) {
        at = exprs_.Add(exprs_.Mul(at, extent), symbol);
      }
      return at;
    };
    const GpuLibraryOperand& d = matmul.d;
    plan_.place = exprs_.Add(exprs_.Const(d.offset), flat(inner()));
    plan_.place = exprs_.Add(plan_.place, exprs_.Mul(flat(outer()), exprs_.Const(d.col_stride)));
    plan_.place =
        exprs_.Add(plan_.place, exprs_.Mul(flat(problem_.batch), exprs_.Const(d.batch_stride)));
    return true;
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const Problem& problem_;
  const bool interprets_;
  std::string* why_;
  LibraryPlan plan_;
  bool is_swapped_ = false;  // D is contiguous along the problem's n
};

}  // namespace

std::optional<LibraryPlan> PlanLibraryMatmul(const loop::Function& function,
                                             const loop::Kernel& kernel, const Problem& problem,
                                             const Target& target, std::string* why) {
  return MatmulPlanner(function, kernel, problem, target, why).Plan();
}

}  // namespace halyard::schedule
