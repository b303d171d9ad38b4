// SPDX-License-Identifier: Apache-2.0
// hy-opt: runs passes of the compiler on IR text and prints the result. Its inputs are the files
// that HALYARD_DUMP writes, or ONNX models. Exit status as for halyard: 0 done, 1 wrong usage, 2
// bad input.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/check.h"
#include "base/env.h"
#include "base/near_names.h"
#include "base/parse_number.h"
#include "compiler/pipeline/parse_state.h"
#include "compiler/pipeline/pipeline.h"

namespace halyard {
namespace {

struct Arguments {
  std::string file = "-";
  std::vector<std::string> passes;
  std::string target = "cpu-avx512";
  std::vector<std::string> symbols;
  bool is_f16 = false, is_io_f16 = false;
  bool is_list = false;
};

Result<std::string> ReadText(const std::string& file) {
  std::stringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) return NotFound("The file '{}' cannot be opened.", file);
    text << stream.rdbuf();
  }
  return text.str();
}

void ListPasses() {
  for (const pipeline::Pass& pass : pipeline::Passes()) {
    fmt::print("{:<18}{}{}\n", pass.name, pass.doc, pass.can_disable ? " (can be disabled)" : "");
  }
}

Status Run(const Arguments& arguments) {
  HY_ASSIGN(const Target target, ParseTarget(arguments.target));
  pipeline::CompileState state;
  CompileRequest request;
  request.options.tune = false;
  if (arguments.is_f16) request.options.precision = Precision::kF16;
  if (arguments.is_io_f16) request.options.io_precision = Precision::kF16;
  for (const std::string& text : arguments.symbols) {
    const auto symbol = ParseNamedNumber(text);
    if (!symbol) return InvalidArgument("The symbol '{}' is not of the form NAME=NUMBER.", text);
    request.options.symbol_values[symbol->first] = symbol->second;
  }
  request.devices = {{"cpu:0", target, ""}};
  state.request = &request;
  const bool is_onnx = arguments.file.size() > 5 && arguments.file.ends_with(".onnx");
  if (is_onnx) {
    request.path = arguments.file;
    state.program.devices = request.devices;
    HY_TRY(pipeline::FindPass("import")->run(state));
  } else {
    HY_ASSIGN(const std::string text, ReadText(arguments.file));
    HY_TRY(pipeline::ParseState(text, target, &state));
  }
  for (const std::string& name : arguments.passes) {
    const pipeline::Pass* pass = pipeline::FindPass(name);
    if (pass == nullptr) {
      std::vector<std::string> known;
      for (const pipeline::Pass& one : pipeline::Passes()) known.emplace_back(one.name);
      return InvalidArgument("There is no pass '{}'; near it are {}.", name,
                             NamesLike(name, known, 3));
    }
    if (pass->level_before != state.level) {
      return InvalidArgument("Pass '{}' works on level {}; the text is at level {}.", name,
                             pipeline::FormatLevel(pass->level_before),
                             pipeline::FormatLevel(state.level));
    }
    HY_TRY_CONTEXT(pass->run(state), "running pass '{}'", name);
    state.level = pass->level_after;
  }
  HY_ASSIGN(const std::string text, pipeline::FormatState(state));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return OkStatus();
}

// The exit status once all of standard output has been written.
int Finish() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return 0;
  std::fprintf(stderr, "hy-opt: error: standard output cannot be written\n");
  return 3;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  halyard::Arguments arguments;
  CLI::App app(
      "Runs passes of the compiler on IR text, a dump or an ONNX model, and prints the result.",
      "hy-opt");
  app.add_option("FILE", arguments.file, "A dump, an ONNX model (*.onnx), or - for standard input");
  app.add_option_function<std::vector<std::string>>(
      "--pass",
      [&](const std::vector<std::string>& lists) {
        for (const std::string& list : lists) {
          // An empty name is a wrong one; CLI11's own delimiter drops it.
          for (size_t at = 0; at <= list.size();) {
            const size_t end = std::min(list.find(',', at), list.size());
            arguments.passes.push_back(list.substr(at, end - at));
            at = end + 1;
          }
        }
      },
      "Passes to run, in this order");
  app.add_option("--target", arguments.target,
                 "A name of compiler/target/target.h: cpu-avx2, cuda-sm90, ...");
  app.add_option("--symbol", arguments.symbols, "NAME=NUMBER: a size of the model's inputs");
  app.add_flag("--fp16", arguments.is_f16, "What --precision fp16 of halyard does");
  app.add_flag("--io-fp16", arguments.is_io_f16, "What --io-precision fp16 of halyard does");
  app.add_flag("--list", arguments.is_list, "List the passes of the pipeline in their order");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? halyard::Finish() : 1;
  }
  for (const std::string& fault : halyard::CheckEnvironment()) {
    std::fprintf(stderr, "hy-opt: %s\n", fault.c_str());
  }
  if (arguments.is_list) {
    halyard::ListPasses();
    return halyard::Finish();
  }
  const halyard::Status status = halyard::CatchAll([&] { return halyard::Run(arguments); });
  if (status.ok()) return halyard::Finish();
  std::fprintf(stderr, "hy-opt: error: %s\n", status.ToLine().c_str());
  return 2;
}
