// SPDX-License-Identifier: Apache-2.0
// halyard compile: a program file that run and explain take, on machines without the compiler
// library.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/escape_controls.h"
#include "tools/halyard/command.h"
#include "tools/halyard/files.h"

namespace halyard::tools {
namespace {

struct CompileArguments {
  ModelOptions model;
  std::string output;
};

int Compile(const CompileArguments& options) {
  const std::vector<NamedFile> outputs = {{"--output", options.output}};
  KeepApart(outputs, {{"the model", options.model.model}});
  KeepApartFromData(outputs, options.model.model);
  const Model model = OpenModel(options.model, true);
  if (model.is_saved) {
    throw CommandError(
        kWrongUsage, options.model.model + " is a compiled program already; compile takes a model");
  }
  model.program.Save(options.output);
  if (options.model.json) {
    using Json = nlohmann::ordered_json;
    auto json = Json::parse(model.program.Report(HY_REPORT_PHASES, HY_FORMAT_JSON));
    json["model"] = options.model.model;
    json["program"] = options.output;
    std::error_code error;
    json["size_bytes"] = std::filesystem::file_size(options.output, error);
    json["entries"] =
        Json::parse(model.program.Report(HY_REPORT_ALL, HY_FORMAT_JSON)).at("entries");
    // Names come from model files and need not be UTF-8.
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::printf("wrote %s\n%s", EscapeControls(options.output).c_str(),
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
      ->type_name("FILE")
      ->required();
  return [options] { return Compile(*options); };
}

}  // namespace halyard::tools
