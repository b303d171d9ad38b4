// SPDX-License-Identifier: Apache-2.0
// A host that compiles and runs a model and then says whether this process opened the compiler
// library: it looks into /proc/self/maps. It ends without releasing anything, which must do no
// harm. usage: second_start MODEL NAME_OF_COMPILER_LIBRARY; prints "opened" or "not opened".
#include <cstdio>
#include <cstring>
#include <fstream>
#include <halyard.hpp>
#include <iterator>

// Live handles at exit: reachable, so that a leak checker only reports what the library lost.
void* left_alive[3];

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  try {
    auto instance = hy::Instance::Create();
    hy_compile_desc desc = HY_COMPILE_DESC_INIT;
    desc.onnx_path = hy::View(argv[1]);
    auto program = hy::Program::Compile(instance, desc);
    auto session = hy::Session::Create(program);
    const std::vector<float> x = {1, 2, 3};
    hy_tensor in = HY_TENSOR_INIT;
    in.dtype = HY_DTYPE_F32;
    in.rank = 1;
    in.dims[0] = 3;
    in.data = const_cast<float*>(x.data());
    in.size_bytes = 12;
    const hy_tensor empty = HY_TENSOR_INIT;
    std::vector<hy_tensor> out = {empty};
    session.Run({in}, out);
    if (std::memcmp(out[0].data, x.data(), 12) != 0) return 3;
    std::ifstream maps("/proc/self/maps");
    const std::string text(std::istreambuf_iterator<char>(maps), {});
    std::puts(text.find(argv[2]) == std::string::npos ? "not opened" : "opened");
    left_alive[0] = session.release();
    left_alive[1] = program.release();
    left_alive[2] = instance.release();
  } catch (const hy::Error& error) {
    std::printf("failed: %s\n", error.what());
    return 2;
  }
  return 0;
}
