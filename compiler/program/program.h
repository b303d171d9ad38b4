// SPDX-License-Identifier: Apache-2.0
// Program: what the compiler makes and the runtime runs. Plain data, the same in memory and in a
// file: entry points over shared constants and states; an entry is, per queue, a list of commands
// and the waits between queues. Every size, offset, grid and scalar is an expression over the
// program's symbols, a static program being the case where all are constants. No pointers into the
// compiler; no HAL types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "compiler/target/target.h"

namespace halyard::program {

// An expression in postfix form. Evaluated at submission with the symbols' values.
enum class ExprOp : uint8_t { kConst, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
struct ExprToken {
  ExprOp op;
  int64_t value = 0;  // kConst: the value; kSymbol: index into Program::symbols; others: unused
  friend bool operator==(const ExprToken&, const ExprToken&) = default;
};
struct SizeExpr {
  std::vector<ExprToken> tokens;
  static SizeExpr Constant(int64_t value);
  std::optional<int64_t> AsConstant() const;
  // OUT_OF_RANGE on overflow and on division by less than 1.
  Result<int64_t> Evaluate(std::span<const int64_t> symbols) const;
  friend bool operator==(const SizeExpr&, const SizeExpr&) = default;
};

struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t divisor = 1;
};

struct TensorDesc {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<SizeExpr> dims;
  uint32_t device = 0;  // of an input or output of an entry: in whose memory commands find it
};

// Bytes that a device holds for the program's whole life. `source`: packed bytes carried by the
// program.
struct Constant {
  std::string name;
  uint64_t hash = 0;
  uint32_t device = 0;
  uint64_t size_bytes = 0;
  uint64_t offset = 0;  // into the data section (Program::data)
};

// A memory region of one device that lives for one run; buffers are ranges of it.
struct Arena {
  uint32_t device = 0;
  SizeExpr size_bytes;
  // The copy lane: only what transfers bring. Apart from the device's own values, so that a
  // transfer never waits for memory that a kernel gives up.
  bool holds_transfers = false;
};

enum class StorageKind : uint8_t { kInput, kOutput, kConstant, kArena, kState };

// A range of bytes that commands name. `index` is the input, output, constant, arena or state.
struct BufferRange {
  StorageKind kind = StorageKind::kArena;
  uint32_t index = 0;
  SizeExpr offset;   // bytes
  SizeExpr size;     // bytes
  std::string name;  // of the graph value; for reports
};

enum class CommandKind : uint8_t { kDispatch, kCopy, kFill, kInterpret, kTransfer };

struct Command {
  CommandKind kind = CommandKind::kDispatch;
  std::string label;  // fusion group; for reports and error messages
  // kDispatch
  uint32_t executable = 0;         // index into Program::executables
  uint32_t entry = 0;              // index into Executable::entries
  std::vector<uint32_t> bindings;  // indices into Entry::buffers
  std::vector<SizeExpr> scalars;
  SizeExpr grid[3];
  // kCopy (bindings: source, destination; whole ranges), kTransfer (the same, the source in the
  // memory of another device) and kFill (bindings: destination)
  uint64_t fill_value = 0;
  uint32_t fill_bytes = 1;  // 1, 2, 4 or 8
  // kInterpret: bindings are operands then results; text is a one-node Graph IR module
  std::string interpret_text;
  uint32_t interpret_operand_count = 0;
  std::vector<TensorDesc> interpret_tensors;  // type and dims of each binding, in order
  // The commands of this block that must finish first; indices smaller than this one's.
  std::vector<uint32_t> after;
};

// Commands for one queue of one device, submitted together; waits for the blocks named. A block
// holds transfers to its device and nothing else, or none; all other commands name memory of its
// device only.
struct Block {
  uint32_t device = 0;
  uint32_t queue = 0;
  std::vector<Command> commands;
  std::vector<uint32_t> waits;  // indices of earlier or later blocks of the entry; acyclic
};

// A requirement on the symbols: the entry may be used only where expr >= 0 holds for all guards.
struct Guard {
  SizeExpr expr;
  std::string text;  // "n - 16 >= 0"
};

struct Entry {
  std::string name;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  std::vector<Arena> arenas;
  std::vector<BufferRange> buffers;
  std::vector<Block> blocks;
  std::vector<Guard> guards;
};

struct KernelEntry {
  std::string name;
  uint32_t binding_count = 0;
  uint32_t scalar_count = 0;
  std::vector<std::string> sites;  // report sites: "node 'g': index of Gather"
};

// Code for one target: a flat CPU image, or a GPU image of CUBINs or SPIR-V modules.
struct Executable {
  uint32_t device = 0;
  std::string format;  // as ExecutableSource::format
  std::vector<KernelEntry> entries;
  std::vector<uint8_t> code;
};

struct Device {
  std::string name;  // "cpu:0" as asked for
  Target target;
  // The device that timings and placement came from, as its driver names it; empty: none was
  // measured. Apart from `target`, which says what the code needs: code runs on any device that
  // meets that.
  std::string identity;
  bool is_host = false;          // works in the host's memory: interpreted ops run there
  int64_t memory_cap_bytes = 0;  // what the caller lets the program take of it; 0: no cap
};

// Reports made while compiling: fallbacks, placement reasons, fusion groups, schedules. Data, not
// log lines.
struct Record {
  std::string kind;     // "fallback", "placement", "fusion", "schedule", "memory"
  std::string subject;  // node, value or group
  std::string text;     // one sentence
};

struct Program {
  std::string model_name;
  uint64_t content_hash = 0;  // of the model bytes, options and targets: the cache key
  std::vector<Symbol> symbols;
  std::vector<Device> devices;
  std::vector<Constant> constants;
  std::vector<Executable> executables;
  std::vector<Entry> entries;
  std::vector<Record> records;
  std::vector<uint8_t> data;  // packed constants, each 64-byte aligned
  // When the program was mapped from a file: the data section in place, `data` being empty.
  std::span<const uint8_t> mapped_data;
  std::shared_ptr<const void> mapping;  // keeps mapped_data alive

  // In whose memory a range of `entry` is.
  uint32_t DeviceOf(const Entry& entry, const BufferRange& range) const;
  std::span<const uint8_t> DataBytes() const { return mapping ? mapped_data : std::span(data); }
};

// Constants start at multiples of this, in memory and in files.
inline constexpr uint64_t kDataAlignment = 64;

// Structure check: every index in range, every expression well formed, blocks acyclic, constants
// within the data, code present. A loaded file passes through this before anything uses it.
Status Verify(const Program& program);
// The same without code and data, which the text form does not carry.
Status VerifyTables(const Program& program);

// Text form of everything but code and data; Parse reads what Format writes (code and data empty)
// and fails with INVALID_ARGUMENT naming line and column.
std::string Format(const Program& program);
// One expression as Format prints it.
std::string FormatExpr(const Program& program, const SizeExpr& expr);
Result<Program> Parse(std::string_view text);

}  // namespace halyard::program
