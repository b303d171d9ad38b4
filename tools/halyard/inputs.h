// SPDX-License-Identifier: Apache-2.0
// The inputs of a run: from files, or random where none are given, in the model's order.
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tools/halyard/command.h"
#include "tools/halyard/files.h"
#include "tools/halyard/tensor_io.h"

namespace halyard::tools {

struct InputOptions {
  std::vector<std::string> inputs;  // "NAME=@FILE.npy"
  std::string input_dir;
  uint64_t seed = 1;
};
void AddInputOptions(CLI::App& app, InputOptions& options);
// The files that the options read; of the folder all that may be inputs.
std::vector<NamedFile> FilesOf(const InputOptions& options);

class Inputs {
 public:
  // Throws CommandError that names the file or the size that is wrong.
  Inputs(const Model& model, const ModelOptions& model_options, const InputOptions& options);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::string name(size_t i) const { return hy::ToString(infos_[i].name); }
  // Sizes by name, as far as inputs or options give them.
  const std::map<std::string, int64_t>& symbols() const { return symbols_; }

 private:
  void RefuseOthers(const std::string& folder, const std::set<std::string>& taken) const;
  void ReadDirectory(const InputOptions& options);
  void ReadNamed(const std::string& model, const InputOptions& options);
  void BindGiven();
  void SetDefault(const hy_symbol_info& symbol);
  void MakeRandom(size_t index, std::mt19937_64& random);

  std::vector<hy_tensor_info> infos_;
  std::vector<Tensor> tensors_;
  std::map<std::string, int64_t> symbols_;
};

// A tensor as a call takes it; borrows the bytes.
hy_tensor ToCall(const Tensor& tensor);
// A copy of what a call gave back.
Tensor ToTensor(const hy_tensor& call);

}  // namespace halyard::tools
