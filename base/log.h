// SPDX-License-Identifier: Apache-2.0
// Log lines for people, on standard error or wherever the host sends them. What programs need to
// know goes into a Status or a report, never here.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace halyard {

enum class LogLevel : uint8_t { kOff = 0, kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

// "error", "warning", ...; Parse returns false for anything else and leaves `out_level` alone.
std::string_view FormatLogLevel(LogLevel level);
bool ParseLogLevel(std::string_view text, LogLevel* out_level);

// The least severe level that is written: HALYARD_LOG, read at the first use, until SetLogLevel.
LogLevel GetLogLevel();
void SetLogLevel(LogLevel level);

// Receives each written line instead of standard error; null restores that. Called from any thread,
// one at a time; must not log.
using LogSink = void (*)(void* context, LogLevel level, std::string_view message);
void SetLogSink(LogSink sink, void* context);

// Writes one line. Prefer HY_LOG, which formats only what is written.
void WriteLog(LogLevel level, std::string_view message);

#define HY_LOG(level, ...)                                                         \
  do {                                                                             \
    if (::halyard::LogLevel::level <= ::halyard::GetLogLevel()) [[unlikely]]       \
      ::halyard::WriteLog(::halyard::LogLevel::level, ::fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace halyard
