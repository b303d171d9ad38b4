// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/pipeline_cache.h"

#include <sys/stat.h>

#include <cstring>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/regular_file.h"

namespace halyard::drivers::vulkan {
namespace {

// The file: this, then the vendor's blob.
struct FileHeader {
  char magic[8];       // "HYVKPC1"
  uint64_t identity;   // of the device and its driver
  uint64_t blob_hash;  // vendors trust their blobs, so a damaged one must not reach them
  uint64_t blob_bytes;
};
constexpr char kMagic[8] = "HYVKPC1";
// Larger ones, full of what nobody uses any more, are started anew.
constexpr uint64_t kMaxBlobBytes = uint64_t{256} << 20;

uint64_t IdentityOf(const PhysicalDevice& device) {
  Hasher hasher;
  auto add = [&hasher](const auto& value) {
    hasher.Update({reinterpret_cast<const uint8_t*>(&value), sizeof(value)});
  };
  add(device.properties.vendorID);
  add(device.properties.deviceID);
  add(device.properties.driverVersion);
  add(device.properties.pipelineCacheUUID);
  add(device.v11.driverUUID);
  return hasher.Finish();
}

// The folder, made if need be; empty when there is none that only this user writes to.
std::string CacheFolder() {
  std::string folder = EnvString(EnvVar::kCacheDir);
  if (folder == "off") return {};
  if (folder.empty()) folder = EnvDefaultCacheFolder();
  if (folder.empty()) return {};
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    (void)mkdir(folder.substr(0, end).c_str(), 0700);  // most exist
    if (end == std::string::npos) break;
  }
  struct stat info;
  bool is_ours = stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                 info.st_uid == geteuid() && (info.st_mode & 022) == 0;
  return is_ours ? folder : std::string();
}

std::vector<uint8_t> ReadBlob(const std::string& path, uint64_t identity) {
  if (RemoveUnlessRegular(path))
    HY_LOG(kInfo, "The pipeline cache '{}' was no regular file and was removed.", path);
  const Result<std::string> file = ReadRegularFile(path, sizeof(FileHeader) + kMaxBlobBytes);
  FileHeader header = {};
  if (!file.ok() || file->size() < sizeof(header)) return {};
  std::memcpy(&header, file->data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.identity != identity ||
      header.blob_bytes > kMaxBlobBytes) {
    return {};
  }
  std::vector<uint8_t> blob(file->begin() + sizeof(header), file->end());
  if (blob.size() != header.blob_bytes || HashBytes(blob) != header.blob_hash) return {};
  return blob;
}

// Whole or not at all, whoever else writes it.
Status WriteFile(const std::string& path, const FileHeader& header,
                 const std::vector<uint8_t>& blob) {
  RemoveUnlessRegular(path);
  HY_ASSIGN(const auto file, OutputFile::Create(path));
  HY_TRY(file->Append({reinterpret_cast<const uint8_t*>(&header), sizeof(header)}));
  HY_TRY(file->Append(blob));
  return file->Finish(false);
}

}  // namespace

PipelineCache::PipelineCache(std::shared_ptr<DeviceHandle> device) : device_(std::move(device)) {
  uint64_t identity = IdentityOf(*device_->physical);
  if (std::string folder = CacheFolder(); !folder.empty()) {
    path_ = fmt::format("{}/vulkan-{:016x}.pipelines", folder, identity);
  }
  std::vector<uint8_t> blob;
  if (!path_.empty()) blob = ReadBlob(path_, identity);
  auto info = Typed<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  info.initialDataSize = saved_bytes_ = blob.size();
  info.pInitialData = blob.data();
  if (device_->vk.vkCreatePipelineCache(device_->device, &info, nullptr, &handle_) != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
  }
}

PipelineCache::~PipelineCache() {
  Save();
  device_->vk.vkDestroyPipelineCache(device_->device, handle_, nullptr);
}

void PipelineCache::Save() {
  if (handle_ == VK_NULL_HANDLE || path_.empty()) return;
  size_t size = 0;
  if (device_->vk.vkGetPipelineCacheData(device_->device, handle_, &size, nullptr) != VK_SUCCESS ||
      size <= saved_bytes_) {
    return;
  }
  std::vector<uint8_t> blob(size);
  if (device_->vk.vkGetPipelineCacheData(device_->device, handle_, &size, blob.data()) !=
      VK_SUCCESS) {
    return;
  }
  blob.resize(size);
  FileHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.identity = IdentityOf(*device_->physical);
  header.blob_hash = HashBytes(blob);
  header.blob_bytes = blob.size();
  if (const Status written = WriteFile(path_, header, blob); written.ok()) {
    saved_bytes_ = size;
  } else {
    HY_LOG(kInfo, "The pipeline cache is not kept: {}", written.ToLine());
  }
}

}  // namespace halyard::drivers::vulkan
