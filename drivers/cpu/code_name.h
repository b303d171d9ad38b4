// SPDX-License-Identifier: Apache-2.0
// The code name of an x86 processor, by the numbers that cpuid gives; no query tells it. From the
// lists of models of Intel's and AMD's manuals for system programmers and revision guides.
#pragma once

#include <string>

#include "drivers/cpu/features.h"

namespace halyard::drivers::cpu {

// "Milan (Zen 3)": the chip's name and that of its cores where it is another; empty when the table
// does not have it, or when the features are not that chip's.
std::string CodeNameOf(const CpuId& id);

}  // namespace halyard::drivers::cpu
