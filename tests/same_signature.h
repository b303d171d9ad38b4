// SPDX-License-Identifier: Apache-2.0
// Whether a function that we declare ourselves takes what the vendor's header says, as far as a
// call can tell.
#pragma once

#include <cstddef>
#include <type_traits>

namespace halyard {

// What matters to a call of a parameter: pointers match pointers of the same depth to things of the
// same size; numbers match by size and kind. Enumerations are numbers of 4 bytes.
template <typename T, typename = void>
inline constexpr size_t kSizeOf = 0;  // void and what is never defined
template <typename T>
inline constexpr size_t kSizeOf<T, std::enable_if_t<(sizeof(T) > 0)>> = sizeof(T);

template <typename A, typename B>
constexpr bool Match() {
  if constexpr (std::is_function_v<A> || std::is_function_v<B>) {
    return std::is_function_v<A> == std::is_function_v<B>;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using PointeeA = std::remove_pointer_t<A>;
    using PointeeB = std::remove_pointer_t<B>;
    return std::is_const_v<PointeeA> == std::is_const_v<PointeeB> &&
           Match<std::remove_const_t<PointeeA>, std::remove_const_t<PointeeB>>();
  } else {
    return std::is_pointer_v<A> == std::is_pointer_v<B> && kSizeOf<A> == kSizeOf<B> &&
           std::is_class_v<A> == std::is_class_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}

template <typename A, typename B>
struct SameSignature;
template <typename ReturnA, typename... A, typename ReturnB, typename... B>
struct SameSignature<ReturnA (*)(A...), ReturnB (*)(B...)> {
  static constexpr bool Check() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return Match<ReturnA, ReturnB>() && (Match<A, B>() && ...);
    }
  }
};

}  // namespace halyard
