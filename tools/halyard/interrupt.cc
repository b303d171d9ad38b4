// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/interrupt.h"

#include <csignal>

namespace halyard::tools {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;

}  // namespace

InterruptWatch::InterruptWatch() {
  is_interrupted = 0;
  std::signal(SIGINT, [](int) {
    is_interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
}

InterruptWatch::~InterruptWatch() { std::signal(SIGINT, SIG_DFL); }

bool IsInterrupted() { return is_interrupted != 0; }

}  // namespace halyard::tools
