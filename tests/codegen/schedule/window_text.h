// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions and pools as lowering writes them, for the tests of schedules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace halyard::schedule {

struct WindowCase {
  int64_t size, channels, window, stride, pad;
};

// Channels innermost; batch n or none. `kind`: "depthwise", "max" or "sum". The input is x, the
// weights w [window][window][channels], the result y.
std::string WindowText(const WindowCase& c, std::string_view kind, bool batched);

}  // namespace halyard::schedule
