/* The stand-in for libcuda.so.1 of tilekit-launch, with what cudarc asks beside: memory, streams and events, of which it only writes what is asked.
 * Memory of the device is memory of the host. */
#include "../../tests/fake_driver.c"

unsigned cuMemAlloc_v2(uint64_t *address, size_t bytes) { *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256); return *address ? 0 : 2; }
unsigned cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); return 0; }
unsigned cuMemsetD8Async(uint64_t address, unsigned char byte, size_t bytes, void *stream) { (void)stream; memset((void *)(uintptr_t)address, byte, bytes); return 0; }
unsigned cuMemcpyHtoDAsync_v2(uint64_t address, const void *host, size_t bytes, void *stream) { (void)stream; memcpy((void *)(uintptr_t)address, host, bytes); return 0; }
unsigned cuCtxSynchronize(void) { return 0; }
unsigned cuStreamSynchronize(void *stream) { (void)stream; return 0; }
unsigned cuStreamCreate(void **stream, unsigned flags) {
  static uintptr_t next = 0x50;
  (void)flags;
  *stream = (void *)next++;
  return 0;
}
unsigned cuStreamDestroy_v2(void *stream) {
  FILE *log = begin("destroy");
  fprintf(log, " %p", stream);
  return end(log);
}
unsigned cuEventCreate(void **event, unsigned flags) {
  static uintptr_t next = 0xe0;
  (void)flags;
  *event = (void *)next++;
  return 0;
}
unsigned cuEventDestroy_v2(void *event) { (void)event; return 0; }
unsigned cuEventRecord(void *event, void *stream) {
  FILE *log = begin("record");
  fprintf(log, " %p on %p", event, stream);
  return end(log);
}
unsigned cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  FILE *log = begin("wait");
  (void)flags;
  fprintf(log, " %p on %p", event, stream);
  return end(log);
}
/* A context that is not the primary one. */
unsigned cuCtxCreate_v4(void **context, void *parameters, unsigned flags, int device) {
  (void)parameters; (void)flags; (void)device;
  *context = current = &contexts[1];
  return 0;
}
unsigned cuCtxDestroy_v2(void *context) { (void)context; return 0; }
