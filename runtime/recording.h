// SPDX-License-Identifier: Apache-2.0
// Recording: one entry of a program under one set of symbol values: every size evaluated, every
// command recorded, ready to be submitted any number of times with other buffers. Immutable; holds
// no activations.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "hal/command_buffer.h"
#include "runtime/loaded_program.h"

namespace halyard::runtime {

struct Recording {
  // Binding slots of every step: inputs, then outputs, arenas, and the staging memory of transfers.
  struct Storage {
    uint32_t device = 0;  // index into the program's devices
    int64_t size_bytes = 0;
  };
  struct Copy {
    hal::CommandRange source, target;
  };
  // What is submitted as one piece: a command buffer, one interpreted op as a host call, or copies,
  // one after the other, by the device's queue or by the host.
  struct Step {
    uint32_t device = 0;
    uint32_t queue = 0;
    Ref<hal::CommandBuffer> commands;
    const program::Command* command = nullptr;  // the only one of `commands`, when each is apart
    const program::Command* interpret = nullptr;
    std::vector<hal::CommandRange> interpret_ranges;  // slots or constants, per binding
    std::vector<std::vector<int64_t>> interpret_dims;
    std::vector<Copy> copies;
    std::string
        way;  // of the copies, for profiles: "cpu:0 -> host", "host -> cuda:0", "host -> host"
    bool host_copies = false;
    std::vector<uint32_t> waits;  // steps that must be done first
  };

  std::shared_ptr<LoadedProgram> program;
  const program::Entry* entry = nullptr;
  std::vector<int64_t> symbols;
  std::vector<Storage> inputs, outputs, arenas;
  std::vector<Storage> staging;  // of each device that transfers stage on; page-locked
  std::vector<std::vector<int64_t>> output_dims;
  std::vector<Step> steps;           // in an order that respects the waits
  std::vector<uint32_t> last_steps;  // no other step waits for them
  // The run begins with so many steps of the host, one after the other, before any other device has
  // something to do. Who waits for the run does them first: it would be idle, and waking another
  // thread for them takes longer than many of them do. 0: it begins elsewhere, or is of one device.
  uint32_t first_host_steps = 0;

  // The device that a caller waits on: that of the last step, where what it waits for happens.
  uint32_t waiting_device() const { return steps.empty() ? 0 : steps.back().device; }
  uint32_t slot_count() const {
    return static_cast<uint32_t>(inputs.size() + outputs.size() + arenas.size() + staging.size());
  }
};

// The first entry whose guards hold. INVALID_ARGUMENT when none does, naming a guard.
Result<const program::Entry*> SelectEntry(const program::Program& program,
                                          std::span<const int64_t> symbols);

// One step holds as many commands as follow each other on a queue, or one, so that each can be
// timed.
enum class StepSize : uint8_t { kMany, kOneCommand };

// Evaluates and records. OUT_OF_RANGE when a size overflows or a range leaves its storage.
Result<std::shared_ptr<const Recording>> Record(std::shared_ptr<LoadedProgram> program,
                                                const program::Entry& entry,
                                                std::span<const int64_t> symbols,
                                                StepSize step_size = StepSize::kMany);

}  // namespace halyard::runtime
