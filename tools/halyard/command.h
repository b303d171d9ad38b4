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

#include "tools/halyard/option_values.h"

namespace halyard::tools {

enum ExitStatus : int {
  kDone = 0,
  kWrongUsage = 1,
  kBadModel = 2,
  kSystemFailure = 3,
  kDiffers = 4,
  kInterrupted = 130,  // as shells have it for SIGINT
};
// The same for people, at the end of each --help.
inline constexpr const char* kExitStatusHelp =
    "Exit status: 0 done; 1 wrong usage; 2 the model, program or input is wrong or not supported; "
    "3 a "
    "device or the system failed; 4 the result is not as expected (--expect-dir, --diff, "
    "--fail-if, "
    "the check of bench); 130 interrupted (bench and devices --probe, with what "
    "was measured until then).";

// One line on standard error, whatever a name in it holds.
void PrintError(const std::string& message);
void PrintWarning(const std::string& message);

// A failure that ends the command with one line and a status.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitStatus status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

// A device that is not there: a failure of the system, unless a policy goes on without it.
class MissingDevice : public CommandError {
 public:
  explicit MissingDevice(const std::string& why) : CommandError(kSystemFailure, why) {}
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
  hy_vendor_libraries vendor_libs = HY_VENDOR_LIBRARIES_RACE;
  std::string precision = "as-given";     // or "fp16"
  std::string io_precision = "as-given";  // or "fp16"
  std::vector<std::string> affinities;    // "PATTERN=DEVICE", "PATTERN=prefer:DEVICE", ...
  std::vector<std::string> memory_caps;   // "DEVICE=SIZE"
  bool verify_plan = false;
  bool replan = false;
  bool no_first_probe = false;
  std::string on_missing_device = "warn";  // error, fallback, warn
  std::string on_unsupported_op = "fallback";
  bool json = false;
  // Not an option: whether to end opening with HY_ABORTED, on any thread. May be null.
  int32_t (*should_stop)(void*) = nullptr;
  // Options of the command line that say how a model is compiled: a program refuses those that were
  // given. Borrowed from the parser.
  std::vector<const CLI::Option*> for_models;
};
void AddModelOptions(CLI::App& app, ModelOptions& options);
// --no-vendor-libs and its opposite, one of those.
void AddVendorLibsOption(CLI::App& app, ModelOptions& options);
// --io-precision, another.
void AddIoPrecisionOption(CLI::App& app, ModelOptions& options);

// A model that was compiled or loaded, with what it needs to live.
struct Model {
  hy::Instance instance{nullptr};
  std::vector<hy::Device> devices;
  hy::Program program;
  bool is_saved = false;  // from a program file
};
// Makes the graph to compile where there is no file; options.model then only names it.
using GraphMaker = std::function<hy::Graph(const hy::Instance&)>;
// Throws CommandError, or hy::Error with the file named in front. A program file with options that
// are for models is wrong usage.
Model OpenModel(const ModelOptions& options, bool fix_shapes, const GraphMaker& make_graph = {});

// The name by which the command line gives the option, "-o" where it is "-o/--form"; its first long
// one where it gives none. KeepArguments comes first.
std::string NameTyped(const CLI::Option& option);
void KeepArguments(int argc, char** argv);

// Wrong usage where `command` was given more than `option`, which `does` something that needs
// nothing else, such as "reads two reports".
void RefuseOthers(const CLI::App& command, const std::string& option, const std::string& does,
                  const std::string& but = "");
bool IsProgramFile(const std::string& path);
// "a,b" into its parts, empty ones too; never none.
std::vector<std::string> Split(const std::string& list, char separator);
std::string Join(const std::vector<std::string>& words, const char* separator);
std::map<std::string, int64_t> ParseShapes(const std::vector<std::string>& shapes);
struct Affinity {
  std::string pattern, device;
  hy_affinity_kind kind = HY_AFFINITY_REQUIRE;
};
// "PATTERN=DEVICE", the device perhaps behind "require:", "prefer:" or "forbid:".
Affinity ParseAffinity(const std::string& text);
// Where the device begins in NAME=DEVICE, of --affinity and --why-not: names of nodes may hold '=',
// and so do the options of a device, as in "conv1=cpu:1?threads=1". npos: there is no '='.
size_t FindEqualsBeforeDevice(const std::string& text);
// "DEVICE=SIZE"; the size in bytes or with a unit in any case of letters: KB, MB, GB and TB are
// powers of 1000, KiB, MiB, GiB and TiB, or K, M, G and T, powers of 1024; "1.5GiB" is a size too.
std::pair<std::string, int64_t> ParseMemoryCap(const std::string& text);
// Wrong usage where no driver has the name that `device` begins with.
void CheckDriver(const hy::Instance& instance, const std::string& option,
                 const std::string& device);
// The device of that path, as a word of the command line: wrong usage where it can name none,
// MissingDevice where it is not there.
hy::Device OpenNamed(const hy::Instance& instance, const std::string& path);
hy::Instance MakeInstance(bool no_fallback, bool no_cache, hy_policy on_missing = HY_POLICY_DEFAULT,
                          hy_policy on_unsupported = HY_POLICY_DEFAULT);

// Each makes the sub-command; the function runs it after parsing.
using Run = std::function<int()>;
Run AddDevicesCommand(CLI::App& app);
Run AddRunCommand(CLI::App& app);
Run AddCompileCommand(CLI::App& app);
Run AddExplainCommand(CLI::App& app);
Run AddBenchCommand(CLI::App& app);

}  // namespace halyard::tools
