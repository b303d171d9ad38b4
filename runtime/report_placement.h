// SPDX-License-Identifier: Apache-2.0
// The placement part of reports: the plan that the compiler stored with a program of several
// devices, as text, JSON and HTML. Nothing is computed anew.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "compiler/place/plan.h"
#include "compiler/program/program.h"

namespace halyard::runtime {

// The plan of a program; nothing where there is none (one device) or where it cannot be read.
std::optional<place::Plan> FindPlan(const program::Program& program);

// What decided, rivals, loads, transfers, wishes, and the items that are not on the device that
// has most: each line indented by two spaces.
std::string PlanText(const place::Plan& plan);

// Everything the plan holds.
nlohmann::ordered_json PlanJson(const place::Plan& plan);

// Rivals, a time line per queue, and one table of all items.
std::string PlanHtml(const place::Plan& plan);

}  // namespace halyard::runtime
