// SPDX-License-Identifier: Apache-2.0
// halyard: the command line. One file per sub-command; errors are one line on standard error. Exit
// status: 0 done, 1 wrong usage, 2 the model or input is bad or unsupported, 3 a device or the
// system failed, 4 the result differs from the expectation.
#include <cstdio>
#include <new>

#include "tools/halyard/command.h"

namespace {

// One line, whatever a name in it holds.
void PrintError(std::string message) {
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  std::fprintf(stderr, "halyard: error: %s\n", message.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace halyard::tools;  // NOLINT: the outermost layer
  CLI::App app("Compiles and runs neural-network graphs on the devices of this machine.",
               "halyard");
  const uint32_t version = hy_version();
  app.set_version_flag("--version", std::to_string(version / 1000000) + "." +
                                        std::to_string(version / 1000 % 1000) + "." +
                                        std::to_string(version % 1000));
  app.require_subcommand(1);
  int status = kDone;
  try {
    for (const auto add :
         {AddDevicesCommand, AddRunCommand, AddCompileCommand, AddExplainCommand}) {
      const Run run = add(app);
      CLI::App* command = app.get_subcommands([](CLI::App*) { return true; }).back();
      command->callback([run, &status] { status = run(); });
    }
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    app.exit(done);
    return kDone;
  } catch (const CLI::Error& error) {
    PrintError(std::string(error.what()) + " (see halyard --help)");
    return kWrongUsage;
  } catch (const CommandError& error) {
    PrintError(error.what());
    return error.status();
  } catch (const hy::Error& error) {
    PrintError(error.what());
    return StatusOf(error.code());
  } catch (const std::bad_alloc&) {
    PrintError("the machine is out of memory");
    return kSystemFailure;
  } catch (const std::exception& error) {
    PrintError(error.what());
    return kSystemFailure;
  }
  return status;
}
