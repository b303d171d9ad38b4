// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/library_convolution.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "base/gpu_kernel_abi.h"
#include "compiler/schedule/gpu/library_epilogue.h"

namespace halyard::schedule {

using kernel::Opcode;
using loop::Op;
using loop::OpKind;

namespace {

// Below this a kernel takes little longer than its launch.
constexpr double kLeastConvolutionProducts = 1 << 26;
// Of a window of one tap; what is further apart is not a picture with a stride.
constexpr int64_t kMostStride = 8;

// A loop with what it adds to the places in the buffers.
struct Digit {
  Expr symbol;  // invalid: a part of a loop
  int64_t extent = 0;
  int64_t x = 0, w = 0, y = 0;  // strides
  bool is_used = false;         // it has its place in the convolution
};

// An index as offset + sum of strides * digits.
struct Linear {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

// The rows or the columns: position = output * stride + tap * dilation - pad_before.
struct Axis {
  int output = -1, tap = -1;  // digits; -1: there is one position, one tap
  int64_t step = 0;           // of x between neighbouring positions
  int64_t stride = 1, dilation = 1, pad_before = 0;
  int64_t input = 0;        // positions
  bool is_bounded = false;  // `input` is what the kernel says, else the least that is read
};

class ConvolutionPlanner {
 public:
  ConvolutionPlanner(const loop::Function& function, const loop::Kernel& kernel,
                     const Problem& problem, const Target& target, std::string* why)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        problem_(problem),
        interprets_((target.gpu.features & static_cast<uint64_t>(GpuFeature::kKernelIr)) != 0),
        why_(why) {}

  std::optional<LibraryPlan> Plan() {
    plan_.call.kind = GpuLibraryKind::kConvolution;
    if (!Sizes() || !Operands() || !ReadMask() || !Taps() || !Images() || !Describe()) {
      return std::nullopt;
    }
    if (!Fold() && !Cut()) return std::nullopt;
    return plan_;
  }

 private:
  bool No(std::string why) {
    if (why_ != nullptr) *why_ = std::move(why);
    return false;
  }
  GpuLibraryConvolution& c() { return plan_.call.convolution; }

  bool Sizes() {
    if (kernel_.ordered_reductions) return No("its sums have a fixed order");
    if (problem_.dtype != DType::kF32) return No("its sums are not in f32");
    double products = 1;
    const auto add = [&](const Side& side, std::vector<int>* to) {
      for (const auto& [symbol, extent] : side.digits) {
        const auto known = exprs_.AsConst(extent);
        if (!known || *known < 1 || *known > INT32_MAX) return false;
        if (*known == 1) {
          ones_.push_back(symbol);
          continue;
        }
        to->push_back(static_cast<int>(digits_.size()));
        digits_.push_back({symbol, *known});
        products *= static_cast<double>(*known);
      }
      return true;
    };
    std::vector<int> batch;
    if (!add(problem_.batch, &batch) || !add(problem_.m, &channels_) ||
        !add(problem_.n, &pixels_) || !add(problem_.k, &sums_)) {
      return No("its sizes are not fixed");
    }
    // The images of a batch may stand apart from the pixels.
    pixels_.insert(pixels_.begin(), batch.begin(), batch.end());
    if (!interprets_ && products < kLeastConvolutionProducts) return No("it is too small");
    return true;
  }

  std::optional<Linear> ReadLinear(Expr index) {
    Linear linear;
    std::vector<std::pair<Expr, Expr>> zeros;
    for (const Expr symbol : ones_) zeros.emplace_back(symbol, exprs_.Const(0));
    index = exprs_.Substitute(index, zeros);
    for (const Digit& digit : digits_) {
      if (!digit.symbol.valid()) {
        linear.strides.push_back(0);
        continue;
      }
      const auto stride = exprs_.StrideOf(index, digit.symbol);
      const auto known = stride ? exprs_.AsConst(*stride) : std::nullopt;
      if (!known) return std::nullopt;
      linear.strides.push_back(*known);
      zeros.emplace_back(digit.symbol, exprs_.Const(0));
    }
    const auto offset = exprs_.AsConst(exprs_.Substitute(index, zeros));
    if (!offset) return std::nullopt;
    linear.offset = *offset;
    return linear;
  }

  // The only load of a factor.
  const Op* LoadOf(const Factor& factor) const {
    const Op* load = nullptr;
    for (const loop::OpId id : factor.ops) {
      if (kernel_.ops[id].kind == OpKind::kIndirect) return nullptr;
      if (kernel_.ops[id].kind != OpKind::kLoad) continue;
      if (load != nullptr) return nullptr;
      load = &kernel_.ops[id];
    }
    if (load == nullptr) return nullptr;
    // The factor is what was loaded, at most converted.
    const Op* last = &kernel_.ops[kernel_.values[factor.value].producer];
    if (last->kind == OpKind::kScalar && last->opcode == Opcode::kConvert) {
      last = &kernel_.ops[kernel_.values[last->operands[0]].producer];
    }
    return last == load ? load : nullptr;
  }

  bool Operands() {
    w_load_ = LoadOf(problem_.a);
    x_load_ = LoadOf(problem_.b);
    if (w_load_ == nullptr || x_load_ == nullptr) return No("an operand is computed on the way");
    if (!w_load_->operands.empty()) return No("its weights are masked");
    const DType dtype = function_.buffers[x_load_->buffer].dtype;
    if (!IsLibraryType(dtype) || function_.buffers[w_load_->buffer].dtype != dtype) {
      return No("its operands have types that the library does not take");
    }
    c().input_dtype = static_cast<uint32_t>(dtype);
    const auto x = ReadLinear(x_load_->index), w = ReadLinear(w_load_->index);
    if (!x || !w) return No("an operand is not stored evenly");
    x_offset_ = x->offset;
    c().w.offset = w->offset;
    for (size_t i = 0; i < digits_.size(); ++i) {
      digits_[i].x = x->strides[i];
      digits_[i].w = w->strides[i];
      if (digits_[i].x < 0 || digits_[i].w < 0) return No("an operand is walked backwards");
    }
    for (const int i : pixels_) {
      if (digits_[i].w != 0) return No("it has groups");
    }
    if (channels_.size() != 1) return No("its result has not one loop of channels");
    for (const int i : sums_) {
      if (digits_[i].x == 0 || digits_[i].w == 0) return No("an operand repeats along its sum");
    }
    c().x.binding = x_load_->buffer;
    c().w.binding = w_load_->buffer;
    return true;
  }

  // f >= 0 for each `f` that a mask asks for.
  bool ReadConditions(loop::ValueId value, std::vector<Linear>* conditions) {
    const loop::OpId id = kernel_.values[value].producer;
    if (id == loop::kNone || kernel_.ops[id].kind != OpKind::kScalar) return false;
    const Op& op = kernel_.ops[id];
    if (op.opcode == Opcode::kAnd) {
      return ReadConditions(op.operands[0], conditions) &&
             ReadConditions(op.operands[1], conditions);
    }
    if (op.opcode != Opcode::kLe && op.opcode != Opcode::kLt) return false;
    const auto left = ReadIndex(op.operands[0]), right = ReadIndex(op.operands[1]);
    if (!left || !right) return false;
    Linear difference;
    difference.offset = right->offset - left->offset - (op.opcode == Opcode::kLt ? 1 : 0);
    for (size_t i = 0; i < digits_.size(); ++i) {
      difference.strides.push_back(right->strides[i] - left->strides[i]);
    }
    conditions->push_back(std::move(difference));
    return true;
  }

  std::optional<Linear> ReadIndex(loop::ValueId value) {
    const loop::OpId id = kernel_.values[value].producer;
    if (id == loop::kNone) return std::nullopt;
    const Op& op = kernel_.ops[id];
    if (op.dtype != DType::kI64) return std::nullopt;
    if (op.kind == OpKind::kConst) {
      Linear linear{op.immediate, {}};
      linear.strides.resize(digits_.size());
      return linear;
    }
    return op.kind == OpKind::kIndex ? ReadLinear(op.index) : std::nullopt;
  }

  // Each axis that a mask bounds is one position and one tap, or one of both.
  bool ReadMask() {
    if (x_load_->operands.empty()) return true;
    const Op& other = kernel_.ops[kernel_.values[x_load_->operands[1]].producer];
    if (other.kind != OpKind::kConst || std::bit_cast<double>(other.immediate) != 0) {
      return No("its padding is not 0");
    }
    std::vector<Linear> conditions;
    if (!ReadConditions(x_load_->operands[0], &conditions)) {
      return No("its mask is not the edge of a picture");
    }
    // By the digits that it is about: least and most of what is added up.
    struct Bounds {
      std::vector<int64_t> strides;
      std::optional<int64_t> least, most;
    };
    std::map<std::vector<int64_t>, Bounds> found;
    for (const Linear& condition : conditions) {
      std::vector<int64_t> strides = condition.strides;
      const bool is_upper =
          std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s < 0; });
      for (int64_t& stride : strides) {
        if (is_upper) stride = -stride;
        if (stride < 0) return No("its mask is not the edge of a picture");
      }
      Bounds& bounds = found[strides];
      bounds.strides = strides;
      if (is_upper) {
        bounds.most = std::min(bounds.most.value_or(INT64_MAX), condition.offset);
      } else {
        bounds.least = std::max(bounds.least.value_or(INT64_MIN), -condition.offset);
      }
    }
    for (const auto& [strides, bounds] : found) {
      Axis axis;
      for (size_t i = 0; i < strides.size(); ++i) {
        if (strides[i] == 0) continue;
        const int digit = static_cast<int>(i);
        if (std::count(pixels_.begin(), pixels_.end(), digit) > 0 && axis.output < 0) {
          axis.output = digit;
          axis.stride = strides[i];
        } else if (std::count(sums_.begin(), sums_.end(), digit) > 0 && axis.tap < 0) {
          axis.tap = digit;
          axis.dilation = strides[i];
        } else {
          return No("its mask is not the edge of a picture");
        }
      }
      for (const auto& [digit, step] :
           {std::pair(axis.output, axis.stride), std::pair(axis.tap, axis.dilation)}) {
        if (digit < 0) continue;
        Digit& one = digits_[digit];
        if (one.is_used || one.x % step != 0 || (axis.step != 0 && axis.step != one.x / step)) {
          return No("its mask is not the edge of a picture");
        }
        axis.step = one.x / step;
        one.is_used = true;
      }
      // Position 0 is where the kernel begins to read, or where it would without a lower bound.
      axis.pad_before = bounds.least.value_or(0);
      axis.is_bounded = bounds.most.has_value();
      axis.input = bounds.most ? *bounds.most - axis.pad_before + 1 : LastPosition(axis) + 1;
      if (axis.step <= 0 || axis.pad_before < 0 || axis.input < 1) {
        return No("its mask is not the edge of a picture");
      }
      axes_.push_back(axis);
    }
    return true;
  }

  int64_t ExtentOf(int digit) const { return digit < 0 ? 1 : digits_[digit].extent; }
  int64_t LastPosition(const Axis& axis) const {
    return (ExtentOf(axis.output) - 1) * axis.stride + (ExtentOf(axis.tap) - 1) * axis.dilation -
           axis.pad_before;
  }

  void AddAxis(int output, int tap, int64_t step, int64_t stride, int64_t dilation) {
    Axis axis{output, tap, step, stride, dilation};
    axis.input = LastPosition(axis) + 1;
    axes_.push_back(axis);
    if (output >= 0) digits_[output].is_used = true;
    if (tap >= 0) digits_[tap].is_used = true;
  }

  std::vector<int> Unused(const std::vector<int>& side) const {
    std::vector<int> unused;
    for (const int i : side) {
      if (!digits_[i].is_used) unused.push_back(i);
    }
    return unused;
  }

  // What is summed: a channel, and taps of the axes that no mask told of.
  bool Taps() {
    std::vector<int> sums = Unused(sums_);
    std::sort(sums.begin(), sums.end(), [&](int a, int b) { return digits_[a].x > digits_[b].x; });
    if (sums.empty()) return true;
    // Rows that lie as they are stored have their channels in the smallest stride, planes in the
    // largest. Taps of a plane's rows are no channels: the next output begins among them, and there
    // is nothing that both are multiples of.
    const Digit& least = digits_[sums.back()];
    const bool is_row = std::any_of(pixels_.begin(), pixels_.end(), [&](int i) {
      const int64_t x = digits_[i].x;
      return !digits_[i].is_used && x > 0 && x < least.extent && std::gcd(x, least.extent) == 1;
    });
    channel_ = least.x == 1 && !(is_row && sums.size() > 1) ? sums.back() : sums.front();
    for (const int tap : sums) {
      if (tap == channel_) continue;
      // The output that moves as far, up to a stride and a dilation that are small.
      int best = -1;
      int64_t best_step = 0, least_factor = INT64_MAX;
      for (const int output : Unused(pixels_)) {
        const int64_t x = digits_[output].x;
        if (x == 0) continue;
        const int64_t step = std::gcd(x, digits_[tap].x);
        const int64_t factor = std::max(x, digits_[tap].x) / step;
        if (factor < least_factor) best = output, best_step = step, least_factor = factor;
      }
      if (best < 0) {
        AddAxis(-1, tap, digits_[tap].x, 1, 1);
      } else {
        AddAxis(best, tap, best_step, digits_[best].x / best_step, digits_[tap].x / best_step);
      }
    }
    // A run of taps with their channels behind each other, of which the next output's begins
    // within.
    const Digit run = digits_[channel_];
    if (run.x != 1 || run.w != 1) return true;
    for (const int output : Unused(pixels_)) {
      if (digits_[output].x >= run.extent || digits_[output].x == 0) continue;
      const int64_t channels = std::gcd(digits_[output].x, run.extent);
      digits_[channel_].extent = channels;
      digits_.push_back({Expr(), run.extent / channels, channels, channels});
      AddAxis(output, static_cast<int>(digits_.size()) - 1, channels, digits_[output].x / channels,
              1);
      break;
    }
    return true;
  }

  // Which of the other pixels are images, rows and columns.
  bool Images() {
    if (axes_.size() > 2) return No("it has more than two dimensions");
    std::vector<int> rest = Unused(pixels_);
    std::sort(rest.begin(), rest.end(), [&](int a, int b) { return digits_[a].x > digits_[b].x; });
    if (rest.size() > 3 - axes_.size()) return No("it has more than two dimensions");
    const bool has_images = rest.size() == 3 - axes_.size() || axes_.size() == 2;
    if (has_images && !rest.empty()) {
      image_ = rest.front();
      digits_[image_].is_used = true;
      rest.erase(rest.begin());
    }
    // Columns first: they tell how rows lie.
    std::reverse(rest.begin(), rest.end());
    // From one position to the next where nothing lies between.
    const bool is_row = channel_ >= 0 && digits_[channel_].x == 1;
    const int64_t unit = is_row ? digits_[channel_].extent : 1;
    int64_t stride = 1;
    for (const int output : rest) {
      const int64_t x = digits_[output].x;
      if (x == 0) return No("an operand repeats along its result");
      if (axes_.empty() && x % unit == 0 && x / unit <= kMostStride) {
        stride = x / unit;
      } else if (axes_.empty() || x % stride != 0 ||
                 x / stride < axes_.front().step * axes_.front().input) {
        stride = 1;
      }
      AddAxis(output, -1, x / stride, stride, 1);
    }
    std::stable_sort(axes_.begin(), axes_.end(),
                     [](const Axis& a, const Axis& b) { return a.step > b.step; });
    const bool is_convolution = std::any_of(axes_.begin(), axes_.end(), [&](const Axis& axis) {
      return ExtentOf(axis.tap) > 1 || axis.stride > 1;
    });
    return is_convolution || No("it has no window");
  }

  bool Describe() {
    GpuLibraryConvolution& c = this->c();
    c.images = ExtentOf(image_);
    c.input_channels = ExtentOf(channel_);
    c.output_channels = ExtentOf(channels_[0]);
    while (axes_.size() < 2) {  // no rows
      Axis rows;
      rows.input = 1;
      axes_.insert(axes_.begin(), rows);
    }
    int64_t offset = x_offset_;
    for (int i = 0; i < 2; ++i) {
      const Axis& axis = axes_[static_cast<size_t>(i)];
      c.output[i] = ExtentOf(axis.output);
      c.window[i] = ExtentOf(axis.tap);
      c.stride[i] = axis.stride;
      c.dilation[i] = axis.dilation;
      c.pad_before[i] = axis.pad_before;
      c.input[i] = axis.input;
      offset += axis.pad_before * axis.step;
    }
    if (offset < 0) return No("its mask is not the edge of a picture");
    c.x.offset = offset;
    // Strides along what has one element are as if it lay behind the rest.
    auto& x = c.x.strides;
    x[1] = channel_ < 0 ? 1 : digits_[channel_].x;
    x[3] = axes_[1].step != 0 ? axes_[1].step : c.input_channels;
    x[2] = axes_[0].step != 0 ? axes_[0].step : x[3] * c.input[1];
    x[0] = image_ < 0 ? x[2] * c.input[0] : digits_[image_].x;
    auto& w = c.w.strides;
    w[0] = digits_[channels_[0]].w;
    w[1] = channel_ < 0 ? 1 : digits_[channel_].w;
    w[3] = axes_[1].tap < 0 ? c.input_channels : digits_[axes_[1].tap].w;
    w[2] = axes_[0].tap < 0 ? w[3] * c.window[1] : digits_[axes_[0].tap].w;
    if (w[0] == 0) w[0] = w[2] * c.window[0];
    Widen();
    for (int i = 0; i < 2; ++i) {
      // The same padding behind as before where that makes no further output.
      const int64_t span = (c.window[i] - 1) * c.dilation[i] + 1;
      const int64_t needed = (c.output[i] - 1) * c.stride[i] + span - c.pad_before[i] - c.input[i];
      const int64_t same = (c.input[i] + 2 * c.pad_before[i] - span);
      if (same >= 0 && same / c.stride[i] + 1 == c.output[i]) {
        c.pad_after[i] = c.pad_before[i];
      } else if (needed >= 0) {
        c.pad_after[i] = needed;
      } else {
        c.input[i] += needed;  // what is never read
        c.pad_after[i] = 0;
      }
      if (c.input[i] < 1) return No("it reads nothing but its padding");
    }
    for (const int64_t stride : {x[0], x[1], x[2], x[3], w[0], w[1], w[2], w[3]}) {
      if (stride < 1) return No("an operand repeats along its result");
    }
    return IsWithin(c.x, {c.images, c.input_channels, c.input[0], c.input[1]}) &&
           IsWithin(c.w, {c.output_channels, c.input_channels, c.window[0], c.window[1]});
  }

  // Rows and columns that are not bounded may be more than are read, so that all of memory between
  // two images or rows belongs to them.
  void Widen() {
    GpuLibraryConvolution& c = this->c();
    const int64_t outer[2] = {c.x.strides[0], c.x.strides[2]};
    for (int i = 1; i >= 0; --i) {
      const Axis& axis = axes_[static_cast<size_t>(i)];
      if (axis.is_bounded || axis.step == 0 || outer[i] % axis.step != 0) continue;
      const int64_t whole = outer[i] / axis.step;
      const int64_t span = (c.window[i] - 1) * c.dilation[i] + 1;
      if (whole < c.input[i] || (whole + c.pad_before[i] - span) / c.stride[i] + 1 != c.output[i]) {
        continue;
      }
      const int64_t least = c.input[i];
      c.input[i] = whole;
      if (!IsWithin(c.x, {c.images, c.input_channels, c.input[0], c.input[1]})) c.input[i] = least;
    }
  }

  bool IsWithin(const GpuLibraryTensor& tensor, std::initializer_list<int64_t> dims) {
    const auto elements = exprs_.AsConst(function_.buffers[tensor.binding].elements);
    if (!elements) return No("its sizes are not fixed");
    double last = static_cast<double>(tensor.offset);
    int i = 0;
    for (const int64_t dim : dims) {
      last += static_cast<double>(dim - 1) * static_cast<double>(tensor.strides[i++]);
    }
    return last < static_cast<double>(*elements) || No("its operands are not whole");
  }

  // A tensor of the result's shape.
  bool ReadResult(const Op& access, GpuLibraryTensor* out) {
    const auto read = ReadLinear(access.index);
    if (!read || read->offset < 0) return false;
    out->binding = access.buffer;
    out->offset = read->offset;
    const GpuLibraryConvolution& c = this->c();
    const auto stride = [&](int digit, int64_t otherwise) {
      return digit < 0 ? otherwise : read->strides[static_cast<size_t>(digit)];
    };
    out->strides[1] = stride(channels_[0], 1);
    out->strides[3] = stride(axes_[1].output, c.output_channels);
    out->strides[2] = stride(axes_[0].output, out->strides[3] * c.output[1]);
    out->strides[0] = stride(image_, out->strides[2] * c.output[0]);
    return std::all_of(std::begin(out->strides), std::end(out->strides),
                       [](int64_t s) { return s >= 1; }) &&
           IsWithin(*out, {c.images, c.output_channels, c.output[0], c.output[1]});
  }

  bool Fold() {
    const Op* store = OnlyStoreBehind(kernel_, problem_);
    if (store == nullptr || store->operands.size() != 1) return false;
    const DType output = function_.buffers[store->buffer].dtype;
    const auto input = static_cast<DType>(c().input_dtype);
    if (output != input && output != DType::kF32) return false;
    const auto epilogue = ReadLibraryEpilogue(kernel_, problem_.accumulator, store->operands[0]);
    // Not ReLU: on an H200, engines 0 and 11 of version 9.19 make zeros of NaN.
    if (!epilogue || epilogue->activation != GpuLibraryActivation::kNone) return false;
    GpuLibraryTensor y, z, bias;
    if (!ReadResult(*store, &y)) return false;
    for (const loop::OpId id : epilogue->addends) {
      const Op& load = kernel_.ops[id];
      if (function_.buffers[load.buffer].dtype != output || load.buffer == y.binding) return false;
      const auto place = ReadLinear(load.index);
      if (!place || place->offset < 0) return false;
      bool is_bias = place->strides[static_cast<size_t>(channels_[0])] == 1;
      for (const int i : pixels_) is_bias &= place->strides[static_cast<size_t>(i)] == 0;
      if (is_bias && bias.binding == kNoLibraryBinding) {
        bias.binding = load.buffer;
        bias.offset = place->offset;
      } else if (is_bias || z.binding != kNoLibraryBinding || !ReadResult(load, &z)) {
        return false;
      }
    }
    if (c().x.binding == y.binding || c().w.binding == y.binding) return false;
    c().output_dtype = static_cast<uint32_t>(output);
    c().y = y;
    c().z = z;
    c().bias = bias;
    return true;
  }

  // The sum alone, into memory that a kernel of ours reads for the rest.
  bool Cut() {
    GpuLibraryConvolution& c = this->c();
    plan_.is_cut = true;
    plan_.between = TypeBetween(kernel_, problem_, static_cast<DType>(c.input_dtype));
    c.output_dtype = static_cast<uint32_t>(plan_.between);
    plan_.elements = c.images * c.output_channels * c.output[0] * c.output[1];
    const Op* store = OnlyStoreBehind(kernel_, problem_);
    GpuLibraryTensor y;
    if (PassesThroughResult(function_, kernel_, store, plan_.between) && ReadResult(*store, &y) &&
        y.binding != c.x.binding && y.binding != c.w.binding) {
      c.y = y;
      plan_.place = store->index;
      return true;
    }
    c.y = {};
    c.y.strides[1] = 1;
    c.y.strides[3] = c.output_channels;
    c.y.strides[2] = c.y.strides[3] * c.output[1];
    c.y.strides[0] = c.y.strides[2] * c.output[0];
    plan_.place = exprs_.Const(0);
    for (const auto& [digit, stride] :
         {std::pair(image_, c.y.strides[0]), std::pair(channels_[0], c.y.strides[1]),
          std::pair(axes_[0].output, c.y.strides[2]), std::pair(axes_[1].output, c.y.strides[3])}) {
      if (digit < 0) continue;
      plan_.place =
          exprs_.Add(plan_.place, exprs_.Mul(digits_[digit].symbol, exprs_.Const(stride)));
    }
    return true;
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const Problem& problem_;
  const bool interprets_;
  std::string* why_;
  LibraryPlan plan_;
  std::vector<Digit> digits_;
  std::vector<Expr> ones_;                     // loops that run once
  std::vector<int> channels_, pixels_, sums_;  // digits of the result's channels and so on
  const Op *w_load_ = nullptr, *x_load_ = nullptr;
  int64_t x_offset_ = 0;
  std::vector<Axis> axes_;  // at last rows and columns
  int channel_ = -1, image_ = -1;
};

}  // namespace

std::optional<LibraryPlan> PlanLibraryConvolution(const loop::Function& function,
                                                  const loop::Kernel& kernel,
                                                  const Problem& problem, const Target& target,
                                                  std::string* why) {
  return ConvolutionPlanner(function, kernel, problem, target, why).Plan();
}

}  // namespace halyard::schedule
