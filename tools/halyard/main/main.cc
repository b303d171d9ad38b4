// SPDX-License-Identifier: Apache-2.0
// halyard: the command line. One file per sub-command; errors are one line on standard error, exit
// statuses those of command.h.
#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/near_names.h"
#include "tools/halyard/command.h"
#include "tools/halyard/interrupt.h"

namespace {

// The sub-command that the arguments name; the command itself where they name none.
const CLI::App& CommandOf(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : *given.front();
}

std::vector<std::string> OptionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) names.push_back(option->get_name());
  }
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* one) {
         return one->get_name().empty();  // an option group
       })) {
    for (const std::string& name : OptionsOf(*group)) names.push_back(name);
  }
  return names;
}

// The parser calls an option by the first of its names; the user may have typed another.
std::string WithTypedNames(const CLI::App& command, std::string text) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(), typed = halyard::tools::NameTyped(*option);
    const size_t at = text.find(name);
    if (typed == name || at == text.npos) continue;
    const size_t end = at + name.size();
    const bool is_whole =
        end == text.size() ||
        (std::isalnum(static_cast<unsigned char>(text[end])) == 0 && text[end] != '-');
    if (is_whole) text.replace(at, name.size(), typed);
  }
  return text;
}

// What is wrong with the arguments, in one sentence, and where to read on.
std::string DescribeUsage(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& command = CommandOf(app);
  const bool is_whole = &command == &app;
  const auto is_of = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  const std::string name = is_whole ? "halyard" : "halyard " + command.get_name();
  const std::string advice = " (see " + name + " --help)";
  // First, since what else is missing may be what that option was meant to give.
  const std::vector<std::string> rest = app.remaining(true);
  for (const std::string& text : rest) {
    if (text.size() > 1 && text[0] == '-') {
      const std::string option = text.substr(0, text.find('='));
      const std::string near = halyard::NamesNear(option, OptionsOf(command));
      return name + " has no option '" + option + "'" +
             (near.empty() ? "" : "; near it are " + near) + advice;
    }
  }
  if (is_of(CLI::ExitCodes::RequiredError) && is_whole) {
    std::vector<std::string> known;
    for (const CLI::App* one : app.get_subcommands({})) known.push_back(one->get_name());
    return "a sub-command is needed: " + halyard::NamesLike("", known) + advice;
  }
  if (is_of(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string text = error.what();
    const std::string option = text.substr(0, text.find(':'));
    const CLI::Option* found = command.get_option_no_throw(option);
    const int values = found == nullptr ? 1 : found->get_items_expected_min();
    const std::string typed = found == nullptr ? option : halyard::tools::NameTyped(*found);
    if (text.find("At Most") != text.npos && values > 1) {
      const size_t given = text.rfind(' ');  // "received 3"
      return typed + " takes " + std::to_string(values) + " values, " + found->get_type_name() +
             ", and nothing behind them; given were" + text.substr(given) + advice;
    }
    if (text.find("At Most") != text.npos) return typed + " is given more than once" + advice;
    return typed + " needs " +
           (values > 1 ? std::to_string(values) + " values: " + found->get_type_name()
                       : "a value") +
           advice;
  }
  if (is_of(CLI::ExitCodes::RequiredError) &&
      std::strstr(error.what(), "Requires at most") != nullptr) {
    const std::string text = error.what();
    return "one at most of " + text.substr(text.find('[')) + " can be given" + advice;
  }
  if (!is_of(CLI::ExitCodes::ExtrasError) || rest.empty())
    return WithTypedNames(command, error.what()) + advice;
  return "'" + rest.front() + "' is one argument too many" + advice;
}

// CLI11 reads "--json=false" as its absence, and other values as numbers.
void RefuseValuesOfFlags(const CLI::App& command, int argc, char** argv) {
  for (int i = 2; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    const std::string word = argv[i], name = word.substr(0, word.find('='));
    if (!word.starts_with("--") || name.size() == word.size()) continue;
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr || option->get_items_expected_max() != 0) continue;
    throw halyard::tools::CommandError(
        halyard::tools::kWrongUsage,
        name + " takes no value; given was '" + word.substr(name.size() + 1) + "'");
  }
}

// An empty value is a variable of a script that nobody set; it would count as an option not given.
void RefuseEmpty(const CLI::App& command) {
  for (const CLI::App* group : command.get_subcommands([](const CLI::App*) { return true; })) {
    RefuseEmpty(*group);
  }
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      throw halyard::tools::CommandError(
          halyard::tools::kWrongUsage,
          halyard::tools::NameTyped(*option) + " is given as an empty text");
    }
  }
}

// A file that the command opens must not become its standard output where that is closed: what is
// opened here cannot be written (the input: read) as the closed one could not.
void HoldStandardFiles() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) == -1) {
      [[maybe_unused]] const int held =
          open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

// That all of standard output has been written.
void FinishOutput() {
  std::cout.flush();
  const bool failed_before = std::ferror(stdout) != 0;  // then errno is of something later
  if (std::fflush(stdout) == 0 && !failed_before && std::cout.good()) return;
  throw halyard::tools::CommandError(
      halyard::tools::kSystemFailure,
      std::string("standard output cannot be written") +
          (failed_before ? "" : std::string(": ") + std::strerror(errno)));
}

// Whether the arguments ask for JSON, also where they are wrong otherwise.
bool WantsJson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return false;
    if (word == "--json") return true;
    if (std::strcmp(argv[1], "bench") != 0) continue;  // of compile, -o names a file
    const std::string before = argv[i - 1];
    if (word == "-ojson" || word == "--form=json") return true;
    if (word == "json" && (before == "-o" || before == "--form")) return true;
  }
  return false;
}

bool ends_with_json = false;
std::terminate_handler abort_handler = nullptr;

// The end where there is no memory for a sentence about it either, or before main can catch: texts
// that exist, written without a buffer. Whatever else ends a program this way goes on to abort.
[[noreturn]] void EndWithoutMemory() {
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kLine = "halyard: error: the machine is out of memory\n";
    constexpr std::string_view kJson =
        "{\n  \"error\": {\n    \"status\": 3,\n    \"message\": \"the machine is out of "
        "memory\"\n  }\n}\n";
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kLine.data(), kLine.size());
    if (ends_with_json) written = write(STDOUT_FILENO, kJson.data(), kJson.size());
    _exit(halyard::tools::kSystemFailure);
  } catch (...) {
  }
  if (abort_handler != nullptr) abort_handler();
  std::abort();
}

// Before the objects that CLI11 makes before main.
[[gnu::constructor(101)]] void InstallLastHandler() {
  abort_handler = std::set_terminate(EndWithoutMemory);
}

// The end of a command that failed: a line on standard error and, where JSON is asked for, an
// object on standard output, which has nothing else then.
int Fail(bool as_json, int status, const std::string& message) {
  halyard::tools::PrintError(message);
  if (!as_json) return status;
  using Json = nlohmann::ordered_json;
  const Json json = {{"error", {{"status", status}, {"message", message}}}};
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace halyard::tools;  // NOLINT: the outermost layer
  HoldStandardFiles();
  WatchSignals();
  KeepArguments(argc, argv);
  const bool as_json = WantsJson(argc, argv);
  ends_with_json = as_json;
  CLI::App app("Compiles and runs neural-network graphs on the devices of this machine.",
               "halyard");
  const uint32_t version = hy_version();
  app.set_version_flag("--version", std::to_string(version / 1000000) + "." +
                                        std::to_string(version / 1000 % 1000) + "." +
                                        std::to_string(version % 1000));
  app.require_subcommand(1);
  app.footer(std::string("halyard SUBCOMMAND --help lists the options of one.\n") +
             kExitStatusHelp);
  int status = kDone;
  try {
    for (const auto add : {AddDevicesCommand, AddRunCommand, AddCompileCommand, AddExplainCommand,
                           AddBenchCommand}) {
      const Run run = add(app);
      CLI::App* command = app.get_subcommands([](CLI::App*) { return true; }).back();
      command->callback([run, command, &status] {
        RefuseEmpty(*command);
        status = run();
      });
      command->footer(kExitStatusHelp);
    }
    if (argc > 1 && argv[1][0] != '-' &&
        app.get_subcommands([&](CLI::App* c) { return c->check_name(argv[1]); }).empty()) {
      std::vector<std::string> known;
      for (const CLI::App* one : app.get_subcommands({})) known.push_back(one->get_name());
      throw CommandError(kWrongUsage, "there is no sub-command '" + std::string(argv[1]) +
                                          "'; there are " + halyard::NamesLike(argv[1], known) +
                                          " (see halyard --help)");
    }
    if (argc > 1) {
      for (const CLI::App* one :
           app.get_subcommands([&](CLI::App* c) { return c->check_name(argv[1]); }))
        RefuseValuesOfFlags(*one, argc, argv);
    }
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& help) {
      app.exit(help);
    }
  } catch (const CLI::Error& error) {
    return Fail(as_json, kWrongUsage, DescribeUsage(app, error));
  } catch (const CommandError& error) {
    return Fail(as_json, error.status(), error.what());
  } catch (const hy::Error& error) {
    return Fail(as_json, StatusOf(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return Fail(as_json, kSystemFailure,
                "the machine is out of memory for 'halyard " + CommandOf(app).get_name() + "'");
  } catch (const std::exception& error) {
    return Fail(as_json, kSystemFailure, error.what());
  }
  try {
    FinishOutput();
  } catch (const CommandError& error) {
    return Fail(false, error.status(), error.what());
  }
  return status;
}
