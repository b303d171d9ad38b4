// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "base/escape_controls.h"

namespace halyard::tools {
namespace {

std::atomic<bool> is_shown = false;

size_t WidthOfTerminal() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

bool HasProgressLine() { return isatty(STDERR_FILENO) != 0; }

void ShowProgress(const std::string& text) {
  if (!HasProgressLine()) return;
  std::string line = EscapeControls(text);
  // A full line would wrap, and then not be overwritten.
  const size_t width = WidthOfTerminal() - 1;
  if (line.size() > width) {
    size_t cut = width;
    while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xc0) == 0x80) --cut;
    line.resize(cut);
  }
  is_shown = true;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
}

void EraseProgress() {
  if (is_shown.exchange(false)) std::fprintf(stderr, "\r\033[K");
}

}  // namespace halyard::tools
