// SPDX-License-Identifier: Apache-2.0
// Asynchronous products of quads. A product is computed where it starts, from elements that nobody
// may write until its group has ended: so the result is what it would be at any later moment.
#include <algorithm>
#include <bit>

#include "compiler/kernel/interpreter_machine.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {

Status Interpreter::RunProducts(const Op& op, Items items) {
  std::vector<int32_t> subgroups;
  HY_TRY(WholeSubgroups(op, items, &subgroups));
  for (size_t i = 0; i < subgroups.size(); i += kSubgroupsOfQuad) {
    const int32_t quad = subgroups[i] / kSubgroupsOfQuad;
    const size_t last = i + kSubgroupsOfQuad - 1;
    if (subgroups[i] % kSubgroupsOfQuad != 0 || last >= subgroups.size() ||
        subgroups[last] / kSubgroupsOfQuad != quad) {
      return FailedPrecondition("Op '{}' is reached by a part of the four subgroups of quad {}.",
                                FormatOpcode(op.opcode), quad);
    }
    QuadProducts& products = products_[static_cast<size_t>(quad)];
    switch (op.opcode) {
      case Opcode::kMmaAsync:
        HY_TRY(StartProduct(op, quad));
        break;
      case Opcode::kMmaCommit:
        products.groups.push_back(std::move(products.open));
        products.open.clear();
        break;
      case Opcode::kMmaWait:
        HY_TRY(FinishProducts(op, quad));
        break;
      default:  // begin, end
        if (op.opcode == Opcode::kMmaEnd && (!products.open.empty() || !products.groups.empty())) {
          return FailedPrecondition("Op 'mma_end' is reached by quad {} with products pending.",
                                    quad);
        }
        for (int32_t s = 0; s < kSubgroupsOfQuad; ++s) {
          const int32_t subgroup = quad * kSubgroupsOfQuad + s;
          std::copy_n(Lanes(op.operands[0], subgroup), places_[op.operands[0]].stride,
                      Lanes(op.results[0], subgroup));
        }
    }
  }
  return OkStatus();
}

template <typename Visit>
Status Interpreter::ForOperand(const PendingProduct& product, int side, Visit visit) {
  const Op& op = *product.op;
  const BufferId buffer = side == 0 ? op.buffer : SecondBuffer(op);
  const auto layout = static_cast<TileLayout>(op.immediates[static_cast<size_t>(1 + side)]);
  const int64_t stride = op.immediates[static_cast<size_t>(3 + side)];
  const int64_t extent = side == 0 ? kRowsOfQuad : op.type.cols;
  for (int64_t place = 0; place < extent; ++place) {
    for (int64_t depth = 0; depth < kDepthOfProduct; ++depth) {
      const int64_t first = side == 0 ? product.a : product.b;
      HY_TRY(visit(buffer, PlaceInTile(layout, first, stride, place, depth)));
    }
  }
  return OkStatus();
}

Status Interpreter::StartProduct(const Op& op, int32_t quad) {
  const int32_t first = quad * kSubgroupsOfQuad;
  PendingProduct product{&op, 0, 0};
  for (int side = 0; side < 2; ++side) {
    const ValueId operand = op.operands[static_cast<size_t>(1 + side)];
    int64_t& index = side == 0 ? product.a : product.b;
    index = IntAt(operand, first * subgroup_size_);
    for (int32_t s = first; s < first + kSubgroupsOfQuad; ++s) {
      uint64_t lane = 0;
      HY_TRY(Uniform(op, operand, s, &lane));
      if (LaneToInt(TypeOf(operand).dtype, lane) != index) {
        return FailedPrecondition(
            "Op 'mma_async' gets index {} in subgroup {} and {} in subgroup {} of one quad.", index,
            first, LaneToInt(TypeOf(operand).dtype, lane), s);
      }
    }
    HY_TRY(memory_.CheckAlign(op.opcode, side == 0 ? op.buffer : SecondBuffer(op), 8, index,
                              memory_.SubgroupOperand(first)));
  }
  std::vector<double> values[2];
  for (int side = 0; side < 2; ++side) {
    HY_TRY(ForOperand(product, side, [&](BufferId buffer, int64_t at) -> Status {
      uint64_t lane = 0;
      HY_TRY(memory_.BeginProduct(buffer, at, memory_.SubgroupOperand(first), &lane));
      values[side].push_back(LaneToDouble(kernel_.buffers[buffer].dtype, lane));
      return OkStatus();
    }));
  }
  // Products and sums in f64, then one rounding, as for fragment_mma.
  const size_t rows = op.type.rows, cols = op.type.cols;
  for (size_t row = 0; row < kRowsOfQuad; ++row) {
    const auto subgroup = first + static_cast<int32_t>(row / rows);
    const uint64_t* c = Lanes(op.operands[0], subgroup) + row % rows * cols;
    uint64_t* result = Lanes(op.results[0], subgroup) + row % rows * cols;
    const double* left = values[0].data() + row * kDepthOfProduct;
    for (size_t col = 0; col < cols; ++col) {
      const double* right = values[1].data() + col * kDepthOfProduct;
      double sum = LaneToDouble(op.type.dtype, c[col]);
      for (int k = 0; k < kDepthOfProduct; ++k) sum += left[k] * right[k];
      result[col] = ConvertLane(DType::kF64, op.type.dtype, std::bit_cast<uint64_t>(sum));
    }
  }
  products_[static_cast<size_t>(quad)].open.push_back(product);
  return OkStatus();
}

Status Interpreter::FinishProducts(const Op& op, int32_t quad) {
  auto& groups = products_[static_cast<size_t>(quad)].groups;
  const auto pending = static_cast<size_t>(op.immediates[0]);
  const size_t done = groups.size() > pending ? groups.size() - pending : 0;
  const int32_t who = memory_.SubgroupOperand(quad * kSubgroupsOfQuad);
  for (size_t g = 0; g < done; ++g) {
    for (const PendingProduct& product : groups[g]) {
      for (int side = 0; side < 2; ++side) {
        HY_TRY(ForOperand(product, side, [&](BufferId buffer, int64_t at) -> Status {
          memory_.EndProduct(buffer, at, who);
          return OkStatus();
        }));
      }
    }
  }
  groups.erase(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(done));
  return OkStatus();
}

}  // namespace halyard::kernel
