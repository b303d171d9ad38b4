// SPDX-License-Identifier: Apache-2.0
#include "base/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <utility>

namespace halyard {
namespace {

constexpr int kMostLinks = 40;  // as the system's own limit
constexpr int kMostNames = 100;

// Names of files to remove when a signal ends the process. Static, because a handler allocates
// nothing and frees nothing.
struct Unfinished {
  std::atomic<int> state{0};  // 0 free, 1 taken, 2 named
  char path[PATH_MAX];
};
Unfinished unfinished[8];
// A file must not come to be behind the back of the handler that removes those there are: either
// it waits for the threads that are making one, or they see that it has begun.
std::atomic<int> opening{0};
std::atomic<bool> is_ending{false};
constexpr int kLongestWait = 1000;  // ms, for a file system that does not answer

// While it lives, this thread is about to make a file and takes no signal, for whose handler would
// wait for it.
class Opening {
 public:
  Opening() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
    ++opening;
  }
  ~Opening() {
    --opening;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  bool IsTooLate() const { return is_ending; }

 private:
  sigset_t before_;
};

// The place of the note, by which it is forgotten: other threads' paths are not to be read. -1 where
// all are taken.
int NoteUnfinished(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (size_t i = 0; i < std::size(unfinished); ++i) {
    int free = 0;
    if (!unfinished[i].state.compare_exchange_strong(free, 1)) continue;
    std::memcpy(unfinished[i].path, path.c_str(), path.size() + 1);
    unfinished[i].state.store(2);
    return static_cast<int>(i);
  }
  return -1;
}

void ForgetUnfinished(int note) {
  if (note >= 0) unfinished[note].state.store(0);
}

// While it lives, writing beyond a limit of the process or into a pipe that nobody reads is an
// error of the call and no signal.
class NoSignals {
 public:
  NoSignals() {
    sigemptyset(&these_);
    sigaddset(&these_, SIGPIPE);
    sigaddset(&these_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &these_, &before_);
  }
  ~NoSignals() {
    const timespec now = {};
    // Those that came meanwhile, unless the caller had them blocked and may wait for them.
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      if (has_failed_ && sigismember(&before_, signal) == 0) {
        while (sigtimedwait(&one, nullptr, &now) < 0 && errno == EINTR) {
        }
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  void SetFailed() { has_failed_ = true; }

 private:
  sigset_t these_, before_;
  bool has_failed_ = false;
};

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The folder without links; empty where there is none.
std::string RealFolderOf(const std::string& path) {
  char* found = realpath(FolderOf(path).c_str(), nullptr);
  const std::string real = found != nullptr ? found : "";
  std::free(found);
  return real;
}

// "/proc/PID/fd", whose links stand for open files and not for what they read as.
bool IsOpenFiles(const std::string& folder) {
  return folder.starts_with("/proc/") && folder.ends_with("/fd");
}

}  // namespace

Status OutputFile::Failure(int error) const {
  return Unavailable("File '{}' cannot be written: {}.", path_, std::strerror(error));
}

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  std::unique_ptr<OutputFile> file(new OutputFile);
  file->path_ = path;
  HY_TRY(file->Open(false));
  return file;
}

Status OutputFile::Check(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  return file.Open(true);
}

Status OutputFile::Open(bool is_check) {
  std::string place = path_;
  struct stat there = {};
  for (int links = 0;; ++links) {
    if (lstat(place.c_str(), &there) != 0) {
      if (errno != ENOENT || place.empty() || place.back() == '/') return Failure(errno);
      return OpenBeside(place);
    }
    if (!S_ISLNK(there.st_mode)) break;
    if (links == kMostLinks) return Failure(ELOOP);
    if (IsOpenFiles(RealFolderOf(place))) return OpenThrough(place, is_check);
    char target[PATH_MAX];
    const ssize_t size = readlink(place.c_str(), target, sizeof(target));
    if (size < 0) return Failure(errno);
    const std::string to(target, static_cast<size_t>(size));
    place = to.starts_with('/') ? to : FolderOf(place) + "/" + to;
  }
  if (S_ISDIR(there.st_mode)) return Failure(EISDIR);
  if (S_ISBLK(there.st_mode)) {
    return Unavailable("File '{}' cannot be written: it is a block device.", path_);
  }
  if (!S_ISREG(there.st_mode)) return OpenThrough(place, is_check);
  if (faccessat(AT_FDCWD, place.c_str(), W_OK, AT_EACCESS) != 0) return Failure(errno);
  mode_ = there.st_mode & 07777;
  owner_ = there.st_uid;
  group_ = there.st_gid;
  return OpenBeside(place);
}

Status OutputFile::OpenBeside(const std::string& place) {
  static std::atomic<uint32_t> count{0};
  const Opening opening_one;
  if (opening_one.IsTooLate()) return Failure(EINTR);
  for (int attempt = 0; attempt < kMostNames; ++attempt) {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    std::string name =
        fmt::format("{}.{}-{:x}{:x}", place, getpid(), now.tv_nsec, count.fetch_add(1));
    // Not mkstemp, which forgets the rights that a new file is to have.
    descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0 && (errno == EEXIST || errno == EINTR)) continue;
    if (descriptor_ < 0) return Failure(errno);
    place_ = place;
    temporary_ = std::move(name);
    note_ = NoteUnfinished(temporary_);
    return OkStatus();
  }
  return Failure(EEXIST);
}

Status OutputFile::OpenThrough(const std::string& place, bool is_check) {
  if (is_check) return OkStatus();
  const std::string folder = RealFolderOf(place);
  if (folder == fmt::format("/proc/{}/fd", getpid())) {
    // The open file itself, with its place in what was written before.
    descriptor_ = fcntl(std::atoi(place.c_str() + place.rfind('/') + 1), F_DUPFD_CLOEXEC, 3);
  } else {
    // Opening a pipe would wait for a reader.
    descriptor_ = open(place.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor_ >= 0) {
      const int flags = fcntl(descriptor_, F_GETFL);
      if (flags < 0 || fcntl(descriptor_, F_SETFL, flags & ~O_NONBLOCK) != 0) return Failure(errno);
    }
  }
  if (descriptor_ >= 0) return OkStatus();
  if (errno == ENXIO) {
    return Unavailable("File '{}' cannot be written: it is a pipe or a socket that nobody reads.",
                       path_);
  }
  return Failure(errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  ForgetUnfinished(note_);
}

Status OutputFile::Append(std::span<const uint8_t> bytes) {
  NoSignals no_signals;
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      no_signals.SetFailed();
      return Failure(error);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return OkStatus();
}

Status OutputFile::Append(std::string_view text) {
  return Append({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Status OutputFile::Finish(bool to_disk) {
  if (place_.empty()) {
    const int descriptor = std::exchange(descriptor_, -1);
    return close(descriptor) == 0 || errno == EINTR ? OkStatus() : Failure(errno);
  }
  if (mode_ != 0) {
    // Root keeps the owner; others are the owner already, or cannot give a file away.
    if (fchown(descriptor_, owner_, group_) != 0 && errno != EPERM) return Failure(errno);
    if (fchmod(descriptor_, mode_) != 0) return Failure(errno);
  }
  if (to_disk && fsync(descriptor_) != 0) return Failure(errno);
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0 && errno != EINTR) return Failure(errno);
  if (rename(temporary_.c_str(), place_.c_str()) != 0) return Failure(errno);
  ForgetUnfinished(note_);
  temporary_.clear();
  if (!to_disk) return OkStatus();
  const int folder = open(FolderOf(place_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);  // the file is whole either way; only its name could still be lost
    close(folder);
  }
  return OkStatus();
}

bool OutputFile::Is(int descriptor) const {
  struct stat own = {}, other = {};
  return fstat(descriptor_, &own) == 0 && fstat(descriptor, &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

Status WriteOutputFile(const std::string& path, std::string_view text) {
  HY_ASSIGN(const auto file, OutputFile::Create(path));
  HY_TRY(file->Append(text));
  return file->Finish(false);
}

Status AppendToFile(const std::string& path, std::string_view line) {
  const auto failure = [&](int error) {
    return Unavailable("File '{}' cannot be written: {}.", path, std::strerror(error));
  };
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
  if (file < 0) return failure(errno);
  NoSignals no_signals;
  const ssize_t written = write(file, line.data(), line.size());
  const int error = written < 0 ? errno : ENOSPC;  // a part of it is what a full disk leaves
  close(file);
  if (written == static_cast<ssize_t>(line.size())) return OkStatus();
  no_signals.SetFailed();
  return failure(error);
}

void RemoveUnfinishedOutputs() {
  const int error = errno;
  is_ending = true;
  const timespec millisecond = {.tv_sec = 0, .tv_nsec = 1000000};
  for (int i = 0; i < kLongestWait && opening > 0; ++i) nanosleep(&millisecond, nullptr);
  for (Unfinished& one : unfinished) {
    if (one.state.load() == 2) unlink(one.path);
  }
  errno = error;
}

}  // namespace halyard
