// SPDX-License-Identifier: Apache-2.0
// The growth rule of structs, and the rules that hold for every call.
#include <cstring>

#include "fixture.h"

namespace halyard {
namespace {

class CApiStructTest : public CApiTest {};

TEST_F(CApiStructTest, VersionAndNames) {
  EXPECT_EQ(hy_version(), uint32_t{HY_VERSION});
  EXPECT_EQ(hy::ToString(hy_result_name(HY_OK)), "OK");
  EXPECT_EQ(hy::ToString(hy_result_name(HY_OUT_OF_MEMORY)), "OUT_OF_MEMORY");
  EXPECT_EQ(hy::ToString(hy_result_name(HY_BUSY)), "BUSY");
  EXPECT_EQ(hy::ToString(hy_result_name(HY_INCOMPLETE)), "INCOMPLETE");
  EXPECT_EQ(hy::ToString(hy_result_name(12345)), "UNKNOWN_CODE");
}

TEST_F(CApiStructTest, SizesTypesAndChains) {
  hy_instance_t* instance = nullptr;
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  desc.struct_size = 8;
  EXPECT_EQ(hy_instance_create(&desc, &instance), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("struct_size of hy_instance_desc is 8"));
  desc.struct_size = UINT32_MAX;
  EXPECT_EQ(hy_instance_create(&desc, &instance), HY_INVALID_ARGUMENT);
  desc = HY_INSTANCE_DESC_INIT;
  desc.type = HY_STRUCT_TENSOR;
  EXPECT_EQ(hy_instance_create(&desc, &instance), HY_INVALID_ARGUMENT);
  desc = HY_INSTANCE_DESC_INIT;
  struct {
    uint32_t size;
    uint32_t type;
    const void* next;
  } bogus = {16, 0xdeadbeef, nullptr};
  desc.next = &bogus;
  EXPECT_EQ(hy_instance_create(&desc, &instance), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("chain"));
  EXPECT_EQ(instance, nullptr);
  EXPECT_EQ(hy_instance_create(nullptr, nullptr), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("'out_instance' is NULL"));
}

TEST_F(CApiStructTest, NewerStructsAreTakenWhenTheirTailIsZero) {
  struct Newer {
    hy_instance_desc known;
    uint64_t tail;
  } newer = {HY_INSTANCE_DESC_INIT, 0};
  newer.known.struct_size = sizeof(newer);
  hy_instance_t* instance = nullptr;
  ASSERT_EQ(hy_instance_create(&newer.known, &instance), HY_OK) << LastError();
  hy_instance_release(instance);
  newer.tail = 1;
  EXPECT_EQ(hy_instance_create(&newer.known, &instance), HY_INCOMPATIBLE);
  EXPECT_THAT(LastError(), testing::HasSubstr("newer than this library"));
}

TEST_F(CApiStructTest, InfoStructsOfAnyKnownSizeAreFilled) {
  const auto instance = hy::Instance::Create();
  struct Newer {
    hy_device_info known;
    uint64_t tail;
  };
  Newer infos[8];
  for (Newer& info : infos) {
    info = {HY_DEVICE_INFO_INIT, 0x1111111111111111u};
    info.known.struct_size = sizeof(Newer);
    info.known.next = &info;  // chains of info structs are skipped
  }
  size_t count = 8;
  ASSERT_EQ(hy_enumerate_devices(instance.get(), &infos[0].known, &count), HY_OK) << LastError();
  ASSERT_GE(count, 1u);
  EXPECT_EQ(hy::ToString(infos[0].known.path), "cpu:0");
  EXPECT_EQ(infos[0].tail, 0x1111111111111111u);
}

TEST_F(CApiStructTest, ShortArraysAreFilledAndSaySo) {
  const auto instance = hy::Instance::Create();
  const auto program = Compile(instance, "copy");
  size_t count = 0;
  ASSERT_EQ(hy_enumerate_drivers(instance.get(), nullptr, &count), HY_OK);
  ASSERT_GE(count, 1u);
  hy_driver_info info = HY_DRIVER_INFO_INIT;
  size_t none = 0;
  EXPECT_EQ(hy_enumerate_drivers(instance.get(), &info, &none), HY_INCOMPLETE);
  EXPECT_EQ(none, count);
  EXPECT_EQ(hy_enumerate_drivers(instance.get(), nullptr, nullptr), HY_INVALID_ARGUMENT);
}

TEST_F(CApiStructTest, NullHandlesAreAnErrorAndReleasedAsNothing) {
  size_t count = 0;
  EXPECT_EQ(hy_enumerate_drivers(nullptr, nullptr, &count), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_device_get_info(nullptr, nullptr), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_graph_verify(nullptr), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_session_run(nullptr, nullptr, 0, nullptr, 0), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_event_wait(nullptr, 0), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_buffer_map(nullptr, nullptr), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_program_save(nullptr, {nullptr, 0}), HY_INVALID_ARGUMENT);
  hy_instance_release(nullptr);
  hy_device_release(nullptr);
  hy_graph_release(nullptr);
  hy_program_release(nullptr);
  hy_session_release(nullptr);
  hy_buffer_release(nullptr);
  hy_event_release(nullptr);
}

TEST_F(CApiStructTest, TheWrappersInstanceIsMadeAndOtherHandlesAreEmpty) {
  const hy::Instance instance;
  EXPECT_EQ(hy::ToString(instance.Open("cpu").info().path), "cpu:0");
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  const hy_string name = HY_STRING("cpu");
  desc.drivers = &name;
  desc.driver_count = 1;
  EXPECT_EQ(hy::Instance(desc).Drivers().size(), 1u);
  const auto fails = [](const auto& call) {
    try {
      call();
    } catch (const hy::Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("is NULL"));
      return error.code() == HY_INVALID_ARGUMENT;
    }
    return false;
  };
  EXPECT_FALSE(hy::Instance(nullptr));
  EXPECT_TRUE(fails([] { hy::Instance(nullptr).Drivers(); }));
  EXPECT_TRUE(fails([] { hy::Device().info(); }));
  EXPECT_TRUE(fails([] { hy::Program().Io(HY_IO_INPUT); }));
  EXPECT_TRUE(fails([] { hy::Buffer().Map(); }));
  EXPECT_TRUE(fails([] { hy::Event().Wait(); }));
  EXPECT_TRUE(fails([] { hy::Graph().Verify(); }));
  EXPECT_TRUE(fails([] {
    std::vector<hy_tensor> outputs;
    hy::Session().Run({}, outputs);
  }));
  EXPECT_TRUE(fails([] { hy::Session::Create(hy::Program()); }));
}

TEST_F(CApiStructTest, SuccessClearsTheLastError) {
  hy_instance_t* instance = nullptr;
  EXPECT_EQ(hy_instance_create(nullptr, nullptr), HY_INVALID_ARGUMENT);
  EXPECT_FALSE(LastError().empty());
  ASSERT_EQ(hy_instance_create(nullptr, &instance), HY_OK);
  EXPECT_TRUE(LastError().empty());
  hy_instance_release(instance);
}

TEST_F(CApiStructTest, TheTableHoldsTheFunctions) {
  hy_api api;
  std::memset(&api, 0, sizeof(api));
  api.struct_size = sizeof(api);
  api.type = HY_STRUCT_API;
  ASSERT_EQ(hy_get_api(&api), HY_OK) << LastError();
  EXPECT_EQ(api.version, &hy_version);
  EXPECT_EQ(api.program_compile, &hy_program_compile);
  EXPECT_EQ(api.event_release, &hy_event_release);
  const auto* slots = reinterpret_cast<void* const*>(&api.version);
  for (const auto* slot = slots; slot < reinterpret_cast<void* const*>(&api + 1); ++slot) {
    EXPECT_NE(*slot, nullptr) << slot - slots;
  }
  // An older host's shorter table is filled as far as it goes.
  hy_api older;
  std::memset(&older, 0, sizeof(older));
  older.struct_size = offsetof(hy_api, last_error);
  older.type = HY_STRUCT_API;
  ASSERT_EQ(hy_get_api(&older), HY_OK);
  EXPECT_EQ(older.version, &hy_version);
  EXPECT_EQ(older.last_error, nullptr);
  api.type = 0;
  EXPECT_EQ(hy_get_api(&api), HY_INVALID_ARGUMENT);
}

TEST_F(CApiStructTest, DriversAndPaths) {
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  const hy_string names[] = {HY_STRING("cpu"), HY_STRING("warp-drive")};
  desc.drivers = names;
  desc.driver_count = 2;
  hy_instance_t* raw = nullptr;
  EXPECT_EQ(hy_instance_create(&desc, &raw), HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(), testing::HasSubstr("There is no driver 'warp-drive'"));
  desc.driver_count = 1;
  const auto instance = hy::Instance::Create(&desc);
  const auto device = instance.Open("cpu");
  EXPECT_EQ(hy::ToString(device.info().path), "cpu:0");
  EXPECT_EQ(device.info().kind, HY_DEVICE_KIND_CPU);
  EXPECT_GE(device.info().worker_count, 1);
  EXPECT_THAT(device.Report(HY_FORMAT_TEXT), testing::HasSubstr("compute.unit_count"));
  EXPECT_THAT(device.Report(HY_FORMAT_JSON), testing::HasSubstr("\"source\""));
  hy_device_t* none = nullptr;
  EXPECT_EQ(hy_device_open(instance.get(), hy::View("cpu:99"), &none), HY_NOT_FOUND);
  EXPECT_EQ(hy_device_open(instance.get(), hy::View("cpu:0?speed=11"), &none), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_device_open(hy::Instance::Create().get(), hy::View("gpu:0"), &none),
            HY_INVALID_ARGUMENT);
  EXPECT_THAT(LastError(),
              testing::HasSubstr("There is no driver 'gpu'; this build has: cpu, cuda"));
  EXPECT_EQ(hy_device_open(instance.get(), {nullptr, 5}, &none), HY_INVALID_ARGUMENT);
  EXPECT_EQ(hy_device_open(instance.get(), hy::View("null:0"), &none), HY_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace halyard
