// SPDX-License-Identifier: Apache-2.0
// The schema table and the recursive reader that it drives. A new field is one row and one member.
#include "compiler/import/onnx_proto.h"

#include <algorithm>
#include <bit>
#include <span>
#include <type_traits>
#include <utility>

namespace halyard::onnx {

AttributeProto::AttributeProto() = default;
AttributeProto::~AttributeProto() = default;
AttributeProto::AttributeProto(AttributeProto&&) noexcept = default;
AttributeProto& AttributeProto::operator=(AttributeProto&&) noexcept = default;

std::string_view FormatAttributeType(int64_t type) {
  switch (type) {
    case kAttrFloat:
      return "a float";
    case kAttrInt:
      return "an integer";
    case kAttrString:
      return "a string";
    case kAttrTensor:
      return "a tensor";
    case kAttrGraph:
      return "a graph";
    case kAttrFloats:
      return "a list of floats";
    case kAttrInts:
      return "a list of integers";
    case kAttrStrings:
      return "a list of strings";
    case kAttrTensors:
      return "a list of tensors";
    case kAttrGraphs:
      return "a list of graphs";
    case kAttrSparseTensor:
      return "a sparse tensor";
    case kAttrSparseTensors:
      return "a list of sparse tensors";
    case kAttrType:
      return "a type";
    case kAttrTypes:
      return "a list of types";
    default:
      return "nothing known";
  }
}

namespace {

// A name is held to Limits::name_bytes, a text to Limits::text_bytes.
enum class Kind : uint8_t {
  kVarint,
  kFloat,
  kName,
  kText,
  kMessage,
  kBytes,
  kWords32,
  kWords64,
  kVarints,
  kFlag,
  kSkip
};

std::string_view FormatKind(Kind kind) {
  switch (kind) {
    case Kind::kVarint:
      return "varint";
    case Kind::kFloat:
      return "float";
    case Kind::kName:
      return "name";
    case Kind::kText:
      return "text";
    case Kind::kMessage:
      return "message";
    case Kind::kBytes:
      return "bytes";
    case Kind::kWords32:
      return "32-bit words";
    case Kind::kWords64:
      return "64-bit words";
    case Kind::kVarints:
      return "varints";
    case Kind::kFlag:
      return "presence";
    case Kind::kSkip:
      return "skip";
  }
  return "unknown";
}

class Parser;

struct Field {
  uint32_t number;
  Kind kind;
  bool is_repeated;
  std::string_view name;
  // Reads one occurrence of the field into the message; null for kSkip.
  bool (*read)(Parser& parser, const Field& field, void* message, WireType type, int64_t end);
};

struct Schema {
  std::string_view name;
  std::span<const Field> fields;
};

template <typename Message>
const Schema& SchemaOf();

class Parser {
 public:
  Parser(const graph::ByteSource& source, const Limits& limits) : reader(source), limits(limits) {}

  bool ReadFields(const Schema& schema, void* message, int64_t end);
  // Counts memory that the file's structure asks for.
  bool Charge(size_t bytes) {
    structure_bytes += static_cast<int64_t>(bytes);
    if (structure_bytes <= limits.structure_bytes) return true;
    return reader.Fail(
        StatusCode::kOutOfRange, reader.position(),
        fmt::format("The structure of the file passes the limit of {} bytes of memory",
                    limits.structure_bytes));
  }
  bool Expect(const Field& field, WireType given, WireType wanted) {
    if (given == wanted) return true;
    return reader.Fail(StatusCode::kInvalidArgument, reader.position(),
                       fmt::format("Field '{}' is encoded as {}; it must be {}", field.name,
                                   FormatWireType(given), FormatWireType(wanted)));
  }
  Status Failure() const {
    return Status(reader.status().code(),
                  path.empty() ? reader.status().message()
                               : fmt::format("{}: {}", path, reader.status().message()));
  }

  WireReader reader;
  const Limits& limits;
  int64_t structure_bytes = 0;
  int64_t depth = 0;
  int64_t nodes = 0;
  std::string path;  // of a failure, built while unwinding
};

bool Parser::ReadFields(const Schema& schema, void* message, int64_t end) {
  if (++depth > limits.nesting) {
    return reader.Fail(
        StatusCode::kOutOfRange, reader.position(),
        fmt::format("Messages are nested deeper than the limit of {}", limits.nesting));
  }
  while (reader.position() < end) {
    uint32_t number = 0;
    WireType type = WireType::kVarint;
    if (!reader.ReadTag(end, &number, &type)) return false;
    const auto field = std::find_if(schema.fields.begin(), schema.fields.end(),
                                    [&](const Field& f) { return f.number == number; });
    // Fields of newer versions are ignored, as protobuf readers do.
    const bool is_read = field != schema.fields.end() && field->read != nullptr;
    if (!(is_read ? field->read(*this, *field, message, type, end) : reader.Skip(end, type))) {
      if (field != schema.fields.end()) {
        path = path.empty() ? std::string(field->name) : fmt::format("{}.{}", field->name, path);
      }
      return false;
    }
  }
  --depth;
  return true;
}

// One overload per type of member.
bool ReadOne(Parser& p, const Field& f, int64_t& out, WireType type, int64_t end) {
  uint64_t value = 0;
  if (!p.Expect(f, type, WireType::kVarint) || !p.reader.ReadVarint(end, &value)) return false;
  out = static_cast<int64_t>(value);
  return true;
}

bool ReadOne(Parser& p, const Field& f, float& out, WireType type, int64_t end) {
  uint32_t value = 0;
  if (!p.Expect(f, type, WireType::kFixed32) || !p.reader.ReadFixed32(end, &value)) return false;
  out = std::bit_cast<float>(value);
  return true;
}

bool ReadOne(Parser& p, const Field& f, std::string& out, WireType type, int64_t end) {
  const int64_t limit = f.kind == Kind::kText ? p.limits.text_bytes : p.limits.name_bytes;
  return p.Expect(f, type, WireType::kLength) && p.reader.ReadString(end, limit, &out) &&
         p.Charge(out.size());
}

bool ReadOne(Parser& p, const Field& f, ByteRange& out, WireType type, int64_t end) {
  return p.Expect(f, type, WireType::kLength) && p.reader.ReadRange(end, &out);
}

bool ReadOne(Parser& p, const Field&, bool& out, WireType type, int64_t end) {
  out = true;
  return p.reader.Skip(end, type);
}

template <typename T>
requires std::is_class_v<T>
bool ReadMessage(Parser& p, const Field& f, T& out, WireType type, int64_t end) {
  int64_t length = 0;
  if (!p.Expect(f, type, WireType::kLength) || !p.reader.ReadLength(end, &length)) return false;
  if constexpr (std::is_same_v<T, NodeProto>) {
    if (++p.nodes > p.limits.nodes) {
      return p.reader.Fail(
          StatusCode::kOutOfRange, p.reader.position(),
          fmt::format("The file has more nodes than the limit of {}", p.limits.nodes));
    }
  }
  return p.Charge(sizeof(T)) && p.ReadFields(SchemaOf<T>(), &out, p.reader.position() + length);
}

template <typename T>
bool ReadOne(Parser& p, const Field& f, std::unique_ptr<T>& out, WireType type, int64_t end) {
  // A message field given twice is merged, as protobuf does.
  if (out == nullptr) out = std::make_unique<T>();
  return ReadMessage(p, f, *out, type, end);
}

template <typename T>
bool ReadOne(Parser& p, const Field& f, std::optional<T>& out, WireType type, int64_t end) {
  if (!out.has_value()) out.emplace();
  if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string> &&
                !std::is_same_v<T, ByteRange>) {
    return ReadMessage(p, f, *out, type, end);
  } else {
    return ReadOne(p, f, *out, type, end);
  }
}

// Repeated scalars come packed (one length-delimited block) or one by one.
template <typename T>
bool ReadOne(Parser& p, const Field& f, std::vector<T>& out, WireType type, int64_t end) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, float>) {
    if (type == WireType::kLength) {
      int64_t length = 0;
      if (!p.reader.ReadLength(end, &length)) return false;
      const int64_t block_end = p.reader.position() + length;
      constexpr WireType kElement =
          std::is_same_v<T, float> ? WireType::kFixed32 : WireType::kVarint;
      while (p.reader.position() < block_end) {
        T value{};
        if (!ReadOne(p, f, value, kElement, block_end) || !p.Charge(sizeof(T))) return false;
        out.push_back(value);
      }
      return true;
    }
    T value{};
    if (!ReadOne(p, f, value, type, end) || !p.Charge(sizeof(T))) return false;
    out.push_back(value);
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!p.Charge(sizeof(T))) return false;
    return ReadOne(p, f, out.emplace_back(), type, end);
  } else if constexpr (std::is_same_v<T, ByteRange>) {
    if (type == WireType::kLength) {
      // An element count is checked against the tensor's shape when the bytes are read.
      ByteRange range;
      if (!p.reader.ReadRange(end, &range)) return false;
      if (range.size == 0) return true;
      out.push_back(range);
      return p.Charge(sizeof(ByteRange));
    }
    const WireType wanted = f.kind == Kind::kWords32   ? WireType::kFixed32
                            : f.kind == Kind::kWords64 ? WireType::kFixed64
                                                       : WireType::kVarint;
    const int64_t start = p.reader.position();
    if (!p.Expect(f, type, wanted) || !p.reader.Skip(end, type)) return false;
    out.push_back({start, p.reader.position() - start});
    return p.Charge(sizeof(ByteRange));
  } else {
    return ReadMessage(p, f, out.emplace_back(), type, end);
  }
}

template <typename Class, typename Member>
Class ClassOf(Member Class::*);
template <typename Class, typename Member>
Member MemberOf(Member Class::*);

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <auto kMember>
constexpr Field Row(uint32_t number, Kind kind, std::string_view name) {
  using Class = decltype(ClassOf(kMember));
  using Member = decltype(MemberOf(kMember));
  return {number, kind, IsVector<Member>::value, name,
          [](Parser& parser, const Field& field, void* message, WireType type, int64_t end) {
            return ReadOne(parser, field, static_cast<Class*>(message)->*kMember, type, end);
          }};
}
constexpr Field SkipRow(uint32_t number, std::string_view name) {
  return {number, Kind::kSkip, false, name, nullptr};
}

using enum Kind;

constexpr Field kModelFields[] = {
    Row<&ModelProto::ir_version>(1, kVarint, "ir_version"),
    Row<&ModelProto::producer_name>(2, kText, "producer_name"),
    Row<&ModelProto::producer_version>(3, kText, "producer_version"),
    SkipRow(4, "domain"),
    SkipRow(5, "model_version"),
    SkipRow(6, "doc_string"),
    Row<&ModelProto::graph>(7, kMessage, "graph"),
    Row<&ModelProto::opset_import>(8, kMessage, "opset_import"),
    SkipRow(14, "metadata_props"),
    SkipRow(20, "training_info"),
    Row<&ModelProto::functions>(25, kMessage, "functions"),
    SkipRow(26, "configuration"),
};
constexpr Field kOpsetFields[] = {
    Row<&OperatorSetIdProto::domain>(1, kName, "domain"),
    Row<&OperatorSetIdProto::version>(2, kVarint, "version"),
};
constexpr Field kEntryFields[] = {
    Row<&StringStringEntryProto::key>(1, kName, "key"),
    Row<&StringStringEntryProto::value>(2, kName, "value"),
};
constexpr Field kGraphFields[] = {
    Row<&GraphProto::node>(1, kMessage, "node"),
    Row<&GraphProto::name>(2, kName, "name"),
    Row<&GraphProto::initializer>(5, kMessage, "initializer"),
    SkipRow(10, "doc_string"),
    Row<&GraphProto::input>(11, kMessage, "input"),
    Row<&GraphProto::output>(12, kMessage, "output"),
    Row<&GraphProto::value_info>(13, kMessage, "value_info"),
    SkipRow(14, "quantization_annotation"),
    Row<&GraphProto::has_sparse_initializer>(15, kFlag, "sparse_initializer"),
    SkipRow(16, "metadata_props"),
};
constexpr Field kNodeFields[] = {
    Row<&NodeProto::input>(1, kName, "input"),
    Row<&NodeProto::output>(2, kName, "output"),
    Row<&NodeProto::name>(3, kName, "name"),
    Row<&NodeProto::op_type>(4, kName, "op_type"),
    Row<&NodeProto::attribute>(5, kMessage, "attribute"),
    SkipRow(6, "doc_string"),
    Row<&NodeProto::domain>(7, kName, "domain"),
    Row<&NodeProto::overload>(8, kName, "overload"),
    SkipRow(9, "metadata_props"),
    SkipRow(10, "device_configurations"),
};
constexpr Field kAttributeFields[] = {
    Row<&AttributeProto::name>(1, kName, "name"),
    Row<&AttributeProto::f>(2, kFloat, "f"),
    Row<&AttributeProto::i>(3, kVarint, "i"),
    Row<&AttributeProto::s>(4, kText, "s"),
    Row<&AttributeProto::t>(5, kMessage, "t"),
    Row<&AttributeProto::g>(6, kMessage, "g"),
    Row<&AttributeProto::floats>(7, kFloat, "floats"),
    Row<&AttributeProto::ints>(8, kVarint, "ints"),
    Row<&AttributeProto::strings>(9, kText, "strings"),
    Row<&AttributeProto::has_other>(10, kFlag, "tensors"),
    Row<&AttributeProto::has_other>(11, kFlag, "graphs"),
    SkipRow(13, "doc_string"),
    Row<&AttributeProto::has_other>(14, kFlag, "tp"),
    Row<&AttributeProto::has_other>(15, kFlag, "type_protos"),
    Row<&AttributeProto::type>(20, kVarint, "type"),
    Row<&AttributeProto::ref_attr_name>(21, kName, "ref_attr_name"),
    Row<&AttributeProto::has_other>(22, kFlag, "sparse_tensor"),
    Row<&AttributeProto::has_other>(23, kFlag, "sparse_tensors"),
};
constexpr Field kTensorFields[] = {
    Row<&TensorProto::dims>(1, kVarint, "dims"),
    Row<&TensorProto::data_type>(2, kVarint, "data_type"),
    Row<&TensorProto::has_segment>(3, kFlag, "segment"),
    Row<&TensorProto::float_data>(4, kWords32, "float_data"),
    Row<&TensorProto::int32_data>(5, kVarints, "int32_data"),
    Row<&TensorProto::has_string_data>(6, kFlag, "string_data"),
    Row<&TensorProto::int64_data>(7, kVarints, "int64_data"),
    Row<&TensorProto::name>(8, kName, "name"),
    Row<&TensorProto::raw_data>(9, kBytes, "raw_data"),
    Row<&TensorProto::double_data>(10, kWords64, "double_data"),
    Row<&TensorProto::uint64_data>(11, kVarints, "uint64_data"),
    SkipRow(12, "doc_string"),
    Row<&TensorProto::external_data>(13, kMessage, "external_data"),
    Row<&TensorProto::data_location>(14, kVarint, "data_location"),
    SkipRow(16, "metadata_props"),
};
constexpr Field kValueInfoFields[] = {
    Row<&ValueInfoProto::name>(1, kName, "name"),
    Row<&ValueInfoProto::type>(2, kMessage, "type"),
    SkipRow(3, "doc_string"),
    SkipRow(4, "metadata_props"),
};
constexpr Field kTypeFields[] = {
    Row<&TypeProto::tensor_type>(1, kMessage, "tensor_type"),
    Row<&TypeProto::is_sequence>(4, kFlag, "sequence_type"),
    Row<&TypeProto::is_map>(5, kFlag, "map_type"),
    SkipRow(6, "denotation"),
    Row<&TypeProto::is_opaque>(7, kFlag, "opaque_type"),
    Row<&TypeProto::is_sparse>(8, kFlag, "sparse_tensor_type"),
    Row<&TypeProto::is_optional>(9, kFlag, "optional_type"),
};
constexpr Field kTensorTypeFields[] = {
    Row<&TensorTypeProto::elem_type>(1, kVarint, "elem_type"),
    Row<&TensorTypeProto::shape>(2, kMessage, "shape"),
};
constexpr Field kShapeFields[] = {
    Row<&TensorShapeProto::dim>(1, kMessage, "dim"),
};
constexpr Field kDimensionFields[] = {
    Row<&DimensionProto::dim_value>(1, kVarint, "dim_value"),
    Row<&DimensionProto::dim_param>(2, kName, "dim_param"),
    SkipRow(3, "denotation"),
};
constexpr Field kFunctionFields[] = {
    Row<&FunctionProto::name>(1, kName, "name"),
    Row<&FunctionProto::input>(4, kName, "input"),
    Row<&FunctionProto::output>(5, kName, "output"),
    Row<&FunctionProto::attribute>(6, kName, "attribute"),
    Row<&FunctionProto::node>(7, kMessage, "node"),
    SkipRow(8, "doc_string"),
    Row<&FunctionProto::opset_import>(9, kMessage, "opset_import"),
    Row<&FunctionProto::domain>(10, kName, "domain"),
    Row<&FunctionProto::attribute_proto>(11, kMessage, "attribute_proto"),
    SkipRow(12, "value_info"),
    Row<&FunctionProto::overload>(13, kName, "overload"),
    SkipRow(14, "metadata_props"),
};

constexpr Schema kSchemas[] = {
    {"ModelProto", kModelFields},
    {"OperatorSetIdProto", kOpsetFields},
    {"StringStringEntryProto", kEntryFields},
    {"GraphProto", kGraphFields},
    {"NodeProto", kNodeFields},
    {"AttributeProto", kAttributeFields},
    {"TensorProto", kTensorFields},
    {"ValueInfoProto", kValueInfoFields},
    {"TypeProto", kTypeFields},
    {"TypeProto.Tensor", kTensorTypeFields},
    {"TensorShapeProto", kShapeFields},
    {"TensorShapeProto.Dimension", kDimensionFields},
    {"FunctionProto", kFunctionFields},
};

template <typename Message>
const Schema& SchemaOf() {
  constexpr size_t kIndex = [] {
    if constexpr (std::is_same_v<Message, ModelProto>) return 0;
    if constexpr (std::is_same_v<Message, OperatorSetIdProto>) return 1;
    if constexpr (std::is_same_v<Message, StringStringEntryProto>) return 2;
    if constexpr (std::is_same_v<Message, GraphProto>) return 3;
    if constexpr (std::is_same_v<Message, NodeProto>) return 4;
    if constexpr (std::is_same_v<Message, AttributeProto>) return 5;
    if constexpr (std::is_same_v<Message, TensorProto>) return 6;
    if constexpr (std::is_same_v<Message, ValueInfoProto>) return 7;
    if constexpr (std::is_same_v<Message, TypeProto>) return 8;
    if constexpr (std::is_same_v<Message, TensorTypeProto>) return 9;
    if constexpr (std::is_same_v<Message, TensorShapeProto>) return 10;
    if constexpr (std::is_same_v<Message, DimensionProto>) return 11;
    if constexpr (std::is_same_v<Message, FunctionProto>) return 12;
  }();
  return kSchemas[kIndex];
}

template <typename Message>
Result<Message> ReadTop(const graph::ByteSource& source, const Limits& limits) {
  Parser parser(source, limits);
  Message message;
  if (!parser.ReadFields(SchemaOf<Message>(), &message, parser.reader.size_bytes())) {
    return parser.Failure();
  }
  return message;
}

}  // namespace

Result<ModelProto> ReadModel(const graph::ByteSource& source, const Limits& limits) {
  return ReadTop<ModelProto>(source, limits);
}

Result<TensorProto> ReadTensor(const graph::ByteSource& source, const Limits& limits) {
  return ReadTop<TensorProto>(source, limits);
}

std::vector<FieldRow> SchemaRows() {
  std::vector<FieldRow> rows;
  for (const Schema& schema : kSchemas) {
    for (const Field& field : schema.fields) {
      rows.push_back(
          {schema.name, field.number, FormatKind(field.kind), field.is_repeated, field.name});
    }
  }
  return rows;
}

}  // namespace halyard::onnx
