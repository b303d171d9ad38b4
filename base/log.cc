// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/env.h"

namespace halyard {
namespace {

constexpr std::string_view kNames[] = {"off", "error", "warning", "info", "debug"};
constexpr int kUnset = -1;

std::atomic<int> g_level{kUnset};

struct Sink {
  std::mutex mutex;
  LogSink function = nullptr;
  void* context = nullptr;
};

// Never destroyed: threads may log while the process ends.
Sink& TheSink() {
  static Sink* const sink = new Sink;
  return *sink;
}

}  // namespace

std::string_view FormatLogLevel(LogLevel level) { return kNames[static_cast<size_t>(level)]; }

bool ParseLogLevel(std::string_view text, LogLevel* out_level) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] != text) continue;
    *out_level = static_cast<LogLevel>(i);
    return true;
  }
  return false;
}

LogLevel GetLogLevel() {
  int level = g_level.load(std::memory_order_relaxed);
  if (level != kUnset) return static_cast<LogLevel>(level);
  LogLevel parsed = LogLevel::kWarning;
  ParseLogLevel(EnvString(EnvVar::kLog), &parsed);
  // A concurrent SetLogLevel wins.
  if (!g_level.compare_exchange_strong(level, static_cast<int>(parsed)))
    return static_cast<LogLevel>(level);
  return parsed;
}

void SetLogLevel(LogLevel level) {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

void SetLogSink(LogSink function, void* context) {
  Sink& sink = TheSink();
  std::lock_guard lock(sink.mutex);
  sink.function = function;
  sink.context = context;
}

void WriteLog(LogLevel level, std::string_view message) {
  Sink& sink = TheSink();
  std::lock_guard lock(sink.mutex);
  if (sink.function) return sink.function(sink.context, level, message);
  std::fprintf(stderr, "halyard: %s: %.*s\n", FormatLogLevel(level).data(),
               static_cast<int>(message.size()), message.data());
}

}  // namespace halyard
