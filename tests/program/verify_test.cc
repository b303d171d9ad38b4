// SPDX-License-Identifier: Apache-2.0
// The verifier: each rule is broken once, and the sentence names what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/program/program.h"
#include "compiler/program/streamed.h"

namespace halyard::program {
namespace {

const char kText[] = R"(program "m" hash 0x1
symbol "n" min 1 max 8 divisor 1
device "cpu:0" identity "" {
  kind 0 name "cpu" triple "x86_64-unknown-linux-gnu" cpu "" features 0x1
  vector_bytes 16 vector_registers 16 workers 1 l1 32768 l2 1048576 l3 0
  alignment 64 max_buffer 9223372036854775807
}
constant "w" device 0 offset 0 size 16 hash 0x0
executable device 0 format "cpu-image" {
  kernel "k" bindings 2 scalars 1 sites []
}
entry "main" {
  input "x" f32 ["n", 4]
  output "y" f32 ["n", 4]
  arena device 0 size 128
  buffer "x" in input 0 offset 0 size ("n" * 16)
  buffer "y" in output 0 offset 0 size ("n" * 16)
  buffer "t" in arena 0 offset 64 size 64
  buffer "w" in constant 0 offset 0 size 16
  block device 0 queue 0 waits [] {
    dispatch "a" kernel 0 0 bindings [0, 2] scalars ["n"] grid [1, 1, 1] after []
    copy "b" bindings [2, 1] after [0]
  }
  block device 0 queue 1 waits [0] {
    fill "c" bindings [1] value 0x0 bytes 4 after []
  }
}
)";

Program Valid() {
  auto program = Parse(kText);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  program->data.resize(16);
  program->executables[0].code.resize(8);
  return std::move(program).value();
}

TEST(ProgramVerifyTest, ValidProgramPasses) { EXPECT_TRUE(Verify(Valid()).ok()); }

constexpr std::string_view kTransferText = R"(program "m" hash 0x1
device "cpu:0" identity "" host {
  kind 0 name "" triple "" cpu "" features 0x0
  vector_bytes 16 vector_registers 16 workers 1 l1 1 l2 1 l3 0
  alignment 64 max_buffer 1
}
device "cpu:1" identity "" {
  kind 0 name "" triple "" cpu "" features 0x0
  vector_bytes 16 vector_registers 16 workers 1 l1 1 l2 1 l3 0
  alignment 64 max_buffer 1
}
entry "main" {
  input "x" f32 [4]
  output "y" f32 [4] device 1
  arena device 1 transfers size 64
  buffer "x" in input 0 offset 0 size 16
  buffer "y" in output 0 offset 0 size 16
  buffer "t" in arena 0 offset 0 size 16
  block device 1 queue 1 waits [] {
    transfer "x" bindings [0, 2] after []
  }
  block device 1 queue 0 waits [0] {
    copy "c" bindings [2, 1] after []
  }
}
)";

TEST(ProgramVerifyTest, TransfersAndDevicesAreChecked) {
  const auto parsed = Parse(kTransferText);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_TRUE(Verify(*parsed).ok()) << Verify(*parsed).ToString();
  EXPECT_EQ(Format(*parsed), Format(*Parse(Format(*parsed))));
  EXPECT_TRUE(parsed->devices[0].is_host && !parsed->devices[1].is_host);
  EXPECT_TRUE(parsed->entries[0].arenas[0].holds_transfers);
  struct Case {
    std::function<void(Program&)> breakage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Program& p) { p.entries[0].inputs[0].device = 2; }, "Device 2"},
      {[](Program& p) { p.entries[0].outputs[0].device = 9; }, "Device 9"},
      {[](Program& p) { p.entries[0].inputs[0].device = 1; }, "brings what another device has"},
      {[](Program& p) { p.entries[0].blocks[0].device = 0; }, "brings what another device has"},
      {[](Program& p) { p.entries[0].blocks[1].device = 0; }, "in the memory of device 1"},
      {[](Program& p) { p.entries[0].outputs[0].device = 0; }, "in the memory of device 0"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].bindings.pop_back(); },
       "A transfer names 1 buffers; it needs 2."},
      {[](Program& p) {
         std::swap(p.entries[0].blocks[0].commands[0].bindings[0],
                   p.entries[0].blocks[0].commands[0].bindings[1]);
       },
       "brings what another device has"},
      {[](Program& p) {
         auto& blocks = p.entries[0].blocks;
         blocks[1].commands.push_back(blocks[0].commands[0]);
       },
       "A block holds 1 transfers and 1 other commands"},
  };
  for (const Case& c : cases) {
    Program program = *parsed;
    c.breakage(program);
    const Status status = Verify(program);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(status.ToLine(), testing::HasSubstr(c.message));
  }
}

// What a transfer of its own device reads is streamed, and nothing else may read it.
TEST(ProgramVerifyTest, StreamedConstantsAreReadByTransfersOnly) {
  std::string text(kTransferText);
  const auto put = [&](std::string_view old, std::string_view with) {
    text.replace(text.find(old), old.size(), with);
  };
  put("entry \"main\"", "constant \"w\" device 1 offset 0 size 16 hash 0x0\nentry \"main\"");
  put("  block device 1 queue 1",
      "  buffer \"w\" in constant 0 offset 0 size 16\n"
      "  buffer \"u\" in arena 0 offset 16 size 16\n  block device 1 queue 1");
  put("bindings [0, 2] after []",
      "bindings [0, 2] after []\n    transfer \"w\" bindings [3, 4] after []");
  auto parsed = Parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  parsed->data.resize(16);
  ASSERT_TRUE(Verify(*parsed).ok()) << Verify(*parsed).ToString();
  EXPECT_EQ(StreamedConstants(*parsed), std::vector<bool>{true});
  parsed->entries[0].blocks[1].commands[0].bindings[0] = 3;
  EXPECT_THAT(Verify(*parsed).ToLine(), testing::HasSubstr("constant 'w', which is streamed"));
  parsed->entries[0].blocks[0].commands.pop_back();
  EXPECT_EQ(StreamedConstants(*parsed), std::vector<bool>{false});
  EXPECT_TRUE(Verify(*parsed).ok()) << Verify(*parsed).ToString();
}

TEST(ProgramVerifyTest, EveryRuleIsChecked) {
  struct Case {
    std::function<void(Program&)> breakage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Program& p) { p.symbols[0].min = 9; }, "Symbol 'n' has the empty range [9, 8]."},
      {[](Program& p) { p.symbols[0].divisor = 0; }, "divisor 0"},
      {[](Program& p) { p.symbols.push_back(p.symbols[0]); }, "Two symbols have the name 'n'."},
      {[](Program& p) { p.devices[0].name = ""; }, "has no name"},
      {[](Program& p) { p.devices[0].target.kind = static_cast<TargetKind>(3); },
       "Device 'cpu:0' has the unknown kind 3."},
      {[](Program& p) {
         p.devices[0].target.gpu.matrix_shapes = {{DType::kF16, DType::kInvalid, 16, 8, 16}};
       },
       "has a matrix shape without a dtype"},
      {[](Program& p) { p.constants[0].device = 1; }, "Device 1 is named; the program has 1."},
      {[](Program& p) { p.constants[0].offset = 8; }, "starts at byte 8"},
      {[](Program& p) { p.constants[0].size_bytes = UINT64_MAX; }, "beyond 64 bits"},
      {[](Program& p) { p.constants[0].size_bytes = 17; }, "the program carries 16"},
      {[](Program& p) { p.executables[0].device = 3; }, "Device 3"},
      {[](Program& p) { p.executables[0].format = ""; }, "no format"},
      {[](Program& p) { p.executables[0].code.clear(); }, "Executable 0 has no code."},
      {[](Program& p) { p.entries[0].name = ""; }, "no name"},
      {[](Program& p) { p.entries.push_back(p.entries[0]); }, "Two entries"},
      {[](Program& p) { p.entries[0].inputs[0].dtype = DType::kInvalid; }, "'x' has no dtype"},
      {[](Program& p) { p.entries[0].inputs[0].dims[0] = SizeExpr{}; }, "leaves 0 values"},
      {[](Program& p) { p.entries[0].arenas[0].device = 7; }, "Device 7"},
      {[](Program& p) { p.entries[0].buffers[0].index = 1; }, "lies in input 1; there are 1."},
      {[](Program& p) { p.entries[0].buffers[0].kind = StorageKind::kState; }, "state"},
      {[](Program& p) { p.entries[0].buffers[2].size = SizeExpr::Constant(65); },
       "arena 0 has 128"},
      {[](Program& p) { p.entries[0].buffers[3].size = SizeExpr::Constant(32); },
       "constant 0 has 16"},
      {[](Program& p) { p.entries[0].buffers[2].offset = SizeExpr::Constant(-1); }, "negative"},
      {[](Program& p) { p.entries[0].buffers[0].size.tokens[0].value = 1; }, "names symbol 1"},
      {[](Program& p) { p.entries[0].blocks[0].device = 1; }, "Device 1"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].executable = 1; }, "names executable 1"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].entry = 1; }, "names kernel 1"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].bindings = {0}; }, "binds 1 buffers"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].bindings[0] = 4; }, "names buffer 4"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].scalars.clear(); }, "passes 0 scalars"},
      {[](Program& p) { p.entries[0].blocks[0].commands[0].grid[2] = SizeExpr{}; }, "of the grid"},
      {[](Program& p) { p.entries[0].blocks[0].commands[1].after = {1}; }, "does not stand before"},
      {[](Program& p) {
         p.entries[0].blocks[0].commands[1].bindings = {2, 0};
       },
       "only read"},
      {[](Program& p) {
         p.entries[0].blocks[0].commands[1].bindings = {2, 3};
       },
       "only read"},
      {[](Program& p) {
         p.entries[0].blocks[1].commands[0].bindings = {1, 1};
       },
       "A fill names 2"},
      {[](Program& p) { p.entries[0].blocks[1].commands[0].fill_bytes = 3; }, "element of 3 bytes"},
      {[](Program& p) { p.entries[0].blocks[0].waits = {1}; }, "2 blocks wait for each other"},
      {[](Program& p) { p.entries[0].blocks[0].waits = {0}; }, "wait for each other"},
      {[](Program& p) { p.entries[0].blocks[0].waits = {5}; }, "waits for block 5"},
      {[](Program& p) {
         p.entries[0].guards.push_back({SizeExpr{}, ""});
       },
       "of a guard"},
      {[](Program& p) {
         Command& c = p.entries[0].blocks[0].commands[0];
         c.kind = CommandKind::kInterpret;
         c.interpret_operand_count = 3;
       },
       "3 operands but 2 buffers"},
      {[](Program& p) {
         Command& c = p.entries[0].blocks[0].commands[0];
         c.kind = CommandKind::kInterpret;
         c.interpret_operand_count = 1;
         c.interpret_text = "x";
       },
       "describes 0 tensors"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Program program = Valid();
    cases[i].breakage(program);
    const Status status = Verify(program);
    ASSERT_FALSE(status.ok()) << "case " << i << ": " << cases[i].message;
    EXPECT_THAT(status.ToLine(), testing::HasSubstr(cases[i].message)) << "case " << i;
  }
}

}  // namespace
}  // namespace halyard::program
