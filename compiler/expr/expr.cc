// SPDX-License-Identifier: Apache-2.0
#include "compiler/expr/expr.h"
