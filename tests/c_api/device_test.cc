// SPDX-License-Identifier: Apache-2.0
// What the C API tells of devices: chained structs, keyed properties, matrix shapes, links and
// probes.
#include <cstring>

#include "tests/c_api/fixture.h"

namespace halyard {
namespace {

using DeviceApiTest = CApiTest;

TEST_F(DeviceApiTest, ChainedStructsAreFilled) {
  const hy::Instance instance = hy::Instance::Create();
  const hy::Device device = instance.Open("cpu:0");
  hy_device_state state = HY_DEVICE_STATE_INIT;
  hy_device_memory memory = HY_DEVICE_MEMORY_INIT;
  memory.next = &state;
  // One of another library in between is skipped, with what it holds.
  struct {
    uint32_t struct_size = 24;
    hy_struct_type type = 9999;
    const void* next = nullptr;
    uint64_t content = 0x1234567812345678;
  } foreign;
  foreign.next = &memory;
  hy_device_compute compute = HY_DEVICE_COMPUTE_INIT;
  compute.next = &foreign;
  hy_device_identity identity = HY_DEVICE_IDENTITY_INIT;
  identity.next = &compute;
  hy_device_info info = HY_DEVICE_INFO_INIT;
  info.next = &identity;
  ASSERT_EQ(hy_device_get_info(device.get(), &info), HY_OK) << LastError();
  EXPECT_EQ(info.kind, HY_DEVICE_KIND_CPU);
  EXPECT_GT(identity.architecture.size, 0u);
  EXPECT_EQ(hy::ToString(identity.vendor_driver), "cpu");
  EXPECT_EQ(compute.subgroup_size_min, -1);
  EXPECT_EQ(foreign.content, 0x1234567812345678u);
  EXPECT_EQ(memory.is_host_memory, 1);
  EXPECT_GT(memory.available_bytes, 0);
  EXPECT_EQ(memory.bus_bits, -1);
  EXPECT_GE(state.load_average, 0);
  EXPECT_EQ(state.power_w, -1);

  compute.struct_size = 8;
  EXPECT_EQ(hy_device_get_info(device.get(), &info), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("struct_size of hy_device_compute is 8"));
  compute.struct_size = sizeof(compute);
  state.next = &memory;  // a circle
  EXPECT_EQ(hy_device_get_info(device.get(), &info), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("more than 64 structs"));
}

TEST_F(DeviceApiTest, AllocatedBytesAndTheirPeak) {
  const hy::Instance instance = hy::Instance::Create();
  const hy::Device device = instance.Open("cpu:0");
  const int64_t before = device.memory().allocated_bytes;
  hy_buffer_t* buffer = nullptr;
  ASSERT_EQ(hy_buffer_create(device.get(), 3000000, &buffer), HY_OK) << LastError();
  EXPECT_EQ(instance.Open("cpu:0").memory().allocated_bytes, before + 3000000)
      << "the same device, and so the same count";
  hy_buffer_release(buffer);
  EXPECT_EQ(device.memory().allocated_bytes, before);
  EXPECT_EQ(device.memory().allocated_peak_bytes, before + 3000000);
  EXPECT_EQ(hy::Instance::Create().Open("cpu:0").memory().allocated_peak_bytes, 0);
  // A program of before these fields has room for none of them.
  hy_device_memory memory = HY_DEVICE_MEMORY_INIT;
  memory.struct_size = offsetof(hy_device_memory, allocated_bytes);
  hy_device_info info = HY_DEVICE_INFO_INIT;
  info.next = &memory;
  ASSERT_EQ(hy_device_get_info(device.get(), &info), HY_OK) << LastError();
  EXPECT_EQ(memory.is_host_memory, 1);
  EXPECT_EQ(memory.allocated_peak_bytes, -1);
}

TEST_F(DeviceApiTest, PropertiesByName) {
  const hy::Instance instance = hy::Instance::Create();
  const hy::Device device = instance.Open("cpu:0?threads=1");
  const std::vector<hy_property> workers = device.Properties("compute.usable_worker_count");
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0].kind, HY_PROPERTY_INTEGER);
  EXPECT_EQ(workers[0].source, HY_SOURCE_OS);
  EXPECT_EQ(workers[0].integer, 1);
  EXPECT_EQ(hy::ToString(workers[0].text), "1");
  EXPECT_THAT(hy::ToString(workers[0].doc), testing::HasSubstr("Tasks that really run at once"));
  // What a CPU has not is unknown and has no text.
  const std::vector<hy_property> subgroup = device.Properties("compute.subgroup_size_min");
  ASSERT_EQ(subgroup.size(), 1u);
  EXPECT_EQ(subgroup[0].source, HY_SOURCE_UNKNOWN);
  EXPECT_EQ(subgroup[0].text.size, 0u);
  EXPECT_GT(device.Properties().size(), device.Properties("compute.").size());
  EXPECT_FALSE(device.Properties("state.").empty());
  size_t count = 0;
  EXPECT_EQ(hy_device_properties(device.get(), hy::View("colour"), nullptr, &count), HY_NOT_FOUND);
  EXPECT_THAT(LastError(), testing::HasSubstr("begins with 'colour'"));
}

TEST_F(DeviceApiTest, LinksAndShapes) {
  const hy::Instance instance = hy::Instance::Create();
  const hy::Device one = instance.Open("cpu:0"), other = instance.Open("cpu:0?threads=1");
  const hy_link_info link = one.LinkTo(other);
  EXPECT_EQ(link.kind, HY_LINK_SAME_MEMORY);
  EXPECT_EQ(link.can_copy_direct, 1);
  EXPECT_EQ(link.rank, -1);
  for (const hy_matrix_shape& shape : one.MatrixShapes()) {
    EXPECT_GT(shape.m * shape.n * shape.k, 0);
    EXPECT_NE(shape.input, HY_DTYPE_INVALID);
  }
}

TEST_F(DeviceApiTest, ProbesAreStored) {
  const hy::Instance instance = hy::Instance::Create();
  std::vector<hy::Device> devices;
  devices.push_back(instance.Open("cpu:0?discrete=1&memory_bytes=4000000"));
  hy_probe_desc desc = HY_PROBE_DESC_INIT;
  desc.no_kernels = 1;
  int begun = 0;
  desc.context = &begun;
  desc.progress = [](void* context, hy_string, double) { ++*static_cast<int*>(context); };
  desc.stored_only = 1;
  EXPECT_THAT(instance.Probe(devices, desc, HY_FORMAT_JSON), testing::HasSubstr("\"devices\": []"));
  EXPECT_EQ(begun, 0) << "nothing is measured";
  desc.stored_only = 0;
  const std::string first = instance.Probe(devices, desc, HY_FORMAT_JSON);
  EXPECT_THAT(first, testing::HasSubstr("\"kind\": \"copy\""));
  EXPECT_GT(begun, 5);
  begun = 0;
  EXPECT_EQ(instance.Probe(devices, desc, HY_FORMAT_JSON), first);
  EXPECT_EQ(begun, 0);
  desc.stored_only = 1;
  EXPECT_EQ(instance.Probe(devices, desc, HY_FORMAT_JSON), first);
  desc.stored_only = 0;
  EXPECT_THAT(instance.Probe(devices, desc, HY_FORMAT_TEXT), testing::HasSubstr("copy pinned"));
  desc.again = 1;
  desc.should_stop = [](void*) -> int32_t { return 1; };
  EXPECT_THAT(instance.Probe(devices, desc, HY_FORMAT_JSON),
              testing::HasSubstr("\"is_complete\": false"));
  desc.seconds_per_device = -1;
  const auto probe = [&](hy_report_format format) {
    hy_device_t* raw = devices[0].get();
    const hy_writer ignore = [](void*, const void*, size_t) -> hy_result { return HY_OK; };
    return hy_devices_probe(instance.get(), &raw, 1, &desc, format, ignore, nullptr);
  };
  EXPECT_EQ(probe(HY_FORMAT_JSON), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("-1 s per device"));
  EXPECT_EQ(probe(HY_FORMAT_DOT), HY_UNIMPLEMENTED);
  desc.stored_only = 1;
  EXPECT_EQ(probe(HY_FORMAT_JSON), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("both measure again"));
}

}  // namespace
}  // namespace halyard
