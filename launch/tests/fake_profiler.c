/* A stand-in for a profiler's library, as NVTX_INJECTION64_PATH names one: it takes ranges and marks of a domain, and writes them to the file
 * $TILEKIT_FAKE_LOG, a line a call. $TILEKIT_FAKE_NVTX=refuse makes its initialisation fail, $TILEKIT_FAKE_NVTX=marks leaves ranges alone.
 * What it checks of the process it checks by aborting. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char *message;
} event;
typedef struct { size_t size; int (*table)(unsigned module, void ****table, unsigned *entries); } callbacks;
typedef struct { size_t size; uint32_t version, reserved; void (*set)(uint32_t); } versions;

static int domain;

static void say(const char *call, const char *text) {
  const char *path = getenv("TILEKIT_FAKE_LOG");
  FILE *log = fopen(path ? path : "/dev/null", "a");
  if (!log) abort();
  fprintf(log, "%s%s%s\n", call, *text ? " " : "", text);
  fclose(log);
}

static const char *name_of(void *of, const event *e) {
  if (of != &domain || e->version != 3 || e->size != sizeof(event) || e->message_type != 1) abort();
  return e->message;
}

static void *create(const char *name) { say("domain", name); return &domain; }
static void mark(void *of, const event *e) { say("mark", name_of(of, e)); }
static int push(void *of, const event *e) { say("push", name_of(of, e)); return 0; }
static int pop(void *of) { if (of != &domain) abort(); say("pop", ""); return 0; }

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
  static const unsigned entries[] = {0, 16, 9, 15, 7, 16, 7};
  const callbacks *c = export_table(1);
  const versions *v = export_table(3);
  const char *asked = getenv("TILEKIT_FAKE_NVTX");
  void ***table = 0;
  unsigned count = 0, module, i;
  if (!c || c->size != sizeof *c || !v || v->size != sizeof *v || v->version != 3 || export_table(2) || export_table(99)) abort();
  v->set(3);
  if (c->table(0, &table, &count) || c->table(7, &table, &count)) abort();
  /* Every module has an entry of each number and a null at its end. */
  for (module = 1; module < 7; module++) {
    if (!c->table(module, &table, &count) || count != entries[module] || table[0] || table[count]) abort();
    for (i = 1; i < count; i++) if (!table[i] || *table[i]) abort();
  }
  if (!c->table(5, &table, 0)) abort();
  *table[12] = create;
  *table[1] = mark;
  if (!asked || strcmp(asked, "marks")) { *table[4] = push; *table[5] = pop; }
  return !asked || strcmp(asked, "refuse");
}
