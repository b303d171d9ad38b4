// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/fusion_records.h"

#include <algorithm>

#include "base/status.h"

namespace halyard::pipeline {

FusionStory::FusionStory(const loop::Function& function) {
  for (const loop::Kernel& nest : function.kernels) {
    if (!nest.nodes.empty()) node_of_[nest.name] = nest.nodes[0];
  }
}

const std::string& FusionStory::NodeOf(const std::string& nest) const {
  const auto found = node_of_.find(nest);
  return found == node_of_.end() ? nest : found->second;
}

std::vector<program::Record> FusionStory::Tell(
    const std::vector<loop::FusionRecord>& records) const {
  std::vector<program::Record> out;
  // From the last decision to the first, so that where a kernel ended is known before it is named.
  std::map<std::string, std::string> ended_in;
  for (size_t r = records.size(); r-- > 0;) {
    const loop::FusionRecord& record = records[r];
    if (!record.is_fused) {
      out.push_back({"fusion", record.consumer,
                     fmt::format("stays apart from '{}': {}.", record.producer, record.reason)});
      continue;
    }
    const auto found = ended_in.find(record.kernel);
    const std::string end = found == ended_in.end() ? record.kernel : found->second;
    ended_in[record.producer] = ended_in[record.consumer] = end;
    const std::string &producer = NodeOf(record.producer), &consumer = NodeOf(record.consumer);
    out.push_back({"fusion", end,
                   producer == consumer
                       ? fmt::format("Parts of '{}' join: {}.", producer, record.reason)
                       : fmt::format("'{}' joins '{}': {}.", consumer, producer, record.reason)});
  }
  std::reverse(out.begin(), out.end());
  std::vector<program::Record> once;
  for (program::Record& record : out) {
    const auto is_same = [&](const program::Record& other) {
      return other.subject == record.subject && other.text == record.text;
    };
    if (std::none_of(once.begin(), once.end(), is_same)) once.push_back(std::move(record));
  }
  return once;
}

}  // namespace halyard::pipeline
