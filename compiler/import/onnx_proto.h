// SPDX-License-Identifier: Apache-2.0
// The messages of an ONNX file as plain structs, and the readers that fill them. Holds what import
// needs: doc strings, metadata, training information and device configurations are skipped. The
// bytes of tensors are ranges of the source and are not read here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/import/wire_reader.h"

namespace halyard::onnx {

// What a file may ask for. Exceeding one is OUT_OF_RANGE, naming value and limit.
struct Limits {
  int64_t nesting = 100;                         // messages inside messages (33 nested Ifs)
  int64_t nodes = 1 << 20;                       // in the whole file, bodies and functions included
  int64_t name_bytes = 4 << 10;                  // of one name
  int64_t text_bytes = 1 << 20;                  // of one string attribute
  int64_t structure_bytes = int64_t{512} << 20;  // memory of the structs, tensor bytes not counted
  int64_t tensor_rank = 64;
  int64_t tensor_bytes = int64_t{1} << 40;  // of one tensor
  int64_t call_depth = 32;                  // functions calling functions
  int64_t expanded_nodes = 1 << 20;         // nodes after functions are inlined
};

struct StringStringEntryProto {
  std::string key;
  std::string value;
};

struct OperatorSetIdProto {
  std::string domain;
  int64_t version = 0;
};

// ONNX's numbers for element types.
enum TensorDataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
};

struct TensorProto {
  std::string name;
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  int64_t data_location = 0;  // 1: external
  std::vector<StringStringEntryProto> external_data;
  std::optional<ByteRange> raw_data;
  // Typed data: each range holds one or more encoded values, concatenated.
  std::vector<ByteRange> float_data;   // 32-bit words
  std::vector<ByteRange> int32_data;   // varints
  std::vector<ByteRange> int64_data;   // varints
  std::vector<ByteRange> double_data;  // 64-bit words
  std::vector<ByteRange> uint64_data;  // varints
  bool has_string_data = false;
  bool has_segment = false;
};

struct DimensionProto {
  std::optional<int64_t> dim_value;
  std::string dim_param;
};

struct TensorShapeProto {
  std::vector<DimensionProto> dim;
};

struct TensorTypeProto {
  int64_t elem_type = 0;
  std::optional<TensorShapeProto> shape;
};

struct TypeProto {
  std::optional<TensorTypeProto> tensor_type;
  bool is_sequence = false;
  bool is_map = false;
  bool is_optional = false;
  bool is_sparse = false;
  bool is_opaque = false;
};

struct ValueInfoProto {
  std::string name;
  std::optional<TypeProto> type;
};

enum AttributeType : int32_t {
  kAttrUndefined = 0,
  kAttrFloat = 1,
  kAttrInt = 2,
  kAttrString = 3,
  kAttrTensor = 4,
  kAttrGraph = 5,
  kAttrFloats = 6,
  kAttrInts = 7,
  kAttrStrings = 8,
  kAttrTensors = 9,
  kAttrGraphs = 10,
  kAttrSparseTensor = 11,
  kAttrSparseTensors = 12,
  kAttrType = 13,
  kAttrTypes = 14,
};
// "an integer", "a list of floats", ...
std::string_view FormatAttributeType(int64_t type);

struct GraphProto;

struct AttributeProto {
  AttributeProto();
  ~AttributeProto();
  AttributeProto(AttributeProto&&) noexcept;
  AttributeProto& operator=(AttributeProto&&) noexcept;

  std::string name;
  std::string ref_attr_name;  // inside functions: the function's attribute to use
  int64_t type = 0;
  std::optional<float> f;
  std::optional<int64_t> i;
  std::optional<std::string> s;
  std::unique_ptr<TensorProto> t;
  std::unique_ptr<GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  bool has_other = false;  // sparse tensors, types, lists of tensors or graphs
};

struct NodeProto {
  std::string name;
  std::string op_type;
  std::string domain;
  std::string overload;
  std::vector<std::string> input;
  std::vector<std::string> output;
  std::vector<AttributeProto> attribute;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> node;
  std::vector<TensorProto> initializer;
  bool has_sparse_initializer = false;
  std::vector<ValueInfoProto> input;
  std::vector<ValueInfoProto> output;
  std::vector<ValueInfoProto> value_info;
};

struct FunctionProto {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> input;
  std::vector<std::string> output;
  std::vector<std::string> attribute;           // names without default
  std::vector<AttributeProto> attribute_proto;  // with default
  std::vector<NodeProto> node;
  std::vector<OperatorSetIdProto> opset_import;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::vector<OperatorSetIdProto> opset_import;
  std::unique_ptr<GraphProto> graph;
  std::vector<FunctionProto> functions;
};

// The source is read but not kept; ranges refer to it. A failure is one sentence with the byte
// position and the path of fields that led there.
Result<ModelProto> ReadModel(const graph::ByteSource& source, const Limits& limits = {});
Result<TensorProto> ReadTensor(const graph::ByteSource& source, const Limits& limits = {});

// The schema as data, for tests and documentation: one row per field that has a meaning here.
struct FieldRow {
  std::string_view message;  // "NodeProto"
  uint32_t number;
  std::string_view kind;  // "varint", "float", "text", "message", "bytes", ..., "skip"
  bool is_repeated;
  std::string_view name;  // "op_type"
};
std::vector<FieldRow> SchemaRows();

}  // namespace halyard::onnx
