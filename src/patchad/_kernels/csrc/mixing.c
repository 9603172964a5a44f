/* The mixers' arithmetic on a CPU, `FC(act(FC(LayerNorm(x)))) + x` along one axis: a tile of columns is read, normed,
   multiplied, activated, multiplied and written while it is in the nearest cache. `patchad.mixing` says what is
   computed and how a tensor is seen; `mixing_kernels.h` has the arithmetic, compiled once for each instruction set.

   One call works on one core and keeps nothing; callers run several side by side. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-5f /* added to the variance, as LayerNorm does */

/* How a tensor lies in memory: `(outer, axis, inner)`, or `(inner, axis)` where the mixed axis is the last. */
struct Form {
    size_t outers, axis, inners;
    size_t outer_stride, stride; /* from row to row; the other axis has stride 1 */
    int last;
};

/* As `patchad.mixing.Folded` has them. */
struct Weights {
    const float *widen, *shift, *narrow, *bias;
    size_t hidden;
    int gelu;
};

/* The matrices' transposes, and where their gradients go. */
struct Gradients {
    const float *widen_turned, *narrow_turned;
    float *widen, *shift, *narrow, *bias;
};

/* out = matrix (rows, depth) times in (depth, columns), plus start (rows) and add, which lies as out does. */
struct Product {
    const float *matrix;
    size_t matrix_stride, rows, depth, columns;
    const float *in;
    size_t in_stride;
    const float *start, *add;
    float *out;
    size_t out_stride;
};

/* Two views of some windows, `(channel, place, batch, feature)`, dense but for the channels. */
struct Views {
    size_t channels, patches, steps, batch, features;
    size_t inter_stride, intra_stride; /* from channel to channel */
    int softmax;                       /* compare distributions over the features, or, if not, the features */
};

/* Some columns of a tensor. */
struct Tile {
    size_t place; /* of the first, from the tensor's start */
    size_t count; /* of those that there are */
    size_t lanes; /* of those that are computed: whole vectors */
};

/* How many tiles of at most `most` columns a tensor has. */
static inline size_t tiles_of(const struct Form *form, size_t most) {
    return form->outers * ((form->inners + most - 1) / most);
}

/* One of them, where vectors have `width` columns. */
static inline struct Tile tile_of(const struct Form *form, size_t number, size_t most, size_t width) {
    const size_t across = (form->inners + most - 1) / most, first = number % across * most;
    const size_t left = form->inners - first, count = left < most ? left : most;
    const size_t place = number / across * form->outer_stride + first * (form->last ? form->stride : 1);
    return (struct Tile){place, count, (count + width - 1) / width * width};
}

/* Memory for some numbers, at the beginning of a cache line. */
static float *scratch(size_t numbers) { return aligned_alloc(64, (numbers * sizeof(float) + 63) / 64 * 64); }

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
#ifdef __aarch64__ /* has twice the registers */
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

/* The best instruction set of this machine: 2, 1 or, plain, 0. */
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

#define FORM "(nnn)(nn)p" /* sizes, strides, whether the mixed axis is the last */
#define FORM_TO(form) \
    &form.outers, &form.axis, &form.inners, &form.outer_stride, &form.stride, &form.last
#define WEIGHTS "(KKKK)np" /* addresses, hidden size, whether GELU */
#define WEIGHTS_TO(weights) \
    &weights.widen, &weights.shift, &weights.narrow, &weights.bias, &weights.hidden, &weights.gelu

_Static_assert(sizeof(void *) == sizeof(unsigned long long), "addresses are read as unsigned long long");
_Static_assert(sizeof(size_t) == sizeof(Py_ssize_t), "sizes are read as Py_ssize_t");

static PyObject *forward(PyObject *module, PyObject *arguments) {
    struct Form form;
    struct Weights weights;
    const float *x;
    float *out;
    int set, done;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "i" FORM WEIGHTS "KK", &set, FORM_TO(form), WEIGHTS_TO(weights), &x, &out))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    done = CHOSEN(forward, set)(&form, &weights, x, out);
    Py_END_ALLOW_THREADS
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *backward(PyObject *module, PyObject *arguments) {
    struct Form form;
    struct Weights weights;
    struct Gradients found;
    const float *x, *upper;
    float *lower;
    int set, done;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "i" FORM WEIGHTS "KKK(KK)(KKKK)", &set, FORM_TO(form), WEIGHTS_TO(weights), &x,
            &upper, &lower, &found.widen_turned, &found.narrow_turned, &found.widen, &found.shift, &found.narrow,
            &found.bias))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    done = CHOSEN(backward, set)(&form, &weights, x, upper, lower, &found);
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
