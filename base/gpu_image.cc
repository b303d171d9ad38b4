// SPDX-License-Identifier: Apache-2.0
// Layout and checks of GPU images.
#include "base/gpu_image.h"

#include <cstring>
#include <map>
#include <set>

namespace halyard {
namespace {

constexpr uint64_t kModuleAlignment = 16;
constexpr uint32_t kMaxEntries = 1u << 20;

uint64_t AlignUp(uint64_t value) {
  return (value + kModuleAlignment - 1) / kModuleAlignment * kModuleAlignment;
}

bool IsInside(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

}  // namespace

std::vector<uint8_t> WriteGpuImage(const GpuImage& given) {
  GpuImage image;
  image.kind = given.kind;
  image.target = given.target;
  for (const GpuKernel& kernel : given.kernels) {
    image.kernels.push_back(kernel);
    if (kernel.library.empty()) continue;
    image.kernels.push_back(kernel);
    image.kernels.back().module = kernel.library;
    image.kernels.back().flags = kGpuEntryLibraryCall;
  }
  const uint64_t names_start =
      sizeof(GpuImageHeader) + image.kernels.size() * sizeof(GpuImageEntry);
  uint64_t size = names_start;
  for (const GpuKernel& kernel : image.kernels) size += kernel.name.size();
  std::map<std::pair<const uint8_t*, size_t>, uint64_t> module_offsets;
  for (const GpuKernel& kernel : image.kernels) {
    const auto key = std::make_pair(kernel.module.data(), kernel.module.size());
    if (module_offsets.contains(key)) continue;
    size = AlignUp(size);
    module_offsets[key] = size;
    size += kernel.module.size();
  }

  std::vector<uint8_t> bytes(size);
  GpuImageHeader header{};
  header.magic = kGpuImageMagic;
  header.version = kGpuImageVersion;
  header.image_bytes = size;
  header.module_kind = static_cast<uint32_t>(image.kind);
  header.entry_count = static_cast<uint32_t>(image.kernels.size());
  header.target = image.target;
  std::memcpy(bytes.data(), &header, sizeof(header));
  uint64_t name_offset = names_start;
  uint64_t entry_offset = sizeof(header);
  for (const GpuKernel& kernel : image.kernels) {
    GpuImageEntry entry{};
    entry.name_offset = static_cast<uint32_t>(name_offset);
    entry.name_bytes = static_cast<uint32_t>(kernel.name.size());
    entry.module_offset = module_offsets[{kernel.module.data(), kernel.module.size()}];
    entry.module_bytes = kernel.module.size();
    entry.binding_count = kernel.binding_count;
    entry.scalar_count = kernel.scalar_count;
    for (int axis = 0; axis < 3; ++axis) entry.workgroup_size[axis] = kernel.workgroup_size[axis];
    entry.subgroup_size = kernel.subgroup_size;
    entry.dynamic_workgroup_bytes = kernel.dynamic_workgroup_bytes;
    entry.flags = kernel.flags;
    std::memcpy(&bytes[entry_offset], &entry, sizeof(entry));
    entry_offset += sizeof(entry);
    if (!kernel.name.empty())
      std::memcpy(&bytes[name_offset], kernel.name.data(), kernel.name.size());
    name_offset += kernel.name.size();
    if (!kernel.module.empty()) {
      std::memcpy(&bytes[entry.module_offset], kernel.module.data(), kernel.module.size());
    }
  }
  return bytes;
}

Result<GpuImage> ReadGpuImage(std::span<const uint8_t> bytes) {
  GpuImageHeader header;
  if (bytes.size() < sizeof(header)) {
    return DataLoss("A GPU image of {} bytes is shorter than its header of {}.", bytes.size(),
                    sizeof(header));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kGpuImageMagic || header.version != kGpuImageVersion) {
    return DataLoss("A GPU image starts with {:#x} version {}; expected {:#x} version {}.",
                    header.magic, header.version, kGpuImageMagic, kGpuImageVersion);
  }
  if (header.image_bytes != bytes.size()) {
    return DataLoss("A GPU image of {} bytes says that it has {}.", bytes.size(),
                    header.image_bytes);
  }
  if (header.module_kind < static_cast<uint32_t>(GpuModuleKind::kCubin) ||
      header.module_kind > static_cast<uint32_t>(GpuModuleKind::kKernelIr)) {
    return DataLoss("A GPU image has modules of the unknown kind {}.", header.module_kind);
  }
  if (header.entry_count > kMaxEntries ||
      !IsInside(sizeof(header), uint64_t{header.entry_count} * sizeof(GpuImageEntry),
                bytes.size())) {
    return DataLoss("A GPU image of {} bytes says that it has {} entries.", bytes.size(),
                    header.entry_count);
  }
  GpuImage image;
  image.kind = static_cast<GpuModuleKind>(header.module_kind);
  image.target = header.target;
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < header.entry_count; ++i) {
    GpuImageEntry entry;
    std::memcpy(&entry, &bytes[sizeof(header) + i * sizeof(entry)], sizeof(entry));
    if (entry.name_bytes == 0 || !IsInside(entry.name_offset, entry.name_bytes, bytes.size())) {
      return DataLoss("Entry {} of a GPU image has its name outside the image.", i);
    }
    if (entry.module_bytes == 0 || entry.module_offset % kModuleAlignment != 0 ||
        !IsInside(entry.module_offset, entry.module_bytes, bytes.size())) {
      return DataLoss("Entry {} of a GPU image has its module outside the image.", i);
    }
    GpuKernel kernel;
    kernel.name = {reinterpret_cast<const char*>(&bytes[entry.name_offset]), entry.name_bytes};
    kernel.module = bytes.subspan(entry.module_offset, entry.module_bytes);
    kernel.binding_count = entry.binding_count;
    kernel.scalar_count = entry.scalar_count;
    for (int axis = 0; axis < 3; ++axis) {
      if (entry.workgroup_size[axis] == 0) {
        return DataLoss("Entry '{}' of a GPU image has a workgroup of size 0.", kernel.name);
      }
      kernel.workgroup_size[axis] = entry.workgroup_size[axis];
    }
    kernel.subgroup_size = entry.subgroup_size;
    kernel.dynamic_workgroup_bytes = entry.dynamic_workgroup_bytes;
    kernel.flags = entry.flags;
    if (entry.flags == kGpuEntryLibraryCall && image.kind != GpuModuleKind::kSpirv) {
      if (image.kernels.empty() || image.kernels.back().name != kernel.name ||
          !image.kernels.back().library.empty()) {
        return DataLoss("The library record '{}' of a GPU image does not follow its kernel.",
                        kernel.name);
      }
      image.kernels.back().library = kernel.module;
      continue;
    }
    if ((entry.flags & ~kGpuEntryWaitsItself) != 0) {
      return DataLoss("Entry '{}' of a GPU image has the unknown flags {:#x}.", kernel.name,
                      entry.flags);
    }
    if (!names.insert(kernel.name).second) {
      return DataLoss("A GPU image has two entries named '{}'.", kernel.name);
    }
    image.kernels.push_back(kernel);
  }
  return image;
}

Result<std::vector<uint8_t>> AddLibraryCalls(std::span<const uint8_t> bytes,
                                             const std::map<uint32_t, GpuLibraryCall>& calls) {
  HY_ASSIGN(GpuImage image, ReadGpuImage(bytes));
  for (const auto& [index, call] : calls) {
    if (index >= image.kernels.size()) {
      return InvalidArgument("A library record is for kernel {} of {}.", index,
                             image.kernels.size());
    }
    image.kernels[index].library = {reinterpret_cast<const uint8_t*>(&call), sizeof(call)};
  }
  return WriteGpuImage(image);
}

}  // namespace halyard
