// SPDX-License-Identifier: Apache-2.0
// Verified plans: a program over several devices races its best rival on one device, on this
// machine, and the faster of the two is kept.
#pragma once

#include <memory>

#include "base/status.h"
#include "runtime/compile.h"

namespace halyard::runtime {

// `planned` itself where it is on one device, or where the caller's demands leave no rival. The
// program that is returned says in its records what was measured. Runs both on random data; takes
// seconds.
Result<std::shared_ptr<LoadedProgram>> VerifyPlan(const std::shared_ptr<Instance>& instance,
                                                  const CompileJob& job,
                                                  std::shared_ptr<LoadedProgram> planned);

}  // namespace halyard::runtime
