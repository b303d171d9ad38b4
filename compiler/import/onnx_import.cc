// SPDX-License-Identifier: Apache-2.0
// The entry points of the importer, and the table of everything it translates.
#include "compiler/import/onnx_import.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "compiler/graph/constants.h"
#include "compiler/import/foreign_file.h"
#include "compiler/import/onnx_context.h"
#include "compiler/import/onnx_importer.h"

namespace halyard::onnx {
namespace {

// The error of a file that cannot be read as a model, or that is one without a graph (`failure` is
// OK): that it is none, and what it seems to be.
Status WhyNoModel(const graph::ByteSource& source, const Status& failure) {
  constexpr std::string_view kRead =
      "; ONNX models and programs that `halyard compile` writes are read.";
  const bool is_wrong = failure.ok() || failure.code() == StatusCode::kInvalidArgument;
  if (!is_wrong) return failure;  // a limit, or the file system
  std::vector<uint8_t> head(
      static_cast<size_t>(std::clamp<int64_t>(source.size_bytes(), 0, kForeignHeadBytes)));
  if (!head.empty()) HY_TRY(source.Read(0, head));
  if (const std::string_view what = DescribeForeignFile(head); !what.empty()) {
    return InvalidArgument("The file is no ONNX model but {}{}", what, kRead);
  }
  if (failure.ok()) {
    return InvalidArgument("The file is no ONNX model: it holds no graph{}", kRead);
  }
  std::string detail = failure.message();
  if (detail.ends_with('.')) detail.pop_back();
  if (StartsAsModel(head)) {
    return InvalidArgument("The ONNX model is damaged or cut off: {}.", detail);
  }
  return InvalidArgument("The file is no ONNX model ({}){}", detail, kRead);
}

Result<graph::Module> Import(std::shared_ptr<const graph::ByteSource> source,
                             const std::string& label, ExternalFiles external,
                             const ImportOptions& options, ImportReport* report) {
  ImportReport ignored;
  ImportReport& filled = report != nullptr ? *report : ignored;
  filled = {};
  auto imported = CatchAll([&]() -> Result<graph::Module> {
    auto read = ReadModel(*source, options.limits);
    if (!read.ok() || read->graph == nullptr) return WhyNoModel(*source, read.status());
    const ModelProto model = std::move(read).value();
    Importer importer(model, source, std::move(external), options, filled);
    return importer.Run();
  });
  if (imported.ok()) return imported;
  const Status& status = imported.status();
  return Status(status.code(), fmt::format("{}: {}", label, status.ToLine()));
}

}  // namespace

Result<graph::Module> ImportOnnxFile(const std::string& path, const ImportOptions& options,
                                     ImportReport* report) {
  HY_ASSIGN(auto source, graph::OpenFile(path));
  std::string folder = options.external_data_folder;
  if (folder.empty()) {
    const size_t slash = path.rfind('/');
    folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  }
  return Import(std::move(source), path, ExternalFiles(folder, path), options, report);
}

Result<graph::Module> ImportOnnxBytes(std::span<const uint8_t> bytes, const ImportOptions& options,
                                      ImportReport* report, std::shared_ptr<const void> keep_alive,
                                      const std::string& label) {
  return Import(graph::BorrowBytes(bytes, std::move(keep_alive)), label,
                ExternalFiles(options.external_data_folder), options, report);
}

std::span<const ImportTable> AllImportTables() {
  static const ImportTable tables[] = {
      {"", "Arithmetic, comparison, conversion", ElementwiseRows()},
      {"", "Activations", ActivationRows()},
      {"", "Shapes", ShapeRows()},
      {"", "Slices and pads", SliceRows()},
      {"", "Constants, ranges, masks", GenerateRows()},
      {"", "Gather, scatter, indices", IndexingRows()},
      {"", "Reductions and softmax", ReduceRows()},
      {"", "Matrix products", MatmulRows()},
      {"", "Convolution and pooling", ConvRows()},
      {"", "Normalisation", NormRows()},
      {"", "Quantisation", QuantizeRows()},
      {"", "Resize", ResizeRows()},
      {"", "Control flow", ControlRows()},
      {"", "Attention", AttentionRows()},
      {"", "Recurrent layers", RecurrentRows()},
      {"", "Losses", LossRows()},
      {"", "Images", SampleRows()},
      {"", "Windows put back", FoldRows()},
      {"", "Detection", DetectionRows()},
      {"", "Signals", SignalRows()},
      {"", "Random numbers", RandomRows()},
      {"com.microsoft", "Activations", MicrosoftRows()},
      {"com.microsoft", "Normalisation", MicrosoftNormRows()},
  };
  return tables;
}

const ImportRow* FindImportRow(std::string_view domain, std::string_view op, int64_t opset) {
  for (const ImportTable& table : AllImportTables()) {
    if (table.domain != domain) continue;
    for (const ImportRow& row : table.rows) {
      if (row.op == op && opset >= row.since && (row.until == 0 || opset <= row.until)) return &row;
    }
  }
  return nullptr;
}

int64_t NewestOpset() {
  int newest = 0;
  for (const ImportTable& table : AllImportTables()) {
    if (!table.domain.empty()) continue;
    for (const ImportRow& row : table.rows) newest = std::max({newest, row.since, row.until});
  }
  return newest;
}

std::string WhereImported(std::string_view domain, std::string_view op, int64_t opset) {
  int64_t first = 0, last = 0;
  for (const ImportTable& table : AllImportTables()) {
    if (table.domain != domain) continue;
    for (const ImportRow& row : table.rows) {
      if (row.op != op) continue;
      if (row.since > opset && (first == 0 || row.since < first)) first = row.since;
      if (row.until != 0 && row.until < opset) last = std::max<int64_t>(last, row.until);
    }
  }
  if (first != 0) return fmt::format("it is supported from opset {} on.", first);
  if (last != 0) return fmt::format("it is supported up to opset {}.", last);
  return "there is no such op here.";
}

std::string FormatSupportedOps() {
  std::string out =
      "# ONNX ops that are imported\n\n"
      "Generated from the tables in `compiler/import/onnx_*.cc`; `HALYARD_BLESS=1` with the "
      "compiler tests "
      "rewrites it. \"Known before the run\" means: from constants, or "
      "from "
      "shapes as expressions over the symbols of the inputs. Sequences, maps, optionals, sparse "
      "tensors and "
      "strings are not supported. Model-local functions are inlined. Where no kernels are "
      "generated "
      "the interpreter computes, and `halyard explain` names the nodes: If and Loop that are not "
      "decided while compiling, remainders of f64, sorting along more than 8192 "
      "elements.\n\n"
      "`build/dev/tests/onnx_cases FOLDER [NAME_PART] [--list]` runs folders of ONNX's own test "
      "cases through import and the interpreter. `cmake --build --preset dev --target onnx_cases` "
      "builds it alone, and `.venv/bin/python3 tests/onnx_cases/write_cases.py FOLDER` writes the "
      "cases (`scripts/venv.sh` brings their package). "
      "`tests/onnx_cases/expected.txt` says how each of ONNX's node tests ends: *passed*; "
      "*constant*, "
      "passed with its inputs as constants of the model, as exporters write axes and shapes; or "
      "*refused*, with the reason. Of those marked *FAILED*, two take the fractional size of a "
      "resized axis for align_corners, where Halyard takes the whole one as ONNX Runtime does, and "
      "six are of Bernoulli with NumPy's random numbers.\n\n"
      "Where shapes are joined, an open size of 1 repeats nothing: two open sizes are taken as "
      "equal, and a run that gives them other values is refused with their names and values. Only "
      "a dim that the model states as 1 is repeated. An open size is 0 to 2^31 - 1, also where it "
      "is fixed when "
      "compiling; a dim that the model states is at most 2^40.\n\n"
      "Indices and lengths that only a run tells are checked where they are used: the run fails "
      "with the node, the value and what it must be below. Negative ones count from the end where "
      "ONNX says so (Gather, Scatter and their kin); lengths, `batch_indices`, `position_ids`, "
      "`write_indices`, indices of MaxUnpool and targets of losses must lie in range as they "
      "are.\n\n"
      "External data lies below the folder of the model; where the model's file is a link, also in "
      "the folder that this leads to, as caches of downloads hold models "
      "([decision 35](decisions/0035-links-to-external-data.md)).\n\n";
  for (const ImportTable& table : AllImportTables()) {
    out += fmt::format("## {}{}{}\n\n| op | opset | limits |\n|---|---|---|\n", table.family,
                       table.domain.empty() ? "" : ", domain ", table.domain);
    for (const ImportRow& row : table.rows) {
      const int since = row.since;
      out += fmt::format("| {} | {} | {} |\n", row.op,
                         row.until == 0 ? fmt::format("{} and newer", since)
                                        : fmt::format("{} to {}", since, row.until),
                         row.note);
    }
    out += "\n";
  }
  return out;
}

}  // namespace halyard::onnx
