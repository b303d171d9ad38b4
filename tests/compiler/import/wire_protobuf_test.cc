// SPDX-License-Identifier: Apache-2.0
// The wire reader against protobuf's own parser on random models, whole and damaged: what protobuf
// reads, the reader reads the same; what the reader refuses, protobuf refuses, or a stated limit is
// the reason.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <random>
#include <string>

#include "compiler/graph/constants.h"
#include "compiler/import/onnx_proto.h"

namespace halyard::onnx {
namespace {

std::string Name(std::mt19937_64& random) { return "v" + std::to_string(random() % 1000); }

void Fill(::onnx::TensorProto& t, std::mt19937_64& random) {
  t.set_name(Name(random));
  const int rank = static_cast<int>(random() % 4);
  for (int i = 0; i < rank; ++i) t.add_dims(static_cast<int64_t>(random() % 5));
  t.set_data_type(static_cast<int>(1 + random() % 16));
  switch (random() % 4) {
    case 0:
      t.set_raw_data(std::string(random() % 40, 'r'));
      break;
    case 1:
      for (int i = 0; i < 3; ++i) t.add_float_data(static_cast<float>(random()));
      break;
    case 2:
      for (int i = 0; i < 3; ++i) t.add_int64_data(static_cast<int64_t>(random()));
      break;
    default: {
      auto* entry = t.add_external_data();
      entry->set_key("location");
      entry->set_value("w.bin");
      t.set_data_location(::onnx::TensorProto::EXTERNAL);
    }
  }
}

void Fill(::onnx::ValueInfoProto& v, std::mt19937_64& random) {
  v.set_name(Name(random));
  auto* tensor = v.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(1);
  const int rank = static_cast<int>(random() % 4);
  tensor->mutable_shape();
  for (int i = 0; i < rank; ++i) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (random() % 2 == 0) {
      dim->set_dim_value(static_cast<int64_t>(random() % 100) - 1);
    } else {
      dim->set_dim_param(Name(random));
    }
  }
}

void Fill(::onnx::GraphProto& g, std::mt19937_64& random, int depth) {
  g.set_name(Name(random));
  g.set_doc_string("skipped");
  const int nodes = static_cast<int>(random() % 6);
  for (int i = 0; i < nodes; ++i) {
    auto* node = g.add_node();
    node->set_op_type("Op" + Name(random));
    node->set_domain(random() % 3 == 0 ? "custom" : "");
    for (uint64_t k = random() % 3; k > 0; --k) node->add_input(Name(random));
    for (uint64_t k = random() % 3; k > 0; --k) node->add_output(Name(random));
    for (uint64_t k = random() % 3; k > 0; --k) {
      auto* attribute = node->add_attribute();
      attribute->set_name(Name(random));
      switch (random() % 6) {
        case 0:
          attribute->set_i(static_cast<int64_t>(random()));
          break;
        case 1:
          attribute->set_f(static_cast<float>(random()));
          break;
        case 2:
          attribute->set_s(Name(random));
          break;
        case 3:
          for (uint64_t n = random() % 5; n > 0; --n)
            attribute->add_ints(static_cast<int64_t>(random()));
          break;
        case 4:
          Fill(*attribute->mutable_t(), random);
          break;
        default:
          if (depth > 0) Fill(*attribute->mutable_g(), random, depth - 1);
      }
    }
  }
  for (uint64_t k = random() % 3; k > 0; --k) Fill(*g.add_initializer(), random);
  for (uint64_t k = random() % 3; k > 0; --k) Fill(*g.add_input(), random);
  for (uint64_t k = random() % 3; k > 0; --k) Fill(*g.add_output(), random);
}

void Compare(const TensorProto& a, const ::onnx::TensorProto& b, std::string_view bytes) {
  EXPECT_EQ(a.name, b.name());
  EXPECT_EQ(a.dims, std::vector<int64_t>(b.dims().begin(), b.dims().end()));
  EXPECT_EQ(static_cast<int32_t>(a.data_type), b.data_type());
  ASSERT_EQ(a.raw_data.has_value(), b.has_raw_data());
  if (a.raw_data.has_value()) {
    EXPECT_EQ(bytes.substr(static_cast<size_t>(a.raw_data->offset),
                           static_cast<size_t>(a.raw_data->size)),
              b.raw_data());
  }
  int64_t float_bytes = 0;
  for (const ByteRange& range : a.float_data) float_bytes += range.size;
  EXPECT_EQ(float_bytes, 4 * int64_t{b.float_data_size()});
  ASSERT_EQ(static_cast<int>(a.external_data.size()), b.external_data_size());
  for (int i = 0; i < b.external_data_size(); ++i) {
    EXPECT_EQ(a.external_data[static_cast<size_t>(i)].value, b.external_data(i).value());
  }
}

void Compare(const ValueInfoProto& a, const ::onnx::ValueInfoProto& b) {
  EXPECT_EQ(a.name, b.name());
  ASSERT_EQ(a.type.has_value(), b.has_type());
  if (!a.type.has_value() || !a.type->tensor_type.has_value() || !b.type().has_tensor_type())
    return;
  const auto& shape = b.type().tensor_type().shape();
  ASSERT_EQ(a.type->tensor_type->shape.has_value(), b.type().tensor_type().has_shape());
  if (!a.type->tensor_type->shape.has_value()) return;
  ASSERT_EQ(static_cast<int>(a.type->tensor_type->shape->dim.size()), shape.dim_size());
}

void Compare(const GraphProto& a, const ::onnx::GraphProto& b, std::string_view bytes) {
  EXPECT_EQ(a.name, b.name());
  ASSERT_EQ(static_cast<int>(a.node.size()), b.node_size());
  for (int i = 0; i < b.node_size(); ++i) {
    const NodeProto& x = a.node[static_cast<size_t>(i)];
    const ::onnx::NodeProto& y = b.node(i);
    EXPECT_EQ(x.op_type, y.op_type());
    EXPECT_EQ(x.domain, y.domain());
    EXPECT_EQ(x.input, std::vector<std::string>(y.input().begin(), y.input().end()));
    EXPECT_EQ(x.output, std::vector<std::string>(y.output().begin(), y.output().end()));
    ASSERT_EQ(static_cast<int>(x.attribute.size()), y.attribute_size());
    for (int k = 0; k < y.attribute_size(); ++k) {
      const AttributeProto& p = x.attribute[static_cast<size_t>(k)];
      const ::onnx::AttributeProto& q = y.attribute(k);
      EXPECT_EQ(p.name, q.name());
      EXPECT_EQ(p.i.value_or(0), q.i());
      EXPECT_EQ(p.s.value_or(""), q.s());
      EXPECT_EQ(p.ints, std::vector<int64_t>(q.ints().begin(), q.ints().end()));
      ASSERT_EQ(p.t != nullptr, q.has_t());
      if (p.t != nullptr) Compare(*p.t, q.t(), bytes);
      ASSERT_EQ(p.g != nullptr, q.has_g());
      if (p.g != nullptr) Compare(*p.g, q.g(), bytes);
    }
  }
  ASSERT_EQ(static_cast<int>(a.initializer.size()), b.initializer_size());
  for (int i = 0; i < b.initializer_size(); ++i) {
    Compare(a.initializer[static_cast<size_t>(i)], b.initializer(i), bytes);
  }
  ASSERT_EQ(static_cast<int>(a.input.size()), b.input_size());
  for (int i = 0; i < b.input_size(); ++i) Compare(a.input[static_cast<size_t>(i)], b.input(i));
  ASSERT_EQ(static_cast<int>(a.output.size()), b.output_size());
  for (int i = 0; i < b.output_size(); ++i) Compare(a.output[static_cast<size_t>(i)], b.output(i));
}

std::string RandomModel(std::mt19937_64& random) {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  auto* opset = model.add_opset_import();
  opset->set_version(17);
  Fill(*model.mutable_graph(), random, 3);
  return model.SerializeAsString();
}

TEST(WireAgainstProtobuf, ReadsRandomModels) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const std::string bytes = RandomModel(random);
    ::onnx::ModelProto wanted;
    ASSERT_TRUE(wanted.ParseFromString(bytes));
    const auto source =
        graph::BorrowBytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const auto read = ReadModel(*source);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->ir_version, wanted.ir_version());
    Compare(*read->graph, wanted.graph(), bytes);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// Damage that the reader accepts where protobuf does not, or the other way, must have a known
// cause.
TEST(WireAgainstProtobuf, JudgesDamageAlike) {
  int both_refuse = 0;
  int both_accept = 0;
  int differ = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    std::string bytes = RandomModel(random);
    if (bytes.empty()) continue;
    for (uint64_t k = 1 + random() % 3; k > 0; --k) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ::onnx::ModelProto wanted;
    const bool accepts = wanted.ParseFromString(bytes);
    const auto source =
        graph::BorrowBytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const auto read = ReadModel(*source);
    if (read.ok() == accepts) {
      ++(accepts ? both_accept : both_refuse);
      if (accepts && read->graph != nullptr) {
        EXPECT_EQ(static_cast<int>(read->graph->node.size()), wanted.graph().node_size())
            << "seed " << seed;
      }
      continue;
    }
    ++differ;
    if (!read.ok()) {
      // Protobuf keeps a field whose wire type is wrong as unknown, skips groups and cuts long
      // numbers; the reader says so.
      const std::string& message = read.status().message();
      const bool is_stricter = message.find("is encoded as") != std::string::npos ||
                               message.find("Wire type") != std::string::npos ||
                               message.find("more than 64 bits") != std::string::npos ||
                               message.find("Field number") != std::string::npos;
      EXPECT_TRUE(is_stricter) << "seed " << seed << ": " << message;
    } else {
      // The reader does not look into what it skips (doc strings, metadata, tensor data).
      EXPECT_FALSE(accepts);
    }
  }
  EXPECT_GT(both_refuse, 100);
  EXPECT_GT(both_accept, 100);
  EXPECT_LT(differ, 300);
}

}  // namespace
}  // namespace halyard::onnx
