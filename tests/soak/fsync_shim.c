/* Keeps a copy of each file as of its last fsync, beside it under the name FILE.synced, so that a test can take away
 * what a loss of power would: copy the copies back. Only files under $SYNCED_UNDER are looked at, and nothing is really
 * synced. Build: gcc -shared -fPIC -o fsync_shim.so fsync_shim.c; use: LD_PRELOAD.
 *
 * A file is read through the descriptor that is synced: opening it again and closing it would drop the locks that the
 * process holds on it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*real_unlink)(const char *);

static int watched(const char *path) {
  const char *under = getenv("SYNCED_UNDER");
  return under != NULL && strncmp(path, under, strlen(under)) == 0;
}

static int keep(int file) {
  char link[64], path[PATH_MAX], copy[PATH_MAX + 16], partial[PATH_MAX + 32], block[65536];
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return -1;
  path[length] = 0;
  if (!watched(path)) return 0;
  snprintf(copy, sizeof copy, "%s.synced", path);
  snprintf(partial, sizeof partial, "%s.%d", copy, getpid());
  int out = open(partial, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (out < 0) return -1;
  off_t at = 0;
  ssize_t got;
  while ((got = pread(file, block, sizeof block, at)) > 0) {
    if (write(out, block, got) != got) return -1;
    at += got;
  }
  close(out);
  return got < 0 ? -1 : rename(partial, copy);
}

int fsync(int file) { return keep(file); }

int fdatasync(int file) { return keep(file); }

int unlink(const char *path) {
  char copy[PATH_MAX + 16];
  if (real_unlink == NULL) real_unlink = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
  if (watched(path)) {
    snprintf(copy, sizeof copy, "%s.synced", path);
    real_unlink(copy);
  }
  return real_unlink(path);
}
