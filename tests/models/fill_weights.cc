// SPDX-License-Identifier: Apache-2.0
// Makes the weights of a committed model graph: reads its weights.txt and writes weights.bin. A
// value depends only on the seed, the tensor's index and the element's index, and is computed with
// integer operations and single correctly rounded float operations, so every machine makes the same
// bits.
//
// usage: fill_weights WEIGHTS.TXT WEIGHTS.BIN [SEED]. Prints the hash of the file.
//
// A line of the list is "kind fan_in offset dims name". With u uniform in [-1, 1) the kinds are
//   weight       u * sqrt(3 / fan_in): outputs vary as much as inputs do
//   weight_relu  u * sqrt(6 / fan_in): the same where a ReLU removes half of the variance
//   bias         u / 10
//   near_one     1 + u / 10, scales of norms
//   positive     1 + u / 5, variances
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"

namespace halyard {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 32;

struct Tensor {
  std::string kind;
  int64_t fan_in = 0;
  int64_t offset_bytes = 0;
  int64_t elements = 0;
};

struct Manifest {
  int64_t size_bytes = 0;
  std::vector<Tensor> tensors;  // by rising offset
};

Result<int64_t> ParseDims(const std::string& text) {
  int64_t elements = 1;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, 'x');) {
    const int64_t dim = std::strtoll(part.c_str(), nullptr, 10);
    if (dim < 1 || dim > kMaxElements / elements) {
      return InvalidArgument("The dims '{}' have no positive product of at most {}.", text,
                             kMaxElements);
    }
    elements *= dim;
  }
  return elements;
}

Result<Manifest> ReadManifest(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("The file '{}' cannot be read.", path);
  Manifest manifest;
  int64_t end_bytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    Tensor tensor;
    std::string dims;
    in >> tensor.kind;
    if (tensor.kind == "bytes") {
      in >> manifest.size_bytes;
      continue;
    }
    if (!(in >> tensor.fan_in >> tensor.offset_bytes >> dims)) {
      return InvalidArgument("The line '{}' of '{}' is not 'kind fan_in offset dims name'.", line,
                             path);
    }
    HY_ASSIGN(tensor.elements, ParseDims(dims));
    if (tensor.offset_bytes < end_bytes || tensor.offset_bytes > 4 * kMaxElements) {
      return InvalidArgument("The line '{}' of '{}' has an offset below {} or above {}.", line,
                             path, end_bytes, 4 * kMaxElements);
    }
    end_bytes = tensor.offset_bytes + 4 * tensor.elements;
    manifest.tensors.push_back(std::move(tensor));
  }
  if (manifest.size_bytes < end_bytes) {
    return InvalidArgument("The tensors of '{}' end at byte {}; the file has {}.", path, end_bytes,
                           manifest.size_bytes);
  }
  return manifest;
}

// The finaliser of SplitMix64: a bijection whose output bits each depend on every input bit.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// value = centre + scale * u.
struct Shape {
  float centre;
  float scale;
};

Result<Shape> ShapeOf(const Tensor& tensor) {
  const double fan_in = static_cast<double>(tensor.fan_in);
  if (tensor.kind == "bias") return Shape{0.0f, 0.1f};
  if (tensor.kind == "near_one") return Shape{1.0f, 0.1f};
  if (tensor.kind == "positive") return Shape{1.0f, 0.2f};
  if (tensor.fan_in < 1) {
    return InvalidArgument("The kind '{}' with fan-in {} is unknown.", tensor.kind, tensor.fan_in);
  }
  if (tensor.kind == "weight") return Shape{0.0f, static_cast<float>(std::sqrt(3.0 / fan_in))};
  if (tensor.kind == "weight_relu") {
    return Shape{0.0f, static_cast<float>(std::sqrt(6.0 / fan_in))};
  }
  return InvalidArgument("The kind '{}' is unknown.", tensor.kind);
}

// Writes bytes one after the other and hashes them.
class Writer {
 public:
  explicit Writer(std::FILE* file) : file_(file) {}

  Status Write(std::span<const float> values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    hasher_.Update({bytes, values.size_bytes()});
    offset_bytes_ += static_cast<int64_t>(values.size_bytes());
    if (std::fwrite(values.data(), sizeof(float), values.size(), file_) != values.size()) {
      return Unavailable("Writing failed after {} bytes: the disk may be full.", offset_bytes_);
    }
    return OkStatus();
  }

  Status PadTo(int64_t offset_bytes) {
    const std::vector<float> zeros(static_cast<size_t>((offset_bytes - offset_bytes_) / 4));
    return Write(zeros);
  }

  uint64_t Hash() const { return hasher_.Finish(); }

 private:
  std::FILE* file_;
  Hasher hasher_;
  int64_t offset_bytes_ = 0;
};

Status WriteTensor(const Tensor& tensor, uint64_t key, Writer& writer) {
  HY_ASSIGN(const Shape shape, ShapeOf(tensor));
  HY_TRY(writer.PadTo(tensor.offset_bytes));
  std::vector<float> block(1 << 16);
  for (int64_t begin = 0; begin < tensor.elements; begin += static_cast<int64_t>(block.size())) {
    const size_t count = static_cast<size_t>(
        std::min<int64_t>(tensor.elements - begin, static_cast<int64_t>(block.size())));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t counter = static_cast<uint64_t>(begin) + i;
      const auto bits = static_cast<int32_t>(Mix(key + counter * 0x9e3779b97f4a7c15u) >> 40);
      const float u = static_cast<float>(bits - (1 << 23)) * 0x1p-23f;
      const float product = shape.scale * u;
      block[i] = shape.centre + product;
    }
    HY_TRY(writer.Write(std::span(block).first(count)));
  }
  return OkStatus();
}

Status Fill(const std::string& manifest_path, const std::string& out_path, uint64_t seed) {
  HY_ASSIGN(const Manifest manifest, ReadManifest(manifest_path));
  const std::string partial_path = out_path + ".partial";
  std::FILE* file = std::fopen(partial_path.c_str(), "wb");
  if (file == nullptr) return Unavailable("The file '{}' cannot be written.", partial_path);
  Writer writer(file);
  Status status = OkStatus();
  uint64_t index = 0;
  for (const Tensor& tensor : manifest.tensors) {
    if (status.ok()) status = WriteTensor(tensor, Mix(Mix(seed) + ++index), writer);
  }
  if (status.ok()) status = writer.PadTo(manifest.size_bytes);
  if (std::fclose(file) != 0 && status.ok()) {
    status = Unavailable("The file '{}' cannot be completed.", partial_path);
  }
  // Readers see the whole file or none.
  if (status.ok() && std::rename(partial_path.c_str(), out_path.c_str()) != 0) {
    status = Unavailable("The file '{}' cannot be renamed to '{}'.", partial_path, out_path);
  }
  if (!status.ok()) {
    std::remove(partial_path.c_str());
    return status;
  }
  std::printf("%016" PRIx64 "\n", writer.Hash());
  return OkStatus();
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: fill_weights WEIGHTS.TXT WEIGHTS.BIN [SEED]\n");
    return 1;
  }
  const uint64_t seed = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const halyard::Status status = halyard::Fill(argv[1], argv[2], seed);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToLine().c_str());
  return status.ok() ? 0 : 2;
}
