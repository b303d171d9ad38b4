// SPDX-License-Identifier: Apache-2.0
// Fingerprint: the hash of a model's bytes, its external data included, made without the compiler.
// Part of the key under which the compiled program is cached.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace halyard::runtime {

// Of a file and every file of its folder that it names as external data. NOT_FOUND or UNAVAILABLE
// when the file cannot be read.
Result<uint64_t> FingerprintFile(const std::string& path);
// Of bytes in memory; `folder` holds the external data, empty: none.
Result<uint64_t> FingerprintBytes(std::span<const uint8_t> bytes, const std::string& folder);

}  // namespace halyard::runtime
