#include "fixed_transform.c"

typedef struct {
    int32_t rows, size, half;  /* size: samples of a row; half: of the length of the transform */
    const uint16_t *places;    /* [half]: where the first stage has what comes in */
    const ${c_type} *turns;    /* complex: those of the transform of half the length */
    const ${c_type} *between;  /* [half / 2] complex: those that lie halfway, from the second on */
} ${name}_t;

/* x [rows,size], with zeros behind it -> y [rows,half+1] complex. Two samples make a complex number, and a transform of half the
   length holds both halves; its mirror image tells them apart. */
static void $name(const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    const int32_t half = s->half;
    for (int32_t row = 0; row < s->rows; row++, x += s->size, y += 2 * (half + 1)) {
        for (int32_t i = 0; i < half; i++) {
            ${c_type} *const z = y + 2 * s->places[i];
            z[0] = 2 * i < s->size ? x[2 * i] : 0;
            z[1] = 2 * i + 1 < s->size ? x[2 * i + 1] : 0;
        }
        fixed_transform_$type(y, half, s->turns, 1);
        const ${sum_type} first = fixed_transform_${type}_part(y[0], 2), other = fixed_transform_${type}_part(y[1], 2);
        y[0] = (${c_type})(first + other);
        y[1] = 0;
        y[2 * half] = (${c_type})(first - other);
        y[2 * half + 1] = 0;
        for (int32_t k = 1; k <= half / 2; k++) {
            ${c_type} *const low = y + 2 * k, *const high = y + 2 * (half - k);
            ${sum_type} turned[2];
            const ${sum_type} low_re = fixed_transform_${type}_part(low[0], 2);
            const ${sum_type} low_im = fixed_transform_${type}_part(low[1], 2);
            const ${sum_type} high_re = fixed_transform_${type}_part(high[0], 2);
            const ${sum_type} high_im = fixed_transform_${type}_part(high[1], 2);
            const ${c_type} re = (${c_type})(low_re + high_re), im = (${c_type})(low_im - high_im);
            fixed_transform_${type}_turned((${c_type})(low_re - high_re), (${c_type})(low_im + high_im), s->between + 2 * (k - 1),
                                           turned);
            low[0] = (${c_type})((re + turned[0]) >> 1);
            low[1] = (${c_type})((im + turned[1]) >> 1);
            high[0] = (${c_type})((re - turned[0]) >> 1);
            high[1] = (${c_type})((turned[1] - im) >> 1);
        }
    }
}
