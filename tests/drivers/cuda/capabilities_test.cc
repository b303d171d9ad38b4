// SPDX-License-Identifier: Apache-2.0
// What recorded GPUs are said to be, from the answers of libcuda and NVML.
#include "drivers/cuda/capabilities.h"

#include <filesystem>
#include <fstream>

#include "drivers/cuda/architecture.h"
#include "tests/drivers/cuda/fake_cuda.h"
#include "tests/drivers/golden.h"

namespace halyard::drivers::cuda {
namespace {

// Sysfs of the machine that runs the test may know the address.
bool IsRecorded(const hal::FieldView& field) { return field.source != hal::Source::kOs; }

TEST_F(FakeCudaTest, GoldensOfRecordings) {
  int count = 0;
  const std::string folder = HALYARD_SOURCE_DIR "/tests/drivers/cuda/recordings";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().stem().string();
    if (file.path().extension() != ".txt") continue;
    SCOPED_TRACE(name);
    ++count;
    fake_.play(file.path().c_str());
    device_ = Open(0).value();
    std::string text = FormatFields(device_->capabilities(), IsRecorded);
    hal::VisitFields(device_->ReadState(), [&](const hal::FieldView& field) {
      if (field.source == hal::Source::kUnknown || !IsRecorded(field)) return;
      text += std::string(field.name) + " = " + std::string(field.text) + "\n";
    });
    for (const std::string& note : device_->capabilities().notes) text += "note: " + note + "\n";
    ExpectGolden("tests/drivers/cuda/recordings/" + name + ".golden", text);
    device_.reset();
  }
  EXPECT_GT(count, 0);
}

// The recorded H200, but for these lines, in the place of those of the same calls.
std::string RecordingWith(const std::string& lines) {
  std::ifstream recording(HALYARD_SOURCE_DIR "/tests/drivers/cuda/recordings/h200.txt");
  std::string text = lines;
  for (std::string line; std::getline(recording, line);) {
    const std::string call = line.substr(0, line.find(" = "));
    if (("\n" + lines).find("\n" + call + " = ") == std::string::npos) text += line + "\n";
  }
  return text;
}

TEST_F(FakeCudaTest, HealthOfAWornDevice) {
  const std::string path = testing::TempDir() + "/halyard_worn_gpu.txt";
  std::ofstream(path) << RecordingWith(
      "nvmlDeviceGetTotalEccErrors 0 = 12\n"
      "nvmlDeviceGetTotalEccErrors 1 = 2\n"
      "nvmlDeviceGetRemappedRows = 3 1 1 0\n"
      "nvmlDeviceGetPcieReplayCounter = 9\n"
      "nvmlDeviceGetNvLinkErrorCounter 0 0 = 4\n"
      "nvmlDeviceGetNvLinkErrorCounter 17 3 = 5\n"
      "nvmlDeviceGetTemperatureThreshold 1 = 87\n"
      "nvmlDeviceRegisterEvents 8 = 0\n"
      "nvmlEventSetWait_v2 0 = 131\n"
      "nvmlEventSetWait_v2 1 = 31\n"
      "nvmlEventSetWait_v2 2 = 31\n");
  fake_.play(path.c_str());
  device_ = Open(0).value();
  const hal::DeviceState state = device_->ReadState();
  EXPECT_EQ(state.corrected_memory_errors.value, 12);
  EXPECT_EQ(state.uncorrected_memory_errors.value, 2);
  EXPECT_EQ(state.retired_memory.value, 4);
  EXPECT_EQ(state.memory_repair.value, "pending");
  EXPECT_EQ(state.pcie_replays.value, 9);
  EXPECT_EQ(state.nvlink_errors.value, 9);
  EXPECT_EQ(state.temperature_limit_c.value, 87);
  EXPECT_EQ(state.faults.value, "Xid 131, Xid 31");
  EXPECT_EQ(device_->ReadState().faults.value, "Xid 131, Xid 31");
}

// Boards before Ampere retire pages, and have no events inside a virtual machine.
TEST_F(FakeCudaTest, HealthOfAnOldDevice) {
  std::string text =
      RecordingWith("nvmlDeviceGetRetiredPages 0 = 0\nnvmlDeviceGetRetiredPages 1 = 2\n");
  for (const char* call : {"nvmlDeviceGetRemappedRows", "nvmlDeviceRegisterEvents 8"}) {
    if (const size_t at = text.find(call); at != text.npos) text.replace(at, 4, "none");
  }
  const std::string path = testing::TempDir() + "/halyard_old_gpu.txt";
  std::ofstream(path) << text;
  fake_.play(path.c_str());
  device_ = Open(0).value();
  const hal::DeviceState state = device_->ReadState();
  EXPECT_EQ(state.retired_memory.value, 2);
  EXPECT_FALSE(state.memory_repair.known());
  EXPECT_FALSE(state.faults.known());
}

TEST_F(FakeCudaTest, InstancesOfACutDevice) {
  const std::string path = testing::TempDir() + "/halyard_cut_gpu.txt";
  std::ofstream(path) << RecordingWith(
      "nvmlDeviceGetMigMode = 1 0\n"
      "nvmlDeviceGetMaxMigDeviceCount = 7\n"
      "nvmlDeviceGetMigDeviceHandleByIndex 0 = NVIDIA H200 MIG 3g.71gb\n"
      "nvmlDeviceGetMigDeviceHandleByIndex 2 = NVIDIA H200 MIG 1g.18gb\n");
  fake_.play(path.c_str());
  device_ = Open(0).value();
  const hal::Partition& partition = device_->capabilities().partition;
  EXPECT_TRUE(partition.is_mig_enabled.value);
  EXPECT_TRUE(partition.is_mig_change_pending.value);
  EXPECT_EQ(partition.mig_instance_max.value, 7);
  EXPECT_EQ(partition.mig_instance_max.source, hal::Source::kApi);
  EXPECT_EQ(partition.mig_instance_count.value, 2);
  EXPECT_EQ(partition.mig_instances.value, "3g.71gb, 1g.18gb");
}

TEST_F(FakeCudaTest, ClientsOfTheMultiProcessService) {
  const std::string path = testing::TempDir() + "/halyard_shared_gpu.txt";
  std::ofstream(path) << RecordingWith(
      "cuDeviceGetAttribute 133 = 1\n"
      "nvmlDeviceGetComputeRunningProcesses_v3 = 1\n"
      "nvmlDeviceGetMPSComputeRunningProcesses_v3 = 3\n");
  fake_.play(path.c_str());
  device_ = Open(0).value();
  EXPECT_TRUE(device_->capabilities().partition.is_mps_enabled.value);
  EXPECT_EQ(device_->capabilities().partition.is_mps_enabled.source, hal::Source::kApi);
  EXPECT_EQ(device_->ReadState().process_count.value, 1);
  EXPECT_EQ(device_->ReadState().mps_process_count.value, 3);
  EXPECT_EQ(device_->ReadState().mps_process_count.source, hal::Source::kApi);
}

TEST_F(FakeCudaTest, WithoutNvmlItsFieldsAreUnknown) {
  ScopedVariable missing("HALYARD_NVML_LIBRARY", "libnowhere.so.1");
  device_ = Open(0).value();
  const hal::Capabilities& c = device_->capabilities();
  EXPECT_FALSE(c.links.nvlink_count.known());
  EXPECT_FALSE(device_->ReadState().clock_hz.known());
  EXPECT_TRUE(device_->ReadState().available_bytes.known());
  ASSERT_FALSE(c.notes.empty());
  EXPECT_NE(c.notes.back().find("Library 'libnowhere.so.1' cannot be opened"), std::string::npos);
  ScopedVariable wrong("HALYARD_NVML_LIBRARY", "libm.so.6");
  device_ = Open(0).value();
  EXPECT_NE(device_->capabilities().notes.back().find("lacks nvmlInit_v2"), std::string::npos);
}

TEST(CudaArchitecture, TablesAgreeWithDataSheets) {
  // A100: 108 multiprocessors at 1410 MHz: 19.5 TFLOP/s in f32, 9.7 in f64, 312 in f16 products, 7
  // of 8 clusters of 8 pairs.
  hal::Capabilities a100;
  a100.compute.unit_count = {108, hal::Source::kApi};
  a100.compute.max_clock_hz = {1410000000, hal::Source::kApi};
  a100.memory.bus_bits = {5120, hal::Source::kApi};
  DescribeArchitecture(80, &a100);
  EXPECT_NEAR(a100.compute.peak_f32_flops.value, 19.5e12, 0.05e12);
  EXPECT_NEAR(a100.compute.peak_f64_flops.value, 9.7e12, 0.05e12);
  EXPECT_EQ(a100.compute.gpc_count.value, 7);
  EXPECT_EQ(a100.compute.tpcs_per_gpc_of_chip.value, 8);
  EXPECT_EQ(a100.compute.units_per_tpc.value, 2);
  EXPECT_EQ(a100.compute.matrix_units_per_unit.value, 4);
  EXPECT_EQ(a100.memory.stack_count.value, 5);
  EXPECT_EQ(a100.partition.mig_instance_max.value, 7);
  ASSERT_EQ(a100.caches.size(), 1u);
  EXPECT_EQ(a100.caches[0].size_bytes.value, 192 << 10);
  for (const hal::DtypeSupport& dtype : a100.dtypes) {
    if (dtype.dtype.value == "f16") {
      EXPECT_NEAR(dtype.peak_matrix_ops_per_s.value, 312e12, 1e12);
    }
    EXPECT_NE(dtype.dtype.value.substr(0, 2), "f8");
  }
  // One capability, several chips: the numbers of the board tell which.
  hal::Capabilities l4;
  l4.compute.unit_count = {58, hal::Source::kApi};
  DescribeArchitecture(89, &l4);
  EXPECT_EQ(l4.identity.chip.value, "Ada");
  EXPECT_FALSE(l4.compute.gpc_count_of_chip.known());
  l4 = {};
  l4.identity.model_id = {"10de:27b8", hal::Source::kApi};
  DescribeArchitecture(89, &l4);
  EXPECT_EQ(l4.identity.chip.value, "AD104 (Ada)");
  EXPECT_EQ(l4.compute.gpc_count_of_chip.value, 5);
  EXPECT_EQ(l4.memory.kind.value, "GDDR6");
  // A board that is not in the table: what holds for all, and nothing else.
  hal::Capabilities later;
  later.compute.unit_count = {70, hal::Source::kApi};
  DescribeArchitecture(135, &later);
  EXPECT_EQ(later.compute.tpc_count.value, 35);
  EXPECT_FALSE(later.compute.f32_lanes_per_unit.known());
  EXPECT_FALSE(later.compute.gpc_count.known());
  EXPECT_TRUE(later.caches.empty());
}

}  // namespace
}  // namespace halyard::drivers::cuda
