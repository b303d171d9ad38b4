// SPDX-License-Identifier: Apache-2.0
// What the tests of faults share: a whole model, the trained digits, run on a device under which
// things go wrong, and after each fault on the CPU in the same process.
#pragma once

#include <fstream>
#include <iterator>

#include "tests/drivers/cuda/fake_knobs.h"
#include "tests/end_to_end/device_fixture.h"

namespace halyard {

inline constexpr int kOutOfMemory = 2, kInvalidImage = 200, kInvalidPtx = 218,
                     kIllegalAddress = 700;

class FaultSweep : public EndToEnd {
 protected:
  FaultSweep() {
    fake_.reset();
    fake_.set_delay_us(0);
    std::ifstream file(HALYARD_SOURCE_DIR "/examples/digits/digits.onnx", std::ios::binary);
    model_.assign(std::istreambuf_iterator<char>(file), {});
    for (int i = 0; i < 64; ++i) image_.push_back(static_cast<float>(i * 37 % 17) / 16);
    on_cpu_ = Compiled("cpu:0");
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    desc.path = hy::View(on_cpu_);
    std::vector<hy_tensor> out(1, HY_TENSOR_INIT);
    const hy::Session session = hy::Session::Create(hy::Program::Load(instance_, desc));
    session.Run({Image()}, out);
    expected_ = ValuesOf<float>(out[0]);
  }
  ~FaultSweep() override {
    fake_.hold_streams(0);
    fake_.reset();
  }

  hy_tensor Image() const { return TensorOf(HY_DTYPE_F32, {1, 1, 8, 8}, image_); }
  // For those devices, of which some ops may be required on one; throws hy::Error.
  hy::Program CompileOn(const hy::Instance& instance, const std::vector<std::string>& paths,
                        const std::vector<hy_affinity>& affinities = {}, bool tunes = false) const {
    std::vector<hy::Device> devices;
    std::vector<hy_device_t*> handles;
    for (const std::string& path : paths) {
      devices.push_back(instance.Open(path));
      handles.push_back(devices.back().get());
    }
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_data = model_.data();
    desc.onnx_size_bytes = model_.size();
    desc.devices = handles.data();
    desc.device_count = handles.size();
    desc.affinities = affinities.data();
    desc.affinity_count = affinities.size();
    desc.disable_tuning = tunes ? 0 : 1;
    desc.disable_cache = 1;
    desc.on_unsupported_op = HY_POLICY_ERROR;
    return hy::Program::Compile(instance, desc);
  }
  // What is compiled for a device of that path, as a file. The instance, which keeps its devices,
  // ends.
  std::string Compiled(const std::string& path) const {
    const std::string file = Path("program_" + path.substr(0, path.find(':')));
    CompileOn(hy::Instance::Create(), {path}).Save(file);
    return file;
  }
  hy_result RunOnce(const hy::Session& session) {
    const hy_tensor image = Image();
    hy_tensor out = HY_TENSOR_INIT;
    const hy_result result = hy_session_run(session.get(), &image, 1, &out, 1);
    error_ = result == HY_OK ? "" : LastError();
    if (result == HY_OK) ExpectScores(ValuesOf<float>(out));
    return result;
  }

  // Opens the device, loads the program, runs it twice; the first result that is not OK.
  hy_result RunOn(const hy::Instance& instance, const std::string& path,
                  const std::string& program) {
    hy_device_t* raw_device = nullptr;
    hy_program_t* raw_program = nullptr;
    hy_session_t* raw_session = nullptr;
    hy_result result = hy_device_open(instance.get(), hy::View(path), &raw_device);
    const hy::Device device(raw_device);
    hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
    desc.path = hy::View(program);
    desc.devices = &raw_device;
    desc.device_count = 1;
    if (result == HY_OK) result = hy_program_load(instance.get(), &desc, &raw_program);
    const hy::Program loaded(raw_program);
    if (result == HY_OK) result = hy_session_create(raw_program, nullptr, &raw_session);
    const hy::Session session(raw_session);
    const hy_tensor image = Image();
    for (int run = 0; run < 2 && result == HY_OK; ++run) {
      hy_tensor out = HY_TENSOR_INIT;
      result = hy_session_run(raw_session, &image, 1, &out, 1);
      if (result == HY_OK) ExpectScores(ValuesOf<float>(out));
    }
    error_ = result == HY_OK ? "" : LastError();
    return result;
  }
  // In an instance of its own, in which the CPU works whatever happens to the other device.
  hy_result RunModel(const std::string& path, const std::string& program) {
    const hy::Instance instance = hy::Instance::Create();
    const hy_result result = RunOn(instance, path, program);
    const std::string error = error_;
    EXPECT_EQ(RunOn(instance, "cpu:0", on_cpu_), HY_OK) << error_ << " after: " << error;
    error_ = error;
    return result;
  }
  void ExpectScores(const std::vector<float>& scores) const {
    ASSERT_EQ(scores.size(), expected_.size());
    for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], expected_[i], 1e-3) << i;
  }

  const drivers::cuda::ScopedVariable library_{"HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA};
  drivers::cuda::FakeCuda fake_;
  std::string model_, on_cpu_, error_;
  std::vector<float> image_, expected_;
};

}  // namespace halyard
