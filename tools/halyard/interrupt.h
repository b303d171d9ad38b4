// SPDX-License-Identifier: Apache-2.0
// Signals. Ctrl-C during long work: the work ends with what there is, and a second one ends the
// command. Whatever signal ends the command, no half-written file stays behind.
#pragma once

namespace halyard::tools {

// Once, before anything is opened: signals that end the command first remove what it has half
// written (base/output_file.h), and writing beyond a limit of the process is an error of the call.
// Signals that the caller ignores stay ignored.
void WatchSignals();

// Watches while it lives; one at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
};

// Whether Ctrl-C was pressed since the last InterruptWatch began.
bool IsInterrupted();

}  // namespace halyard::tools
