// SPDX-License-Identifier: Apache-2.0
// What every GPU schedule starts from. How to build a kernel:
//
//   Writer writer(KernelName(kernel.name, suffix), IndexType(nest));
//   Emitter emitter(function, kernel, writer, GpuEmitterOptions());
//   Grid grid(exprs, target, blocks);              // blocks: workgroups, an Expr
//   V block = grid.Block(writer);                  // this workgroup, 0 to blocks - 1 (or beyond)
//   V item = writer.WorkitemId(0);                 // workgroups are one-dimensional
//   emitter.Bind(symbol, value);                   // a loop of the kernel, one value per workitem
//   emitter.BeginVector(symbol, base, lanes, ...); // or `lanes` neighbours of it in one workitem
//   emitter.EmitBlock(body);                       // the scalar body, for all lanes at once
//   writer.SetWorkgroup(size, subgroup_size);
//   dispatch: bindings and scalars of the emitter, grid.extents
//
// The emitter reads and writes the buffers of the body through EmitLoad and EmitStore, which a
// derived class may override (a tile in workgroup memory, values in registers, guards); SetValue
// says where a value of the nest is known already. Index arithmetic is in the writer's index dtype:
// make constants with Writer::Index.
#pragma once

#include <cstdint>

#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// kI32 when every index, extent and count of iterations of the kernel provably fits with room to
// spare, otherwise kI64.
DType IndexType(const Nest& nest);

Emitter::Options GpuEmitterOptions();

// Of workgroup memory that the kernel takes on the target: its allocations, and what last_arrival
// adds in SPIR-V.
int64_t WorkgroupMemoryBytes(const kernel::Kernel& kernel, const Target& target);

// Workgroups counted through by one number, however many dimensions the device's limits make it
// take. Where they are folded, workgroups beyond the last run too: Block gives them numbers of
// `blocks` or more.
class Grid {
 public:
  Grid(ExprArena& exprs, const Target& target, Expr blocks);
  kernel::ValueId Block(Writer& writer) const;

  Expr extents[3];
  bool is_folded = false;

 private:
  int64_t width_ = 0;  // of a folded grid
};

}  // namespace halyard::schedule
