// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

// Both live for the whole process and are never destroyed.
struct Catalogue {
  std::vector<const OpDef*> ops;
  std::map<std::string_view, const OpDef*> by_name;
};

const Catalogue& TheCatalogue() {
  static const Catalogue* catalogue = [] {
    auto* made = new Catalogue;
    for (std::span<const OpDef> family :
         {SourceOps(), UnaryOps(), BinaryOps(), SelectionOps(), ViewOps(), IndexingOps(),
          ReductionOps(), MatmulOps(), ConvolutionOps(), PoolingOps(), ResizeOps(), AttentionOps(),
          OrderingOps(), ControlOps()}) {
      for (const OpDef& op : family) {
        made->ops.push_back(&op);
        made->by_name.emplace(op.name, &op);
      }
    }
    return made;
  }();
  return *catalogue;
}

}  // namespace

std::span<const OpDef* const> AllOps() { return TheCatalogue().ops; }

const OpDef* FindOp(std::string_view name) {
  const auto& by_name = TheCatalogue().by_name;
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace halyard::graph
