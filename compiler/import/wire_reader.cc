// SPDX-License-Identifier: Apache-2.0
// The wire format: docs "Encoding" of protocol buffers. Errors name the byte position in the file.
#include "compiler/import/wire_reader.h"

#include <algorithm>
#include <cstring>

namespace halyard::onnx {
namespace {

constexpr int64_t kWindowBytes = 16 << 10;

uint64_t LoadLittle(const uint8_t* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

}  // namespace

std::string_view FormatWireType(WireType type) {
  switch (type) {
    case WireType::kVarint:
      return "varint";
    case WireType::kFixed64:
      return "64-bit";
    case WireType::kLength:
      return "length-delimited";
    case WireType::kFixed32:
      return "32-bit";
  }
  return "unknown";
}

std::string Printable(std::string_view text) {
  constexpr size_t kMaxBytes = 120;
  std::string out;
  for (char c : text.substr(0, kMaxBytes)) {
    if (c >= 0x20 && c < 0x7f) {
      out.push_back(c);
    } else {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    }
  }
  if (text.size() > kMaxBytes) out += "...";
  return out;
}

WireReader::WireReader(const graph::ByteSource& source)
    : source_(source), size_(std::max<int64_t>(source.size_bytes(), 0)) {
  window_ = source.InMemory();
  if (static_cast<int64_t>(window_.size()) != size_) window_ = {};
}

bool WireReader::Fail(StatusCode code, int64_t position, std::string_view what) {
  if (status_.ok()) status_ = Status(code, fmt::format("{} at byte {}.", what, position));
  return false;
}

bool WireReader::Fill() {
  const int64_t in_window = position_ - window_start_;
  if (in_window >= 0 && in_window < static_cast<int64_t>(window_.size())) return true;
  buffer_.resize(static_cast<size_t>(std::min(kWindowBytes, size_ - position_)));
  if (Status read = source_.Read(position_, buffer_); !read.ok()) {
    if (status_.ok()) status_ = read;
    return false;
  }
  window_ = buffer_;
  window_start_ = position_;
  return true;
}

bool WireReader::Copy(int64_t end, std::span<uint8_t> out) {
  if (!status_.ok()) return false;
  if (static_cast<int64_t>(out.size()) > end - position_) {
    return Fail(StatusCode::kInvalidArgument, position_,
                fmt::format("{} bytes are needed where {} are left,", out.size(), end - position_));
  }
  size_t done = 0;
  while (done < out.size()) {
    if (!Fill()) return false;
    const size_t start = static_cast<size_t>(position_ - window_start_);
    const size_t count = std::min(out.size() - done, window_.size() - start);
    std::memcpy(out.data() + done, window_.data() + start, count);
    done += count;
    position_ += static_cast<int64_t>(count);
  }
  return true;
}

bool WireReader::ReadVarint(int64_t end, uint64_t* out) {
  if (!status_.ok()) return false;
  const int64_t start = position_;
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (position_ >= end) {
      return Fail(StatusCode::kInvalidArgument, start, "A number is cut off");
    }
    if (!Fill()) return false;
    const uint8_t byte = window_[static_cast<size_t>(position_ - window_start_)];
    ++position_;
    if (shift == 63 && byte > 1) {
      return Fail(StatusCode::kInvalidArgument, start, "A number has more than 64 bits");
    }
    value |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) {
      *out = value;
      return true;
    }
  }
  return Fail(StatusCode::kInvalidArgument, start, "A number has more than 64 bits");
}

bool WireReader::ReadTag(int64_t end, uint32_t* field, WireType* type) {
  const int64_t start = position_;
  uint64_t tag = 0;
  if (!ReadVarint(end, &tag)) return false;
  const uint64_t number = tag >> 3;
  const uint8_t wire = tag & 7;
  if (number == 0 || number >= (1u << 29)) {
    return Fail(StatusCode::kInvalidArgument, start,
                fmt::format("Field number {} is outside 1 to 536870911", number));
  }
  if (wire != 0 && wire != 1 && wire != 2 && wire != 5) {
    return Fail(StatusCode::kInvalidArgument, start,
                fmt::format("Wire type {} of field {} is none of 0, 1, 2 and 5", wire, number));
  }
  *field = static_cast<uint32_t>(number);
  *type = static_cast<WireType>(wire);
  return true;
}

bool WireReader::ReadFixed32(int64_t end, uint32_t* out) {
  uint8_t bytes[4];
  if (!Copy(end, bytes)) return false;
  *out = static_cast<uint32_t>(LoadLittle(bytes, 4));
  return true;
}

bool WireReader::ReadFixed64(int64_t end, uint64_t* out) {
  uint8_t bytes[8];
  if (!Copy(end, bytes)) return false;
  *out = LoadLittle(bytes, 8);
  return true;
}

bool WireReader::ReadLength(int64_t end, int64_t* length) {
  const int64_t start = position_;
  uint64_t value = 0;
  if (!ReadVarint(end, &value)) return false;
  if (value > static_cast<uint64_t>(end - position_)) {
    return Fail(StatusCode::kInvalidArgument, start,
                fmt::format("A length of {} bytes stands where {} bytes are left,", value,
                            end - position_));
  }
  *length = static_cast<int64_t>(value);
  return true;
}

bool WireReader::ReadRange(int64_t end, ByteRange* out) {
  int64_t length = 0;
  if (!ReadLength(end, &length)) return false;
  *out = {position_, length};
  position_ += length;
  return true;
}

bool WireReader::ReadString(int64_t end, int64_t max_bytes, std::string* out) {
  const int64_t start = position_;
  int64_t length = 0;
  if (!ReadLength(end, &length)) return false;
  if (length > max_bytes) {
    return Fail(
        StatusCode::kOutOfRange, start,
        fmt::format("A text of {} bytes is longer than the limit of {}", length, max_bytes));
  }
  out->resize(static_cast<size_t>(length));
  return Copy(end, {reinterpret_cast<uint8_t*>(out->data()), out->size()});
}

bool WireReader::Skip(int64_t end, WireType type) {
  if (!status_.ok()) return false;
  switch (type) {
    case WireType::kVarint: {
      uint64_t ignored = 0;
      return ReadVarint(end, &ignored);
    }
    case WireType::kLength: {
      ByteRange ignored;
      return ReadRange(end, &ignored);
    }
    case WireType::kFixed32:
    case WireType::kFixed64: {
      uint8_t ignored[8];
      return Copy(end, std::span(ignored, type == WireType::kFixed32 ? 4 : 8));
    }
  }
  return false;
}

}  // namespace halyard::onnx
