// SPDX-License-Identifier: Apache-2.0
// WireReader: bounds-checked reading of the protobuf wire format from a ByteSource. Knows varints,
// fixed words and lengths; what the fields mean is the schema's business (onnx_proto.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"

namespace halyard::onnx {

// A part of the source that was checked to lie inside it but not read.
struct ByteRange {
  int64_t offset = 0;
  int64_t size = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
std::string_view FormatWireType(WireType type);

// Printable form of a name that came from a file: bytes outside printable ASCII become \xNN (valid
// UTF-8 is not looked at), and what is longer than 120 bytes is cut with "...".
std::string Printable(std::string_view text);

// Every read returns false on failure and leaves the reason in status(); after that all reads fail.
// `end` is the first byte that does not belong to the message being read; no read passes it. The
// source is borrowed and read through a window of 16 KiB, or directly where it lies in memory.
class WireReader {
 public:
  explicit WireReader(const graph::ByteSource& source);

  int64_t position() const { return position_; }
  int64_t size_bytes() const { return size_; }
  const Status& status() const { return status_; }
  // Records a failure at `position` (the first one stays) and returns false.
  bool Fail(StatusCode code, int64_t position, std::string_view what);

  [[nodiscard]] bool ReadVarint(int64_t end, uint64_t* out);
  // Field numbers are 1 to 2^29 - 1; groups (wire types 3 and 4) are refused.
  [[nodiscard]] bool ReadTag(int64_t end, uint32_t* field, WireType* type);
  [[nodiscard]] bool ReadFixed32(int64_t end, uint32_t* out);
  [[nodiscard]] bool ReadFixed64(int64_t end, uint64_t* out);
  // Reads a length and checks that so many bytes follow before `end`. The bytes are not consumed.
  [[nodiscard]] bool ReadLength(int64_t end, int64_t* length);
  // Consumes a length-delimited field without reading its content.
  [[nodiscard]] bool ReadRange(int64_t end, ByteRange* out);
  [[nodiscard]] bool ReadString(int64_t end, int64_t max_bytes, std::string* out);
  [[nodiscard]] bool Skip(int64_t end, WireType type);

 private:
  // Makes the byte at position_ available in window_.
  bool Fill();
  bool Copy(int64_t end, std::span<uint8_t> out);

  const graph::ByteSource& source_;
  int64_t size_ = 0;
  int64_t position_ = 0;
  int64_t window_start_ = 0;
  std::span<const uint8_t> window_;  // bytes [window_start_, window_start_ + size)
  std::vector<uint8_t> buffer_;
  Status status_;
};

}  // namespace halyard::onnx
