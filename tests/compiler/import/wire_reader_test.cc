// SPDX-License-Identifier: Apache-2.0
// The wire reader and the schema on literal bytes, and what they refuse.
#include "compiler/import/wire_reader.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/graph/constants.h"
#include "compiler/import/onnx_proto.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

using testing::Message;

std::shared_ptr<const graph::ByteSource> Bytes(std::initializer_list<int> values) {
  std::vector<uint8_t> bytes;
  for (const int v : values) bytes.push_back(static_cast<uint8_t>(v));
  return graph::OwnBytes(std::move(bytes));
}

// Hides InMemory(), so that reads go through the window.
class OnDemand final : public graph::ByteSource {
 public:
  explicit OnDemand(std::string bytes) : bytes_(std::move(bytes)) {}
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  Status Read(int64_t offset, std::span<uint8_t> out) const override {
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
    return OkStatus();
  }

 private:
  std::string bytes_;
};

TEST(WireReader, ReadsVarintsOfAllLengths) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const uint64_t value :
         {uint64_t{1} << shift, (uint64_t{1} << shift) - 1, ~uint64_t{0} >> shift}) {
      Message m;
      m.Raw(value);
      const auto source = graph::BorrowBytes(m.bytes());
      WireReader reader(*source);
      uint64_t read = 0;
      ASSERT_TRUE(reader.ReadVarint(reader.size_bytes(), &read)) << reader.status().ToString();
      EXPECT_EQ(read, value);
      EXPECT_EQ(reader.position(), reader.size_bytes());
    }
  }
}

TEST(WireReader, RefusesBrokenNumbers) {
  struct Case {
    std::shared_ptr<const graph::ByteSource> bytes;
    std::string_view message;
  };
  const Case cases[] = {
      {Bytes({0x80, 0x80}), "A number is cut off at byte 0."},
      {Bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}),
       "A number has more than 64 bits at byte 0."},
      {Bytes({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}),
       "A number has more than 64 bits at byte 0."},
  };
  for (const Case& test : cases) {
    WireReader reader(*test.bytes);
    uint64_t value = 0;
    EXPECT_FALSE(reader.ReadVarint(reader.size_bytes(), &value));
    EXPECT_EQ(reader.status().message(), test.message);
  }
}

TEST(WireReader, RefusesBrokenTagsAndLengths) {
  uint32_t field = 0;
  WireType type = WireType::kVarint;
  const auto group = Bytes({0x0b});
  WireReader groups(*group);
  EXPECT_FALSE(groups.ReadTag(1, &field, &type));
  EXPECT_EQ(groups.status().message(),
            "Wire type 3 of field 1 is none of 0, 1, 2 and 5 at byte 0.");
  const auto zero = Bytes({0x00});
  WireReader zeros(*zero);
  EXPECT_FALSE(zeros.ReadTag(1, &field, &type));
  EXPECT_EQ(zeros.status().message(), "Field number 0 is outside 1 to 536870911 at byte 0.");
  const auto length = Bytes({0x05, 0x01});
  WireReader lengths(*length);
  ByteRange range;
  EXPECT_FALSE(lengths.ReadRange(2, &range));
  EXPECT_EQ(lengths.status().message(),
            "A length of 5 bytes stands where 1 bytes are left, at byte 0.");
}

// Long names straddle every window border when the reads go through the window.
TEST(WireReader, ReadsThroughTheWindowAsFromMemory) {
  Message graph;
  for (int i = 0; i < 3000; ++i) {
    graph.Sub(
        1, testing::Node("Op" + std::to_string(i), {std::string(static_cast<size_t>(i % 97), 'a')},
                         {"y" + std::to_string(i)}));
  }
  Message model;
  model.Varint(1, 8).Sub(7, graph);
  const auto in_memory = ReadModel(*graph::BorrowBytes(model.bytes()));
  const auto on_demand = ReadModel(OnDemand(model.str()));
  ASSERT_TRUE(in_memory.ok()) << in_memory.status().ToString();
  ASSERT_TRUE(on_demand.ok()) << on_demand.status().ToString();
  ASSERT_EQ(in_memory->graph->node.size(), 3000u);
  ASSERT_EQ(on_demand->graph->node.size(), 3000u);
  for (size_t i = 0; i < 3000; ++i) {
    EXPECT_EQ(on_demand->graph->node[i].op_type, "Op" + std::to_string(i));
    EXPECT_EQ(on_demand->graph->node[i].input, in_memory->graph->node[i].input);
  }
}

TEST(OnnxProto, ReadsPackedAndUnpackedNumbers) {
  Message packed;
  packed.Raw(3).Raw(static_cast<uint64_t>(-1)).Raw(300);
  const Message attributes[] = {
      Message().Text(1, "a").Text(8, packed.str()),
      Message().Text(1, "a").Varint(8, 3).Varint(8, static_cast<uint64_t>(-1)).Varint(8, 300)};
  for (const Message& attribute : attributes) {
    Message model;
    model.Sub(7, Message().Sub(1, Message().Sub(5, attribute)));
    const auto read = ReadModel(*graph::BorrowBytes(model.bytes()));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->graph->node[0].attribute[0].ints, (std::vector<int64_t>{3, -1, 300}));
  }
}

TEST(OnnxProto, KeepsTensorBytesAsRanges) {
  const Message tensor = testing::FloatTensor("w", {2}, {1.5f, -2.0f});
  const auto read = ReadTensor(*graph::BorrowBytes(tensor.bytes()));
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(read->raw_data.has_value());
  EXPECT_EQ(read->raw_data->size, 8);
  EXPECT_EQ(read->raw_data->offset, static_cast<int64_t>(tensor.str().size()) - 8);
  EXPECT_EQ(read->dims, (std::vector<int64_t>{2}));
}

TEST(OnnxProto, SkipsUnknownFieldsOfEveryWireType) {
  Message model;
  model.Varint(1, 8).Varint(99, 5).Text(100, "new").Float(101, 1.0f).Tag(102, 1);
  for (int i = 0; i < 8; ++i) model.Raw(0);
  const auto read = ReadModel(*graph::BorrowBytes(model.bytes()));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->ir_version, 8);
}

TEST(OnnxProto, NamesThePathOfAFailure) {
  Message model;
  model.Sub(7, Message().Sub(1, Message().Varint(4, 1)));
  const auto read = ReadModel(*graph::BorrowBytes(model.bytes()));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(),
            "graph.node.op_type: Field 'op_type' is encoded as varint; it must be length-delimited "
            "at byte 5.");
}

TEST(OnnxProto, HoldsItsLimits) {
  Limits limits;
  limits.nesting = 12;
  Message graph;
  for (int i = 0; i < 4; ++i)
    graph = Message().Sub(1, Message().Sub(5, testing::GraphAttribute("g", graph)));
  Message model;
  model.Sub(7, graph);
  auto read = ReadModel(*graph::BorrowBytes(model.bytes()), limits);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kOutOfRange);
  EXPECT_NE(read.status().message().find("nested deeper than the limit of 12"), std::string::npos)
      << read.status().message();

  limits = {};
  limits.nodes = 2;
  Message three;
  for (int i = 0; i < 3; ++i) three.Sub(1, testing::Node("Relu", {"x"}, {"y"}));
  Message wide;
  wide.Sub(7, three);
  read = ReadModel(*graph::BorrowBytes(wide.bytes()), limits);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("more nodes than the limit of 2"), std::string::npos);

  limits = {};
  limits.structure_bytes = 300;
  read = ReadModel(*graph::BorrowBytes(wide.bytes()), limits);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("passes the limit of 300 bytes"), std::string::npos);

  limits = {};
  limits.name_bytes = 8;
  Message named;
  named.Sub(7, Message().Text(2, "a name that is too long"));
  read = ReadModel(*graph::BorrowBytes(named.bytes()), limits);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(),
            "graph.name: A text of 23 bytes is longer than the limit of 8 at byte 3.");
}

TEST(OnnxProto, HasEachFieldOnce) {
  std::set<std::pair<std::string_view, uint32_t>> seen;
  for (const FieldRow& row : SchemaRows()) {
    EXPECT_TRUE(seen.emplace(row.message, row.number).second) << row.message << " " << row.number;
  }
  EXPECT_GT(seen.size(), 80u);
}

TEST(Printable, EscapesAndCuts) {
  EXPECT_EQ(Printable("a\nb\x80"), "a\\x0ab\\x80");
  EXPECT_EQ(Printable(std::string(200, 'x')), std::string(120, 'x') + "...");
}

}  // namespace
}  // namespace halyard::onnx
