// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/ops/op_examples.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "base/check.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/printer.h"
#include "compiler/ops/op_def.h"

namespace halyard::graph {
namespace {

using Dims = std::vector<int64_t>;

constexpr DType kFloatTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
constexpr DType kIntegerTypes[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                                   DType::kU8, DType::kU16, DType::kU32, DType::kU64};

// One unit in the last place, relative.
double UnitOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    default:
      return 0;
  }
}

class Matrix {
 public:
  Matrix(uint64_t seed, std::string_view only_op, DType only_dtype)
      : random_(seed), only_op_(only_op), only_dtype_(only_dtype) {}

  // Adds an example whose operands are parameters of these shapes. `units`: the tolerance in units
  // in the last place; 0 is exact.
  void Add(std::string_view op, DType dtype, const std::vector<std::pair<DType, Dims>>& operands,
           const Attributes& attributes, double units, double low, double high,
           double absolute = 0) {
    if ((!only_op_.empty() && op != only_op_) ||
        (only_dtype_ != DType::kInvalid && dtype != only_dtype_)) {
      return;
    }
    Module module;
    Builder builder(module);
    std::vector<ValueId> values;
    OpExample example;
    std::string shapes;
    for (const auto& [operand_dtype, dims] : operands) {
      TensorType type{operand_dtype, {}};
      for (const int64_t dim : dims) type.dims.push_back(module.exprs.Const(dim));
      shapes += "/" + FormatType(module.exprs, type);
      Result<ValueId> value = builder.AddParameter("x", type);
      HY_CHECK(value.ok(), "{}", value.status().ToString());
      values.push_back(*value);
      example.inputs.push_back(Random(operand_dtype, dims, low, high));
    }
    builder.SetNodeName("tested");
    Attributes bound = attributes;
    Result<std::vector<ValueId>> results = builder.Add(op, values, Rebind(module, op, bound));
    HY_CHECK(results.ok(), "{}: {}", op, results.status().ToString());
    HY_CHECK(builder.SetResults(*results).ok());
    example.op = op;
    example.dtype = dtype;
    example.text = PrintModule(module);
    example.name = std::string(op) + shapes;
    for (const auto& [name, attribute] : bound) {
      example.name += "/" + name + "=" + FormatAttribute(module.exprs, attribute);
    }
    example.relative = units * UnitOf(dtype);
    example.absolute = absolute * UnitOf(dtype);
    examples_.push_back(std::move(example));
  }

  // Index operands must lie in [-extent, extent), those that do not wrap in [0, extent).
  void SetIndices(size_t operand, int64_t extent, bool wraps = true) {
    if (examples_.empty()) return;
    Tensor& indices = examples_.back().inputs[operand];
    std::uniform_int_distribution<int64_t> pick(wraps ? -extent : 0, extent - 1);
    for (int64_t i = 0; i < indices.elements(); ++i) StoreInt(indices, i, pick(random_));
  }
  size_t count() const { return examples_.size(); }
  std::vector<OpExample> Take() { return std::move(examples_); }

  // Expressions of constants, as lists of integers until there is a module to make them in.
  static Attribute Constants(const Dims& values) { return Attribute(values); }

 private:
  // Turns the lists that stand for expressions ("shape", "starts", ...) into expressions.
  const Attributes& Rebind(Module& module, std::string_view op, Attributes& attributes) {
    for (auto& [name, attribute] : attributes) {
      const bool is_exprs = op == "symbolic" ? name == "values"
                                             : name == "shape" || name == "starts" ||
                                                   name == "sizes" || name == "low" ||
                                                   name == "high" || name == "k" || name == "size";
      const Dims* values = std::get_if<Dims>(&attribute);
      if (!is_exprs || values == nullptr) continue;
      std::vector<Expr> exprs;
      for (const int64_t value : *values) exprs.push_back(module.exprs.Const(value));
      attribute = exprs;
    }
    return attributes;
  }

  Tensor Random(DType dtype, const Dims& dims, double low, double high) {
    Tensor tensor = *MakeTensor(dtype, dims);
    std::uniform_real_distribution<double> real(low, high);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const double value = real(random_);
      if (IsFloat(dtype)) {
        StoreFloat(tensor, i, value);
      } else if (dtype == DType::kBool) {
        StoreInt(tensor, i, value > (low + high) / 2);
      } else {
        // Mostly small numbers, now and then any bits.
        const bool is_any = random_() % 4 == 0;
        StoreInt(tensor, i,
                 is_any ? static_cast<int64_t>(random_()) : static_cast<int64_t>(value * 3));
      }
    }
    return tensor;
  }

  std::mt19937_64 random_;
  std::string only_op_;
  DType only_dtype_;
  std::vector<OpExample> examples_;
};

const Dims kShapes[] = {{}, {1}, {0, 3}, {7, 13}, {2, 1, 5}, {257}};

void AddElementwise(Matrix& matrix) {
  struct Row {
    std::string_view op;
    double low, high, units, absolute;
  };
  // Exact where IEEE says so; 4 units for functions, as generated code may approximate; the
  // absolute part is for zeros of the function that are not at zero (log at 1, sin and cos at
  // multiples of pi).
  const Row kUnary[] = {
      {"neg", -9, 9, 0, 0},    {"abs", -9, 9, 0, 0},       {"sqrt", 0, 9, 0, 0},
      {"rsqrt", 0.1, 9, 4, 0}, {"exp", -9, 9, 4, 0},       {"log", 0.1, 9, 4, 4},
      {"sin", -9, 9, 4, 4},    {"cos", -9, 9, 4, 4},       {"tan", -1, 1, 4, 0},
      {"asin", -1, 1, 4, 0},   {"acos", -1, 1, 4, 4},      {"atan", -9, 9, 4, 0},
      {"sinh", -5, 5, 4, 0},   {"cosh", -5, 5, 4, 0},      {"tanh", -5, 5, 4, 0},
      {"asinh", -9, 9, 4, 0},  {"acosh", 1.1, 9, 4, 0},    {"atanh", -0.9, 0.9, 4, 0},
      {"erf", -3, 3, 4, 0},    {"floor", -9, 9, 0, 0},     {"ceil", -9, 9, 0, 0},
      {"trunc", -9, 9, 0, 0},  {"round_even", -9, 9, 0, 0}};
  for (const Dims& shape : kShapes) {
    for (const DType dtype : kFloatTypes) {
      for (const Row& row : kUnary) {
        matrix.Add(row.op, dtype, {{dtype, shape}}, {}, row.units, row.low, row.high, row.absolute);
      }
      for (const std::string_view op : {"add", "sub", "mul", "div", "min", "max"}) {
        matrix.Add(op, dtype, {{dtype, shape}, {dtype, shape}}, {}, 0, -9, 9);
      }
      matrix.Add("rem", dtype, {{dtype, shape}, {dtype, shape}}, {}, 0, 0.5, 9);
      matrix.Add("pow", dtype, {{dtype, shape}, {dtype, shape}}, {}, 16, 0.1, 4);
    }
    // Quotients far beyond the mantissa, and of both signs.
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      matrix.Add("rem", dtype, {{dtype, shape}, {dtype, shape}}, {}, 0, -60000, 60000);
    }
    for (const DType dtype : kIntegerTypes) {
      const bool is_signed = IsSigned(dtype);
      matrix.Add("pow", dtype, {{dtype, shape}, {dtype, shape}}, {}, 0, is_signed ? -3 : 0, 9);
      for (const std::string_view op :
           {"add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr"}) {
        matrix.Add(op, dtype, {{dtype, shape}, {dtype, shape}}, {}, 0, is_signed ? -9 : 0, 9);
      }
      matrix.Add("not", dtype, {{dtype, shape}}, {}, 0, 0, 9);
      matrix.Add("abs", dtype, {{dtype, shape}}, {}, 0, -9, 9);
      if (is_signed) matrix.Add("neg", dtype, {{dtype, shape}}, {}, 0, -9, 9);
    }
    for (const std::string_view op : {"and", "or", "xor", "eq", "ne"}) {
      matrix.Add(op, DType::kBool, {{DType::kBool, shape}, {DType::kBool, shape}}, {}, 0, 0, 1);
    }
    matrix.Add("not", DType::kBool, {{DType::kBool, shape}}, {}, 0, 0, 1);
    const auto add_selection = [&](DType dtype) {
      for (const std::string_view op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
        matrix.Add(op, dtype, {{dtype, shape}, {dtype, shape}}, {}, 0, -2, 2);
      }
      matrix.Add("select", dtype, {{DType::kBool, shape}, {dtype, shape}, {dtype, shape}}, {}, 0,
                 -9, 9);
      for (const DType to :
           {DType::kF32, DType::kF16, DType::kI8, DType::kI64, DType::kU8, DType::kBool}) {
        matrix.Add("cast", dtype, {{dtype, shape}}, {{"dtype", to}}, 0, -300, 300);
      }
    };
    for (const DType dtype : kFloatTypes) add_selection(dtype);
    for (const DType dtype : kIntegerTypes) add_selection(dtype);
    // Between types of one size, every two of them.
    const auto is_other = [](DType a, DType b) { return a != b && BitWidth(a) == BitWidth(b); };
    std::vector<DType> types(std::begin(kFloatTypes), std::end(kFloatTypes));
    types.insert(types.end(), std::begin(kIntegerTypes), std::end(kIntegerTypes));
    for (const DType from : types) {
      for (const DType to : types) {
        if (is_other(from, to))
          matrix.Add("bitcast", from, {{from, shape}}, {{"dtype", to}}, 0, -9, 9);
      }
    }
  }
}

void AddViews(Matrix& matrix, DType dtype) {
  const auto exprs = Matrix::Constants;
  const auto add = [&](std::string_view op, const Dims& x, const Attributes& attributes) {
    matrix.Add(op, dtype, {{dtype, x}}, attributes, 0, -9, 9);
  };
  add("broadcast", {3, 1}, {{"shape", exprs({2, 3, 5})}});
  add("broadcast", {}, {{"shape", exprs({7})}});
  add("broadcast", {1, 0}, {{"shape", exprs({4, 0})}});
  add("reshape", {6, 35}, {{"shape", exprs({7, 30})}});
  add("reshape", {0, 3}, {{"shape", exprs({0, 5})}});
  add("transpose", {7, 13}, {{"perm", Dims{1, 0}}});
  add("transpose", {2, 3, 5, 7}, {{"perm", Dims{2, 0, 3, 1}}});
  add("slice", {11, 7},
      {{"starts", exprs({10, 1})}, {"sizes", exprs({4, 3})}, {"steps", Dims{-3, 2}}});
  add("slice", {5}, {{"starts", exprs({5})}, {"sizes", exprs({0})}, {"steps", Dims{1}}});
  for (const std::string_view mode : {"constant", "edge", "reflect", "wrap"}) {
    add("pad", {3, 5},
        {{"low", exprs({1, 2})}, {"high", exprs({2, 0})}, {"mode", std::string(mode)}});
  }
  matrix.Add("concat", dtype, {{dtype, {3, 2}}, {dtype, {3, 0}}, {dtype, {3, 5}}},
             {{"axis", int64_t{1}}}, 0, -9, 9);
  for (const DType index : {DType::kI32, DType::kI64}) {
    size_t before = matrix.count();
    matrix.Add("gather", dtype, {{dtype, {7, 5}}, {index, {3, 2}}}, {{"axis", int64_t{0}}}, 0, -9,
               9);
    if (matrix.count() > before) matrix.SetIndices(1, 7);
    before = matrix.count();
    matrix.Add("gather", dtype, {{dtype, {2, 11, 3}}, {index, {}}}, {{"axis", int64_t{1}}}, 0, -9,
               9);
    if (matrix.count() > before) matrix.SetIndices(1, 11);
    before = matrix.count();
    matrix.Add("gather_elements", dtype, {{dtype, {7, 5}}, {index, {3, 5}}}, {{"axis", int64_t{0}}},
               0, -9, 9);
    if (matrix.count() > before) matrix.SetIndices(1, 7);
    before = matrix.count();
    matrix.Add("gather_nd", dtype, {{dtype, {5, 5, 3}}, {index, {7, 2}}}, {}, 0, -9, 9);
    if (matrix.count() > before) matrix.SetIndices(1, 5);
    if (dtype != index) continue;
    before = matrix.count();
    matrix.Add("check_index", dtype, {{dtype, {7, 5}}}, {{"size", Matrix::Constants({11})}}, 0, 0,
               9);
    if (matrix.count() > before) matrix.SetIndices(0, 11, false);
  }
}

void AddReductions(Matrix& matrix, DType dtype) {
  const bool is_float = IsFloat(dtype);
  const double units = is_float ? 32 : 0;
  for (const std::string_view op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"}) {
    // Sums of up to 91 terms of one sign differ by order in at most that many half units; less on
    // average.
    const bool is_exact = op == "reduce_max" || op == "reduce_min";
    for (const auto& [shape, axes] : std::vector<std::pair<Dims, Dims>>{{{7, 13}, {1}},
                                                                        {{7, 13}, {0}},
                                                                        {{7, 13}, {0, 1}},
                                                                        {{2, 3, 5}, {0, 2}},
                                                                        {{0, 3}, {0}},
                                                                        {{3, 0}, {0}},
                                                                        {{5}, {}},
                                                                        {{1, 257}, {1}}}) {
      const int64_t keep = axes.size() == 2 ? 1 : 0;
      matrix.Add(op, dtype, {{dtype, shape}}, {{"axes", axes}, {"keep_dims", keep}},
                 is_exact ? 0 : units * 4, 0.5, 1.5);
    }
  }
  for (const std::string_view op : {"argmax", "argmin"}) {
    for (int64_t last = 0; last < 2; ++last) {
      matrix.Add(op, dtype, {{dtype, {3, 17}}}, {{"axis", int64_t{1}}, {"select_last", last}}, 0,
                 -3, 3);
    }
  }
  for (int64_t flags = 0; flags < 4; ++flags) {
    matrix.Add("cumsum", dtype, {{dtype, {5, 11}}},
               {{"axis", int64_t{1}}, {"exclusive", flags & 1}, {"reverse", flags >> 1}}, units,
               0.5, 1.5);
  }
}

// Of few elements each, so that both results occur.
void AddLogicalReductions(Matrix& matrix) {
  for (const std::string_view op : {"reduce_any", "reduce_all"}) {
    for (const auto& [shape, axes] : std::vector<std::pair<Dims, Dims>>{{{31, 2}, {1}},
                                                                        {{3, 23}, {0}},
                                                                        {{2, 9, 2}, {0, 2}},
                                                                        {{0, 3}, {0}},
                                                                        {{3, 0}, {0}},
                                                                        {{5}, {}},
                                                                        {{1, 257}, {1}}}) {
      const int64_t keep = axes.size() == 2 ? 1 : 0;
      matrix.Add(op, DType::kBool, {{DType::kBool, shape}}, {{"axes", axes}, {"keep_dims", keep}},
                 0, 0, 1);
    }
  }
}

// What has no operand.
void AddSources(Matrix& matrix, DType dtype) {
  const auto iota = [&](const Dims& shape, int64_t axis) {
    matrix.Add("iota", dtype, {},
               {{"shape", Matrix::Constants(shape)}, {"axis", axis}, {"dtype", dtype}}, 0, 0, 1);
  };
  iota({100}, 0);
  iota({3, 1, 17}, 2);
  iota({7, 5}, 0);
  iota({2, 0}, 1);
  if (dtype != DType::kI32 && dtype != DType::kI64) return;
  for (const Dims& shape : {Dims{3}, Dims{}}) {
    matrix.Add("symbolic", dtype, {},
               {{"values", Matrix::Constants(shape.empty() ? Dims{-7} : Dims{5, 0, -2147483647})},
                {"shape", shape},
                {"dtype", dtype}},
               0, 0, 1);
  }
}

void AddTemplates(Matrix& matrix, DType dtype) {
  // Signed terms: the error is relative to the sum of magnitudes, hence absolute.
  const auto matmul = [&](const Dims& a, const Dims& b, int64_t ta, int64_t tb, double k) {
    matrix.Add("matmul", dtype, {{dtype, a}, {dtype, b}},
               {{"transpose_a", ta}, {"transpose_b", tb}}, 4, -1, 1, 4 * k);
  };
  matmul({7, 5}, {5, 3}, 0, 0, 5);
  matmul({1, 64}, {64, 33}, 0, 0, 64);
  matmul({13, 17}, {13, 5}, 1, 0, 13);
  matmul({13, 17}, {5, 17}, 0, 1, 17);
  matmul({17, 13}, {5, 17}, 1, 1, 17);
  matmul({2, 3, 7, 5}, {2, 3, 5, 4}, 0, 0, 5);
  matmul({3, 7, 5}, {5, 4}, 0, 0, 5);
  matmul({7, 5}, {3, 5, 4}, 0, 0, 5);
  matmul({3, 0}, {0, 4}, 0, 0, 1);
  if (!IsFloat(dtype)) return;
  const auto windows = [](const Dims& strides, const Dims& low, const Dims& high,
                          const Dims& dilations) {
    return Attributes{
        {"strides", strides}, {"pads_low", low}, {"pads_high", high}, {"dilations", dilations}};
  };
  const auto conv = [&](std::string_view op, const Dims& x, const Dims& w, Attributes attributes,
                        int64_t groups) {
    attributes["groups"] = groups;
    matrix.Add(op, dtype, {{dtype, x}, {dtype, w}}, attributes, 4, -1, 1, 4 * 64);
  };
  conv("conv", {2, 3, 7, 9}, {5, 3, 3, 3}, windows({1, 1}, {1, 1}, {1, 1}, {1, 1}), 1);
  conv("conv", {1, 4, 11, 8}, {6, 2, 3, 2}, windows({2, 3}, {1, 0}, {0, 2}, {2, 1}), 2);
  conv("conv", {1, 5, 13, 13}, {5, 1, 3, 3}, windows({1, 2}, {1, 1}, {1, 1}, {1, 1}), 5);
  conv("conv", {2, 8, 1, 1}, {3, 8, 1, 1}, windows({1, 1}, {0, 0}, {0, 0}, {1, 1}), 1);
  conv("conv", {1, 2, 17}, {3, 2, 5}, windows({2}, {2}, {1}, {1}), 1);
  conv("conv_transpose", {1, 2, 5, 4}, {2, 3, 3, 3}, windows({2, 2}, {1, 1}, {1, 1}, {1, 1}), 1);
  conv("conv_transpose", {1, 4, 7}, {4, 1, 4}, windows({3}, {0}, {1}, {1}), 2);
  Attributes padded = windows({2, 3}, {1, 2}, {2, 1}, {2, 1});
  padded["output_padding"] = Dims{1, 2};
  conv("conv_transpose", {2, 6, 4, 5}, {6, 2, 3, 2}, padded, 3);
  for (const std::string_view op : {"max_pool", "avg_pool"}) {
    Attributes attributes = windows({2, 1}, {1, 0}, {0, 1}, {1, 2});
    attributes["window"] = Dims{3, 2};
    matrix.Add(op, dtype, {{dtype, {2, 3, 9, 7}}}, attributes, op == "max_pool" ? 0 : 16, 0.5, 1.5);
  }
  for (const std::string_view mode : {"nearest", "linear", "cubic"}) {
    for (const std::string_view coordinates : {"half_pixel", "align_corners", "asymmetric",
                                               "half_pixel_symmetric", "pytorch_half_pixel"}) {
      matrix.Add("resize", dtype, {{dtype, {1, 2, 5, 3}}},
                 {{"sizes", Matrix::Constants({1, 2, 7, 6})},
                  {"mode", std::string(mode)},
                  {"coordinates", std::string(coordinates)}},
                 mode == "nearest" ? 0 : 8, -1, 1, mode == "nearest" ? 0 : 64);
    }
    matrix.Add("resize", dtype, {{dtype, {2, 5, 3}}},
               {{"sizes", Matrix::Constants({2, 2, 1})},
                {"mode", std::string(mode)},
                {"rounding", std::string("round_prefer_ceil")},
                {"exclude_outside", int64_t{1}},
                {"scales", std::vector<double>{1, 0.45, 0.4}}},
               mode == "nearest" ? 0 : 8, -1, 1, mode == "nearest" ? 0 : 64);
  }
  // q, k, v within [-1, 1]: scores stay near 0 and the result is a mean of values.
  const auto attention = [&](const Dims& q, const Dims& k, const Dims& v, const Dims& mask,
                             int64_t causal, int64_t nan_to_zero = 0) {
    std::vector<std::pair<DType, Dims>> operands = {{dtype, q}, {dtype, k}, {dtype, v}};
    if (!mask.empty()) operands.push_back({dtype, mask});
    matrix.Add("attention", dtype, operands,
               {{"scale", 0.25}, {"causal", causal}, {"nan_to_zero", nan_to_zero}}, 16, -1, 1, 32);
  };
  // More queries than keys: the first ones see nothing.
  attention({1, 2, 5, 4}, {1, 2, 3, 4}, {1, 2, 3, 20}, {}, 1, 1);
  attention({2, 3, 5, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}, {}, 0);
  attention({1, 4, 7, 4}, {1, 2, 11, 4}, {1, 2, 11, 3}, {1, 1, 7, 11}, 0);
  attention({1, 2, 5, 4}, {1, 2, 9, 4}, {1, 2, 9, 4}, {}, 1);
  attention({2, 1, 1, 4}, {2, 1, 3, 4}, {2, 1, 3, 4}, {2, 1, 1, 3}, 0);
}

void AddScatters(Matrix& matrix, DType dtype) {
  for (const std::string_view reduction : {"none", "add", "mul", "min", "max"}) {
    if (dtype == DType::kBool && reduction != "none") continue;
    for (const DType index : {DType::kI32, DType::kI64}) {
      const Attributes mode = {{"reduction", std::string(reduction)}};
      // Five rows into three: some are named twice.
      Attributes along = mode;
      along["axis"] = int64_t{0};
      const double units = IsFloat(dtype) && reduction != "none" ? 8 : 0;
      size_t before = matrix.count();
      matrix.Add("scatter_elements", dtype, {{dtype, {3, 7}}, {index, {5, 6}}, {dtype, {5, 6}}},
                 along, units, 0.5, 1.5);
      if (matrix.count() > before) matrix.SetIndices(1, 3);
      before = matrix.count();
      matrix.Add("scatter_nd", dtype, {{dtype, {4, 4, 3}}, {index, {7, 2}}, {dtype, {7, 3}}}, mode,
                 units, 0.5, 1.5);
      if (matrix.count() > before) matrix.SetIndices(1, 4);
    }
  }
}

void AddOrdering(Matrix& matrix, DType dtype) {
  for (int64_t flag = 0; flag < 2; ++flag) {
    matrix.Add("sort", dtype, {{dtype, {3, 17}}}, {{"axis", int64_t{1}}, {"descending", flag}}, 0,
               -3, 3);
    matrix.Add("topk", dtype, {{dtype, {17, 2}}},
               {{"axis", int64_t{0}}, {"k", Matrix::Constants({5})}, {"largest", flag}}, 0, -3, 3);
  }
}

}  // namespace

std::vector<OpExample> OpExamplesOf(std::string_view op, uint64_t seed, DType dtype) {
  Matrix matrix(seed, op, dtype);
  AddElementwise(matrix);
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kI8, DType::kI32,
                           DType::kI64, DType::kU8, DType::kBool}) {
    AddViews(matrix, type);
    AddScatters(matrix, type);
    if (type == DType::kBool) continue;
    AddReductions(matrix, type);
    AddSources(matrix, type);
    AddTemplates(matrix, type);
    AddOrdering(matrix, type);
  }
  AddLogicalReductions(matrix);
  for (const Dims& shape : kShapes) {
    matrix.Add("random_bits", DType::kU64, {{DType::kU64, {}}},
               {{"shape", Matrix::Constants(shape)}, {"stream", int64_t{0x123456789abc}}}, 0, 0, 9);
    matrix.Add("shape_of", DType::kF32, {{DType::kF32, shape}}, {}, 0, -9, 9);
  }
  return matrix.Take();
}

std::vector<OpExample> AllOpExamples(uint64_t seed, DType dtype) {
  return OpExamplesOf("", seed, dtype);
}

namespace {

// The elements of `tensor` over and over in other dims, so that indices stay what they may be.
Tensor Repeated(const Tensor& tensor, const Dims& dims) {
  Tensor result = *MakeTensor(tensor.dtype, dims);
  const int64_t count = tensor.elements();
  for (int64_t i = 0; i < result.elements() && count > 0; ++i) {
    if (IsFloat(tensor.dtype)) {
      StoreFloat(result, i, LoadFloat(tensor, i % count));
    } else {
      StoreInt(result, i, LoadInt(tensor, i % count));
    }
  }
  return result;
}

// The example with a symbol wherever an operand or an attribute has the extent; nothing where the
// op has another use for one of them.
std::optional<OpExample> WithSymbolFor(const OpExample& example, int64_t extent) {
  const Result<Module> fixed = ParseModule(example.text);
  HY_CHECK(fixed.ok(), "{}", fixed.status().ToString());
  Module module;
  AddGraph(module, "main");
  Builder builder(module);
  const Expr symbol = module.exprs.Dim(fmt::format("n{}", extent));
  const auto opened = [&](int64_t size) {
    return size == extent ? symbol : module.exprs.Const(size);
  };
  std::vector<ValueId> operands;
  for (const Tensor& input : example.inputs) {
    TensorType type{input.dtype, {}};
    for (const int64_t dim : input.dims) type.dims.push_back(opened(dim));
    const Result<ValueId> value = builder.AddParameter("x", type);
    HY_CHECK(value.ok(), "{}", value.status().ToString());
    operands.push_back(*value);
  }
  const Node& node = fixed->nodes[fixed->entry().nodes[0]];
  Attributes attributes = node.attributes;
  for (auto& [name, attribute] : attributes) {
    auto* exprs = std::get_if<std::vector<Expr>>(&attribute);
    if (exprs == nullptr) continue;
    for (Expr& expr : *exprs) expr = opened(*fixed->exprs.AsConst(expr));
  }
  builder.SetNodeName("tested");
  const Result<std::vector<ValueId>> results =
      builder.Add(example.op, operands, std::move(attributes));
  if (!results.ok() || !builder.SetResults(*results).ok()) return std::nullopt;
  OpExample open = example;
  open.text = PrintModule(module);
  open.name += fmt::format("/n{}", extent);
  if (!Interpret(module, open.inputs).ok()) return std::nullopt;
  for (const int64_t size : {extent + 6, int64_t{0}}) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : example.inputs) {
      Dims dims = input.dims;
      std::replace(dims.begin(), dims.end(), extent, size);
      inputs.push_back(Repeated(input, dims));
    }
    if (!Interpret(module, inputs).ok()) break;
    open.further_inputs.push_back(std::move(inputs));
  }
  if (open.further_inputs.empty()) return std::nullopt;
  return open;
}

}  // namespace

std::vector<OpExample> OpenOpExamples(uint64_t seed) {
  std::vector<OpExample> open;
  size_t turn = 0;
  for (const OpExample& example : AllOpExamples(seed)) {
    std::set<int64_t> extents;
    for (const Tensor& input : example.inputs) extents.insert(input.dims.begin(), input.dims.end());
    extents.erase(0);
    extents.erase(1);  // it may be there to be repeated
    // Another one of them each time.
    std::vector<int64_t> order(extents.begin(), extents.end());
    if (!order.empty()) {
      std::rotate(order.begin(), order.begin() + static_cast<long>(turn++ % order.size()),
                  order.end());
    }
    for (const int64_t extent : order) {
      if (auto found = WithSymbolFor(example, extent)) {
        open.push_back(std::move(*found));
        break;
      }
    }
  }
  return open;
}

Status CompareTensors(const Tensor& expected, const Tensor& actual, double absolute,
                      double relative) {
  if (expected.dtype != actual.dtype || expected.dims != actual.dims) {
    return InvalidArgument("{}[{}] is expected; {}[{}] is given.", FormatDType(expected.dtype),
                           fmt::join(expected.dims, ", "), FormatDType(actual.dtype),
                           fmt::join(actual.dims, ", "));
  }
  for (int64_t i = 0; i < expected.elements(); ++i) {
    bool is_close = false;
    if (IsFloat(expected.dtype)) {
      const double a = LoadFloat(expected, i);
      const double b = LoadFloat(actual, i);
      is_close = a == b || (std::isnan(a) && std::isnan(b)) ||
                 std::fabs(a - b) <= absolute + relative * std::fabs(a);
    } else {
      is_close = LoadInt(expected, i) == LoadInt(actual, i);
    }
    if (!is_close) {
      return InvalidArgument("Element {} is {}; {} is expected (tolerance {} + {} relative).", i,
                             FormatElement(actual, i), FormatElement(expected, i), absolute,
                             relative);
    }
  }
  return OkStatus();
}

}  // namespace halyard::graph
