/* What exported kernels share. No state but the text of errors: a module has its own table of the driver's functions. */
#include "tilekit.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char error_text[1024];

const char *tk_error_text(void) { return error_text; }

int tk_fail(const tk_kernel *kernel, int code, const char *format, ...) {
  va_list arguments;
  int used = kernel ? snprintf(error_text, sizeof error_text, "%s: ", kernel->signature) : 0;
  va_start(arguments, format);
  if (used >= 0 && (size_t)used < sizeof error_text) vsnprintf(error_text + used, sizeof error_text - (size_t)used, format, arguments);
  va_end(arguments);
  return code;
}

enum {
  INIT, DRIVER_VERSION, ERROR_NAME, ERROR_STRING, DEVICE_COUNT, DEVICE_NAME, DEVICE_ATTRIBUTE, RETAIN, RELEASE, GET_CURRENT, SET_CURRENT,
  CONTEXT_DEVICE, MODULE_LOAD, MODULE_UNLOAD, GET_FUNCTION, SET_FUNCTION, ACTIVE_BLOCKS, ACTIVE_CLUSTERS, ENCODE, ENCODE_IM2COL, LAUNCH, SYMBOLS
};

static const char *const names[SYMBOLS] = {
  "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetAttribute",
  "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetDevice", "cuModuleLoadData",
  "cuModuleUnload", "cuModuleGetFunction", "cuFuncSetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
  "cuOccupancyMaxActiveClusters", "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuLaunchKernelEx"
};

/* CUlaunchAttribute and CUlaunchConfig; 4, 6 and 2 are the attributes for clusters, programmatic and cooperative launches. */
typedef struct { uint32_t id, pad; uint64_t value[8]; } attribute;
typedef struct {
  uint32_t grid[3], threads[3], shared_bytes;
  void *stream;
  attribute *attributes;
  uint32_t count;
} config;

/* ISO C has no conversion from an object's pointer to a function's. */
#define FUNCTION(module, index, function) memcpy(&(function), &(module)->symbols[index], sizeof(function))

static int check(const tk_module *module, const tk_kernel *kernel, const char *call, unsigned code) {
  unsigned (*describe)(unsigned, const char **);
  const char *name = NULL, *text = NULL;
  if (code == 0) return 0;
  FUNCTION(module, ERROR_NAME, describe);
  if (describe(code, &name) != 0) name = NULL;
  FUNCTION(module, ERROR_STRING, describe);
  if (describe(code, &text) != 0) text = NULL;
  return tk_fail(kernel, (int)code, "%s: %s (%s, %u)", call, text ? text : "unknown error", name ? name : "no name", code);
}

enum { CUDA_ERROR_NO_DEVICE = 100 };

/* CU_TENSOR_MAP_L2_PROMOTION_L2_128B: what L2 fetches around a row, as maps of programs in Rust have it. */
enum { L2_128B = 2 };

static int no_gpu(const tk_kernel *kernel) {
  return tk_fail(kernel, TK_ERROR_NO_DRIVER, "the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES");
}

static int open_driver(tk_module *module, const tk_kernel *kernel) {
  unsigned (*version)(int *), (*init)(unsigned);
  const char *path = getenv("TILEKIT_LIBCUDA");
  int found = 0, at, code;
  if (!path || !*path) path = "libcuda.so.1";
  module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!module->library)
    return tk_fail(kernel, TK_ERROR_NO_DRIVER, "no NVIDIA driver: %s could not be loaded; install the driver, or run the kernel on "
                   "TileKit's emulator, which needs none", path);
  for (at = 0; at < SYMBOLS; at++) {
    module->symbols[at] = dlsym(module->library, names[at]);
    if (!module->symbols[at])
      return tk_fail(kernel, TK_ERROR_NO_DRIVER, "the NVIDIA driver library has no `%s`; reinstall the driver (CUDA 12.8 or later)", names[at]);
  }
  FUNCTION(module, DRIVER_VERSION, version);
  code = check(module, kernel, "cuDriverGetVersion", version(&found));
  if (code) return code;
  if (found < 12080)
    return tk_fail(kernel, TK_ERROR_NO_DRIVER, "the NVIDIA driver supports CUDA %d.%d, and 12.8 or later is needed; update the driver",
                   found / 1000, found % 1000 / 10);
  FUNCTION(module, INIT, init);
  code = check(module, kernel, "cuInit", init(0));
  return code == CUDA_ERROR_NO_DEVICE ? no_gpu(kernel) : code;
}

static int attribute_of(const tk_module *module, const tk_kernel *kernel, int number, int *value) {
  unsigned (*get)(int *, unsigned, int);
  FUNCTION(module, DEVICE_ATTRIBUTE, get);
  return check(module, kernel, "cuDeviceGetAttribute", get(value, (unsigned)number, module->device));
}

static int open_context(tk_module *module, const tk_kernel *kernel, int device) {
  unsigned (*retain)(void **, int), (*current)(void **), (*device_of)(int *), (*count)(int *);
  int code, devices = 0;
  if (device == TK_CURRENT_CONTEXT) {
    FUNCTION(module, GET_CURRENT, current);
    FUNCTION(module, CONTEXT_DEVICE, device_of);
    code = check(module, kernel, "cuCtxGetCurrent", current(&module->context));
    if (code) return code;
    if (!module->context) return tk_fail(kernel, TK_ERROR_VALUE, "no context is current in this thread; pass the number of a GPU");
    return check(module, kernel, "cuCtxGetDevice", device_of(&module->device));
  }
  FUNCTION(module, DEVICE_COUNT, count);
  code = check(module, kernel, "cuDeviceGetCount", count(&devices));
  if (code) return code;
  if (devices == 0) return no_gpu(kernel);
  if (device < 0 || device >= devices)
    return tk_fail(kernel, TK_ERROR_VALUE, "there is no GPU %d; the driver sees %d, counted from 0", device, devices);
  module->device = device;
  FUNCTION(module, RETAIN, retain);
  code = check(module, kernel, "cuDevicePrimaryCtxRetain", retain(&module->context, device));
  module->owns_context = code == 0;
  return code;
}

/* Makes the module's context current; `*before` is what is to be current again, if `*differs`. */
static int enter(const tk_module *module, const tk_kernel *kernel, void **before, int *differs) {
  unsigned (*get)(void **), (*set)(void *);
  int code;
  FUNCTION(module, GET_CURRENT, get);
  code = check(module, kernel, "cuCtxGetCurrent", get(before));
  *differs = 0;
  if (code || *before == module->context) return code;
  FUNCTION(module, SET_CURRENT, set);
  code = check(module, kernel, "cuCtxSetCurrent", set(module->context));
  *differs = code == 0;
  return code;
}

static void leave(const tk_module *module, void *before, int differs) {
  unsigned (*set)(void *);
  FUNCTION(module, SET_CURRENT, set);
  if (differs) (void)set(before);
}

static config config_of(const tk_kernel *kernel, attribute attributes[3]) {
  config made;
  memset(&made, 0, sizeof made);
  memset(attributes, 0, 3 * sizeof *attributes);
  made.threads[0] = kernel->threads;
  made.threads[1] = made.threads[2] = 1;
  made.shared_bytes = kernel->shared_bytes;
  made.attributes = attributes;
  if (kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2] > 1) {
    attributes[made.count].id = 4;
    memcpy(attributes[made.count++].value, kernel->cluster, sizeof kernel->cluster);
  }
  if (kernel->is_cooperative) {
    uint32_t one = 1;
    attributes[made.count].id = 2;
    memcpy(attributes[made.count++].value, &one, sizeof one);
  }
  return made;
}

/* Shared memory and clusters beyond what a function has without being asked, and whether the GPU has room for them. */
static int prepare(const tk_module *module, const tk_kernel *kernel) {
  unsigned (*set)(void *, unsigned, int), (*blocks)(int *, void *, int, size_t), (*clusters)(int *, void *, const config *);
  uint32_t ctas = kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2];
  attribute attributes[3];
  config shape = config_of(kernel, attributes);
  int code = 0, room = 0;
  FUNCTION(module, SET_FUNCTION, set);
  FUNCTION(module, ACTIVE_BLOCKS, blocks);
  FUNCTION(module, ACTIVE_CLUSTERS, clusters);
  if (kernel->shared_bytes) code = check(module, kernel, "cuFuncSetAttribute", set(module->function, 8, (int)kernel->shared_bytes));
  if (!code && ctas > 1) code = check(module, kernel, "cuFuncSetAttribute", set(module->function, 14, 1));
  if (!code)
    code = check(module, kernel, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                 blocks(&room, module->function, (int)kernel->threads, kernel->shared_bytes));
  if (!code && room > 0 && ctas > 1) {
    memcpy(shape.grid, kernel->cluster, sizeof shape.grid);
    code = check(module, kernel, "cuOccupancyMaxActiveClusters", clusters(&room, module->function, &shape));
  }
  if (!code && room <= 0)
    return tk_fail(kernel, TK_ERROR_MACHINE, "the GPU, or the part of it that the context has, cannot hold a cluster of %ux%ux%u CTAs of %u "
                   "threads and %u bytes of shared memory", kernel->cluster[0], kernel->cluster[1], kernel->cluster[2], kernel->threads,
                   kernel->shared_bytes);
  return code;
}

static int load_code(tk_module *module, const tk_kernel *kernel) {
  unsigned (*load)(void **, const void *), (*function)(void **, void *, const char *), (*name)(char *, int, int);
  char device[128] = "the GPU";
  int major = 0, minor = 0, multiprocessors = 0, code = attribute_of(module, kernel, 75, &major);
  if (!code) code = attribute_of(module, kernel, 76, &minor);
  if (!code) code = attribute_of(module, kernel, 16, &multiprocessors);
  if (code) return code;
  module->multiprocessors = multiprocessors;
  if (major * 10 + minor != kernel->capability) {
    FUNCTION(module, DEVICE_NAME, name);
    (void)name(device, (int)sizeof device, module->device);
    return tk_fail(kernel, TK_ERROR_MACHINE, "%s has compute capability %d.%d; %s code runs on %d.%d only", device, major, minor, kernel->arch,
                   kernel->capability / 10, kernel->capability % 10);
  }
  FUNCTION(module, MODULE_LOAD, load);
  code = check(module, kernel, "cuModuleLoadData", load(&module->module, kernel->cubin));
  if (code) return code;
  FUNCTION(module, GET_FUNCTION, function);
  code = check(module, kernel, "cuModuleGetFunction", function(&module->function, module->module, kernel->entry));
  return code ? code : prepare(module, kernel);
}

int tk_load(tk_module *module, const tk_kernel *kernel, int device) {
  void *before = NULL;
  int differs = 0, code;
  memset(module, 0, sizeof *module);
  code = open_driver(module, kernel);
  if (!code) code = open_context(module, kernel, device);
  if (!code) code = enter(module, kernel, &before, &differs);
  if (!code) {
    code = load_code(module, kernel);
    leave(module, before, differs);
  }
  if (code) {
    char text[sizeof error_text];
    memcpy(text, error_text, sizeof text);
    (void)tk_unload(module, kernel);
    memcpy(error_text, text, sizeof text);
  }
  return code;
}

int tk_unload(tk_module *module, const tk_kernel *kernel) {
  unsigned (*unload)(void *), (*release)(int);
  void *before = NULL;
  int differs = 0, code = 0;
  if (module->module) {
    code = enter(module, kernel, &before, &differs);
    FUNCTION(module, MODULE_UNLOAD, unload);
    if (!code) {
      code = check(module, kernel, "cuModuleUnload", unload(module->module));
      leave(module, before, differs);
    }
  }
  if (module->owns_context) {
    int released;
    FUNCTION(module, RELEASE, release);
    released = check(module, kernel, "cuDevicePrimaryCtxRelease", release(module->device));
    code = code ? code : released;
  }
  if (module->library) dlclose(module->library);
  memset(module, 0, sizeof *module);
  return code;
}

int tk_launch(const tk_module *module, const tk_kernel *kernel, const int64_t grid[3], void *stream, int overlaps_previous, void **parameters) {
  const int64_t *limits = kernel->limits.grid;
  unsigned (*launch)(const config *, void *, void **, void **);
  attribute attributes[3];
  config shape = config_of(kernel, attributes);
  void *before = NULL;
  int at, differs = 0, code;
  if (!module->function) return tk_fail(kernel, TK_ERROR_VALUE, "the module is not loaded; call the kernel's load function before");
  for (at = 0; at < 3; at++) {
    if (grid[at] < 0 || grid[at] > limits[at])
      return tk_fail(kernel, TK_ERROR_VALUE, "the grid has %lld CTAs along %c; there can be 0 to %lld: launch it in parts",
                     (long long)grid[at], "xyz"[at], (long long)limits[at]);
    if (grid[at] % kernel->cluster[at])
      return tk_fail(kernel, TK_ERROR_VALUE, "the grid has %lld CTAs along %c; it must be a multiple of the %u of a cluster",
                     (long long)grid[at], "xyz"[at], kernel->cluster[at]);
    shape.grid[at] = (uint32_t)grid[at];
  }
  /* An empty grid is no launch. */
  if (!grid[0] || !grid[1] || !grid[2]) return 0;
  shape.stream = stream;
  if (overlaps_previous) {
    uint32_t one = 1;
    attributes[shape.count].id = 6;
    memcpy(attributes[shape.count++].value, &one, sizeof one);
  }
  code = enter(module, kernel, &before, &differs);
  if (code) return code;
  FUNCTION(module, LAUNCH, launch);
  code = check(module, kernel, "cuLaunchKernelEx", launch(&shape, module->function, parameters, NULL));
  leave(module, before, differs);
  return code;
}

/* What is written has no two elements in one place: programs would write it at the same time. Dimensions that interleave count as such. */
int tk_check_places(const tk_kernel *kernel, const char *name, uint32_t rank, const int64_t *shape, const int64_t *strides) {
  uint32_t at, taken = 0;
  int64_t width = 1;
  int bad = 0;
  for (at = 0; at < rank; at++)
    if (!shape[at]) return 0;
  for (;;) {
    uint32_t least = rank;
    for (at = 0; at < rank; at++)
      if (shape[at] > 1 && !(taken >> at & 1) && (least == rank || strides[at] < strides[least])) least = at;
    if (least == rank) return 0;
    if (strides[least] < width)
      return tk_fail(kernel, TK_ERROR_VALUE, "%s has elements in the same place: its stride along dimension %u is %lld, and the dimensions of "
                     "smaller strides reach over %lld elements; the kernel writes them: pass a tensor without gaps", name, least,
                     (long long)strides[least], (long long)width);
    taken |= UINT32_C(1) << least;
    width = tk_add(&bad, width, tk_mul(&bad, shape[least] - 1, strides[least]));
    if (bad) width = INT64_MAX;
  }
}

/* A limit for people: a large power of two as such, 2^40. */
static const char *limit_text(uint64_t number, char text[24]) {
  int log = 0;
  while (number >> log > 1) log++;
  if (log >= 20 && number == UINT64_C(1) << log) snprintf(text, 24, "2^%d", log);
  else snprintf(text, 24, "%llu", (unsigned long long)number);
  return text;
}

/* Steps and the window, by the rules of the hardware. */
static int check_cut(const tk_kernel *kernel, const tk_tensor *tensor) {
  static const char *const names[] = {"lower", "upper"};
  uint32_t at, corner;
  for (at = 0; at < tensor->rank; at++) {
    int64_t step = tensor->steps[at], most = at + 1 == tensor->rank ? 1 : kernel->limits.map_step, reach;
    if (step < 1 || step > most)
      return tk_fail(kernel, TK_ERROR_VALUE, "%s is taken in steps of %lld along dimension %u; it must be 1 to %lld", tensor->name,
                     (long long)step, at, (long long)most);
    reach = step * tensor->box[at];
    if (!tensor->has_window && step > 1 && reach > kernel->limits.map_box_elements)
      return tk_fail(kernel, TK_ERROR_VALUE, "%s is taken in steps of %lld along dimension %u, where a copy has %u elements and reaches over "
                     "%lld; it may reach over %lld", tensor->name, (long long)step, at, tensor->box[at], (long long)reach,
                     (long long)kernel->limits.map_box_elements);
  }
  for (corner = 0; tensor->has_window && corner < 2; corner++) {
    for (at = 0; at + 2 < tensor->rank; at++) {
      int64_t offset = tensor->corners[corner][at];
      if (offset < tensor->corner_range[0] || offset > tensor->corner_range[1])
        return tk_fail(kernel, TK_ERROR_VALUE, "%s has a window whose %s corner is off by %lld; with %u dimensions it can be %lld to %lld",
                       tensor->name, names[corner], (long long)offset, tensor->rank, (long long)tensor->corner_range[0],
                       (long long)tensor->corner_range[1]);
    }
  }
  return 0;
}

static int encode_im2col(const tk_module *module, const tk_kernel *kernel, const tk_tensor *tensor, const uint64_t *dims,
                         const uint64_t *strides, const uint32_t *steps, void *map) {
  unsigned (*encode)(void *, unsigned, uint32_t, void *, const uint64_t *, const uint64_t *, const int *, const int *, uint32_t, uint32_t,
                     const uint32_t *, unsigned, unsigned, unsigned, unsigned);
  int corners[2][3] = {{0}};
  uint32_t at, spatial = tensor->rank - 2;
  for (at = 0; at < spatial; at++) {
    corners[0][at] = (int)tensor->corners[0][spatial - 1 - at];
    corners[1][at] = (int)tensor->corners[1][spatial - 1 - at];
  }
  FUNCTION(module, ENCODE_IM2COL, encode);
  return check(module, kernel, "cuTensorMapEncodeIm2col",
               encode(map, tensor->data_type, tensor->rank, (void *)(uintptr_t)tensor->address, dims, strides, corners[0], corners[1],
                      tensor->box[1], tensor->box[0], steps, 0, tensor->swizzle, L2_128B, 0));
}

int tk_tensor_map(const tk_module *module, const tk_kernel *kernel, const tk_tensor *tensor, uint64_t map[TK_MAP_BYTES / 8]) {
  unsigned (*encode)(void *, unsigned, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, unsigned,
                     unsigned, unsigned, unsigned);
  const tk_limits *limits = &kernel->limits;
  uint64_t unit = limits->map_unit_bytes, below = limits->map_stride_bytes;
  uint64_t dims[5] = {1, 1, 1, 1, 1}, strides[5] = {0}, room[TK_MAP_BYTES / 8 + 8];
  uint32_t box[5] = {1, 1, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1}, at;
  unsigned char *aligned;
  char text[24];
  int code;
  if (!module->function) return tk_fail(kernel, TK_ERROR_VALUE, "the module is not loaded; call the kernel's load function before");
  if (tensor->address % unit)
    return tk_fail(kernel, TK_ERROR_VALUE, "%s is at address 0x%llx; a tensor map wants a multiple of %llu", tensor->name,
                   (unsigned long long)tensor->address, (unsigned long long)unit);
  code = check_cut(kernel, tensor);
  if (code) return code;
  for (at = 0; at < tensor->rank; at++) {
    uint32_t from = tensor->rank - 1 - at;
    uint64_t bytes;
    if (tensor->shape[from] < 1 || tensor->shape[from] > limits->map_elements)
      return tk_fail(kernel, TK_ERROR_VALUE, "%s has %lld elements along dimension %u; a tensor map takes 1 to %s", tensor->name,
                     (long long)tensor->shape[from], from, limit_text((uint64_t)limits->map_elements, text));
    dims[at] = (uint64_t)tensor->shape[from];
    steps[at] = (uint32_t)tensor->steps[from];
    box[at] = tensor->box[from] * steps[at];
    if (at == 0) continue;
    if (tensor->strides[from] < 0 || (uint64_t)tensor->strides[from] >= below)
      return tk_fail(kernel, TK_ERROR_VALUE, "%s has a stride of %lld elements along dimension %u; it must be 0 to %s", tensor->name,
                     (long long)tensor->strides[from], from, limit_text(below, text));
    bytes = (uint64_t)tensor->strides[from] * tensor->element_bytes;
    /* Along a dimension with one index no step is ever taken. */
    if (dims[at] == 1) bytes = ((bytes < below - unit ? bytes : below - unit) + unit - 1) / unit * unit;
    if (bytes % unit || bytes >= below)
      return tk_fail(kernel, TK_ERROR_VALUE, "%s has a stride of %llu bytes along dimension %u; a tensor map wants a multiple of %llu below %s",
                     tensor->name, (unsigned long long)bytes, from, (unsigned long long)unit, limit_text(below, text));
    strides[at - 1] = bytes;
  }
  /* The driver writes a map at a multiple of 64 bytes. */
  aligned = (unsigned char *)room + (64 - (uintptr_t)room % 64) % 64;
  FUNCTION(module, ENCODE, encode);
  if (tensor->has_window)
    code = encode_im2col(module, kernel, tensor, dims, strides, steps, aligned);
  else code = check(module, kernel, "cuTensorMapEncodeTiled",
               encode(aligned, tensor->data_type, tensor->rank, (void *)(uintptr_t)tensor->address, dims, strides, box, steps, 0,
                      tensor->swizzle, L2_128B, 0));
  if (!code) memcpy(map, aligned, TK_MAP_BYTES);
  return code;
}

int64_t tk_add(int *bad, int64_t a, int64_t b) {
  if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) { *bad = 1; return 0; }
  return a + b;
}

int64_t tk_sub(int *bad, int64_t a, int64_t b) {
  if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) { *bad = 1; return 0; }
  return a - b;
}

int64_t tk_mul(int *bad, int64_t a, int64_t b) {
  /* Sizes are not negative; a product that may be is left to numbers that are small. */
  int64_t most = INT64_MAX;
  int small = a > -2147483647 && a < 2147483647 && b > -2147483647 && b < 2147483647;
  if (!small && (a < 0 || b < 0 || (b != 0 && a > most / b))) { *bad = 1; return 0; }
  return a * b;
}

int64_t tk_div(int *bad, int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) { *bad = 1; return 0; }
  return a / b;
}

int64_t tk_rem(int *bad, int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) { *bad = 1; return 0; }
  return a % b;
}

int64_t tk_cdiv(int *bad, int64_t a, int64_t b) {
  if (a < 0 || b <= 0) { *bad = 1; return 0; }
  return a / b + (a % b != 0);
}

int64_t tk_min(int *bad, int64_t a, int64_t b) { (void)bad; return a < b ? a : b; }
int64_t tk_max(int *bad, int64_t a, int64_t b) { (void)bad; return a > b ? a : b; }

/* Beyond 63 bits a cast would make it negative. */
int64_t tk_unsigned(int *bad, uint64_t a) {
  if (a > INT64_MAX) { *bad = 1; return 0; }
  return (int64_t)a;
}
