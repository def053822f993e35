#include "fixed_transform.c"

typedef struct {
    int32_t rows, size, half;  /* size: samples of a row; half: of the length of the transform */
    const uint16_t *places;    /* [half]: where the first stage has what comes in */
    const ${c_type} *turns;    /* complex: those of the transform of half the length */
    const ${c_type} *between;  /* [half / 2] complex: those that lie halfway, from the second on */
} ${name}_t;

/* x [rows,half+1] complex -> y [rows,size]. */
static void $name(const ${c_type} *x, ${c_type} *y, const ${name}_t *s)
{
    const int32_t half = s->half;
    for (int32_t row = 0; row < s->rows; row++, x += 2 * (half + 1), y += s->size) {
        ${c_type} *const first = y + 2 * s->places[0];
        first[0] = (${c_type})fixed_transform_${type}_part((${c_type})((${sum_type})x[0] + x[2 * half]), 2);
        first[1] = (${c_type})fixed_transform_${type}_part((${c_type})((${sum_type})x[0] - x[2 * half]), 2);
        for (int32_t k = 1; k <= half / 2; k++) {
            const ${c_type} *const low = x + 2 * k, *const high = x + 2 * (half - k);
            ${c_type} *const to_low = y + 2 * s->places[k], *const to_high = y + 2 * s->places[half - k];
            ${sum_type} turned[2];
            const ${sum_type} low_re = fixed_transform_${type}_part(low[0], 2);
            const ${sum_type} low_im = fixed_transform_${type}_part(low[1], 2);
            const ${sum_type} high_re = fixed_transform_${type}_part(high[0], 2);
            const ${sum_type} high_im = fixed_transform_${type}_part((${c_type})-(${sum_type})high[1], 2);
            const ${c_type} re = (${c_type})(low_re + high_re), im = (${c_type})(low_im + high_im);
            fixed_transform_${type}_turned((${c_type})(low_re - high_re), (${c_type})(low_im - high_im), s->between + 2 * (k - 1),
                                           turned);
            to_low[0] = (${c_type})(re + turned[0]);
            to_low[1] = (${c_type})(im + turned[1]);
            to_high[0] = (${c_type})(re - turned[0]);
            to_high[1] = (${c_type})(turned[1] - im);
        }
        fixed_transform_$type(y, half, s->turns, -1);
    }
}
