// SPDX-License-Identifier: Apache-2.0
// A stand-in for the compiler library: "compiles" any model into a program of copies and fills, so
// that the runtime, the C API and the cache are tested without LLVM. The model's bytes are text:
// "copy" gives y = x for f32[n]; "fill" makes every element 0x3f800000 (1.0f); "bad" fails; "throw"
// throws; "weigh" copies and gives 1024 floats of 0.5, a weight, as its second output, "warn" has a
// word on the model; "interpret" runs y = x in the interpreter; "slow" copies, and waits for a file
// "go" when sizes are fixed; "deep" copies, and takes half a MiB of stack; "endless" makes a file
// "begun" and compiles until it is stopped; "err" copies on cpu:0 and gives zeros on any other
// device, which is wrong; "no sizes" in it makes fixed sizes an error. The number
// of compiles is appended to the file that HALYARD_FAKE_COMPILER_LOG names.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <halyard_build.h>
#include "base/check.h"
#include "base/hash.h"
#include "compiler/abi.h"

namespace halyard {
namespace {

std::string ReadSource(const CompileRequest& request) {
  if (!request.graph_text.empty()) return "copy";
  if (!request.path.empty()) {
    std::ifstream file(request.path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  return std::string(request.onnx_bytes.begin(), request.onnx_bytes.end());
}

const char kHead[] = R"(program "fake" hash 0x0
device "cpu:0" identity "" {
  kind 0 name "" triple "" cpu "" features 0x0
  vector_bytes 16 vector_registers 16 workers 1 l1 1 l2 1 l3 0
  alignment 64 max_buffer 1
}
)";

__attribute__((noinline)) void TakeStack() {
  volatile char bytes[512 << 10];
  for (size_t i = 0; i < sizeof(bytes); i += 4096) bytes[i] = 1;
}

// Until the file stands beside the log.
void AwaitFile(const char* name) {
  const auto path =
      std::filesystem::path(std::getenv("HALYARD_FAKE_COMPILER_LOG")).parent_path() / name;
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Two minutes are long enough for who looks whether the compile can be stopped.
Result<CompileResult> CompileEndlessly(const CompileRequest& request) {
  const auto folder = std::filesystem::path(std::getenv("HALYARD_FAKE_COMPILER_LOG")).parent_path();
  std::ofstream(folder / "begun") << "yes";
  for (int i = 0; i < 12000; ++i) {
    HY_TRY(request.GoesOn());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return InvalidArgument("Nothing stopped the endless compile.");
}

Result<CompileResult> FakeCompile(const CompileRequest& request) {
  if (const char* log = std::getenv("HALYARD_FAKE_COMPILER_LOG"))
    std::ofstream(log, std::ios::app) << "c";
  const std::string source = ReadSource(request);
  if (source.starts_with("bad")) return InvalidArgument("Node 'g' is wrong.");
  if (source.starts_with("throw")) throw std::runtime_error("thrown by the compiler");
  if (source.starts_with("deep")) TakeStack();
  if (source.starts_with("endless")) return CompileEndlessly(request);
  if (!request.options.symbol_values.empty()) {
    if (source.find("no sizes") != std::string::npos)
      return InvalidArgument("No sizes are wanted.");
    if (source.starts_with("slow")) AwaitFile("go");
  }
  std::string n = "\"n\"", symbol = "symbol \"n\" min 0 max 1048576 divisor 1\n";
  if (const auto fixed = request.options.symbol_values.find("n");
      fixed != request.options.symbol_values.end()) {
    n = std::to_string(fixed->second);
    symbol.clear();
  }
  const bool weighs = source.starts_with("weigh");
  std::string text = kHead;
  text.insert(text.find("device"), symbol);
  if (weighs) text += "constant \"w\" device 0 offset 0 size 4096 hash 0x1\n";
  text += "entry \"main\" {\n  input \"x\" f32 [" + n + "]\n  output \"y\" f32 [" + n + "]\n";
  if (weighs) text += "  output \"w\" f32 [1024]\n";
  text += "  arena device 0 size (" + n + " * 4)\n";
  text += "  buffer \"x\" in input 0 offset 0 size (" + n + " * 4)\n";
  text += "  buffer \"y\" in output 0 offset 0 size (" + n + " * 4)\n";
  text += "  buffer \"t\" in arena 0 offset 0 size (" + n + " * 4)\n";
  if (weighs) {
    text += "  buffer \"weight\" in constant 0 offset 0 size 4096\n";
    text += "  buffer \"w\" in output 1 offset 0 size 4096\n";
  }
  const bool is_wrong = source.starts_with("err") && request.devices.at(0).name != "cpu:0";
  if (source.starts_with("fill") || is_wrong) {
    text += std::string("  block device 0 queue 0 waits [] { fill \"f\" bindings [1] value ") +
            (is_wrong ? "0x0" : "0x3f800000") + " bytes 4 after [] }\n";
  } else if (source.starts_with("interpret")) {
    text +=
        "  block device 0 queue 0 waits [] { interpret \"i\" bindings [0, 1] operands 1 text "
        "\"id\" after "
        "[] { tensor \"x\" f32 [" +
        n + "] tensor \"y\" f32 [" + n + "] } }\n";
  } else {
    // Two blocks on two queues, through the arena.
    text += "  block device 0 queue 0 waits [] { copy \"a\" bindings [0, 2] after [] }\n";
    text += "  block device 0 queue 1 waits [0] { copy \"b\" bindings [2, 1] after [] }\n";
    if (weighs)
      text += "  block device 0 queue 0 waits [] { copy \"c\" bindings [3, 4] after [] }\n";
  }
  text += "}\nrecord \"fusion\" \"group\" \"a made-up record\"\n";
  text += "record \"node\" \"folded\" \"gone after pass 'fold-constants'\"\n";
  text += "record \"node\" \"slow\" \"in the interpreter\"\n";
  text += "record \"node\" \"conv\" \"in dispatch 'conv_2'\"\n";
  text += "record \"node\" \"relu\" \"in dispatch 'conv_2'\"\n";
  text += "record \"source\" \"folded\" \"Add\\nsum\"\n";
  text += "record \"source\" \"conv\" \"Conv\\nconv_out\"\n";
  text += "record \"source\" \"relu\" \"Relu\\ny\"\n";
  text += "record \"source\" \"slow\" \"Relu\\n\"\n";
  text += "record \"weight\" \"filter\" \"f32[8, 3]\nconv\"\n";
  text += "record \"weight\" \"shared\" \"i64[]\nconv\nslow\"\n";
  text += "record \"fallback\" \"slow\" \"Op 'odd' runs in the interpreter: no lowering\"\n";
  if (source.starts_with("warn")) text += "record \"import\" \"model\" \"It is odd.\"\n";
  CompileResult result;
  HY_ASSIGN(result.program, program::Parse(text));
  for (int i = 0; weighs && i < 1024; ++i) {
    const float half = 0.5f;
    const auto* bytes = reinterpret_cast<const uint8_t*>(&half);
    result.program.data.insert(result.program.data.end(), bytes, bytes + sizeof(half));
  }
  result.program.devices[0] = request.devices.at(0);
  result.phases.push_back({"fake", 0.001});
  return result;
}

Status FakeInterpret(const InterpretRequest& request) {
  if (request.operands[0].size() != request.results[0].size()) return Internal("The sizes differ.");
  std::memcpy(request.results[0].data(), request.operands[0].data(), request.results[0].size());
  return OkStatus();
}

constexpr CompilerTable kTable = {
    [](const CompileRequest& r) -> Result<CompileResult> {
      return CatchAll([&] { return FakeCompile(r); });
    },
    [](const InterpretRequest& r) -> Status { return CatchAll([&] { return FakeInterpret(r); }); },
    [](const CompileRequest& r) -> Status {
      if (r.graph_text.find("nonsense") != std::string_view::npos)
        return InvalidArgument("No op 'nonsense'.");
      return OkStatus();
    },
};

}  // namespace
}  // namespace halyard

extern "C" __attribute__((visibility("default"))) const halyard::CompilerTable* hy_compiler_get(
    uint32_t abi_version, const char* build_identity) {
  if (abi_version != halyard::kCompilerAbiVersion ||
      std::strcmp(build_identity, HALYARD_BUILD_IDENTITY) != 0) {
    return nullptr;
  }
  return &halyard::kTable;
}
