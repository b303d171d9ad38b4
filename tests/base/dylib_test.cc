// SPDX-License-Identifier: Apache-2.0
#include "base/dylib.h"

#include <gtest/gtest.h>

#include <vector>

namespace halyard {
namespace {

TEST(DynamicLibrary, OpensAndFinds) {
  Result<DynamicLibrary> library = DynamicLibrary::Open("libm.so.6");
  ASSERT_TRUE(library.ok()) << library.status().ToString();
  Result<double (*)(double)> floor = library->FindFunction<double (*)(double)>("floor");
  ASSERT_TRUE(floor.ok());
  EXPECT_EQ((*floor)(2.5), 2.0);
  Result<void*> missing = library->FindSymbol("hy_no_such_symbol");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), "Library 'libm.so.6' has no symbol 'hy_no_such_symbol'.");
}

TEST(DynamicLibrary, MissingLibrariesSayWhich) {
  Result<DynamicLibrary> library = DynamicLibrary::Open("libhy_missing.so.1");
  EXPECT_EQ(library.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(
      library.status().message(),
      "Library 'libhy_missing.so.1' cannot be opened: cannot open shared object file: No such "
      "file or directory.");
  std::vector<std::string> paths = {"libhy_a.so", "libhy_b.so"};
  Result<DynamicLibrary> none = DynamicLibrary::OpenFirst(paths);
  EXPECT_NE(none.status().message().find("'libhy_a.so'"), std::string::npos);
  EXPECT_NE(none.status().message().find("'libhy_b.so'"), std::string::npos);
  paths.push_back("libm.so.6");
  Result<DynamicLibrary> third = DynamicLibrary::OpenFirst(paths);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->path(), "libm.so.6");
  EXPECT_EQ(DynamicLibrary().FindSymbol("x").status().code(), StatusCode::kFailedPrecondition);
}

TEST(DynamicLibrary, FolderOfThisProgram) {
  static const int kHere = 0;
  Result<std::string> folder = FolderOfBinary(&kHere);
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(folder->front(), '/');
  EXPECT_NE(FolderOfBinary(nullptr).status().code(), StatusCode::kOk);
}

}  // namespace
}  // namespace halyard
