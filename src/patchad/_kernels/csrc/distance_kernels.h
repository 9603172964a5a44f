/* The distance of every patch of one view to every step of the other, for one instruction set; `mixing_kernels.h`
   includes this file and says what the names mean.

   A tile has a row for each feature and WIDTH columns: windows, or places of one window. */

/* e to the x, for x up to 0: a power of two times a polynomial of what is left. */
INLINE float NAME(exponential)(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float shift = 12582912.0f; /* floats as large as this are whole numbers */
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

/* Write the softmax over the features over `tile`, and its logarithm to `logs`. */
FUNCTION void NAME(softmax)(float *restrict tile, float *restrict logs, size_t features) {
    float most[WIDTH], sum[WIDTH] = {0};
    for (size_t i = 0; i < WIDTH; i++) most[i] = tile[i];
    for (size_t k = 1; k < features; k++)
        for (size_t i = 0; i < WIDTH; i++) most[i] = tile[k * WIDTH + i] > most[i] ? tile[k * WIDTH + i] : most[i];
    for (size_t k = 0; k < features; k++)
        for (size_t i = 0; i < WIDTH; i++) {
            logs[k * WIDTH + i] = tile[k * WIDTH + i] - most[i];
            tile[k * WIDTH + i] = NAME(exponential)(logs[k * WIDTH + i]);
            sum[i] += tile[k * WIDTH + i];
        }
    for (size_t i = 0; i < WIDTH; i++) {
        most[i] = logf(sum[i]);
        sum[i] = 1.0f / sum[i];
    }
    for (size_t k = 0; k < features; k++)
        for (size_t i = 0; i < WIDTH; i++) {
            logs[k * WIDTH + i] -= most[i];
            tile[k * WIDTH + i] *= sum[i];
        }
}

/* Read `count` rows of features, each `stride` after the one before, and write what is compared of them: a tile a, and
   a tile b behind it. */
INLINE void NAME(prepare)(const float *from, size_t stride, size_t count, const struct Views *views, float *tile) {
    const size_t size = views->features * WIDTH;
    if (count < WIDTH) memset(tile, 0, size * sizeof(float));
    NAME(turn)(from, stride, count, views->features, tile, WIDTH, 0);
    if (views->softmax) {
        NAME(softmax)(tile, tile + size, views->features);
        return;
    }
    const float scale = 1.0f / __builtin_sqrtf((float)views->features);
    for (size_t k = 0; k < size; k++) tile[k] = tile[k + size] = tile[k] * scale;
}

/* The sum over features of the difference of a times the difference of b, nowhere below zero: of each column of one
   and the same column of other, or, where that is not WIDTH, of each column of one and this column of other. */
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
    const struct Views *views, const float *inter, const float *intra, float *out, float *memory) {
    const size_t patches = views->patches, steps = views->steps, batch = views->batch, features = views->features;
    const size_t size = 2 * features * WIDTH, row = batch * features;
    float found[WIDTH];
    for (size_t first = 0; first < batch; first += WIDTH) {
        const size_t count = batch - first < WIDTH ? batch - first : WIDTH;
        for (size_t place = 0; place < patches + steps; place++) {
            const float *from = place < patches ? inter + place * row : intra + (place - patches) * row;
            NAME(prepare)(from + first * features, features, count, views, memory + place * size);
        }
        for (size_t i = 0; i < patches; i++)
            for (size_t j = 0; j < steps; j++) {
                NAME(compare)(memory + i * size, memory + (patches + j) * size, WIDTH, features, found);
                memcpy(out + (i * steps + j) * batch + first, found, count * sizeof(float));
            }
    }
}

/* One channel of few windows: columns are patches, or steps. */
INLINE void NAME(compare_one_by_one)(
    const struct Views *views, const float *inter, const float *intra, float *out, float *memory) {
    const size_t patches = views->patches, steps = views->steps, batch = views->batch, features = views->features;
    const size_t size = 2 * features * WIDTH, row = batch * features;
    float found[WIDTH], *tile = memory + (steps + WIDTH - 1) / WIDTH * size;
    for (size_t window = 0; window < batch; window++, inter += features, intra += features) {
        for (size_t j = 0; j < steps; j += WIDTH)
            NAME(prepare)(intra + j * row, row, steps - j < WIDTH ? steps - j : WIDTH, views, memory + j / WIDTH * size);
        for (size_t first = 0; first < patches; first += WIDTH) {
            const size_t count = patches - first < WIDTH ? patches - first : WIDTH;
            NAME(prepare)(inter + first * row, row, count, views, tile);
            for (size_t j = 0; j < steps; j++) {
                NAME(compare)(tile, memory + j / WIDTH * size, j % WIDTH, features, found);
                for (size_t i = 0; i < count; i++) out[((first + i) * steps + j) * batch + window] = found[i];
            }
        }
    }
}

FUNCTION int NAME(distances)(const struct Views *views, const float *inter, const float *intra, float *out) {
    float *memory = scratch((views->patches + views->steps + 2) * 2 * views->features * WIDTH);
    if (!memory) return 0;
    for (size_t channel = 0; channel < views->channels; channel++) {
        if (2 * views->batch > WIDTH)
            NAME(compare_batch)(views, inter, intra, out, memory);
        else
            NAME(compare_one_by_one)(views, inter, intra, out, memory);
        inter += views->inter_stride, intra += views->intra_stride;
        out += views->patches * views->steps * views->batch;
    }
    free(memory);
    return 1;
}
