// SPDX-License-Identifier: Apache-2.0
// Writes ONNX files byte by byte for tests, so that they can also be wrong in chosen ways. Knows
// field numbers and wire types only; the numbers come from the ONNX format and not from the reader
// under test.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halyard::onnx::testing {

class Message {
 public:
  Message& Varint(uint32_t field, uint64_t value) {
    Raw(field << 3 | 0u);
    Raw(value);
    return *this;
  }
  Message& Text(uint32_t field, std::string_view text) {
    Raw(field << 3 | 2u);
    Raw(text.size());
    bytes_ += text;
    return *this;
  }
  Message& Sub(uint32_t field, const Message& message) { return Text(field, message.bytes_); }
  Message& Float(uint32_t field, float value) {
    Raw(field << 3 | 5u);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
    return *this;
  }
  Message& Tag(uint32_t field, uint32_t wire_type) {
    Raw(field << 3 | wire_type);
    return *this;
  }
  Message& Raw(uint64_t varint) {
    while (varint >= 0x80) {
      bytes_.push_back(static_cast<char>(varint | 0x80));
      varint >>= 7;
    }
    bytes_.push_back(static_cast<char>(varint));
    return *this;
  }
  const std::string& str() const { return bytes_; }
  std::span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::string bytes_;
};

// Element types by ONNX's numbers.
inline constexpr int kF32 = 1, kU8 = 2, kI32 = 6, kI64 = 7, kBool = 9;

// Numbers are dims, texts are symbols; "" is a dim without either.
struct Dim {
  Dim(int64_t value) : value(value) {}              // NOLINT: implicit on purpose
  Dim(const char* name) : value(-2), name(name) {}  // NOLINT: implicit on purpose
  int64_t value;
  std::string name;
};

inline Message ValueInfo(std::string_view name, int elem_type, const std::vector<Dim>& dims) {
  Message shape;
  for (const Dim& dim : dims) {
    Message d;
    if (dim.value != -2) {
      d.Varint(1, static_cast<uint64_t>(dim.value));
    } else if (!dim.name.empty()) {
      d.Text(2, dim.name);
    }
    shape.Sub(1, d);
  }
  Message tensor;
  tensor.Varint(1, static_cast<uint64_t>(elem_type)).Sub(2, shape);
  Message info;
  info.Text(1, name).Sub(2, Message().Sub(1, tensor));
  return info;
}

inline Message FloatTensor(std::string_view name, const std::vector<int64_t>& dims,
                           const std::vector<float>& values) {
  Message t;
  for (const int64_t d : dims) t.Varint(1, static_cast<uint64_t>(d));
  std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  t.Varint(2, kF32).Text(8, name).Text(9, raw);
  return t;
}

inline Message IntTensor(std::string_view name, const std::vector<int64_t>& dims,
                         const std::vector<int64_t>& values) {
  Message t;
  for (const int64_t d : dims) t.Varint(1, static_cast<uint64_t>(d));
  Message packed;
  for (const int64_t v : values) packed.Raw(static_cast<uint64_t>(v));
  t.Varint(2, kI64).Text(8, name).Text(7, packed.str());
  return t;
}

inline Message BoolScalar(std::string_view name, bool value) {
  return Message().Varint(2, kBool).Text(8, name).Text(9, std::string(1, value ? 1 : 0));
}

inline Message IntAttribute(std::string_view name, int64_t value) {
  return Message().Text(1, name).Varint(3, static_cast<uint64_t>(value)).Varint(20, 2);
}
inline Message FloatAttribute(std::string_view name, float value) {
  return Message().Text(1, name).Float(2, value).Varint(20, 1);
}
inline Message TextAttribute(std::string_view name, std::string_view value) {
  return Message().Text(1, name).Text(4, value).Varint(20, 3);
}
inline Message IntsAttribute(std::string_view name, const std::vector<int64_t>& values) {
  Message m;
  m.Text(1, name);
  for (const int64_t v : values) m.Varint(8, static_cast<uint64_t>(v));
  return m.Varint(20, 7);
}
inline Message GraphAttribute(std::string_view name, const Message& graph) {
  return Message().Text(1, name).Sub(6, graph).Varint(20, 5);
}
inline Message TensorAttribute(std::string_view name, const Message& tensor) {
  return Message().Text(1, name).Sub(5, tensor).Varint(20, 4);
}

inline Message Node(std::string_view op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}, std::string_view name = "",
                    std::string_view domain = "") {
  Message n;
  for (const std::string& i : inputs) n.Text(1, i);
  for (const std::string& o : outputs) n.Text(2, o);
  if (!name.empty()) n.Text(3, name);
  n.Text(4, op);
  for (const Message& a : attributes) n.Sub(5, a);
  if (!domain.empty()) n.Text(7, domain);
  return n;
}

struct GraphParts {
  std::vector<Message> nodes;
  std::vector<Message> initialisers;
  std::vector<Message> inputs;
  std::vector<Message> outputs;
};

inline Message GraphOf(const GraphParts& parts) {
  Message g;
  for (const Message& n : parts.nodes) g.Sub(1, n);
  g.Text(2, "test");
  for (const Message& t : parts.initialisers) g.Sub(5, t);
  for (const Message& i : parts.inputs) g.Sub(11, i);
  for (const Message& o : parts.outputs) g.Sub(12, o);
  return g;
}

inline Message ModelOf(const GraphParts& parts, int64_t opset = 17,
                       const std::vector<Message>& functions = {},
                       const std::vector<std::string>& domains = {}) {
  Message m;
  m.Varint(1, 8).Text(2, "test").Sub(7, GraphOf(parts));
  m.Sub(8, Message().Varint(2, static_cast<uint64_t>(opset)));
  for (const std::string& domain : domains) m.Sub(8, Message().Text(1, domain).Varint(2, 1));
  for (const Message& f : functions) m.Sub(25, f);
  return m;
}

}  // namespace halyard::onnx::testing
