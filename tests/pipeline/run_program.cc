// SPDX-License-Identifier: Apache-2.0
// RunProgram: a session over one loaded program.
#include "tests/pipeline/run_program.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/compile.h"
#include "runtime/session.h"

namespace halyard::pipeline {
namespace {

runtime::CallTensor Describe(const graph::Tensor& tensor) {
  runtime::CallTensor call;
  call.dtype = tensor.dtype;
  call.dims = tensor.dims;
  call.data = const_cast<uint8_t*>(tensor.bytes.data());
  call.size_bytes = static_cast<int64_t>(tensor.bytes.size());
  return call;
}

}  // namespace

Status RunProgram(program::Program program, const std::string& path,
                  std::span<const graph::Tensor> inputs, std::vector<graph::Tensor>& results) {
  HY_ASSIGN(std::shared_ptr<runtime::Instance> instance, runtime::Instance::Create({}));
  HY_ASSIGN(Ref<hal::Device> device, instance->OpenDevice(path));
  HY_ASSIGN(auto loaded, runtime::LoadSaved(instance, std::move(program), {device}, {}));
  const std::shared_ptr<runtime::Session> session = runtime::Session::Create(loaded, {});
  std::vector<runtime::CallTensor> in, out;
  for (const graph::Tensor& input : inputs) in.push_back(Describe(input));
  for (graph::Tensor& result : results) {
    std::fill(result.bytes.begin(), result.bytes.end(), 0xA5);
    out.push_back(Describe(result));
  }
  std::vector<runtime::CallResult> ran(out.size());
  return session->Run(in, out, ran);
}

}  // namespace halyard::pipeline
