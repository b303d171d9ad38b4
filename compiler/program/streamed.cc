// SPDX-License-Identifier: Apache-2.0
#include "compiler/program/streamed.h"

namespace halyard::program {

std::vector<bool> StreamedConstants(const Program& program) {
  std::vector<bool> streamed(program.constants.size(), false);
  for (const Entry& entry : program.entries) {
    for (const Block& block : entry.blocks) {
      for (const Command& command : block.commands) {
        if (command.kind != CommandKind::kTransfer || command.bindings.empty()) continue;
        if (command.bindings[0] >= entry.buffers.size()) continue;
        const BufferRange& source = entry.buffers[command.bindings[0]];
        if (source.kind != StorageKind::kConstant || source.index >= streamed.size()) continue;
        if (program.constants[source.index].device == block.device) streamed[source.index] = true;
      }
    }
  }
  return streamed;
}

}  // namespace halyard::program
