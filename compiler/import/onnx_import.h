// SPDX-License-Identifier: Apache-2.0
// Import of ONNX models (opset 7 and newer, and what did not change since) into Graph IR. Composite
// ops are decomposed here, broadcasts become explicit, model-local functions are inlined, and shape
// arithmetic is folded into expressions by the shape rules of the ops. docs/onnx.md lists what is
// supported.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/import/onnx_proto.h"

namespace halyard::onnx {

struct ImportOptions {
  // Where external data may lie. For a file the default is the file's folder; for bytes external
  // data is refused without it.
  std::string external_data_folder;
  // Symbols fixed to a number, by the name that the model or the importer gives them.
  std::map<std::string, int64_t> symbol_values;
  Limits limits;
};

// An op, or a use of one, that has no translation.
struct UnsupportedOp {
  std::string domain;  // empty: the default domain
  std::string op_type;
  int64_t opset = 0;
  int64_t nodes = 0;
  std::string first_node;
  std::string reason;
};

// A node as the model's author knows it.
struct SourceNode {
  std::string name;  // what the nodes of the Graph IR that it became are named
  std::string op;    // "Conv", "com.microsoft.Gelu"
  std::vector<std::string> outputs;
};

// An initialiser as the model's author knows it.
struct SourceWeight {
  std::string type;                  // "f32[64, 3, 7, 7]"
  std::vector<std::string> readers;  // names of SourceNodes, each once
};

// Filled also when the import fails, as far as it came.
struct ImportReport {
  int64_t ir_version = 0;
  std::string producer;
  int64_t opset = 0;  // of the default domain
  int64_t nodes = 0;  // imported, function bodies counted at each call
  int64_t calls_inlined = 0;
  std::vector<SourceNode> sources;              // of the nodes imported, in the order of import
  std::map<std::string, SourceWeight> weights;  // by name
  std::vector<UnsupportedOp> unsupported;
  std::vector<std::string> warnings;
  // Per name of a graph node the op types of the model's nodes of that name; mostly one.
  std::map<std::string, std::set<std::string>> op_types;
};

// Names of graph parameters and results are the model's input and output names. A failure is one
// line that names the file, the node and its op, what was given and what is allowed. UNIMPLEMENTED
// lists every unsupported op. `report` may be null.
Result<graph::Module> ImportOnnxFile(const std::string& path, const ImportOptions& options = {},
                                     ImportReport* report = nullptr);
// The bytes are borrowed for as long as the module's constants live, unless `keep_alive` owns them.
// `label` stands for the file name in messages.
Result<graph::Module> ImportOnnxBytes(std::span<const uint8_t> bytes,
                                      const ImportOptions& options = {},
                                      ImportReport* report = nullptr,
                                      std::shared_ptr<const void> keep_alive = nullptr,
                                      const std::string& label = "model");

// The table of supported ops as Markdown: what docs/onnx.md holds.
std::string FormatSupportedOps();

}  // namespace halyard::onnx
