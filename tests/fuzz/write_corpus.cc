// SPDX-License-Identifier: Apache-2.0
// Writes committed seeds of the fuzzers, tests/fuzz/corpus: run it after a change of a format. It
// is built only when asked for. The seeds ir/graph*, ir/loop* and ir/kernel* are texts from hy-opt.
//
// usage: write_corpus CORPUS_FOLDER
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "compiler/program/file.h"
#include "compiler/program/program.h"
#include "tests/compiler/import/seed_models.h"
#include "tests/program/random_program.h"

namespace {

void Write(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_corpus CORPUS_FOLDER\n";
    return 1;
  }
  const std::filesystem::path folder = argv[1];
  int index = 0;
  for (const std::string& model : halyard::onnx::testing::SeedModels()) {
    Write(folder / "onnx" / ("seed" + std::to_string(index++)), model);
  }
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const auto program = halyard::program::RandomProgram(seed);
    const auto name = std::to_string(seed);
    Write(folder / "ir" / ("program" + name),
          "// level: program\n" + halyard::program::Format(program));
    const auto saved =
        halyard::program::Save(program, (folder / "program" / ("file" + name)).string());
    if (!saved.ok()) {
      std::cerr << saved.ToString() << "\n";
      return 2;
    }
  }
  return 0;
}
