// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <vector>

namespace halyard {

struct Status::Payload {
  StatusCode code;
  std::string message;
  std::vector<std::string> contexts;  // innermost first
};

Status::Status(StatusCode code, std::string message) {
  if (code == StatusCode::kOk) return;
  payload_ = std::make_shared<const Payload>(Payload{code, std::move(message), {}});
}

StatusCode Status::code() const { return payload_ ? payload_->code : StatusCode::kOk; }

const std::string& Status::message() const {
  static const std::string* const empty = new std::string;  // never destroyed: used at exit
  return payload_ ? payload_->message : *empty;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string text = fmt::format("{}: {}", FormatStatusCode(code()), message());
  for (const std::string& context : payload_->contexts) text += "\n- While " + context;
  return text;
}

std::string Status::ToLine() const {
  if (ok()) return "OK";
  std::string text = message();
  const char* separator = " (while ";
  for (const std::string& context : payload_->contexts) {
    text += separator + context;
    separator = "; while ";
  }
  if (!payload_->contexts.empty()) text += ")";
  // Names come from users' files: they must not break the line or steer a terminal.
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return text;
}

Status Status::WithContext(std::string context) const {
  if (ok()) return *this;
  Payload copy = *payload_;
  copy.contexts.push_back(std::move(context));
  Status status;
  status.payload_ = std::make_shared<const Payload>(std::move(copy));
  return status;
}

std::string_view FormatStatusCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kAborted:
      return "ABORTED";
    case StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kInternal:
      return "INTERNAL";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kDeviceLost:
      return "DEVICE_LOST";
    case StatusCode::kIncompatible:
      return "INCOMPATIBLE";
    case StatusCode::kBusy:
      return "BUSY";
  }
  return "UNKNOWN_CODE";
}

}  // namespace halyard
