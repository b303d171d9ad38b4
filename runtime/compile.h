// SPDX-License-Identifier: Apache-2.0
// Compile: from a model to a loaded program, through the cache where it can. The only user of the
// compiler library beside graph verification and the interpreter.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/abi.h"
#include "runtime/instance.h"
#include "runtime/interpreter.h"
#include "runtime/loaded_program.h"

namespace halyard::runtime {

// What to compile: exactly one of path, bytes and graph text. Kept by the program for new sizes.
struct CompileSource {
  std::string path;
  std::shared_ptr<const std::vector<uint8_t>> bytes;
  std::string external_folder;
  std::string graph_text;
  std::map<std::string, std::shared_ptr<const graph::ByteSource>> graph_constants;
};

struct CompileJob {
  CompileSource source;
  std::vector<Ref<hal::Device>> devices;        // never empty
  std::vector<std::string> fallbacks;           // devices that were left out, for the records
  std::map<std::string, std::string> left_out;  // by "auto": why, by path; for the records
  CompileOptions options;
  bool use_cache = true;
  bool warns_of_fallbacks = false;  // each kind of fallback is also a line of the log
  bool is_first = true;      // warnings of the model and of its placement are lines of the log
  bool verify_plan = false;  // runtime/verify_plan.h
  bool replan = false;       // not from the cache
  bool first_probe = true;   // runtime/probe/first_probe.h, as long as the environment says
  std::function<void(std::string_view phase, double fraction)> progress;  // may be empty
  std::function<bool()> should_stop;  // as CompileRequest's; of this call alone, like progress
};

// The request of the compiler library for a source; borrows from it.
CompileRequest MakeRequest(const CompileSource& source);

// Thread-safe; blocks. Failures are those of the importer and compiler, or UNAVAILABLE without a
// compiler.
Result<std::shared_ptr<LoadedProgram>> Compile(std::shared_ptr<Instance> instance, CompileJob job);

// INVALID_ARGUMENT unless `devices` can stand for the program's, in its order: as many, of the same
// drivers, each once, and none in the place of another that the program names too; names both.
Status CheckDevices(const program::Program& program, std::span<const Ref<hal::Device>> devices);

// The device that a saved program names. One that is not there is UNAVAILABLE; NOT_FOUND is for
// files.
Result<Ref<hal::Device>> OpenDeviceOf(Instance& instance, const program::Device& device);

// Loads a saved program. `devices` stand for its devices in order; empty: opened by their paths.
// INCOMPATIBLE, naming what is missing, when one cannot run the code.
Result<std::shared_ptr<LoadedProgram>> LoadSaved(std::shared_ptr<Instance> instance,
                                                 program::Program program,
                                                 std::vector<Ref<hal::Device>> devices,
                                                 std::vector<Phase> phases);

// Runs interpreted ops through the compiler library, which it opens at the first one.
Interpreter MakeInterpreter();

}  // namespace halyard::runtime
