// SPDX-License-Identifier: Apache-2.0
// Files that the command line names, read and written whole. Those that a command writes are kept
// apart from what it reads: every option that names a file to write goes through KeepApart before
// anything is opened or measured.
#pragma once

#include <string>
#include <vector>

namespace halyard::tools {

// A file of the command line: what named it, such as "--html" or "the model", and its path.
struct NamedFile {
  std::string name;
  std::string path;
};

// "-" names standard output, as /dev/stdout does; a file of that name is ./-. For options that name
// a file to write: CLI::Option::transform takes it.
std::string NameOfOutput(std::string path);

// Throws CommandError (wrong usage) where one of `outputs` is one of `inputs`, or two outputs are
// one file, by whatever path, symbolic or hard link. Outputs with an empty path are left out; what
// is there and is no regular file, such as /dev/null, loses nothing.
void KeepApart(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

// Throws CommandError (wrong usage) where one of `outputs` is a file below the model's folder that
// the model names, as it does with its external data, or what such a file links to beside that of
// the model's own link.
void KeepApartFromData(const std::vector<NamedFile>& outputs, const std::string& model);

// Throws CommandError (the system failed) where one of `outputs` cannot be written, before long
// work is done for it.
void CheckWritable(const std::vector<NamedFile>& outputs);

// A report that a command wrote. Throws CommandError (bad input) where the file cannot be read, is
// no regular file or is larger than any report.
std::string ReadReport(const std::string& path);
// As base/output_file.h does. Throws CommandError (the system failed).
void WriteWhole(const std::string& path, const std::string& text);
// The same for what stands on standard output too: a failure is a line on standard error and false.
bool WriteOrTell(const std::string& path, const std::string& text);

}  // namespace halyard::tools
