// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/contraction_stage.h"

#include <algorithm>

#include "base/check.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

ContractionStage::ContractionStage(const loop::Function& function, const loop::Kernel& kernel,
                                   const Problem& problem, const Factor& factor, const Side& side,
                                   Writer& writer, Emitter& emitter, Options options)
    : kernel_(kernel),
      problem_(problem),
      side_(side),
      exprs_(*function.exprs),
      writer_(writer),
      emitter_(emitter),
      options_(std::move(options)) {
  dtype_ = kernel.values[options_.value].dtype;
  for (loop::OpId id : factor.ops) {
    ops_.push_back(id);
    if (!kernel.ops[id].results.empty() && kernel.ops[id].results[0] == options_.value) break;
  }
  const OperandAccess& access = options_.access;
  k_major_ = options_.k_major || !access.along_k;
  stride_ = (k_major_ ? options_.extent : options_.depth) + options_.pad;
  tile_elements_ = stride_ * (k_major_ ? options_.depth : options_.extent);
  buffer_ =
      writer_.AddAllocation(std::string(options_.name), dtype_, tile_elements_ * options_.stages);
  clamps_ = !exprs_.KnownMultipleOf(side.extent, options_.extent);
  masks_ = !exprs_.KnownMultipleOf(problem.k.extent, std::max(options_.depth, options_.k_block));

  const int64_t fast = (access.along_k ? options_.depth : options_.extent) / access.lanes;
  const int64_t total = options_.extent * options_.depth / access.lanes;
  // As many workitems as share the tile evenly, in whole lines or whole parts of one.
  workers_ = std::min(options_.workitems, total);
  while (total % workers_ != 0 || (workers_ % fast != 0 && fast % workers_ != 0)) --workers_;
  for (int64_t p = 0; p < total / workers_; ++p) {
    const int64_t along = workers_ >= fast ? 0 : p % (fast / workers_) * workers_ * access.lanes;
    const int64_t across = workers_ >= fast ? p * (workers_ / fast) : p / (fast / workers_);
    passes_.push_back(access.along_k ? Pass{across, along} : Pass{along, across});
  }
}

bool ContractionStage::CanCopy(const loop::Function& function, const loop::Kernel& kernel,
                               const Factor& factor, loop::ValueId value,
                               const OperandAccess& access) {
  const loop::OpId id = kernel.values[value].producer;
  const loop::Op& load = kernel.ops[id];
  if (load.kind != loop::OpKind::kLoad) return false;
  if (function.buffers[load.buffer].dtype != load.dtype) return false;
  if (!load.operands.empty()) {
    const loop::OpId other = kernel.values[load.operands[1]].producer;
    if (other == loop::kNone || kernel.ops[other].kind != loop::OpKind::kConst ||
        kernel.ops[other].immediate != 0) {
      return false;
    }
  }
  for (loop::OpId op : factor.ops) {
    if (op != id && kernel.ops[op].kind == loop::OpKind::kLoad) return false;
    if (kernel.ops[op].kind == loop::OpKind::kIndirect) return false;
  }
  const int bytes = access.lanes * BitWidth(load.dtype) / 8;
  return bytes == 4 || bytes == 8 || bytes == 16;
}

void ContractionStage::Begin(V first) {
  const OperandAccess& access = options_.access;
  own_symbol_ = exprs_.Loop("place", side_.extent);
  k_symbol_ = exprs_.Loop("step", problem_.k.extent);
  const int64_t fast = (access.along_k ? options_.depth : options_.extent) / access.lanes;
  V id = writer_.WorkitemId(0);
  if (workers_ < options_.workitems) {
    works_ = writer_.Compare(Opcode::kLt, id, writer_.Index(workers_));
    id = writer_.FloorMod(id, writer_.Index(workers_), true);
  }
  const V along =
      writer_.Mul(writer_.FloorMod(id, writer_.Index(fast), true), writer_.Index(access.lanes));
  const V across = writer_.FloorDiv(id, writer_.Index(fast), true);
  own_in_tile_ = access.along_k ? across : along;
  k_first_ = access.along_k ? along : across;
  own_first_ = writer_.Add(first, own_in_tile_);
}

void ContractionStage::Place(const Pass& pass, V k) {
  const OperandAccess& access = options_.access;
  V own = own_first_, is_own = kNone;
  if (clamps_) {
    const int64_t last = access.along_k ? 1 : access.lanes;
    const V extent = emitter_.Evaluate(side_.extent);
    own = writer_.Add(own_first_, writer_.Index(pass.own));
    is_own = writer_.Compare(Opcode::kLt, own, extent);
    // Not all the last place: every workgroup at the edge would read the same few lines of the
    // second-level cache, one after the other.
    if (!options_.async) own = writer_.Select(is_own, own, writer_.Sub(own, extent));
    own = writer_.Min(own, writer_.Sub(extent, writer_.Index(last)));
    emitter_.Shift(side_.flat, own_symbol_, 0);
  } else {
    emitter_.Shift(side_.flat, own_symbol_, pass.own);
  }
  V step = writer_.Add(k, k_first_);
  mask_ = kNone;
  if (masks_) {
    const int64_t last = access.along_k ? access.lanes : 1;
    const V total = emitter_.Evaluate(problem_.k.extent);
    step = writer_.Add(step, writer_.Index(pass.k));
    mask_ = writer_.Compare(Opcode::kLt, step, total);
    step = writer_.Min(step, writer_.Sub(total, writer_.Index(last)));
    emitter_.Shift(problem_.k.flat, k_symbol_, 0);
  } else {
    emitter_.Shift(problem_.k.flat, k_symbol_, pass.k);
  }
  if (options_.async && is_own != kNone) {
    mask_ = mask_ == kNone ? is_own
                           : writer_.Pure(Opcode::kAnd, writer_.TypeOf(is_own), {mask_, is_own});
  }
  emitter_.Bind(access.along_k ? own_symbol_ : k_symbol_, access.along_k ? own : step);
  emitter_.BeginVector(access.along_k ? k_symbol_ : own_symbol_, access.along_k ? step : own,
                       access.lanes, kNone);
}

V ContractionStage::Masked(V value) {
  value = writer_.Splat(value, options_.access.lanes);
  if (mask_ == kNone) return value;
  // One scalar condition for all lanes.
  return writer_.Pure(Opcode::kSelect, writer_.TypeOf(value),
                      {mask_, value, writer_.Const(dtype_, 0, options_.access.lanes)});
}

Result<std::vector<V>> ContractionStage::Load(V k) {
  std::vector<V> values;
  for (const Pass& pass : passes_) {
    Place(pass, k);
    for (loop::OpId op : ops_) HY_TRY(emitter_.EmitOp(op));
    emitter_.EndVector();
    values.push_back(Masked(emitter_.ValueOf(options_.value)));
  }
  return values;
}

int64_t ContractionStage::OffsetInTile(int64_t side, int64_t k) const {
  return k_major_ ? side / 64 * group_stride() + k * 64 : side * 64 + k;
}

// kernel::SwizzledPlace of the element's place. `base` is a multiple of 512, which it leaves alone,
// as are the distances of most passes.
V ContractionStage::SwizzledTarget(V base, const Pass& pass) {
  const int64_t offset = OffsetInTile(pass.own, pass.k);
  const bool is_apart = offset % 512 == 0 && (!k_major_ || pass.own % 64 == 0);
  V own = own_in_tile_, k = k_first_;
  if (!is_apart) {
    own = writer_.Add(own, writer_.Index(pass.own));
    k = writer_.Add(k, writer_.Index(pass.k));
  }
  const V row_length = writer_.Index(64), eight = writer_.Index(8);
  V row = own, in_row = k, group = writer_.Index(0);
  if (k_major_) {
    row = k;
    in_row = writer_.FloorMod(own, row_length, true);
    group = writer_.Mul(writer_.FloorDiv(own, row_length, true), writer_.Index(group_stride()));
  }
  const V swizzle = writer_.Mul(writer_.FloorMod(row, eight, true), eight);
  in_row = writer_.Pure(Opcode::kXor, writer_.TypeOf(in_row), {in_row, swizzle});
  V at = writer_.Add(writer_.Add(writer_.Mul(row, row_length), in_row), group);
  at = writer_.Add(base, at);
  return is_apart ? writer_.Add(at, writer_.Index(offset)) : at;
}

V ContractionStage::Target(V base, const Pass& pass) {
  if (options_.swizzled) return SwizzledTarget(base, pass);
  const V own = writer_.Mul(own_in_tile_, writer_.Index(k_major_ ? 1 : stride_));
  const V k = writer_.Mul(k_first_, writer_.Index(k_major_ ? stride_ : 1));
  const int64_t offset = k_major_ ? pass.k * stride_ + pass.own : pass.own * stride_ + pass.k;
  return writer_.Add(writer_.Add(base, writer_.Add(own, k)), writer_.Index(offset));
}

void ContractionStage::Store(V base, std::span<const V> values) {
  if (works_ != kNone) writer_.BeginIf(works_);
  const int lanes = options_.access.lanes;
  for (size_t i = 0; i < passes_.size(); ++i) {
    const V at = Target(base, passes_[i]);
    if (lanes == 1 || k_major_ != options_.access.along_k) {
      const int64_t align = stride_ % lanes == 0 && tile_elements_ % lanes == 0 ? lanes : 1;
      writer_.Store(buffer_, at, values[i], kNone, align);
      continue;
    }
    for (int j = 0; j < lanes; ++j) {
      const V element = writer_.Pure(Opcode::kExtract, Type{dtype_, 1}, {values[i]}, {j});
      writer_.Store(buffer_, writer_.Add(at, writer_.Index(j * stride_)), element);
    }
  }
  if (works_ != kNone) writer_.EndIf({});
}

Status ContractionStage::Copy(V base, V k) {
  if (works_ != kNone) writer_.BeginIf(works_);
  const loop::OpId id = kernel_.values[options_.value].producer;
  const loop::Op& load = kernel_.ops[id];
  for (const Pass& pass : passes_) {
    Place(pass, k);
    for (loop::OpId op : ops_) {
      if (op != id) HY_TRY(emitter_.EmitOp(op));
    }
    const V from = emitter_.Evaluate(load.index);
    V mask = mask_;
    if (!load.operands.empty()) {
      const V own = emitter_.ValueOf(load.operands[0]);
      if (writer_.LanesOf(own) > 1) {
        return InvalidArgument("The mask of an operand of kernel '{}' varies within a copy.",
                               kernel_.name);
      }
      mask = mask == kNone ? own : writer_.Pure(Opcode::kAnd, writer_.TypeOf(own), {mask, own});
    }
    emitter_.EndVector();
    std::vector<V> operands = {Target(base, pass), from};
    if (mask != kNone) operands.push_back(mask);
    writer_.Do(Opcode::kAsyncCopy, operands,
               {emitter_.BufferOf(load.buffer), options_.access.lanes}, buffer_);
  }
  if (works_ != kNone) writer_.EndIf({});
  return OkStatus();
}

}  // namespace halyard::schedule
