/* What exported kernels share: loading, launching and the text of errors. C99; no CUDA toolkit, the driver is opened at run time. */
#ifndef TILEKIT_H
#define TILEKIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return beside 0 and the positive codes of the driver (CUresult). */
#define TK_ERROR_VALUE (-1)     /* an argument does not fit the kernel's signature */
#define TK_ERROR_NO_DRIVER (-2) /* there is no NVIDIA driver, or an old one, or it sees no GPU */
#define TK_ERROR_MACHINE (-3)   /* the GPU cannot run the kernel */

/* For `device`: the context that is current in the calling thread, in place of the primary context of a GPU. */
#define TK_CURRENT_CONTEXT (-1)

/* For a stride: no elements from one index to the next, so that all have the same. 0 stands for a tensor without gaps. */
#define TK_STRIDE_ZERO INT64_MIN

/* What the last function that failed in this thread says: kernel, argument, found, expected. */
const char *tk_error_text(void);

/* What follows is for the files of the kernels. */

enum { TK_SYMBOLS = 21, TK_MAP_BYTES = 128 };

typedef struct tk_module {
  void *symbols[TK_SYMBOLS];
  void *library;
  void *context;
  void *module;
  void *function;
  int device;
  int owns_context;
  int64_t multiprocessors;
} tk_module;

/* What machines of the kernel's architecture allow. */
typedef struct tk_limits {
  int64_t grid[3];              /* CTAs */
  int64_t map_elements;         /* of a tensor along a dimension */
  uint64_t map_unit_bytes;      /* addresses and strides are multiples of it */
  uint64_t map_stride_bytes;    /* strides are below it */
  int64_t map_box_elements;     /* that a box reaches over along a dimension */
  int64_t map_step;             /* from one element that is taken to the next */
} tk_limits;

typedef struct tk_kernel {
  const char *signature;
  const char *entry;
  const char *arch;
  const unsigned char *cubin;
  int capability;
  uint32_t threads;
  uint32_t cluster[3];
  uint32_t shared_bytes;
  int is_cooperative;
  tk_limits limits;
} tk_kernel;

typedef struct tk_tensor {
  const char *name;
  uint64_t address;
  uint32_t rank;
  int64_t shape[5];   /* the innermost last */
  int64_t strides[5]; /* elements */
  uint32_t box[5]; /* or pixels and channels, where there is a window */
  uint32_t data_type; /* CUtensorMapDataType */
  uint32_t element_bytes;
  uint32_t swizzle; /* CUtensorMapSwizzle */
  int64_t steps[5];
  /* Of maps of pixels (im2col), along the dimensions between batch and channels. */
  int has_window;
  int64_t corners[2][3]; /* lower and upper */
  int64_t corner_range[2];
} tk_tensor;

int tk_load(tk_module *module, const tk_kernel *kernel, int device);
int tk_unload(tk_module *module, const tk_kernel *kernel);
int tk_launch(const tk_module *module, const tk_kernel *kernel, const int64_t grid[3], void *stream, int overlaps_previous, void **parameters);
int tk_tensor_map(const tk_module *module, const tk_kernel *kernel, const tk_tensor *tensor, uint64_t map[TK_MAP_BYTES / 8]);
int tk_check_places(const tk_kernel *kernel, const char *name, uint32_t rank, const int64_t *shape, const int64_t *strides);
int tk_fail(const tk_kernel *kernel, int code, const char *format, ...);

/* Arithmetic that sets `*bad` where a result has more than 64 bits or is not defined. */
int64_t tk_add(int *bad, int64_t a, int64_t b);
int64_t tk_sub(int *bad, int64_t a, int64_t b);
int64_t tk_mul(int *bad, int64_t a, int64_t b);
int64_t tk_div(int *bad, int64_t a, int64_t b);
int64_t tk_rem(int *bad, int64_t a, int64_t b);
int64_t tk_cdiv(int *bad, int64_t a, int64_t b);
int64_t tk_min(int *bad, int64_t a, int64_t b);
int64_t tk_max(int *bad, int64_t a, int64_t b);
int64_t tk_unsigned(int *bad, uint64_t a);

#ifdef __cplusplus
}
#endif
#endif
