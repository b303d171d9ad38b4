// SPDX-License-Identifier: Apache-2.0
// RunCommand: the command `halyard` as a user's shell runs it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace halyard {

// Runs it in the folder; all that it wrote on both streams. `*status`: its exit status, or 256 and
// the signal that ended it.
inline std::string RunCommand(const std::string& folder, const std::string& arguments,
                              int* status) {
  const std::string command = "cd " + folder + " && " HALYARD_COMMAND " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char piece[4096];
  while (const size_t size = fread(piece, 1, sizeof(piece), pipe)) out.append(piece, size);
  const int ended = pclose(pipe);
  *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 256 + WTERMSIG(ended);
  return out;
}

}  // namespace halyard
