// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/interrupt.h"

#include <csignal>

#include "base/output_file.h"

namespace halyard::tools {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;

void EndBy(int signal) {
  RemoveUnfinishedOutputs();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void WatchSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (std::signal(signal, EndBy) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

InterruptWatch::InterruptWatch() {
  is_interrupted = 0;
  std::signal(SIGINT, [](int) {
    is_interrupted = 1;
    std::signal(SIGINT, EndBy);
  });
}

InterruptWatch::~InterruptWatch() { std::signal(SIGINT, EndBy); }

bool IsInterrupted() { return is_interrupted != 0; }

}  // namespace halyard::tools
