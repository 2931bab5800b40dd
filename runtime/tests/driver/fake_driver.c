/* The stand-in for libcuda.so.1 with what the runtime asks beyond launching: memory, which is the host's, streams and events, on which
 * everything has ended at once, and graphs, which are empty. */
#include "../../../launch/tests/fake_driver.c"
#include <unistd.h>

static int streams[4], stream_count, capturing, events[1], graphs[2];

static int is_stream(const void *stream) { return stream >= (void *)&streams[0] && stream <= (void *)&streams[3]; }

/* A line of a call with a stream, by its number in the order of creation. */
static unsigned on_stream(const char *call, const void *stream) {
  FILE *log = begin(call);
  fprintf(log, " on %d", (int)((const int *)stream - streams));
  return end(log);
}

unsigned cuDeviceGetPCIBusId(char *bus, int size, int device) { snprintf(bus, size, "0000:%02x:00.0", device); return 0; }
unsigned cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = (size_t)1 << 32; return 0; }
unsigned cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { *free_bytes = (size_t)1 << 31; *total = (size_t)1 << 32; return 0; }
unsigned cuDeviceCanAccessPeer(int *can, int device, int peer) { *can = device != peer && number("TILEKIT_FAKE_PEERS", 1); return 0; }
/* CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: as if another library had done so. */
unsigned cuCtxEnablePeerAccess(void *context, unsigned flags) {
  FILE *log = begin("peer");
  fprintf(log, " %s", context_name(context));
  end(log);
  return flags ? 1 : 704;
}
unsigned cuCtxSynchronize(void) { return 0; }
/* CUDA_ERROR_OUT_OF_MEMORY beyond what is free. */
unsigned cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  void *memory = NULL;
  if (bytes > (size_t)1 << 31 || posix_memalign(&memory, 256, bytes)) return 2;
  *address = (uint64_t)(uintptr_t)memory;
  return 0;
}
unsigned cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); return end(begin("free")); }
unsigned cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) { return is_stream(stream) ? cuMemAlloc_v2(address, bytes) : 400; }
unsigned cuMemFreeAsync(uint64_t address, void *stream) { free((void *)(uintptr_t)address); return is_stream(stream) ? end(begin("free in order")) : 400; }
unsigned cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags) { return flags == 1 ? cuMemAlloc_v2(address, bytes) : 1; }
/* No process imports. */
unsigned cuMemGetAllocationGranularity(size_t *bytes, const void *properties, unsigned option) { (void)properties; *bytes = 4096; return option; }
unsigned cuMemCreate(uint64_t *handle, size_t bytes, const int *properties, unsigned long long flags) {
  *handle = 77;
  return properties[0] == 1 && properties[1] == 1 && properties[2] == 1 && bytes % 4096 == 0 && !flags ? end(begin("create")) : 1;
}
unsigned cuMemRelease(uint64_t handle) { return handle == 77 ? end(begin("give back")) : 1; }
unsigned cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t at, unsigned long long flags) {
  return alignment || at || flags ? 1 : cuMemAlloc_v2(address, bytes);
}
unsigned cuMemAddressFree(uint64_t address, size_t bytes) { (void)bytes; free((void *)(uintptr_t)address); return 0; }
unsigned cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
  return address && bytes && !offset && handle == 77 && !flags ? end(begin("map")) : 1;
}
unsigned cuMemUnmap(uint64_t address, size_t bytes) { return address && bytes ? end(begin("unmap")) : 1; }
unsigned cuMemSetAccess(uint64_t address, size_t bytes, const int *access, size_t count) {
  return address && bytes && access[0] == 1 && access[2] == 3 && count == 1 ? 0 : 1;
}
unsigned cuMemExportToShareableHandle(int *exported, uint64_t handle, unsigned kind, unsigned long long flags) {
  (void)exported; (void)handle; (void)kind; (void)flags;
  return 801;
}
unsigned cuMemImportFromShareableHandle(uint64_t *handle, void *exported, unsigned kind) { (void)handle; (void)exported; (void)kind; return 801; }
unsigned cuMemPrefetchAsync(uint64_t address, size_t bytes, int place, void *stream) {
  FILE *log = begin("prefetch");
  fprintf(log, " %zu to %d", bytes, place);
  end(log);
  return address && is_stream(stream) ? 0 : 1;
}
unsigned cuMemAdvise(uint64_t address, size_t bytes, unsigned advice, int place) {
  FILE *log = begin("advise");
  fprintf(log, " %zu %u %d", bytes, advice, place);
  end(log);
  return address ? 0 : 1;
}
unsigned cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  uint64_t address = 0;
  unsigned code = flags == 3 ? cuMemAlloc_v2(&address, bytes) : 1;
  *memory = (void *)(uintptr_t)address;
  return code;
}
unsigned cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags) { *address = (uint64_t)(uintptr_t)memory; return flags; }
unsigned cuMemFreeHost(void *memory) { free(memory); return 0; }
unsigned cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { memcpy((void *)(uintptr_t)to, from, bytes); return 0; }
unsigned cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { memcpy(to, (const void *)(uintptr_t)from, bytes); return 0; }
unsigned cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) { (void)stream; return cuMemcpyHtoD_v2(to, from, bytes); }
unsigned cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) { (void)stream; return cuMemcpyDtoH_v2(to, from, bytes); }
unsigned cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  (void)stream;
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return 0;
}
unsigned cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) { (void)stream; memset((void *)(uintptr_t)to, byte, bytes); return 0; }
unsigned cuStreamCreate(void **stream, unsigned flags) { *stream = &streams[stream_count++ % 4]; return flags == 1 ? 0 : 1; }
unsigned cuStreamDestroy_v2(void *stream) { return is_stream(stream) ? 0 : 400; }
/* $TILEKIT_FAKE_BUSY are milliseconds for which the GPU is at work whenever somebody waits for it. */
unsigned cuStreamSynchronize(void *stream) { (void)stream; usleep(1000 * number("TILEKIT_FAKE_BUSY", 0)); return number("TILEKIT_FAKE_SYNCHRONIZE", 0); }
unsigned cuStreamQuery(void *stream) { (void)stream; return number("TILEKIT_FAKE_SYNCHRONIZE", 0); }
unsigned cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return is_stream(stream) && event == &events[0] ? flags : 400; }
unsigned cuStreamBeginCapture_v2(void *stream, unsigned mode) { capturing += mode == 1; return mode == 1 ? on_stream("capture", stream) : 1; }
unsigned cuStreamEndCapture(void *stream, void **graph) { *graph = &graphs[0]; capturing--; return on_stream("captured", stream); }
unsigned cuEventCreate(void **event, unsigned flags) { *event = &events[0]; return flags; }
unsigned cuEventDestroy_v2(void *event) { return event == &events[0] ? 0 : 400; }
unsigned cuEventRecord(void *event, void *stream) { return is_stream(stream) && event == &events[0] ? 0 : 400; }
unsigned cuEventSynchronize(void *event) { return event == &events[0] ? 0 : 400; }
unsigned cuEventElapsedTime(float *milliseconds, void *from, void *to) { *milliseconds = 0.5f; return from && to ? 0 : 400; }
unsigned cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
  *executable = &graphs[1];
  return graph == &graphs[0] && !flags && !capturing ? end(begin("instantiate")) : 900;
}
/* One edge, which is programmatic: from_port, to_port, type, reserved. */
unsigned cuGraphGetEdges_v2(void *graph, void **from, void **to, unsigned char (*data)[8], size_t *count) {
  static const unsigned char edge[8] = {1, 0, 1};
  if (graph != &graphs[0]) return 400;
  if (from && to && data && *count >= 1) { from[0] = to[0] = &graphs[0]; memcpy(data[0], edge, sizeof edge); }
  *count = 1;
  return 0;
}
unsigned cuGraphLaunch(void *executable, void *stream) { return executable == &graphs[1] && is_stream(stream) ? on_stream("replay", stream) : 400; }
unsigned cuGraphDestroy(void *graph) { return graph == &graphs[0] ? 0 : 400; }
unsigned cuGraphExecDestroy(void *executable) { return executable == &graphs[1] ? 0 : 400; }
unsigned cuFuncGetAttribute(int *value, unsigned attribute, void *function) {
  (void)function;
  *value = attribute == 0 ? 1024 : attribute == 4 ? 40 : 0;
  return 0;
}
unsigned cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes) {
  const char *sizes = parameters_of(function);
  *offset = 0;
  for (; sizes && *sizes; sizes += *sizes == ',') {
    *bytes = (size_t)strtol(sizes, (char **)&sizes, 10);
    if (index-- == 0) return 0;
  }
  return 1;
}
