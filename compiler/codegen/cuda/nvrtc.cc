// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/nvrtc.h"

#include <algorithm>
#include <mutex>

#include "base/dylib.h"
#include "base/env.h"
#include "base/nvidia_libraries.h"

namespace halyard::cuda {
namespace {

constexpr int kLogLines = 12;

std::string FirstLines(const std::string& log) {
  size_t end = 0;
  for (int line = 0; line < kLogLines && end < log.size(); ++line) {
    end = std::min(log.find('\n', end), log.size() - 1) + 1;
  }
  return log.substr(0, end);
}

// A program of NVRTC, destroyed on every way out.
class Program {
 public:
  Program(const NvrtcApi& api, const std::string& name) : api_(api), name_(name) {}
  ~Program() {
    if (program_) api_.destroy_program(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Status Create(const std::string& source) {
    const std::string file = name_ + ".cu";
    return Check(api_.create_program(&program_, source.c_str(), file.c_str(), 0, nullptr, nullptr));
  }

  NvrtcApi::Code Compile(const std::vector<const char*>& options) {
    return api_.compile_program(program_, static_cast<int>(options.size()), options.data());
  }

  Status Check(NvrtcApi::Code code) const {
    if (code == 0) return OkStatus();
    if (code == NvrtcApi::kOutOfMemory) {
      return OutOfMemory("NVRTC has no memory left to compile kernel '{}'.", name_);
    }
    std::string log;
    size_t size = 0;
    if (program_ && api_.get_log_size(program_, &size) == 0 && size > 1) {
      log.resize(size);
      if (api_.get_log(program_, log.data()) != 0) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    return Internal("NVRTC does not compile kernel '{}': {}{}{}", name_,
                    api_.get_error_string(code), log.empty() ? "." : ":\n", FirstLines(log));
  }

  Result<std::vector<uint8_t>> Cubin() const {
    size_t size = 0;
    HY_TRY(Check(api_.get_cubin_size(program_, &size)));
    std::vector<uint8_t> cubin(size);
    HY_TRY(Check(api_.get_cubin(program_, reinterpret_cast<char*>(cubin.data()))));
    return cubin;
  }

 private:
  const NvrtcApi& api_;
  const std::string& name_;
  NvrtcApi::Program program_ = nullptr;
};

}  // namespace

namespace internal {

Result<NvrtcApi> LoadNvrtc(const std::vector<std::string>& candidates) {
  HY_ASSIGN(const DynamicLibrary library, OpenNvrtcLibrary(candidates));
  NvrtcApi api;
  const auto find = [&](auto* function, const char* name) -> Status {
    const Result<void*> address = library.FindSymbol(name);
    if (!address.ok()) {
      return Unavailable(
          "NVRTC, which compiles CUDA kernels, is missing: '{}' has no function '{}'.",
          library.path(), name);
    }
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(*address);
    return OkStatus();
  };
  HY_TRY(find(&api.version, "nvrtcVersion"));
  HY_TRY(find(&api.create_program, "nvrtcCreateProgram"));
  HY_TRY(find(&api.destroy_program, "nvrtcDestroyProgram"));
  HY_TRY(find(&api.compile_program, "nvrtcCompileProgram"));
  HY_TRY(find(&api.get_log_size, "nvrtcGetProgramLogSize"));
  HY_TRY(find(&api.get_log, "nvrtcGetProgramLog"));
  HY_TRY(find(&api.get_cubin_size, "nvrtcGetCUBINSize"));
  HY_TRY(find(&api.get_cubin, "nvrtcGetCUBIN"));
  HY_TRY(find(&api.get_error_string, "nvrtcGetErrorString"));
  // NVRTC opens its builtins by name when it first compiles. Where it lies in a folder that the
  // loader does not search, as in a Python package, they are found because they are loaded already.
  HY_ASSIGN(const std::string folder, FolderOfBinary(reinterpret_cast<const void*>(api.version)));
  for (const std::string& builtins : FilesMatching(folder + "/libnvrtc-builtins.so.*")) {
    DynamicLibrary::Open(builtins).status().Ignore();
  }
  return api;
}

}  // namespace internal

Result<const NvrtcApi*> OpenNvrtc() {
  // Never destroyed: a thread may compile while the process ends.
  static std::mutex* mutex = new std::mutex;
  static const NvrtcApi* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (loaded == nullptr) {
    HY_ASSIGN(NvrtcApi api, internal::LoadNvrtc(NvrtcCandidates()));
    loaded = new NvrtcApi(api);
  }
  return loaded;
}

Result<std::vector<uint8_t>> CompileCubin(const std::string& name, const std::string& source,
                                          int32_t compute_capability) {
  HY_ASSIGN(const NvrtcApi* api, OpenNvrtc());
  Program program(*api, name);
  HY_TRY(program.Create(source));
  // 9.0 has instructions that only code for exactly this architecture may use.
  const std::string architecture = fmt::format("--gpu-architecture=sm_{}{}", compute_capability,
                                               compute_capability == 90 ? "a" : "");
  std::vector<const char*> options = {architecture.c_str(), "--fmad=false", "--std=c++17",
                                      "--disable-warnings", "--minimal"};
  NvrtcApi::Code code = program.Compile(options);
  if (code == NvrtcApi::kInvalidOption) {
    options.pop_back();  // releases before 12.4 have no --minimal
    code = program.Compile(options);
  }
  HY_TRY(program.Check(code));
  return program.Cubin();
}

}  // namespace halyard::cuda
