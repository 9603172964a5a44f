/* The mixers for one instruction set; `mixing.c` includes this file once for each, after defining

   NAME(x)        the name of a function for this set
   TARGET         the attribute that enables the set
   WIDTH          floats of a vector
   ROWS, VECTORS  accumulators of a product, held in registers: rows of the matrix, vectors of columns

   A tile is `lanes` columns (a multiple of WIDTH, at most LANES) of some rows, dense in a buffer that fits into the
   nearest cache. Columns that the tensor does not have are zero. */

#define LANES (WIDTH * VECTORS)
#define INLINE static inline TARGET __attribute__((always_inline))
#define FUNCTION static TARGET __attribute__((noinline))
#define vector NAME(vector)

typedef float vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

INLINE vector NAME(load)(const float *from) { return *(const vector *)from; }

INLINE void NAME(store)(float *to, vector value) { *(vector *)to = value; }

/* Broadcast a value; adding it to zeros would turn -0 into 0 and not be optimised away. */
INLINE vector NAME(all)(float value) { return value - (vector){0}; }

/* -- products ------------------------------------------------------------------------------------------------------ */

/* out = matrix times in, plus a value for each row (start) and a tile (add) where given. The counts of rows and
   vectors are constants where this is inlined, so that the sums stay in registers. */
INLINE void NAME(block)(const size_t rows, const size_t vectors, const struct Product *p, size_t row, size_t column) {
    const float *matrix = p->matrix + row * p->matrix_stride, *in = p->in + column;
    vector sums[ROWS][VECTORS], columns[VECTORS];
    UNROLL for (size_t r = 0; r < rows; r++)
        UNROLL for (size_t v = 0; v < vectors; v++) sums[r][v] = NAME(all)(p->start ? p->start[row + r] : 0.0f);
    for (size_t k = 0; k < p->depth; k++) {
        UNROLL for (size_t v = 0; v < vectors; v++) columns[v] = NAME(load)(in + v * WIDTH);
        UNROLL for (size_t r = 0; r < rows; r++) {
            const vector weight = NAME(all)(matrix[r * p->matrix_stride + k]);
            UNROLL for (size_t v = 0; v < vectors; v++) sums[r][v] += weight * columns[v];
        }
        in += p->in_stride;
    }
    UNROLL for (size_t r = 0; r < rows; r++)
        UNROLL for (size_t v = 0; v < vectors; v++) {
            size_t offset = (row + r) * p->out_stride + column + v * WIDTH;
            if (p->add) sums[r][v] += NAME(load)(p->add + offset);
            NAME(store)(p->out + offset, sums[r][v]);
        }
}

#define ROWS_ARE(n) \
    case n: \
        if (n <= ROWS) NAME(block)(n, vectors, p, row, column); \
        break;

INLINE void NAME(rows)(size_t rows, const size_t vectors, const struct Product *p, size_t row, size_t column) {
    switch (rows) {
        ROWS_ARE(1) ROWS_ARE(2) ROWS_ARE(3) ROWS_ARE(4) ROWS_ARE(5) ROWS_ARE(6) ROWS_ARE(7) ROWS_ARE(8)
    }
}

/* Multiply; the rows are split evenly into as few blocks as can hold them. */
FUNCTION void NAME(product)(const struct Product *p) {
    const size_t blocks = (p->rows + ROWS - 1) / ROWS;
    for (size_t column = 0; column < p->columns; column += LANES) {
        const size_t left = (p->columns - column) / WIDTH;
        for (size_t done = 0, row = 0, rows; done < blocks; done++, row += rows) {
            rows = (p->rows - row + blocks - done - 1) / (blocks - done);
            if (left >= 3 && VECTORS >= 3)
                NAME(rows)(rows, VECTORS, p, row, column);
            else if (left >= 2)
                NAME(rows)(rows, 2, p, row, column);
            else
                NAME(rows)(rows, 1, p, row, column);
        }
    }
}

/* -- activations --------------------------------------------------------------------------------------------------- */

/* The tail of the normal distribution, P(X > a), for a from 0 to FAR: the eighth power of a polynomial, since the
   eighth root of the tail is almost straight; a times it has an error of at most 1e-7. */
INLINE float NAME(tail)(float a) {
    float root = -3.0535745e-7f;
    root = root * a + 7.6120127e-6f;
    root = root * a - 6.1003229e-5f;
    root = root * a + 3.6478043e-5f;
    root = root * a + 1.5007794e-3f;
    root = root * a - 6.6864886e-4f;
    root = root * a - 3.1929705e-2f;
    root = root * a - 9.1457047e-2f;
    root = root * a + 9.1700399e-1f;
    root *= root;
    root *= root;
    return root * root;
}

/* a times the normal density at a, likewise, by a sixteenth power. */
INLINE float NAME(density)(float a) {
    const float square = a * a;
    float root = 2.8445038e-8f;
    root = root * square - 4.6899163e-6f;
    root = root * square + 4.6051070e-4f;
    root = root * square - 2.9504949e-2f;
    root = root * square + 9.4418424e-1f;
    root *= root;
    root *= root;
    root *= root;
    return a * root * root;
}

#define FAR 5.7f

FUNCTION void NAME(activate)(float *restrict x, size_t count, int gelu) {
    if (gelu)
        for (size_t i = 0; i < count; i++) {
            const float size = __builtin_fabsf(x[i]), near = size > FAR ? FAR : size;
            x[i] = (x[i] < 0 ? 0 : x[i]) - near * NAME(tail)(near);
        }
    else
        for (size_t i = 0; i < count; i++) x[i] = x[i] < 0 ? 0 : x[i];
}

/* Write the activation to `active` and overwrite x with its slope. */
FUNCTION void NAME(activate_with_slope)(float *restrict x, float *restrict active, size_t count, int gelu) {
    if (gelu)
        for (size_t i = 0; i < count; i++) {
            const float size = __builtin_fabsf(x[i]), near = size > FAR ? FAR : size, tail = NAME(tail)(near);
            const float beyond = tail - NAME(density)(near); /* the slope on the negative side */
            active[i] = (x[i] < 0 ? 0 : x[i]) - near * tail;
            x[i] = x[i] < 0 ? beyond : 1 - beyond;
        }
    else
        for (size_t i = 0; i < count; i++) {
            active[i] = x[i] < 0 ? 0 : x[i];
            x[i] = x[i] > 0;
        }
}

/* -- tiles --------------------------------------------------------------------------------------------------------- */

/* Write the transpose of rows, value by value. */
FUNCTION void NAME(transpose_slowly)(
    const float *from, size_t from_stride, size_t rows, size_t columns, float *to, size_t to_stride, const float *add) {
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++) {
            const size_t offset = column * to_stride + row;
            to[offset] = from[row * from_stride + column] + (add ? add[offset] : 0.0f);
        }
}

#if HAS_SHUFFLES
typedef float NAME(eight) __attribute__((vector_size(32), aligned(4), may_alias));

/* Write the transpose of eight rows, eight columns at a time. */
INLINE void NAME(transpose_eight)(
    const float *from, size_t from_stride, size_t columns, float *to, size_t to_stride, const float *add) {
    NAME(eight) a[8], b[8];
    for (size_t column = 0; column < columns; column += 8) {
        UNROLL for (size_t i = 0; i < 8; i++) a[i] = *(const NAME(eight) *)(from + i * from_stride);
        UNROLL for (size_t i = 0; i < 8; i += 2) { /* pairs of rows, then fours, then eights */
            b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        UNROLL for (size_t i = 0; i < 8; i += 2) {
            const size_t j = i / 2 + i / 4 * 2; /* 0, 1, 4, 5 */
            a[i] = __builtin_shufflevector(b[j], b[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[i + 1] = __builtin_shufflevector(b[j], b[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        UNROLL for (size_t i = 0; i < 4; i++) {
            b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
            b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        }
        UNROLL for (size_t i = 0; i < 8; i++) {
            if (add) b[i] += *(const NAME(eight) *)(add + i * to_stride);
            *(NAME(eight) *)(to + i * to_stride) = b[i];
        }
        from += 8, to += 8 * to_stride, add = add ? add + 8 * to_stride : 0;
    }
}

FUNCTION void NAME(transpose_eight_only)(
    const float *from, size_t from_stride, size_t columns, float *to, size_t to_stride) {
    NAME(transpose_eight)(from, from_stride, columns, to, to_stride, 0);
}

FUNCTION void NAME(transpose_eight_add)(
    const float *from, size_t from_stride, size_t columns, float *to, size_t to_stride, const float *add) {
    NAME(transpose_eight)(from, from_stride, columns, to, to_stride, add);
}
#endif

/* Write the transpose of rows, plus add where given. */
FUNCTION void NAME(transpose)(
    const float *from, size_t from_stride, size_t rows, size_t columns, float *to, size_t to_stride, const float *add) {
    size_t row = 0, whole = 0;
#if HAS_SHUFFLES
    whole = columns / 8 * 8;
    for (; row + 8 <= rows; row += 8)
        if (add)
            NAME(transpose_eight_add)(from + row * from_stride, from_stride, whole, to + row, to_stride, add + row);
        else
            NAME(transpose_eight_only)(from + row * from_stride, from_stride, whole, to + row, to_stride);
#endif
    NAME(transpose_slowly)(from + whole, from_stride, row, columns - whole, to + whole * to_stride, to_stride,
        add ? add + whole * to_stride : 0);
    NAME(transpose_slowly)(
        from + row * from_stride, from_stride, rows - row, columns, to + row, to_stride, add ? add + row : 0);
}

/* Read `count` columns into a tile. */
INLINE void NAME(read)(const float *x, const struct Layout *layout, size_t count, float *tile, size_t lanes) {
    if (layout->last) {
        if (count < lanes) memset(tile, 0, layout->axis * lanes * sizeof(float));
        NAME(transpose)(x, layout->stride, count, layout->axis, tile, lanes, 0);
        return;
    }
    for (size_t k = 0; k < layout->axis; k++, tile += lanes) {
        const float *row = x + k * layout->stride;
        UNROLL for (size_t lane = 0; lane < LANES; lane += WIDTH)
            if (lane + WIDTH <= count) NAME(store)(tile + lane, NAME(load)(row + lane));
        for (size_t lane = count / WIDTH * WIDTH; lane < lanes; lane++) tile[lane] = lane < count ? row[lane] : 0.0f;
    }
}

/* Write a tile, plus add where given, laid out as out. */
INLINE void NAME(write)(
    const float *tile, size_t lanes, const struct Layout *layout, size_t count, float *out, const float *add) {
    if (layout->last) {
        NAME(transpose)(tile, lanes, layout->axis, count, out, layout->stride, add);
        return;
    }
    for (size_t k = 0; k < layout->axis; k++, tile += lanes) {
        const size_t row = k * layout->stride;
        for (size_t lane = 0; lane < count; lane++) out[row + lane] = tile[lane] + (add ? add[row + lane] : 0.0f);
    }
}

/* Scale columns to sum zero and sum of squares one; write the factors to `scale`. */
INLINE void NAME(normalise_vectors)(float *tile, size_t axis, const size_t vectors, float *restrict scale) {
    const size_t lanes = vectors * WIDTH;
    vector sums[VECTORS], squares[VECTORS], factors[VECTORS];
    UNROLL for (size_t v = 0; v < vectors; v++) sums[v] = squares[v] = (vector){0};
    for (size_t k = 0; k < axis; k++)
        UNROLL for (size_t v = 0; v < vectors; v++) sums[v] += NAME(load)(tile + k * lanes + v * WIDTH);
    UNROLL for (size_t v = 0; v < vectors; v++) sums[v] /= (float)axis;
    for (size_t k = 0; k < axis; k++)
        UNROLL for (size_t v = 0; v < vectors; v++) {
            const vector centred = NAME(load)(tile + k * lanes + v * WIDTH) - sums[v];
            squares[v] += centred * centred;
            NAME(store)(tile + k * lanes + v * WIDTH, centred);
        }
    UNROLL for (size_t v = 0; v < vectors; v++) NAME(store)(scale + v * WIDTH, squares[v] + axis * EPSILON);
    for (size_t lane = 0; lane < lanes; lane++) scale[lane] = 1.0f / __builtin_sqrtf(scale[lane]);
    UNROLL for (size_t v = 0; v < vectors; v++) factors[v] = NAME(load)(scale + v * WIDTH);
    for (size_t k = 0; k < axis; k++)
        UNROLL for (size_t v = 0; v < vectors; v++) {
            float *at = tile + k * lanes + v * WIDTH;
            NAME(store)(at, NAME(load)(at) * factors[v]);
        }
}

FUNCTION void NAME(normalise)(float *tile, size_t axis, size_t lanes, float *scale) {
    if (lanes == 3 * WIDTH && VECTORS >= 3)
        NAME(normalise_vectors)(tile, axis, VECTORS, scale);
    else if (lanes == 2 * WIDTH)
        NAME(normalise_vectors)(tile, axis, 2, scale);
    else
        NAME(normalise_vectors)(tile, axis, 1, scale);
}

/* -- forward ------------------------------------------------------------------------------------------------------- */

FUNCTION int NAME(forward)(const struct Layout *layout, const struct Weights *weights, const float *x, float *out) {
    const size_t axis = layout->axis, hidden = weights->hidden;
    float *buffer = scratch((2 * axis + hidden + 1) * LANES);
    if (!buffer) return 0;
    float *normal = buffer, *inner = normal + axis * LANES, *result = inner + hidden * LANES,
          *scale = result + axis * LANES;
    for (size_t number = 0; number < tiles_of(layout, LANES); number++) {
        const struct Tile tile = tile_of(layout, number, LANES, WIDTH);
        const size_t lanes = tile.lanes;
        const int straight = !layout->last && tile.count == lanes; /* the product can write to the tensor itself */
        NAME(read)(x + tile.offset, layout, tile.count, normal, lanes);
        NAME(normalise)(normal, axis, lanes, scale);
        NAME(product)(&(struct Product){
            weights->widen, axis, hidden, axis, lanes, normal, lanes, weights->shift, 0, inner, lanes});
        NAME(activate)(inner, hidden * lanes, weights->gelu);
        NAME(product)(&(struct Product){
            weights->narrow, hidden, axis, hidden, lanes, inner, lanes, weights->bias, straight ? x + tile.offset : 0,
            straight ? out + tile.offset : result, straight ? layout->stride : lanes});
        if (!straight) NAME(write)(result, lanes, layout, tile.count, out + tile.offset, x + tile.offset);
    }
    free(buffer);
    return 1;
}

/* -- backward ------------------------------------------------------------------------------------------------------ */

/* to += from */
INLINE void NAME(accumulate)(float *restrict to, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

/* The norm fixes sum and sum of squares: the components of `passed` along both are removed. The rest, times the
   scale of the norm, plus `grad_out` overwrites `passed`. */
FUNCTION void NAME(normalise_backward)(
    float *passed, const float *normal, const float *grad_out, const float *scale, size_t axis, size_t lanes) {
    for (size_t lane = 0; lane < lanes; lane += WIDTH) {
        vector total = {0}, squares = {0};
        for (size_t k = lane; k < axis * lanes; k += lanes) {
            const vector one = NAME(load)(passed + k);
            total += one;
            squares += one * NAME(load)(normal + k);
        }
        total /= (float)axis;
        const vector factor = NAME(load)(scale + lane);
        for (size_t k = lane; k < axis * lanes; k += lanes) {
            const vector kept = NAME(load)(passed + k) - total - NAME(load)(normal + k) * squares;
            NAME(store)(passed + k, NAME(load)(grad_out + k) + kept * factor);
        }
    }
}

/* sums (rows, spread) += one (rows, lanes) times the transpose of other (hidden, lanes), over `count` columns. */
INLINE void NAME(add_products)(float *sums, const float *one, size_t rows, const float *other, size_t hidden,
    size_t spread, size_t lanes, size_t count, float *transposed) {
    NAME(transpose)(other, lanes, hidden, count, transposed, spread, 0);
    NAME(product)(&(struct Product){one, lanes, rows, count, spread, transposed, spread, 0, sums, sums, spread});
}

FUNCTION int NAME(backward)(const struct Layout *layout, const struct Weights *weights, const float *x,
    const float *grad_out, float *grad_x, const struct Gradients *gradients) {
    const size_t axis = layout->axis, hidden = weights->hidden, spread = (hidden + WIDTH - 1) / WIDTH * WIDTH;
    const size_t floats = (4 * axis + 4 * hidden + spread + 1) * LANES + 2 * axis * spread;
    float *buffer = scratch(floats);
    if (!buffer) return 0;
    memset(buffer, 0, floats * sizeof(float));
    float *normal = buffer, *grad = normal + axis * LANES, *passed = grad + axis * LANES,
          *grad_bias = passed + axis * LANES, *before = grad_bias + axis * LANES, *active = before + hidden * LANES,
          *inner = active + hidden * LANES, *grad_shift = inner + hidden * LANES,
          *transposed = grad_shift + hidden * LANES, *scale = transposed + spread * LANES,
          *grad_narrow = scale + LANES, *grad_widen = grad_narrow + axis * spread;
    for (size_t number = 0; number < tiles_of(layout, LANES); number++) {
        const struct Tile tile = tile_of(layout, number, LANES, WIDTH);
        const size_t lanes = tile.lanes, count = tile.count;
        NAME(read)(x + tile.offset, layout, count, normal, lanes);
        NAME(read)(grad_out + tile.offset, layout, count, grad, lanes);
        NAME(normalise)(normal, axis, lanes, scale);
        NAME(product)(&(struct Product){
            weights->widen, axis, hidden, axis, lanes, normal, lanes, weights->shift, 0, before, lanes});
        NAME(activate_with_slope)(before, active, hidden * lanes, weights->gelu);
        NAME(add_products)(grad_narrow, grad, axis, active, hidden, spread, lanes, count, transposed);
        NAME(product)(&(struct Product){
            gradients->narrow_transposed, axis, hidden, axis, lanes, grad, lanes, 0, 0, inner, lanes});
        for (size_t i = 0; i < hidden * lanes; i++) inner[i] *= before[i];
        NAME(add_products)(grad_widen, normal, axis, inner, hidden, spread, lanes, count, transposed);
        NAME(product)(&(struct Product){
            gradients->widen_transposed, hidden, axis, hidden, lanes, inner, lanes, 0, 0, passed, lanes});
        NAME(normalise_backward)(passed, normal, grad, scale, axis, lanes);
        NAME(write)(passed, lanes, layout, count, grad_x + tile.offset, 0);
        for (size_t k = 0; k < axis; k++) NAME(accumulate)(grad_bias + k * LANES, grad + k * lanes, lanes);
        for (size_t h = 0; h < hidden; h++) NAME(accumulate)(grad_shift + h * LANES, inner + h * lanes, lanes);
    }
    for (size_t k = 0; k < axis; k++) {
        gradients->bias[k] = 0;
        for (size_t lane = 0; lane < LANES; lane++) gradients->bias[k] += grad_bias[k * LANES + lane];
        for (size_t h = 0; h < hidden; h++) {
            gradients->narrow[k * hidden + h] = grad_narrow[k * spread + h];
            gradients->widen[h * axis + k] = grad_widen[k * spread + h];
        }
    }
    for (size_t h = 0; h < hidden; h++) {
        gradients->shift[h] = 0;
        for (size_t lane = 0; lane < LANES; lane++) gradients->shift[h] += grad_shift[h * LANES + lane];
    }
    free(buffer);
    return 1;
}

#include "distance_kernels.h"

#undef LANES
#undef INLINE
#undef FUNCTION
#undef ROWS_ARE
#undef FAR
#undef vector
