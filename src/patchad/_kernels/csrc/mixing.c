/* The mixers on a CPU, `FC(act(FC(LayerNorm(x)))) + x` along one axis: a tile of columns is read, normalised,
   multiplied, activated, multiplied and written while it is in the nearest cache. `patchad._kernels.backend` says what
   is computed and how a tensor is laid out; `mixing_kernels.h` has the arithmetic, compiled for each instruction set.

   A call runs on one core and keeps no state; callers run several in parallel. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-5f /* added to the variance, as LayerNorm does */

/* The layout of a tensor: `(outer, axis, inner)`, or `(inner, axis)` where the mixed axis is the last. */
struct Layout {
    size_t outers, axis, inners;
    size_t outer_stride, stride; /* from row to row; the other axis has stride 1 */
    int last;
};

/* `patchad._kernels.backend.FusedWeights`. */
struct Weights {
    const float *widen, *shift, *narrow, *bias;
    size_t hidden;
    int gelu;
};

/* The transposed matrices, and where the gradients are written. */
struct Gradients {
    const float *widen_transposed, *narrow_transposed;
    float *widen, *shift, *narrow, *bias;
};

/* out = matrix (rows, depth) times in (depth, columns), plus start (rows) and add, laid out as out. */
struct Product {
    const float *matrix;
    size_t matrix_stride, rows, depth, columns;
    const float *in;
    size_t in_stride;
    const float *start, *add;
    float *out;
    size_t out_stride;
};

/* Two views of some windows, `(channel, patch or step, batch, feature)`, dense except across channels. */
struct Views {
    size_t channels, patches, steps, batch, features;
    size_t inter_stride, intra_stride; /* from channel to channel */
    int softmax;                       /* compare the softmax over features; otherwise the features */
};

/* Some columns of a tensor. */
struct Tile {
    size_t offset; /* of the first one from the start of the tensor */
    size_t count;  /* columns that exist */
    size_t lanes;  /* columns that are computed: whole vectors */
};

/* Count the tiles of at most `most` columns. */
static inline size_t tiles_of(const struct Layout *layout, size_t most) {
    return layout->outers * ((layout->inners + most - 1) / most);
}

/* Return tile `number`; vectors have `width` columns. */
static inline struct Tile tile_of(const struct Layout *layout, size_t number, size_t most, size_t width) {
    const size_t across = (layout->inners + most - 1) / most, first = number % across * most;
    const size_t left = layout->inners - first, count = left < most ? left : most;
    const size_t offset = number / across * layout->outer_stride + first * (layout->last ? layout->stride : 1);
    return (struct Tile){offset, count, (count + width - 1) / width * width};
}

/* Allocate floats, aligned to a cache line. */
static float *scratch(size_t count) { return aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64); }

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#ifdef __has_builtin
#define HAS_SHUFFLES __has_builtin(__builtin_shufflevector)
#else
#define HAS_SHUFFLES 0
#endif

#define NAME(x) x##_plain
#define TARGET
#define WIDTH 4
#ifdef __aarch64__ /* twice the registers */
#define ROWS 8
#else
#define ROWS 4
#endif
#define VECTORS 2
#include "mixing_kernels.h"
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS

#if defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#define ROWS 4
#define VECTORS 3
#include "mixing_kernels.h"
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define WIDTH 16
#define ROWS 8
#define VECTORS 3
#include "mixing_kernels.h"

/* Return the best instruction set of this machine: 2 (AVX-512), 1 (AVX2) or 0 (plain). */
static int best(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    const int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    return wide ? 2 : 1;
}

#define CHOSEN(name, set) (set == 2 ? name##_avx512 : set == 1 ? name##_avx2 : name##_plain)
#else
static int best(void) { return 0; }

#define CHOSEN(name, set) name##_plain
#endif

/* -- Python -------------------------------------------------------------------------------------------------------- */

#define LAYOUT "(nnn)(nn)p" /* sizes, strides, whether the mixed axis is the last */
#define LAYOUT_TO(layout) \
    &layout.outers, &layout.axis, &layout.inners, &layout.outer_stride, &layout.stride, &layout.last
#define WEIGHTS "(KKKK)np" /* addresses, hidden size, whether GELU */
#define WEIGHTS_TO(weights) \
    &weights.widen, &weights.shift, &weights.narrow, &weights.bias, &weights.hidden, &weights.gelu

_Static_assert(sizeof(void *) == sizeof(unsigned long long), "addresses are read as unsigned long long");
_Static_assert(sizeof(size_t) == sizeof(Py_ssize_t), "sizes are read as Py_ssize_t");

static PyObject *forward(PyObject *module, PyObject *arguments) {
    struct Layout layout;
    struct Weights weights;
    const float *x;
    float *out;
    int set, done;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "i" LAYOUT WEIGHTS "KK", &set, LAYOUT_TO(layout), WEIGHTS_TO(weights), &x, &out))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    done = CHOSEN(forward, set)(&layout, &weights, x, out);
    Py_END_ALLOW_THREADS
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *backward(PyObject *module, PyObject *arguments) {
    struct Layout layout;
    struct Weights weights;
    struct Gradients gradients;
    const float *x, *grad_out;
    float *grad_x;
    int set, done;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "i" LAYOUT WEIGHTS "KKK(KK)(KKKK)", &set, LAYOUT_TO(layout), WEIGHTS_TO(weights),
            &x, &grad_out, &grad_x, &gradients.widen_transposed, &gradients.narrow_transposed, &gradients.widen,
            &gradients.shift, &gradients.narrow, &gradients.bias))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    done = CHOSEN(backward, set)(&layout, &weights, x, grad_out, grad_x, &gradients);
    Py_END_ALLOW_THREADS
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *distances(PyObject *module, PyObject *arguments) {
    struct Views views;
    const float *inter, *intra;
    float *out;
    int set, done;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "i(nnnnn)(nn)pKKK", &set, &views.channels, &views.patches, &views.steps,
            &views.batch, &views.features, &views.inter_stride, &views.intra_stride, &views.softmax, &inter, &intra,
            &out))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    done = CHOSEN(distances, set)(&views, inter, intra, out);
    Py_END_ALLOW_THREADS
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"forward", forward, METH_VARARGS, "Mix a tensor into another, given addresses, sizes and strides."},
    {"backward", backward, METH_VARARGS, "Write the gradients of x and of the weights, likewise."},
    {"distances", distances, METH_VARARGS, "Write the distance of every patch to every step, likewise."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_mixing", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__mixing(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "BEST", best()) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
