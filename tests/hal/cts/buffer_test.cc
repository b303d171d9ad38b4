// SPDX-License-Identifier: Apache-2.0
// Buffers: allocation, limits, mapping, import.
#include <array>
#include <cstring>

#include "tests/hal/cts/cts.h"

namespace halyard::cts {
namespace {

HAL_CASE(BufferSizesAndAlignment) {
  for (int64_t size : {0, 1, 63, 64, 65, 4097, 5000000}) {
    Ref<hal::Buffer> buffer = Allocate(size, hal::MemoryKind::kHostVisible);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size_bytes(), size);
    EXPECT_EQ(buffer->kind(), hal::MemoryKind::kHostVisible);
    EXPECT_EQ(buffer->device(), device_.get());
    Result<uint8_t*> address = buffer->Map(0, size);
    ASSERT_OK(address);
    ASSERT_NE(*address, nullptr);
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(*address) % static_cast<uint64_t>(device_->buffer_alignment()),
        0u);
    std::memset(*address, 0x5a, static_cast<size_t>(size));
    EXPECT_OK(buffer->FlushMapped(0, size));
    EXPECT_OK(buffer->InvalidateMapped(0, size));
  }
}

HAL_CASE(BufferMapChecksItsRange) {
  Ref<hal::Buffer> buffer = Allocate(100, hal::MemoryKind::kStaging);
  EXPECT_OK(buffer->Map(100, 0));
  EXPECT_FAILS(buffer->Map(0, 101), kOutOfRange, "101 bytes from offset 0; only 100");
  EXPECT_FAILS(buffer->Map(-1, 1), kOutOfRange, "offset -1");
  EXPECT_FAILS(buffer->Map(1, -1), kOutOfRange, "-1 bytes");
  EXPECT_FAILS(buffer->Map(INT64_MAX, INT64_MAX), kOutOfRange, "only 100");
  EXPECT_FAILS(buffer->FlushMapped(50, 51), kOutOfRange, "only 100");
  EXPECT_FAILS(buffer->InvalidateMapped(50, 51), kOutOfRange, "only 100");
}

HAL_CASE(BufferOfDeviceMemoryMapsOnlyWhereTheHostCanAddressIt) {
  Ref<hal::Buffer> buffer = Allocate(64, hal::MemoryKind::kDevice);
  if (!maps_device_memory()) {
    EXPECT_FAILS(buffer->Map(0, 64), kIncompatible, "cannot address device memory");
    EXPECT_FALSE(device_->capabilities().memory.is_host_memory.value);
  } else {
    EXPECT_OK(buffer->Map(0, 64));
  }
}

HAL_CASE(BufferOutOfMemoryIsAStatus) {
  hal::MemoryStatistics before = device_->memory_statistics();
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, INT64_MAX), kOutOfMemory,
               "9223372036854775807 bytes");
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, int64_t{1} << 50), kOutOfMemory,
               "bytes are left");
  EXPECT_FAILS(device_->AllocateBuffer(hal::MemoryKind::kDevice, -1), kInvalidArgument, "-1 bytes");
  EXPECT_EQ(device_->memory_statistics().live_bytes, before.live_bytes);
  EXPECT_TRUE(Allocate(64));
}

HAL_CASE(BufferMemoryIsCountedAndReturned) {
  int64_t before = device_->memory_statistics().live_bytes;
  {
    Ref<hal::Buffer> a = Allocate(1000);
    Ref<hal::Buffer> b = Allocate(2000, hal::MemoryKind::kStaging);
    EXPECT_EQ(device_->memory_statistics().live_bytes, before + 3000);
    EXPECT_GE(device_->memory_statistics().peak_bytes, before + 3000);
  }
  EXPECT_EQ(device_->memory_statistics().live_bytes, before);
  EXPECT_GE(device_->memory_statistics().peak_bytes, before + 3000);
}

HAL_CASE(BufferImportUsesTheMemoryInPlaceOrRefuses) {
  alignas(64) static std::array<int64_t, 8> memory;
  memory = {1, 2, 3, 4, 5, 6, 7, 8};
  bool is_released = false;
  {
    hal::HostMemory host{memory.data(), sizeof(memory), false, [&] { is_released = true; }};
    Result<Ref<hal::Buffer>> buffer = device_->ImportHostMemory(host);
    if (!imports_host_memory()) {
      EXPECT_FAILS(buffer, kIncompatible, "in place");
      EXPECT_FALSE(is_released);
      return;
    }
    ASSERT_OK(buffer);
    EXPECT_EQ(Download(buffer->get()), std::vector<int64_t>(memory.begin(), memory.end()));
    EXPECT_FALSE(is_released);
  }
  EXPECT_TRUE(is_released);
}

HAL_CASE(BufferImportOfUnalignedMemoryIsIncompatible) {
  alignas(64) static std::array<uint8_t, 128> memory;
  bool is_released = false;
  hal::HostMemory host{memory.data() + 1, 64, false, [&] { is_released = true; }};
  EXPECT_FAILS(device_->ImportHostMemory(host), kIncompatible,
               imports_host_memory() ? "not aligned" : "in place");
  EXPECT_FALSE(is_released);
  EXPECT_FAILS(device_->ImportHostMemory({nullptr, 64, false, {}}), kInvalidArgument, "64 bytes");
}

HAL_CASE(BufferKeepsItsDeviceAlive) {
  Ref<hal::Buffer> buffer = Allocate(64, hal::MemoryKind::kStaging);
  device_.reset();
  EXPECT_OK(buffer->Map(0, 64));
  EXPECT_GE(buffer->device()->queue_count(), 1u);
}

}  // namespace
}  // namespace halyard::cts
