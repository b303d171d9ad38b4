// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/image.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/env.h"
#include "drivers/cpu/features.h"

namespace halyard::drivers::cpu {
namespace {

struct ParsedImage {
  std::vector<CpuImage::Entry> entries;
  std::vector<uint64_t> code_offsets;
};

Result<ParsedImage> Parse(std::span<const uint8_t> bytes, uint64_t host_features) {
  CpuImageHeader header;
  if (bytes.size() < sizeof(header)) {
    return DataLoss("A CPU image has {} bytes; its header alone takes {}.", bytes.size(),
                    sizeof(header));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kCpuImageMagic) {
    return DataLoss("A CPU image starts with {:#010x}; it should be {:#010x}.", header.magic,
                    kCpuImageMagic);
  }
  if (header.version != kCpuImageVersion) {
    return Incompatible("A CPU image has version {}; this build reads version {}.", header.version,
                        kCpuImageVersion);
  }
  if (header.image_bytes != bytes.size() || header.image_bytes > kMaxImageBytes) {
    return DataLoss("A CPU image says that it has {} bytes; it has {}, and at most {} are allowed.",
                    header.image_bytes, bytes.size(), kMaxImageBytes);
  }
  if (header.reserved != 0) {
    return DataLoss("The reserved field of a CPU image's header is {}; it must be 0.",
                    header.reserved);
  }
  if (uint64_t unknown = header.features & ~KnownCpuFeatures()) {
    return Incompatible("A CPU image needs instruction sets that this build does not know: {}.",
                        fmt::join(FormatCpuFeatures(unknown), ", "));
  }
  if (uint64_t missing = header.features & ~host_features) {
    return Incompatible("A CPU image needs instruction sets that this device lacks: {}.",
                        fmt::join(FormatCpuFeatures(missing), ", "));
  }
  uint64_t table_limit = (bytes.size() - sizeof(header)) / sizeof(CpuImageEntry);
  if (header.entry_count == 0 || header.entry_count > table_limit) {
    return DataLoss("A CPU image says that it has {} entries; its size allows 1 to {}.",
                    header.entry_count, table_limit);
  }
  uint64_t table_end = sizeof(header) + uint64_t{header.entry_count} * sizeof(CpuImageEntry);

  ParsedImage image;
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < header.entry_count; ++i) {
    CpuImageEntry raw;
    std::memcpy(&raw, bytes.data() + sizeof(header) + i * sizeof(raw), sizeof(raw));
    if (raw.name_bytes == 0 || raw.name_offset < table_end || raw.name_offset > bytes.size() ||
        raw.name_bytes > bytes.size() - raw.name_offset) {
      return DataLoss(
          "The name of entry {} of a CPU image covers {} bytes from offset {}; it must lie between "
          "{} and {}.",
          i, raw.name_bytes, raw.name_offset, table_end, bytes.size());
    }
    std::string_view name(reinterpret_cast<const char*>(bytes.data()) + raw.name_offset,
                          raw.name_bytes);
    if (!names.insert(name).second)
      return DataLoss("A CPU image has two entries named '{}'.", name);
    if (raw.code_offset < table_end || raw.code_offset >= bytes.size()) {
      return DataLoss("The code of entry '{}' starts at offset {}; it must lie between {} and {}.",
                      name, raw.code_offset, table_end, bytes.size());
    }
    if (raw.workgroup_memory_bytes > kMaxWorkgroupMemoryBytes) {
      return DataLoss("Entry '{}' asks for {} bytes of workgroup memory; at most {} are allowed.",
                      name, raw.workgroup_memory_bytes, kMaxWorkgroupMemoryBytes);
    }
    if (raw.binding_count > kMaxBindings || raw.scalar_count > kMaxScalars) {
      return DataLoss("Entry '{}' has {} bindings and {} scalars; at most {} and {} are allowed.",
                      name, raw.binding_count, raw.scalar_count, kMaxBindings, kMaxScalars);
    }
    CpuImage::Entry entry;
    entry.name = std::string(name);
    entry.workgroup_memory_bytes = raw.workgroup_memory_bytes;
    entry.binding_count = raw.binding_count;
    entry.scalar_count = raw.scalar_count;
    image.entries.push_back(std::move(entry));
    image.code_offsets.push_back(raw.code_offset);
  }
  return image;
}

// Through a memory file, so that no page is ever writable and executable, not even one after the
// other.
Result<void*> MapFromMemoryFile(std::span<const uint8_t> bytes) {
  int file = memfd_create("halyard-code", MFD_CLOEXEC);
  if (file < 0) return Unavailable("memfd_create failed: {}.", std::strerror(errno));
  size_t written = 0;
  while (written < bytes.size()) {
    ssize_t n = write(file, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  void* address = MAP_FAILED;
  if (written == bytes.size()) {
    address = mmap(nullptr, bytes.size(), PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  }
  int error = errno;
  close(file);
  if (address == MAP_FAILED) {
    return OutOfMemory("Mapping {} bytes of code failed: {}.", bytes.size(), std::strerror(error));
  }
  return address;
}

// For systems without memory files: written first, then made executable and no longer writable.
Result<void*> MapAnonymous(std::span<const uint8_t> bytes) {
  void* address =
      mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return OutOfMemory("Mapping {} bytes of code failed: {}.", bytes.size(), std::strerror(errno));
  }
  std::memcpy(address, bytes.data(), bytes.size());
  if (mprotect(address, bytes.size(), PROT_READ | PROT_EXEC) != 0) {
    int error = errno;
    munmap(address, bytes.size());
    return Unavailable("The system refuses executable memory: {}.", std::strerror(error));
  }
  return address;
}

// The form that perf reads: one line per function with address and size in hexadecimal.
void AppendPerfMap(const uint8_t* base, const ParsedImage& image, uint64_t image_bytes) {
  std::FILE* file = std::fopen(fmt::format("/tmp/perf-{}.map", getpid()).c_str(), "ae");
  if (!file) return;
  for (size_t i = 0; i < image.entries.size(); ++i) {
    uint64_t end = image_bytes;
    for (uint64_t offset : image.code_offsets) {
      if (offset > image.code_offsets[i] && offset < end) end = offset;
    }
    std::fprintf(
        file, "%lx %lx %s\n",
        static_cast<unsigned long>(reinterpret_cast<uintptr_t>(base) + image.code_offsets[i]),
        static_cast<unsigned long>(end - image.code_offsets[i]), image.entries[i].name.c_str());
  }
  std::fclose(file);
}

}  // namespace

Result<CpuImage> CpuImage::Load(std::span<const uint8_t> bytes, uint64_t host_features) {
  HY_ASSIGN(ParsedImage parsed, Parse(bytes, host_features));
  Result<void*> mapping = MapFromMemoryFile(bytes);
  if (!mapping.ok()) mapping = MapAnonymous(bytes);
  HY_TRY(mapping);
  CpuImage image;
  image.mapping_ = *mapping;
  image.mapped_bytes_ = bytes.size();
  uint8_t* base = static_cast<uint8_t*>(image.mapping_);
  __builtin___clear_cache(reinterpret_cast<char*>(base),
                          reinterpret_cast<char*>(base) + bytes.size());
  for (size_t i = 0; i < parsed.entries.size(); ++i) {
    parsed.entries[i].function = reinterpret_cast<CpuKernelFunction>(base + parsed.code_offsets[i]);
  }
  if (EnvFlag(EnvVar::kPerfMap)) AppendPerfMap(base, parsed, bytes.size());
  image.entries_ = std::move(parsed.entries);
  return Result<CpuImage>(std::move(image));
}

CpuImage::CpuImage(CpuImage&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      entries_(std::move(other.entries_)) {}

CpuImage::~CpuImage() {
  if (mapping_) munmap(mapping_, mapped_bytes_);
}

}  // namespace halyard::drivers::cpu
