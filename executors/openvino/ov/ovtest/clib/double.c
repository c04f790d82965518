// A double of the OpenVINO C library for tests: just enough of the C API, a
// model that adds one, and a few ways to go wrong. Built by double.go, which
// explains the switches. It keeps count of what it handed out and ends the
// process when something is freed twice or in the wrong order.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BUILD
#define BUILD "2026.4.1-0-double"
#endif
#ifndef SHIFT // of element types: 0 since 2026, 1 before
#define SHIFT 0
#endif
#ifndef NPU
#define NPU 0
#endif

typedef struct { char *build, *desc; } version_t;
typedef struct { char *device; version_t version; } core_version_t;
typedef struct { core_version_t *versions; size_t n; } core_versions_t;
typedef struct { char **names; size_t n; } devices_t;
typedef struct { int64_t rank; int64_t *dims; } shape_t;
typedef struct { int64_t min, max; } dim_t;
typedef struct { dim_t rank; dim_t *dims; } partial_t;

#define MAXPORTS 8
#define MAXRANK 8

typedef struct {
	char name[64];
	int type; // as in 2026
	int64_t rank, dims[MAXRANK]; // -1 open
} port_t;

enum { CORE = 0x11, MODEL, COMPILED, REQUEST, TENSOR, PORT, KINDS };
typedef struct { int kind; } object_t;
typedef struct { object_t o; } core_t;
typedef struct { object_t o; int nin, nout; port_t in[MAXPORTS], out[MAXPORTS]; } model_t;
typedef struct { object_t o; model_t m; char device[32]; } compiled_t;
typedef struct { object_t o; int type; int64_t rank, dims[MAXRANK]; size_t size; void *data; int refs; } tensor_t;
typedef struct { object_t o; compiled_t *c; tensor_t *in[MAXPORTS]; bool running, cancelled; } request_t;
typedef struct { object_t o; port_t p; } portobj_t;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int live[KINDS];
static char last[256] = "";

static char own_dir[1024];

static void find_dir(void) {
	Dl_info info;
	if (!dladdr((void *)&live, &info)) abort();
	snprintf(own_dir, sizeof own_dir, "%s", info.dli_fname);
	*strrchr(own_dir, '/') = 0;
}

static const char *dir(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_dir);
	return own_dir;
}

static bool is_set(const char *flag) {
	char path[1100];
	snprintf(path, sizeof path, "%s/%s", dir(), flag);
	return access(path, F_OK) == 0;
}

static void note(const char *format, ...) {
	char path[1100];
	snprintf(path, sizeof path, "%s/log", dir());
	FILE *f = fopen(path, "a");
	if (!f) return;
	va_list args;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fputc('\n', f);
	fclose(f);
}

static int fail(const char *text) {
	pthread_mutex_lock(&mu);
	snprintf(last, sizeof last, "Exception from src/double.c:1:\n%s\n", text);
	pthread_mutex_unlock(&mu);
	return -1;
}

static void wait_while(const char *flag, const char *said) {
	if (is_set(flag)) note("%s", said);
	while (is_set(flag)) usleep(2000);
}

static void *make(size_t size, int kind) {
	object_t *o = calloc(1, size);
	o->kind = kind;
	__sync_fetch_and_add(&live[kind], 1);
	return o;
}

static void check(void *p, int kind) {
	if (!p || ((object_t *)p)->kind != kind) {
		note("wrong object: wanted %d", kind);
		abort();
	}
}

static void drop(void *p, int kind) {
	check(p, kind);
	((object_t *)p)->kind = 0;
	__sync_fetch_and_sub(&live[kind], 1);
	// The memory is kept, so that a second free is seen for sure.
}

static const struct { const char *name; int type, size; } types[] = {
	{"bool", 1, 1}, {"bf16", 2, 2}, {"f16", 3, 2}, {"f32", 4, 4}, {"f64", 5, 8}, {"i8", 7, 1}, {"i16", 8, 2},
	{"i32", 9, 4}, {"i64", 10, 8}, {"u4", 14, 1}, {"u8", 16, 1}, {"u16", 17, 2}, {"u32", 18, 4}, {"u64", 19, 8},
};

static int type_size(int type) {
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == type) return types[i].size;
	return 0;
}

// ---- common

int ov_get_openvino_version(version_t *v) { v->build = strdup(BUILD); v->desc = strdup("double"); return 0; }
void ov_version_free(version_t *v) { free(v->build); free(v->desc); }
char *ov_get_last_err_msg(void) {
	pthread_mutex_lock(&mu);
	char *s = strdup(last);
	pthread_mutex_unlock(&mu);
	return s;
}
void ov_free(const char *s) { free((void *)s); }

// ---- core

int ov_core_create(core_t **out) { *out = make(sizeof **out, CORE); return 0; }
void ov_core_free(core_t *c) {
	drop(c, CORE);
	note("core freed: %d models, %d compiled, %d requests, %d tensors, %d ports left",
		live[MODEL], live[COMPILED], live[REQUEST], live[TENSOR], live[PORT]);
}
int ov_core_get_versions_by_device_name(core_t *c, const char *device, core_versions_t *out) {
	check(c, CORE);
	if (is_set("no-cpu")) return fail("Cannot load library libopenvino_intel_cpu_plugin.so");
	out->versions = calloc(1, sizeof *out->versions);
	out->n = 1;
	(void)device;
	return 0;
}
void ov_core_versions_free(core_versions_t *l) { free(l->versions); }
int ov_core_get_available_devices(core_t *c, devices_t *out) {
	check(c, CORE);
	out->names = calloc(2, sizeof(char *));
	out->names[0] = strdup("CPU");
	out->n = 1;
	if (NPU) out->names[out->n++] = strdup("NPU");
	return 0;
}
void ov_available_devices_free(devices_t *l) {
	for (size_t i = 0; i < l->n; i++) free(l->names[i]);
	free(l->names);
}
int ov_core_get_property(core_t *c, const char *device, const char *key, char **out) {
	check(c, CORE);
	bool npu = strcmp(device, "NPU") == 0;
	if (strcmp(key, "AVAILABLE_DEVICES") == 0) *out = strdup(npu ? (NPU ? "3720" : "") : "");
	else if (npu && NPU && strcmp(key, "NPU_DRIVER_VERSION") == 0) *out = strdup("1688");
	else if (strcmp(key, "FULL_DEVICE_NAME") == 0) *out = strdup("Double");
	else return fail("Unsupported property");
	return 0;
}
int ov_core_set_property(core_t *c, const char *device, const char *key, const char *value) {
	check(c, CORE);
	note("set %s %s=%s", device, key, value);
	return 0;
}

// ---- models: a file of lines "in NAME TYPE 1,4" and "out NAME TYPE ?,4"

static int parse(const char *path, model_t *m) {
	FILE *f = fopen(path, "r");
	if (!f) return fail("Could not open the file");
	char line[256];
	while (fgets(line, sizeof line, f)) {
		char way[8], name[64], type[16], dims[128] = "";
		int n = sscanf(line, "%7s %63s %15s %127s", way, name, type, dims);
		bool in = strcmp(way, "in") == 0;
		if (n < 3 || (!in && strcmp(way, "out") != 0)) { fclose(f); return fail("Unable to read the model"); }
		port_t *p = in ? &m->in[m->nin++] : &m->out[m->nout++];
		snprintf(p->name, sizeof p->name, "%s", name);
		for (size_t i = 0; i < sizeof types / sizeof *types; i++)
			if (strcmp(type, types[i].name) == 0) p->type = types[i].type;
		char *save = NULL;
		for (char *d = strtok_r(dims, ",", &save); d && p->rank < MAXRANK; d = strtok_r(NULL, ",", &save))
			p->dims[p->rank++] = *d == '?' ? -1 : atoll(d);
	}
	fclose(f);
	return m->nin && m->nout ? 0 : fail("Unable to read the model");
}

int ov_core_read_model(core_t *c, const char *path, const char *weights, model_t **out) {
	check(c, CORE);
	(void)weights;
	model_t *m = make(sizeof *m, MODEL);
	int st = parse(path, m);
	if (st) drop(m, MODEL); else *out = m;
	return st;
}
void ov_model_free(model_t *m) { drop(m, MODEL); }
bool ov_model_is_dynamic(model_t *m) {
	check(m, MODEL);
	for (int i = 0; i < m->nin; i++)
		for (int k = 0; k < m->in[i].rank; k++)
			if (m->in[i].dims[k] < 0) return true;
	return false;
}
int ov_model_reshape(model_t *m, const char **names, const partial_t *shapes, size_t n) {
	check(m, MODEL);
	for (size_t i = 0; i < n; i++) {
		port_t *p = NULL;
		for (int k = 0; k < m->nin; k++) if (strcmp(m->in[k].name, names[i]) == 0) p = &m->in[k];
		if (!p || shapes[i].rank.min > MAXRANK) return fail("no such input");
		p->rank = shapes[i].rank.min;
		for (int k = 0; k < p->rank; k++) p->dims[k] = shapes[i].dims[k].min == shapes[i].dims[k].max ? shapes[i].dims[k].min : -1;
	}
	return 0;
}

static int port(port_t *p, int n, size_t i, portobj_t **out) {
	if (i >= (size_t)n) return -6;
	*out = make(sizeof **out, PORT);
	(*out)->p = p[i];
	return 0;
}
int ov_model_inputs_size(model_t *m, size_t *n) { check(m, MODEL); *n = m->nin; return 0; }
int ov_model_const_input_by_index(model_t *m, size_t i, portobj_t **out) { check(m, MODEL); return port(m->in, m->nin, i, out); }
int ov_port_get_any_name(portobj_t *p, char **out) { check(p, PORT); *out = strdup(p->p.name); return 0; }
int ov_port_get_element_type(portobj_t *p, int32_t *out) { check(p, PORT); *out = p->p.type + SHIFT; return 0; }
int ov_port_get_partial_shape(portobj_t *p, partial_t *out) {
	check(p, PORT);
	out->rank = (dim_t){p->p.rank, p->p.rank};
	out->dims = p->p.rank ? calloc(p->p.rank, sizeof(dim_t)) : NULL;
	for (int i = 0; i < p->p.rank; i++) out->dims[i] = p->p.dims[i] < 0 ? (dim_t){0, -1} : (dim_t){p->p.dims[i], p->p.dims[i]};
	return 0;
}
void ov_output_const_port_free(portobj_t *p) { drop(p, PORT); }
void ov_partial_shape_free(partial_t *p) { free(p->dims); p->dims = NULL; }
int ov_shape_free(shape_t *s) { free(s->dims); s->dims = NULL; return 0; }

// ---- compiled models

static int compile(core_t *c, const model_t *m, const char *device, size_t n, compiled_t **out, va_list args) {
	check(c, CORE);
	for (size_t i = 0; i + 1 < n; i += 2) {
		const char *key = va_arg(args, const char *), *value = va_arg(args, const char *);
		note("compile %s %s=%s", device, key, value);
		if (strcmp(key, "CACHE_DIR") == 0 && *value && is_set("full-cache")) return fail("cannot write the cache");
	}
	wait_while("hold-compile", "compiling");
	char held[64];
	snprintf(held, sizeof held, "hold-compile-%s", device);
	wait_while(held, "compiling");
	if (is_set("lost")) return fail("device lost");
	compiled_t *k = make(sizeof *k, COMPILED);
	k->m = *m;
	snprintf(k->device, sizeof k->device, "%s", device);
	*out = k;
	return 0;
}
int ov_core_compile_model(core_t *c, model_t *m, const char *device, size_t n, compiled_t **out, ...) {
	check(m, MODEL);
	va_list args;
	va_start(args, out);
	int st = compile(c, m, device, n, out, args);
	va_end(args);
	return st;
}
int ov_core_compile_model_from_file(core_t *c, const char *path, const char *device, size_t n, compiled_t **out, ...) {
	model_t m = {0};
	int st = parse(path, &m);
	va_list args;
	va_start(args, out);
	if (!st) st = compile(c, &m, device, n, out, args);
	va_end(args);
	return st;
}
int ov_core_import_model(core_t *c, const char *blob, size_t n, const char *device, compiled_t **out) {
	(void)c, (void)blob, (void)n, (void)device, (void)out;
	return fail("the double imports nothing");
}
void ov_compiled_model_free(compiled_t *c) { drop(c, COMPILED); }
int ov_compiled_model_inputs_size(compiled_t *c, size_t *n) { check(c, COMPILED); *n = c->m.nin; return 0; }
int ov_compiled_model_outputs_size(compiled_t *c, size_t *n) { check(c, COMPILED); *n = c->m.nout; return 0; }
int ov_compiled_model_input_by_index(compiled_t *c, size_t i, portobj_t **out) { check(c, COMPILED); return port(c->m.in, c->m.nin, i, out); }
int ov_compiled_model_output_by_index(compiled_t *c, size_t i, portobj_t **out) { check(c, COMPILED); return port(c->m.out, c->m.nout, i, out); }
int ov_compiled_model_get_property(compiled_t *c, const char *key, char **out) {
	check(c, COMPILED);
	if (strcmp(key, "EXECUTION_DEVICES") == 0) *out = strdup(is_set("stray") ? "CPU" : c->device);
	else if (strcmp(key, "LOADED_FROM_CACHE") == 0) *out = strdup("NO");
	else if (strcmp(key, "OPTIMAL_NUMBER_OF_INFER_REQUESTS") == 0) *out = strdup("1");
	else return fail("Unsupported property");
	return 0;
}
int ov_compiled_model_export_model(compiled_t *c, const char *path) { check(c, COMPILED); (void)path; return fail("the double exports nothing"); }

// ---- tensors

static tensor_t *tensor(int type, int64_t rank, const int64_t *dims) {
	tensor_t *t = make(sizeof *t, TENSOR);
	t->type = type;
	t->rank = rank;
	t->size = type_size(type);
	for (int i = 0; i < rank; i++) t->size *= (t->dims[i] = dims[i]);
	t->data = calloc(1, t->size + 1);
	t->refs = 1;
	return t;
}
int ov_tensor_create(int32_t type, shape_t shape, tensor_t **out) {
	if (!type_size(type - SHIFT) || shape.rank > MAXRANK) return fail("bad tensor");
	*out = tensor(type - SHIFT, shape.rank, shape.dims);
	return 0;
}
// A request that was given a tensor keeps it, as the library does.
void ov_tensor_free(tensor_t *t) {
	check(t, TENSOR);
	if (--t->refs == 0) { free(t->data); drop(t, TENSOR); }
}
int ov_tensor_get_shape(tensor_t *t, shape_t *out) {
	check(t, TENSOR);
	out->rank = t->rank;
	out->dims = calloc(t->rank + 1, sizeof(int64_t));
	memcpy(out->dims, t->dims, t->rank * sizeof(int64_t));
	return 0;
}
int ov_tensor_get_element_type(tensor_t *t, int32_t *out) { check(t, TENSOR); *out = t->type + SHIFT; return 0; }
int ov_tensor_get_byte_size(tensor_t *t, size_t *out) { check(t, TENSOR); *out = t->size; return 0; }
int ov_tensor_data(tensor_t *t, void **out) { check(t, TENSOR); *out = t->data; return 0; }

// ---- requests

int ov_compiled_model_create_infer_request(compiled_t *c, request_t **out) {
	check(c, COMPILED);
	request_t *r = make(sizeof *r, REQUEST);
	r->c = c;
	*out = r;
	return 0;
}
void ov_infer_request_free(request_t *r) {
	check(r, REQUEST);
	check(r->c, COMPILED); // a model outlives its requests
	for (int i = 0; i < MAXPORTS; i++) if (r->in[i]) ov_tensor_free(r->in[i]);
	drop(r, REQUEST);
}
int ov_infer_request_set_input_tensor_by_index(request_t *r, size_t i, tensor_t *t) {
	check(r, REQUEST);
	check(t, TENSOR);
	if (r->running) return -8;
	if (r->in[i]) ov_tensor_free(r->in[i]);
	t->refs++;
	r->in[i] = t;
	return 0;
}
int ov_infer_request_start_async(request_t *r) {
	check(r, REQUEST);
	if (r->running) return -8;
	r->running = true;
	r->cancelled = false;
	if (is_set("hold-infer")) note("inferring");
	return 0;
}
int ov_infer_request_cancel(request_t *r) { check(r, REQUEST); r->cancelled = true; return 0; }
int ov_infer_request_wait_for(request_t *r, int64_t ms) {
	check(r, REQUEST);
	for (int64_t waited = 0; is_set("hold-infer") && !r->cancelled; waited += 2) {
		if (waited >= ms) return -9;
		usleep(2000);
	}
	r->running = false;
	if (r->cancelled) return -13;
	if (is_set("lost")) return fail("device lost");
	char once[1100];
	snprintf(once, sizeof once, "%s/lose-once", dir());
	if (unlink(once) == 0) return fail("device lost");
	return 0;
}
int ov_infer_request_get_output_tensor_by_index(request_t *r, size_t i, tensor_t **out) {
	check(r, REQUEST);
	port_t *p = &r->c->m.out[i];
	tensor_t *x = r->in[0];
	int64_t dims[MAXRANK];
	for (int k = 0; k < p->rank; k++) dims[k] = p->dims[k] < 0 ? (k < x->rank ? x->dims[k] : 1) : p->dims[k];
	tensor_t *y = tensor(p->type, p->rank, dims);
	size_t nx = x->size / type_size(x->type), ny = y->size / type_size(y->type);
	for (size_t k = 0; k < ny && nx; k++) {
		double v = x->type == 4 ? ((float *)x->data)[k % nx] : x->type == 10 ? ((int64_t *)x->data)[k % nx] : ((uint8_t *)x->data)[k % nx];
		if (y->type == 4) ((float *)y->data)[k] = v + 1;
		else if (y->type == 10) ((int64_t *)y->data)[k] = v + 1;
		else if (y->type == 16) ((uint8_t *)y->data)[k] = v + 1;
	}
	if (is_set("npu-wrong") && strcmp(r->c->device, "NPU") == 0 && y->type == 4)
		for (size_t k = 0; k < ny; k++) ((float *)y->data)[k] *= k % 2 ? -1 : 1;
	if (is_set("lie-about-size")) y->size += 4;
	*out = y;
	return 0;
}
