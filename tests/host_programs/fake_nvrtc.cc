// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVRTC: what it gives as machine code is the source itself, and a test tells it
// which sources it refuses. Never shipped.
#include <cstring>
#include <string>

namespace {

struct Program {
  std::string source;
  bool is_refused = false;
};

constexpr int kOutOfMemory = 1, kCompilation = 6;
constexpr char kLog[] = "k0.cu(1): error: the stand-in refuses this source";

// The code that compiling this source ends with; 0: it compiles. Null: everything does.
int (*refusal)(const char* source) = nullptr;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Before any compilation; called by several threads at once.
void fakeNvrtcRefuse(int (*asked)(const char* source)) { refusal = asked; }

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}

int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  *program = new Program{source};
  return 0;
}

int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}

int nvrtcCompileProgram(Program* program, int, const char* const*) {
  const int code = refusal == nullptr ? 0 : refusal(program->source.c_str());
  program->is_refused = code != 0;
  return code;
}

int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->is_refused ? sizeof kLog : 1;
  return 0;
}

int nvrtcGetProgramLog(Program* program, char* log) {
  std::strcpy(log, program->is_refused ? kLog : "");
  return 0;
}

int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->source.size();
  return 0;
}

int nvrtcGetCUBIN(Program* program, char* cubin) {
  std::memcpy(cubin, program->source.data(), program->source.size());
  return 0;
}

const char* nvrtcGetErrorString(int code) {
  if (code == kOutOfMemory) return "NVRTC_ERROR_OUT_OF_MEMORY";
  return code == kCompilation ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}

}  // extern "C"
#pragma GCC visibility pop
