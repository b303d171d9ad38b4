// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/manifests.h"

#include <algorithm>
#include <filesystem>

#include "base/dylib.h"
#include "base/env.h"
#include "base/regular_file.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int kDeepest = 100;  // the loader's parser calls itself for each level

// Walks over JSON and remembers what stands at "ICD" and below it at "library_path".
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Manifest Read() {
    out_.is_json = Value("", 0) && (SkipBlanks(), rest_.empty());
    if (out_.why_broken.empty() && !out_.is_json) out_.why_broken = "it is no JSON";
    if (out_.why_broken.empty() && out_.library.empty()) out_.why_broken = "it names no library";
    return std::move(out_);
  }

 private:
  void SkipBlanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  bool Take(char c) {
    SkipBlanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool Deadly(std::string why) {
    out_.why_broken = std::move(why);
    out_.is_deadly = true;
    return false;
  }

  // Escapes stay as they are, which is good enough for a name that is shown and tried.
  bool String(std::string* out) {
    if (!Take('"')) return false;
    size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return false;
    *out = std::string(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return true;
  }

  // Whether what comes is what the loader takes for granted there; `path`: below a layer.
  bool IsLayerFit(std::string_view path) const {
    const bool is_object = rest_.starts_with('{');
    if (path.empty()) return is_object;
    for (const std::string_view map :
         {"/disable_environment", "/enable_environment", "/functions", "/pre_instance_functions"}) {
      if (path == map) {
        const size_t member = rest_.find_first_not_of(" \t\r\n", 1);
        return is_object &&
               (map != "/enable_environment" || member >= rest_.size() || rest_[member] != '}');
      }
      if (path.starts_with(map) && path[map.size()] == '/') return rest_.starts_with('"');
    }
    return is_object || (path != "/device_extensions[]" && path != "/instance_extensions[]");
  }

  bool Value(const std::string& path, int depth) {
    if (depth > kDeepest) return Deadly("it is nested too deeply");
    SkipBlanks();
    if (rest_.empty()) return false;
    const char first = rest_[0];
    if (path == "/ICD" && first != '{') return Deadly("its 'ICD' is no object");
    for (const std::string_view layer : {"/layer", "/layers[]"}) {
      if (path.starts_with(layer) && !IsLayerFit(path.substr(layer.size()))) {
        return Deadly(fmt::format("its '{}' is not of the right type", path.substr(1)));
      }
    }
    if (path == "/ICD/library_path") {
      if (first != '"') return Deadly("its 'library_path' is no text");
      return String(&out_.library);
    }
    std::string text;
    if (first == '"') return String(&text);
    if (first != '{' && first != '[') {
      const std::string_view word =
          rest_.substr(0, std::min(rest_.find_first_of(" \t\r\n,]}"), rest_.size()));
      rest_.remove_prefix(word.size());
      return word == "true" || word == "false" || word == "null" ||
             (!word.empty() && word.find_first_not_of("+-.0123456789eE") == word.npos);
    }
    Take(first);
    const char last = first == '{' ? '}' : ']';
    if (Take(last)) return true;
    do {
      if (first == '{' && !(String(&text) && Take(':'))) return false;
      if (!Value(first == '{' ? path + "/" + text : path + "[]", depth + 1)) return false;
    } while (Take(','));
    return Take(last);
  }

  std::string_view rest_;
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

Manifest ReadManifest(std::string_view text) { return Reader(text).Read(); }

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
