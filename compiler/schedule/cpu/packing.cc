// SPDX-License-Identifier: Apache-2.0
// Panel packing of constant operands: its name, its size and the copy.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/float16.h"
#include "compiler/schedule/cpu/contraction.h"

namespace halyard::schedule {
namespace {

using Digits = std::vector<std::pair<int64_t, int64_t>>;

std::string FormatDigits(const Digits& digits) {
  std::string text;
  for (auto [extent, stride] : digits)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", extent, stride);
  return "[" + text + "]";
}

bool ReadInt(std::string_view text, int64_t* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadDigits(std::string_view text, Digits* digits) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    size_t colon = item.find(':');
    int64_t extent = 0, stride = 0;
    if (colon == std::string_view::npos || !ReadInt(item.substr(0, colon), &extent) ||
        !ReadInt(item.substr(colon + 1), &stride) || extent < 0)
      return false;
    digits->emplace_back(extent, stride);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return true;
}

// Element offsets of all combinations, in row-major order. False on overflow or beyond `limit`
// entries.
bool Offsets(const Digits& digits, int64_t limit, std::vector<int64_t>* out) {
  *out = {0};
  for (auto [extent, stride] : digits) {
    std::vector<int64_t> next;
    if (extent != 0 && static_cast<int64_t>(out->size()) > limit / extent) return false;
    next.reserve(out->size() * static_cast<size_t>(extent));
    for (int64_t base : *out) {
      for (int64_t i = 0; i < extent; ++i) {
        int64_t step = 0, at = 0;
        if (__builtin_mul_overflow(i, stride, &step) || __builtin_add_overflow(base, step, &at))
          return false;
        next.push_back(at);
      }
    }
    *out = std::move(next);
  }
  return true;
}

bool Product(const Digits& digits, int64_t* product) {
  for (auto [extent, stride] : digits)
    if (__builtin_mul_overflow(*product, extent, product)) return false;
  return true;
}

constexpr int64_t kMaxEntries = int64_t{1} << 32;

}  // namespace

std::string FormatPacking(const PanelPacking& packing) {
  return fmt::format("panels dtype={} width={} offset={} b={} v={} k={}",
                     FormatDType(packing.dtype), packing.width, packing.offset,
                     FormatDigits(packing.batch), FormatDigits(packing.v), FormatDigits(packing.k));
}

Result<PanelPacking> ParsePacking(std::string_view text) {
  PanelPacking packing;
  std::string_view rest = text;
  int fields = 0;
  bool ok = rest.substr(0, 7) == "panels ";
  rest = ok ? rest.substr(7) : std::string_view();
  while (ok && !rest.empty()) {
    size_t space = rest.find(' ');
    std::string_view word = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
    size_t equal = word.find('=');
    if (equal == std::string_view::npos) {
      ok = false;
      break;
    }
    std::string_view name = word.substr(0, equal), value = word.substr(equal + 1);
    ++fields;
    if (name == "dtype") {
      Result<DType> dtype = ParseDType(value);
      ok = dtype.ok();
      if (ok) packing.dtype = *dtype;
    } else if (name == "width") {
      ok = ReadInt(value, &packing.width) && packing.width >= 1 && packing.width <= 4096;
    } else if (name == "offset") {
      ok = ReadInt(value, &packing.offset);
    } else if (name == "b") {
      ok = ReadDigits(value, &packing.batch);
    } else if (name == "v") {
      ok = ReadDigits(value, &packing.v);
    } else if (name == "k") {
      ok = ReadDigits(value, &packing.k);
    } else {
      ok = false;
    }
  }
  if (!ok || fields != 6 || BitWidth(packing.dtype) % 8 != 0 || packing.dtype == DType::kInvalid)
    return InvalidArgument("'{}' is no packing that this compiler makes.", text);
  return packing;
}

Result<int64_t> PackedBytes(const PanelPacking& packing) {
  int64_t v = 1, total = BitWidth(packing.dtype) / 8;
  bool ok = Product(packing.v, &v) && v <= INT64_MAX - packing.width;
  if (ok) {
    int64_t padded = (v + packing.width - 1) / packing.width * packing.width;
    ok = !__builtin_mul_overflow(total, padded, &total) && Product(packing.batch, &total) &&
         Product(packing.k, &total);
  }
  if (!ok)
    return OutOfRange("Packing '{}' overflows the size of a buffer.", FormatPacking(packing));
  return total;
}

namespace {

// What a library takes in f32 only.
std::vector<uint8_t> Widen(std::span<const uint8_t> source, float (*convert)(uint16_t)) {
  std::vector<uint8_t> wide(source.size() / 2 * sizeof(float));
  for (size_t i = 0; i * 2 + 1 < source.size(); ++i) {
    uint16_t narrow = 0;
    std::memcpy(&narrow, source.data() + i * 2, sizeof(narrow));
    const float value = convert(narrow);
    std::memcpy(wide.data() + i * sizeof(value), &value, sizeof(value));
  }
  return wide;
}

}  // namespace

Result<std::vector<uint8_t>> PackConstant(std::string_view name, std::span<const uint8_t> source) {
  if (name == "f32 from f16") return Widen(source, F32FromF16);
  if (name == "f32 from bf16") return Widen(source, F32FromBF16);
  HY_ASSIGN(PanelPacking packing, ParsePacking(name));
  HY_ASSIGN(int64_t bytes, PackedBytes(packing));
  std::vector<int64_t> batch, v, k;
  if (!Offsets(packing.batch, kMaxEntries, &batch) || !Offsets(packing.v, kMaxEntries, &v) ||
      !Offsets(packing.k, kMaxEntries, &k))
    return OutOfRange("Packing '{}' has offsets beyond any buffer.", name);
  auto size = static_cast<int64_t>(BitWidth(packing.dtype) / 8);
  int64_t elements = static_cast<int64_t>(source.size()) / size;
  std::vector<uint8_t> packed(static_cast<size_t>(bytes));
  if (bytes == 0) return packed;
  // The extremes of a sum of independent digits are reached together, so two checks cover every
  // element.
  auto lowest = [](const std::vector<int64_t>& x) { return *std::min_element(x.begin(), x.end()); };
  auto highest = [](const std::vector<int64_t>& x) {
    return *std::max_element(x.begin(), x.end());
  };
  int64_t low = packing.offset, high = packing.offset;
  bool overflow = false;
  for (const auto* offsets : {&batch, &v, &k}) {
    overflow |= __builtin_add_overflow(low, lowest(*offsets), &low);
    overflow |= __builtin_add_overflow(high, highest(*offsets), &high);
  }
  if (overflow || low < 0 || high >= elements)
    return OutOfRange("Packing '{}' reads elements {} to {} of a constant with {}.", name, low,
                      high, elements);
  auto copy = [&](auto element) {
    using T = decltype(element);
    T* to = reinterpret_cast<T*>(packed.data());
    auto width = static_cast<size_t>(packing.width);
    for (int64_t base : batch) {
      for (size_t v0 = 0; v0 < v.size(); v0 += width) {
        size_t count = std::min(width, v.size() - v0);
        for (int64_t at : k) {
          for (size_t i = 0; i < count; ++i)
            std::memcpy(to + i, source.data() + (packing.offset + base + at + v[v0 + i]) * size,
                        sizeof(T));
          to += width;
        }
      }
    }
  };
  switch (size) {
    case 1:
      copy(uint8_t{});
      break;
    case 2:
      copy(uint16_t{});
      break;
    case 4:
      copy(uint32_t{});
      break;
    default:
      copy(uint64_t{});
      break;
  }
  return packed;
}

std::optional<PanelPacking> PackingOf(const loop::Function& function, const loop::Kernel& kernel,
                                      const Problem& problem, bool swap, int64_t width) {
  const Factor& factor = swap ? problem.a : problem.b;
  const Side& side = swap ? problem.m : problem.n;
  if (factor.load == loop::kNone) return std::nullopt;
  const loop::Op& load = kernel.ops[factor.load];
  const loop::Buffer& buffer = function.buffers[load.buffer];
  if (buffer.role != loop::BufferRole::kConstant || BitWidth(buffer.dtype) % 8 != 0)
    return std::nullopt;
  ExprArena& exprs = *function.exprs;
  PanelPacking packing;
  packing.dtype = buffer.dtype;
  packing.width = width;
  Expr rest = load.index;
  auto take = [&](const Side& from, Digits* digits, bool only_used) {
    for (auto [symbol, extent] : from.digits) {
      std::optional<Expr> stride = exprs.StrideOf(rest, symbol);
      if (!stride || !exprs.AsConst(*stride)) return false;
      int64_t step = exprs.AsConst(*stride).value_or(0);
      if (only_used && step == 0) continue;  // broadcast over the batch: one copy
      if (!exprs.AsConst(extent)) return false;
      digits->emplace_back(exprs.AsConst(extent).value_or(0), step);
      std::pair<Expr, Expr> zero(symbol, exprs.Const(0));
      rest = exprs.Substitute(rest, {&zero, 1});
    }
    return true;
  };
  if (!take(problem.batch, &packing.batch, true) || !take(side, &packing.v, false) ||
      !take(problem.k, &packing.k, false))
    return std::nullopt;
  std::optional<int64_t> offset = exprs.AsConst(rest);
  if (!offset) return std::nullopt;
  packing.offset = *offset;
  if (!PackedBytes(packing).ok()) return std::nullopt;
  return packing;
}

}  // namespace halyard::schedule
