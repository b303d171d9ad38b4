// SPDX-License-Identifier: Apache-2.0
// halyard compile: a program file that run and explain take, on machines without the compiler
// library.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/escape_controls.h"
#include "base/output_file.h"
#include "tools/halyard/bench_identity.h"
#include "tools/halyard/command.h"
#include "tools/halyard/files.h"

namespace halyard::tools {
namespace {

struct CompileArguments {
  ModelOptions model;
  std::string output;
};

void Require(const Status& status) {
  if (!status.ok()) throw CommandError(kSystemFailure, status.ToLine());
}

// Writes the program; whether that was to standard output. The library writes through a file of the
// command, which a signal that ends the command removes.
bool Save(const hy::Program& program, const std::string& path) {
  auto file = OutputFile::Create(path);
  Require(file.status());
  const std::string through = "/proc/self/fd/" + std::to_string((*file)->descriptor());
  if (access(through.c_str(), F_OK) != 0) {  // a system without /proc
    *file = nullptr;
    program.Save(path);
    return false;
  }
  try {
    program.Save(through);
  } catch (const hy::Error& error) {
    std::string text = error.what();
    if (const size_t at = text.find(through); at != std::string::npos)
      text.replace(at, through.size(), path);
    throw hy::Error(error.code(), text);
  }
  const bool is_standard = (*file)->Is(STDOUT_FILENO);
  Require((*file)->Finish(true));
  return is_standard;
}

int Compile(const CompileArguments& options) {
  const std::vector<NamedFile> outputs = {{"--output", options.output}};
  KeepApart(outputs, {{"the model", options.model.model}});
  KeepApartFromData(outputs, options.model.model);
  CheckWritable(outputs);
  const Model model = OpenModel(options.model, true);
  if (model.is_saved) {
    throw CommandError(
        kWrongUsage, options.model.model + " is a compiled program already; compile takes a model");
  }
  // Where the program itself goes to standard output, nothing else does.
  FILE* const text = Save(model.program, options.output) ? stderr : stdout;
  if (options.model.json) {
    using Json = nlohmann::ordered_json;
    auto json = Json::parse(model.program.Report(HY_REPORT_PHASES, HY_FORMAT_JSON));
    json["model"] = options.model.model;
    json["program"] = options.output;
    json["opened"] = HowOpened(model);
    std::error_code error;
    json["size_bytes"] = std::filesystem::file_size(options.output, error);
    json["entries"] =
        Json::parse(model.program.Report(HY_REPORT_ALL, HY_FORMAT_JSON)).at("entries");
    // Names come from model files and need not be UTF-8.
    std::fprintf(text, "%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::fprintf(text, "wrote %s%s\n%s", EscapeControls(options.output).c_str(),
                 IsFromCache(model.program)
                     ? ", as the cache had it: nothing was compiled (--replan compiles anew)"
                     : "",
                 model.program.Report(HY_REPORT_PHASES, HY_FORMAT_TEXT).c_str());
  }
  return kDone;
}

}  // namespace

Run AddCompileCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compile", "Compile a model into a program file");
  auto options = std::make_shared<CompileArguments>();
  AddModelOptions(*command, options->model);
  command
      ->add_option("-o,--output", options->output,
                   "The program file; one that is there is replaced, never the model")
      ->transform(NameOfOutput)
      ->type_name("FILE")
      ->required();
  return [options] { return Compile(*options); };
}

}  // namespace halyard::tools
