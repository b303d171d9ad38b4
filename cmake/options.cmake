# SPDX-License-Identifier: Apache-2.0
# Compiler options and the libraries that more than one layer uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
set(HALYARD_UNITY 0 CACHE STRING "Compile so many files of a folder at a time; 0: each by itself.")
# What ships is linked by the system's linker; tests by a faster one. Not mold 1.10: it begins RELRO before the first writable page,
# so that programs do not start, and without RELRO it sometimes links for ever.
find_program(LLD ld.lld)
if(LLD AND HALYARD_BUILD_TESTS)
  add_link_options(-fuse-ld=lld)
endif()
if(HALYARD_SANITIZE)
  add_compile_options(-fsanitize=${HALYARD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HALYARD_SANITIZE})
endif()

include(GNUInstallDirs)
if(HALYARD_FUZZERS AND HALYARD_FUZZ_COVERAGE)
  # Coverage of the libraries, without which a fuzzer mutates blindly.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# What every target of ours compiles with. No contraction: the reference evaluation and the interpreters
# define results bit by bit. The two warnings of GCC 12 that are off come from the standard library's own code.
add_library(halyard_options INTERFACE)
target_compile_options(halyard_options INTERFACE -Wall -Wextra -Werror -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-free-nonheap-object>)
target_include_directories(halyard_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(HALYARD_ABORT_ON_CHECK)
  target_compile_definitions(halyard_options INTERFACE HALYARD_ABORT_ON_CHECK)
endif()

# halyard_unity(NAME): where HALYARD_UNITY says so, files of NAME that share a folder are compiled together, which
# takes less than half the time from nothing. Names in a folder's unnamed namespaces must differ then. A missing include may
# stay hidden, so one build of .ci/run compiles the libraries file by file.
function(halyard_unity name)
  if(HALYARD_UNITY LESS 2)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cc$")
  set(folders)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    set(all ${folders})
    list(FILTER all INCLUDE REGEX "^${folder}$")
    list(LENGTH all count)
    math(EXPR unit "(${count} - 1) / ${HALYARD_UNITY}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${unit})
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# A static library of all .cc files directly in the current folder and the folders named.
function(halyard_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;DEPS" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS .)
  endif()
  set(globs)
  foreach(folder IN LISTS ARG_FOLDERS)
    list(APPEND globs ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC halyard_options ${ARG_DEPS})
  halyard_unity(${name})
endfunction()
