// SPDX-License-Identifier: Apache-2.0
// Answers of a real GPU that the stand-in repeats: the lines of tests/drivers/cuda/record_answers.py.
#pragma once

#include <string>
#include <vector>

namespace halyard::fake_cuda {

// The answer to a call such as "cuDeviceGetAttribute 16", or null when none was recorded or no
// recording is played.
const std::string* Recorded(const std::string& call);
bool IsPlaying();

// The recorded numbers, as many as `count`; false: not recorded.
bool RecordedNumbers(const std::string& call, std::vector<unsigned long long>* out, size_t count);
// One number.
template <typename T>
bool RecordedNumber(const std::string& call, T* out) {
  std::vector<unsigned long long> numbers;
  if (!RecordedNumbers(call, &numbers, 1)) return false;
  *out = static_cast<T>(numbers[0]);
  return true;
}
bool RecordedText(const std::string& call, char* out, size_t size);

}  // namespace halyard::fake_cuda
