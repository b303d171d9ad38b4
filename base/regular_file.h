// SPDX-License-Identifier: Apache-2.0
// Regular files by name. What else bears the name, such as a pipe, is refused instead of waited
// for.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace halyard {

// A descriptor to read from, which the caller closes. NOT_FOUND where nothing has the name,
// INVALID_ARGUMENT for what is no regular file, otherwise UNAVAILABLE with the system's reason.
Result<int> OpenRegularFile(const std::string& path);

// The whole file. Errors as above; OUT_OF_RANGE for more than `most_bytes`.
Result<std::string> ReadRegularFile(const std::string& path, size_t most_bytes);

// For names in folders of Halyard's own: removes what has the name and is no regular file: a link,
// a pipe, a folder with all that is in it. No link is followed. Whether there was such a thing.
bool RemoveUnlessRegular(const std::string& path);

}  // namespace halyard
