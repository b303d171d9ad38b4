// SPDX-License-Identifier: Apache-2.0
// OutputFile: a file that is written whole, from its first byte to its last. What has the name
// stays as it was until all is written; after a failure nothing is left behind.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace halyard {

// One thread at a time. Every failure is UNAVAILABLE, and its sentence names the file as it was
// given and the system's reason. No signal ends the process, whatever the system refuses.
class OutputFile {
 public:
  // Symbolic links are followed. A regular file, or none, is written beside its place and renamed
  // in Finish, with the rights that were there. A terminal, a pipe or another character device is
  // written through, and so is an open file of this process that is named as one, such as
  // /dev/stdout. Refused: a folder, a block device, a pipe that nobody reads, a file that this
  // process may not write.
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& path);
  // What Create would say, found out before long work. Opens nothing that would be written through.
  static Status Check(const std::string& path);
  ~OutputFile();  // without Finish, what was written beside its place is removed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status Append(std::span<const uint8_t> bytes);
  Status Append(std::string_view text);
  // Nothing may follow. `to_disk`: a regular file is on the disk when it gets its name.
  Status Finish(bool to_disk);

  int descriptor() const { return descriptor_; }
  // Whether this is the open file `descriptor`, such as standard output.
  bool Is(int descriptor) const;

 private:
  OutputFile() = default;
  Status Failure(int error) const;
  Status Open(bool is_check);
  Status OpenBeside(const std::string& place);
  Status OpenThrough(const std::string& place, bool is_check);

  std::string path_;       // as it was given
  std::string place_;      // where it comes to be; empty: written through
  std::string temporary_;  // beside that, until it is renamed
  int note_ = -1;          // of it, for handlers of signals
  int descriptor_ = -1;
  uint32_t mode_ = 0;  // of the file that is replaced; 0: there is none
  uint32_t owner_ = 0, group_ = 0;
};

// All of a file at once.
Status WriteOutputFile(const std::string& path, std::string_view text);

// Adds a line in one write, so that those of several processes do not mix, to a file that is made
// with the rights 0600 where there is none. A link is refused. As to signals and failures as above.
Status AppendToFile(const std::string& path, std::string_view line);

// For handlers of signals that end the process: removes what the unfinished files of this process
// have beside their places, and no thread makes another from then on. Async-signal-safe.
void RemoveUnfinishedOutputs();

}  // namespace halyard
