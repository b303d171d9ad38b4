// SPDX-License-Identifier: Apache-2.0
#include "tests/drivers/cuda/fake_libcuda/recording.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "tests/drivers/cuda/fake_libcuda/control.h"
#include "tests/drivers/cuda/fake_libcuda/state.h"

namespace halyard::fake_cuda {
namespace {

struct Player {
  std::mutex mutex;
  std::map<std::string, std::string> answers;
};
Player& ThePlayer() {
  static Player* player = new Player;
  return *player;
}

void Load(const char* path) {
  Player& player = ThePlayer();
  std::lock_guard lock(player.mutex);
  player.answers.clear();
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos) player.answers[line.substr(0, equals)] = line.substr(equals + 3);
  }
}

// The environment may name one from the start.
void LoadOnce() {
  static const bool is_loaded = [] {
    if (const char* path = std::getenv("FAKE_CUDA_RECORDING")) Load(path);
    return true;
  }();
  static_cast<void>(is_loaded);
}

}  // namespace

const std::string* Recorded(const std::string& call) {
  LoadOnce();
  Player& player = ThePlayer();
  std::lock_guard lock(player.mutex);
  const auto found = player.answers.find(call);
  return found == player.answers.end() ? nullptr : &found->second;
}

bool IsPlaying() {
  LoadOnce();
  Player& player = ThePlayer();
  std::lock_guard lock(player.mutex);
  return !player.answers.empty();
}

bool RecordedNumbers(const std::string& call, std::vector<unsigned long long>* out, size_t count) {
  const std::string* answer = Recorded(call);
  if (!answer) return false;
  std::istringstream words(*answer);
  out->clear();
  for (unsigned long long value = 0; words >> value;) out->push_back(value);
  return out->size() >= count;
}

bool RecordedText(const std::string& call, char* out, size_t size) {
  const std::string* answer = Recorded(call);
  if (answer) std::snprintf(out, size, "%s", answer->c_str());
  return answer != nullptr;
}

}  // namespace halyard::fake_cuda

FAKE_API void fake_cuda_play(const char* path) { halyard::fake_cuda::Load(path); }
