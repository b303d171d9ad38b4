// SPDX-License-Identifier: Apache-2.0
// What the sub-commands of `halyard` share: exit statuses, the options of every command, and
// opening of devices and models. Each sub-command adds itself to the parser and returns its exit
// status.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <halyard.hpp>
#include <map>
#include <string>
#include <vector>

namespace halyard::tools {

enum ExitStatus : int {
  kDone = 0,
  kWrongUsage = 1,
  kBadModel = 2,
  kSystemFailure = 3,
  kDiffers = 4,
};

// A failure that ends the command with one line and a status.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitStatus status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

// The status that a failed library call ends the command with.
ExitStatus StatusOf(hy_result result);

// The error with the file named in front, once.
hy::Error WithFile(const hy::Error& error, const std::string& file);

// Options of the commands that take a model.
struct ModelOptions {
  std::string model;                // an ONNX file or a program file
  std::string device = "auto";      // "cpu", "cpu:0,cuda", "auto"
  std::vector<std::string> shapes;  // "SYMBOL=N"
  bool no_fallback = false;
  bool no_tune = false;
  bool no_cache = false;
  std::string precision = "as-given";  // or "fp16"
  bool json = false;
};
void AddModelOptions(CLI::App& app, ModelOptions& options);

// A model that was compiled or loaded, with what it needs to live.
struct Model {
  hy::Instance instance;
  std::vector<hy::Device> devices;
  hy::Program program;
  bool is_saved = false;  // from a program file
};
// Throws CommandError, or hy::Error with the file named in front.
Model OpenModel(const ModelOptions& options, bool fix_shapes);

std::map<std::string, int64_t> ParseShapes(const std::vector<std::string>& shapes);
hy::Instance MakeInstance(bool no_fallback, bool no_cache);

// Each makes the sub-command; the function runs it after parsing.
using Run = std::function<int()>;
Run AddDevicesCommand(CLI::App& app);
Run AddRunCommand(CLI::App& app);
Run AddCompileCommand(CLI::App& app);
Run AddExplainCommand(CLI::App& app);

}  // namespace halyard::tools
