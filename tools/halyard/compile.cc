// SPDX-License-Identifier: Apache-2.0
// halyard compile: a program file that run and explain take, on machines without the compiler
// library.
#include <cstdio>
#include <nlohmann/json.hpp>

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
    auto json =
        nlohmann::ordered_json::parse(model.program.Report(HY_REPORT_PHASES, HY_FORMAT_JSON));
    json["program"] = options.output;
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("wrote %s\n%s", options.output.c_str(),
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
