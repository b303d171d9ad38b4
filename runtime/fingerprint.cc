// SPDX-License-Identifier: Apache-2.0
// Hashing of models. External data is found by the bytes of its protobuf field, without parsing: a
// StringStringEntryProto with the key "location" is 0A 08 "location" 12 <length> <path>. A false
// hit names a file that is hashed for nothing; a path that leaves the folder is left to the
// importer to refuse.
#include "runtime/fingerprint.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/regular_file.h"

namespace halyard::runtime {
namespace {

constexpr std::string_view kMarker = "\x0a\x08location\x12";
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kMaxPathBytes = 4095;

void FindLocations(std::string_view bytes, std::set<std::string>& out) {
  for (size_t at = bytes.find(kMarker); at != std::string_view::npos;
       at = bytes.find(kMarker, at + 1)) {
    const size_t length_at = at + kMarker.size();
    if (length_at >= bytes.size()) return;
    // A varint of one or two bytes.
    size_t length = static_cast<unsigned char>(bytes[length_at]), path_at = length_at + 1;
    if (length >= 0x80) {
      if (path_at >= bytes.size()) return;
      length = (length & 0x7f) | static_cast<size_t>(static_cast<unsigned char>(bytes[path_at++]))
                                     << 7;
    }
    if (length == 0 || length > kMaxPathBytes || path_at + length > bytes.size()) continue;
    out.emplace(bytes.substr(path_at, length));
  }
}

// What the importer does not refuse by its text: dots inside a name are no way out.
bool IsInsideFolder(const std::string& path) {
  return path[0] != '/' && ("/" + path + "/").find("/../") == std::string::npos &&
         path.find('\0') == std::string::npos;
}

// Hashes a regular file in pieces and looks for locations in it, pieces overlapping by what one
// takes.
Result<uint64_t> HashFile(const std::string& path, std::set<std::string>* locations) {
  HY_ASSIGN(const int descriptor, OpenRegularFile(path));
  Hasher hasher;
  constexpr size_t kOverlap = kMarker.size() + 2 + kMaxPathBytes;
  std::vector<uint8_t> piece(kOverlap + kReadBytes);
  size_t kept = 0;
  while (true) {
    const ssize_t got = read(descriptor, piece.data() + kept, kReadBytes);
    if (got < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      close(descriptor);
      return Unavailable("Reading '{}' fails: {}.", path, std::strerror(error));
    }
    if (got == 0) break;
    hasher.Update({piece.data() + kept, static_cast<size_t>(got)});
    const size_t filled = kept + static_cast<size_t>(got);
    if (locations != nullptr) {
      FindLocations({reinterpret_cast<const char*>(piece.data()), filled}, *locations);
    }
    kept = std::min(filled, kOverlap);
    std::memmove(piece.data(), piece.data() + filled - kept, kept);
  }
  close(descriptor);
  return hasher.Finish();
}

uint64_t AddLocations(uint64_t hash, const std::set<std::string>& locations,
                      const std::string& folder) {
  for (const std::string& location : locations) {
    hash = HashCombine(hash, HashString(location));
    if (!IsInsideFolder(location)) continue;
    const auto content = HashFile(folder + "/" + location, nullptr);
    hash =
        HashCombine(hash, content.ok() ? *content : 0);  // a missing file is the importer's error
  }
  return hash;
}

}  // namespace

Result<uint64_t> FingerprintFile(const std::string& path) {
  std::set<std::string> locations;
  HY_ASSIGN(const uint64_t hash, HashFile(path, &locations));
  const size_t slash = path.rfind('/');
  return AddLocations(hash, locations, slash == std::string::npos ? "." : path.substr(0, slash));
}

Result<uint64_t> FingerprintBytes(std::span<const uint8_t> bytes, const std::string& folder) {
  std::set<std::string> locations;
  if (!folder.empty()) {
    FindLocations({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, locations);
  }
  return AddLocations(HashBytes(bytes), locations, folder);
}

}  // namespace halyard::runtime
