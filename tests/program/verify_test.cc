// SPDX-License-Identifier: Apache-2.0
// The verifier: each rule is broken once, and the sentence names what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/program/program.h"

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
