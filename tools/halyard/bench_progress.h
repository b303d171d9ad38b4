// SPDX-License-Identifier: Apache-2.0
// What `halyard bench` is doing and how long it will take, for a person who waits.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace halyard::tools {

// Rows one after the other, each of phases. Some phases take seconds that are known before
// (`timed_s` together in each row), such as timed runs, and some take what they take, such as
// compiling: what is left is told with "at least" until a row has shown how long those are.
class BenchProgress {
 public:
  // `now`: seconds of a clock; `show` gets each line.
  BenchProgress(size_t rows, double timed_s, std::function<double()> now,
                std::function<void(const std::string&)> show);

  void StartRow(const std::string& name);
  // The phase begins; `seconds` is its part of timed_s, 0 when it has none.
  void StartPhase(const std::string& phase, double seconds = 0);
  // From inside a phase, as often as one likes; shows twice a second at most. Any thread.
  void Tick();
  void EndRow();

  // "[1/2] a.onnx on cpu:0: compiling, at least 12 s left".
  std::string Line() const;

 private:
  void Show();
  const size_t rows_;
  const double timed_s_;
  const std::function<double()> now_;
  const std::function<void(const std::string&)> show_;
  std::mutex showing_;
  std::atomic<double> next_show_ = 0;
  std::string name_, phase_;
  size_t row_ = 0;      // from 1
  size_t ended_ = 0;    // rows
  double ended_s_ = 0;  // what those took
  double row_start_ = 0, phase_start_ = 0;
  double phase_s_ = 0;       // known of the phase
  double timed_done_s_ = 0;  // of the phases before it in this row
};

}  // namespace halyard::tools
