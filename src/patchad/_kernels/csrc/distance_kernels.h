/* The distance of every patch of one view to every step of the other, for one instruction set; `mixing_kernels.h`
   includes this file and explains the names.

   A tile has a row for each feature and WIDTH columns: windows, or patches or steps of one window. */

/* e to the x for x <= 0: a power of two times a polynomial of the remainder. */
INLINE float NAME(exponential)(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float shift = 12582912.0f; /* floats of this size are integers */
    const float whole = (x * 1.44269504f + shift) - shift;
    const float rest = x - whole * 0.693145752f - whole * 1.42860677e-6f;
    float power = 1.0f / 5040;
    power = power * rest + 1.0f / 720;
    power = power * rest + 1.0f / 120;
    power = power * rest + 1.0f / 24;
    power = power * rest + 1.0f / 6;
    power = power * rest + 0.5f;
    power = power * rest + 1.0f;
    power = power * rest + 1.0f;
    union {
        int32_t bits;
        float value;
    } two = {((int32_t)whole + 127) * (1 << 23)};
    return power * two.value;
}

/* Overwrite `tile` with its softmax over the features, and write the logarithm to `logs`. */
FUNCTION void NAME(softmax)(float *restrict tile, float *restrict logs, size_t features) {
    float top[WIDTH], sum[WIDTH] = {0};
    for (size_t i = 0; i < WIDTH; i++) top[i] = tile[i];
    for (size_t k = 1; k < features; k++)
        for (size_t i = 0; i < WIDTH; i++) top[i] = tile[k * WIDTH + i] > top[i] ? tile[k * WIDTH + i] : top[i];
    for (size_t k = 0; k < features; k++)
        for (size_t i = 0; i < WIDTH; i++) {
            logs[k * WIDTH + i] = tile[k * WIDTH + i] - top[i];
            tile[k * WIDTH + i] = NAME(exponential)(logs[k * WIDTH + i]);
            sum[i] += tile[k * WIDTH + i];
        }
    for (size_t i = 0; i < WIDTH; i++) {
        top[i] = logf(sum[i]);
        sum[i] = 1.0f / sum[i];
    }
    for (size_t k = 0; k < features; k++)
        for (size_t i = 0; i < WIDTH; i++) {
            logs[k * WIDTH + i] -= top[i];
            tile[k * WIDTH + i] *= sum[i];
        }
}

/* Read `count` rows of features, `stride` apart, and write the two tiles whose differences are multiplied: a, then
   b. */
INLINE void NAME(prepare)(const float *from, size_t stride, size_t count, const struct Views *views, float *tile) {
    const size_t size = views->features * WIDTH;
    if (count < WIDTH) memset(tile, 0, size * sizeof(float));
    NAME(transpose)(from, stride, count, views->features, tile, WIDTH, 0);
    if (views->softmax) {
        NAME(softmax)(tile, tile + size, views->features);
        return;
    }
    const float scale = 1.0f / __builtin_sqrtf((float)views->features);
    for (size_t k = 0; k < size; k++) tile[k] = tile[k + size] = tile[k] * scale;
}

/* The sum over features of the difference of a times the difference of b, at least zero: of each column of one and the
   same column of other or, if `column` is not WIDTH, that column of other. */
INLINE void NAME(compare)(const float *one, const float *other, size_t column, size_t features, float *out) {
    const size_t size = features * WIDTH;
    vector sum = {0};
    if (column == WIDTH)
        for (size_t k = 0; k < size; k += WIDTH)
            sum += (NAME(load)(one + k) - NAME(load)(other + k)) *
                (NAME(load)(one + k + size) - NAME(load)(other + k + size));
    else
        for (size_t k = 0; k < size; k += WIDTH)
            sum += (NAME(load)(one + k) - other[k + column]) * (NAME(load)(one + k + size) - other[k + size + column]);
    for (size_t i = 0; i < WIDTH; i++) out[i] = sum[i] < 0 ? 0 : sum[i];
}

/* One channel of many windows: columns are windows. */
INLINE void NAME(compare_batch)(
    const struct Views *views, const float *inter, const float *intra, float *out, float *buffer) {
    const size_t patches = views->patches, steps = views->steps, batch = views->batch, features = views->features;
    const size_t size = 2 * features * WIDTH, row = batch * features;
    float found[WIDTH];
    for (size_t first = 0; first < batch; first += WIDTH) {
        const size_t count = batch - first < WIDTH ? batch - first : WIDTH;
        for (size_t i = 0; i < patches + steps; i++) {
            const float *from = i < patches ? inter + i * row : intra + (i - patches) * row;
            NAME(prepare)(from + first * features, features, count, views, buffer + i * size);
        }
        for (size_t i = 0; i < patches; i++)
            for (size_t j = 0; j < steps; j++) {
                NAME(compare)(buffer + i * size, buffer + (patches + j) * size, WIDTH, features, found);
                memcpy(out + (i * steps + j) * batch + first, found, count * sizeof(float));
            }
    }
}

/* One channel of few windows: columns are patches, or steps. */
INLINE void NAME(compare_one_by_one)(
    const struct Views *views, const float *inter, const float *intra, float *out, float *buffer) {
    const size_t patches = views->patches, steps = views->steps, batch = views->batch, features = views->features;
    const size_t size = 2 * features * WIDTH, row = batch * features;
    float found[WIDTH], *tile = buffer + (steps + WIDTH - 1) / WIDTH * size;
    for (size_t window = 0; window < batch; window++, inter += features, intra += features) {
        for (size_t j = 0; j < steps; j += WIDTH)
            NAME(prepare)(
                intra + j * row, row, steps - j < WIDTH ? steps - j : WIDTH, views, buffer + j / WIDTH * size);
        for (size_t first = 0; first < patches; first += WIDTH) {
            const size_t count = patches - first < WIDTH ? patches - first : WIDTH;
            NAME(prepare)(inter + first * row, row, count, views, tile);
            for (size_t j = 0; j < steps; j++) {
                NAME(compare)(tile, buffer + j / WIDTH * size, j % WIDTH, features, found);
                for (size_t i = 0; i < count; i++) out[((first + i) * steps + j) * batch + window] = found[i];
            }
        }
    }
}

FUNCTION int NAME(distances)(const struct Views *views, const float *inter, const float *intra, float *out) {
    float *buffer = scratch((views->patches + views->steps + 2) * 2 * views->features * WIDTH);
    if (!buffer) return 0;
    for (size_t channel = 0; channel < views->channels; channel++) {
        if (2 * views->batch > WIDTH)
            NAME(compare_batch)(views, inter, intra, out, buffer);
        else
            NAME(compare_one_by_one)(views, inter, intra, out, buffer);
        inter += views->inter_stride, intra += views->intra_stride;
        out += views->patches * views->steps * views->batch;
    }
    free(buffer);
    return 1;
}
