/* A stand-in for libcuda.so.1 that launches nothing and writes what it is asked to the file $TILEKIT_FAKE_LOG, a line a call.
 * $TILEKIT_FAKE_PARAMETERS has the sizes of the launched function's parameters, such as 8,8,4: only the cubin would know them.
 * $TILEKIT_FAKE_CLOCKS gives it the clocks and the memory of an H100.
 * A launch waits until somebody writes into the pipe $TILEKIT_FAKE_WAIT, if there is one.
 * A tensor map's 128 bytes are everything that it is made of: address, numbers, dimensions, strides, box, steps; of pixels corners,
 * channels, pixels and, four bits each, the steps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uint32_t id, pad; union { uint32_t words[16]; uint64_t align[8]; } value; } attribute;
typedef struct { uint32_t grid[3], threads[3], shared_bytes; void *stream; attribute *attributes; uint32_t count; } config;

static int contexts[2];
static char function_names[64][256];
static int functions;
static _Thread_local void *current;

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

/* The sizes of a function's parameters. That which keeps a GPU busy before a timed launch has one. */
static const char *parameters_of(const void *function) {
  return function && !strcmp(function, "spin") ? "8" : getenv("TILEKIT_FAKE_PARAMETERS");
}

static FILE *begin(const char *call) {
  const char *path = getenv("TILEKIT_FAKE_LOG");
  FILE *log = fopen(path ? path : "/dev/null", "a");
  if (!log) abort();
  fprintf(log, "%s", call);
  return log;
}

static unsigned end(FILE *log) { fprintf(log, "\n"); fclose(log); return 0; }

static const char *context_name(void *context) {
  return context == &contexts[0] ? "primary" : context == &contexts[1] ? "other" : context ? "unknown" : "none";
}

unsigned cuInit(unsigned flags) { (void)flags; return number("TILEKIT_FAKE_INIT", 0); }
unsigned cuDriverGetVersion(int *version) { *version = number("TILEKIT_FAKE_VERSION", 13000); return 0; }
unsigned cuGetErrorName(unsigned code, const char **text) { *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : 0; return *text ? 0 : 1; }
unsigned cuGetErrorString(unsigned code, const char **text) { *text = code == 700 ? "an illegal memory access was encountered" : 0; return *text ? 0 : 1; }
unsigned cuDeviceGetCount(int *count) { *count = number("TILEKIT_FAKE_DEVICES", 1); return 0; }
unsigned cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
unsigned cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, size, "NVIDIA Fake"); return 0; }
unsigned cuDeviceGetAttribute(int *value, unsigned attribute, int device) {
  int capability = number("TILEKIT_FAKE_CAPABILITY", 90);
  int has_clocks = number("TILEKIT_FAKE_CLOCKS", 0);
  (void)device;
  if (has_clocks && (attribute == 13 || attribute == 36 || attribute == 37)) {
    *value = attribute == 13 ? 1980000 : attribute == 36 ? 2619000 : 5120;
    return 0;
  }
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : attribute == 16 ? 132 : attribute == 97 ? 232448 : 0;
  return 0;
}
unsigned cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &contexts[0]; return end(begin("retain")); }
unsigned cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return end(begin("release")); }
unsigned cuCtxGetCurrent(void **context) { *context = current; return 0; }
unsigned cuCtxSetCurrent(void *context) {
  FILE *log = begin("current");
  fprintf(log, " %s", context_name(context));
  current = context;
  return end(log);
}
unsigned cuCtxGetDevice(int *device) { *device = 0; return current ? 0 : 201; }
unsigned cuCtxGetId(void *context, uint64_t *id) { *id = context == &contexts[0] ? 7 : 8; return 0; }
unsigned cuPointerGetAttribute(void *value, unsigned attribute, uint64_t address) {
  if (attribute != 9 || address < 4096) return 1;
  *(int *)value = 0;
  return 0;
}
unsigned cuStreamIsCapturing(void *stream, unsigned *status) { *status = stream == (void *)0xca; return 0; }
unsigned cuModuleLoadData(void **module, const void *image) {
  FILE *log = begin("load");
  *module = &contexts;
  fprintf(log, " %.4s aligned %d", (const char *)image, (uintptr_t)image % 16 == 0);
  return end(log);
}
/* Of the options only that for the text of errors is known; $TILEKIT_FAKE_LOAD is the code that PTX is refused with. */
unsigned cuModuleLoadDataEx(void **module, const void *image, unsigned count, unsigned *options, void **values) {
  int code = number("TILEKIT_FAKE_LOAD", 0);
  unsigned i;
  for (i = 0; code && i < count; i++)
    if (options[i] == 5) strcpy(values[i], "ptxas application ptx input, line 7; error : no such thing\n");
  return code ? (unsigned)code : cuModuleLoadData(module, image);
}
unsigned cuModuleUnload(void *module) { (void)module; return end(begin("unload")); }
unsigned cuModuleGetFunction(void **function, void *module, const char *name) {
  FILE *log = begin("function");
  (void)module;
  *function = function_names[functions++ % 64];
  snprintf(*function, sizeof function_names[0], "%s", name);
  fprintf(log, " %s", name);
  return end(log);
}
unsigned cuFuncSetAttribute(void *function, unsigned attribute, int value) {
  FILE *log = begin("attribute");
  (void)function;
  fprintf(log, " %u = %d", attribute, value);
  return end(log);
}
unsigned cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ctas, void *function, int threads, size_t shared_bytes) {
  (void)function; (void)threads;
  *ctas = shared_bytes <= 227 * 1024;
  return 0;
}
unsigned cuOccupancyMaxActiveClusters(int *clusters, void *function, const config *launch) {
  (void)function; (void)launch;
  *clusters = number("TILEKIT_FAKE_CLUSTERS", 66);
  return 0;
}
unsigned cuTensorMapEncodeTiled(void *map, unsigned type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
    const uint32_t *box, const uint32_t *steps, unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
  FILE *log = begin("encode");
  uint64_t words[16] = {0};
  uint32_t halves[10] = {0};
  uint32_t i;
  words[0] = (uint64_t)(uintptr_t)address;
  words[1] = type | rank << 8 | swizzle << 16 | promotion << 24 | (uint64_t)fill << 32 | (uint64_t)interleave << 40;
  for (i = 0; i < rank; i++) { words[2 + i] = dims[i]; halves[i] = box[i]; halves[5 + i] = steps[i]; }
  for (i = 0; i + 1 < rank; i++) words[7 + i] = strides[i];
  memcpy(words + 11, halves, sizeof halves);
  memcpy(map, words, 128);
  return end(log);
}
/* The same, with corners, channels and pixels in place of box and steps. */
unsigned cuTensorMapEncodeIm2col(void *map, unsigned type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
    const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, unsigned interleave, unsigned swizzle,
    unsigned promotion, unsigned fill) {
  uint32_t box[5] = {0}, corners[10] = {0}, i;
  unsigned code;
  for (i = 0; i + 2 < rank; i++) { corners[i] = (uint32_t)lower[i]; corners[3 + i] = (uint32_t)upper[i]; }
  corners[6] = channels;
  corners[7] = pixels;
  for (i = 0; i < rank; i++) corners[8] |= steps[i] << 4 * i;
  code = cuTensorMapEncodeTiled(map, type, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill);
  memcpy((unsigned char *)map + 88, corners, sizeof corners);
  return code;
}
unsigned cuLaunchKernelEx(const config *launch, void *function, void **parameters, void **extra) {
  const char *sizes = parameters_of(function);
  FILE *log = begin("launch");
  uint32_t i;
  (void)extra;
  fprintf(log, " %s in %s on %p grid %u %u %u threads %u %u %u shared %u", (const char *)function, context_name(current), launch->stream,
      launch->grid[0], launch->grid[1], launch->grid[2], launch->threads[0], launch->threads[1], launch->threads[2], launch->shared_bytes);
  for (i = 0; i < launch->count; i++) {
    const attribute *a = &launch->attributes[i];
    fprintf(log, " attribute %u %u %u %u", a->id, a->value.words[0], a->value.words[1], a->value.words[2]);
  }
  for (i = 0; sizes && *sizes; i++) {
    long size = strtol(sizes, (char **)&sizes, 10), at;
    fprintf(log, " ");
    for (at = 0; at < size; at++) fprintf(log, "%02x", ((unsigned char *)parameters[i])[at]);
    sizes += *sizes == ',';
  }
  end(log);
  if (getenv("TILEKIT_FAKE_WAIT")) {
    FILE *pipe = fopen(getenv("TILEKIT_FAKE_WAIT"), "r");
    if (!pipe || fgetc(pipe) == EOF) abort();
    fclose(pipe);
  }
  return number("TILEKIT_FAKE_LAUNCH", 0);
}
