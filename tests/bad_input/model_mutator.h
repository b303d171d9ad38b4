// SPDX-License-Identifier: Apache-2.0
// Damages ONNX files the way a careless exporter or an attacker would: the file is taken apart
// along protobuf's wire format, one to three of its parts are changed, and it is written again. It
// knows field numbers only, and nothing of the reader under test.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace halyard {

// One field of a message. Sub-messages are taken apart only where ONNX has them.
struct WireField {
  uint32_t number = 0;
  uint32_t wire_type = 0;           // 0 varint, 1 and 5 fixed, 2 bytes
  uint64_t value = 0;               // of a varint
  std::string bytes;                // of fixed fields, and of bytes that are no message
  std::vector<WireField> children;  // of a message
  uint8_t message = 0;              // what kind of message this is; 0: it is none
};

class ModelMutator {
 public:
  explicit ModelMutator(std::string_view model);

  // The same bytes for the same seed. Some results are still good models.
  std::string Mutate(uint64_t seed) const;
  // The file as it was taken apart and written again.
  std::string Unchanged() const;

 private:
  std::vector<WireField> fields_;
};

}  // namespace halyard
