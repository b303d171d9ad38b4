// SPDX-License-Identifier: Apache-2.0
// Signatures of the kinds of files that people pass for a model.
#include "compiler/import/foreign_file.h"

#include <algorithm>

namespace halyard::onnx {
namespace {

struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view what;
};

using namespace std::string_view_literals;
constexpr Signature kSignatures[] = {
    {0, "HALYPROG"sv, "a compiled program of Halyard, which hy_program_load reads"},
    {0, "PK\x03\x04"sv, "a ZIP archive, as PyTorch (.pt, .pth) and NumPy (.npz) write it"},
    {0, "\x80\x02"sv, "a Python pickle, as older versions of PyTorch write it"},
    {0, "\x80\x03"sv, "a Python pickle"},
    {0, "\x80\x04"sv, "a Python pickle"},
    {0, "\x80\x05"sv, "a Python pickle"},
    {0, "GGUF"sv, "a GGUF file (llama.cpp)"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "\x89HDF\r\n"sv, "an HDF5 file, as Keras writes it"},
    {4, "TFL3"sv, "a TensorFlow Lite model"},
    {4, "ORTM"sv, "a model in ONNX Runtime's own format (.ort)"},
    {0, "version https://git-lfs"sv, "a pointer of Git LFS; `git lfs pull` fetches the file"},
    {0, "\x1f\x8b"sv, "a gzip archive"},
    {0, "\x28\xb5\x2f\xfd"sv, "a Zstandard archive"},
    {0,
     "\xfd"
     "7zXZ"sv,
     "an xz archive"},
    {0, "BZh"sv, "a bzip2 archive"},
    {257, "ustar"sv, "a tar archive"},
    {0,
     "\x7f"
     "ELF"sv,
     "an executable or a library"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "\x89PNG"sv, "a picture (PNG)"},
    {0, "\xff\xd8\xff"sv, "a picture (JPEG)"},
};

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A length of 8 bytes, and JSON of that length after it.
bool IsSafetensors(std::string_view head) {
  if (head.size() < 10 || head[8] != '{') return false;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<uint8_t>(head[static_cast<size_t>(i)]);
  return length >= 2 && length < (uint64_t{1} << 32) && (head[9] == '"' || head[9] == '}');
}

// Bytes of UTF-8 text: no control characters but line ends and tabs.
bool IsText(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return (byte >= 0x20 && byte != 0x7f && byte != 0xff) || c == '\n' || c == '\r' || c == '\t';
  });
}

std::string_view DescribeText(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return "blank text";
  std::string low(head.substr(start, 64));
  for (char& c : low) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (low.starts_with("<!doctype html") || low.starts_with("<html")) {
    return "a page of HTML, as a download that failed leaves it";
  }
  if (low[0] == '<') return "XML";
  if (low[0] == '{' || low[0] == '[') return "JSON";
  return "text";
}

}  // namespace

std::string_view DescribeForeignFile(std::span<const uint8_t> head) {
  if (head.empty()) return "empty";
  const std::string_view text = TextOf(head);
  for (const Signature& signature : kSignatures) {
    if (signature.offset <= text.size() &&
        text.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.what;
    }
  }
  if (IsSafetensors(text)) return "a safetensors file, which holds weights without a graph";
  if (IsText(text)) return DescribeText(text);
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == 0; })) return "all zeros";
  return "";
}

bool StartsAsModel(std::span<const uint8_t> head) {
  // One-byte tags: ir_version, model_version; producer_name to domain, doc_string, graph,
  // opset_import, metadata_props.
  constexpr std::string_view kTags = "\x08\x28\x12\x1a\x22\x32\x3a\x42\x72";
  return !head.empty() && kTags.find(static_cast<char>(head[0])) != std::string_view::npos;
}

}  // namespace halyard::onnx
