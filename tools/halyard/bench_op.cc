// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_op.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/dtype.h"
#include "base/parse_number.h"

namespace halyard::tools {
namespace {

std::string Joined(const std::vector<int64_t>& dims, const char* between) {
  std::string out;
  for (const int64_t dim : dims) out += (out.empty() ? "" : between) + std::to_string(dim);
  return out;
}

hy_graph_attribute Ints(const char* name, const std::vector<int64_t>& values) {
  hy_graph_attribute out = HY_GRAPH_ATTRIBUTE_INIT;
  out.name = hy::View(name);
  out.kind = HY_ATTRIBUTE_INTS;
  out.ints = values.data();
  out.count = values.size();
  return out;
}
hy_graph_attribute Int(const char* name, int64_t value) {
  hy_graph_attribute out = HY_GRAPH_ATTRIBUTE_INIT;
  out.name = hy::View(name);
  out.int_value = value;
  return out;
}

// Writes one op as nodes of a graph; dims and dtype are those of the case.
class OpWriter {
 public:
  OpWriter(const hy::Graph& graph, const OpCase& op) : graph_(graph), op_(op) {}

  hy_value MatMul() {
    const std::vector<int64_t>& d = op_.dims;
    const std::vector<int64_t> batch(d.begin(), d.end() - 3);
    const int64_t m = d[batch.size()], n = d[batch.size() + 1], k = d[batch.size() + 2];
    const auto of = [&](int64_t rows, int64_t columns) {
      std::vector<int64_t> dims = batch;
      dims.push_back(rows);
      dims.push_back(columns);
      return dims;
    };
    return graph_.Op("matmul", {Input("a", of(m, k)), Input("b", of(k, n))});
  }

  hy_value Conv() {
    const std::vector<int64_t>& d = op_.dims;  // n, c, h, w, m, r
    const hy_value x = Input("x", {d[0], d[1], d[2], d[3]});
    const hy_value w = Input("w", {d[4], d[1], d[5], d[5]});
    const std::vector<int64_t> ones = {1, 1}, low(2, (d[5] - 1) / 2), high(2, d[5] / 2);
    return graph_.Op("conv", {x, w},
                     {Ints("strides", ones), Ints("pads_low", low), Ints("pads_high", high),
                      Ints("dilations", ones)});
  }

  hy_value Softmax() {
    const hy_value x = Wide(Input("x", op_.dims));
    const hy_value e = graph_.Op("exp", {graph_.Op("sub", {x, Whole(Reduce("reduce_max", x))})});
    return Narrow(graph_.Op("div", {e, Whole(Reduce("reduce_sum", e))}));
  }

  hy_value LayerNorm() {
    const hy_value x = Wide(Input("x", op_.dims));
    const hy_value gain = Wide(Input("gain", {op_.dims.back()}));
    const hy_value bias = Wide(Input("bias", {op_.dims.back()}));
    const double count = static_cast<double>(op_.dims.back());
    const auto mean = [&](hy_value value) {
      const hy_value sum = Reduce("reduce_sum", value);
      return graph_.Op("mul", {sum, Number(1 / count, OneColumn())});
    };
    const hy_value centred = graph_.Op("sub", {x, Whole(mean(x))});
    const hy_value variance = mean(graph_.Op("mul", {centred, centred}));
    const hy_value scale =
        graph_.Op("rsqrt", {graph_.Op("add", {variance, Number(1e-5, OneColumn())})});
    const hy_value scaled =
        graph_.Op("mul", {graph_.Op("mul", {centred, Whole(scale)}), Whole(gain)});
    return Narrow(graph_.Op("add", {scaled, Whole(bias)}));
  }

  hy_value Add() { return graph_.Op("add", {Input("a", op_.dims), Input("b", op_.dims)}); }

  hy_value Gelu() {
    const hy_value x = Wide(Input("x", op_.dims));
    const hy_value inner = graph_.Op("mul", {x, Number(std::sqrt(0.5), op_.dims)});
    const hy_value gate = graph_.Op("add", {graph_.Op("erf", {inner}), Number(1, op_.dims)});
    return Narrow(graph_.Op("mul", {graph_.Op("mul", {x, Number(0.5, op_.dims)}), gate}));
  }

  hy_value Sum() { return Narrow(Reduce("reduce_sum", Wide(Input("x", op_.dims)))); }

  hy_value Attention() {
    hy_graph_attribute scale = HY_GRAPH_ATTRIBUTE_INIT;
    scale.name = hy::View("scale");
    scale.kind = HY_ATTRIBUTE_FLOAT;
    scale.float_value = 1 / std::sqrt(static_cast<double>(op_.dims[3]));
    return graph_.Op("attention",
                     {Input("q", op_.dims), Input("k", op_.dims), Input("v", op_.dims)}, {scale});
  }

  hy_value Copy() { return Input("x", op_.dims); }

  hy_value Gather() {
    const hy_value table = Input("table", {op_.dims[0], op_.dims[1]});
    std::mt19937_64 random(1);
    std::vector<int64_t> rows(static_cast<size_t>(op_.dims[2]));
    for (int64_t& row : rows)
      row = static_cast<int64_t>(random() % static_cast<uint64_t>(op_.dims[0]));
    const hy_value picked = graph_.Constant("rows", HY_DTYPE_I64, {op_.dims[2]}, rows.data(),
                                            rows.size() * sizeof(int64_t));
    return graph_.Op("gather", {table, picked}, {Int("axis", 0)});
  }

 private:
  hy_value Input(const char* name, const std::vector<int64_t>& dims) {
    return graph_.Input(name, op_.dtype, Joined(dims, ", "));
  }
  bool IsNarrow() const { return op_.dtype != HY_DTYPE_F32 && op_.dtype != HY_DTYPE_F64; }
  hy_value Cast(hy_value value, hy_dtype dtype) {
    hy_graph_attribute to = HY_GRAPH_ATTRIBUTE_INIT;
    to.name = hy::View("dtype");
    to.kind = HY_ATTRIBUTE_DTYPE;
    to.int_value = dtype;
    return graph_.Op("cast", {value}, {to});
  }
  hy_value Wide(hy_value value) { return IsNarrow() ? Cast(value, HY_DTYPE_F32) : value; }
  hy_value Narrow(hy_value value) { return IsNarrow() ? Cast(value, op_.dtype) : value; }
  hy_value Broadcast(hy_value value, const std::vector<int64_t>& dims) {
    const std::string text = Joined(dims, ", ");
    hy_graph_attribute shape = HY_GRAPH_ATTRIBUTE_INIT;
    shape.name = hy::View("shape");
    shape.kind = HY_ATTRIBUTE_EXPRS;
    shape.string_value = hy::View(text);
    return graph_.Op("broadcast", {value}, {shape});
  }
  hy_value Whole(hy_value value) { return Broadcast(value, op_.dims); }
  std::vector<int64_t> OneColumn() const {
    std::vector<int64_t> dims = op_.dims;
    dims.back() = 1;
    return dims;
  }
  hy_value Reduce(const char* op, hy_value value) {
    const std::vector<int64_t> axes = {static_cast<int64_t>(op_.dims.size()) - 1};
    return graph_.Op(op, {value}, {Ints("axes", axes), Int("keep_dims", 1)});
  }
  // In the type that wide values have.
  hy_value Number(double number, const std::vector<int64_t>& dims) {
    const auto single = static_cast<float>(number);
    const bool is_double = op_.dtype == HY_DTYPE_F64;
    const hy_value scalar = graph_.Constant(
        "number" + std::to_string(count_++), is_double ? HY_DTYPE_F64 : HY_DTYPE_F32, {},
        is_double ? static_cast<const void*>(&number) : &single, is_double ? 8 : 4);
    return Broadcast(scalar, dims);
  }

  const hy::Graph& graph_;
  const OpCase& op_;
  int count_ = 0;
};

struct OpForm {
  const char* op;
  const char* form;    // of --shape
  size_t least, most;  // dims
  hy_value (OpWriter::*write)();
};
constexpr const char* kAnyDims = "D, DxD, DxDxD or DxDxDxD: the dims";
constexpr OpForm kForms[] = {
    {"matmul", "MxNxK or BATCHxMxNxK", 3, 4, &OpWriter::MatMul},
    {"conv", "NxCxHxWxMxR: images, channels, height, width, filters, window", 6, 6,
     &OpWriter::Conv},
    {"softmax", "ROWSxCOLUMNS", 2, 4, &OpWriter::Softmax},
    {"layernorm", "ROWSxCOLUMNS", 2, 4, &OpWriter::LayerNorm},
    {"add", kAnyDims, 1, 4, &OpWriter::Add},
    {"gelu", kAnyDims, 1, 4, &OpWriter::Gelu},
    {"sum", "ROWSxCOLUMNS", 2, 4, &OpWriter::Sum},
    {"attention", "BATCHxHEADSxLENGTHxWIDTH", 4, 4, &OpWriter::Attention},
    {"copy", kAnyDims, 1, 4, &OpWriter::Copy},
    {"gather", "ROWSxWIDTHxCOUNT: of the table, and rows picked", 3, 3, &OpWriter::Gather},
};

const OpForm& FindForm(const std::string& op) {
  for (const OpForm& form : kForms) {
    if (op == form.op) return form;
  }
  throw CommandError(kWrongUsage, "there is no --op '" + op + "'; there are: " + KnownOps());
}

}  // namespace

std::string KnownOps() {
  std::string out;
  for (const OpForm& form : kForms) out += (out.empty() ? "" : ", ") + std::string(form.op);
  return out;
}

std::string ShapeFormOf(const std::string& op) { return FindForm(op).form; }

OpCase ParseOpCase(const std::string& op, const std::string& shape, const std::string& dtype) {
  const OpForm& form = FindForm(op);
  OpCase out;
  out.op = op;
  const auto fail = [&] {
    return CommandError(kWrongUsage, "--shape '" + shape + "' is not " + form.form +
                                         ", of sizes from 1 to 2^31 - 1");
  };
  for (size_t at = 0; at <= shape.size();) {
    const size_t end = std::min(shape.find('x', at), shape.size());
    const auto dim = ParseNumber<int32_t>(std::string_view(shape).substr(at, end - at));
    if (!dim || *dim < 1) throw fail();
    out.dims.push_back(*dim);
    at = end + 1;
  }
  if (out.dims.size() < form.least || out.dims.size() > form.most) throw fail();
  const Result<DType> parsed = ParseDType(dtype);
  if (!parsed.ok() || !IsFloat(*parsed) || BitWidth(*parsed) < 16) {
    throw CommandError(kWrongUsage, "--dtype '" + dtype + "' is not f32, f16, bf16 or f64");
  }
  out.dtype = static_cast<hy_dtype>(*parsed);
  return out;
}

std::string NameOf(const OpCase& op) {
  return op.op + " " + Joined(op.dims, "x") + " " +
         std::string(FormatDType(static_cast<DType>(op.dtype)));
}

hy::Graph MakeGraph(const hy::Instance& instance, const OpCase& op) {
  hy::Graph graph = hy::Graph::Create(instance);
  OpWriter writer(graph, op);
  graph.Output("y", (writer.*FindForm(op.op).write)());
  return graph;
}

}  // namespace halyard::tools
