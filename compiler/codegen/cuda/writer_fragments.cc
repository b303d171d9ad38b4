// SPDX-License-Identifier: Apache-2.0
// Fragments on mma.sync (PTX ISA, "Matrix multiply-accumulate operation using mma instruction").
// With lane_row = lane / 4 and lane_col = lane % 4, and e elements in a 32-bit word, a workitem
// holds, tile by tile:
//   A, 16 x 8e per tile: word r has row lane_row + (r & 1) * 8 and the e columns from
//     lane_col * e + (r >> 1) * 4e;
//   B, 8e x 8 per tile: word r has column lane_row and the e rows from lane_col * e + r * 4e;
//   accumulator, 16 x 8 per tile: element i has row lane_row + (i >> 1) * 8 and column
//     lane_col * 2 + (i & 1).
// Tiles go by rows first, then by columns; of B by columns first.
#include "compiler/codegen/cuda/writer.h"

namespace halyard::cuda {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::Op;
using kernel::Opcode;
using kernel::Type;

namespace {

size_t PerWord(DType dtype) { return 32 / static_cast<size_t>(BitWidth(dtype)); }

// "lane_row + 8"
std::string Plus(std::string_view base, size_t offset) {
  return offset == 0 ? std::string(base) : fmt::format("{} + {}", base, offset);
}

struct Position {
  std::string row;
  std::string col;
};

// Where register `index` of a fragment lies: its first element.
Position PositionOf(Type type, size_t index) {
  const size_t e = PerWord(type.dtype);
  if (type.use == FragmentUse::kAccumulator) {
    const kernel::FragmentPlace at = kernel::PlaceInFragment(type, 0, static_cast<int>(index));
    return {Plus("lane_row", static_cast<size_t>(at.row)),
            Plus("lane_col * 2", static_cast<size_t>(at.col))};
  }
  const std::string along = fmt::format("lane_col * {}", e);
  if (type.use == FragmentUse::kA) {
    const size_t tiles = type.cols / (8 * e);
    const size_t tile = index / 4;
    const size_t r = index % 4;
    return {Plus("lane_row", tile / tiles * 16 + (r & 1) * 8),
            Plus(along, tile % tiles * 8 * e + (r >> 1) * 4 * e)};
  }
  const size_t tiles = type.rows / (8 * e);
  const size_t tile = index / 2;
  const size_t r = index % 2;
  return {Plus(along, tile % tiles * 8 * e + r * 4 * e), Plus("lane_row", tile / tiles * 8)};
}

}  // namespace

Status KernelWriter::CheckFragment(Type type) const {
  const size_t depth = 8 * PerWord(type.dtype);
  const bool fits = type.use == FragmentUse::kA   ? type.rows % 16 == 0 && type.cols % depth == 0
                    : type.use == FragmentUse::kB ? type.rows % depth == 0 && type.cols % 8 == 0
                                                  : type.rows % 16 == 0 && type.cols % 8 == 0;
  if (!fits) return Lacks("a fragment {} is no multiple of the tiles of mma", FormatType(type));
  if (type.dtype == DType::kBF16 && RegisterType(type) != CTypeOf(type.dtype) &&
      target_.gpu.compute_capability < 80) {
    return Lacks("a fragment {} needs compute capability 8.0; target '{}' has {}.{}",
                 FormatType(type), target_.name, target_.gpu.compute_capability / 10,
                 target_.gpu.compute_capability % 10);
  }
  return OkStatus();
}

Status KernelWriter::WriteFragment(const Op& op) {
  if (op.type.IsFragment()) HY_TRY(CheckFragment(op.type));
  switch (op.opcode) {
    case Opcode::kMmaBegin:
    case Opcode::kMmaAsync:
    case Opcode::kMmaEnd:
      return WriteProducts(op);
    case Opcode::kFragmentFill: {
      std::string word = One(op.operands[0]);
      if (op.type.use != FragmentUse::kAccumulator) {
        word = PackWords(op.type.dtype, Names(PerWord(op.type.dtype), word))[0];
      }
      Names names = NewNames(op.type);
      for (const std::string& name : names) {
        Line("const {} {} = {};", RegisterType(op.type), name, word);
      }
      values_[op.results[0]] = std::move(names);
      return OkStatus();
    }
    case Opcode::kFragmentLoad:
      WriteFragmentLoad(op);
      return OkStatus();
    case Opcode::kFragmentStore:
      WriteFragmentStore(op);
      return OkStatus();
    case Opcode::kFragmentMma:
      WriteMma(op);
      return OkStatus();
    case Opcode::kFragmentElements:  // registers are elements already
      values_[op.results[0]] = At(op.operands[0]);
      return OkStatus();
    case Opcode::kFragmentOf:
      if (op.type.use == FragmentUse::kAccumulator) {
        values_[op.results[0]] = At(op.operands[0]);
      } else {
        Define(op, PackWords(op.type.dtype, At(op.operands[0])));
      }
      return OkStatus();
    default: {
      const DType from = TypeOf(op.operands[0]).dtype;
      const Names& a = At(op.operands[0]);
      const Names& b = At(op.operands.back());
      Names expressions;
      for (size_t i = 0; i < a.size(); ++i) {
        if (op.opcode == Opcode::kConvert) {
          expressions.push_back(ConvertExpression(from, op.type.dtype, a[i]));
          continue;
        }
        HY_ASSIGN(std::string expression, Arithmetic(op.opcode, from, a[i], b[i], a[i]));
        expressions.push_back(std::move(expression));
      }
      Define(op, expressions);
      return OkStatus();
    }
  }
}

// Rows of 16 bytes in workgroup memory, read by ldmatrix, four 8 x 16 byte matrices at once: lane l
// gives the address of row l % 8 of matrix l / 8.
bool KernelWriter::LoadMatrices(const Op& op, const Names& names, const std::string& base) {
  const Type type = op.type;
  const bool by_row = op.immediates[0] == static_cast<int64_t>(FragmentLayout::kRowMajor);
  const bool is_a = type.use == FragmentUse::kA;
  const bool transposed = by_row != is_a;
  const int64_t row_bytes = kernel::AlignOf(op) * BitWidth(type.dtype) / 8;
  if (kernel_.buffers[op.buffer].space != kernel::MemorySpace::kWorkgroup || row_bytes < 16 ||
      names.size() % 4 != 0 || type.use == FragmentUse::kAccumulator ||
      (transposed && BitWidth(type.dtype) != 16)) {
    return false;
  }
  const size_t width = 4 * PerWord(type.dtype);  // elements of a row of one matrix
  const size_t tiles = (is_a ? type.cols : type.rows) / (2 * width);
  // Two tiles of B that follow each other are one below the other or side by side.
  if (!is_a && tiles != 1 && tiles % 2 != 0) return false;
  const std::string& stride = One(op.operands[1]);
  for (size_t first = 0; first < names.size(); first += 4) {
    // The matrices stand in the order of the registers. Of A: 8 rows down, then `width` columns on.
    // Of B: `width` rows down, then 8 columns on; two tiles at once where one is as deep as the
    // fragment, else the next tile below.
    std::string row = "lane % 8";
    std::string col;
    if (is_a) {
      const size_t tile = first / 4;
      row = fmt::format("{} + lane / 8 % 2 * 8", Plus("lane % 8", tile / tiles * 16));
      col = fmt::format("{}", Plus(fmt::format("lane / 16 * {}", width), tile % tiles * 2 * width));
      if (transposed) {
        row = fmt::format("{} + lane / 8 % 2 * 8", tile / tiles * 16);
        col = fmt::format("lane % 8 + lane / 16 * {} + {}", width, tile % tiles * 2 * width);
      }
    } else {
      const size_t tile = first / 2;
      const bool beside = tiles == 1;
      const std::string second = beside ? std::string("lane / 8 % 2 * ") + std::to_string(width)
                                        : fmt::format("lane / 8 * {}", width);
      const std::string depth = Plus(second, tile % tiles * 2 * width);
      const std::string across = Plus(beside ? "lane / 16 * 8" : "0", tile / tiles * 8);
      row = transposed ? fmt::format("lane % 8 + {}", depth) : depth;
      col = transposed ? across : fmt::format("lane % 8 + {}", across);
    }
    const std::string address = by_row
                                    ? fmt::format("{} + ({}) * {} + ({})", base, row, stride, col)
                                    : fmt::format("{} + ({}) + ({}) * {}", base, row, col, stride);
    Line("load_matrices{}({}, {}, {}, {}, {});", transposed ? "_transposed" : "", names[first],
         names[first + 1], names[first + 2], names[first + 3], address);
  }
  return true;
}

void KernelWriter::WriteFragmentLoad(const Op& op) {
  const Type type = op.type;
  const bool by_row = op.immediates[0] == static_cast<int64_t>(FragmentLayout::kRowMajor);
  const bool is_accumulator = type.use == FragmentUse::kAccumulator;
  const std::string& stride = One(op.operands[1]);
  const std::string base = fmt::format("b{} + {}", op.buffer, IndexOf(op.operands[0]));
  const Names names = NewNames(type);
  values_[op.results[0]] = names;
  Line("{} {};", RegisterType(type), fmt::join(names, ", "));
  if (LoadMatrices(op, names, base)) return;
  const size_t per_word = PerWord(type.dtype);
  // The elements of a word follow each other along the common dimension.
  const bool together = by_row == (type.use == FragmentUse::kA);
  // Registers 2i and 2i + 1 of an accumulator are neighbours of a row.
  const bool pairs =
      is_accumulator && by_row && BitWidth(type.dtype) == 32 && kernel::AlignOf(op) >= 2;
  for (size_t i = 0; i < names.size(); i += pairs ? 2 : 1) {
    const Position at = PositionOf(type, i);
    const std::string address =
        by_row ? fmt::format("{} + ({}) * {} + ({})", base, at.row, stride, at.col)
               : fmt::format("{} + ({}) + ({}) * {}", base, at.row, at.col, stride);
    if (pairs) {
      const std::string wide = NewName();
      Line("const w2 {} = *(const w2*)({});", wide, address);
      const Names elements = UnpackWords(type.dtype, {wide + ".x", wide + ".y"}, 2);
      Line("{} = {}; {} = {};", names[i], elements[0], names[i + 1], elements[1]);
    } else if (is_accumulator) {
      Line("{} = *({});", names[i], address);
    } else if (together && kernel::AlignOf(op) >= static_cast<int64_t>(per_word)) {
      Line("{} = *(const u32*)({});", names[i], address);
    } else {
      Line("{} = gather((const {}*)({}), {});", names[i], per_word == 2 ? "u16" : "u8", address,
           together ? "1" : stride);
    }
  }
}

void KernelWriter::WriteFragmentStore(const Op& op) {
  const Type type = TypeOf(op.operands[1]);
  const bool by_row = op.immediates[0] == static_cast<int64_t>(FragmentLayout::kRowMajor);
  const std::string& stride = One(op.operands[2]);
  const std::string base = fmt::format("b{} + {}", op.buffer, IndexOf(op.operands[0]));
  const Names& names = At(op.operands[1]);
  const bool pairs = by_row && kernel::AlignOf(op) >= 2;
  for (size_t i = 0; i < names.size(); i += pairs ? 2 : 1) {
    const Position at = PositionOf(type, i);
    const std::string address =
        by_row ? fmt::format("{} + ({}) * {} + ({})", base, at.row, stride, at.col)
               : fmt::format("{} + ({}) + ({}) * {}", base, at.row, at.col, stride);
    if (!pairs) {
      Line("*({}) = {};", address, names[i]);
      continue;
    }
    const Names words = PackWords(type.dtype, {names[i], names[i + 1]});
    if (words.size() == 2) {
      Line("*(w2*)({}) = w2{{{}, {}}};", address, words[0], words[1]);
    } else {
      Line("*(u32*)({}) = {};", address, words[0]);
    }
  }
}

void KernelWriter::WriteMma(const Op& op) {
  const Type a_type = TypeOf(op.operands[0]);
  const Names& a = At(op.operands[0]);
  const Names& b = At(op.operands[1]);
  const Names& c = At(op.operands[2]);
  const Names names = NewNames(op.type);
  for (size_t i = 0; i < names.size(); ++i) {
    Line("{} {} = {};", RegisterType(op.type), names[i], c[i]);
  }
  values_[op.results[0]] = names;
  const size_t depth = a_type.cols / (8 * PerWord(a_type.dtype));
  const size_t across = op.type.cols / 8u;
  for (size_t row = 0; row < op.type.rows / 16u; ++row) {
    for (size_t col = 0; col < across; ++col) {
      const size_t to = (row * across + col) * 4;
      for (size_t k = 0; k < depth; ++k) {
        const size_t left = (row * depth + k) * 4;
        const size_t right = (col * depth + k) * 2;
        Line("mma_{}({}, {}, {}, {}, {}, {}, {}, {}, {}, {});", FormatDType(a_type.dtype),
             names[to], names[to + 1], names[to + 2], names[to + 3], a[left], a[left + 1],
             a[left + 2], a[left + 3], b[right], b[right + 1]);
      }
    }
  }
}

}  // namespace halyard::cuda
