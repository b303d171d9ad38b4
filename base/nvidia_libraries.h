// SPDX-License-Identifier: Apache-2.0
// Where NVIDIA's libraries lie that are opened at run time and that no driver installs: NVRTC,
// cuBLASLt, cuDNN.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dylib.h"
#include "base/status.h"

namespace halyard {

// Files that match a glob pattern, in reverse order, so that of several releases the newest is
// first.
std::vector<std::string> FilesMatching(const std::string& pattern);

// The files and sonames to try for `name` ("libnvrtc"), in order: names that the loader looks up,
// each with one of `versions` (newest first), then the toolkit's folders, then those that NVIDIA's
// Python packages install into, the system's and those of EnvPythonFolders(). A pattern that
// nothing matches stands for itself, for messages.
std::vector<std::string> NvidiaLibraryCandidates(std::string_view name,
                                                 std::span<const std::string_view> versions);

// The files and sonames of NVRTC to try, in order: HALYARD_NVRTC_LIBRARY alone where it is set.
std::vector<std::string> NvrtcCandidates();
// The first of them that opens. UNAVAILABLE says what was tried, and what is wrong with the one
// that was named.
Result<DynamicLibrary> OpenNvrtcLibrary(const std::vector<std::string>& candidates);
// "NVRTC 13.0, /usr/local/cuda/lib64/libnvrtc.so.13"; UNAVAILABLE also for a library that is none.
Result<std::string> DescribeNvrtc();

// The release of `name` that stands first among its candidates, from the name of its file; "" where
// none is installed. Looks at folders and at what the loader knows, and loads nothing.
std::string InstalledNvidiaRelease(std::string_view name);

}  // namespace halyard
