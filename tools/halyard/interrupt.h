// SPDX-License-Identifier: Apache-2.0
// Ctrl-C during long work: the work ends with what there is. A second one ends the command.
#pragma once

namespace halyard::tools {

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
