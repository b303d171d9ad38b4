// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/manifests.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/dylib.h"
#include "base/env.h"
#include "base/regular_file.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kDeepest = 100;  // the loader's parser calls itself for each level

enum class Kind : uint8_t { kObject, kArray, kText, kOther };

// Told of each value in its order, without a tree: remembers what stands at "ICD" and below it at
// "library_path", and stops at what the loader may crash over.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Manifest Read(std::string_view text) {
    out_.is_json = nlohmann::json::sax_parse(text, this);
    if (out_.why_broken.empty() && !out_.is_json) out_.why_broken = "it is no JSON";
    if (out_.why_broken.empty() && out_.library.empty()) out_.why_broken = "it names no library";
    return std::move(out_);
  }

  bool null() override { return Value(Kind::kOther); }
  bool boolean(bool) override { return Value(Kind::kOther); }
  bool number_integer(number_integer_t) override { return Value(Kind::kOther); }
  bool number_unsigned(number_unsigned_t) override { return Value(Kind::kOther); }
  bool number_float(number_float_t, const string_t&) override { return Value(Kind::kOther); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool string(string_t& text) override {
    if (!Value(Kind::kText)) return false;
    if (Path() == kLibrary && out_.library.empty()) out_.library = text;
    return true;
  }
  bool start_object(size_t) override { return Begin(Kind::kObject); }
  bool key(string_t& name) override {
    ++open_.back().members;
    open_.back().key = name.substr(0, kMostKey);
    return true;
  }
  bool end_object() override {
    const bool is_empty = open_.back().members == 0;
    open_.pop_back();
    const std::string path = Path();
    if (is_empty && path != "/layer/enable_environment" && path != "/layers[]/enable_environment") {
      return true;
    }
    return !is_empty || Deadly(NotOfType(path));
  }
  bool start_array(size_t) override { return Begin(Kind::kArray); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr size_t kMostKey = 64;  // longer than any that counts; paths stay short
  static constexpr std::string_view kLibrary = "/ICD/library_path";
  struct Open {
    Kind kind = Kind::kOther;
    std::string path;  // its own
    std::string key;   // of the member that was told last
    size_t members = 0;
  };

  // Of the value that is told now, or was told last.
  std::string Path() const {
    if (open_.empty()) return "";
    const Open& around = open_.back();
    return around.kind == Kind::kObject ? around.path + "/" + around.key : around.path + "[]";
  }
  bool Deadly(std::string why) {
    out_.why_broken = std::move(why);
    out_.is_deadly = true;
    return false;
  }
  static std::string NotOfType(std::string_view path) {
    return fmt::format("its '{}' is not of the right type", path.substr(1));
  }

  // Whether it is what the loader takes for granted there; `path`: below a layer.
  static bool IsLayerFit(std::string_view path, Kind kind) {
    if (path.empty()) return kind == Kind::kObject;
    for (const std::string_view map :
         {"/disable_environment", "/enable_environment", "/functions", "/pre_instance_functions"}) {
      if (path == map) return kind == Kind::kObject;
      if (path.starts_with(map) && path[map.size()] == '/') return kind == Kind::kText;
    }
    return kind == Kind::kObject ||
           (path != "/device_extensions[]" && path != "/instance_extensions[]");
  }

  bool Value(Kind kind) {
    if (open_.size() > kDeepest) return Deadly("it is nested too deeply");
    const std::string path = Path();
    if (path == "/ICD" && kind != Kind::kObject) return Deadly("its 'ICD' is no object");
    if (path == kLibrary && kind != Kind::kText) return Deadly("its 'library_path' is no text");
    for (const std::string_view layer : {"/layer", "/layers[]"}) {
      if (path.starts_with(layer) && !IsLayerFit(std::string_view(path).substr(layer.size()), kind))
        return Deadly(NotOfType(path));
    }
    return true;
  }
  bool Begin(Kind kind) {
    if (!Value(kind)) return false;
    open_.push_back({kind, Path(), "", 0});
    return true;
  }

  std::vector<Open> open_;
  Manifest out_;
};

// The files that the loader would read at those places.
std::vector<std::string> FilesAt(const std::vector<std::string>& places) {
  std::vector<std::string> files;
  for (const std::string& place : places) {
    std::error_code error;
    if (!std::filesystem::is_directory(place, error)) {
      files.push_back(place);
      continue;
    }
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator i(place, error), end; !error && i != end;
         i.increment(error)) {
      if (i->path().extension() == ".json") found.push_back(i->path());
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

Manifest ReadManifest(std::string_view text) { return Reader().Read(text); }

Status CheckManifests() {
  std::vector<std::string> files = FilesAt(EnvVulkanDriverPlaces());
  const std::vector<std::string> layers = FilesAt(EnvVulkanLayerPlaces());
  files.insert(files.end(), layers.begin(), layers.end());
  for (const std::string& file : files) {
    const Result<std::string> text = ReadRegularFile(file, kMostBytes);
    if (!text.ok()) continue;
    const Manifest manifest = ReadManifest(*text);
    if (!manifest.is_deadly) continue;
    return Unavailable(
        "The file '{}' of Vulkan is broken: {}. The Vulkan loader may crash over it and is not "
        "started.",
        file, manifest.why_broken);
  }
  return OkStatus();
}

std::vector<std::string> ManifestProblems() {
  std::vector<std::string> problems;
  for (const std::string& file : FilesAt(EnvVulkanLayerPlaces())) {
    const Result<std::string> text = ReadRegularFile(file, kMostBytes);
    if (text.ok() && !ReadManifest(*text).is_json)
      problems.push_back(fmt::format("'{}' is broken: it is no JSON.", file));
  }
  for (const std::string& file : FilesAt(EnvVulkanDriverPlaces())) {
    const Result<std::string> text = ReadRegularFile(file, kMostBytes);
    if (!text.ok()) {
      problems.emplace_back(text.status().message());
      continue;
    }
    const Manifest manifest = ReadManifest(*text);
    if (!manifest.why_broken.empty()) {
      problems.push_back(fmt::format("'{}' is broken: {}.", file, manifest.why_broken));
      continue;
    }
    // A path with a slash that is no absolute one begins at the file's folder.
    std::string library = manifest.library;
    if (library.find('/') != std::string::npos && !library.starts_with('/')) {
      library = std::filesystem::path(file).parent_path() / library;
    }
    const Result<DynamicLibrary> opened = DynamicLibrary::Open(library);
    if (!opened.ok()) {
      problems.push_back(fmt::format("'{}': {}", file, opened.status().message()));
    } else if (!opened->FindSymbol("vk_icdGetInstanceProcAddr").ok() &&
               !opened->FindSymbol("vkGetInstanceProcAddr").ok()) {
      problems.push_back(fmt::format("'{}': Library '{}' is no driver of Vulkan.", file, library));
    }
  }
  return problems;
}

}  // namespace halyard::drivers::vulkan
