/* A stand-in for libcupti.so.13: it counts nothing, and says numbers that it makes of the names. Everything takes two passes. It refuses parameters of
 * another size than those of CUPTI 13.0, calls in another order than CUPTI wants, and all counting where $TILEKIT_FAKE_REFUSE is set, as the driver does
 * where only administrators may count. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 2, NOT_INITIALIZED = 15, INVALID_OPERATION = 7, INVALID_PARAMETER = 1, INSUFFICIENT_PRIVILEGES = 35 };

typedef struct { size_t bytes; void *private; } nothing;
typedef struct { size_t bytes; void *private; size_t ordinal; const char *name; } chip_name;
typedef struct { size_t bytes; void *private; void *context; size_t image_bytes; uint8_t *image; } availability;
typedef struct { size_t bytes; void *private; int kind; const char *chip; const uint8_t *image; void *object; } host_initialize;
typedef struct { size_t bytes; void *private; void *object; } with_object;
typedef struct { size_t bytes; void *private; void *object; const char **names; size_t count; } add_metrics;
typedef struct { size_t bytes; void *private; void *object; size_t size; } size_of_config;
typedef struct { size_t bytes; void *private; void *object; size_t size; uint8_t *image; } config_image;
typedef struct { size_t bytes; void *private; size_t size; uint8_t *image; size_t passes; } passes;
typedef struct { size_t bytes; void *private; void *object; const uint8_t *image; size_t size, range; const char **names; size_t count; double *values; } evaluate;
typedef struct { size_t bytes; void *private; void *context; void *object; } enable;
typedef struct { size_t bytes; void *private; void *object; const char **names; size_t count, ranges; uint32_t nodes; size_t size; } size_of_image;
typedef struct {
  size_t bytes; void *private; void *object; size_t config_size; const uint8_t *config; size_t size; uint8_t *image; int range, replay; size_t ranges;
  uint16_t levels, least_level; size_t pass; uint16_t level;
} set_config;
typedef struct { size_t bytes; void *private; void *object; size_t pass, level; uint8_t is_all; } stop;
typedef struct { size_t bytes; void *private; void *object; size_t dropped; } decode;
typedef struct { size_t bytes; void *private; const uint8_t *image; size_t size, ranges; } image_info;

static int is_initialized, is_enabled, is_started, pass, sessions;

#define CHECK(condition, code) do { if (!(condition)) return code; } while (0)

int cuptiGetResultString(int code, const char **text) {
  *text = code == INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : code == INVALID_PARAMETER ? "CUPTI_ERROR_INVALID_PARAMETER" : "CUPTI_ERROR";
  return 0;
}
int cuptiProfilerInitialize(nothing *p) { CHECK(p->bytes == 16, INVALID_PARAMETER); is_initialized = 1; return 0; }
int cuptiProfilerDeInitialize(nothing *p) { CHECK(p->bytes == 16 && is_initialized && !is_enabled, INVALID_PARAMETER); is_initialized = 0; return 0; }
int cuptiDeviceGetChipName(chip_name *p) { CHECK(p->bytes == 32 && p->ordinal == 0, INVALID_PARAMETER); p->name = "GH100"; return 0; }
int cuptiProfilerGetCounterAvailability(availability *p) {
  CHECK(p->bytes == 40 && p->context, INVALID_PARAMETER);
  CHECK(is_initialized, NOT_INITIALIZED);
  CHECK(!getenv("TILEKIT_FAKE_REFUSE"), INSUFFICIENT_PRIVILEGES);
  if (p->image) memset(p->image, 1, p->image_bytes); else p->image_bytes = 64;
  return 0;
}
int cuptiProfilerHostInitialize(host_initialize *p) {
  CHECK(p->bytes == 48 && p->kind == 0 && !strcmp(p->chip, "GH100") && p->image, INVALID_PARAMETER);
  p->object = calloc(1, sizeof(size_t));
  return 0;
}
int cuptiProfilerHostDeinitialize(with_object *p) { CHECK(p->bytes == 24 && p->object, INVALID_PARAMETER); free(p->object); return 0; }
/* As if this chip had no counter of DRAM's use. */
int cuptiProfilerHostConfigAddMetrics(add_metrics *p) {
  CHECK(p->bytes == 40 && p->object, INVALID_PARAMETER);
  for (size_t i = 0; i < p->count; i++) CHECK(strncmp(p->names[i], "dram__throughput", 16), INVALID_PARAMETER);
  *(size_t *)p->object += p->count;
  return 0;
}
int cuptiProfilerHostGetConfigImageSize(size_of_config *p) { CHECK(p->bytes == 32, INVALID_PARAMETER); p->size = 16 + *(size_t *)p->object; return 0; }
int cuptiProfilerHostGetConfigImage(config_image *p) {
  CHECK(p->bytes == 40 && p->size == 16 + *(size_t *)p->object && p->image, INVALID_PARAMETER);
  memset(p->image, 2, p->size);
  return 0;
}
int cuptiProfilerHostGetNumOfPasses(passes *p) { CHECK(p->bytes == 40 && p->image[0] == 2, INVALID_PARAMETER); p->passes = PASSES; return 0; }
/* A million bytes are read and two million written; shares are 25 %, stalls by wgmma 50 %; everything else is as long as its name. Every second
 * session has ten times as much of each. */
static double value(const char *name) {
  if (strstr(name, "dram__bytes_read")) return 1e6;
  if (strstr(name, "dram__bytes_write")) return 2e6;
  if (strstr(name, "stalled_gmma")) return 50;
  if (strstr(name, "pct")) return strstr(name, "stalled") ? 0 : 25;
  return (double)strlen(name);
}
int cuptiProfilerHostEvaluateToGpuValues(evaluate *p) {
  CHECK(p->bytes == 72 && p->object && p->image[0] == 4 && p->range == 0, INVALID_PARAMETER);
  for (size_t i = 0; i < p->count; i++) p->values[i] = value(p->names[i]) * (sessions % 2 ? 1 : 10);
  return 0;
}
int cuptiRangeProfilerEnable(enable *p) {
  CHECK(p->bytes == 32 && p->context, INVALID_PARAMETER);
  CHECK(is_initialized && !is_enabled, INVALID_OPERATION);
  is_enabled = 1;
  sessions++;
  p->object = &is_enabled;
  return 0;
}
int cuptiRangeProfilerDisable(with_object *p) { CHECK(p->bytes == 24 && p->object == &is_enabled && is_enabled && !is_started, INVALID_OPERATION); is_enabled = 0; return 0; }
int cuptiRangeProfilerGetCounterDataSize(size_of_image *p) {
  CHECK(p->bytes == 64 && p->object == &is_enabled && p->nodes >= p->ranges && p->count, INVALID_PARAMETER);
  p->size = 32 * p->ranges;
  return 0;
}
int cuptiRangeProfilerCounterDataImageInitialize(config_image *p) { CHECK(p->bytes == 40 && p->size && p->image, INVALID_PARAMETER); memset(p->image, 3, p->size); return 0; }
static uint8_t *image;
int cuptiRangeProfilerSetConfig(set_config *p) {
  CHECK(p->bytes == 90 && p->object == &is_enabled && p->config[0] == 2 && p->image[0] == 3, INVALID_PARAMETER);
  CHECK(p->range == 1 && p->replay == 3 && p->ranges && p->levels == 1 && p->least_level == 1 && p->level == 1, INVALID_PARAMETER);
  image = p->image;
  pass = 0;
  return 0;
}
int cuptiRangeProfilerStart(with_object *p) { CHECK(p->bytes == 24 && is_enabled && !is_started, INVALID_OPERATION); is_started = 1; return 0; }
int cuptiRangeProfilerStop(stop *p) {
  CHECK(p->bytes == 41 && is_started, INVALID_OPERATION);
  is_started = 0;
  p->is_all = ++pass == PASSES;
  return 0;
}
int cuptiRangeProfilerDecodeData(decode *p) { CHECK(p->bytes == 32 && !is_started && pass == PASSES, INVALID_OPERATION); image[0] = 4; return 0; }
int cuptiRangeProfilerGetCounterDataInfo(image_info *p) { CHECK(p->bytes == 40 && p->image[0] == 4, INVALID_PARAMETER); p->ranges = 1; return 0; }

/* Samples of program counters: two of `wait` at the first instruction, which issues five times as well, and six of `gmma` at the second. */
typedef struct { uint32_t index, samples; } reason;
typedef struct { size_t bytes; uint64_t crc, offset; uint32_t function, pad; char *name; size_t count; reason *reasons; uint32_t correlation; } place;
typedef struct { size_t bytes, most; uint64_t total, dropped; size_t count, remaining; uint64_t range; place *places; uint64_t others; uint8_t full; } samples;
typedef struct { int kind, status; uint64_t data[3]; } sampling_attribute;
typedef struct { size_t bytes; void *private; void *context; size_t count; sampling_attribute *attributes; } configure;
typedef struct { size_t bytes; void *private; void *context; samples *data; } get_data;
typedef struct { size_t bytes; void *private; void *context; size_t *count; } stall_count;
typedef struct { size_t bytes; void *private; void *context; size_t count; uint32_t *indices; char **names; } stall_names;
typedef struct { size_t bytes; const char *cubin, *entry; size_t size; uint32_t line; uint64_t offset; char *file, *folder; } source_line;

static int is_sampling, is_sampled, is_taken, is_configured;
static const char *const REASONS[] = {"smsp__pcsamp_warps_issue_stalled_wait", "smsp__pcsamp_warps_issue_stalled_gmma", "smsp__pcsamp_warps_issue_stalled_selected"};

int cuptiPCSamplingEnable(with_object *p) { CHECK(p->bytes == 24 && p->object && !is_initialized, INVALID_OPERATION); is_sampling = 1; return 0; }
int cuptiPCSamplingDisable(with_object *p) { CHECK(p->bytes == 24 && is_sampling, INVALID_OPERATION); is_sampling = is_configured = is_sampled = is_taken = 0; return 0; }
int cuptiPCSamplingGetNumStallReasons(stall_count *p) { CHECK(p->bytes == 32 && is_sampling, INVALID_OPERATION); *p->count = 3; return 0; }
int cuptiPCSamplingGetStallReasons(stall_names *p) {
  CHECK(p->bytes == 48 && is_sampling && p->count == 3, INVALID_PARAMETER);
  for (uint32_t i = 0; i < 3; i++) { p->indices[i] = 10 + i; strcpy(p->names[i], REASONS[i]); }
  return 0;
}
int cuptiPCSamplingSetConfigurationAttribute(configure *p) {
  CHECK(p->bytes == 40 && is_sampling && p->count == 3, INVALID_PARAMETER);
  const sampling_attribute *a = p->attributes;
  CHECK(a[0].kind == 5 && a[0].data[0] == 1 && a[1].kind == 6 && a[1].data[0] == 1 && a[2].kind == 8, INVALID_PARAMETER);
  const samples *kept = (const samples *)(uintptr_t)a[2].data[0];
  CHECK(kept->bytes == 80 && kept->most && kept->places[kept->most - 1].bytes == 64, INVALID_PARAMETER);
  is_configured = 1;
  return 0;
}
int cuptiPCSamplingStart(with_object *p) { CHECK(p->bytes == 24 && is_configured && !is_sampled, INVALID_OPERATION); is_sampled = 1; return 0; }
int cuptiPCSamplingStop(with_object *p) { CHECK(p->bytes == 24 && is_sampled, INVALID_OPERATION); return 0; }
int cuptiPCSamplingGetData(get_data *p) {
  CHECK(p->bytes == 32 && p->data->bytes == 80 && is_sampled, INVALID_OPERATION);
  p->data->count = is_taken ? 0 : 2;
  is_taken = 1;
  for (size_t i = 0; i < p->data->count; i++) {
    place *to = &p->data->places[i];
    to->offset = 16 * i;
    to->name = "sampled";
    to->count = i ? 1 : 2;
    to->reasons[0] = i ? (reason){11, 6} : (reason){10, 2};
    if (!i) to->reasons[1] = (reason){12, 5};
  }
  return 0;
}
/* The first instruction is of line 6, the second of line 7. */
int cuptiGetSassToSourceCorrelation(source_line *p) {
  CHECK(p->bytes == 64 && p->size >= 4 && !memcmp(p->cubin, "\177ELF", 4) && !strcmp(p->entry, "sampled"), INVALID_PARAMETER);
  p->line = 6 + p->offset / 16;
  p->file = strdup("lib.rs");
  p->folder = strdup("src");
  return 0;
}
