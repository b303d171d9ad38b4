// SPDX-License-Identifier: Apache-2.0
#include "hal/known_boards.h"

namespace halyard::hal {
namespace {

constexpr int64_t kMiB = 1 << 20;

constexpr KnownBoard kBoards[] = {
    {"10de:1db1", "GV100 (Volta)", "HBM2", 6 * kMiB, 6, 7},          // V100-SXM2-16GB
    {"10de:1db4", "GV100 (Volta)", "HBM2", 6 * kMiB, 6, 7},          // V100-PCIE-16GB
    {"10de:1db5", "GV100 (Volta)", "HBM2", 6 * kMiB, 6, 7},          // V100-SXM2-32GB
    {"10de:1db6", "GV100 (Volta)", "HBM2", 6 * kMiB, 6, 7},          // V100-PCIE-32GB
    {"10de:1eb8", "TU104 (Turing)", "GDDR6", 4 * kMiB, 6, 4},        // T4
    {"10de:20b0", "GA100 (Ampere)", "HBM2", 40 * kMiB, 8, 8},        // A100-SXM4-40GB
    {"10de:20b2", "GA100 (Ampere)", "HBM2e", 40 * kMiB, 8, 8},       // A100-SXM4-80GB
    {"10de:20b5", "GA100 (Ampere)", "HBM2e", 40 * kMiB, 8, 8},       // A100 80GB PCIe
    {"10de:20f1", "GA100 (Ampere)", "HBM2", 40 * kMiB, 8, 8},        // A100-PCIE-40GB
    {"10de:2204", "GA102 (Ampere)", "GDDR6X", 6 * kMiB, 7, 6},       // GeForce RTX 3090
    {"10de:2206", "GA102 (Ampere)", "GDDR6X", 5 * kMiB, 7, 6},       // GeForce RTX 3080
    {"10de:2230", "GA102 (Ampere)", "GDDR6", 6 * kMiB, 7, 6},        // RTX A6000
    {"10de:2235", "GA102 (Ampere)", "GDDR6", 6 * kMiB, 7, 6},        // A40
    {"10de:2236", "GA102 (Ampere)", "GDDR6", 6 * kMiB, 7, 6},        // A10
    {"10de:2330", "GH100 (Hopper)", "HBM3", 50 * kMiB, 8, 9},        // H100 SXM5
    {"10de:2331", "GH100 (Hopper)", "HBM2e", 50 * kMiB, 8, 9},       // H100 PCIe
    {"10de:2335", "GH100 (Hopper)", "HBM3e", 60 * kMiB, 8, 9},       // H200 SXM
    {"10de:2684", "AD102 (Ada)", "GDDR6X", 72 * kMiB, 12, 6},        // GeForce RTX 4090
    {"10de:2704", "AD103 (Ada)", "GDDR6X", 64 * kMiB, 7, 6},         // GeForce RTX 4080
    {"10de:26b5", "AD102 (Ada)", "GDDR6", 96 * kMiB, 12, 6},         // L40
    {"10de:26b9", "AD102 (Ada)", "GDDR6", 96 * kMiB, 12, 6},         // L40S
    {"10de:27b8", "AD104 (Ada)", "GDDR6", 48 * kMiB, 5, 6},          // L4
    {"10de:2b85", "GB202 (Blackwell)", "GDDR7", 96 * kMiB, 12, 8},   // GeForce RTX 5090
    {"1002:73bf", "Navi 21 (RDNA 2)", "GDDR6", 4 * kMiB, 0, 0},      // Radeon RX 6800 to 6900 XT
    {"1002:744c", "Navi 31 (RDNA 3)", "GDDR6", 6 * kMiB, 0, 0},      // Radeon RX 7900
    {"8086:56a0", "ACM-G10 (Alchemist)", "GDDR6", 16 * kMiB, 0, 0},  // Arc A770
};

}  // namespace

const KnownBoard* FindKnownBoard(std::string_view model_id) {
  for (const KnownBoard& board : kBoards) {
    if (board.model_id == model_id) return &board;
  }
  return nullptr;
}

}  // namespace halyard::hal
