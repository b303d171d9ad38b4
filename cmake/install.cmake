# SPDX-License-Identifier: Apache-2.0
# Installation of libraries, headers, the command and the package files: find_package(Halyard) gives the
# target Halyard::halyard, pkg-config the package halyard.
include(CMakePackageConfigHelpers)

set_target_properties(halyard PROPERTIES EXPORT_NAME halyard)
install(TARGETS halyard EXPORT HalyardTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET halyard_compiler)
  install(TARGETS halyard_compiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS halyard_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/halyard.h include/halyard.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT HalyardTargets NAMESPACE Halyard:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Halyard)
configure_package_config_file(cmake/HalyardConfig.cmake.in ${PROJECT_BINARY_DIR}/HalyardConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Halyard)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/HalyardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/HalyardConfig.cmake ${PROJECT_BINARY_DIR}/HalyardConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Halyard)

# Relative to the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH HALYARD_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR} /prefix)
configure_file(cmake/halyard.pc.in ${PROJECT_BINARY_DIR}/halyard.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/halyard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
