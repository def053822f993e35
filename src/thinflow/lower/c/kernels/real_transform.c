typedef struct {
    int32_t slices, rows, columns, height, width; /* of the input, and of the transform */
    int32_t longest;                              /* of height and width */
    const float *cosines, *sines;                 /* [longest / 2]: the angles -2 pi i / longest */
} ${name}_t;

/* The Fourier transform of so many complex numbers, a power of two, in place. */
static void ${name}_line(float *z, int32_t count, const ${name}_t *s)
{
    for (int32_t i = 1, j = 0; i < count; i++) {
        int32_t bit = count / 2;
        for (; (j & bit) != 0; bit /= 2) {
            j ^= bit;
        }
        j ^= bit;
        if (i < j) {
            const float re = z[2 * i], im = z[2 * i + 1];
            z[2 * i] = z[2 * j];
            z[2 * i + 1] = z[2 * j + 1];
            z[2 * j] = re;
            z[2 * j + 1] = im;
        }
    }
    for (int32_t size = 1; size < count; size *= 2) {
        const int32_t step = s->longest / (2 * size);
        for (int32_t k = 0; k < size; k++) {
            const float c = s->cosines[k * step], d = s->sines[k * step];
            for (int32_t i = 2 * k; i < 2 * count; i += 4 * size) {
                const int32_t j = i + 2 * size;
                const float re = z[j] * c - z[j + 1] * d, im = z[j] * d + z[j + 1] * c;
                z[j] = z[i] - re;
                z[j + 1] = z[i + 1] - im;
                z[i] += re;
                z[i + 1] += im;
            }
        }
    }
}

/* Slice by slice: row by row, of which the first half is kept, then column by column. `line` has room for the longest. */
static void $name(const float *x, float *y, float *line, const ${name}_t *s)
{
    const int32_t bins = s->width / 2 + 1;
    for (int32_t slice = 0; slice < s->slices; slice++) {
        for (int32_t row = 0; row < s->height; row++) {
            for (int32_t i = 0; i < s->width; i++) {
                line[2 * i] = row < s->rows && i < s->columns ? x[row * s->columns + i] : 0.0f;
                line[2 * i + 1] = 0.0f;
            }
            ${name}_line(line, s->width, s);
            memcpy(y + 2 * row * bins, line, (size_t)(2 * bins) * sizeof *y);
        }
        for (int32_t bin = 0; s->height > 1 && bin < bins; bin++) {
            for (int32_t row = 0; row < s->height; row++) {
                line[2 * row] = y[2 * (row * bins + bin)];
                line[2 * row + 1] = y[2 * (row * bins + bin) + 1];
            }
            ${name}_line(line, s->height, s);
            for (int32_t row = 0; row < s->height; row++) {
                y[2 * (row * bins + bin)] = line[2 * row];
                y[2 * (row * bins + bin) + 1] = line[2 * row + 1];
            }
        }
        x += s->rows * s->columns;
        y += 2 * s->height * bins;
    }
}
