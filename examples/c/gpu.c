/* Memory and a stream of GPU 0. */
#include "example.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library, *stream;

/* Calls a function of the driver, whose type ISO C cannot make of an object's pointer. */
#define CALL(result, symbol, types, arguments)                                                        \
  do {                                                                                                \
    unsigned(*function) types;                                                                        \
    void *found = library ? dlsym(library, symbol) : NULL;                                            \
    memcpy(&function, &found, sizeof function);                                                       \
    result = found ? function arguments : 500;                                                        \
    if (result) fprintf(stderr, "%s: CUresult %u\n", symbol, result);                                 \
  } while (0)

int gpu_open(void) {
  const char *path = getenv("TILEKIT_LIBCUDA");
  void *context = NULL;
  unsigned code;
  library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CALL(code, "cuInit", (unsigned), (0));
  /* The primary context, which is the one that the kernels are loaded in. */
  if (!code) CALL(code, "cuDevicePrimaryCtxRetain", (void **, int), (&context, 0));
  if (!code) CALL(code, "cuCtxSetCurrent", (void *), (context));
  if (!code) CALL(code, "cuStreamCreate", (void **, unsigned), (&stream, 1));
  return code ? FAILED : PASSED;
}

void *gpu_stream(void) { return stream; }

uint64_t gpu_allocate(size_t bytes) {
  uint64_t address = 0;
  unsigned code;
  CALL(code, "cuMemAlloc_v2", (uint64_t *, size_t), (&address, bytes));
  return code ? 0 : address;
}

int gpu_write(uint64_t to, const void *from, size_t bytes) {
  unsigned code;
  CALL(code, "cuMemcpyHtoD_v2", (uint64_t, const void *, size_t), (to, from, bytes));
  /* A copy from pageable memory may be on its way still, and the stream does not wait for the default one. */
  if (!code) CALL(code, "cuCtxSynchronize", (void), ());
  return code ? FAILED : PASSED;
}

int gpu_read(void *to, uint64_t from, size_t bytes) {
  unsigned code;
  CALL(code, "cuMemcpyDtoH_v2", (void *, uint64_t, size_t), (to, from, bytes));
  return code ? FAILED : PASSED;
}

int gpu_synchronize(void) {
  unsigned code;
  CALL(code, "cuStreamSynchronize", (void *), (stream));
  return code ? FAILED : PASSED;
}

void gpu_close(void) {
  unsigned code;
  CALL(code, "cuStreamDestroy_v2", (void *), (stream));
  CALL(code, "cuDevicePrimaryCtxRelease_v2", (int), (0));
  if (library) dlclose(library);
}
