#include "real_transform.c"

/* The real numbers [slices,width] of spectra [slices,width/2+1], complex. `line` has room for a transform. */
static void $name(const float *x, float *y, float *line, const real_transform_t *s)
{
    const int32_t half = s->width / 2;
    for (int32_t slice = 0; slice < s->slices; slice++, x += 2 * (half + 1), y += s->width) {
        /* Of the conjugate: the real part of its transform is that of the way back. */
        for (int32_t k = 1; k < half; k++) {
            float *const other = line + 2 * (s->width - k);
            line[2 * k] = other[0] = x[2 * k];
            line[2 * k + 1] = -x[2 * k + 1];
            other[1] = x[2 * k + 1];
        }
        line[0] = x[0];
        line[2 * half] = x[2 * half];
        line[1] = line[2 * half + 1] = 0.0f;
        real_transform_line(line, s->width, s);
        for (int32_t i = 0; i < s->width; i++) {
            y[i] = line[2 * i] / (float)s->width;
        }
    }
}
