// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/abandoned.h"

#include <atomic>

namespace halyard::cpu {

void Abandon(std::unique_ptr<Abandonable> object) noexcept {
  static std::atomic<Abandonable*> all{nullptr};
  Abandonable* const kept = object.release();
  kept->next = all.load();
  while (!all.compare_exchange_weak(kept->next, kept)) {
  }
}

}  // namespace halyard::cpu
