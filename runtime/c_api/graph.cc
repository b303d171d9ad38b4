// SPDX-License-Identifier: Apache-2.0
// C functions of graphs.
#include "base/deep_stack.h"
#include "runtime/c_api/handles.h"
#include "runtime/compile.h"
#include "runtime/compiler_library.h"

using namespace halyard;           // NOLINT: the C functions are the outermost layer
using namespace halyard::runtime;  // NOLINT

namespace {

constexpr size_t kAttributeSize = 96;
static_assert(sizeof(hy_graph_attribute) >= kAttributeSize);

Result<DType> ReadDType(int64_t dtype) {
  if (dtype <= 0 || dtype >= kDTypeCount) {
    return InvalidArgument("There is no dtype {}; 1 to {} are dtypes.", dtype, kDTypeCount - 1);
  }
  return static_cast<DType>(dtype);
}

Status CheckList(std::string_view name, const void* list, size_t count) {
  if (list != nullptr || count == 0) return OkStatus();
  return InvalidArgument("The list of attribute '{}' is NULL with count {}.", name, count);
}

Result<std::pair<std::string, GraphRecord::Attribute>> ReadAttribute(
    const hy_graph_attribute* from) {
  hy_graph_attribute a = HY_GRAPH_ATTRIBUTE_INIT;
  HY_TRY(ReadStruct(from, HY_STRUCT_GRAPH_ATTRIBUTE, kAttributeSize, "hy_graph_attribute", a));
  std::pair<std::string, GraphRecord::Attribute> out;
  HY_ASSIGN(out.first, ToString(a.name, "attribute name"));
  HY_ASSIGN(std::string text, ToString(a.string_value, "string_value"));
  switch (a.kind) {
    case HY_ATTRIBUTE_INT:
      out.second = a.int_value;
      return out;
    case HY_ATTRIBUTE_FLOAT:
      out.second = a.float_value;
      return out;
    case HY_ATTRIBUTE_STRING:
      out.second = std::move(text);
      return out;
    case HY_ATTRIBUTE_DTYPE: {
      const Result<DType> dtype = ReadDType(a.int_value);
      if (!dtype.ok()) {
        return dtype.status().WithContext(fmt::format("reading attribute '{}'", out.first));
      }
      out.second = *dtype;
      return out;
    }
    case HY_ATTRIBUTE_INTS:
      HY_TRY(CheckList(out.first, a.ints, a.count));
      out.second = std::vector<int64_t>(a.ints, a.ints + a.count);
      return out;
    case HY_ATTRIBUTE_FLOATS:
      HY_TRY(CheckList(out.first, a.floats, a.count));
      out.second = std::vector<double>(a.floats, a.floats + a.count);
      return out;
    case HY_ATTRIBUTE_EXPRS:
      out.second = GraphRecord::Expressions{std::move(text)};
      return out;
    default:
      return InvalidArgument("Attribute '{}' has the unknown kind {}; 0 to {} are kinds.",
                             out.first, a.kind, HY_ATTRIBUTE_EXPRS);
  }
}

// Hands out what a call added; a failure says for which name.
Status Added(std::string_view kind, std::string_view name, const Result<hy_value>& value,
             hy_value* out_value) {
  HY_TRY_CONTEXT(value, "adding {} '{}'", kind, name);
  *out_value = *value;
  return OkStatus();
}

// The body of a function on one graph.
template <typename Body>
Status OnGraph(hy_graph_t* graph, Body&& body) {
  HY_REQUIRE(graph);
  const ExclusiveUse use(graph->is_busy);
  HY_TRY(use.status());
  return graph->poison.Run("graph", AfterBadAlloc::kPoisoned,
                           [&]() -> Status { return body(graph->record); });
}
template <typename Body>
hy_result WithGraph(hy_graph_t* graph, Body&& body) {
  return Guarded([&]() -> Status { return OnGraph(graph, body); });
}

}  // namespace

hy_result hy_graph_create(hy_instance_t* instance, hy_graph_t** out_graph) {
  return Guarded([&]() -> Status {
    HY_REQUIRE(instance);
    HY_REQUIRE(out_graph);
    auto handle = std::make_unique<hy_graph>();
    handle->instance = instance->instance;
    *out_graph = handle.release();
    return OkStatus();
  });
}

void hy_graph_release(hy_graph_t* graph) { ReleaseHandle(graph); }

hy_result hy_graph_symbol(hy_graph_t* graph, hy_string name, int64_t min, int64_t max,
                          int64_t multiple_of) {
  return WithGraph(graph, [&](GraphRecord& record) -> Status {
    HY_ASSIGN(const std::string text, ToString(name, "name"));
    return record.AddSymbol(text, min, max, multiple_of);
  });
}

hy_result hy_graph_input(hy_graph_t* graph, hy_string name, hy_dtype dtype, hy_string dims,
                         hy_value* out_value) {
  return WithGraph(graph, [&](GraphRecord& record) -> Status {
    HY_REQUIRE(out_value);
    HY_ASSIGN(const std::string text, ToString(name, "name"));
    const auto add = [&]() -> Result<hy_value> {
      HY_ASSIGN(const std::string dims_text, ToString(dims, "dims"));
      HY_ASSIGN(const DType type, ReadDType(dtype));
      return record.AddInput(text, type, dims_text);
    };
    return Added("input", text, add(), out_value);
  });
}

hy_result hy_graph_constant(hy_graph_t* graph, hy_string name, hy_dtype dtype, const int64_t* dims,
                            size_t rank, const void* data, size_t size_bytes,
                            void (*release)(void*), void* release_context, hy_value* out_value) {
  bool is_taken = false;  // from then on the bytes are released with their last user
  const hy_result result = Guarded([&]() -> Status {
    const auto bytes = MakeByteSource(data, size_bytes, release, release_context);
    is_taken = true;
    return OnGraph(graph, [&](GraphRecord& record) -> Status {
      HY_REQUIRE(out_value);
      HY_ASSIGN(const std::string text, ToString(name, "name"));
      const auto add = [&]() -> Result<hy_value> {
        if (rank > 0) HY_REQUIRE(dims);
        if (size_bytes > 0) HY_REQUIRE(data);
        if (rank > HY_MAX_RANK) {
          return InvalidArgument("The constant has rank {}; at most {} is possible.", rank,
                                 HY_MAX_RANK);
        }
        HY_ASSIGN(const DType type, ReadDType(dtype));
        return record.AddConstant(text, type, {dims, dims + rank}, bytes);
      };
      return Added("constant", text, add(), out_value);
    });
  });
  if (!is_taken && release != nullptr) release(release_context);
  return result;
}

hy_result hy_graph_op(hy_graph_t* graph, hy_string op, hy_string name, const hy_value* operands,
                      size_t operand_count, const hy_graph_attribute* attributes,
                      size_t attribute_count, hy_value* results, size_t result_count) {
  return WithGraph(graph, [&](GraphRecord& record) -> Status {
    HY_ASSIGN(const std::string op_name, ToString(op, "op"));
    HY_ASSIGN(const std::string node_name, ToString(name, "name"));
    const auto add = [&]() -> Status {
      if (operand_count > 0) HY_REQUIRE(operands);
      if (attribute_count > 0) HY_REQUIRE(attributes);
      if (result_count > 0) HY_REQUIRE(results);
      std::vector<std::pair<std::string, GraphRecord::Attribute>> list;
      for (size_t i = 0; i < attribute_count; ++i) {
        HY_ASSIGN(auto attribute, ReadAttribute(ElementOf(attributes, i)));
        list.push_back(std::move(attribute));
      }
      HY_ASSIGN(const auto values,
                record.AddOp(op_name, node_name, {operands, operands + operand_count},
                             std::move(list), result_count));
      std::copy(values.begin(), values.end(), results);
      return OkStatus();
    };
    HY_TRY_CONTEXT(add(), "adding {} of op '{}'",
                   node_name.empty() ? "a node" : fmt::format("node '{}'", node_name), op_name);
    return OkStatus();
  });
}

hy_result hy_graph_output(hy_graph_t* graph, hy_string name, hy_value value) {
  return WithGraph(graph, [&](GraphRecord& record) -> Status {
    HY_ASSIGN(const std::string text, ToString(name, "name"));
    return record.AddOutput(text, value);
  });
}

hy_result hy_graph_undo(hy_graph_t* graph) {
  return WithGraph(graph, [](GraphRecord& record) -> Status { return record.Undo(); });
}

hy_result hy_graph_verify(hy_graph_t* graph) {
  return WithGraph(graph, [&](GraphRecord& record) -> Status {
    CompileSource source;
    HY_ASSIGN(source.graph_text, record.ToText());
    source.graph_constants = record.constants();
    return OnDeepStack([&]() -> Status {
      HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
      return compiler->verify(MakeRequest(source));
    });
  });
}
