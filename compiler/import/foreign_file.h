// SPDX-License-Identifier: Apache-2.0
// What a file that is no ONNX model looks like, by its first bytes: for the error that says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace halyard::onnx {

// How many bytes from the start of a file DescribeForeignFile wants; a shorter file has fewer.
inline constexpr int64_t kForeignHeadBytes = 4096;

// "a ZIP archive, as PyTorch (.pt, .pth) and NumPy (.npz) write it"; empty when the bytes are of
// no kind that is known here. Such bytes may still be the start of an ONNX file: ask only when
// reading it as one failed.
std::string_view DescribeForeignFile(std::span<const uint8_t> head);

// Whether the bytes start as an ONNX model does: with a field of ModelProto of its wire type.
bool StartsAsModel(std::span<const uint8_t> head);

}  // namespace halyard::onnx
